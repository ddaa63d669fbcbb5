import os
from pathlib import Path

import pytest

from engine.errors import MalformedLogError
from engine.log.checkpoint_writer import write_checkpoint
from engine.log.paths import checkpoint_path, commit_path
from engine.log.replay import load_table_state
from engine.protocol.properties import TableProperties
from engine.storage.local import LocalStore
from tests.engine.made_tables import add, remove, write_commit, write_first

LONG_AGO_S = 1_700_000_000


class Watched(LocalStore):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.opened: list[str] = []

    def open_input(self, path):
        self.opened.append(path)
        return super().open_input(path)


def _store(root: Path, files: int = 2) -> Watched:
    store = Watched(root)
    write_first(store)
    for version in (1, 2):
        write_commit(store, version, *(add(f"f{version}-{number}") for number in range(files)))
    write_checkpoint(store, load_table_state(store), TableProperties(), now_ms=0)
    _touch(store, LONG_AGO_S)
    return store


def _touch(store: LocalStore, time_s: float) -> None:
    os.utime(store.locate(checkpoint_path(2)), (time_s, time_s))


def test_a_small_checkpoint_is_read_once_and_the_log_each_time(tmp_path):
    store = _store(tmp_path)
    first = load_table_state(store)
    write_commit(store, 3, add("late"), remove("f1-0"))
    second = load_table_state(Watched(tmp_path))
    assert store.opened == [checkpoint_path(2)]
    assert first.file_keys ^ second.file_keys == {("late", None), ("f1-0", None)}
    third = Watched(tmp_path)
    assert load_table_state(third).is_same(second)
    assert third.opened == []


def test_a_checkpoint_that_was_rewritten_is_read_again(tmp_path):
    store = _store(tmp_path)
    place = Path(store.locate(checkpoint_path(2)))
    before = load_table_state(store)
    damaged = bytes(place.stat().st_size)
    place.write_bytes(damaged)
    assert load_table_state(store).is_same(before)  # it is skipped
    for version in range(3):
        store.delete(commit_path(version))
    with pytest.raises(MalformedLogError, match="cannot be read"):
        load_table_state(store)


@pytest.mark.parametrize(("time_s", "files"), [(2**33, 2), (LONG_AGO_S, 20_000)])
def test_commits_that_may_change_unseen_and_large_ones_are_not_cached(tmp_path, time_s, files):
    store = _store(tmp_path, files)
    _touch(store, time_s)
    for _ in range(2):
        load_table_state(store)
    assert store.opened == [checkpoint_path(2)] * 2
