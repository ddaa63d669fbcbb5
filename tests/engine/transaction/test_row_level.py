"""Row-level concurrency from the outside: real files, and every obstacle to distinguishing rows."""

import uuid

import msgspec
import pyarrow as pa
import pytest

from engine.actions.files import AddCDCFile
from engine.conflicts.decide.rebase import build_remove
from engine.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteReadException,
    ConflictError,
)
from engine.expressions.parse import parse_condition
from engine.expressions.tree import Call, Subquery
from engine.log.commits import read_commit
from engine.schema.types import BOOLEAN
from engine.snapshot.change_feed import read_changes
from engine.table import DeltaTable
from engine.transaction.pending_commit import CommitLimits
from tests.engine.made_tables import stage
from tests.engine.transaction.tables import FakeClock
from tests.stateful import commands as c
from tests.stateful.arrow_engine import Running, log_parameters, rows_of, run
from tests.stateful.history import SCHEMA

ROWS = tuple(("a", x) for x in range(6))


def _table(**properties: str) -> DeltaTable:
    named = {"delta.enableDeletionVectors": "true"} | {
        f"delta.{k}": v for k, v in properties.items()
    }
    table = DeltaTable.create(f"memory://rows/{uuid.uuid4()}", SCHEMA, properties=named)
    _do(table, c.Append(1, ROWS))
    return table


def _do(table: DeltaTable, command: c.Command) -> None:
    running = run(command, table, stats=False)
    running.txn.commit(running.operation, log_parameters(command))


def _catch_conflict(running: Running) -> ConflictError:
    with pytest.raises(ConflictError) as raised:
        running.txn.commit(running.operation)
    return raised.value


def test_a_resolved_conflict_is_reported_with_its_winning_commit():
    table = _table()
    running = run(c.Delete(2, c.Range(0, 2)), table, stats=False)
    _do(table, c.Delete(3, c.Range(4, 5)))
    running.txn.commit("DELETE")
    assert running.txn.outcome is not None
    (resolved,) = running.txn.outcome.resolved
    assert (resolved.winner.version, resolved.winner.operation) == (2, "DELETE")
    assert resolved.rule == "data_added"
    assert resolved.row_count == 3
    assert list(resolved.rows.values()) == [(0, 1, 4)]
    assert resolved.duration_ms >= 0
    assert len(resolved.files) == 1


def test_the_message_names_the_rows():
    table = _table()
    running = run(c.Delete(2, c.Range(0, 2)), table, stats=False)
    _do(table, c.Update(3, c.Range(1, 3), 9))
    error = _catch_conflict(running)
    assert isinstance(error, ConcurrentDeleteReadException)
    assert error.conflict.subclass == "ROW_LEVEL_CHANGES"
    assert "(row 1 of" in str(error)
    assert error.conflict.files[0].rows == (1,)


def test_a_spent_budget_is_a_conflict_with_its_own_subclass():
    table = _table()
    limits = CommitLimits(row_budget_s=1.0)
    running = run(c.Delete(2, c.Range(0, 2)), table, stats=False)
    slow = DeltaTable(table.store, clock=FakeClock(step_s=1.0), limits=limits).start_transaction()
    slow.read_where("x >= 0 AND x < 2", every_match_changes=True)
    stage(slow, *running.staged)
    _do(table, c.Delete(3, c.Range(4, 5)))
    with pytest.raises(ConcurrentAppendException) as raised:
        slow.commit("DELETE")
    assert raised.value.conflict.subclass == "ALLOTTED_TIME_EXCEEDED"
    assert "time" in raised.value.conflict.remedies[0].action


def test_rows_that_cannot_be_read_are_a_conflict():
    table = _table()
    running = run(c.Delete(2, c.Range(0, 2)), table, stats=False)
    _do(table, c.Append(3, (("a", 1),)))
    _do(table, c.Update(4, c.Range(4, 5), 5))
    for add in table.snapshot().add_files():
        if add.path not in {action.path for action in running.staged}:
            table.store.delete(add.path)
    error = _catch_conflict(running)
    assert "could not be read" in error.conflict.row_level
    assert table.version() == 3


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        (Subquery("exists", "SELECT 1 FROM other", ("other",), BOOLEAN), "subquery"),
        ("x < 2 AND rand() < 0.5", "deterministic"),
    ],
    ids=["subquery", "not deterministic"],
)
def test_conditions_that_cannot_be_decided_by_rows_fall_back_to_files(
    condition: str | Subquery, reason: str
):
    table = _table()
    running = run(c.Delete(2, c.Range(0, 2)), table, stats=False)
    running.txn.read_where(condition, every_match_changes=True)
    _do(table, c.Delete(3, c.Range(4, 5)))
    assert reason in _catch_conflict(running).conflict.row_level


