"""Cleaning of a log between its listing and the reading of the listed files."""

import uuid

import pytest

from engine.errors import LogGapError
from engine.log.checkpoint_writer import write_checkpoint
from engine.log.paths import commit_path
from engine.log.replay import load_table_state
from engine.protocol.properties import TableProperties
from engine.snapshot.snapshot import Snapshot, load_snapshot
from engine.storage.memory import MemoryStore
from tests.engine.made_tables import add, write_commit, write_first


class Cleaned(MemoryStore):
    """A store that has a checkpoint of version 3 at the first read of a commit, and no earlier commit."""

    cleans = True
    has_checkpoint = True

    def read(self, path, start=None, length=None):
        if self.cleans and path.endswith(".json"):
            self.cleans = False
            if self.has_checkpoint:
                state = load_table_state(MemoryStore(self.root), 3)
                write_checkpoint(self, state, TableProperties.parse({}), 0)
            for version in range(3):
                self.delete(commit_path(version))
        return super().read(path, start, length)


@pytest.fixture
def root() -> str:
    store = MemoryStore(f"memory://{uuid.uuid4()}")
    write_first(store)
    for version in range(1, 5):
        write_commit(store, version, add(f"f{version}"))
    return store.root


def _paths(snapshot: Snapshot) -> list[str]:
    return sorted(file.path for file in snapshot.add_files())


def test_it_is_listed_once_more(root: str):
    snapshot = load_snapshot(Cleaned(root))
    assert (snapshot.version, _paths(snapshot)) == (4, ["f1", "f2", "f3", "f4"])


def test_a_snapshot_that_is_brought_up_to_date_is_read_again(root: str):
    store = Cleaned(root)
    store.cleans = False
    earlier = load_snapshot(store, 0)
    store.cleans = True
    newest = earlier.update()
    assert (newest.version, _paths(newest)) == (4, ["f1", "f2", "f3", "f4"])


def test_missing_commits_without_a_checkpoint_are_an_error(root: str):
    store = Cleaned(root)
    store.has_checkpoint = False
    with pytest.raises(LogGapError):
        load_snapshot(store)
