"""How a conflict was decided is recorded with it, and changes no verdict."""

import uuid

import pytest

from engine.conflict_facts import Decision, Rule, Verdict
from engine.conflicts.decide.checker import CHECKS
from engine.conflicts.decide.decision import WINNERS_KEPT
from engine.conflicts.decide.row_resolution import ROWS_DRAWN
from engine.errors import ConflictError, ConflictFacts
from engine.snapshot.row_lookup import read_rows_at
from engine.table import DeltaTable
from tests.engine.made_tables import stage
from tests.stateful import commands as c
from tests.stateful.arrow_engine import Running, run
from tests.stateful.history import SCHEMA

ROWS = tuple(("a", x) for x in range(6))


def _table(
    rows: tuple[tuple[str, int], ...] = ROWS,
    level: str = "WriteSerializable",
    **layout: tuple[str, ...],
) -> DeltaTable:
    named = {"delta.enableDeletionVectors": "true", "delta.isolationLevel": level}
    place = f"memory://decided/{uuid.uuid4()}"
    table = DeltaTable.create(place, SCHEMA, properties=named, **layout)
    _do(table, c.Append(1, rows))
    return table


def _do(table: DeltaTable, command: c.Command) -> None:
    running = run(command, table, stats=True)
    running.txn.commit(running.operation)


def _catch_decision(running: Running) -> Decision:
    with pytest.raises(ConflictError) as raised:
        running.txn.commit(running.operation)
    decision = raised.value.conflict.decision
    assert decision is not None
    return decision


def test_the_rows_of_the_first_shared_file_are_counted_for_each_side():
    table = _table()
    _do(table, c.Delete(2, c.Range(5, 6)))
    running = run(c.Delete(3, c.Range(0, 3)), table, stats=True)
    _do(table, c.Delete(4, c.Range(2, 5)))
    (shared,) = _catch_decision(running).shared_files
    assert (shared.current_count, shared.winner_count, shared.common_count) == (3, 3, 1)
    assert (shared.current_rows, shared.winner_rows) == ((0, 1, 2), (2, 3, 4))
    assert (shared.gone_before_count, shared.gone_before_rows) == (1, (5,))
    assert (shared.common_rows, shared.file_row_count, shared.did) == ((2,), 6, "changed")


def test_many_positions_are_sampled():
    table = _table(tuple(("a", x) for x in range(3000)))
    running = run(c.Delete(2, c.Range(0, 2000), promise=False), table, stats=True)
    _do(table, c.Delete(3, c.Range(1000, 3000)))
    (shared,) = _catch_decision(running).shared_files
    assert (shared.current_count, shared.common_count) == (2000, 1000)
    assert len(shared.current_rows) == len(shared.common_rows) == ROWS_DRAWN
    assert shared.current_rows[0] == 0
    assert shared.current_rows[-1] > 1900, "spread over all, not the first ones"


def _catch_facts(running: Running) -> ConflictFacts:
    with pytest.raises(ConflictError) as raised:
        running.txn.commit(running.operation)
    return raised.value.conflict


def test_all_rows_of_both_are_counted_beside_the_first_hundred():
    table = _table(tuple(("a", x) for x in range(3000)))
    _do(table, c.Append(2, tuple(("a", x) for x in range(5000, 5150))))
    running = run(c.Delete(3, c.Range(0, 9000)), table, stats=True)
    _do(table, c.Delete(4, c.Range(1000, 9000)))
    facts = _catch_facts(running)
    assert facts.row_count == 2150
    assert sorted(file.row_count or 0 for file in facts.files) == [150, 2000]
    assert [len(file.rows) for file in facts.files] == [100, 100]
    counts = [f"and {(file.row_count or 0) - 3:,} more of {file.path}" for file in facts.files]
    assert any(count in facts.what for count in counts)


@pytest.mark.parametrize(
    "winner",
    [c.Delete(4, c.Range(2, 5)), c.Update(4, c.Range(2, 5), x=1), c.Append(4, (("a", 2),))],
    ids=["removed", "removed and added", "added"],
)
def test_rows_of_both_are_live_at_the_version_told_with_them(winner):
    table = _table(level="Serializable")
    running = run(c.Delete(3, c.Range(0, 6)), table, stats=True)
    _do(table, winner)
    shared = next(file for file in _catch_decision(running).shared_files if file.common_count)
    assert shared.version is not None
    live = read_rows_at(table.snapshot(shared.version), shared.path, shared.common_rows, ["x"])
    assert live.num_rows == shared.common_count > 0