@pytest.mark.parametrize("reads_itself", [True, False])
def test_a_subquery_that_may_read_the_table_reads_all_of_it(reads_itself: bool):
    """The other parts of the condition do not limit the subquery's reads."""
    table = _table()
    txn = table.start_transaction()
    subquery = Subquery("exists", "SELECT 1 FROM t", ("t",), BOOLEAN)
    low = parse_condition("x < 2", SCHEMA)
    txn.read_where(Call("and", (low, subquery), BOOLEAN), reads_itself=reads_itself)
    stage(txn, *run(c.Append(2, (("a", 9),)), table, stats=True).staged)
    other = run(c.Merge(3, (7,)), table, stats=True)
    other.txn.commit(other.operation)
    if reads_itself:
        with pytest.raises(ConcurrentAppendException):
            txn.commit("WRITE")
    else:
        assert txn.commit("WRITE") == 3


def test_a_command_may_fall_back_for_a_reason_of_its_own():
    table = _table()
    running = run(c.Delete(2, c.Range(0, 2)), table, stats=False)
    running.txn.use_files_alone("its source reads the target")
    _do(table, c.Delete(3, c.Range(4, 5)))
    conflict = _catch_conflict(running).conflict
    assert conflict.row_level == "its source reads the target"
    assert not any("deletion vectors" in remedy.action for remedy in conflict.remedies), (
        "it has them"
    )


def test_a_fallback_still_follows_rows_that_optimize_moved():
    table = _table()
    running = run(c.Delete(2, c.Range(0, 2)), table, stats=False)
    running.txn.use_files_alone("its source reads the target")
    _do(table, c.Append(3, ROWS))
    _do(table, c.Optimize(4, (0, 1)))
    running.txn.commit("DELETE")
    assert running.txn.outcome is not None
    assert running.txn.outcome.resolved[0].how == "row map"
    assert len(rows_of(table.snapshot())) == 10


def test_a_read_of_the_whole_table_follows_a_compaction_and_nothing_else():
    for winner, lost in ((c.Optimize(3, (0,)), False), (c.Delete(3, c.Range(5, 6)), True)):
        table = _table()
        running = run(c.Append(2, (("a", 9),)), table, stats=False)
        running.txn.read_whole_table()
        _do(table, winner)
        if lost:
            assert _catch_conflict(running).conflict.subclass == "WHOLE_TABLE_READ"
        else:
            running.txn.commit("WRITE")
            assert len(rows_of(table.snapshot())) == 7


def test_a_condition_that_arrow_cannot_evaluate_needs_a_tester():
    """Division by zero is an error in Spark, but not in Arrow."""
    for tester, lost in ((None, True), (lambda _, rows: pa.array([False] * rows.num_rows), False)):
        table = _table()
        running = run(c.Append(2, (("a", 9),)), table, stats=False)
        running.txn.read_where("10 % x = 3")
        if tester is not None:
            running.txn.test_rows_with(tester)
        _do(table, c.Delete(3, c.Range(0, 1)))
        if lost:
            assert "could not be read" in _catch_conflict(running).conflict.row_level
        else:
            running.txn.commit("WRITE")
            assert table.version() == 3


def test_the_second_of_two_identical_deletes_commits_nothing():
    table = _table()
    running = run(c.Delete(2, c.Range(0, 2)), table, stats=False)
    _do(table, c.Delete(3, c.Range(0, 2)))
    running.txn.commit("DELETE", {}, {"numDeletedRows": 2, "numDeletionVectorsAdded": 1})
    outcome = running.txn.outcome
    assert outcome is not None
    assert (outcome.committed, table.version()) == (False, 2)
    assert outcome.metrics == {"numDeletedRows": 0, "numDeletionVectorsAdded": 0}


