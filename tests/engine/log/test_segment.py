import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import LogGapError, TableNotFoundError, VersionNotFoundError
from engine.log.paths import checkpoint_path, commit_path, compaction_path
from engine.log.segment import list_log_files, list_segment, newer_segment, read_hint
from engine.storage.base import Store
from engine.storage.memory import MemoryStore


@pytest.fixture
def store() -> Store:
    return MemoryStore(f"memory://{uuid.uuid4()}")


def make(store: Store, commits: range | list[int], checkpoints: list[int] | None = None) -> Store:
    for version in commits:
        store.put(commit_path(version), b"")
    for version in checkpoints or []:
        store.put(checkpoint_path(version), b"")
    return store


def versions(store: Store, version: int | None = None) -> tuple[int | None, list[int]]:
    segment = list_segment(store, version)
    checkpoint = segment.checkpoint.version if segment.checkpoint else None
    return checkpoint, [commit.version for commit in segment.commits]


def test_without_a_checkpoint_every_commit_is_needed(store: Store):
    assert versions(make(store, range(4))) == (None, [0, 1, 2, 3])


def test_the_newest_checkpoint_saves_the_commits_before_it(store: Store):
    make(store, range(25), [10, 20])
    assert versions(store) == (20, [21, 22, 23, 24])
    assert versions(store, 20) == (20, [])
    assert versions(store, 19) == (10, list(range(11, 20)))
    assert versions(store, 3) == (None, [0, 1, 2, 3])


def test_a_log_may_consist_of_a_checkpoint_only(store: Store):
    assert versions(make(store, [], [7])) == (7, [])


@pytest.mark.parametrize(
    "hint",
    [b"", b"x", b"[]", b'{"version":"x"}', b'{"version":99}', b'{"version":-1}', b'{"version":5}'],
)
def test_a_wrong_hint_changes_nothing(store: Store, hint: bytes):
    make(store, range(13), [5, 10])
    store.put("_delta_log/_last_checkpoint", hint)
    assert versions(store) == (10, [11, 12])
    assert versions(store, 7) == (5, [6, 7])


def test_a_good_hint_is_read(store: Store):
    store.put("_delta_log/_last_checkpoint", b'{"version":5,"size":3,"more":{}}')
    assert read_hint(store) == 5


def test_a_hint_without_its_checkpoint_falls_back_to_an_older_one(store: Store):
    make(store, range(13), [5])
    store.put("_delta_log/_last_checkpoint", b'{"version":10}')
    assert versions(store) == (5, list(range(6, 13)))


def test_a_multi_part_checkpoint_counts_only_when_whole(store: Store):
    make(store, range(4))
    part = "_delta_log/00000000000000000002.checkpoint.{:010}.0000000002.parquet"
    store.put(part.format(1), b"")
    assert versions(store) == (None, [0, 1, 2, 3])
    store.put(part.format(2), b"")
    segment = list_segment(store)
    assert segment.checkpoint is not None
    assert [file.name.part for file in segment.checkpoint.files] == [1, 2]


def test_a_gap_is_an_error(store: Store):
    make(store, [0, 1, 3])
    with pytest.raises(LogGapError, match=r"00000000000000000002.json"):
        list_segment(store)
    assert versions(store, 1) == (None, [0, 1])


def test_a_gap_after_the_checkpoint_is_an_error(store: Store):
    make(store, [10, 12], [10])
    with pytest.raises(LogGapError):
        list_segment(store)


def test_a_log_without_its_beginning_is_a_gap(store: Store):
    make(store, [5, 6])
    with pytest.raises(LogGapError):
        list_segment(store)


def test_no_log_is_no_table(store: Store):
    with pytest.raises(TableNotFoundError):
        list_segment(store)
    store.put("_delta_log/00000000000000000000.crc", b"")
    store.put("data.parquet", b"")
    with pytest.raises(TableNotFoundError):
        list_segment(store)


@pytest.mark.parametrize("version", [-1, 0, 9, 14])
def test_a_removed_or_future_version_is_refused_with_the_range(store: Store, version: int):
    make(store, range(8, 14), [10])
    with pytest.raises(VersionNotFoundError) as caught:
        list_segment(store, version)
    assert (caught.value.earliest, caught.value.latest) == (10, 13)


def test_only_files_after_a_known_version_are_listed(store: Store):
    make(store, range(13), [10])
    newer = newer_segment(list_log_files(store, 11), 11)
    assert newer is not None
    assert (newer.version, [commit.version for commit in newer.commits]) == (12, [12])
    nothing = newer_segment(list_log_files(store, 12), 12)
    assert nothing is not None
    assert nothing.commits == ()


def test_a_known_version_that_was_cleaned_must_be_listed_again(store: Store):
    make(store, range(20, 25), [20])
    assert newer_segment(list_log_files(store, 10), 10) is None


def test_compactions_inside_the_segment_are_found(store: Store):
    make(store, range(8))
    for start, end in ((1, 3), (2, 9)):
        store.put(compaction_path(start, end), b"")
    assert [compaction.version for compaction in list_segment(store).compactions] == [1]


@given(
    st.sets(st.integers(0, 12)),
    st.sets(st.integers(0, 12)),
    st.none() | st.integers(-1, 14),
)
def test_a_segment_keeps_its_promises_or_is_refused(
    commits: set[int], checkpoints: set[int], version: int | None
):
    store = make(MemoryStore(f"memory://{uuid.uuid4()}"), sorted(commits), sorted(checkpoints))
    try:
        segment = list_segment(store, version)
    except (TableNotFoundError, VersionNotFoundError, LogGapError):
        return
    first = 0 if segment.checkpoint is None else segment.checkpoint.version + 1
    assert [commit.version for commit in segment.commits] == list(range(first, segment.version + 1))
    assert version is None or segment.version == version


def test_a_commit_that_one_look_at_the_directory_missed_is_no_gap():
    """A directory read may miss an entry that is created meanwhile, even if it returns a newer one."""

    class Missing(MemoryStore):
        looks = 0

        def list_from(self, directory: str, start: str):
            self.looks += 1
            for file in super().list_from(directory, start):
                if self.looks > 1 or file.path != commit_path(2):
                    yield file

    store = make(Missing(f"memory://{uuid.uuid4()}"), range(4))
    assert versions(store) == (None, [0, 1, 2, 3])
