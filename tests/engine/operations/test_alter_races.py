"""Races with ALTER: it reads the table's rows, so changes meanwhile conflict, even blind appends."""

import pytest

from engine.commands.sql import parse_statement
from engine.errors import (
    ConcurrentAppendException,
    ConcurrentTransactionException,
    MetadataChangedException,
)
from engine.operations.run import run
from engine.protocol.features import list_supported_features
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver
from tests.engine.made_tables import stage
from tests.engine.transaction.tables import data_file

ICEBERG = (
    "'delta.enableIcebergCompatV2' = 'true', 'delta.columnMapping.mode' = 'name',"
    " 'delta.enableDeletionVectors' = 'false'"
)


class _Meanwhile(TransactionObserver):
    """An action that runs once, when the named statement is staged."""

    def __init__(self, act) -> None:
        self._act = act

    def staged(self, txn) -> None:  # noqa: ARG002
        act, self._act = self._act, lambda: None
        act()


@pytest.fixture
def race(empty_table):
    """Return `race(statement, act)`, which runs `act` on another handle while the statement is staged."""

    def perform(statement, act):
        observer = _Meanwhile(lambda: act(DeltaTable(empty_table.store)))
        return run(parse_statement(statement), empty_table, None, observer=observer)

    return perform


def _append(table):
    txn = table.start_transaction()
    stage(txn, data_file("f", stats='{"numRecords":2}'))
    txn.commit("WRITE")


def _cluster(column):
    return lambda table: run(parse_statement(f"ALTER TABLE t CLUSTER BY ({column})"), table, None)


@pytest.mark.parametrize(
    "properties",
    [
        "'delta.constraints.positive' = 'id > 0'",
        "'delta.enableRowTracking' = 'true'",
        ICEBERG,
    ],
    ids=["constraint", "row tracking", "iceberg"],
)
@pytest.mark.parametrize("level", ["WriteSerializable", "Serializable"])
def test_a_property_for_empty_tables_only_conflicts_with_an_append(
    do_lightly, empty_table, race, level, properties
):
    do_lightly(
        "CREATE TABLE t (id BIGINT) USING DELTA TBLPROPERTIES"
        f" ('delta.isolationLevel' = '{level}', 'delta.enableDeletionVectors' = 'false')"
    )
    with pytest.raises(ConcurrentAppendException):
        race(f"ALTER TABLE t SET TBLPROPERTIES ({properties})", _append)
    assert empty_table.snapshot().properties.row_tracking is False


def test_other_properties_do_not_mind_an_append(do_lightly, empty_table, race):
    do_lightly("CREATE TABLE t (id BIGINT) USING DELTA")
    race("ALTER TABLE t SET TBLPROPERTIES ('delta.appendOnly' = 'true')", _append)
    assert empty_table.snapshot().file_count == 1


def test_a_feature_does_not_go_while_an_append_still_uses_it(do_lightly, empty_table, race):
    do_lightly(
        "CREATE TABLE t (id BIGINT) USING DELTA TBLPROPERTIES ('delta.feature.rowTracking' = 'supported')"
    )
    with pytest.raises(ConcurrentAppendException):
        race("ALTER TABLE t DROP FEATURE rowTracking", _append)
    assert "rowTracking" in list_supported_features(empty_table.snapshot().protocol)


@pytest.mark.parametrize("clustered", [" CLUSTER BY (id)", ""])
def test_a_column_does_not_go_while_another_clusters_by_it(
    do_lightly, empty_table, race, clustered
):
    do_lightly(
        f"CREATE TABLE t (id BIGINT, n INT) USING DELTA{clustered}"
        " TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    if not clustered:
        do_lightly("ALTER TABLE t SET TBLPROPERTIES ('delta.feature.clustering' = 'supported')")
    with pytest.raises(ConcurrentTransactionException):
        race("ALTER TABLE t DROP COLUMN n", _cluster("n"))
    assert empty_table.snapshot().clustering_columns == ("n",)
    with pytest.raises(MetadataChangedException):
        race("ALTER TABLE t CLUSTER BY (id)", lambda table: _drop(table))


def _drop(table):
    run(parse_statement("ALTER TABLE t ADD COLUMNS (m INT)"), table, None)
