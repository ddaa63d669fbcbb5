"""Opening a table of a million files, and following its log from there."""

import sys
import tempfile
from operator import itemgetter
from pathlib import Path

from deltalake import DeltaTable as RustTable

from benchmarks.measuring import (
    Comparison,
    in_own_process,
    report_usage,
    seconds,
    show,
    side_by_side,
)
from benchmarks.synthetic_logs import (
    CHECKPOINT_VERSION,
    added_file,
    table_with_checkpoint,
    write_commit,
)
from engine.table import DeltaTable

FILES = 1_000_000
_REFRESHES = 5


def measure(files: int = FILES) -> list[Comparison]:
    """Time and memory of opening, of refreshing, and of finding the files of a condition."""
    with tempfile.TemporaryDirectory() as scratch:
        place = table_with_checkpoint(Path(scratch) / "t", files)
        pairs = [[_usage(name, place) for name in _OPENERS] for _ in range(3)]
        ours, other = (min(runs, key=itemgetter("seconds")) for runs in zip(*pairs, strict=True))
        what = f"open a table of {files:,} files"
        return [
            Comparison(f"{what}: time", ours["seconds"], "deltalake", other["seconds"], "s"),
            Comparison(f"{what}: memory", ours["megabytes"], "deltalake", other["megabytes"], "MB"),
            _prune(place, files),
            _refresh(place, files),
        ]


def _usage(name: str, place: Path) -> dict[str, float]:
    return in_own_process("benchmarks.open_table", name, str(place))


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


def _refresh(place: Path, files: int) -> Comparison:
    """One commit at a time is added; each side reads on from what it has."""
    table, rust = DeltaTable.open(str(place)), RustTable(str(place))
    ours = other = float("inf")
    for version in range(CHECKPOINT_VERSION + 2, CHECKPOINT_VERSION + 2 + _REFRESHES):
        write_commit(place, version, [{"add": added_file(files + version)}])
        ours = min(ours, seconds(table.version))
        other = min(other, seconds(rust.update_incremental))
    return Comparison("refresh it after one commit", ours, "deltalake", other, "s")


def _open_here(place: str) -> object:
    snapshot = DeltaTable.open(place).snapshot()
    return snapshot, snapshot.file_count


def _open_deltalake(place: str) -> object:
    table = RustTable(place)
    return table, table.version()


_OPENERS = {"engine": _open_here, "deltalake": _open_deltalake}

if __name__ == "__main__":
    if len(sys.argv) == 3:
        report_usage(lambda: _OPENERS[sys.argv[1]](sys.argv[2]))
    else:
        show(measure())
