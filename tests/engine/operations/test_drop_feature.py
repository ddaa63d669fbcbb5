"""DROP FEATURE: a feature is dropped only after every trace of it is gone."""

import os
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from engine.actions.files import AddFile, RemoveFile
from engine.actions.statistics import loosen_bounds
from engine.deletion_vectors.files import write_deletion_vector
from engine.errors import ConflictError, RequestError
from engine.log.cleanup import clean_log
from engine.log.commits import list_versions, read_commit
from engine.log.segment import complete_checkpoints, list_log_files
from engine.operations.run_options import NeedsSparkError
from engine.operations.write_rows import removal, replace_vector
from engine.protocol.features import list_supported_features
from engine.snapshot.post_commit import checkpoint
from engine.spark.file_writer import write_files
from engine.spark.table_files import TableFiles
from engine.spark.write.writer import file_target
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver
from tests.engine.made_tables import stage

DROP = "ALTER TABLE t DROP FEATURE deletionVectors"


@pytest.fixture
def table(do_lightly, empty_table):
    """Return a table: version 1 has ids 1 to 3; version 2 deletes 1 by a vector."""
    do_lightly(
        "CREATE TABLE t (id BIGINT) USING DELTA TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    _stage(empty_table, "WRITE", [_write_add(empty_table, [1, 2, 3])])
    add = empty_table.snapshot().add_files()[0]
    vector = write_deletion_vector(empty_table.store, [0], inline_below_bytes=0)
    masked = replace_vector(add, vector, loosen_bounds(add.stats, 3))
    _stage(empty_table, "DELETE", [removal(add), masked])
    return empty_table


def _write_add(table, ids) -> AddFile:
    target = file_target(TableFiles(table.uri, table.snapshot().schema))
    ((add, _),) = write_files([pa.RecordBatch.from_pydict({"id": ids})], target, 0)
    return add


def _stage(table, operation, actions):
    txn = table.start_transaction()
    stage(txn, *actions)
    return txn.commit(operation)


def _purge(do_lightly, table):
    do_lightly("ALTER TABLE t SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')")
    masked = table.snapshot().add_files()[0]
    moved = msgspec.structs.replace(_write_add(table, [2, 3]), data_change=False)
    _stage(table, "REORG", [removal(masked, data_change=False), moved])


def _older(table, hours):
    """Make everything in the log `hours` older."""
    for file in Path(table.uri, "_delta_log").iterdir():
        moment = file.stat().st_mtime - hours * 3600
        os.utime(file, (moment, moment))


def _checkpoints(table):
    return sorted(whole.version for whole in complete_checkpoints(list_log_files(table.store)))


def test_deletion_vectors_go_once_no_file_has_one(do_lightly, table, rows_elsewhere):
    before = table.version()
    with pytest.raises(NeedsSparkError):  # to rewrite the file
        do_lightly(DROP)
    assert table.version() == before
    _purge(do_lightly, table)
    version = table.version()
    result = do_lightly(DROP)
    assert (result.version, result.versions) == (version + 2, (version + 1, version + 2))
    snapshot = table.snapshot()
    assert list_supported_features(snapshot.protocol) == {
        "appendOnly",
        "invariants",
        "checkpointProtection",
    }
    assert (snapshot.protocol.min_reader_version, snapshot.protocol.reader_features) == (1, None)
    assert snapshot.properties.checkpoint_protection_version == result.version
    assert _checkpoints(table) == [version + 1, version + 2], "one stands before the feature"
    tombstones = [
        action
        for action in read_commit(table.store, version + 1).actions
        if isinstance(action, RemoveFile)
    ]
    assert [tombstone.path.endswith(".bin") for tombstone in tombstones] == [True]
    assert table.history(1)[0].operation_parameters == {
        "featureName": "deletionVectors",
        "truncateHistory": False,
    }
    rows = rows_elsewhere(table)
    assert rows["engine"] == rows["deltalake"] == rows["duckdb"] == [(2,), (3,)]
    assert table.snapshot(1).row_count == 3, "the history is readable to who knows vectors"


def test_protected_history_is_removed_at_once_or_not_at_all(do_lightly, table):
    _purge(do_lightly, table)
    do_lightly(DROP)
    kept = table.snapshot()
    _older(table, 24 * 40)
    now_ms = table.clock.now_ms()
    (Path(table.uri) / f"_delta_log/{kept.version:020}.checkpoint.parquet").unlink()
    assert clean_log(table.store, 0, now_ms, protected_before=kept.version) == []
    checkpoint(table.snapshot(), now_ms)
    assert list_versions(table.store)[0] == kept.version
    assert table.snapshot().row_count == 2


def test_history_is_truncated_where_requested_and_due(do_lightly, table):
    _purge(do_lightly, table)
    last = table.version()
    with pytest.raises(RequestError, match=f"version {last} still uses it.*25 hours"):
        do_lightly(f"{DROP} TRUNCATE HISTORY")
    _older(table, 26)
    result = do_lightly(f"{DROP} TRUNCATE HISTORY")
    assert list_versions(table.store)[0] > last
    snapshot = table.snapshot()
    assert (snapshot.protocol.min_reader_version, snapshot.protocol.min_writer_version) == (1, 2)
    assert "delta.requireCheckpointProtectionBeforeVersion" not in snapshot.metadata.configuration
    assert table.history(1)[0].version == result.version


def test_protection_is_removed_with_the_history_it_guards(do_lightly, table):
    _purge(do_lightly, table)
    do_lightly(DROP)
    protection = "ALTER TABLE t DROP FEATURE checkpointProtection"
    with pytest.raises(RequestError, match="TRUNCATE HISTORY"):
        do_lightly(protection)
    with pytest.raises(RequestError, match="still uses it"):
        do_lightly(f"{protection} TRUNCATE HISTORY")
    _older(table, 26)
    do_lightly(f"{protection} TRUNCATE HISTORY")
    snapshot = table.snapshot()
    assert (snapshot.protocol.min_reader_version, snapshot.protocol.min_writer_version) == (1, 2)
    assert snapshot.row_count == 2


def test_a_writer_that_uses_the_feature_again_meanwhile_wins(do_lightly, table):
    _purge(do_lightly, table)

    class Again(TransactionObserver):
        def before_commit(self, txn, attempt_version) -> None:  # noqa: ARG002
            if table.history(1)[0].operation == "Deletion Vector Tombstones":
                _stage(DeltaTable(table.store), "WRITE", [_write_add(table, [9])])

    with pytest.raises(ConflictError):
        do_lightly(DROP, observer=Again())
    assert "deletionVectors" in list_supported_features(table.snapshot().protocol)


def test_a_dry_run_changes_nothing(do_lightly, table):
    _purge(do_lightly, table)
    version = table.version()
    assert "checkpoint" in do_lightly(DROP, dry_run=True).plan.summary
    assert table.version() == version


def _create_table(do_lightly, columns="id BIGINT", **properties):
    properties = {"enableDeletionVectors": "false", **properties}
    listed = ", ".join(
        f"'delta.{key.replace('__', '.')}' = '{value}'" for key, value in properties.items()
    )
    do_lightly(f"CREATE TABLE t ({columns}) USING DELTA TBLPROPERTIES ({listed})")


IN_USE = (
    ("appendOnly", {"appendOnly": "true"}, "id BIGINT", "delta.appendOnly is true"),
    (
        "changeDataFeed",
        {"enableChangeDataFeed": "true"},
        "id BIGINT",
        "enableChangeDataFeed is true",
    ),
    ("checkConstraints", {"constraints__small": "id < 5"}, "id BIGINT", "constraints: small"),
    ("invariants", {}, "id BIGINT NOT NULL", "NOT NULL .*: id"),
    ("columnMapping", {"columnMapping__mode": "name"}, "id BIGINT", "mapped by name"),
    ("timestampNtz", {}, "at TIMESTAMP_NTZ", "TIMESTAMP_NTZ"),
    ("typeWidening", {"enableTypeWidening": "true"}, "id BIGINT", "enableTypeWidening is true"),
    ("rowTracking", {"enableRowTracking": "true"}, "id BIGINT", "enableRowTracking is true"),
    ("domainMetadata", {"enableRowTracking": "true"}, "id BIGINT", "rowTracking needs it"),
    (
        "inCommitTimestamp",
        {"enableInCommitTimestamps": "true"},
        "id BIGINT",
        "enableInCommitTimestamps is true",
    ),
    ("v2Checkpoint", {"checkpointPolicy": "v2"}, "id BIGINT", "checkpointPolicy is v2"),
    (
        "identityColumns",
        {},
        "id BIGINT GENERATED BY DEFAULT AS IDENTITY, n INT",
        "columns need it: id",
    ),
    ("generatedColumns", {}, "id BIGINT, n BIGINT GENERATED ALWAYS AS (id + 1)", "need it: n"),
    (
        "allowColumnDefaults",
        {"feature__allowColumnDefaults": "supported"},
        "id BIGINT DEFAULT 7, n INT",
        "need it: id",
    ),
)


@pytest.mark.parametrize(
    ("feature", "properties", "columns", "said"), IN_USE, ids=[word[0] for word in IN_USE]
)
def test_a_feature_in_use_is_refused_with_its_users(
    do_lightly, empty_table, feature, properties, columns, said
):
    _create_table(do_lightly, columns, **properties)
    with pytest.raises(RequestError, match=said):
        do_lightly(f"ALTER TABLE t DROP FEATURE {feature}")
    assert empty_table.version() == 0


LEGACY = {"appendOnly", "invariants"}


def test_a_clustered_table_gives_up_clustering_and_its_domains(do_lightly, empty_table):
    _create_table(do_lightly, feature__clustering="supported")
    do_lightly("ALTER TABLE t CLUSTER BY (id)")
    drop = "ALTER TABLE t DROP FEATURE {}"
    with pytest.raises(RequestError, match=r"clustered by id\..*CLUSTER BY NONE"):
        do_lightly(drop.format("clustering"))
    do_lightly("ALTER TABLE t CLUSTER BY NONE")
    with pytest.raises(RequestError, match="clustering needs it"):
        do_lightly(drop.format("domainMetadata"))
    assert do_lightly(drop.format("clustering")).versions == (3,), "only writers knew it"
    assert empty_table.snapshot().domains == {}
    do_lightly(drop.format("domainMetadata"))
    assert list_supported_features(empty_table.snapshot().protocol) == LEGACY


def test_in_commit_timestamps_are_dropped_with_the_properties_of_their_beginning(
    do_lightly, empty_table
):
    _create_table(do_lightly)
    key = "delta.enableInCommitTimestamps"
    do_lightly(f"ALTER TABLE t SET TBLPROPERTIES ('{key}' = 'true')")
    do_lightly(f"ALTER TABLE t SET TBLPROPERTIES ('{key}' = 'false')")
    do_lightly("ALTER TABLE t DROP FEATURE incommittimestamp")
    snapshot = empty_table.snapshot()
    assert list_supported_features(snapshot.protocol) == LEGACY
    assert [name for name in snapshot.metadata.configuration if "Enablement" in name] == []
    _stage(empty_table, "WRITE", [_write_add(empty_table, [1])])
    assert empty_table.history(1)[0].in_commit_timestamp is None


@pytest.mark.parametrize(
    "feature", ["v2Checkpoint", "timestampNtz", "columnMapping", "typeWidening"]
)
def test_features_that_readers_must_know_leave_their_history_protected(
    do_lightly, empty_table, feature, rows_elsewhere
):
    _create_table(do_lightly, **{f"feature__{feature}": "supported"})
    _stage(empty_table, "WRITE", [_write_add(empty_table, [1])])
    do_lightly(f"ALTER TABLE t DROP FEATURE {feature}")
    snapshot = empty_table.snapshot()
    left = list_supported_features(snapshot.protocol)
    assert feature not in left
    assert "checkpointProtection" in left
    assert snapshot.protocol.min_reader_version == 1
    assert rows_elsewhere(empty_table)["deltalake"] == [(1,)]


def test_a_feature_without_traces_is_dropped_at_once(do_lightly, empty_table):
    _create_table(do_lightly, feature__vacuumProtocolCheck="supported")
    assert do_lightly("ALTER TABLE t DROP FEATURE vacuumProtocolCheck").versions == (1,)
    protocol = empty_table.snapshot().protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    with pytest.raises(RequestError, match="does not have"):
        do_lightly("ALTER TABLE t DROP FEATURE vacuumProtocolCheck")
    with pytest.raises(RequestError, match="leaves nothing"):
        do_lightly("ALTER TABLE t DROP FEATURE invariants TRUNCATE HISTORY")


def test_v2_checkpoints_are_cut_off_with_the_history(do_lightly, empty_table):
    _create_table(do_lightly, checkpointPolicy="v2")
    checkpoint(empty_table.snapshot(), empty_table.clock.now_ms())
    do_lightly("ALTER TABLE t SET TBLPROPERTIES ('delta.checkpointPolicy' = 'classic')")
    with pytest.raises(RequestError, match="version 0 still uses it"):
        do_lightly("ALTER TABLE t DROP FEATURE v2Checkpoint TRUNCATE HISTORY")
    _older(empty_table, 26)
    do_lightly("ALTER TABLE t DROP FEATURE v2Checkpoint TRUNCATE HISTORY")
    assert list_supported_features(empty_table.snapshot().protocol) == LEGACY


@pytest.mark.spark
def test_one_statement_purges_and_drops_vectors_in_use(do, table, rows_elsewhere):
    result = do(DROP)
    assert [entry.operation for entry in table.history(4)][::-1] == [
        "SET TBLPROPERTIES",
        "REORG",
        "Deletion Vector Tombstones",
        "DROP FEATURE",
    ]
    assert result.versions == tuple(range(3, 7))
    assert "deletionVectors" not in list_supported_features(table.snapshot().protocol)
    rows = rows_elsewhere(table)
    assert rows["engine"] == rows["deltalake"] == rows["duckdb"] == [(2,), (3,)]
