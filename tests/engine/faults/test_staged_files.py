"""Staged files stay if their commit may have succeeded."""

import uuid
from contextlib import suppress

import pytest

from engine.actions.files import DeletionVectorDescriptor
from engine.deletion_vectors.files import locate, write_deletion_vector
from engine.errors import CommitOutcomeUnknownError, StorageError
from engine.operations.execution import Execution
from engine.operations.run_options import RunOptions
from engine.operations.write_rows import replace_vector
from engine.storage.memory import MemoryStore
from engine.table import DeltaTable
from engine.transaction.observer import ObservedTransaction, Observers, TransactionObserver
from engine.transaction.pending_commit import CommitLimits
from tests.engine.faults.stores import AFTER, LOST, FaultyStore
from tests.engine.made_tables import stage
from tests.engine.transaction.tables import FakeClock, append, data_file, new_table, removal_of

NO_AUDIT = "There is no audit table"


class Interrupted(TransactionObserver):
    """A Ctrl-C right after the commit."""

    def committed(self, _txn: ObservedTransaction, _committed_version: int) -> None:
        raise KeyboardInterrupt


class Unable(TransactionObserver):
    """An observer that cannot record the outcome of a transaction."""

    def committed(self, _txn: ObservedTransaction, _committed_version: int) -> None:
        raise StorageError(NO_AUDIT)

    def failed(self, _txn: ObservedTransaction, _error: Exception) -> None:
        raise StorageError(NO_AUDIT)


def _vector(store: MemoryStore) -> DeletionVectorDescriptor:
    return write_deletion_vector(store, range(0, 5000, 3), inline_below_bytes=0)


def _delete(execution: Execution, vector: DeletionVectorDescriptor) -> None:
    """Run the part of a DELETE after its rows are found."""
    with execution.clean_up_on_failure():
        execution.wrote_vectors([vector])
        txn = execution.begin()
        (add,) = execution.snapshot_of(txn).add_files()
        txn.read_files([add.path])
        stage(txn, removal_of(add.path), replace_vector(add, vector, '{"numRecords":5000}'))
        execution.commit(txn, "DELETE", {}, {})


def _table() -> DeltaTable:
    table = new_table(enableDeletionVectors="true", checkpointInterval="100")
    txn = table.start_transaction()
    stage(txn, data_file("a", stats='{"numRecords":5000}'))
    txn.commit("WRITE")
    return table


def _calls_of_a_delete() -> list[str]:
    table = _table()
    store = FaultyStore(table.store)
    _delete(Execution(DeltaTable(store, clock=FakeClock())), _vector(table.store))
    return store.calls


def test_a_vector_whose_commit_had_landed_stays_when_the_answer_was_lost():
    table = _table()
    vector = _vector(table.store)
    put = _calls_of_a_delete().index("create _delta_log/00000000000000000002.json") + 1
    store = FaultyStore(table.store, fail_at=put, mode=AFTER)
    _delete(Execution(DeltaTable(store, clock=FakeClock())), vector)
    assert table.version() == 2
    assert table.store.stat(locate(table.uri, vector).path) is not None


@pytest.mark.parametrize("later", range(1, 9))
def test_a_vector_stays_after_a_lost_answer_whatever_else_fails(later: int):
    table = _table()
    vector = _vector(table.store)
    put = _calls_of_a_delete().index("create _delta_log/00000000000000000002.json") + 1
    store = TwoFaults(table.store, fail_at=put, mode=AFTER, second=put + later)
    with suppress(CommitOutcomeUnknownError):
        _delete(Execution(DeltaTable(store, clock=FakeClock())), vector)
    assert store.fired == 2
    assert table.version() == 2
    assert table.store.stat(locate(table.uri, vector).path) is not None


def test_a_vector_stays_when_the_run_is_interrupted_right_after_its_commit():
    table = _table()
    vector = _vector(table.store)
    with pytest.raises(KeyboardInterrupt):
        _delete(
            Execution(DeltaTable(table.store), options=RunOptions(observer=Interrupted())), vector
        )
    assert table.version() == 2
    assert table.store.stat(locate(table.uri, vector).path) is not None


