"""Rows of a winning commit that Spark tests: conditions beyond Arrow, and the join of MERGE.

If no comparison is possible, the two conflict.
"""

import pytest
from pyspark.sql import SparkSession

from engine.commands.command import Command
from engine.commands.merge import Merge, MergeClause
from engine.commands.model import Append, Delete, Update
from engine.commands.sources import RowsSource, TableSource
from engine.errors import CannotEvaluateError, ConcurrentAppendException
from engine.expressions.evaluate import evaluate_arrow
from engine.expressions.parse import parse_condition
from engine.operations.run import run
from engine.schema.types import LONG, STRING, StructField, StructType
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver
from engine.transaction.optimistic_transaction import OptimisticTransaction

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]

SCHEMA = StructType((StructField("id", LONG), StructField("name", STRING)))
CONDITION = "initcap(name) = 'Ann'"


class _Meanwhile(TransactionObserver):
    """An observer that runs another command once everything is staged, and may take Spark away."""

    def __init__(
        self, table: DeltaTable, spark: SparkSession, other: Command, *, with_spark: bool = True
    ) -> None:
        self._table, self._spark, self._other = table, spark, other
        self._with_spark = with_spark

    def staged(self, txn: OptimisticTransaction) -> None:  # type: ignore[override]
        run(self._other, DeltaTable.open(self._table.uri), self._spark)
        if not self._with_spark:
            txn.test_rows_with(_nobody)


def _nobody(_condition, _rows):
    what = "There is no Spark here."
    raise CannotEvaluateError(what)


def _insert(number: int, name: str) -> Append:
    return Append(RowsSource((), ((str(number), f"'{name}'"),)))


@pytest.fixture
def table(tmp_path, spark: SparkSession) -> DeltaTable:
    properties = {
        "delta.enableDeletionVectors": "true",
        "delta.isolationLevel": "Serializable",
    }
    table = DeltaTable.create(str(tmp_path / "t"), SCHEMA, properties=properties)
    run(Append(RowsSource((), (("0", "'ANN'"), ("1", "'eve'")))), table, spark)
    return table


def test_the_condition_of_these_tests_is_beyond_arrow(table: DeltaTable):
    with pytest.raises(CannotEvaluateError):
        evaluate_arrow(parse_condition(CONDITION, SCHEMA), table.snapshot().to_arrow())


@pytest.mark.parametrize("command", [Delete(CONDITION), Update({"name": "'x'"}, CONDITION)])
def test_spark_sees_that_a_new_row_does_not_match(
    command: Delete | Update, table: DeltaTable, spark: SparkSession
):
    meanwhile = _Meanwhile(table, spark, _insert(2, "bob"))
    result = run(command, table, spark, observer=meanwhile)
    assert [resolution.how for resolution in result.resolved] == ["rows read"]
    names = {row["id"]: row["name"] for row in table.snapshot().to_arrow().to_pylist()}
    kept = {1: "eve", 2: "bob"}
    assert names == (kept if isinstance(command, Delete) else {0: "x", **kept})


@pytest.mark.parametrize(("name", "with_spark"), [("aNN", True), ("bob", False)])
def test_a_row_that_matches_or_cannot_be_tested_is_a_conflict(
    name: str, with_spark: bool, table: DeltaTable, spark: SparkSession
):
    meanwhile = _Meanwhile(table, spark, _insert(2, name), with_spark=with_spark)
    with pytest.raises(ConcurrentAppendException):
        run(Delete(CONDITION), table, spark, observer=meanwhile)
    assert table.version() == 2


@pytest.mark.parametrize(("own", "lost"), [(True, True), (False, False)])
def test_a_merge_that_reads_its_target_as_source_reads_more_than_the_joined_rows(
    own: bool, lost: bool, table: DeltaTable, spark: SparkSession
):
    """The new image joins no row of the source, but would have been one."""
    source = RowsSource(("id", "name"), (("100", "'ANN'"),))
    if own:
        source = TableSource(table.uri, ("id + 100 AS id", "name"), "name = 'ANN'")
    merge = Merge(source, "target.id = source.id", (MergeClause("not_matched", "insert_all"),))
    meanwhile = _Meanwhile(table, spark, Update({"name": "'ANN'"}, "id = 1"))
    if lost:
        with pytest.raises(ConcurrentAppendException) as raised:
            run(merge, table, spark, observer=meanwhile)
        assert raised.value.conflict.row_level == "its source reads the target"
    else:
        run(merge, table, spark, observer=meanwhile)
    assert (100 in table.snapshot().to_arrow()["id"].to_pylist()) is not lost
