"""Cleaning a log removes nothing that a retained version needs."""

import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.actions.table import Protocol
from engine.clock import CLOCK_SLACK_MS
from engine.errors import LogGapError, VersionNotFoundError
from engine.log.checkpoint_writer import write_checkpoint
from engine.log.cleanup import _sidecar_names, clean_log, clean_log_again
from engine.log.compaction import write_compaction
from engine.log.paths import checkpoint_path
from engine.log.replay import TableState, load_table_state
from engine.log.segment import list_segment
from engine.protocol.properties import DAY_MS, TableProperties
from engine.storage.base import FileStatus
from engine.storage.memory import MemoryStore
from tests.engine.made_tables import add, remove, write_commit, write_first

V2 = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=["v2Checkpoint"],
    writer_features=["v2Checkpoint"],
)
NEWEST = 8


class AgedStore(MemoryStore):
    """A store whose files are a day old for each version since theirs; sidecars are the oldest."""

    def list_all(self, prefix: str = "") -> Iterator[FileStatus]:
        for file in super().list_all(prefix):
            digits = file.name[:20]
            yield replace(file, modified_ms=int(digits) * DAY_MS if digits.isdigit() else 0)


def state_summary(state: TableState) -> tuple:
    paths = sorted(state.files.column("path").to_pylist())
    return state.version, state.protocol, state.metadata, paths


