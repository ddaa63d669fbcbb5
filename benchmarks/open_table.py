"""Opening a table of a million files, and following its log from there."""

import sys
import tempfile
from operator import itemgetter
from pathlib import Path

from deltalake import DeltaTable as RustTable

from benchmarks.measuring import (
    Comparison,
    report_usage,
    run_in_process,
    seconds,
    show,
    side_by_side,
)
from benchmarks.synthetic_logs import (
    CHECKPOINT_VERSION,
    build_add,
    table_of_one_commit,
    table_with_checkpoint,
    write_commit,
)
from engine.table import DeltaTable

FILES, LATER = 1_000_000, 1_000
_TURNS, _REFRESHES = 3, 5


def measure(files: int = FILES, later: int = LATER) -> list[Comparison]:
    """Time and memory of opening, of refreshing, and of finding the files of a condition."""
    with tempfile.TemporaryDirectory() as scratch:
        large = table_with_checkpoint(Path(scratch) / "checkpoint", files)
        one = table_of_one_commit(Path(scratch) / "commit", files)
        long = table_with_checkpoint(Path(scratch) / "commits", files // 10)
        for version in range(CHECKPOINT_VERSION + 2, CHECKPOINT_VERSION + 2 + later):
            write_commit(long, version, [{"add": build_add(files + version)}])
        return [
            *_compare_openings(
                f"B1 open a table of {files:,} files in one checkpoint", large, "whole"
            ),
            *_compare_openings(f"B1 open a table of {files:,} files in one commit", one, "whole"),
            *_compare_openings(
                f"B1 open a table of {files // 10:,} files in one checkpoint and {later:,} commits",
                long,
                "whole",
            ),
            *_compare_openings(
                f"B1 only the metadata of a table of {files:,} files", large, "metadata"
            ),
            _prune(large, files),
            *(_refresh(large, files, commits) for commits in (1, 100)),
        ]


def _compare_openings(what: str, place: Path, part: str) -> list[Comparison]:
    """Each in a process of its own, in turns; both find the same files."""
    found = DeltaTable.open(str(place)).snapshot().file_count
    theirs = RustTable(str(place)).get_add_actions().num_rows
    assert found == theirs, (found, theirs)  # noqa: S101
    pairs = [[_usage(name, part, place) for name in _OPENERS] for _ in range(_TURNS)]
    ours, other = (min(runs, key=itemgetter("seconds")) for runs in zip(*pairs, strict=True))
    return [
        Comparison(f"{what}: time", ours["seconds"], "deltalake", other["seconds"], "s"),
        Comparison(f"{what}: memory", ours["megabytes"], "deltalake", other["megabytes"], "MB"),
    ]


def _usage(name: str, part: str, place: Path) -> dict[str, float]:
    return run_in_process("benchmarks.open_table", name, part, str(place))


def _prune(place: Path, files: int) -> Comparison:
    snapshot = DeltaTable.open(str(place)).snapshot()
    table = RustTable(str(place))
    ours, other = side_by_side(
        lambda: snapshot.files("day = 'd7'"),
        lambda: table.file_uris(file_pruning_predicate="day = 'd7'"),
    )
    return Comparison(
        f"the files of one partition of 1,000, of {files:,}", ours, "deltalake", other, "s"
    )


def _refresh(place: Path, files: int, commits: int) -> Comparison:
    """So many commits are added at a time; each side reads on from what it has."""
    table, rust = DeltaTable.open(str(place)), RustTable(str(place))
    ours = other = float("inf")
    for _ in range(_REFRESHES):
        begin = table.version() + 1
        for version in range(begin, begin + commits):
            write_commit(place, version, [{"add": build_add(files + version)}])
        ours = min(ours, seconds(table.version))
        other = min(other, seconds(rust.update_incremental))
        assert table.version() == rust.version() == begin + commits - 1  # noqa: S101
    what = f"B2 refresh a table of {files:,} files by {commits} commit{'s'[: commits - 1]}"
    return Comparison(what, ours, "deltalake", other, "s")


def _open_here(part: str, place: str) -> object:
    if part == "metadata":
        return DeltaTable.definition_of(place).metadata
    snapshot = DeltaTable.open(place).snapshot()
    return snapshot, snapshot.file_count


def _open_deltalake(part: str, place: str) -> object:
    table = RustTable(place)
    return table, table.metadata() if part == "metadata" else table.version()


_OPENERS = {"engine": _open_here, "deltalake": _open_deltalake}

if __name__ == "__main__":
    if len(sys.argv) == 4:
        report_usage(lambda: _OPENERS[sys.argv[1]](*sys.argv[2:]))
    else:
        show(measure())
