"""Handmade histories against row-level concurrency: two writers as close as possible."""

import pytest

from tests.stateful import commands as c
from tests.stateful.history import Played, Setup
from tests.stateful.stories import ROWS, list_aborts, tell_story

LEVELS = pytest.mark.parametrize("level", ["Serializable", "WriteSerializable"])
APPENDED, REMOVED = "ConcurrentAppendException", "ConcurrentDeleteReadException"
NULLS = (*ROWS, ("a", None), ("b", None))
Steps = tuple[c.Command | int, ...]


def _second_loses(setup: Setup, first: c.Command, second: c.Command, rows=ROWS) -> str | None:
    """Return the error of the second of two commands that began at one version, None if both commit."""
    played = tell_story(setup, c.Append(1, rows), 1, second, first, first.number, second.number)
    assert first.number not in played.aborted
    return list_aborts(played).get(second.number)


@LEVELS
def test_a_merge_inserts_no_key_that_an_update_has_just_made(level: str):
    """The image of the update is a new row that joins the source."""
    update = c.Update(2, c.Range(1, 2), 7)
    assert _second_loses(Setup(level), update, c.Merge(3, (7,), "nothing")) == APPENDED


def test_a_merge_and_an_append_of_one_key_have_an_order_unless_the_history_is_the_order():
    """At WriteSerializable the append is ordered after the merge that did not see it."""
    append, merge = c.Append(2, (("a", 7),)), c.Merge(3, (7,), "nothing")
    assert _second_loses(Setup("WriteSerializable"), append, merge) is None
    assert _second_loses(Setup("Serializable"), append, merge) == APPENDED


@LEVELS
@pytest.mark.parametrize(
    "second",
    [
        c.Update(3, c.Range(3, 4), 9),
        c.Merge(3, (3, 7), "nothing"),
        c.Merge(3, (3,), "update"),
        c.InsertSelect(3, c.Range(3, 4)),
    ],
)
def test_a_key_that_is_deleted_and_inserted_again_is_another_row(level: str, second: c.Command):
    first = c.ReplaceWhere(2, c.Range(3, 4), (("a", 3),))
    assert _second_loses(Setup(level), first, second) == APPENDED


@LEVELS
def test_a_merge_clause_for_rows_without_a_source_reads_them(level: str):
    merge = c.Merge(3, (7,), "update", unmatched_below=3)
    assert _second_loses(Setup(level), c.Update(2, c.Range(5, 6), 1), merge) == APPENDED
    assert _second_loses(Setup(level), c.Update(2, c.Range(5, 6), 4), merge) is None


@LEVELS
@pytest.mark.parametrize("sort", [False, True], ids=["in order", "sorted"])
@pytest.mark.parametrize("tracked", [False, True], ids=["", "row ids"])
def test_a_chain_of_compactions_is_followed(level: str, sort: bool, tracked: bool):
    """Two compactions, another delete and a third compaction lie between a delete's read and its commit."""
    played = tell_story(
        Setup(level, row_tracking=tracked),
        c.Append(1, ROWS),
        1,
        c.Append(2, ROWS),
        2,
        c.Delete(9, c.Range(2, 4)),
        c.Update(10, c.Range(5, 6), 7),
        c.Optimize(3, (0, 1), sort=sort),
        3,
        c.Optimize(4, (0,)),
        4,
        c.Delete(5, c.Range(0, 1)),
        5,
        c.Optimize(6, (0,), sort=sort),
        6,
        9,
        10,
    )
    assert set(played.aborted) == (set() if tracked or not sort else {9, 10})


@LEVELS
@pytest.mark.parametrize("clustered", [False, True])
def test_sorted_rows_and_an_update_meet_in_neither_order_with_row_ids(level: str, clustered: bool):
    setup = Setup(level, row_tracking=True, clustered=clustered)
    sort, update = c.Optimize(2, (0,), sort=True), c.Update(3, c.Range(1, 3), 5)
    assert _second_loses(setup, sort, update) is None
    assert _second_loses(setup, update, sort) is None


@LEVELS
def test_a_purge_and_a_vector_that_grew_meet_in_neither_order(level: str):
    for first, second in (
        (c.Reorg(5), c.Delete(6, c.Range(3, 4))),
        (c.Delete(6, c.Range(3, 4)), c.Reorg(5)),
    ):
        played = tell_story(
            Setup(level),
            c.Append(1, ROWS),
            1,
            c.Delete(2, c.Range(0, 2)),
            2,
            second,
            c.Delete(7, c.Range(5, 6)),
            first,
            first.number,
            second.number,
            7,
        )
        assert not played.aborted
        assert len(played.table.snapshot().to_arrow()) == 2


