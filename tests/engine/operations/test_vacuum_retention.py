"""VACUUM keeps every version inside the retention, regardless of checkpoints and clocks."""

import os
import shutil
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from engine.actions.codec import encode
from engine.actions.files import AddCDCFile, RemoveFile
from engine.clock import CLOCK_SLACK_MS
from engine.commands.model import Vacuum
from engine.deletion_vectors.files import locate, write_deletion_vector
from engine.errors import MalformedLogError, TableReplacedError
from engine.log.paths import commit_path
from engine.operations.write_rows import removal
from engine.snapshot.post_commit import checkpoint
from engine.spark.file_writer import write_files
from engine.spark.table_files import TableFiles
from engine.spark.write.writer import file_target
from engine.storage.local import LocalStore
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver
from tests.engine.operations.cloned_tables import handle
from tests.engine.transaction.tables import FakeClock

HOUR_MS, DAY_MS = 3_600_000, 24 * 3_600_000
NOW = Vacuum(retention_hours=0, override_retention=True)
WEEK_MS = 7 * DAY_MS
_MANY_ROWS = '{"numRecords":6000}'


@pytest.fixture
def clock(empty_table):
    """Return a clock that starts 90 days ago, with the table."""
    empty_table.clock = FakeClock(ms=_now_ms() - 90 * DAY_MS)
    return empty_table.clock


@pytest.fixture
def table(do_lightly, empty_table, clock):
    """Return a table with 1 at version 1, 90 days ago, and 2 instead at version 2, 2 days ago; retention: an hour."""
    do_lightly(
        "CREATE TABLE t (id BIGINT) USING DELTA"
        " TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 1 hours')"
    )
    _write(empty_table, 1)
    _date_everything(empty_table, clock.ms)
    clock.ms = _now_ms() - 2 * DAY_MS
    _write(empty_table, 2)
    _date(empty_table, commit_path(2), clock.ms)
    clock.ms = _now_ms()
    return empty_table


def _now_ms():
    return int(Path("/proc/self").stat().st_mtime * 1000)


def _write(table, number):
    """Replace every row by the number."""
    snapshot = table.snapshot()
    target = file_target(TableFiles(table.uri, snapshot.schema))
    batch = pa.RecordBatch.from_pydict({"id": [number]})
    txn = table.start_transaction()
    txn.stage(*map(removal, snapshot.add_files()))
    txn.stage(*[add for add, _ in write_files([batch], target, 0)])
    txn.commit("WRITE")


def _date(table, path, modified_ms):
    os.utime(Path(table.uri, path), ns=(modified_ms * 10**6, modified_ms * 10**6))


def _date_everything(table, modified_ms):
    for file in table.store.list_all():
        _date(table, file.path, modified_ms)


def _old_file(table, path, modified_ms):
    table.store.put(path, b"x")
    _date(table, path, modified_ms)
    return path


def _ids(table, version):
    return table.snapshot(version).to_arrow()["id"].to_pylist()


def _retain(do_lightly, table, duration):
    do_lightly(
        "ALTER TABLE t SET TBLPROPERTIES"
        f" ('delta.deletedFileRetentionDuration' = 'interval {duration}')",
        table=table,
    )


@pytest.mark.parametrize("lite", [False, True])
@pytest.mark.parametrize("are_commits_dated_old", [False, True])
def test_versions_inside_a_retention_that_was_raised_stay(
    do_lightly, table, clock, are_commits_dated_old, lite
):
    """The checkpoint no longer has the earlier removals, but the commits do."""
    checkpoint(table.snapshot(), clock.ms)
    assert table.snapshot().state.tombstones.num_rows == 1
    if are_commits_dated_old:
        _date_everything(table, _now_ms() - 90 * DAY_MS)
    again = DeltaTable.open(table.uri, clock=clock)
    assert again.snapshot().state.tombstones.num_rows == 0
    _retain(do_lightly, again, "60 days")
    assert do_lightly(Vacuum(lite=lite), table=again).metrics["numDeletedFiles"] == 0
    assert _ids(again, 1) == [1]
    _retain(do_lightly, again, "1 days")
    assert do_lightly(Vacuum(lite=lite), table=again).metrics["numDeletedFiles"] == 1


