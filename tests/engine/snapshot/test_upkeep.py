import uuid

import pytest

from engine.errors import StorageError
from engine.log.paths import checkpoint_path
from engine.snapshot.snapshot import load_snapshot
from engine.snapshot.upkeep import after_commit
from engine.storage.memory import MemoryStore
from tests.engine.made_tables import add, write_commit, write_first


class FullStore(MemoryStore):
    """A store that takes no more whole files."""

    def put(self, path: str, data: bytes) -> None:
        if "checkpoint" in path:
            msg = f"No space left for {path}."
            raise StorageError(msg)
        super().put(path, data)


def made(kind: type[MemoryStore] = MemoryStore, interval: str = "3") -> MemoryStore:
    store = kind(f"memory://{uuid.uuid4()}")
    write_first(store, configuration={"delta.checkpointInterval": interval})
    for version in range(1, 8):
        write_commit(store, version, add(f"f{version}"))
    return store


@pytest.mark.parametrize(
    ("version", "due"), [(1, False), (2, False), (3, True), (5, False), (6, True)]
)
def test_a_checkpoint_is_written_every_interval(version: int, due: bool):
    store = made()
    written = after_commit(store, version, load_snapshot(store, version - 1), now_ms=0)
    assert (written is not None) == due
    assert (store.stat(checkpoint_path(version)) is not None) == due
    assert load_snapshot(store).file_count == 7


def test_a_checkpoint_that_fails_leaves_the_commit_standing(caplog: pytest.LogCaptureFixture):
    store = made(FullStore)
    assert after_commit(store, 3, load_snapshot(store, 2), now_ms=0) is None
    assert "No space left" in caplog.text
    assert load_snapshot(store).version == 7
