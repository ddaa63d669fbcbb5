"""The decision about price-fixer's UPDATE against four winners, as the engine would record it."""

import random
from datetime import date, timedelta
from typing import Any

from engine.conflict_facts import (
    Decision,
    SharedFile,
    SideChanges,
    SideFile,
    SideReads,
    WinnerVerdicts,
)

FILE = "part-00017-1f0c8a52-3f0e-4d0c-9a37-c3a1b6a2f0d4.c000.snappy.parquet"
OTHER = "part-00302-1f0c8a52-77d1-4c55-8b0a-d21f5e6a9c70.c000.snappy.parquet"
ROWS = 1_630_208
MET = (227_904, 1_007_311, 1_007_318)
_FILE_CHECKS = ("data_added", "read_file_removed", "removed_file_removed")
_OTHER_CHECKS = (
    "protocol_changed",
    "metadata_changed",
    "domain_written",
    "application_committed",
)


def story_decision() -> Decision:
    """Return a decision about 46 files here and 7 there: two are shared, and one of these shares 3 rows."""
    drawn = random.Random(4797)  # noqa: S311 - the same each time
    ours = [_file(drawn, n, date(2026, 8, 10) + timedelta(days=2 * n)) for n in range(44)]
    theirs = [_file(drawn, 500 + n, date(2026, 2, 1) + timedelta(days=31 * n)) for n in range(5)]
    shared = _file(drawn, 0, date(2026, 9, 1), FILE), _file(drawn, 0, date(2026, 10, 4), OTHER)
    return Decision(
        reads=SideReads(conditions=1, files=212),
        current_changes=SideChanges(46, 46, 0, 812_406),
        winner_changes=SideChanges(7, 7, 0, 1871, None),
        winners=tuple(_winners()),
        shared_files=(
            _compare_shared_file(drawn),
            SharedFile(OTHER, "changed", 612, 88, 40, 0, 980_112),
        ),
        order_column="order_date",
        table_files=1204,
        current_files=tuple(sorted([*ours, *shared], key=lambda file: file.low or "")),
        winner_files=tuple(sorted([*theirs, *shared], key=lambda file: file.low or "")),
        duration_ms=812,
        budget_ms=10_000,
        files_opened=2,
    )


def build_resolved_decision() -> Decision:
    """Return the decision about the winning DELETE, which followed its rows through a compaction."""
    drawn = random.Random(4795)  # noqa: S311 - the same each time
    shared = _file(drawn, 0, date(2026, 10, 4), OTHER)
    ours = [_file(drawn, 500 + n, date(2026, 2, 1) + timedelta(days=31 * n)) for n in range(6)]
    packed = [_file(drawn, 900 + n, date(2026, 9, 20) + timedelta(days=n)) for n in range(17)]
    return Decision(
        reads=SideReads(conditions=1, files=7),
        current_changes=SideChanges(7, 7, 0, 1871),
        winner_changes=SideChanges(164, 0, 17, 4_120_004, 4_120_004),
        winners=tuple(_winners()[1:2]),
        order_column="order_date",
        table_files=1204,
        current_files=(*ours, shared),
        winner_files=(*packed, shared),
        duration_ms=233,
        budget_ms=10_000,
        files_opened=0,
    )


def story_rows() -> dict[str, Any]:
    """Return the three rows as a worker read them."""
    names = ("order_id", "customer_id", "order_date", "status", "channel", "discount")
    kinds = ("long", "long", "date", "string", "string", "decimal(6,2)")
    return {
        "path": FILE,
        "version": 4793,
        "positions": list(MET),
        "columns": [{"name": n, "type": k} for n, k in zip(names, kinds, strict=True)],
        "rows": [
            ["70118204551", "81204", "2026-09-14", "open", "web", "0.10"],
            ["70119877020", "90311", "2026-09-28", "open", "web", "0.10"],
            ["70119877112", "90311", "2026-09-28", "open", "web", "0.10"],
        ],
        "omitted_columns": 2,
    }


def _file(drawn: random.Random, number: int, day: date, path: str = "") -> SideFile:
    return SideFile(
        path=path or f"part-{number:05d}-9c1d0f7b-4793.c000.snappy.parquet",
        did="changed",
        low=day.isoformat(),
        high=(day + timedelta(days=drawn.randint(1, 27))).isoformat(),
        row_count=drawn.randint(200, 40_000),
    )


def _compare_shared_file(drawn: random.Random) -> SharedFile:
    def some(near: tuple[float, ...], count: int) -> tuple[int, ...]:
        rows = {
            int(min(max(drawn.gauss(drawn.choice(near), 0.04), 0), 0.999) * ROWS)
            for _ in range(count)
        }
        return tuple(sorted(rows | set(MET)))

    return SharedFile(
        path=FILE,
        version=4793,
        did="changed",
        current_count=4118,
        winner_count=212,
        gone_before_count=1006,
        common_count=3,
        file_row_count=ROWS,
        current_rows=some((0.03, 0.13, 0.28, 0.37, 0.6, 0.8), 190),
        winner_rows=some((0.14, 0.37, 0.62, 0.88), 60),
        gone_before_rows=tuple(sorted(drawn.sample(range(ROWS), 120))),
        common_rows=MET,
    )


def _winners() -> list[WinnerVerdicts]:
    rows = [
        (4794, "STREAMING UPDATE", ("exempt", "none", "none"), "", None),
        (4795, "OPTIMIZE", ("resolved", "resolved", "resolved"), "row map", 233),
        (4796, "STREAMING UPDATE", ("exempt", "none", "none"), "", None),
        (4797, "DELETE", ("resolved", "conflict", "not reached"), "", 812),
    ]
    return [
        WinnerVerdicts(version, operation, _verdicts(operation, last), how, took)
        for version, operation, last, how, took in rows
    ]


def _verdicts(operation: str, last: tuple[str, str, str]) -> dict[str, str]:
    verdicts = dict.fromkeys(_OTHER_CHECKS, "none")
    if operation == "STREAMING UPDATE":
        verdicts["application_committed"] = "passes"
    return verdicts | dict(zip(_FILE_CHECKS, last, strict=True))
