"""Log files read by name give the same result as a listing."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.log.checkpoint_writer import write_checkpoint
from engine.log.paths import commit_path
from engine.log.replay import TableState, list_newer, load_state, load_table_state
from engine.log.segment import list_segment
from engine.log.tip import commits_until, has_none
from engine.protocol.properties import TableProperties
from engine.storage.local import LocalStore
from tests.engine.made_tables import add, write_commit, write_first


class Watched(LocalStore):
    listings = 0

    def list_from(self, directory, start):
        self.listings += 1
        return super().list_from(directory, start)


def _log(root: Path, versions: int) -> Watched:
    store = Watched(root)
    write_first(store)
    for version in range(1, versions + 1):
        write_commit(store, version, add(f"f{version}"))
    return store


def test_the_newest_version_is_known_without_a_listing(tmp_path):
    store = _log(tmp_path, 3)
    state = load_table_state(store)
    store.listings = 0
    newer = list_newer(store, state)
    assert newer is not None
    assert (newer.version, newer.commits, store.listings) == (3, (), 0)


@pytest.mark.parametrize("versions", [4, 5, 9])
def test_later_versions_are_found(tmp_path, versions):
    state = load_table_state(_log(tmp_path, 3))
    store = Watched(tmp_path)
    for version in range(4, versions + 1):
        write_commit(store, version, add(f"f{version}"))
    assert not has_none(store, state.tip)
    newer = list_newer(store, state)
    assert newer is not None
    named = commits_until(store, state.tip, versions)
    assert named == newer
    assert load_state(store, named, state).is_same(load_state(store, list_segment(store)))


def _rewrite(store: LocalStore, _: TableState) -> None:
    place = Path(store.locate(commit_path(3)))
    place.write_bytes(place.read_bytes().replace(b"f3", b"g3"))


def _lose(store: LocalStore, _: TableState) -> None:
    store.delete(commit_path(3))


def _leave_a_gap(store: LocalStore, _: TableState) -> None:
    write_commit(store, 5, add("f5"))


def _clean_away(store: LocalStore, state: TableState) -> None:
    for version in (4, 5):
        write_commit(store, version, add(f"f{version}"))
    write_checkpoint(store, load_table_state(store), TableProperties(), now_ms=0)
    for version in range(6):
        store.delete(commit_path(version))


@pytest.mark.parametrize("change", [_rewrite, _lose, _leave_a_gap, _clean_away])
def test_a_different_log_or_one_that_lacks_commits_is_listed(
    tmp_path, change: Callable[[LocalStore, TableState], None]
):
    store = _log(tmp_path, 3)
    state = load_table_state(store)
    os.utime(store.locate(commit_path(3)), (1, 1))
    state = load_table_state(store)
    change(store, state)
    assert not has_none(store, state.tip)
    assert commits_until(store, state.tip, 5) is None
    assert list_newer(store, state) is None


def test_many_versions_are_listed(tmp_path):
    store = _log(tmp_path, 20)
    tip = load_state(store, list_segment(store, 3)).tip
    assert commits_until(store, tip, 20) is None
    assert commits_until(store, tip, 3) is None
    assert commits_until(store, None, 4) is None
