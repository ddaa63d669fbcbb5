"""Named histories: each was, or nearly was, a lost update."""

import pytest

from tests.stateful import commands as c
from tests.stateful.history import Setup
from tests.stateful.stories import ROWS, list_aborts, tell_story


@pytest.mark.parametrize("stats", [True, False])
@pytest.mark.parametrize("vectors", [True, False])
def test_22_30_5_cannot_happen(vectors: bool, stats: bool):
    """The first update must not come before an append that the second one has read."""
    setup = Setup("WriteSerializable", vectors=vectors, stats=stats)
    played = tell_story(
        setup,
        c.Append(1, (("a", 1),)),
        1,
        c.Update(2, c.Range(1, 2, also=30), 22),
        c.Append(3, (("a", 30), ("a", 20))),
        3,
        c.Update(4, c.Range(20, 26), 5),
        4,
        2,
    )
    assert set(played.aborted) == {2}
    assert "may have read what version 2 appended" in str(played.aborted[2])


def test_delete_is_validated_like_update():
    setup = Setup("Serializable", vectors=False)
    for command in (c.Delete(2, c.Range(0, 2)), c.Update(2, c.Range(0, 2), 7)):
        played = tell_story(
            setup, c.Append(1, ROWS), 1, command, c.Update(3, c.Range(4, 6), 1), 3, 2
        )
        assert 2 in played.aborted, command


def test_an_update_moves_a_row_into_the_selection_of_a_delete():
    """Positions alone would let both commit, so the new image must be tested."""
    played = tell_story(
        Setup(),
        c.Append(1, ROWS),
        1,
        c.Delete(2, c.Range(4, 9)),
        c.Update(3, c.Range(1, 2), 5),
        3,
        2,
    )
    assert list_aborts(played) == {2: "ConcurrentAppendException"}
    assert played.aborted[2].conflict.subclass == "ROW_LEVEL_CHANGES"


def test_an_update_moves_a_row_out_of_the_selection_of_a_delete():
    played = tell_story(
        Setup(),
        c.Append(1, ROWS),
        1,
        c.Delete(2, c.Range(4, 9)),
        c.Update(3, c.Range(5, 6), 1),
        3,
        2,
    )
    assert list_aborts(played) == {2: "ConcurrentDeleteReadException"}
    assert played.aborted[2].conflict.files[0].rows == (5,)


@pytest.mark.parametrize("level", ["Serializable", "WriteSerializable"])
def test_two_deletes_of_different_rows_of_one_file_both_land(level: str):
    played = tell_story(
        Setup(level),
        c.Append(1, ROWS),
        1,
        c.Delete(2, c.Range(0, 1)),
        c.Delete(3, c.Range(3, 4)),
        3,
        2,
    )
    assert not played.aborted
    outcome = played.landed[3].txn.outcome
    assert outcome is not None
    assert "deletion vectors merged" in outcome.resolved[0].how
    files = played.table.snapshot().add_files()
    assert [add.deletion_vector.cardinality for add in files if add.deletion_vector] == [2]
    assert '"tightBounds":false' in (files[0].stats or "")


def test_three_deletes_inside_each_other_merge_into_one_vector():
    played = tell_story(
        Setup(),
        c.Append(1, ROWS),
        1,
        c.Delete(2, c.Range(0, 1)),
        c.Delete(3, c.Range(2, 3)),
        c.Delete(4, c.Range(4, 5)),
        (2, 3),
        4,
    )
    assert not played.aborted


def test_a_delete_follows_the_rows_that_optimize_moved():
    played = tell_story(
        Setup(),
        c.Append(1, ROWS),
        1,
        c.Append(2, ROWS),
        2,
        c.Delete(3, c.Range(2, 4)),
        c.Optimize(4, (0, 1)),
        4,
        3,
    )
    assert not played.aborted
    assert played.table.snapshot().file_count == 1


def test_optimize_hides_rows_that_a_delete_took_from_its_sources():
    played = tell_story(
        Setup(),
        c.Append(1, ROWS),
        1,
        c.Append(2, ROWS),
        2,
        c.Optimize(4, (0, 1)),
        c.Delete(3, c.Range(2, 4)),
        3,
        4,
    )
    assert not played.aborted
    assert played.table.snapshot().file_count == 1


def test_optimize_rebased_over_a_delete_and_compacted_again_is_still_traced():
    """The row map counts the vector that a source was read with, not the one its remove names."""
    played = tell_story(
        Setup(),
        c.Append(1, ROWS),
        1,
        c.Append(2, ROWS),
        2,
        c.Delete(8, c.Range(5, 6)),
        c.Optimize(4, (0, 1)),
        c.Delete(3, c.Range(2, 4)),
        3,
        4,
        c.Optimize(5, (0, 1)),
        5,
        8,
    )
    assert not played.aborted
    assert played.landed[max(played.landed)].command.number == 8


def test_two_compactions_that_share_a_file_both_land():
    played = tell_story(
        Setup(),
        c.Append(1, ROWS),
        1,
        c.Append(2, ROWS),
        2,
        c.Append(3, ROWS),
        3,
        c.Optimize(4, (0, 1)),
        c.Optimize(5, (1, 2)),
        5,
        4,
    )
    assert not played.aborted