def test_only_one_file_keeps_positions_the_first_with_rows_of_both():
    table = _table()
    _do(table, c.Append(2, tuple(("a", x) for x in range(10, 16))))
    running = run(c.Delete(3, c.Range(2, 13)), table, stats=True)
    first = c.Delete(4, c.Range(0, 2))
    _do(table, c.Append(5, ()))
    both = run(first, table, stats=True)
    second = run(c.Delete(6, c.Range(12, 14)), table, stats=True)
    stage(both.txn, *second.staged)
    both.txn.commit("DELETE")
    files = _catch_decision(running).shared_files
    assert sorted(file.common_count for file in files) == [0, 1]
    assert [bool(file.common_rows) for file in files] == [file.common_count > 0 for file in files]


def test_every_winner_has_the_verdict_of_every_check():
    table = _table()
    running = run(c.Delete(2, c.Range(0, 2), promise=False), table, stats=True)
    _do(table, c.Append(3, (("a", 90),)))
    _do(table, c.Optimize(4, (0, 1)))
    _do(table, c.Delete(5, c.Range(4, 5)))
    _do(table, c.Delete(6, c.Range(1, 3)))
    decision = _catch_decision(running)
    assert [winner.version for winner in decision.winners] == [2, 3, 4, 5]
    assert [tuple(winner.verdicts) for winner in decision.winners] == [
        tuple(k.rule for k in CHECKS)
    ] * 4
    said = [list(winner.verdicts.values())[4:] for winner in decision.winners]
    assert said == [
        ["exempt", "none", "none"],
        ["resolved", "resolved", "resolved"],
        ["resolved", "resolved", "resolved"],
        ["resolved", "conflict", "not reached"],
    ]
    assert [winner.how for winner in decision.winners] == [
        "",
        "row map",
        "deletion vectors merged, rows read",
        "",
    ]
    assert decision.winners_before == 0


def test_a_resolved_conflict_records_the_same():
    table = _table()
    running = run(c.Delete(2, c.Range(0, 2)), table, stats=True)
    _do(table, c.Delete(3, c.Range(4, 5)))
    running.txn.commit("DELETE")
    assert running.txn.outcome is not None
    decision = running.txn.outcome.resolved[0].decision
    assert decision is not None
    (shared,) = decision.shared_files
    assert (shared.current_count, shared.winner_count, shared.common_count) == (2, 1, 0)
    assert decision.current_changes.rows_changed == 2
    assert decision.winner_changes.rows_changed == 1
    assert (decision.current_changes.files_changed, decision.current_changes.files_masked) == (1, 1)
    assert (decision.budget_ms, decision.duration_ms is not None) == (10_000, True)


def test_of_many_winners_the_last_ones_are_kept_and_the_rest_counted():
    table = _table()
    running = run(c.Delete(2, c.Range(0, 2), promise=False), table, stats=True)
    for number in range(WINNERS_KEPT + 5):
        _do(table, c.Append(10 + number, (("a", 1000 + number),)))
    _do(table, c.Delete(99, c.Range(0, 1)))
    decision = _catch_decision(running)
    assert (len(decision.winners), decision.winners_before) == (WINNERS_KEPT, 6)
    assert decision.winners[-1].verdicts[Rule.READ_FILE_REMOVED] is Verdict.CONFLICT


@pytest.mark.parametrize(
    ("layout", "column", "ours", "theirs"),
    [
        ("partition_columns", "part", ["a", "b"], ["b"]),
        ("clustering_columns", "x", ["3", "10"], ["10"]),
    ],
)
def test_files_of_both_sides_are_in_the_order_of_the_layout(
    layout: str, column: str, ours: list[str], theirs: list[str]
):
    table = _table((("b", 10), ("b", 11)), **{layout: (column,)})
    _do(table, c.Append(2, (("a", 3), ("a", 4))))
    running = run(c.Delete(3, c.Range(1, 12), rewrite=True), table, stats=True)
    _do(table, c.Delete(4, c.Range(10, 11), rewrite=True))
    decision = _catch_decision(running)
    lows = [
        current_file.low for current_file in decision.current_files if current_file.did == "changed"
    ]
    assert (decision.order_column, lows) == (column, ours)
    assert [
        winner_file.low for winner_file in decision.winner_files if winner_file.did == "changed"
    ] == theirs
    assert decision.table_files == 2


def test_a_decision_records_the_reads():
    table = _table()
    running = run(c.Delete(2, c.Range(0, 2)), table, stats=True)
    running.txn.use_files_alone("its source reads the target")
    _do(table, c.Delete(3, c.Range(4, 5)))
    decision = _catch_decision(running)
    assert (decision.reads.conditions, decision.reads.files) == (1, 1)
    assert decision.reads.obstacle == "its source reads the target"
    assert decision.shared_files == ()
