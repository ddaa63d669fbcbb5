"""Commands that need no Spark, on a table whose rows were written without it."""

import os
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from engine.actions.files import AddCDCFile
from engine.actions.statistics import loosen_bounds
from engine.clock import CLOCK_SLACK_MS
from engine.commands.model import Restore, Vacuum
from engine.deletion_vectors.files import write_deletion_vector
from engine.errors import (
    AppendOnlyError,
    DataFileError,
    InvalidPropertyError,
    RetentionTooShortError,
    UnsupportedFeatureError,
)
from engine.operations.run_options import track_operation
from engine.operations.write_rows import removal, replace_vector
from engine.schema.column_mapping import ID_KEY
from engine.schema.write_errors import ColumnMappingRestoreError
from engine.snapshot.post_commit import checkpoint
from engine.spark.file_writer import write_files
from engine.spark.table_files import TableFiles
from engine.spark.write.writer import file_target
from engine.table import DeltaTable
from tests.engine.made_tables import write_commit

NOW = Vacuum(retention_hours=0, override_retention=True)


@pytest.fixture
def table(do_lightly, empty_table):
    """Return versions 1: 1 and 2; 2: 3 and 4 instead; 3: 4 alone, by a deletion vector."""
    do_lightly("CREATE TABLE t (id BIGINT, p STRING) USING DELTA")
    _write(empty_table, [1, 2], ["a", "b"])
    _write(empty_table, [3, 4], ["c", "d"], instead=True)
    _mask_first_row(empty_table)
    return empty_table


def _write(table, ids, texts, *, instead=False):
    snapshot = table.snapshot()
    target = file_target(TableFiles(table.uri, snapshot.schema))
    batch = pa.RecordBatch.from_pydict({"id": ids, "p": texts})
    txn = table.start_transaction()
    txn.stage(*[add for add, _ in write_files([batch], target, 0)])
    txn.stage(*(removal(add) for add in snapshot.add_files() if instead))
    txn.commit("WRITE")


def _mask_first_row(table):
    add = table.snapshot().add_files()[0]
    vector = write_deletion_vector(table.store, [0])
    txn = table.start_transaction()
    txn.stage(removal(add), replace_vector(add, vector, loosen_bounds(add.stats, 2)))
    txn.commit("DELETE")


def _files(table):
    return {p.relative_to(table.uri).as_posix() for p in Path(table.uri).rglob("*") if p.is_file()}


def _stray(table, name, *, age_s=0):
    path = Path(table.uri) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    _age_file(path, age_s)
    return name


def _age_file(path, age_s):
    moment = path.stat().st_mtime - age_s
    os.utime(path, (moment, moment))


def test_vacuum_keeps_files_that_retained_versions_need(do_lightly, table):
    before = _files(table)
    stray = _stray(table, "stray.parquet")
    result = do_lightly("VACUUM t")
    assert result.metrics["numDeletedFiles"] == 0
    assert before | {stray} <= _files(table)


def test_no_retention_keeps_a_version_dated_ahead(do_lightly, table):
    for commit in (Path(table.uri) / "_delta_log").glob("*.json"):
        _age_file(commit, -60)
    for name in _files(table):
        if name.endswith(".parquet"):
            _age_file(Path(table.uri) / name, 60)
    assert do_lightly(NOW).metrics["numDeletedFiles"] == 1


def test_vacuum_at_no_retention_leaves_the_live_files_alone(do_lightly, table, rows_elsewhere):
    old = _stray(table, "old/stray%20 file.parquet", age_s=60)
    marker = _stray(table, "_started_123", age_s=60)
    result = do_lightly(NOW)
    left = {name for name in _files(table) if not name.startswith("_delta_log/")}
    assert old not in left
    assert marker in left
    assert result.metrics["numDeletedFiles"] == 2
    rows = rows_elsewhere(table)
    assert rows["engine"] == rows["deltalake"] == rows["duckdb"] == [(4, "d")]
    assert [info.operation for info in table.history(2)] == ["VACUUM END", "VACUUM START"]


def test_vacuum_refuses_a_short_retention_unless_overridden(do_lightly, table):
    with pytest.raises(RetentionTooShortError, match="168"):
        do_lightly("VACUUM t RETAIN 1 HOURS")
    assert table.version() == 3