@pytest.mark.parametrize("level", ["Serializable", "WriteSerializable"])
def test_of_two_deletes_the_second_counts_and_feeds_only_its_own_rows(level: str):
    table = _table(isolationLevel=level, enableChangeDataFeed="true")
    running = run(c.Delete(2, c.Range(0, 4)), table, stats=False)
    _do(table, c.Delete(4, c.Range(2, 6)))
    metrics = {"numDeletedRows": 4, "numDeletionVectorsAdded": 1, "numDeletionVectorsUpdated": 0}
    running.txn.commit("DELETE", {}, metrics)
    assert rows_of(table.snapshot()) == {}
    (add,) = table.snapshot().add_files()
    assert add.deletion_vector is not None
    assert add.deletion_vector.cardinality == 6
    changes = read_changes(table, 3, 3)
    assert sorted(changes["x"].to_pylist()) == [0, 1]
    info = read_commit(table.store, 3).commit_info
    assert info is not None
    told = {"numDeletedRows": "2", "numDeletionVectorsAdded": "1", "numDeletionVectorsUpdated": "1"}
    assert info.operation_metrics == told
    assert info.read_version == 1


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_two_deletes_of_whole_files_both_commit(vectors: str):
    """A file that a DELETE removed without a replacement can be traced without a vector."""
    table = _table(enableDeletionVectors=vectors)
    _do(table, c.Append(2, (("a", 7), ("a", 8))))
    running = run(c.Delete(4, c.Range(0, 9)), table, stats=True)
    _do(table, c.Delete(5, c.Range(7, 9)))
    running.txn.commit("DELETE", {}, {"numDeletedRows": 8, "numRemovedFiles": 2})
    outcome = running.txn.outcome
    assert outcome is not None
    assert outcome.metrics == {"numDeletedRows": 6, "numRemovedFiles": 1}
    assert rows_of(table.snapshot()) == {}


def test_only_a_winner_that_deletes_and_a_delete_of_every_match_may_share_rows():
    merges = {"delete": False, "update": True, "shift": True}
    winners = {c.Delete(3, c.Range(1, 3)): False, c.Update(3, c.Range(1, 3), 1): True}
    winners |= {
        c.Merge(3, (1, 2), matched, inserts=False): lost for matched, lost in merges.items()
    }
    winners |= {
        c.Delete(3, c.Range(1, 3), rewrite=True): True,
        c.ReplaceWhere(3, c.Range(1, 3)): True,
    }
    for winner, lost in winners.items():
        for current, may_share in (
            (c.Delete(2, c.Range(0, 4)), True),
            (c.Delete(2, c.Range(0, 4), promise=False), False),
            (c.Delete(2, c.Range(0, 4), rewrite=True), False),
            (c.Update(2, c.Range(0, 4), 9), False),
        ):
            table = _table()
            running = run(current, table, stats=False)
            _do(table, winner)
            if lost or not may_share:
                _catch_conflict(running)
            else:
                running.txn.commit("DELETE")


def test_a_merge_that_records_another_clause_shares_no_rows():
    for clauses, lost in (
        ({"matchedPredicates": '[{"actionType":"delete"}]'}, False),
        ({"matchedPredicates": '[{"predicate":"x > 1","actionType":"delete"}]'}, False),
        ({"notMatchedBySourcePredicates": '[{"actionType":"delete"}]'}, False),
        ({"matchedPredicates": '[{"actionType":"delete"},{"actionType":"update"}]'}, True),
        (
            {
                "matchedPredicates": '[{"actionType":"delete"}]',
                "notMatchedPredicates": '[{"actionType":"insert"}]',
            },
            True,
        ),
        ({"matchedPredicates": "[]"}, True),
        ({"matchedPredicates": "delete"}, True),
        ({"matchedPredicates": '["delete"]'}, True),
        ({"matchedPredicates": "{}"}, True),
        ({"matchedPredicates": None}, True),
        ({}, True),
    ):
        table = _table()
        running = run(c.Delete(2, c.Range(0, 2)), table, stats=False)
        merge = run(c.Merge(4, (1,), "delete", inserts=False), table, stats=False)
        merge.txn.commit("MERGE", clauses)
        if lost:
            _catch_conflict(running)
        else:
            running.txn.commit("DELETE")
            assert sorted(row[1] or 0 for row in rows_of(table.snapshot()).values()) == [2, 3, 4, 5]


def test_a_delete_whose_change_file_names_deleted_rows_is_aborted():
    table = _table(enableChangeDataFeed="true")
    running = run(c.Delete(5, c.Range(0, 2)), table, stats=False)
    assert any(isinstance(action, AddCDCFile) for action in running.staged)
    _do(table, c.Delete(4, c.Range(1, 3)))
    _catch_conflict(running)


def test_optimize_loses_to_any_writer_that_brings_rows_of_its_sources_back():
    """RESTORE is one way; a commit that shrinks a deletion vector also adds rows that OPTIMIZE lacks."""
    table = _table()
    _do(table, c.Delete(2, c.Range(2, 3)))
    running = run(c.Optimize(3, (0,)), table, stats=False)
    other = table.start_transaction()
    live = table.snapshot().add_files()[0]
    stage(other, build_remove(live), msgspec.structs.replace(live, deletion_vector=None))
    other.commit("Manual Update")
    assert _catch_conflict(running).conflict.rule == "removed_file_removed"
    assert len(rows_of(table.snapshot())) == 6


