import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.actions.commit_info import CommitInfo
from engine.errors import TableNotFoundError, TimestampOutOfRangeError
from engine.log.history import iter_history, version_at
from engine.log.replay import load_state
from engine.log.segment import list_segment
from engine.snapshot.post_commit import checkpoint
from engine.snapshot.snapshot import load_snapshot
from engine.storage.base import FileStatus
from engine.storage.local import LocalStore
from engine.storage.memory import MemoryStore
from tests.engine.made_tables import add, metadata, write_commit, write_first, write_lines


def create_store(tmp_path: Path, file_times: list[int], own_from: int | None = None) -> LocalStore:
    """Create commits with these file times in ms, and with in-commit timestamps from a version on."""
    store = LocalStore(tmp_path)
    write_first(store)
    for version in range(1, len(file_times)):
        own = None if own_from is None or version < own_from else version * 1000
        info = CommitInfo(operation="WRITE", in_commit_timestamp=own)
        actions = [info, add(f"f{version}")]
        if version == own_from:
            configuration = {
                "delta.enableInCommitTimestamps": "true",
                "delta.inCommitTimestampEnablementVersion": str(version),
                "delta.inCommitTimestampEnablementTimestamp": str(version * 1000),
            }
            actions.append(metadata(configuration=configuration))
        write_commit(store, version, *actions)
    for version, ms in enumerate(file_times):
        os.utime(tmp_path / f"_delta_log/{version:020}.json", ns=(ms * 10**6, ms * 10**6))
    return store


def version_at_time(store: LocalStore, timestamp_ms: int) -> int:
    return version_at(store, load_state(store, list_segment(store)).metadata, timestamp_ms)


@pytest.mark.parametrize(
    ("timestamp_ms", "version"), [(1000, 0), (1999, 0), (2000, 1), (2500, 1), (3000, 2), (4000, 3)]
)
def test_a_time_has_the_newest_version_committed_until_then(
    tmp_path: Path, timestamp_ms: int, version: int
):
    assert (
        version_at_time(create_store(tmp_path, [1000, 2000, 3000, 4000]), timestamp_ms) == version
    )


def test_file_times_that_go_back_are_made_to_go_on(tmp_path: Path):
    store = create_store(tmp_path, [5000, 1000, 1000, 9000])
    assert version_at_time(store, 5000) == 0
    assert version_at_time(store, 5001) == 1
    assert version_at_time(store, 8999) == 2
    assert load_snapshot(store, 2).timestamp_ms == 5002


@pytest.mark.parametrize("timestamp_ms", [999, 4001, -1, 10**15])
def test_a_time_out_of_range_is_refused_with_the_range(tmp_path: Path, timestamp_ms: int):
    with pytest.raises(TimestampOutOfRangeError) as caught:
        version_at_time(create_store(tmp_path, [1000, 2000, 3000, 4000]), timestamp_ms)
    assert caught.value.earliest == "1970-01-01T00:00:01.000Z"
    assert caught.value.latest == "1970-01-01T00:00:04.000Z"


@pytest.mark.parametrize(
    ("timestamp_ms", "version"),
    [(100, 0), (199, 0), (200, 1), (1999, 1), (2000, 2), (2999, 2), (3000, 3), (4000, 4)],
)
def test_commits_carry_their_own_time_once_enabled(tmp_path: Path, timestamp_ms: int, version: int):
    store = create_store(tmp_path, [100, 200, 7, 8, 9], own_from=2)
    assert version_at_time(store, timestamp_ms) == version


def test_a_snapshot_has_the_time_of_its_commit(tmp_path: Path):
    store = create_store(tmp_path, [100, 200, 7, 8, 9], own_from=2)
    assert load_snapshot(store, 1).timestamp_ms == 200
    assert load_snapshot(store).timestamp_ms == 4000
    assert load_snapshot(store).timestamp.isoformat() == "1970-01-01T00:00:04+00:00"


class WithoutListing(LocalStore):
    """A store that may list its log once."""

    listed = 0

    def list_from(self, directory: str, start: str) -> Iterator[FileStatus]:
        self.listed += 1
        assert self.listed == 1, "the log is listed again"
        return super().list_from(directory, start)


