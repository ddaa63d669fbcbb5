import uuid

import pytest

from engine.actions.table import Protocol
from engine.errors import StorageError
from engine.log.cleanup import clean_log
from engine.log.paths import checkpoint_path, commit_path
from engine.protocol.properties import DAY_MS
from engine.snapshot.post_commit import run_post_commit
from engine.snapshot.snapshot import load_snapshot
from engine.storage.memory import MemoryStore
from tests.engine.made_tables import LEGACY, add, write_commit, write_first


class FullStore(MemoryStore):
    """A store that has no room for another whole file."""

    def put(self, path: str, data: bytes) -> None:
        if "checkpoint" in path:
            msg = f"No space left for {path}."
            raise StorageError(msg)
        super().put(path, data)


def create_store(kind: type[MemoryStore] = MemoryStore, interval: str = "3") -> MemoryStore:
    store = kind(f"memory://{uuid.uuid4()}")
    write_first(store, configuration={"delta.checkpointInterval": interval})
    for version in range(1, 8):
        write_commit(store, version, add(f"f{version}"))
    return store


@pytest.mark.parametrize(
    ("version", "due"), [(1, False), (2, False), (3, True), (5, False), (6, True)]
)
def test_a_checkpoint_is_written_every_interval(version: int, due: bool):
    store = create_store()
    written = run_post_commit(store, version, load_snapshot(store, version - 1), now_ms=0)
    assert (written is not None) == due
    assert (store.stat(checkpoint_path(version)) is not None) == due
    assert load_snapshot(store).file_count == 7


def test_a_checkpoint_that_fails_leaves_the_commit_standing(caplog: pytest.LogCaptureFixture):
    store = create_store(FullStore)
    assert run_post_commit(store, 3, load_snapshot(store, 2), now_ms=0) is None
    assert "No space left" in caplog.text
    assert load_snapshot(store).version == 7


PROTECTED = Protocol(
    min_reader_version=1, min_writer_version=7, writer_features=["checkpointProtection"]
)


@pytest.mark.parametrize(
    ("protocol", "enabled", "protected_before", "cleaned"),
    [
        (LEGACY, "true", "9", True),
        (LEGACY, "false", "0", False),
        (PROTECTED, "true", "3", False),
        (PROTECTED, "true", "2", True),
    ],
)
def test_the_log_is_cleaned_where_the_table_requests_and_permits_it(
    protocol: Protocol, enabled: str, protected_before: str, cleaned: bool
):
    store = MemoryStore(f"memory://{uuid.uuid4()}")
    configuration = {
        "delta.checkpointInterval": "2",
        "delta.logRetentionDuration": "interval 1 days",
        "delta.enableExpiredLogCleanup": enabled,
        "delta.requireCheckpointProtectionBeforeVersion": protected_before,
    }
    write_first(store, protocol=protocol, configuration=configuration)
    for version in (1, 2):
        write_commit(store, version, add(f"f{version}"))
    in_three_days = load_snapshot(store).timestamp_ms + 3 * DAY_MS
    assert run_post_commit(store, 2, load_snapshot(store, 1), in_three_days) is not None
    assert (store.stat(commit_path(0)) is None) is cleaned
    assert load_snapshot(store).file_count == 2


def test_sidecars_go_with_the_last_checkpoint_that_names_them():
    store = MemoryStore(f"memory://{uuid.uuid4()}")
    protocol = Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=["v2Checkpoint"],
        writer_features=["v2Checkpoint"],
    )
    configuration = {
        "delta.checkpointInterval": "2",
        "delta.checkpointPolicy": "v2",
        "delta.logRetentionDuration": "interval 1 days",
    }
    write_first(store, protocol=protocol, configuration=configuration)
    for version in range(1, 5):
        write_commit(store, version, add(f"f{version}"))
    now_ms = load_snapshot(store).timestamp_ms
    run_post_commit(store, 2, load_snapshot(store, 1), now_ms)
    run_post_commit(store, 4, load_snapshot(store, 3), now_ms)
    assert len(list(store.list_all("_delta_log/_sidecars"))) == 2
    clean_log(store, DAY_MS, now_ms + 3 * DAY_MS)
    assert len(list(store.list_all("_delta_log/_sidecars"))) == 1
    assert load_snapshot(store).file_count == 4