def test_vectors_are_merged_once_per_set_of_rows():
    """A race lost after the merge does not write a second file of the same rows."""
    table = _table()
    running = run(c.Delete(2, c.Range(0, 2)), table, stats=False)
    _do(table, c.Delete(3, c.Range(4, 5)))
    running.txn.commit("DELETE")
    add = table.snapshot().add_files()[0]
    assert add.deletion_vector is not None
    assert add.deletion_vector.cardinality == 3
    removed = [a for a in _actions(table, 3) if type(a).__name__ == "RemoveFile"]
    before = [a for a in _actions(table, 2) if type(a).__name__ == "AddFile"]
    assert removed[0].key == before[0].key


def _actions(table: DeltaTable, version: int):
    return read_commit(table.store, version).actions


def test_a_merged_vector_is_in_a_random_directory_where_the_table_requests_it():
    named = {"delta.enableDeletionVectors": "true", "delta.randomizeFilePrefixes": "true"}
    table = DeltaTable.create(f"memory://rows/{uuid.uuid4()}", SCHEMA, properties=named)
    _do(table, c.Append(1, tuple(("a", x % 3) for x in range(3000))))
    running = run(c.Delete(2, c.Range(0, 1)), table, stats=False)
    _do(table, c.Delete(3, c.Range(1, 2)))
    running.txn.commit("DELETE")
    (merged,) = table.snapshot().add_files()
    assert merged.deletion_vector is not None
    assert merged.deletion_vector.storage_type == "u"
    assert len(merged.deletion_vector.path_or_inline_dv) == 2 + 20
    assert table.snapshot().row_count == 1000


def _create_clustered(**properties: str) -> DeltaTable:
    named = {f"delta.{name}": value for name, value in properties.items()}
    uri = f"memory://rows/{uuid.uuid4()}"
    table = DeltaTable.create(uri, SCHEMA, clustering_columns=["x"], properties=named)
    _do(table, c.Append(1, ROWS))
    return table


def test_a_clustered_table_without_deletion_vectors_is_decided_by_files():
    """A rewrite copies unchanged rows, so it does not show which rows both sides changed."""
    table = _create_clustered(enableDeletionVectors="false")
    running = run(c.Update(2, c.Range(2, 3), 2), table, stats=False)
    _do(table, c.Update(3, c.Range(3, 4), 3))
    conflict = _catch_conflict(running).conflict
    assert conflict.subclass == "WITHOUT_HINT"
    assert "deletionVectors" in conflict.row_level or "DeletionVectors" in conflict.row_level
    assert not any(file.rows for file in conflict.files)
    assert "deletion_vectors" in {remedy.kind for remedy in conflict.remedies}


@pytest.mark.parametrize("copied", ["numCopiedRows", "", "numTargetRowsCopied"])
def test_rows_that_a_winner_may_only_have_copied_are_not_named(copied: str):
    """An engine without deletion vectors rewrites a file: the rows that it changed are unknown."""
    table = _table()
    running = run(c.Delete(2, c.Range(0, 2)), table, stats=False)
    other = run(c.Update(3, c.Range(4, 5), 5, rewrite=True), table, stats=False)
    other.txn.commit("UPDATE", metrics={copied: 5} if copied else {})
    conflict = _catch_conflict(running).conflict
    assert conflict.subclass == "WITHOUT_HINT"
    assert "cannot be traced" in conflict.row_level
    assert not any(file.rows for file in conflict.files)


def test_rows_of_a_whole_file_are_named_where_the_winner_copied_none():
    table = _table()
    running = run(c.Delete(2, c.Range(0, 2)), table, stats=False)
    other = run(c.Update(3, c.Range(0, 6), 1), table, stats=False)
    other.txn.commit("UPDATE", metrics={"numCopiedRows": 0})
    conflict = _catch_conflict(running).conflict
    assert conflict.subclass == "ROW_LEVEL_CHANGES"
    assert conflict.files[0].rows


@pytest.mark.parametrize("tracking", [True, False])
def test_optimize_of_a_clustered_table_is_followed_by_row_ids_alone(tracking: bool):
    table = _create_clustered(enableDeletionVectors="true", enableRowTracking=str(tracking).lower())
    _do(table, c.Append(2, ROWS))
    running = run(c.Delete(3, c.Range(0, 2)), table, stats=False)
    _do(table, c.Optimize(4, (0, 1)))
    if tracking:
        running.txn.commit("DELETE")
        assert len(rows_of(table.snapshot())) == 8
    else:
        remedies = _catch_conflict(running).conflict.remedies
        assert remedies[0].kind == "row_tracking"
        assert not any("deletion vectors" in remedy.action for remedy in remedies), "it has them"
