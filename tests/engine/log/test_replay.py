"""Replay against a model: the newest action wins, for every division of the log."""

import tracemalloc
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.actions.codec import Action, encode
from engine.actions.files import DeletionVectorDescriptor
from engine.actions.table import DomainMetadata, SetTransaction
from engine.errors import LogGapError, MalformedLogError
from engine.log.checkpoint_writer import write_checkpoint
from engine.log.commits import read_commit, read_commit_and_text
from engine.log.file_table import adds_of
from engine.log.paths import commit_path, compaction_path
from engine.log.replay import TableState, list_newer, load_state, replay
from engine.log.segment import list_log_files, list_segment, whole_log
from engine.protocol.properties import TableProperties
from engine.storage.base import Store
from engine.storage.memory import MemoryStore
from tests.engine.log.log_model import Model
from tests.engine.made_tables import (
    LEGACY,
    add,
    metadata,
    remove,
    write_commit,
    write_first,
    write_lines,
)

PATHS = st.sampled_from(["a", "b", "c%20d", "p=1/x", "ü"])
VECTORS = st.none() | st.builds(
    DeletionVectorDescriptor,
    storage_type=st.sampled_from("uip"),
    path_or_inline_dv=st.sampled_from(["one", "two"]),
    size_in_bytes=st.just(4),
    cardinality=st.integers(0, 3),
    offset=st.none() | st.integers(0, 1),
)
FILES = st.builds(
    add,
    PATHS,
    st.dictionaries(st.sampled_from("pq"), st.none() | st.sampled_from(["", "1"])),
    size=st.integers(0, 9),
    stats=st.none() | st.just('{"numRecords":1}'),
    tags=st.none() | st.dictionaries(st.sampled_from("tu"), st.none() | st.just("v"), max_size=2),
    deletion_vector=VECTORS,
    base_row_id=st.none() | st.integers(0, 5),
    data_change=st.just(False),
)
REMOVES = st.builds(
    remove,
    PATHS,
    deletion_vector=VECTORS,
    size=st.none() | st.integers(0, 9),
    partition_values=st.none() | st.just({"p": None}),
    data_change=st.just(False),
)
OTHERS = st.one_of(
    st.builds(SetTransaction, app_id=st.sampled_from("xy"), version=st.integers(0, 9)),
    st.builds(
        DomainMetadata,
        domain=st.sampled_from("de"),
        configuration=st.just("{}"),
        removed=st.booleans(),
    ),
)
COMMITS = st.lists(st.lists(FILES | REMOVES | OTHERS, max_size=4), max_size=6)


def fresh() -> Store:
    return MemoryStore(f"memory://{uuid.uuid4()}")


def write_log(commits: Sequence[Sequence[Action]]) -> Store:
    store = fresh()
    write_first(store)
    for version, actions in enumerate(commits, 1):
        write_commit(store, version, *actions)
    return store


def current(store: Store, version: int | None = None) -> TableState:
    return load_state(store, list_segment(store, version))


@given(COMMITS)
def test_replay_equals_the_model(commits: list[list[Action]]):
    Model(commits).assert_is(current(write_log(commits)))


@given(COMMITS, st.integers(1, 4))
def test_replay_in_parts_equals_the_model(commits: list[list[Action]], most: int):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("engine.log.replay._MOST_OBJECTS", most)
        Model(commits).assert_is(current(write_log(commits)))