def test_the_time_of_a_snapshot_is_known_from_the_listing_that_made_it(tmp_path: Path):
    create_store(tmp_path, [5000, 1000, 1000])
    assert load_snapshot(WithoutListing(tmp_path)).timestamp_ms == 5002


def test_the_time_of_a_checkpointed_version_is_that_of_its_commit(tmp_path: Path):
    store = create_store(tmp_path, [1000, 2000, 3000])
    checkpoint(load_snapshot(store), now_ms=4000)
    at_checkpoint = load_snapshot(WithoutListing(tmp_path))
    assert at_checkpoint.timestamp_ms == 3000
    write_commit(store, 3, add("late"))
    os.utime(tmp_path / f"_delta_log/{3:020}.json", ns=(7000 * 10**6, 7000 * 10**6))
    assert load_snapshot(WithoutListing(tmp_path)).timestamp_ms == 7000
    refreshed = load_snapshot(store, 2).update()
    assert (refreshed.version, refreshed.timestamp_ms) == (3, 7000)


def test_a_refreshed_snapshot_is_later_than_the_one_before(tmp_path: Path):
    store = create_store(tmp_path, [5000, 4000])
    before = load_snapshot(store)
    write_commit(store, 2, add("late"))
    os.utime(tmp_path / f"_delta_log/{2:020}.json", ns=(10**6, 10**6))
    assert (before.timestamp_ms, before.update().timestamp_ms) == (5001, 5002)


def test_history_is_newest_first_and_knows_versions_and_times(tmp_path: Path):
    store = create_store(tmp_path, [100, 200, 300], own_from=2)
    history = list(iter_history(store))
    assert [info.version for info in history] == [2, 1, 0]
    assert [info.timestamp for info in history] == [2000, 200, 100]
    assert [info.version for info in iter_history(store, 2)] == [2, 1]
    assert list(iter_history(store, 0)) == []


def test_the_time_in_the_history_is_the_one_that_finds_the_version(tmp_path: Path):
    store = create_store(tmp_path, [1000, 2000, 2000, 9000])
    told = CommitInfo(operation="WRITE", timestamp=8990)  # the writer's clock, before the file was
    write_commit(store, 4, told)
    os.utime(tmp_path / f"_delta_log/{4:020}.json", ns=(9900 * 10**6, 9900 * 10**6))
    for info in iter_history(store):
        assert info.timestamp is not None
        assert version_at_time(store, info.timestamp) == info.version


@pytest.mark.parametrize("hint", [None, 0, 4, 9, 50])
@pytest.mark.parametrize("limit", [0, 1, 3, 5, 50])
def test_the_newest_commits_are_the_same_whatever_the_hint(hint: int | None, limit: int):
    store = MemoryStore(f"memory://history/{hint}/{limit}")
    write_first(store)
    for version in range(1, 10):
        write_commit(store, version, CommitInfo(operation="WRITE"))
    if hint is not None:
        store.put("_delta_log/_last_checkpoint", f'{{"version":{hint}}}'.encode())
    expected = list(range(9, -1, -1))[:limit]
    assert [info.version for info in iter_history(store, limit)] == expected


def test_a_commit_info_far_down_a_large_commit_is_found(tmp_path: Path):
    store = create_store(tmp_path, [100])
    filler = json.dumps({"txn": {"appId": "x" * 100_000, "version": 1}})
    write_lines(store, 1, filler, '{"commitInfo":{"operation":"MERGE","userName":"ann"}}')
    newest = next(iter_history(store))
    assert (newest.operation, newest.user_name) == ("MERGE", "ann")


def test_a_commit_without_or_with_odd_info_is_still_a_version(tmp_path: Path):
    store = create_store(tmp_path, [100])
    write_lines(store, 1, '{"txn":{"appId":"commitInfo","version":1}}')
    write_lines(store, 2, '{"commitInfo":[1]}')
    history = list(iter_history(store))
    assert [info.version for info in history] == [2, 1, 0]
    assert all(info.timestamp is not None for info in history)
    assert history[0].operation is None


def test_no_log_has_no_history():
    with pytest.raises(TableNotFoundError):
        next(iter_history(MemoryStore("memory://nothing-here")))