@LEVELS
def test_a_purge_of_a_file_that_restore_gave_another_vector_is_not_followed(level: str):
    played = tell_story(
        Setup(level),
        c.Append(1, ROWS),
        1,
        c.Delete(2, c.Range(0, 2)),
        2,
        c.Reorg(3),
        c.Delete(4, c.Range(4, 5)),
        c.Restore(5, 1),
        5,
        3,
        4,
    )
    assert set(played.aborted) == {3}


@LEVELS
def test_rows_that_restore_removes_are_not_followed_though_they_could_be(level: str):
    """The published promise: RESTORE is never traced, not even where whole files go."""
    played = tell_story(
        Setup(level),
        c.Append(1, ROWS),
        1,
        c.Append(2, ROWS),
        2,
        c.Optimize(3, (0, 1)),
        c.Restore(4, 1),
        4,
        3,
    )
    assert list_aborts(played) == {3: "ConcurrentDeleteDeleteException"}


@LEVELS
def test_restore_between_two_deletes_of_one_row(level: str):
    """The row is deleted, restored, and deleted again by a writer that saw neither."""
    played = tell_story(
        Setup(level),
        c.Append(1, ROWS),
        1,
        c.Delete(2, c.Range(3, 4)),
        c.Delete(3, c.Range(3, 4)),
        3,
        c.Restore(4, 1),
        4,
        2,
    )
    assert set(played.aborted) == {2}


@LEVELS
@pytest.mark.parametrize("vectors", [True, False])
def test_a_file_that_a_winner_rewrites_leaves_its_rows_to_nobody_else(level: str, vectors: bool):
    """Engines without deletion vectors copy on write: no row of the file can be followed."""
    setup = Setup(level, vectors=vectors)
    rewrite = c.Delete(2, c.Range(0, 1), rewrite=True)
    assert _second_loses(setup, rewrite, c.Update(3, c.Range(4, 5), 9))
    assert _second_loses(setup, rewrite, c.Delete(3, c.Range(4, 5), rewrite=True))
    assert _second_loses(setup, rewrite, c.InsertSelect(3, c.Range(4, 5)))
    assert _second_loses(setup, rewrite, c.Merge(3, (9,), "update")) is None
    assert _second_loses(setup, rewrite, c.Merge(3, (2, 9), "nothing")) == APPENDED


@LEVELS
def test_a_row_that_changes_its_partition_is_new_there(level: str):
    setup = Setup(level, partitioned=True)
    rows = (("a", 1), ("a", 2), ("b", 3), ("b", 4))
    move = c.Update(2, c.Range(1, 2, "a"), 5, part="b")
    assert _second_loses(setup, move, c.Delete(3, c.Range(4, 6, "b")), rows) == APPENDED
    assert _second_loses(setup, move, c.Delete(3, c.Range(0, 9, "b")), rows) == APPENDED
    assert _second_loses(setup, move, c.Append(3, (("b", 5),)), rows) is None
    assert _second_loses(setup, c.Delete(3, c.Range(3, 4, "b")), move, rows) is None
    assert _second_loses(setup, c.Overwrite(3, (("b", 1),), partitions=True), move, rows) is None


@LEVELS
@pytest.mark.parametrize("stats", [True, False])
def test_nulls_are_selected_by_is_null_alone(level: str, stats: bool):
    setup = Setup(level, stats=stats)
    fill = c.Update(3, c.Range(0, 0, nulls=True), 1)
    to_null, from_null = c.Update(2, c.Range(4, 5), None), c.Update(2, c.Range(0, 0, nulls=True), 4)
    assert _second_loses(setup, to_null, fill, NULLS) == APPENDED
    assert _second_loses(setup, from_null, fill, NULLS)
    for other in (c.Range(4, 5, negated=True), c.Range(0, 9)):
        assert _second_loses(setup, c.Append(2, (("a", None),)), c.Delete(3, other), NULLS) is None
    assert _second_loses(setup, to_null, c.Delete(3, c.Range(0, 4)), NULLS) is None
    assert _second_loses(setup, to_null, c.Delete(3, c.Range(0, 4, negated=True)), NULLS)
    assert _second_loses(setup, to_null, c.Delete(3, c.Range(0, 4, nulls=True)), NULLS) == APPENDED


