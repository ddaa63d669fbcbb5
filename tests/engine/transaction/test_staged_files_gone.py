"""A commit never names a file that was deleted while it waited."""

import msgspec
import pytest

from engine.actions.commit_info import CommitInfo
from engine.actions.files import AddCDCFile
from engine.deletion_vectors.files import locate, write_deletion_vector
from engine.errors import (
    CommitOutcomeUnknownError,
    FileExistsAlreadyError,
    StorageError,
    StorageOutcomeUnknownError,
)
from engine.storage.memory import MemoryStore
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver
from engine.transaction.staged_files import LONG_WAIT_S, StagedFilesGoneError
from tests.engine.made_tables import stage, write_commit
from tests.engine.transaction.tables import (
    FakeClock,
    append,
    data_file,
    new_table,
    paths_of,
    removal_of,
)


class Deleting(TransactionObserver):
    """An observer that deletes files at a phase, as another engine's VACUUM would."""

    def __init__(self, phase, store, *paths):
        setattr(self, phase, lambda *_: [store.delete(path) for path in paths])


class Contended(MemoryStore):
    """A store in which another writer takes the next `times` versions right before each write."""

    def __init__(self, root, meanwhile, times=1):
        super().__init__(root)
        self.meanwhile, self.times, self.asked = meanwhile, times, []

    def stat(self, path):
        self.asked.append(path)
        return super().stat(path)

    def put_if_absent(self, path, data):
        if path.endswith(".json") and self.times:
            self.times -= 1
            self.meanwhile()
        super().put_if_absent(path, data)


PHASES = ["staged", "before_commit"]


@pytest.mark.parametrize("phase", PHASES)
def test_a_missing_data_file_stops_the_commit(phase):
    table = new_table()
    txn = table.start_transaction(observer=Deleting(phase, table.store, "b"))
    stage(txn, data_file("a"), data_file("b"))
    with pytest.raises(StagedFilesGoneError, match=r"1 of the 2 files .* b. Nothing was commit"):
        txn.commit("WRITE")
    assert table.version() == 0


def test_a_missing_change_file_stops_the_commit():
    table = new_table()
    changes = AddCDCFile(path="_change_data/c", partition_values={}, size=1)
    txn = table.start_transaction(observer=Deleting("staged", table.store, changes.path))
    stage(txn, data_file("a"), changes)
    with pytest.raises(StagedFilesGoneError, match="_change_data/c"):
        txn.commit("WRITE")


def test_a_missing_deletion_vector_stops_the_commit():
    table = new_table(enableDeletionVectors="true")
    add = data_file("a", stats='{"numRecords":5000}')
    creation = table.start_transaction()
    stage(creation, add)
    creation.commit("WRITE")
    vector = write_deletion_vector(table.store, range(0, 5000, 3), inline_below_bytes=0)
    place = locate(table.uri, vector).path
    txn = table.start_transaction(observer=Deleting("staged", table.store, place))
    txn.read_files(["a"])
    txn.stage(removal_of("a"), msgspec.structs.replace(add, deletion_vector=vector))
    with pytest.raises(StagedFilesGoneError, match="deletion_vector_"):
        txn.commit("DELETE")


def test_a_file_that_the_table_has_is_not_looked_for_again():
    """Nothing may delete such a file, and a large DELETE would look up every file."""
    table = new_table(enableDeletionVectors="true")
    append(table, "a")
    vector = write_deletion_vector(table.store, [0])
    store = Contended(table.uri, lambda: None)
    txn = DeltaTable(store).start_transaction()
    txn.read_files(["a"])
    txn.stage(removal_of("a"), data_file("a", deletion_vector=vector))
    assert txn.commit("DELETE") == 2
    assert "a" not in store.asked


@pytest.mark.parametrize("waited_s", [LONG_WAIT_S, LONG_WAIT_S / 2])
def test_an_attempt_that_follows_a_long_wait_looks_again(waited_s):
    table, clock = new_table(), FakeClock()

    def meanwhile():
        append(table, "winner")
        clock.seconds += waited_s

    store = Contended(table.uri, meanwhile)
    txn = DeltaTable(store, clock=clock).start_transaction()
    stage(txn, data_file("mine"))
    assert txn.commit("WRITE") == 2
    assert store.asked.count("mine") == (2 if waited_s == LONG_WAIT_S else 1)


def test_a_file_lost_while_versions_are_lost_stops_the_commit():
    table, clock = new_table(), FakeClock()

    def meanwhile():
        append(table, "winner")
        clock.seconds += LONG_WAIT_S
        table.store.delete("mine")

    txn = DeltaTable(Contended(table.uri, meanwhile), clock=clock).start_transaction()
    stage(txn, data_file("mine"))
    with pytest.raises(StagedFilesGoneError):
        txn.commit("WRITE")
    assert paths_of(table) == {"winner"}


@pytest.mark.parametrize("operation", ["VACUUM START", "VACUUM END"])
def test_an_earlier_vacuum_causes_a_check_of_files_at_once(operation):
    table = new_table()

    def vacuum():
        table.store.delete("mine")
        write_commit(table.store, 1, CommitInfo(operation=operation))

    txn = DeltaTable(Contended(table.uri, vacuum), clock=FakeClock()).start_transaction()
    stage(txn, data_file("mine"))
    with pytest.raises(StagedFilesGoneError):
        txn.commit("WRITE")
    assert table.version() == 1


def test_files_missing_once_a_commit_is_in_doubt_leave_it_in_doubt():
    """The commit may have landed before the files disappeared."""

    class Lost(MemoryStore):
        def put_if_absent(self, path, data):
            if path.endswith("1.json"):
                clock.seconds += LONG_WAIT_S
                table.store.delete("mine")
                msg = "Timed out."
                raise StorageOutcomeUnknownError(msg)
            super().put_if_absent(path, data)

    table, clock = new_table(), FakeClock()
    txn = DeltaTable(Lost(table.uri), clock=clock).start_transaction()
    stage(txn, data_file("mine"))
    with pytest.raises(CommitOutcomeUnknownError):
        txn.commit("WRITE")


def test_a_store_that_cannot_say_stops_the_commit():
    class Silent(MemoryStore):
        def stat(self, path):
            if path == "mine":
                msg = "No answer."
                raise StorageError(msg)
            return super().stat(path)

    table = new_table()
    txn = DeltaTable(Silent(table.uri)).start_transaction()
    stage(txn, data_file("mine"))
    with pytest.raises(StorageError, match="No answer"):
        txn.commit("WRITE")
    assert table.version() == 0


def test_a_conflict_is_reported_before_missing_files():
    table = new_table()
    append(table, "a")
    txn = table.start_transaction(observer=Deleting("staged", table.store, "mine"))
    txn.read_whole_table()
    stage(txn, removal_of("a"), data_file("mine"))
    other = table.start_transaction()
    other.read_whole_table()
    stage(other, removal_of("a"))
    other.commit("DELETE")
    with pytest.raises(Exception, match="Version 2") as caught:
        txn.commit("UPDATE")
    assert not isinstance(caught.value, StagedFilesGoneError | FileExistsAlreadyError)
