"""Reading the history of a long log, newest first."""

import tempfile
from collections import deque
from pathlib import Path

from deltalake import DeltaTable as RustTable

from benchmarks.measuring import Comparison, show, side_by_side
from benchmarks.synthetic_logs import table_with_commits
from engine.table import DeltaTable

COMMITS = 100_000
_PAGE = 50


def measure(commits: int = COMMITS) -> list[Comparison]:
    """Measure a page of history, and all of it."""
    with tempfile.TemporaryDirectory() as scratch:
        place = str(table_with_commits(Path(scratch) / "t", commits))
        table, rust = DeltaTable.open(place), RustTable(place)
        page = side_by_side(lambda: table.history(_PAGE), lambda: rust.history(_PAGE))
        whole = side_by_side(lambda: deque(table.iter_history(), maxlen=0), rust.history, times=2)
        return [
            Comparison(
                f"the newest {_PAGE} of {commits:,} commits", page[0], "deltalake", page[1], "s"
            ),
            Comparison(f"all {commits:,} commits", whole[0], "deltalake (a list)", whole[1], "s"),
        ]


if __name__ == "__main__":
    show(measure())
