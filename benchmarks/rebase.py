"""B14: what each commit that came first costs a DELETE of other rows of the same file, without Spark.

No other engine lands here: deltalake and delta-spark abort. Beside it stands what deltalake needs
for an append over as many appends, where no row has to be compared.
"""

import tempfile
from itertools import count
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, write_deltalake
from deltalake import DeltaTable as RustTable
from pyroaring import BitMap64

from benchmarks.delta_spark_turns import compare_medians, take_turns
from benchmarks.measuring import Comparison, seconds, show
from engine.actions.files import AddFile, tombstone
from engine.deletion_vectors.files import read_deletion_vector, write_deletion_vector
from engine.schema.types import PrimitiveType, StructField, StructType
from engine.table import DeltaTable
from engine.transaction.optimistic_transaction import OptimisticTransaction

WINNERS, VECTORS, ROWS = (1, 10, 100), (10, 1_000_000), 4_000_000
_SCHEMA = StructType((StructField("id", PrimitiveType("long"), nullable=True),))


def measure() -> list[Comparison]:
    """Milliseconds a winner, the commit itself included, for each number of winners and vector size."""
    results: list[Comparison] = []
    with tempfile.TemporaryDirectory() as scratch:
        for vector in VECTORS:
            for winners in WINNERS:
                place = Path(scratch) / f"{vector}-{winners}"
                ours, theirs = _Ours(place / "engine", vector), _Theirs(place / "deltalake")
                times = take_turns(
                    {
                        "engine": lambda ours=ours, n=winners: ours.commit_over(n) * 1000 / n,
                        "deltalake": lambda theirs=theirs, n=winners: (
                            theirs.commit_over(n) * 1000 / n
                        ),
                    },
                    warm_up=1,
                )
                ours.check()
                theirs.check()
                what = f"B14 rebase over {winners} winners, vectors of {vector:,} rows, each"
                results += [
                    Comparison(line.what, line.ours, "deltalake's append", line.other, "ms")
                    for line in compare_medians(what, times, ["deltalake"])
                ]
    return results


class _Ours:
    """A table of one file with a deletion vector, of which every transaction deletes the next row."""

    def __init__(self, place: Path, vector: int) -> None:
        self._table = DeltaTable.create(str(place), _SCHEMA)
        pq.write_table(pa.table({"id": range(ROWS)}), place / "rows.parquet")
        size = (place / "rows.parquet").stat().st_size
        stats = f'{{"numRecords":{ROWS},"tightBounds":false}}'
        self._deleted = BitMap64(range(1, 3 * vector, 3))
        self._next = count(0, 3)
        txn = self._table.start_transaction()
        vector_of_file = write_deletion_vector(self._table.store, self._deleted)
        file = AddFile(
            path="rows.parquet",
            partition_values={},
            size=size,
            modification_time=0,
            data_change=True,
            stats=stats,
            deletion_vector=vector_of_file,
        )
        txn.stage(file)
        txn.commit("WRITE", {"mode": "Append"})

    def commit_over(self, winners: int) -> float:
        """Seconds of a commit that finds so many since the version it read."""
        loser = self._table.start_transaction()
        lost = next(self._next)
        self._stage(loser, self._deleted | BitMap64([lost]), lost)
        for _ in range(winners):
            row = next(self._next)
            self._deleted.add(row)
            winner = self._table.start_transaction()
            self._stage(winner, self._deleted, row)
            winner.commit("DELETE", {"predicate": [f"id = {row}"]})
        self._deleted.add(lost)
        return seconds(lambda: loser.commit("DELETE", {"predicate": [f"id = {lost}"]}))

    def check(self) -> None:
        """Every row that anybody deleted is deleted, and no other."""
        [file] = self._table.snapshot().add_files()
        assert file.deletion_vector is not None  # noqa: S101
        assert read_deletion_vector(self._table.store, file.deletion_vector) == self._deleted  # noqa: S101

    def _stage(self, txn: OptimisticTransaction, deleted: BitMap64, row: int) -> None:
        txn.read_where(f"id = {row}", every_match_changes=True)
        assert txn.snapshot is not None  # noqa: S101
        [file] = txn.snapshot.add_files()
        vector = write_deletion_vector(self._table.store, deleted)
        txn.stage(tombstone(file), msgspec.structs.replace(file, deletion_vector=vector))


class _Theirs:
    """A table that only grows."""

    def __init__(self, place: Path) -> None:
        place.mkdir(parents=True)
        self._place, self._appended = str(place), 0
        RustTable.create(self._place, schema=pa.schema([("id", pa.int64())]))

    def commit_over(self, winners: int) -> float:
        """Seconds of an append, its one row included, that finds so many since the version it read."""
        row = pa.table({"id": [1]})
        loser = RustTable(self._place)
        for _ in range(winners):
            write_deltalake(self._place, row, mode="append")
        self._appended += winners + 1
        properties = CommitProperties(max_commit_retries=1000)
        return seconds(
            lambda: write_deltalake(loser, row, mode="append", commit_properties=properties)
        )

    def check(self) -> None:
        """Every append is there."""
        assert RustTable(self._place).count() == self._appended  # noqa: S101


if __name__ == "__main__":
    show(measure())
