# ruff: noqa: S608 - statements are what is tested
"""Two DELETEs of the same rows with a change feed: each deleted row appears once."""

from contextlib import suppress
from dataclasses import replace

import pytest

from engine.actions.files import AddCDCFile, AddFile, RemoveFile
from engine.conflicts.decide.row_pairs import LEFT_OUT
from engine.conflicts.overlap import both_delete
from engine.errors import ConflictError
from engine.log.commits import read_commit
from engine.operations.run import run
from engine.snapshot.change_feed import read_changes
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver
from engine.transaction.pending_commit import ResolvedConflict
from tests.engine.conflicts.overlaps import add, current, remove, vector, where, winner

CONDITIONS = ("id = 2", "id <= 3", "id <= 2", "id = 5", "id >= 0", "id < 0")


class _Meanwhile(TransactionObserver):
    """A statement that runs once, when another has staged its files."""

    def __init__(self, table: DeltaTable, statement: str) -> None:
        self._table, self._statement = table, statement
        self.hows: list[str] = []

    def staged(self, txn: object) -> None:  # noqa: ARG002
        statement, self._statement = self._statement, ""
        if statement:
            run(statement, DeltaTable(self._table.store))

    def conflict_resolved(self, txn: object, conflict: ResolvedConflict) -> None:  # noqa: ARG002
        self.hows.append(conflict.how)


@pytest.fixture
def create(do_lightly):
    def create_table(vectors: str) -> None:
        """Create two files of three rows, with a change feed from the first version on."""
        do_lightly(
            "CREATE OR REPLACE TABLE t (id BIGINT) USING DELTA TBLPROPERTIES"
            f" ('delta.enableDeletionVectors' = '{vectors}', 'delta.enableChangeDataFeed' = 'true')"
        )
        do_lightly("INSERT INTO t VALUES (1), (2), (3)")
        do_lightly("INSERT INTO t VALUES (4), (5), (6)")

    return create_table


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_a_delete_writes_change_files_only_where_it_rewrites_files(create, empty_table, vectors):
    """Therefore the rule that change files prevent shared rows costs a DELETE nothing."""
    for condition in CONDITIONS:
        create(vectors)
        result = run(f"DELETE FROM t WHERE {condition}", empty_table)
        if result.version is None:
            continue
        actions = read_commit(empty_table.store, result.version).actions
        gone = {action.path for action in actions if isinstance(action, RemoveFile)}
        added = {action.path for action in actions if isinstance(action, AddFile)}
        has_changes = any(isinstance(action, AddCDCFile) for action in actions)
        assert has_changes == bool(added - gone), condition
        assert not (has_changes and vectors == "true"), condition


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_the_change_feed_names_each_deleted_row_once(create, empty_table, vectors):
    """Files decide about files that one DELETE rewrote or another DELETE masked."""
    both_commit = set()
    for first in CONDITIONS[:-1]:
        for second in CONDITIONS[:-1]:
            create(vectors)
            start = DeltaTable(empty_table.store).snapshot().version + 1
            meanwhile = _Meanwhile(empty_table, f"DELETE FROM t WHERE {first}")
            with suppress(ConflictError):
                run(f"DELETE FROM t WHERE {second}", empty_table, observer=meanwhile)
                both_commit.add((first, second))
            table = DeltaTable(empty_table.store)
            changes = read_changes(table, start).to_pylist()
            named = [row["id"] for row in changes if row["_change_type"] == "delete"]
            left = table.snapshot().to_arrow()["id"].to_pylist()
            assert sorted([*named, *left]) == [1, 2, 3, 4, 5, 6], (first, second)
            assert {row["_change_type"] for row in changes} == {"delete"}
    every = {(first, second) for first in CONDITIONS[:-1] for second in CONDITIONS[:-1]}
    assert both_commit == every if vectors == "true" else ("id >= 0", "id >= 0") in both_commit


def test_the_record_says_whether_rows_were_shared(create, empty_table):
    for second, how in (("id = 2", LEFT_OUT), ("id = 3", "deletion vectors merged")):
        create("true")
        meanwhile = _Meanwhile(empty_table, "DELETE FROM t WHERE id <= 2")
        run(f"DELETE FROM t WHERE {second}", empty_table, observer=meanwhile)
        [said] = meanwhile.hows
        assert set(said.split(", ")) == {how, "rows read"}, second


def test_a_program_that_stages_change_files_shares_no_rows():
    """They would repeat the rows of the winning DELETE."""
    masks = (remove("f"), add("f", deletion_vector=vector("v1")))
    change = AddCDCFile(path="_change_data/c", partition_values={}, size=1)
    won = winner(remove("f"), add("f", deletion_vector=vector("v2")))
    for extra, may_share in (((), True), ((change,), False)):
        delete = current(*masks, *extra, operation="DELETE")
        reads = (where("part = 'a'", every_match_changes=True),)
        assert both_delete(replace(delete, reads=reads), won) is may_share
