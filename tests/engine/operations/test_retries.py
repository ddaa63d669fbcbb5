"""Retries of a statement, and the tables on which a statement may run."""

import pytest

from engine.commands.sql import parse_statement
from engine.errors import ConflictError, RequestError
from engine.operations.run import run
from engine.storage.uri import open_store
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver
from tests.engine.transaction.tables import FakeClock


class _Rival(TransactionObserver):
    """An observer that changes the row first, a given number of times."""

    def __init__(self, table, times) -> None:
        self._table, self._times = table, times

    def staged(self, _txn):
        if self._times:
            self._times -= 1
            update = parse_statement("UPDATE t SET v = v + 1 WHERE id = 1")
            run(update, self._table, None, user_name="rival")


class _Waits(FakeClock):
    """A clock that records each pause."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = []

    def pause(self, seconds):
        self.waits.append(seconds)


@pytest.fixture
def table(do_lightly, empty_table):
    do_lightly("CREATE TABLE t (id BIGINT, v BIGINT) USING DELTA")
    do_lightly("INSERT INTO t VALUES (1, 0)")
    return DeltaTable(empty_table.store, clock=_Waits())


def _add_ten(table, losses, **options):
    update = parse_statement("UPDATE t SET v = v + 10 WHERE id = 1")
    rival = _Rival(DeltaTable(table.store), losses)
    return run(update, table, None, observer=rival, **options)


def test_each_conflict_counts_as_an_attempt_and_is_followed_by_a_pause(table):
    result = _add_ten(table, 3, retries=5)
    assert (result.attempts, result.version) == (4, 5)
    assert len(table.clock.waits) == 3
    assert all(0 <= wait <= 0.05 * 2**number for number, wait in enumerate(table.clock.waits))
    assert table.snapshot().to_arrow().to_pylist() == [{"id": 1, "v": 13}]


def test_the_last_conflict_is_raised_without_waiting(table):
    with pytest.raises(ConflictError):
        _add_ten(table, 2, retries=1)
    assert len(table.clock.waits) == 1


def test_a_conflict_names_the_loser_and_the_winner(table):
    with pytest.raises(ConflictError) as raised:
        _add_ten(table, 1, user_name="ada")
    assert (raised.value.conflict.current.user, raised.value.conflict.winner.user) == (
        "ada",
        "rival",
    )


@pytest.mark.parametrize("spelling", ["{}", "file://{}", "{}/", "{}/../{name}", "{}-link"])
def test_a_statement_that_names_its_table_by_location_runs_there_alone(tmp_path, spelling):
    here, elsewhere = (_create_table(tmp_path / name) for name in ("here", "elsewhere"))
    (tmp_path / "here-link").symlink_to(tmp_path / "here")
    name = spelling.format(tmp_path / "here", name="here")
    statement = parse_statement(f"TRUNCATE TABLE delta.`{name}`")
    with pytest.raises(RequestError, match="is run on"):
        run(statement, elsewhere, None)
    assert elsewhere.snapshot().row_count == 1
    assert run(statement, here, None).version == 2
    assert here.snapshot().row_count == 0


def _create_table(place):
    table = DeltaTable(open_store(str(place)))
    run(parse_statement("CREATE TABLE t (id BIGINT) USING DELTA"), table, None)
    run(parse_statement("INSERT INTO t VALUES (1)"), table, None)
    return table