@pytest.mark.parametrize("what", ["set", "rename", "drop", "feature", "constrain"])
@pytest.mark.parametrize(
    "second",
    [
        c.Append(3, (("a", 7),)),
        c.Delete(3, c.Range(0, 1)),
        c.Optimize(3, (0,)),
        c.Alter(3, "set", "b"),
    ],
    ids=["append", "delete", "optimize", "alter"],
)
def test_a_writer_that_did_not_see_an_alter_loses_to_it(what: str, second: c.Command):
    values = {"set": "a", "feature": "inCommitTimestamp", "constrain": "9"}
    alter = c.Alter(2, what, values.get(what, ""))
    lost = _second_loses(Setup(mapped=True), alter, second)
    expected = {"feature": "ProtocolChangedException"}
    first_constraint = {"constrain": "ProtocolChangedException"}
    assert lost == {**expected, **first_constraint}.get(what, "MetadataChangedException")


@LEVELS
def test_a_constraint_conflicts_with_rows_added_meanwhile(level: str):
    """An append cannot be ordered after a constraint that it would break, even at WriteSerializable."""
    constrain = c.Alter(3, "constrain", "6")
    for first in (
        c.Append(2, (("a", 7),)),
        c.Append(2, (("a", 1),)),
        c.Update(2, c.Range(1, 2), 9),
    ):
        assert _second_loses(Setup(level), first, constrain) == APPENDED
    assert _second_loses(Setup(level), c.Optimize(2, (0,)), constrain) is None


def test_two_writers_that_cluster_a_table_by_different_columns_conflict():
    clusters = c.Alter(2, "cluster", "n"), c.Alter(3, "cluster", "u")
    lost = _second_loses(Setup(clustered=True, row_tracking=True), *clusters)
    assert lost == "ConcurrentTransactionException"


@LEVELS
def test_every_loser_of_one_file_is_rebased_over_all_earlier_commits(level: str):
    """Eight writers read the first version, and commit over each other's compactions and deletes."""
    deletes = [c.Delete(10 + x, c.Range(x, x + 1)) for x in range(6)]
    updates = [c.Update(20 + x, c.Range(x, x + 1, "b"), 9) for x in (0, 1)]
    other = tuple(("b", x + 10) for x in range(6))
    played = tell_story(
        Setup(level),
        c.Append(1, (*ROWS, *other)),
        1,
        *deletes,
        c.Optimize(30, (0,)),
        c.Reorg(31),
        *updates,
        10,
        30,
        11,
        c.Optimize(32, (0,)),
        12,
        31,
        (13, 14),
        32,
        20,
        15,
        21,
    )
    assert not played.aborted
    assert len(played.table.snapshot().to_arrow()) == 6


def test_truncate_and_overwrite_conflict_with_every_writer_of_rows():
    delete, append = c.Delete(2, c.Range(0, 1)), c.Append(2, (("a", 7),))
    for second in (c.Truncate(3), c.Overwrite(3, (("b", 1),))):
        assert _second_loses(Setup("Serializable"), delete, second) in (APPENDED, REMOVED)
        assert _second_loses(Setup("Serializable"), append, second) == APPENDED
        assert _second_loses(Setup("WriteSerializable"), append, second) is None
        assert _second_loses(Setup(), second, c.Delete(4, c.Range(0, 1)))
        assert _second_loses(Setup(), c.Optimize(2, (0,)), second) is None


def _winners(played: Played) -> list[int]:
    return [played.landed[version].command.number for version in sorted(played.landed)]


def test_an_exempt_append_stays_behind_writers_that_did_not_read_it():
    """Two updates that did not see an append are ordered before it; a writer that saw it comes last."""
    played = tell_story(
        Setup("WriteSerializable"),
        c.Append(1, ROWS),
        1,
        c.Update(2, c.Range(2, 3, also=8), 6),
        c.Delete(3, c.Range(3, 4, also=8)),
        c.Append(4, (("a", 8), ("a", 2))),
        4,
        c.Optimize(5, (0, 1)),
        5,
        2,
        3,
        c.Merge(6, (8,), "delete"),
        6,
    )
    assert not played.aborted
    assert _winners(played) == [1, 4, 5, 2, 3, 6]
