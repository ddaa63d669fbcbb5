"""A missing version before an existing one: no writer may take its number."""

import pytest

from engine.actions.codec import encode
from engine.errors import ConcurrentDeleteReadException, LogCleanedError
from engine.log.paths import commit_path
from tests.engine.made_tables import stage
from tests.engine.transaction.tables import append, data_file, new_table, removal_of


def _hide_commit(table, version: int) -> bytes:
    """Remove a commit from the log; return its content."""
    content = table.store.read(commit_path(version))
    table.store.delete(commit_path(version))
    return content


def test_a_put_into_a_gap_of_the_log_is_refused():
    table = new_table()
    append(table, "a")
    txn = table.start_transaction()
    append(table, "b")
    append(table, "c")
    _hide_commit(table, 2)
    stage(txn, data_file("mine"))
    with pytest.raises(LogCleanedError, match="2 to 3"):
        txn.commit("WRITE")
    assert table.store.stat(commit_path(2)) is None


def test_a_version_that_appears_late_is_checked_like_any():
    table = new_table()
    append(table, "a")
    txn = table.start_transaction()
    for version, action in ((2, removal_of("a")), (3, data_file("c"))):
        table.store.put(commit_path(version), encode(action).encode())
    late = _hide_commit(table, 2)
    txn.read_where("x = 1")
    stage(txn, removal_of("a"), data_file("mine"))
    with pytest.raises(LogCleanedError):
        txn.commit("UPDATE")
    table.store.put(commit_path(2), late)
    with pytest.raises(ConcurrentDeleteReadException):
        txn.commit("UPDATE")
