"""No commit names a file that a VACUUM deletes, new or restored, whichever is first."""

import os
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from engine.commands.model import Restore, Vacuum
from engine.errors import OperationCancelledError, RequestError
from engine.operations.write_rows import removal
from engine.spark.file_writer import write_files
from engine.spark.table_files import TableFiles
from engine.spark.write.writer import file_target
from engine.storage.uri import resolve_log_path
from engine.transaction.observer import TransactionObserver
from engine.transaction.staged_files import StagedFilesGoneError

NOW = Vacuum(retention_hours=0, override_retention=True)


@pytest.fixture
def table(do_lightly, empty_table):
    """Return a table with the row 1 at version 1, and 2 instead at version 2."""
    do_lightly("CREATE TABLE t (id BIGINT) USING DELTA")
    for number in (1, 2):
        before = empty_table.snapshot().add_files()
        target = file_target(TableFiles(empty_table.uri, empty_table.snapshot().schema))
        batch = pa.RecordBatch.from_pydict({"id": [number]})
        txn = empty_table.start_transaction()
        txn.stage(*map(removal, before), *(add for add, _ in write_files([batch], target, 0)))
        txn.commit("WRITE")
    return empty_table


class While:
    """An observer that acts once, when a VACUUM is about to delete files."""

    def __init__(self, act):
        self.act = act

    def __call__(self, progress):
        if progress.stage == "delete files" and self.act is not None:
            act, self.act = self.act, None
            act()


def _ids(table):
    return table.snapshot().to_arrow()["id"].to_pylist()


def test_a_version_is_not_restored_while_a_vacuum_deletes_its_files(do_lightly, table):
    def restore():
        with pytest.raises(RequestError, match="has not recorded its end"):
            do_lightly(Restore(version=1))

    meanwhile = While(restore)
    do_lightly(NOW, progress=meanwhile)
    assert meanwhile.act is None
    assert _ids(table) == [2]


def test_a_vacuum_that_begins_before_the_restore_lands_stops_it(do_lightly, table):
    class Begins(TransactionObserver):
        def staged(self, _txn):
            table.start_transaction().commit("VACUUM START", even_if_empty=True)

    with pytest.raises(RequestError, match="started at version 3"):
        do_lightly(Restore(version=1), observer=Begins())
    assert _ids(table) == [2]


def test_a_vacuum_spares_a_file_that_another_writer_brings_back(do_lightly, table):
    (old,) = table.snapshot(1).add_files()

    def bring_back():
        txn = table.start_transaction()
        txn.stage(msgspec.structs.replace(old, data_change=True))
        txn.commit("RESTORE")

    result = do_lightly(NOW, progress=While(bring_back))
    assert result.metrics["numDeletedFiles"] == 0
    assert sorted(_ids(table)) == [1, 2]
    assert Path(table.uri, resolve_log_path(table.uri, old.path).path).exists()


def test_a_cancelled_vacuum_prevents_no_restore(do_lightly, table):
    def cancel():
        what = "Cancelled."
        raise OperationCancelledError(what)

    with pytest.raises(OperationCancelledError):
        do_lightly(NOW, progress=While(cancel))
    do_lightly(Restore(version=1))
    assert _ids(table) == [1]


@pytest.mark.parametrize("phase", ["staged", "before_commit"])
def test_a_vacuum_between_staging_and_commit_leaves_the_table_readable(do_lightly, table, phase):
    def vacuum(*_):
        setattr(observer, phase, lambda *_: None)
        do_lightly(NOW)

    observer = TransactionObserver()
    setattr(observer, phase, vacuum)
    target = file_target(TableFiles(table.uri, table.snapshot().schema))
    batch = pa.RecordBatch.from_pydict({"id": [3]})
    txn = table.start_transaction(observer=observer)
    adds = [add for add, _ in write_files([batch], target, 0)]
    os.utime(Path(table.uri, adds[0].path), (0, 0))  # VACUUM spares what is no older than itself
    txn.stage(*adds)
    with pytest.raises(StagedFilesGoneError, match="Nothing was committed"):
        txn.commit("WRITE")
    assert _ids(table) == [2]