def test_a_retention_longer_than_the_tables_keeps_files_that_checkpoints_have_forgotten(
    do_lightly, table
):
    do_lightly(
        "ALTER TABLE t SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 1 "
        "second')"
    )
    for name in _files(table):
        if name.endswith(".parquet"):
            _age_file(Path(table.uri) / name, 2 * 3600)
    checkpoint(table.snapshot(), table.clock.now_ms() + 2 * CLOCK_SLACK_MS)
    reopened = DeltaTable.open(table.uri)
    assert reopened.snapshot().state.tombstones.num_rows == 0
    plan = do_lightly(Vacuum(retention_hours=1), table=reopened, dry_run=True).plan
    assert plan.file_count == 0
    assert do_lightly(NOW, table=reopened, dry_run=True).plan.file_count == 1


@pytest.mark.parametrize("hours", [0, 1])
def test_row_changes_of_a_retained_version_stay_however_long_its_job_took(do_lightly, table, hours):
    name = _stray(table, "_change_data/cdc-0.parquet", age_s=2 * 3600)
    txn = table.start_transaction()
    txn.stage(AddCDCFile(path=name, partition_values={}, size=1))
    txn.commit("DELETE")
    do_lightly(Vacuum(retention_hours=hours, override_retention=True))
    assert (name in _files(table)) == (hours == 1)


def test_a_dry_run_lists_files_and_the_versions_that_would_be_lost(do_lightly, table):
    plan = do_lightly(NOW, dry_run=True).plan.as_dict()
    assert plan["file_count"] == 1
    assert plan["files"][0]["reason"] == "removed from the table longer ago than the retention"
    assert plan["versions_lost"] == [[1, 1]]
    assert table.version() == 3


def test_lite_uses_the_log_alone(do_lightly, table):
    stray = _stray(table, "stray.parquet", age_s=60)
    lite = Vacuum(retention_hours=0, lite=True, override_retention=True)
    assert do_lightly(lite).metrics["numDeletedFiles"] == 1
    assert stray in _files(table)


def test_files_of_running_jobs_are_spared_even_with_the_override(do_lightly, table):
    staged = _stray(table, "staged.parquet", age_s=5)
    started_ms = int((Path(table.uri) / staged).stat().st_mtime * 1000) - 1000
    with track_operation(table.uri, started_ms):
        do_lightly(NOW)
    assert staged in _files(table)
    do_lightly(NOW, running_since=lambda: started_ms)
    assert staged in _files(table)
    do_lightly(NOW)
    assert staged not in _files(table)


def test_files_of_a_job_that_begins_after_vacuum_did_are_spared(do_lightly, table):
    staged = []

    def begins_now() -> None:
        staged.append(_stray(table, "staged.parquet", age_s=0))

    do_lightly(NOW, running_since=begins_now)
    assert staged[0] in _files(table)


def test_files_of_running_jobs_are_spared_under_the_name_of_a_link_too(do_lightly, table, tmp_path):
    staged = _stray(table, "staged.parquet", age_s=5)
    started_ms = int((Path(table.uri) / staged).stat().st_mtime * 1000) - 1000
    link = tmp_path / "link"
    link.symlink_to(table.uri)
    with track_operation(str(link), started_ms):
        do_lightly(NOW)
    assert staged in _files(table)


def test_a_table_inside_the_table_is_not_touched(do_lightly, table):
    inner = _stray(table, "inner/_delta_log/00000000000000000000.json", age_s=60)
    data = _stray(table, "inner/part-0.parquet", age_s=60)
    do_lightly(NOW)
    assert {inner, data} <= _files(table)


def test_restore_brings_an_earlier_version_back(do_lightly, table, rows_elsewhere):
    result = do_lightly("RESTORE TABLE t TO VERSION AS OF 1")
    assert result.version == 4
    rows = rows_elsewhere(table)
    assert rows["engine"] == rows["deltalake"] == rows["duckdb"] == [(1, "a"), (2, "b")]
    do_lightly(Restore(version=3))
    assert rows_elsewhere(table)["engine"] == [(4, "d")]


