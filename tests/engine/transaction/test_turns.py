"""Turns of threads that commit to one table; a holder that waits for another table blocks others briefly."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.table import DeltaTable
from engine.transaction import committer
from engine.transaction.observer import TransactionObserver
from tests.engine.made_tables import stage
from tests.engine.transaction.tables import SCHEMA, append, data_file, new_table

WRITERS, EACH = 8, 6


class AtTheGate(TransactionObserver):
    """A store that announces the put of its version, and waits for permission."""

    def __init__(self, arrived: threading.Event, may_go: threading.Event) -> None:
        self.arrived, self.may_go = arrived, may_go

    def before_commit(self, _txn, _attempt_version):
        self.arrived.set()
        assert self.may_go.wait(60)


def _attempts(table: DeltaTable, path: str, observer: TransactionObserver | None = None) -> int:
    own = DeltaTable.open(table.uri)
    txn = own.start_transaction(observer=observer) if observer else own.start_transaction()
    stage(txn, data_file(path))
    txn.commit("WRITE")
    return txn.outcome.attempts


def test_no_thread_prepares_a_version_that_another_is_about_to_commit(monkeypatch, tmp_path):
    """The table is on disk, where threads overlap while they wait for I/O."""
    monkeypatch.setattr(committer, "_LONGEST_WAIT_S", 60)
    table = DeltaTable.create(str(tmp_path / "t"), SCHEMA)

    def write(writer: int) -> list[int]:
        names = [f"{writer}-{number}" for number in range(EACH)]
        for name in names:
            (tmp_path / "t" / name).write_bytes(b"x")
        return [_attempts(table, name) for name in names]

    with ThreadPoolExecutor(WRITERS) as pool:
        attempts = [each for done in pool.map(write, range(WRITERS)) for each in done]
    assert attempts == [1] * (WRITERS * EACH)
    assert DeltaTable.open(table.uri).version() == WRITERS * EACH


def test_a_thread_that_waits_with_its_turn_for_another_one_is_passed(monkeypatch):
    monkeypatch.setattr(committer, "_LONGEST_WAIT_S", 0.05)
    table, arrived, may_go = new_table(), threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(_attempts, table, "slow", AtTheGate(arrived, may_go))
        assert arrived.wait(60)
        assert _attempts(table, "quick") == 1  # lands while the other one has the turn
        may_go.set()
        assert slow.result() == 2
    assert DeltaTable.open(table.uri).version() == 2


@pytest.mark.parametrize("same", [True, False])
def test_a_commit_within_a_commit_does_not_wait(monkeypatch, same):
    monkeypatch.setattr(committer, "_LONGEST_WAIT_S", 60)
    table = new_table()
    inner = table if same else new_table()

    class Within(TransactionObserver):
        looks = 0

        def before_commit(self, _txn, _attempt_version):
            self.looks += 1
            if self.looks == 1:
                append(inner, "inner")

    assert _attempts(table, "outer", Within()) == (2 if same else 1)


def test_a_turn_is_left_whatever_happens(monkeypatch):
    monkeypatch.setattr(committer, "_LONGEST_WAIT_S", 60)
    table = new_table()

    class Failing(TransactionObserver):
        def before_commit(self, _txn, _attempt_version):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _attempts(table, "lost", Failing())
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(_attempts, table, "next").result(60) == 1


def _is_held_up(root: str) -> bool:
    """Return True if a new turn cannot be had although no thread left one meanwhile."""
    with committer.Turn(root) as turn:
        return turn.take()


@pytest.mark.parametrize(("longest_s", "is_lost"), [(60, False), (0, True)])
def test_a_turn_that_is_never_left_does_not_block_others_for_ever(monkeypatch, longest_s, is_lost):
    """An interrupt may end a thread right after it has taken its turn."""
    monkeypatch.setattr(committer, "_LONGEST_WAIT_S", 0.05)
    monkeypatch.setattr(committer, "_LONGEST_TURN_S", longest_s)
    root = new_table().uri
    lost = threading.Thread(target=committer.Turn(root).take)
    lost.start()
    lost.join()
    assert _is_held_up(root)
    assert _is_held_up(root) is not is_lost
