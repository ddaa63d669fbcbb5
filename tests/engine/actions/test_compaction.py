import pytest

from engine.actions.compaction import CompactionInfo
from engine.actions.files import DeletionVectorDescriptor, RemoveFile

VECTOR = DeletionVectorDescriptor("u", "abc", 34, 2, 1)


@pytest.mark.parametrize("vector", [None, VECTOR])
def test_tags_record_where_rows_moved_and_are_read_back(vector):
    info = CompactionInfo(target="part%20a", offset=7, row_count=10, deletion_vector=vector)
    remove = RemoveFile(path="a", data_change=False, tags=info.tags())
    assert CompactionInfo.from_remove(remove) == info
    assert info.live_count == (8 if vector else 10)


@pytest.mark.parametrize(
    "tags",
    [
        None,
        {},
        {"compactedInto": "a"},
        {"compactedInto": "a", "compactionInfo": "[]"},
        {"compactedInto": "a", "compactionInfo": '{"offset":-1,"rowCount":1}'},
        {"compactedInto": "a", "compactionInfo": '{"offset":0}'},
        {"compactedInto": "a", "compactionInfo": "[" * 100_000},
    ],
)
def test_tags_that_say_nothing_are_nothing(tags):
    assert CompactionInfo.from_remove(RemoveFile(path="a", data_change=False, tags=tags)) is None
