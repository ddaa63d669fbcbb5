"""Compactions have the content of the commits they cover, and are trusted for nothing more."""

import json
import uuid
from pathlib import Path

import pytest
from deltalake import DeltaTable as OtherTable
from hypothesis import given
from hypothesis import strategies as st

from engine.actions.codec import Action, decode_lines, encode
from engine.actions.commit_info import CommitInfo, UnknownAction
from engine.actions.files import AddCDCFile, DeletionVectorDescriptor
from engine.actions.table import DomainMetadata, Protocol, SetTransaction
from engine.errors import MalformedLogError
from engine.log.checkpoint_writer import write_checkpoint
from engine.log.compaction import reconcile_actions, write_compaction
from engine.log.paths import commit_path, compaction_path
from engine.log.replay import TableState, load_table_state
from engine.protocol.properties import TableProperties
from engine.snapshot.post_commit import run_post_commit
from engine.snapshot.snapshot import load_snapshot
from engine.storage.base import Store
from engine.storage.local import LocalStore
from engine.storage.memory import MemoryStore
from tests.engine.made_tables import (
    LEGACY,
    WITH_VECTORS,
    add,
    metadata,
    remove,
    write_commit,
    write_first,
    write_rows,
)


class CountingStore(MemoryStore):
    """A store that records its reads."""

    def __init__(self) -> None:
        super().__init__(f"memory://{uuid.uuid4()}")
        self.reads: list[str] = []

    def read(self, path: str, start: int | None = None, length: int | None = None) -> bytes:
        self.reads.append(path)
        return super().read(path, start, length)


def domain(name: str, *, removed: bool = False) -> DomainMetadata:
    return DomainMetadata(domain=name, configuration="{}", removed=removed)


def content(state: TableState) -> tuple[object, ...]:
    return (
        state.version,
        state.protocol,
        state.metadata,
        state.set_transactions,
        state.domains,
        sorted(map(str, state.files.to_pylist())),
        sorted(map(str, state.tombstones.to_pylist())),
        state.commit_info,
    )


def lines(store: Store, start: int, end: int) -> list[Action]:
    return list(decode_lines(store.read(compaction_path(start, end))))


ACTIONS = st.one_of(
    st.builds(add, st.sampled_from("abc")),
    st.builds(remove, st.sampled_from("abc")),
    st.builds(SetTransaction, app_id=st.sampled_from("xy"), version=st.integers(0, 9)),
    st.builds(domain, st.sampled_from("xy"), removed=st.booleans()),
    st.just(metadata(configuration={"k": "v"})),
    st.just(Protocol(min_reader_version=1, min_writer_version=4)),
    st.just(CommitInfo(operation="X")),
    st.just(AddCDCFile(path="c", partition_values={}, size=1)),
)
COMMITS = st.lists(
    st.lists(ACTIONS, max_size=4, unique_by=lambda action: (type(action), str(action))),
    min_size=3,
    max_size=7,
)


@given(COMMITS, st.data())
def test_a_table_read_through_compactions_is_the_table(
    commits: list[list[Action]], data: st.DataObject
):
    store = MemoryStore(f"memory://{uuid.uuid4()}")
    write_first(store)
    for version, actions in enumerate(commits, start=1):
        write_commit(store, version, *actions)
    expected = content(load_table_state(store))
    end = data.draw(st.integers(1, len(commits)))
    write_compaction(store, end, data.draw(st.integers(2, len(commits) + 1)))
    assert content(load_table_state(store)) == expected


def test_the_commits_that_are_covered_are_not_read():
    store = CountingStore()
    write_first(store)
    for version in range(1, 6):
        write_commit(store, version, CommitInfo(operation="WRITE"), add(f"f{version}"))
    assert write_compaction(store, 4, 4) == compaction_path(1, 4)
    store.reads.clear()
    state = load_table_state(store)
    assert (state.files.num_rows, state.version) == (5, 5)
    assert {commit_path(version) for version in range(1, 5)}.isdisjoint(store.reads)
    assert commit_path(5) in store.reads


def test_removals_are_kept_and_nothing_counts_as_change():
    store = CountingStore()
    write_first(store)
    write_commit(store, 1, add("a"), domain("d"))
    write_commit(store, 2, CommitInfo(operation="X"), add("b"), domain("d", removed=True))
    write_commit(
        store, 3, remove("a"), remove("b"), AddCDCFile(path="c", partition_values={}, size=1)
    )
    write_compaction(store, 3, 2)
    assert lines(store, 2, 3) == [
        domain("d", removed=True),
        remove("a", data_change=False),
        remove("b", data_change=False),
    ]


def test_an_unknown_action_is_not_compacted():
    assert reconcile_actions([add("a"), UnknownAction(name="future", json="{}")]) is None


def test_a_compaction_does_not_reach_over_a_checkpoint_or_a_gap():
    store = CountingStore()
    write_first(store)
    for version in range(1, 9):
        write_commit(store, version, add(f"f{version}"))
    write_checkpoint(store, load_table_state(store, 3), TableProperties(), now_ms=0)
    assert write_compaction(store, 6, 6) == compaction_path(4, 6)
    assert write_compaction(store, 4, 4) is None
    store.delete(commit_path(6))
    assert write_compaction(store, 8, 8) == compaction_path(7, 8)


def test_an_existing_compaction_stays():
    store = CountingStore()
    write_first(store)
    write_commit(store, 1, add("a"))
    assert write_compaction(store, 1, 2) is not None
    assert write_compaction(store, 1, 2) is None