def test_files_dropped_by_a_clone_stay_inside_a_raised_retention(
    do_lightly, table, clock, tmp_path
):
    copy = handle(tmp_path, "copy")
    copy.clock = clock
    do_lightly(f"CREATE TABLE t DEEP CLONE delta.`{table.uri}` VERSION AS OF 1", table=copy)
    clock.ms = _now_ms() - 2 * DAY_MS
    do_lightly(f"CREATE OR REPLACE TABLE t DEEP CLONE delta.`{table.uri}`", table=copy)
    for name in copy.store.list_all():
        if name.path.endswith(".parquet"):
            _date(copy, name.path, _now_ms() - 90 * DAY_MS)
    clock.ms = _now_ms()
    checkpoint(copy.snapshot(), clock.ms)
    copy = DeltaTable(copy.store, allowed_roots=copy.allowed_roots, clock=clock)
    _retain(do_lightly, copy, "60 days")
    do_lightly(Vacuum(), table=copy)
    assert _ids(copy, 0) == [1]


@pytest.mark.parametrize("said_ms", [None, 1])
def test_a_removal_counts_as_of_its_commit_where_its_writer_says_less(
    do_lightly, table, clock, said_ms
):
    """Readers had the file until the commit, however long the job took."""
    (live,) = table.snapshot().add_files()
    gone = RemoveFile(path=live.path, data_change=True, deletion_timestamp=said_ms)
    table.store.put(commit_path(3), encode(gone).encode())
    _date(table, live.path, clock.ms - 90 * DAY_MS)
    _retain(do_lightly, table, "1 days")
    do_lightly(Vacuum())
    assert _ids(table, 2) == [2]
    clock.ms += 2 * DAY_MS
    assert do_lightly(Vacuum()).metrics["numDeletedFiles"] == 1


def test_a_removal_counts_as_of_the_versions_before_it_where_file_times_go_back(
    do_lightly, table, clock
):
    """A version's time is adjusted in the same way when somebody reads the table at a time."""
    (live,) = table.snapshot().add_files()
    _date(table, live.path, clock.ms - 90 * DAY_MS)
    _retain(do_lightly, table, "1 days")
    gone = RemoveFile(path=live.path, data_change=True)
    table.store.put(commit_path(4), encode(gone).encode())
    _date(table, commit_path(4), clock.ms - 80 * DAY_MS)
    do_lightly(Vacuum())
    assert _ids(table, 3) == [2]


def test_row_changes_of_retained_versions_stay_though_file_times_go_back(do_lightly, table, clock):
    name = _old_file(table, "_change_data/c.parquet", clock.ms - 90 * DAY_MS)
    txn = table.start_transaction()
    txn.stage(AddCDCFile(path=name, partition_values={}, size=1))
    txn.commit("UPDATE")
    for number in (3, 4):
        _write(table, number)
        _date(table, commit_path(table.version()), clock.ms - 80 * DAY_MS)
    _retain(do_lightly, table, "1 days")
    do_lightly(Vacuum())
    assert table.store.stat(name) is not None


def test_nothing_is_deleted_where_an_old_commit_cannot_be_understood(do_lightly, table, clock):
    """Which version needs the files that it names is unknown."""
    checkpoint(table.snapshot(), clock.ms)
    stray = _old_file(table, "stray.parquet", clock.ms - 90 * DAY_MS)
    table.store.put(commit_path(1), b'{"remove":7}')
    again = DeltaTable.open(table.uri, clock=clock)
    with pytest.raises(MalformedLogError, match=r"0{19}1\.json"):
        do_lightly(NOW, table=again)
    assert table.store.stat(stray) is not None


