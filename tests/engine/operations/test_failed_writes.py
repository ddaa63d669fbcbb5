"""Failed writes: the table's directory is left as it was."""

from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.commands.model import Append, Delete, FileSource, Optimize, Overwrite
from engine.errors import InvariantViolationError, OperationCancelledError
from engine.operations.execution import Execution
from engine.operations.rows.delete import delete
from engine.operations.run_options import RunOptions
from engine.transaction.observer import TransactionObserver
from tests.shares import one_in

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

NAMES = "(id BIGINT, p STRING, v DOUBLE)"
PROPERTIES = {
    "vectors": "'delta.enableDeletionVectors' = 'true'",
    "rewrites": "'delta.enableDeletionVectors' = 'false', 'delta.enableChangeDataFeed' = 'true'",
}
MERGE = (
    "MERGE INTO t USING (VALUES (1, 'm'), (99, 'n')) AS s (id, p) ON t.id = s.id"
    " WHEN MATCHED THEN UPDATE SET p = s.p WHEN NOT MATCHED THEN INSERT (id, p) VALUES (s.id, s.p)"
)


class _Stop(TransactionObserver):
    """An observer that ends the operation after everything is written and before the commit."""

    def __init__(self) -> None:
        self.listings: list[set[str]] = []
        self.root = Path()

    def staged(self, txn) -> None:  # noqa: ARG002
        self.listings.append(_list_files(self.root))

    def before_commit(self, txn, attempt_version) -> None:  # noqa: ARG002
        what = "Stopped before the commit."
        raise OperationCancelledError(what)


def _list_files(root):
    return {p.relative_to(root).as_posix() for p in Path(root).rglob("*") if p.is_file()}


def _source(tmp_path, ids, v=1.0):
    """Write three files, so that several tasks write."""
    folder = tmp_path / f"source {min(ids)}"
    folder.mkdir()
    for number, id_ in enumerate(ids):
        rows = {"id": [id_], "p": ["ab"[number % 2]], "v": [v if number else -v]}
        pq.write_table(pa.table(rows), folder / f"{number}.parquet")
    return FileSource(str(folder), "parquet")


@pytest.mark.parametrize("kind", one_in(2, PROPERTIES))
def test_a_write_stopped_before_its_commit_leaves_nothing(do, empty_table, tmp_path, kind):
    do(f"CREATE TABLE t {NAMES} USING DELTA TBLPROPERTIES ({PROPERTIES[kind]})")
    for start in (1, 11):
        do(Append(_source(tmp_path, range(start, start + 3))))
    if kind == "vectors":
        do("DELETE FROM t WHERE id = 2 OR id = 13")
    more = _source(tmp_path, range(21, 24))
    before, version = _list_files(empty_table.uri), empty_table.version()
    statements = [
        "DELETE FROM t WHERE id = 1",
        "UPDATE t SET v = v + 1 WHERE id > 2",
        MERGE,
        Overwrite(more, replace_where="v < 100"),
    ]
    if kind == "vectors":
        statements += [
            Append(more),
            Overwrite(more),
            Optimize(),
            Optimize(zorder_by=("id", "p")),
            "REORG TABLE t APPLY (PURGE)",
            "CREATE OR REPLACE TABLE t USING DELTA AS SELECT * FROM delta.`{uri}`",
        ]
    for statement in statements:
        stop = _Stop()
        stop.root = Path(empty_table.uri)
        text = statement.format(uri=empty_table.uri) if isinstance(statement, str) else statement
        with pytest.raises(OperationCancelledError):
            do(text, observer=stop)
        assert stop.listings[0] >= before, "it had got as far as its commit"
        assert _list_files(empty_table.uri) == before, statement
    assert empty_table.version() == version


def test_files_of_tasks_that_ended_go_when_another_task_fails(do, empty_table, tmp_path, spark):
    """The last row of a long file breaks a rule, after short files have been written."""
    rule = "TBLPROPERTIES ('delta.constraints.positive' = 'v > 0')"
    do(f"CREATE TABLE t {NAMES} USING DELTA {rule}")
    folder = tmp_path / "rows"
    folder.mkdir()
    for number, count in enumerate((400_000, 1, 1, 1)):
        values = [1.0] * (count - 1) + [-1.0 if count > 1 else 1.0]
        rows = {"id": list(range(count)), "p": ["a"] * count, "v": values}
        pq.write_table(pa.table(rows), folder / f"{number}.parquet")
    size = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "4m")  # a task for each file
    try:
        with pytest.raises(InvariantViolationError, match="positive"):
            do(Append(FileSource(str(folder), "parquet")))
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", size)
    assert {name for name in _list_files(empty_table.uri) if name.endswith(".parquet")} == set()


class _CancelledAtTheEnd(Execution):
    """A progress callback whose cancellation takes effect after the stage's work is done."""

    @contextmanager
    def spark_stage(self, stage):
        with super().spark_stage(stage):
            yield
        what = "Cancelled."
        raise OperationCancelledError(what)


def test_vectors_of_a_stage_cancelled_at_its_end_are_removed(do, empty_table, tmp_path, spark):
    do("CREATE TABLE t (id BIGINT) USING DELTA TBLPROPERTIES (" + PROPERTIES["vectors"] + ")")
    pq.write_table(pa.table({"id": pa.array(range(40_000), pa.int64())}), tmp_path / "s.parquet")
    do(Append(source=FileSource(str(tmp_path / "s.parquet"), "parquet")))
    before = _list_files(empty_table.store.root)
    execution = _CancelledAtTheEnd(empty_table, spark, RunOptions(in_process_bytes=0))
    delete_some = Delete(where="pmod(hash(id), 3) = 0")
    with pytest.raises(OperationCancelledError), execution.clean_up_on_failure():
        delete(delete_some, execution)
    assert _list_files(empty_table.store.root) == before
