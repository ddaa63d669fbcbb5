"""Shallow clones of sources whose rows were written without Spark."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable as OtherTable
from deltalake import QueryBuilder

from engine.actions.table import DomainMetadata
from engine.commands.model import Clone, Optimize, Reorg, Restore, Vacuum
from engine.commands.sql import parse_statement
from engine.errors import (
    DataFileError,
    DataFileMissingError,
    InvalidPropertyError,
    PathOutsideRootError,
    ProtocolChangedException,
    RequestError,
    TableExistsError,
    TableNotFoundError,
    VersionNotFoundError,
)
from engine.log.commits import read_commit
from engine.log.segment import list_log_files
from engine.operations.run import run
from engine.operations.write_rows import removal
from engine.spark.file_writer import write_files
from engine.spark.table_files import TableFiles
from engine.spark.write.writer import file_target
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver
from tests.engine.iceberg.readers import read_with_all_clients
from tests.engine.operations.cloned_tables import (
    SCHEMA,
    append,
    files,
    handle,
    ids,
    source_table,
)

NOW = Vacuum(retention_hours=0, override_retention=True)


@pytest.fixture
def source(tmp_path):
    return source_table(tmp_path)


@pytest.fixture
def target(tmp_path):
    return handle(tmp_path, "a clone")


def _clone(target, source, **options):
    command = Clone(source.uri, **{k: options.pop(k) for k in list(options) if k in _PARTS})
    return run(command, target, None, **options)


_PARTS = ("version", "timestamp", "replace", "if_not_exists")


def test_a_clone_reads_the_files_of_its_source(source, target):
    result = _clone(target, source)
    assert result.version == 0
    assert ids(target) == ids(source) == [2, 3]
    assert not [path for path in files(target) if "_delta_log" not in path]
    (info, *actions) = read_commit(target.store, 0).actions
    assert info.operation == "CLONE"
    assert info.operation_parameters == {
        "source": f"delta.`{source.uri}`",
        "sourceVersion": 3,
        "isShallow": True,
    }
    assert info.operation_metrics == {
        "sourceTableSize": str(source.snapshot().size_bytes),
        "sourceNumOfFiles": "2",
        "numRemovedFiles": "0",
        "numCopiedFiles": "0",
        "removedFilesSize": "0",
        "copiedFilesSize": "0",
    }
    adds = target.snapshot().add_files()
    assert all(add.path.startswith("file:///") and "%20" in add.path for add in adds)
    assert {add.deletion_vector.storage_type for add in adds if add.deletion_vector} == {"p"}
    assert all(getattr(action, "data_change", True) for action in actions)


def test_a_clone_has_its_sources_terms_and_an_id_of_its_own(source, target):
    _clone(target, source)
    ours, theirs = target.snapshot(), source.snapshot()
    assert ours.schema == theirs.schema
    assert ours.protocol == theirs.protocol
    assert ours.metadata.configuration == theirs.metadata.configuration
    assert ours.metadata.configuration["team"] == "sales"
    assert ours.metadata.id != theirs.metadata.id


def test_a_clone_is_unreadable_without_leave_for_its_sources_place(source, target):
    _clone(target, source)
    with pytest.raises(PathOutsideRootError):
        DeltaTable.open(target.uri).snapshot().to_arrow()


def test_deltalake_reads_a_clone(source, target):
    """duckdb does not: it looks for absolute paths below the table."""
    _clone(target, source)
    asked = QueryBuilder().register("t", OtherTable(target.uri)).execute("SELECT id FROM t")
    assert sorted(pa.table(asked.read_all()).column("id").to_pylist()) == [2, 3]


def test_a_clone_of_an_earlier_version_or_time(source, target, tmp_path):
    _clone(target, source, version=1)
    assert ids(target) == [1, 2]
    second = source.history()[1].timestamp
    by_time = handle(tmp_path, "by time")
    _clone(by_time, source, timestamp=_iso(second))
    assert ids(by_time) == ids(source, timestamp=second)
    with pytest.raises(VersionNotFoundError):
        _clone(handle(tmp_path, "third"), source, version=9)


def _iso(ms):
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S.%f}"


def test_a_clone_of_a_clone_leads_to_the_first_source(source, target, tmp_path):
    _clone(target, source)
    append(target, [7])
    again = handle(tmp_path, "again")
    _clone(again, target)
    assert ids(again) == [2, 3, 7]
    roots = {add.path.rpartition("/")[0] for add in again.snapshot().add_files()}
    assert roots == {
        f"file://{source.uri}".replace(" ", "%20"),
        f"file://{target.uri}".replace(" ", "%20"),
    }


def test_changes_of_a_clone_leave_its_source_alone(source, target):
    _clone(target, source)
    before, rows = files(source), ids(source)
    append(target, [9])
    txn = target.start_transaction()
    txn.stage(*[removal(add) for add in target.snapshot().add_files()])
    txn.commit("DELETE")
    _vacuum_now(target)
    for lite in (True, False):
        run(Vacuum(retention_hours=0, override_retention=True, lite=lite), target, None)
    assert files(source) == before
    assert ids(source) == rows
    assert ids(target) == []


def _vacuum_now(table):
    run(NOW, table, None)


def test_a_vacuum_of_the_source_may_break_its_clone(source, target):
    _clone(target, source)
    txn = source.start_transaction()
    txn.stage(*[removal(add) for add in source.snapshot().add_files()])
    txn.commit("DELETE")
    run(NOW, source, None)
    with pytest.raises(DataFileError):
        target.snapshot().to_arrow()


def _empty_table(table):
    txn = table.start_transaction()
    txn.stage(*[removal(add) for add in table.snapshot().add_files()])
    txn.commit("DELETE")


def test_a_version_whose_files_were_vacuumed_is_not_cloned(source, target):
    _empty_table(source)
    run(NOW, source, None)
    with pytest.raises(DataFileMissingError, match=r"Version 3 of .* 3 of its files are missing"):
        _clone(target, source, version=3)
    assert list_log_files(target.store) == []


def test_a_clone_names_no_file_that_its_source_loses_before_the_commit(source, target):
    class Vacuuming(TransactionObserver):
        def staged(self, _txn):
            _empty_table(source)
            run(NOW, source, None)

    with pytest.raises(DataFileMissingError):
        _clone(target, source, observer=Vacuuming())
    assert list_log_files(target.store) == []


def test_a_version_is_not_cloned_while_a_vacuum_of_the_source_may_delete_its_files(source, target):
    _empty_table(source)
    source.start_transaction().commit("VACUUM START", even_if_empty=True)
    with pytest.raises(RequestError, match="has not recorded its end"):
        _clone(target, source, version=3)
    source.start_transaction().commit("VACUUM END", even_if_empty=True)
    _clone(target, source, version=3)
    assert ids(target) == [2, 3]


def test_files_that_the_source_still_has_are_cloned_during_a_vacuum(source, target):
    source.start_transaction().commit("VACUUM START", even_if_empty=True)
    _clone(target, source, version=3)
    assert ids(target) == [2, 3]


def test_a_clone_is_not_restored_to_files_that_its_source_has_lost(source, target):
    _clone(target, source)
    _empty_table(target)
    run(Restore(version=0), target, None)
    assert ids(target) == [2, 3]
    _empty_table(target)
    _empty_table(source)
    run(NOW, source, None)
    with pytest.raises(DataFileMissingError, match="Version 0"):
        run(Restore(version=0), target, None)
    assert target.version() == 3


def test_a_clone_replaces_an_existing_table_only_if_requested(source, target):
    _clone(target, source)
    with pytest.raises(TableExistsError):
        _clone(target, source)
    assert _clone(target, source, if_not_exists=True).version is None
    assert target.version() == 0


def test_cloning_again_shares_new_files_and_drops_removed_ones(source, target):
    _clone(target, source, version=2)
    before = target.snapshot()
    append(source, [4])
    result = _clone(target, source, replace=True)
    assert ids(target) == ids(source) == [2, 3, 4]
    changed = read_commit(target.store, result.version).actions[1:]
    assert len(changed) == 3  # the new file, and the file with deleted rows: removed and added
    assert result.metrics["numRemovedFiles"] == 1
    assert target.snapshot().metadata.id == before.metadata.id
    assert ids(target, version=0) == [1, 2, 3]


def test_cloning_again_without_news_commits_nothing(source, target):
    _clone(target, source)
    result = _clone(target, source, replace=True)
    assert result.version is None
    assert "already" in result.message


def test_a_replaced_table_gives_way_schema_and_all(source, tmp_path):
    other = DeltaTable.create(
        str(tmp_path / "other"),
        '{"type":"struct","fields":[{"name":"x","type":"date","nullable":true,"metadata":{}}]}',
        clustering_columns=["x"],
    )
    table_id = other.snapshot().metadata.id
    target = handle(tmp_path, "other")
    _clone(target, source, replace=True)
    snapshot = target.snapshot()
    assert snapshot.schema == source.snapshot().schema
    assert snapshot.metadata.id == table_id
    assert snapshot.clustering_columns == ()
    assert "clustering" in snapshot.protocol.writer_features
    assert ids(target) == [2, 3]


def test_a_clone_of_a_clustered_table_is_clustered_and_numbers_rows_again(tmp_path, target):
    properties = {"delta.columnMapping.mode": "name", "delta.enableInCommitTimestamps": "true"}
    clustered = DeltaTable.create(str(tmp_path / "s"), SCHEMA, (), ["p"], properties)
    _append_mapped(clustered)
    _clone(target, clustered)
    ours, theirs = target.snapshot(), clustered.snapshot()
    assert ours.clustering_columns == ("p",)
    assert ours.schema == theirs.schema
    assert ours.properties.row_tracking
    assert ours.properties.row_id_column != theirs.properties.row_id_column
    assert [add.base_row_id for add in ours.add_files()] == [0]
    assert [add.default_row_commit_version for add in ours.add_files()] == [0]
    assert ours.to_arrow().to_pylist() == theirs.to_arrow().to_pylist() == [{"id": 5, "p": "x"}]
    assert isinstance(ours.domains["delta.rowTracking"], DomainMetadata)
    assert _append_mapped(target) == 1
    assert sorted(add.base_row_id for add in target.snapshot().add_files()) == [0, 1]


def _append_mapped(table):
    snapshot = table.snapshot()
    files = TableFiles(table.uri, snapshot.schema, (), snapshot.properties)
    names = [field.metadata["delta.columnMapping.physicalName"] for field in snapshot.schema]
    batch = pa.RecordBatch.from_pydict(dict(zip(("id", "p"), ([5], ["x"]), strict=True)))
    assert len(names) == 2
    txn = table.start_transaction()
    txn.stage(*[add for add, _ in write_files([batch], file_target(files), 0)])
    return txn.commit("WRITE")


def test_a_clone_is_read_as_iceberg_once_it_is_upgraded_itself(tmp_path, target):
    properties = {
        "delta.enableIcebergCompatV2": "true",
        "delta.universalFormat.enabledFormats": "iceberg",
    }
    source = DeltaTable.create(str(tmp_path / "s"), SCHEMA, ["p"], (), properties)
    append(source, [1, 2])
    _clone(target, source)
    assert not Path(target.uri, "metadata").exists()
    run(Reorg(upgrade_uniform=2), target, None)
    assert [row["id"] for row in read_with_all_clients(target)] == [1, 2]


def test_a_table_that_maps_columns_otherwise_is_not_replaced(source, tmp_path):
    properties = {"delta.columnMapping.mode": "name"}
    DeltaTable.create(str(tmp_path / "mapped"), SCHEMA, properties=properties)
    with pytest.raises(InvalidPropertyError, match="Clone into a new table"):
        _clone(handle(tmp_path, "mapped"), source, replace=True)


@pytest.mark.parametrize("place", ["a source", "a source/inside"])
def test_source_and_target_may_not_overlap(source, tmp_path, place):
    with pytest.raises(RequestError, match="separate location"):
        _clone(handle(tmp_path, place), source, replace=True)


def test_a_source_without_a_table_is_refused(tmp_path, target):
    with pytest.raises(TableNotFoundError):
        run(Clone(str(tmp_path / "nothing")), target, None)
    assert not Path(target.uri).exists()


def test_a_name_is_resolved_by_the_caller(source, target):
    command = parse_statement("CREATE TABLE t SHALLOW CLONE lake.orders")
    run(command, target, None, resolve={"lake.orders": source}.__getitem__)
    info = read_commit(target.store, 0).commit_info
    assert info.operation_parameters["source"] == "lake.orders"


def test_a_dry_run_counts_the_files_that_would_be_shared(source, target):
    plan = _clone(target, source, dry_run=True).plan
    assert plan.file_count == 2
    assert {file.reason for file in plan.files} == {"shared"}
    assert not Path(target.uri).exists()


def test_two_clones_into_one_place_conflict(source, target, tmp_path):
    class Rival(TransactionObserver):
        done = False

        def before_commit(self, txn, attempt_version):  # noqa: ARG002 - as the observer's
            if not self.done:
                self.done = True
                _clone(handle(tmp_path, "a clone"), source)

    with pytest.raises(ProtocolChangedException):
        _clone(target, source, observer=Rival())
    assert target.version() == 0


@pytest.mark.spark
@pytest.mark.timeout(180)
def test_statements_change_a_clone_and_never_its_source(do, source, target):
    do(f"CREATE TABLE t SHALLOW CLONE delta.`{source.uri}` VERSION AS OF 2", table=target)
    before, rows = files(source), ids(source)
    do("DELETE FROM t WHERE id = 1", table=target)
    do("UPDATE t SET p = 'new' WHERE id = 3", table=target)
    do(Optimize(), table=target)
    do(NOW, table=target)
    copied = target.snapshot().to_arrow().to_pylist()
    assert sorted((row["id"], row["p"]) for row in copied) == [(2, "p2"), (3, "new")]
    assert files(source) == before
    assert ids(source) == rows