@pytest.mark.parametrize(
    "command", [Restore(version=1), "CREATE OR REPLACE TABLE t (n INT) USING DELTA"], ids=str
)
def test_a_table_that_only_grows_loses_nothing_by_losing_the_property(do_lightly, table, command):
    do_lightly("ALTER TABLE t SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    with pytest.raises(AppendOnlyError):
        do_lightly(command)
    do_lightly("ALTER TABLE t SET TBLPROPERTIES ('delta.appendOnly' = 'false')")
    assert do_lightly(command).version == 6


def test_a_restore_does_not_give_the_id_of_a_column_to_another(do_lightly, empty_table):
    do_lightly(
        "CREATE TABLE t (id BIGINT) USING DELTA TBLPROPERTIES ('delta.columnMapping.mode' = 'id')"
    )
    do_lightly("ALTER TABLE t ADD COLUMNS (n INT)")
    do_lightly(Restore(version=0))
    do_lightly("ALTER TABLE t ADD COLUMNS (s STRING)")
    ids = {
        field.metadata[ID_KEY]
        for version in (1, 3)
        for field in empty_table.snapshot(version=version).schema
    }
    assert ids == {1, 2, 3}


def test_restore_does_not_go_back_across_the_switch_to_column_mapping(do_lightly, table):
    do_lightly("ALTER TABLE t SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    do_lightly("ALTER TABLE t RENAME COLUMN p TO q")
    before = table.version()
    for version in (1, 3):
        for dry_run in (False, True):
            with pytest.raises(ColumnMappingRestoreError, match="CLONE") as caught:
                do_lightly(Restore(version=version), dry_run=dry_run)
    assert caught.value.code == "DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE"
    assert table.version() == before
    switched = do_lightly(Restore(version=4))
    assert switched.version == before + 1
    assert table.snapshot().schema.names == ["id", "p"]
    assert table.snapshot().mapping_mode == "name"


def test_restore_reaches_a_version_since_column_mapping_was_enabled(do_lightly, table):
    do_lightly("ALTER TABLE t SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    switched = table.version()
    do_lightly("TRUNCATE TABLE t")
    do_lightly(Restore(version=switched))
    assert table.snapshot().to_arrow().to_pylist() == [{"id": 4, "p": "d"}]


def test_a_version_whose_files_are_missing_cannot_be_restored(do_lightly, table):
    do_lightly(NOW)
    with pytest.raises(DataFileError, match="are missing"):
        do_lightly("RESTORE TABLE t TO VERSION AS OF 1")


def test_a_replaced_table_still_says_since_when_its_versions_carry_their_time(do_lightly, table):
    timed = "TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')"
    do_lightly(f"ALTER TABLE t SET {timed}")
    said = {k: v for k, v in table.snapshot().metadata.configuration.items() if "Enablement" in k}
    assert len(said) == 2
    do_lightly(f"CREATE OR REPLACE TABLE t (id BIGINT) USING DELTA {timed}")
    assert said.items() <= table.snapshot().metadata.configuration.items()
    first = table.snapshot(0).timestamp
    assert table.snapshot(timestamp=first).version == 0


def test_truncate_leaves_no_row(do_lightly, table):
    result = do_lightly("TRUNCATE TABLE t")
    assert result.metrics["numRemovedFiles"] == 1
    assert table.snapshot().row_count == 0
    assert do_lightly("TRUNCATE TABLE t").version is None


def test_properties_change_metadata_and_upgrade_the_protocol(do_lightly, table):
    do_lightly("ALTER TABLE t SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    assert table.snapshot().properties.enable_change_data_feed
    assert "changeDataFeed" in (table.snapshot().protocol.writer_features or [])
    again = do_lightly("ALTER TABLE t SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    assert again.version is None
    do_lightly("ALTER TABLE t UNSET TBLPROPERTIES ('delta.enableChangeDataFeed')")
    assert not table.snapshot().properties.enable_change_data_feed


@pytest.mark.parametrize(
    ("properties", "versions"),
    [
        ({"minWriterVersion": "4"}, (1, 4)),
        ({"minReaderVersion": "2", "minWriterVersion": "5"}, (2, 5)),
        ({"minWriterVersion": "5"}, (1, 4)),
        ({"minReaderVersion": "1", "minWriterVersion": "2"}, (1, 2)),
        ({"minReaderVersion": "3", "minWriterVersion": "7"}, (1, 2)),
        ({"enableChangeDataFeed": "true"}, (1, 4)),
        ({"constraints.c": "id > 0"}, (1, 3)),
        ({"columnMapping.mode": "name"}, (2, 5)),
        ({"columnMapping.mode": "name", "enableTypeWidening": "true"}, (3, 7)),
    ],
    ids=str,
)
def test_the_lowest_protocol_is_requested(do_lightly, empty_table, properties, versions):
    listed = ", ".join(f"'delta.{key}' = '{value}'" for key, value in properties.items())
    plain = "'delta.enableDeletionVectors' = 'false'"
    do_lightly(f"CREATE TABLE t (id BIGINT) USING DELTA TBLPROPERTIES ({plain}, {listed})")
    made = empty_table.snapshot()
    do_lightly(f"CREATE OR REPLACE TABLE t (id BIGINT) USING DELTA TBLPROPERTIES ({plain})")
    do_lightly(f"ALTER TABLE t SET TBLPROPERTIES ({listed})")
    for declared in (made.protocol, empty_table.snapshot().protocol):
        assert (declared.min_reader_version, declared.min_writer_version) == versions
    kept = {*made.metadata.configuration, *empty_table.snapshot().metadata.configuration}
    assert not {"delta.minReaderVersion", "delta.minWriterVersion"} & kept


def test_protocol_versions_are_not_lowered_by_properties(do_lightly, table):
    before = table.version()
    with pytest.raises(InvalidPropertyError, match=r"cannot be lowered to 2.*DROP FEATURE"):
        do_lightly("ALTER TABLE t SET TBLPROPERTIES ('delta.minWriterVersion' = '2')")
    with pytest.raises(InvalidPropertyError, match="at most 7"):
        do_lightly("ALTER TABLE t SET TBLPROPERTIES ('delta.minWriterVersion' = '8')")
    assert table.version() == before


def test_vacuum_checks_the_protocol_before_it_deletes(do_lightly, table):
    stray = _stray(table, "stray.parquet", age_s=3600)
    state = table.snapshot()
    features = [*(state.protocol.writer_features or ()), "fromTheFuture"]
    newer = msgspec.structs.replace(state.protocol, writer_features=features)
    write_commit(table.store, state.version + 1, newer)
    with pytest.raises(UnsupportedFeatureError, match="fromTheFuture"):
        do_lightly(NOW)
    assert stray in _files(table)


def test_columns_listed_for_statistics_follow_their_names(do_lightly, empty_table):
    listed = "a, `b c`, `d.d`, s.x, s.y, `s.x`"
    do_lightly(
        "CREATE TABLE t (a BIGINT, `b c` INT, `d.d` INT, d STRUCT<d: INT, e: INT>,"
        " s STRUCT<x: INT, y: INT>, `s.x` INT) USING DELTA TBLPROPERTIES"
        f" ('delta.columnMapping.mode' = 'name', 'delta.dataSkippingStatsColumns' = '{listed}')"
    )

    def names():
        return empty_table.snapshot().metadata.configuration.get("delta.dataSkippingStatsColumns")

    do_lightly("ALTER TABLE t RENAME COLUMN a TO `new, a`")
    assert names() == "`new, a`,`b c`,`d.d`,s.x,s.y,`s.x`"
    do_lightly("ALTER TABLE t RENAME COLUMN s TO r")
    assert names() == "`new, a`,`b c`,`d.d`,r.x,r.y,`s.x`"
    do_lightly("ALTER TABLE t DROP COLUMNS (`b c`)")
    do_lightly("ALTER TABLE t DROP COLUMNS (r.x)")
    do_lightly("ALTER TABLE t DROP COLUMNS (d)")
    assert names() == "`new, a`,`d.d`,r.y,`s.x`"
    do_lightly("ALTER TABLE t RENAME COLUMN `s.x` TO `q``r`")
    do_lightly("ALTER TABLE t RENAME COLUMN r TO s")
    assert names() == "`new, a`,`d.d`,s.y,`q``r`"
    do_lightly("ALTER TABLE t ADD COLUMNS (z INT)")
    do_lightly("ALTER TABLE t DROP COLUMNS (`new, a`, s, `d.d`, `q``r`)")
    assert names() is None
