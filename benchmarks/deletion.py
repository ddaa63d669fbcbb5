"""DELETE of scattered rows: by deletion vectors against rewriting the files."""

import tempfile
from pathlib import Path

from benchmarks.measuring import Comparison, seconds, show
from benchmarks.spark_lake import local_session, table_of_small_files
from engine.commands.model import Delete
from engine.operations.run import run

FILES, ROWS = 8, 1_000_000
_WHERE = "id % 10007 = 3"


def measure() -> list[Comparison]:
    """Time, and bytes written, for the same rows of the same files."""
    spark = local_session()
    with tempfile.TemporaryDirectory() as scratch:
        spent, written = {}, {}
        for vectors in ("true", "false"):
            place = Path(scratch) / vectors
            properties = {"delta.enableDeletionVectors": vectors}
            table = table_of_small_files(place, FILES, ROWS, properties)
            before = _size(place)
            spent[vectors] = seconds(lambda: run(Delete(where=_WHERE), table, spark))  # noqa: B023 - called at once
            written[vectors] = (_size(place) - before) / 1e6
    what = f"delete 1 row in 10,007 of {FILES} files of {ROWS:,} rows"
    return [
        Comparison(f"{what}: time, by vectors", spent["true"], "by rewriting", spent["false"], "s"),
        Comparison(
            f"{what}: bytes written, by vectors",
            written["true"],
            "by rewriting",
            written["false"],
            "MB",
        ),
    ]


def _size(place: Path) -> int:
    return sum(file.stat().st_size for file in place.rglob("*") if file.is_file())


if __name__ == "__main__":
    show(measure())
