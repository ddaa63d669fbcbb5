"""Replay gives the same versions for every division of a log into commits, compactions and checkpoints."""

import uuid
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.actions.codec import Action
from engine.actions.files import DeletionVectorDescriptor
from engine.actions.table import DomainMetadata, SetTransaction
from engine.log.compaction import write_compaction
from engine.log.paths import commit_path
from engine.log.replay import load_table_state
from engine.snapshot.snapshot import load_snapshot
from engine.storage.base import Store
from engine.storage.memory import MemoryStore
from tests.engine.log.log_model import Model
from tests.engine.log.made_checkpoints import KINDS, V2, write_kind
from tests.engine.made_tables import add, metadata, remove, write_commit, write_first

PATHS = st.sampled_from(["part-00001.parquet", "part-00002.parquet", "c%20d", "short"])
VECTORS = st.none() | st.builds(
    DeletionVectorDescriptor,
    storage_type=st.just("u"),
    path_or_inline_dv=st.sampled_from(["one", "two"]),
    size_in_bytes=st.just(4),
    cardinality=st.just(1),
)
ACTIONS = st.one_of(
    st.builds(add, PATHS, deletion_vector=VECTORS, size=st.integers(0, 9), data_change=st.just(False)),
    st.builds(remove, PATHS, deletion_vector=VECTORS, data_change=st.just(False)),
    st.builds(SetTransaction, app_id=st.sampled_from("xy"), version=st.integers(0, 9)),
    st.builds(DomainMetadata, domain=st.sampled_from("de"), configuration=st.just("{}"), removed=st.booleans()),
    st.builds(lambda value: metadata(configuration={"k": value}), st.sampled_from("abc")),
)  # fmt: skip
COMMITS = st.lists(st.lists(ACTIONS, max_size=4), min_size=2, max_size=8)


def write_log(commits: Sequence[Sequence[Action]]) -> Store:
    store = MemoryStore(f"memory://{uuid.uuid4()}")
    write_first(store, protocol=V2)
    for version, actions in enumerate(commits, start=1):
        write_commit(store, version, *actions)
    return store


@given(COMMITS, st.data())
def test_every_version_equals_a_replay_from_zero(commits: list[list[Action]], data: st.DataObject):
    store, last = write_log(commits), len(commits)
    for end in sorted(data.draw(st.sets(st.integers(1, last), max_size=3))):
        write_compaction(store, end, data.draw(st.integers(2, 5)))
    at = data.draw(st.sets(st.integers(0, last), max_size=3))
    for version in sorted(at):
        write_kind(store, load_table_state(store, version), data.draw(st.sampled_from(list(KINDS))))
    for end in sorted(data.draw(st.sets(st.integers(1, last), max_size=2))):
        write_compaction(store, end, data.draw(st.integers(2, 5)))
    first = data.draw(st.sampled_from([0, *sorted(at)]))
    for version in range(first):
        store.delete(commit_path(version))
    for version in range(first, last + 1):
        Model(commits[:version]).assert_is(load_table_state(store, version))
    Model(commits).assert_is(load_table_state(store))


@given(COMMITS, st.sampled_from(list(KINDS)), st.data())
def test_a_snapshot_brought_up_to_date_is_a_fresh_one(
    commits: list[list[Action]], kind: str, data: st.DataObject
):
    store, last = write_log(commits), len(commits)
    snapshot = load_snapshot(store, data.draw(st.integers(0, last)))
    write_compaction(store, last, data.draw(st.integers(2, 9)))
    write_kind(store, load_table_state(store, data.draw(st.integers(0, last))), kind)
    Model(commits).assert_is(snapshot.update().state)


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_checkpoint_of_every_kind_replaces_its_commits(kind: str):
    commits: list[list[Action]] = [
        [add("a", data_change=False), add("b", data_change=False)],
        [remove("a", data_change=False), SetTransaction(app_id="x", version=3)],
        [add("c", data_change=False)],
    ]
    store = write_log(commits)
    write_kind(store, load_table_state(store, 2), kind)
    for version in range(3):
        store.delete(commit_path(version))
    state = load_table_state(store)
    assert state.checkpoint_version == 2
    Model(commits).assert_is(state)