@pytest.mark.parametrize(
    ("over_ms", "goes"), [(CLOCK_SLACK_MS // 2, False), (CLOCK_SLACK_MS, True)]
)
def test_a_file_of_a_store_whose_clock_is_behind_is_not_deleted_early(
    do_lightly, table, clock, over_ms, goes
):
    _retain(do_lightly, table, "168 hours")
    stray = _old_file(table, "stray.parquet", clock.ms - WEEK_MS - over_ms - 1)
    do_lightly(Vacuum())
    assert (table.store.stat(stray) is None) is goes


def test_files_of_a_running_job_are_spared_though_the_stores_clock_is_behind(
    do_lightly, table, clock
):
    staged = _old_file(table, "staged.parquet", clock.ms - CLOCK_SLACK_MS // 2)
    do_lightly(NOW, running_since=lambda: clock.ms)
    assert table.store.stat(staged) is not None
    do_lightly(NOW)
    assert table.store.stat(staged) is None


def test_a_job_that_begins_while_files_are_listed_keeps_its_own(do_lightly, table, clock):
    class Listed(LocalStore):
        def list_paths(self):
            yield from list(super().list_paths())
            began.append(clock.ms)

    began = []
    staged = _old_file(table, "staged.parquet", clock.ms - 5_000)
    listed = DeltaTable(Listed(table.uri), clock=clock)
    do_lightly(NOW, table=listed, running_since=lambda: began[-1] if began else None)
    assert table.store.stat(staged) is not None


@pytest.mark.parametrize("later_versions", [0, 1, 5])
def test_a_table_put_back_while_its_files_are_deleted_keeps_them(
    do_lightly, table, tmp_path, later_versions
):
    """The backup has version 1 as its latest, and may have had other commits since."""
    shutil.copytree(table.uri, tmp_path / "backup")
    backup = DeltaTable(LocalStore(tmp_path / "backup"))
    for path in (commit_path(2), commit_path(2).replace(".json", ".crc")):
        backup.store.delete(path)
    for number in range(later_versions):
        backup.start_transaction().commit(f"NOTE {number}", even_if_empty=True)

    def put_back(progress):
        if progress.stage == "delete files":
            shutil.rmtree(table.uri)
            shutil.move(tmp_path / "backup", table.uri)

    with pytest.raises(TableReplacedError):
        do_lightly(NOW, progress=put_back)
    again = DeltaTable.open(table.uri)
    assert _ids(again, None) == [1]
    assert again.version() == 1 + later_versions


def test_a_file_that_a_commit_brings_back_while_others_are_deleted_stays(do_lightly, table):
    """Another engine's RESTORE does this without any coordination."""
    (add,) = table.snapshot(1).add_files()

    def bring_back(progress):
        if progress.stage == "delete files":
            txn = DeltaTable.open(table.uri).start_transaction()
            txn.stage(add)
            txn.commit("RESTORE")

    do_lightly(NOW, progress=bring_back)
    assert sorted(_ids(table, None)) == [1, 2]


@pytest.mark.parametrize("is_removed", [False, True])
def test_deletion_vectors_in_files_stay_as_long_as_a_retained_version_has_them(
    do_lightly, table, clock, is_removed
):
    """The vector belongs to a live file or to one removed within the retention, whose rows need both files."""
    _retain(do_lightly, table, "30 days")
    (add,) = table.snapshot().add_files()
    vector = write_deletion_vector(table.store, range(5_000), inline_below_bytes=0)
    txn = table.start_transaction()
    txn.stage(removal(add), msgspec.structs.replace(add, deletion_vector=vector, stats=_MANY_ROWS))
    with_vector = txn.commit("DELETE")
    if is_removed:
        _write(table, 3)
    place = locate(table.uri, vector).path
    _date(table, place, clock.ms - 60 * DAY_MS)
    clock.ms += 20 * DAY_MS
    do_lightly(Vacuum(), table=table)
    assert table.store.stat(place) is not None
    assert table.snapshot(with_vector).file_count == 1
    if is_removed:
        clock.ms += 20 * DAY_MS
        do_lightly(Vacuum(), table=table)
        assert table.store.stat(place) is None


class _AltersAtEachStart(TransactionObserver):
    """An observer that changes the table after a transaction has read it, the first time of every two."""

    def __init__(self, alter) -> None:
        self._alter, self._begun = alter, 0

    def started(self, txn) -> None:  # noqa: ARG002
        self._begun += 1
        if self._begun % 2:
            self._alter(f"ALTER TABLE t SET TBLPROPERTIES ('note' = '{self._begun}')")


def test_a_change_of_the_table_aborts_no_vacuum(do_lightly, table):
    """The two commits of VACUUM change nothing: they record what was done."""
    done = do_lightly(NOW, table=table, observer=_AltersAtEachStart(do_lightly))
    operations = [commit.operation for commit in table.history(4)]
    assert operations == ["VACUUM END", "SET TBLPROPERTIES", "VACUUM START", "SET TBLPROPERTIES"]
    assert len(done.versions) == 2
