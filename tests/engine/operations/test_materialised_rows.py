"""Materialized rows: a run's data in Spark is gone when the run ends."""

import pytest

from engine.errors import MultipleSourceRowsError
from engine.transaction.observer import TransactionObserver
from tests.engine.operations.conftest import IN_PROCESS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]
MERGE = (
    "MERGE INTO t USING (VALUES (2, 20.0), (9, 9.0)) AS s (id, v) ON t.id = s.id"
    " WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
)
TWICE = MERGE.replace("(9,", "(2,")


def list_persistent(spark):
    return set(spark.sparkContext._jsc.getPersistentRDDs())


class Watch(TransactionObserver):
    """The data that Spark stores after everything is staged."""

    def __init__(self, spark):
        self._spark, self.seen = spark, set()

    def staged(self, txn):  # noqa: ARG002
        self.seen = list_persistent(self._spark)


@pytest.fixture
def small_table(do):
    do("CREATE TABLE t (id BIGINT, v DOUBLE) USING DELTA")
    do("INSERT INTO t VALUES (1, 1.0), (2, 2.0)", in_process_bytes=IN_PROCESS)


@pytest.mark.parametrize(
    "statement",
    [
        MERGE,
        "DELETE FROM t WHERE id IN (SELECT max(id) FROM t)",
        "UPDATE t SET v = (SELECT max(v) FROM t) WHERE id = 1",
    ],
)
def test_rows_that_were_computed_once_are_given_up(do, empty_table, spark, small_table, statement):
    before, watch = list_persistent(spark), Watch(spark)
    do(statement, observer=watch, resolve=lambda _: empty_table)
    assert watch.seen - before
    assert not list_persistent(spark) - before


def test_so_are_those_of_a_run_that_fails(do, spark, small_table):
    before = list_persistent(spark)
    with pytest.raises(MultipleSourceRowsError):
        do(TWICE)
    assert not list_persistent(spark) - before
