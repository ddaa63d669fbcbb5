"""The writes of a table's last 30 days, from narrow columns: writer, statement, overlaps."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models.fields.json import KeyTextTransform
from django.utils import timezone

from engine.conflicts.eligibility import RUNTIMES
from engine.vocabulary import operation_named
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.models import Table
from lakeui.conflicts.filters import may_read_text
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.statements.clients import WriterClient, client_of
from lakeui.conflicts.statements.text import (
    RecordedCondition,
    parse_recorded_condition,
    shape_of,
)

DAYS = 30
MAX_WRITES = 1_000
_BY_FILES = frozenset(runtime.name for runtime in RUNTIMES if not runtime.supported)


class OverlappingAttempt(NamedTuple):
    """A write that overlapped with others, committed or aborted, by its condition."""

    operation: str
    predicate: str
    user_name: str


class RecentWrite(NamedTuple):
    """A commit. `orders_by` is a compaction's new order of rows, empty without one."""

    version: int
    read_version: int | None
    operation: str
    predicate: str
    user_name: str
    engine_info: str
    orders_by: str

    @property
    def overlapped(self) -> bool:
        """Whether versions landed between the one it read and its own."""
        return self.read_version is not None and self.version - self.read_version > 1

    @property
    def client(self) -> WriterClient:
        """The program that wrote it."""
        return client_of(self.engine_info)


@dataclass(frozen=True, slots=True)
class ConditionUse:
    """A condition, its user, operation and frequency; `condition` is of its shape."""

    user_name: str
    operation: str
    text: str
    condition: RecordedCondition
    times: int


@dataclass(frozen=True, slots=True)
class RecentWrites:
    """The latest landed and aborted writes, `MAX_WRITES` of each; `is_capped`: there were more.

    `overlapping` are overlapping writes whose operation has a condition, the aborted ones among
    them, and `conditions` their conditions, the most used first.
    """

    writes: tuple[RecentWrite, ...]
    aborted: int
    is_capped: bool
    overlapping: int
    conditions: tuple[ConditionUse, ...]

    def count_by_client(self) -> list[tuple[WriterClient, int]]:
        """Return programs with their commits, the most first."""
        return Counter(write.client for write in self.writes).most_common()

    def count_file_level_writers(self) -> list[tuple[str, int]]:
        """Return writers whose program always compares files, the busiest first.

        If the log names nobody, the program.
        """
        by_files = (write for write in self.writes if write.client.runtime in _BY_FILES)
        return Counter(w.user_name or str(w.client) for w in by_files).most_common()


def recent_writes(table: Table, reader: Reader | None = None) -> RecentWrites:
    """Return the writes of the last days in two queries, with conditions visible to the reader."""
    since = timezone.now() - timedelta(days=DAYS)
    rows = (
        table.commits.filter(committed_at__gte=since)
        .order_by("-committed_at")
        .annotate(
            z_order=KeyTextTransform("zOrderBy", "operation_parameters"),
            cluster=KeyTextTransform("clusterBy", "operation_parameters"),
        )
        .values_list(
            "version", "read_version", "operation", "predicate", "user_name", "engine_info",
            "z_order", "cluster",
        )[: MAX_WRITES + 1]
    )  # fmt: skip
    recent = tuple(_writes(rows))
    writes = recent[:MAX_WRITES]
    attempts = _list_aborted_attempts(table, since, reader)
    aborted = attempts[:MAX_WRITES]
    overlapping = [
        OverlappingAttempt(w.operation, w.predicate, w.user_name) for w in writes if w.overlapped
    ]
    overlapping = [
        asking
        for asking in (*aborted, *overlapping)
        if operation_named(asking.operation).changes_matches
    ]
    is_capped = len(recent) > MAX_WRITES or len(attempts) > MAX_WRITES
    return RecentWrites(
        writes, len(aborted), is_capped, len(overlapping), _uses(overlapping, table)
    )


def _list_aborted_attempts(
    table: Table, since: datetime, reader: Reader | None
) -> list[OverlappingAttempt]:
    """Aborted attempts: each overlapped with its winning commit at least."""
    aborted = table.conflicts.filter(occurred_at__gte=since).exclude(kind=Conflict.Kind.RESOLVED)
    rows = aborted.order_by("-occurred_at").values_list(
        "current_operation", "current_predicate", "current_user_name"
    )
    asked = (OverlappingAttempt(*row) for row in rows[: MAX_WRITES + 1])
    return [
        one
        if reader is None or may_read_text(one.predicate, reader)
        else one._replace(predicate="")
        for one in asked
    ]


def _uses(overlapping: Iterable[OverlappingAttempt], table: Table) -> tuple[ConditionUse, ...]:
    """Group conditions that differ only in their numbers; the latest represents a group."""
    schema_json = json.dumps(table.schema)
    uses: dict[tuple[str, str, str], list[str]] = {}
    for asking in overlapping:
        if asking.predicate:
            shape = shape_of(asking.predicate)
            uses.setdefault((asking.user_name, asking.operation, shape), []).append(
                asking.predicate
            )
    ranked = sorted(uses.items(), key=lambda item: -len(item[1]))
    return tuple(
        ConditionUse(
            user, operation, texts[0], parse_recorded_condition(shape, schema_json), len(texts)
        )
        for (user, operation, shape), texts in ranked
    )


def _writes(rows: Iterable[tuple[Any, ...]]) -> Iterator[RecentWrite]:
    for row in rows:
        *_, z_order, cluster = row
        orders = next(
            (columns for columns in (z_order, cluster) if columns not in {None, "", "[]"}), ""
        )
        version, read_version, operation, predicate, user_name, engine_info = row[:6]
        yield RecentWrite(
            version, read_version, operation, predicate, user_name, engine_info, str(orders)
        )