@pytest.mark.parametrize("data", [b"{", b"[]\n", b'{"add":{}}\n', b"\xff\n"])
def test_a_damaged_compaction_is_passed_over(data: bytes, caplog: pytest.LogCaptureFixture):
    store = CountingStore()
    write_first(store)
    for version in range(1, 5):
        write_commit(store, version, add(f"f{version}"))
    first = load_snapshot(store, 0)
    store.put(compaction_path(1, 3), data)
    assert load_table_state(store).files.num_rows == 4
    assert first.update().file_count == 4
    assert "passed over" in caplog.text
    store.put(commit_path(2), b"{")
    with pytest.raises(MalformedLogError, match=r"0{19}2\.json"):
        load_table_state(store)


def compactions(store: Store) -> list[str]:
    return [file.name for file in store.list_from("_delta_log", "") if "compacted" in file.name]


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        ("", []),
        ("0", []),
        ("1", []),
        ("3", [(1, 3), (4, 6), (7, 9), (11, 12)]),
        ("5", [(1, 5)]),
    ],
)
def test_commits_are_compacted_every_interval_unless_a_checkpoint_is_due(
    tmp_path: Path, interval: str, expected: list[tuple[int, int]]
):
    store = LocalStore(tmp_path)
    keys = {"delta.logCompactionInterval": interval} if interval else {}
    write_first(store, configuration={**keys, "delta.checkpointInterval": "10"})
    for version in range(1, 13):
        before = load_snapshot(store)
        rows = {"id": [version], "name": ["x"]}
        gone = [remove(f"f{version - 3}.parquet")] if version > 3 else []
        write_commit(store, version, write_rows(store, f"f{version}.parquet", rows), *gone)
        run_post_commit(store, version, before, now_ms=0)
    assert compactions(store) == [Path(compaction_path(*span)).name for span in expected]
    for version in (6, 9, 12):
        ids = sorted(load_snapshot(store, version).to_arrow().column("id").to_pylist())
        assert ids == [version - 2, version - 1, version]
        other = OtherTable(str(tmp_path), version=version)
        assert sorted(other.to_pyarrow_table().column("id").to_pylist()) == ids
    texts = [store.read(f"_delta_log/{name}") for name in compactions(store)]
    assert all(json.loads(line) for text in texts for line in text.splitlines())


def newest_first(commits: list[list[Action]]) -> bytes:
    """Return a compaction as some engines write it: whole commits in sequence, the newest first."""
    return "".join(
        f"{encode(action)}\n" for commit in reversed(commits) for action in commit
    ).encode()


@pytest.mark.parametrize(
    "twice",
    [
        [[add("a")], [remove("a")]],
        [[add("a")], [add("a")]],
        [[domain("d")], [domain("d", removed=True)]],
        [[SetTransaction(app_id="x", version=1)], [SetTransaction(app_id="x", version=2)]],
        [[metadata()], [metadata(configuration={"k": "v"})]],
        [[LEGACY], [Protocol(min_reader_version=1, min_writer_version=4)]],
    ],
    ids=["file", "equal", "domain", "application", "metadata", "protocol"],
)
def test_a_compaction_that_names_one_subject_twice_is_ignored(
    twice: list[list[Action]], caplog: pytest.LogCaptureFixture
):
    store = CountingStore()
    write_first(store)
    for version, actions in enumerate(twice, start=1):
        write_commit(store, version, *actions)
    write_commit(store, 3, add("b"))
    first = load_snapshot(store, 0)
    expected = content(load_table_state(store))
    store.put(compaction_path(1, 2), newest_first(twice))
    assert content(load_table_state(store)) == expected
    assert content(first.update().state) == expected
    assert compaction_path(1, 2) in caplog.text
    assert "passed over" in caplog.text


def test_rows_that_a_compaction_brings_back_from_the_dead_stay_dead():
    store = CountingStore()
    write_first(store)
    commits = [[add(f"f{version}"), *([remove(f"f{version - 1}")] * (version > 1))]
               for version in range(1, 25)]  # fmt: skip
    for version, actions in enumerate(commits, start=1):
        write_commit(store, version, *actions)
    write_commit(store, 25, add("last"))
    store.put(compaction_path(1, 24), newest_first(commits))
    paths = load_table_state(store).files.column("path").to_pylist()
    assert sorted(paths) == ["f24", "last"]


def test_a_contradictory_compaction_is_refused_by_name_where_its_commits_are_missing():
    class CommitsGoWhileTheyAreRead(CountingStore):
        def read(self, path: str, start: int | None = None, length: int | None = None) -> bytes:
            if path == commit_path(1):
                self.delete(path)
            return super().read(path, start, length)

    store = CommitsGoWhileTheyAreRead()
    write_first(store)
    for version in range(1, 4):
        write_commit(store, version, add("a"))
    store.put(compaction_path(1, 2), newest_first([[add("a")], [remove("a")]]))
    with pytest.raises(MalformedLogError, match=r"1\.0{19}2\.compacted\.json contradicts itself"):
        load_table_state(store)


def test_the_same_path_with_two_vectors_is_two_files():
    store = CountingStore()
    vector = DeletionVectorDescriptor("i", "x", 4, 1)
    write_first(store, protocol=WITH_VECTORS)
    write_commit(store, 1, add("a"))
    write_commit(store, 2, remove("a"), add("a", deletion_vector=vector))
    write_commit(store, 3, add("b"))
    assert write_compaction(store, 2, 2) == compaction_path(1, 2)
    store.reads.clear()
    assert load_table_state(store).files.num_rows == 2
    assert commit_path(1) not in store.reads