@given(
    checkpoints=st.dictionaries(
        st.integers(0, NEWEST), st.sampled_from(["classic", "v2", "both"]), max_size=4
    ),
    compactions=st.lists(st.tuples(st.integers(1, NEWEST), st.integers(2, 6)), max_size=3),
    rounds=st.lists(st.tuples(st.integers(0, NEWEST + 3), st.integers(0, NEWEST)), max_size=2),
)
def test_every_retained_version_reads_as_before(checkpoints, compactions, rounds):
    store = AgedStore(f"memory://{uuid.uuid4()}")
    write_first(store, protocol=V2)
    for version in range(1, NEWEST + 1):
        gone = [remove(f"f{version - 2}")] if version % 3 == 0 else []
        write_commit(store, version, add(f"f{version}"), *gone)
    for version, policy in sorted(checkpoints.items()):
        for kind in ("classic", "v2") if policy == "both" else (policy,):
            properties = TableProperties(checkpoint_policy=kind)
            write_checkpoint(store, load_table_state(store, version), properties, now_ms=0)
    for end, interval in compactions:
        write_compaction(store, end, interval)
    before = {
        version: state_summary(load_table_state(store, version)) for version in range(NEWEST + 1)
    }
    cutoff = 0
    for days, protected in rounds:
        now_ms = NEWEST * DAY_MS + 1
        clean_log(store, days * DAY_MS, now_ms, protected_before=protected)
        cutoff = max(cutoff, (now_ms - days * DAY_MS) // DAY_MS)
        for version in range(NEWEST + 1):
            try:
                assert state_summary(load_table_state(store, version)) == before[version]
            except (VersionNotFoundError, LogGapError):
                assert version < cutoff, "a retained version is gone"
        assert state_summary(load_table_state(store)) == before[NEWEST]


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_commits_before_an_unreadable_checkpoint_are_kept(policy):
    store = AgedStore(f"memory://{uuid.uuid4()}")
    write_first(store, protocol=V2)
    for version in range(1, NEWEST + 1):
        write_commit(store, version, add(f"f{version}"))
    for version in (2, 5):
        properties = TableProperties(checkpoint_policy=policy)
        write_checkpoint(store, load_table_state(store, version), properties, now_ms=0)
    before = state_summary(load_table_state(store))
    torn = _last_written(store, policy)
    store.put(torn, store.read(torn)[:-20])
    gone = clean_log(store, 0, NEWEST * DAY_MS + 1)
    assert state_summary(load_table_state(store)) == before
    assert gone[-1].startswith("_delta_log/00000000000000000001")


@pytest.mark.parametrize(("over_ms", "goes"), [(CLOCK_SLACK_MS, False), (CLOCK_SLACK_MS + 1, True)])
def test_a_version_is_kept_longer_by_the_possible_difference_of_two_clocks(over_ms, goes):
    store = AgedStore(f"memory://{uuid.uuid4()}")
    write_first(store, protocol=V2)
    for version in range(1, 4):
        write_commit(store, version, add(f"f{version}"))
    write_checkpoint(store, load_table_state(store, 2), TableProperties(), now_ms=0)
    now_ms = 2 * DAY_MS + DAY_MS + over_ms  # of version 2
    assert bool(clean_log(store, DAY_MS, now_ms, granularity_ms=1)) is goes


@pytest.mark.parametrize("is_young", [True, False])
def test_a_sidecar_of_an_unfinished_checkpoint_stays(is_young):
    """Nothing names the sidecar yet, regardless of the log's retention."""
    store = AgedStore(f"memory://{uuid.uuid4()}")
    write_first(store, protocol=V2)
    for version in range(1, 4):
        write_commit(store, version, add(f"f{version}"))
    write_checkpoint(store, load_table_state(store, 2), TableProperties(), now_ms=0)
    sidecar = f"_delta_log/_sidecars/{20 if is_young else 18:020}.parquet"
    store.put(sidecar, b"")
    gone = clean_log(store, 0, 20 * DAY_MS + 1)
    assert gone
    assert (sidecar in gone) is not is_young


class CountingStore(AgedStore):
    """A store of aged files that counts the listings of its log."""

    listed = 0

    def list_from(self, directory: str, name: str) -> Iterator[FileStatus]:
        self.listed += 1
        return super().list_from(directory, name)

    def stat(self, path: str) -> FileStatus | None:
        file = super().stat(path)
        digits = path.rpartition("/")[2][:20]
        return file and replace(file, modified_ms=int(digits) * DAY_MS)


def _create_counting_store() -> CountingStore:
    store = CountingStore(f"memory://{uuid.uuid4()}")
    write_first(store, protocol=V2)
    for version in range(1, 6):
        write_commit(store, version, add(f"f{version}"))
    write_checkpoint(store, load_table_state(store, 4), TableProperties(), now_ms=0)
    return store


@pytest.mark.parametrize(
    ("retention_days", "after_ms", "lists", "goes"),
    [
        (30, 1000, False, False),
        (30, 3_600_000, True, False),  # files of dead writers may be old by now
        (30, -1, True, False),
        (2, 1000, True, True),  # the retention was shortened
    ],
)
def test_a_log_whose_oldest_file_is_young_is_not_listed_again(
    retention_days, after_ms, lists, goes
):
    store, now_ms = _create_counting_store(), 8 * DAY_MS
    assert clean_log_again(store, 30 * DAY_MS, now_ms) == []
    before = store.listed
    gone = clean_log_again(store, retention_days * DAY_MS, now_ms + after_ms)
    assert (store.listed > before) is lists
    assert bool(gone) is goes


def test_a_log_is_listed_again_where_its_oldest_file_is_another():
    store, now_ms = _create_counting_store(), 8 * DAY_MS
    assert clean_log_again(store, 30 * DAY_MS, now_ms) == []
    oldest = store.read("_delta_log/00000000000000000000.json")
    store.put("_delta_log/00000000000000000000.json", oldest + b"\n")
    before = store.listed
    clean_log_again(store, 30 * DAY_MS, now_ms)
    assert store.listed > before


def test_expired_transactions_and_tombstones_are_cleaned():
    store = _create_counting_store()
    assert clean_log_again(store, 2 * DAY_MS, 5 * DAY_MS) == []
    assert clean_log_again(store, 2 * DAY_MS, 8 * DAY_MS)


def _last_written(store: MemoryStore, policy: str) -> str:
    """Return the file of the second checkpoint that holds its files."""
    if policy == "classic":
        return checkpoint_path(5)
    listed = list_segment(store, 5).checkpoint
    assert listed is not None
    (name,) = _sidecar_names(store, listed)
    return f"_delta_log/_sidecars/{name}"