def test_a_commit_stands_whatever_its_observer_raises(caplog):
    table, told = _table(), []
    vector = _vector(table.store)

    class Counting(TransactionObserver):
        def committed(self, _txn: ObservedTransaction, committed_version: int) -> None:
            told.append(committed_version)

    observer = Observers([Unable(), Counting()])
    _delete(Execution(DeltaTable(table.store), options=RunOptions(observer=observer)), vector)
    assert table.version() == 2
    assert told == [2]
    assert table.store.stat(locate(table.uri, vector).path) is not None
    assert NO_AUDIT in caplog.text


def test_a_vector_stays_when_an_observer_fails_that_was_notified_of_an_unknown_commit():
    table = _table()
    vector = _vector(table.store)
    put = _calls_of_a_delete().index("create _delta_log/00000000000000000002.json") + 1
    store = FaultyStore(table.store, fail_at=put, mode=AFTER, times=100)
    options = RunOptions(observer=Unable())
    with pytest.raises(StorageError, match=NO_AUDIT):
        _delete(Execution(DeltaTable(store, clock=FakeClock()), options=options), vector)
    assert table.version() == 2
    assert table.store.stat(locate(table.uri, vector).path) is not None


def test_a_vector_is_removed_when_the_store_reports_that_nothing_was_written():
    table = _table()
    vector = _vector(table.store)
    put = _calls_of_a_delete().index("create _delta_log/00000000000000000002.json") + 1
    store = FaultyStore(table.store, fail_at=put)
    with pytest.raises(StorageError):
        _delete(Execution(DeltaTable(store, clock=FakeClock())), vector)
    assert table.version() == 1
    assert table.store.stat(locate(table.uri, vector).path) is None


def test_a_commit_that_gives_up_in_doubt_does_not_say_that_nothing_was_written():
    table = new_table()
    store = FaultyStore(table.store)
    append(DeltaTable(store, clock=FakeClock()), "a")
    put = store.calls.index("create _delta_log/00000000000000000001.json") + 1
    for mode, version in ((AFTER, 2), (LOST, 1)):
        table = new_table()
        store = FaultyStore(table.store, fail_at=put, mode=mode)
        handle = DeltaTable(store, clock=FakeClock())
        txn = handle.start_transaction(txn_id=str(uuid.uuid4()), limits=CommitLimits(attempts=1))
        stage(txn, data_file("a"))
        with pytest.raises(CommitOutcomeUnknownError):
            txn.commit("WRITE")
        assert table.version() == version - 1


class TwoFaults(FaultyStore):
    """A store with a second fault at a later call."""

    def __init__(self, inner: MemoryStore, *, second: int, **faults: object) -> None:
        super().__init__(inner, **faults)  # type: ignore[arg-type]
        self._second = second

    def _due(self, what: str) -> bool:
        due = super()._due(what)
        again = len(self.calls) == self._second
        self.fired += again
        return due or again


def _two_batches(execution: Execution, files: list[str]) -> None:
    """Commit the first batch, and fail the Spark job of the second."""
    for batch in ("1", "2"):
        files.append(f"part-0-{execution.run_id}.parquet")
        execution.table.store.put(files[-1], b"rows")
        if batch == "1":
            txn = execution.begin(batch)
            stage(txn, data_file(files[-1]))
            execution.wrote([data_file(files[-1])])
            execution.commit(txn, "OPTIMIZE", {}, {})
    execution._is_torn = True  # as a failed job leaves it
    what = "The second batch failed."
    raise StorageError(what)


def test_files_of_a_committed_batch_stay_when_the_job_of_the_next_one_fails():
    table, files = new_table(), []
    execution = Execution(table)
    with pytest.raises(StorageError), execution.clean_up_on_failure():
        _two_batches(execution, files)
    assert [table.store.stat(file) is not None for file in files] == [True, False]
