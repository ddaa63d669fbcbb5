"""Histories that caused duplicates or lost updates in other engines."""

import uuid
from pathlib import Path

import pytest

from engine.errors import ConflictError
from engine.table import DeltaTable
from tests.stateful import commands as c
from tests.stateful.arrow_engine import rows_of, run, state_of
from tests.stateful.history import SCHEMA, Setup
from tests.stateful.stories import ROWS, list_aborts, tell_story

LEVELS = ["Serializable", "WriteSerializable"]
KEY = 7


def _times(played, key: int) -> int:
    rows = rows_of(played.table.snapshot())
    return sum(row[1] == key for row in rows.values())


@pytest.mark.parametrize("level", LEVELS)
def test_two_scripts_that_delete_nothing_and_insert_a_key_both_insert_it(level: str):
    """This is by design: a DELETE that changes nothing makes no commit, and its script continues."""
    gone = c.Range(KEY, KEY + 1)
    played = tell_story(
        Setup(level),
        c.Append(1, ROWS),
        1,
        c.Delete(2, gone),
        2,
        c.Delete(3, gone),
        3,
        c.Append(4, (("a", KEY),)),
        c.Append(5, (("a", KEY),)),
        4,
        5,
    )
    assert not played.aborted
    assert [running.command.number for running in played.landed.values()] == [1, 4, 5]
    assert _times(played, KEY) == 2


@pytest.mark.parametrize("level", LEVELS)
def test_of_two_merges_in_their_place_one_loses(level: str):
    played = tell_story(
        Setup(level),
        c.Append(1, ROWS),
        1,
        c.Merge(4, (KEY,), "update"),
        c.Merge(5, (KEY,), "update"),
        4,
        5,
    )
    assert list_aborts(played) == {5: "ConcurrentAppendException"}
    assert _times(played, KEY) == 1


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("level", LEVELS)
def test_two_merges_of_one_new_key_into_two_partitions_do_not_double_it(level: str, vectors: bool):
    """Files of two partitions share nothing, but each MERGE looked for the key in both."""
    played = tell_story(
        Setup(level, vectors=vectors, partitioned=True),
        c.Append(1, (*ROWS, ("b", 3))),
        1,
        c.Merge(2, (KEY,), part="a"),
        c.Merge(3, (KEY,), part="b"),
        3,
        2,
    )
    assert list_aborts(played) == {2: "ConcurrentAppendException"}
    assert _times(played, KEY) == 1


@pytest.mark.parametrize("level", LEVELS)
def test_two_merges_whose_joins_name_their_partitions_both_land(level: str):
    """A key is then one of its partition, and both say so."""
    played = tell_story(
        Setup(level, partitioned=True),
        c.Append(1, (*ROWS, ("b", 3))),
        1,
        c.Merge(2, (KEY,), part="a", within_part=True),
        c.Merge(3, (KEY,), part="b", within_part=True),
        3,
        2,
    )
    assert not played.aborted
    assert _times(played, KEY) == 2


@pytest.mark.parametrize("rewrite", [False, True])
@pytest.mark.parametrize("way", ["the same path", "a URL", "a symbolic link", "a relative path"])
def test_a_row_deleted_through_two_stores_is_deleted_once(
    way: str, rewrite: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Two stores of one directory do not know of each other: only the log decides."""
    place = tmp_path / str(uuid.uuid4())
    table = DeltaTable.create(str(place), SCHEMA)
    made = run(c.Append(1, ROWS), table, stats=True)
    made.txn.commit(made.operation)
    (tmp_path / "link").symlink_to(place)
    monkeypatch.chdir(tmp_path)
    uris = {
        "the same path": str(place),
        "a URL": place.as_uri(),
        "a symbolic link": str(tmp_path / "link"),
        "a relative path": place.name,
    }
    other = DeltaTable.open(uris[way])
    assert other.store is not table.store
    first = run(c.Delete(2, c.Range(3, 4), rewrite), table, stats=True)
    second = run(c.Delete(3, c.Range(2, 4), rewrite), other, stats=True)
    second.txn.commit(second.operation)
    if rewrite:
        with pytest.raises(ConflictError):
            first.txn.commit(first.operation)
    else:  # by vectors, the second finds the row gone
        first.txn.commit(first.operation)
        assert DeltaTable.open(str(place)).version() == 2
    left = state_of(DeltaTable.open(str(place)).snapshot()).rows
    assert sorted(row[1] for row in left.values()) == [0, 1, 4, 5]