def test_a_large_commit_needs_the_memory_of_its_parts():
    files = 20_000
    store = write_log([[add(f"f{number}", stats='{"numRecords":1}') for number in range(files)]])

    def peak(most: int) -> int:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("engine.log.replay._MOST_OBJECTS", most)
            patched.setattr("engine.log.commits._PIECE_BYTES", 65_536)
            tracemalloc.start()
            assert current(store).files.num_rows == files
            _, highest = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        return highest

    assert peak(files // 20) < peak(files + 1) / 2


@given(COMMITS, st.data())
def test_replay_from_a_checkpoint_is_replay_from_zero(commits: list[list[Action]], data: Any):
    store = write_log(commits)
    policy = data.draw(st.sampled_from(["classic", "v2"]))
    at = data.draw(st.integers(0, len(commits)))
    state = current(store, at)
    if policy == "v2":
        protocol = replace_protocol(state)
        state = replace(state, protocol=protocol)
    write_checkpoint(store, state, replace(TableProperties(), checkpoint_policy=policy), now_ms=0)
    for version in range(at + 1):
        store.delete(commit_path(version))
    replayed = current(store)
    assert replayed.checkpoint_version == at
    Model(commits).assert_is(replayed)
    assert replayed.metadata == state.metadata


def replace_protocol(state: TableState) -> Any:
    return type(state.protocol)(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=["v2Checkpoint"],
        writer_features=["v2Checkpoint"],
    )


@given(COMMITS, st.data())
def test_refreshing_is_replay_from_zero(commits: list[list[Action]], data: Any):
    store = write_log(commits)
    older = current(store, data.draw(st.integers(0, len(commits))))
    newer = list_newer(store, older)
    assert newer is not None
    Model(commits).assert_is(load_state(store, newer, older))


@given(COMMITS, st.integers(0, 1000))
def test_a_log_read_elsewhere_is_replayed_like_one_read_here(
    commits: list[list[Action]], length: int
):
    store = write_log(commits)
    files = whole_log(list_log_files(store))
    read = [read_commit_and_text(store, file, length) for file in files]
    texts = [store.read(file.path, 0, length) for file in files]
    assert [text for _, text in read] == texts
    assert [commit for commit, _ in read] == [read_commit(store, v) for v in range(len(files))]
    assert replay(store, files, (commit for commit, _ in read)) == current(store)


def test_a_commit_that_disappeared_while_a_log_was_read_is_a_gap():
    store = write_log([[add("a")], [add("b")]])
    files = whole_log(list_log_files(store))
    with pytest.raises(LogGapError, match=r"0{19}1\.json"):
        replay(store, files, [read_commit(store, version) for version in (0, 2)])
    with pytest.raises(LogGapError, match=r"0{19}2\.json"):
        replay(store, files, [read_commit(store, version) for version in (0, 1)])


def test_a_log_with_a_checkpoint_or_a_gap_is_not_read_whole():
    store = write_log([[add("a")], [add("b")]])
    assert [file.version for file in whole_log(list_log_files(store))] == [0, 1, 2]
    write_checkpoint(store, current(store, 1), TableProperties(), now_ms=0)
    assert whole_log(list_log_files(store)) == ()
    other = write_log([[add("a")], [add("b")]])
    other.delete(commit_path(1))
    assert whole_log(list_log_files(other)) == ()


@given(COMMITS, st.data())
def test_a_log_compaction_changes_nothing(commits: list[list[Action]], data: Any):
    store = write_log(commits)
    start = data.draw(st.integers(0, len(commits)))
    end = data.draw(st.integers(start, len(commits)))
    model = Model(commits[max(start - 1, 0) : end])
    compacted = [*model.files.values(), *model.transactions.values(), *model.domains.values()]
    first = [LEGACY, metadata()] if start == 0 else []
    lines = "".join(f"{encode(action)}\n" for action in [*first, *compacted])
    store.put(compaction_path(start, end), lines.encode())
    if end < len(commits) and start < end:
        for version in range(start, end + 1):
            write_lines(store, version, "this commit is not read")
    Model(commits).assert_is(current(store))


@pytest.mark.parametrize(("lacks", "actions"), [("protocol", [metadata()]), ("metaData", [LEGACY])])
def test_a_log_without_protocol_or_metadata_is_refused(lacks: str, actions: list[Action]):
    store = fresh()
    write_commit(store, 0, *actions)
    with pytest.raises(MalformedLogError, match=lacks):
        current(store)


def test_a_line_without_an_action_is_refused_with_its_file():
    store = write_log([[]])
    write_lines(store, 1, '{"add":{"path":"a"}}')
    with pytest.raises(MalformedLogError, match=r"0{19}1\.json"):
        current(store)


def test_statistics_that_are_the_text_null_count_as_missing():
    store = write_log([[add("a", stats="null")]])
    assert adds_of(current(store).files)[0].stats is None


def test_the_commit_info_of_the_newest_version_is_known():
    store = write_log([[], []])
    write_lines(store, 2, '{"commitInfo":{"operation":"DELETE","inCommitTimestamp":5}}')
    info = current(store).commit_info
    assert info is not None
    assert (info.version, info.operation, info.in_commit_timestamp) == (2, "DELETE", 5)