def test_a_delete_follows_its_rows_through_two_compactions_that_share_a_file():
    """The second one holds the shared file's rows too, all deleted: a gap that hides nothing."""
    played = tell_story(
        Setup("Serializable"),
        c.Append(1, ROWS),
        1,
        c.Append(2, ROWS),
        2,
        c.Append(3, ROWS),
        3,
        c.Delete(4, c.Range(2, 4)),
        c.Update(5, c.Range(5, 6), 9),
        c.Optimize(6, (0, 1)),
        c.Optimize(7, (1, 2)),
        6,
        7,
        4,
        5,
    )
    assert not played.aborted


def test_sorting_is_not_traced_without_row_ids():
    for tracked, lost in ((False, {3}), (True, set())):
        played = tell_story(
            Setup(row_tracking=tracked),
            c.Append(1, ROWS),
            1,
            c.Delete(3, c.Range(2, 4)),
            c.Optimize(4, (0,), sort=True),
            4,
            3,
        )
        assert set(played.aborted) == lost


def test_restore_brings_a_row_back_that_a_delete_should_have_seen():
    """RESTORE shrinks a deletion vector: the restored rows are new to transactions that read before."""
    played = tell_story(
        Setup(),
        c.Append(1, ROWS),
        1,
        c.Delete(2, c.Range(2, 3)),
        2,
        c.Delete(3, c.Range(2, 6)),
        c.Restore(4, 1),
        4,
        3,
    )
    assert 3 in played.aborted


def test_restore_of_a_vector_lets_a_delete_of_other_rows_pass():
    played = tell_story(
        Setup(),
        c.Append(1, ROWS),
        1,
        c.Delete(2, c.Range(2, 3)),
        2,
        c.Delete(3, c.Range(4, 6)),
        c.Restore(4, 1),
        4,
        3,
    )
    assert not played.aborted


def test_optimize_does_not_lose_a_row_that_restore_brought_back():
    played = tell_story(
        Setup(),
        c.Append(1, ROWS),
        1,
        c.Delete(2, c.Range(2, 3)),
        2,
        c.Optimize(3, (0,)),
        c.Restore(4, 1),
        4,
        3,
    )
    assert set(played.aborted) == {3}


def test_optimize_ends_quietly_where_winners_left_nothing_of_its_output():
    """Every row is masked and the output dropped; then the empty source is removed too."""
    played = tell_story(
        Setup(),
        c.Append(1, ROWS),
        1,
        c.Optimize(3, (0,)),
        c.Delete(4, c.Range(0, 3)),
        c.Delete(5, c.Range(3, 6)),
        4,
        5,
        c.Optimize(6, (0,)),
        6,
        3,
    )
    assert not played.aborted
    assert [running.command.number for running in played.landed.values()] == [1, 4, 5, 6]


def test_a_file_without_live_rows_may_be_purged_under_its_readers():
    played = tell_story(
        Setup(),
        c.Append(1, ROWS),
        1,
        c.Delete(4, c.Range(0, 3)),
        c.Delete(5, c.Range(3, 6)),
        4,
        5,
        c.InsertSelect(7, c.Range(0, 3)),
        c.Optimize(6, (0,)),
        6,
        7,
    )
    assert not played.aborted


def test_restore_is_aborted_by_any_overlapping_commit():
    played = tell_story(
        Setup(), c.Append(1, ROWS), 1, c.Restore(2, 1), c.Append(3, (("a", 1),)), 3, 2
    )
    assert 2 in played.aborted


def test_an_insert_only_merge_has_read_the_row_that_it_matched():
    """Nothing of it changes the row: only the row's content tells."""
    played = tell_story(
        Setup(),
        c.Append(1, ROWS),
        1,
        c.Merge(2, (3, 7), "nothing"),
        c.Delete(3, c.Range(3, 4)),
        3,
        2,
    )
    assert list_aborts(played) == {2: "ConcurrentDeleteReadException"}


def test_two_insert_only_merges_of_one_key_do_not_double_it():
    played = tell_story(
        Setup(),
        c.Append(1, ROWS),
        1,
        c.Merge(2, (7,), "nothing"),
        c.Merge(3, (7,), "nothing"),
        3,
        2,
    )
    assert list_aborts(played) == {2: "ConcurrentAppendException"}


def test_a_row_of_an_append_that_was_compacted_is_still_tested_as_it_was_written():
    played = tell_story(
        Setup("WriteSerializable"),
        c.Append(1, ROWS),
        1,
        c.Update(2, c.Range(4, 9), 0),
        c.Append(3, (("a", 6), ("a", 7))),
        3,
        c.Optimize(4, (0, 1)),
        4,
        c.Update(5, c.Range(7, 8), 1),
        5,
        2,
    )
    assert 2 in played.aborted


def test_whole_file_removal_does_not_ignore_a_vector():
    for first, second in ((2, 3), (3, 2)):
        played = tell_story(
            Setup(),
            c.Append(1, ROWS),
            1,
            c.Delete(2, c.Range(0, 9)),
            c.Update(3, c.Range(1, 2), 4),
            first,
            second,
        )
        assert second in played.aborted


def test_restore_does_not_keep_a_clustering_committed_meanwhile():
    """It reads the old clustering, finds it unchanged and writes none: the other one must not stay."""
    played = tell_story(
        Setup("Serializable", clustered=True),
        c.Append(1, ROWS),
        1,
        c.Restore(2, 1),
        c.Alter(3, "cluster", "n"),
        3,
        2,
    )
    assert list_aborts(played) == {2: "ConcurrentTransactionException"}
