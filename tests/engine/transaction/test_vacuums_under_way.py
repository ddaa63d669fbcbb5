"""Nothing is committed during a VACUUM that may delete staged files."""

import uuid
from typing import Any

import pytest

from engine.actions.commit_info import CommitInfo
from engine.clock import SystemClock
from engine.commands.maintenance import Vacuum
from engine.errors import EngineError
from engine.operations.run import run
from engine.operations.run_options import track_operation
from engine.storage.memory import MemoryStore
from engine.table import DeltaTable
from engine.transaction.optimistic_transaction import OptimisticTransaction
from engine.transaction.staged_files import StagedFilesGoneError, VacuumUnderWayError
from tests.engine.made_tables import stage, write_commit
from tests.engine.transaction.tables import FakeClock, data_file, new_table, paths_of

HOUR_MS = 3_600_000


class Deleting(MemoryStore):
    """A store that acts right before a file is deleted, when VACUUM has read the log."""

    def __init__(self, root, meanwhile):
        super().__init__(root)
        self.meanwhile = meanwhile

    def delete(self, path):
        self.meanwhile()
        super().delete(path)


class Acting(FakeClock):
    """A clock that acts at the first pause."""

    def __init__(self, act):
        super().__init__(ms=SystemClock().now_ms())
        self.act = act

    def pause(self, seconds):
        if not self.pauses:
            self.act()
        super().pause(seconds)


def _writer(table: DeltaTable, clock: FakeClock) -> OptimisticTransaction:
    txn = DeltaTable(table.store, clock=clock).start_transaction()
    stage(txn, data_file("mine"))
    return txn


def _write_vacuum_commit(
    table: DeltaTable, operation: str, txn_id: str | None = None, **parameters: Any
) -> None:
    info = CommitInfo(
        operation=operation,
        txn_id=txn_id,
        timestamp=SystemClock().now_ms() + 1,  # the file is older
        operation_parameters=parameters,
    )
    write_commit(table.store, table.version() + 1, info)


def test_files_that_a_vacuum_of_another_process_is_about_to_delete_are_not_committed():
    table, outcomes = new_table(), []
    writer = _writer(table, FakeClock())

    def meanwhile():
        try:
            outcomes.append(writer.commit("WRITE"))
        except EngineError as error:
            outcomes.append(error)

    elsewhere = DeltaTable(Deleting(table.uri, meanwhile), clock=Later())
    run(Vacuum(retention_hours=0, override_retention=True), elsewhere, None)
    assert table.store.stat("mine") is None
    assert [type(outcome) for outcome in outcomes] == [VacuumUnderWayError]
    assert not paths_of(table)


class Later(SystemClock):
    """A second later: what was just staged is older than no time at all."""

    def now_ms(self):
        return super().now_ms() + 1000


def test_a_vacuum_that_ends_is_waited_for():
    table = new_table()
    clock = Acting(lambda: _write_vacuum_commit(table, "VACUUM END"))
    writer = _writer(table, clock)
    _write_vacuum_commit(table, "VACUUM START", specifiedRetentionMillis=0)
    assert writer.commit("WRITE") == 3
    assert len(clock.pauses) == 1
    assert paths_of(table) == {"mine"}


def test_files_that_a_vacuum_deleted_before_its_end_are_noticed():
    table = new_table()

    def end():
        table.store.delete("mine")
        _write_vacuum_commit(table, "VACUUM END")

    writer = _writer(table, Acting(end))
    _write_vacuum_commit(table, "VACUUM START", specifiedRetentionMillis="0")
    with pytest.raises(StagedFilesGoneError):
        writer.commit("WRITE")
    assert table.version() == 2


def test_one_that_never_ends_is_not_waited_for_for_ever():
    table, clock = new_table(), FakeClock()
    writer = _writer(table, clock)
    _write_vacuum_commit(table, "VACUUM START", specifiedRetentionMillis=0)
    with pytest.raises(VacuumUnderWayError, match=r"started at version 1 .* Nothing was committed"):
        writer.commit("WRITE")
    assert 20 < sum(clock.pauses) <= 30
    assert table.version() == 1


def test_the_end_of_another_one_is_not_its_end():
    table = new_table()
    clock = Acting(lambda: _write_vacuum_commit(table, "VACUUM END", "one:end"))
    writer = _writer(table, clock)
    _write_vacuum_commit(table, "VACUUM START", "one:start", specifiedRetentionMillis=0)
    _write_vacuum_commit(table, "VACUUM START", "two:start", specifiedRetentionMillis=0)
    with pytest.raises(VacuumUnderWayError, match="started at version 2"):
        writer.commit("WRITE")


@pytest.mark.parametrize(
    "parameters",
    [
        {"specifiedRetentionMillis": HOUR_MS},
        {"defaultRetentionMillis": HOUR_MS},
        {"specifiedRetentionMillis": 0, "sparedFromMillis": 1},
    ],
)
def test_a_vacuum_that_spares_young_files_is_not_waited_for(parameters: dict[str, int]):
    table, clock = new_table(), FakeClock()
    writer = _writer(table, clock)
    _write_vacuum_commit(table, "VACUUM START", **parameters)
    assert writer.commit("WRITE") == 2
    assert not clock.pauses


def test_an_operation_of_this_process_is_spared_and_does_not_wait():
    table, clock, landed = new_table(), FakeClock(), []
    table.store.put("stray", b"")
    writer = _writer(table, clock)

    def meanwhile():
        landed.append(writer.commit("WRITE"))

    elsewhere = DeltaTable(Deleting(table.uri, meanwhile), clock=Later())
    with track_operation(table.uri, SystemClock().now_ms()):
        run(Vacuum(retention_hours=0, override_retention=True), elsewhere, None)
    if not landed:  # the stray file is as young as the operation: nothing was deleted
        meanwhile()
    assert (landed, clock.pauses) == ([3], [])
    assert table.store.stat("mine") is not None


def test_vacuums_end_under_the_id_of_their_beginning():
    table = new_table()
    run(Vacuum(retention_hours=0, override_retention=True), table, None)
    run(Vacuum(retention_hours=0, override_retention=True), table, None, txn_id=str(uuid.uuid4()))
    ids = [(info.txn_id or "").split(":") for info in reversed(table.history(4))]
    assert [step for _, step in ids] == ["start", "end", "start", "end"]
    assert ids[0][0] == ids[1][0] != ids[2][0] == ids[3][0]
