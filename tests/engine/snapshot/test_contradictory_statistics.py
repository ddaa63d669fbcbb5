"""Statistics that contradict themselves skip no file, whichever path looks for it."""

import json
import uuid

import pytest

from engine.snapshot.snapshot import load_snapshot
from engine.storage.memory import MemoryStore
from tests.engine.made_tables import add, write_commit, write_first

WRONG = [
    {"minValues": {"id": 9}, "maxValues": {"id": 1}, "nullCount": {"id": 0}},
    {"minValues": {"id": 1}, "maxValues": {"id": 9}, "nullCount": {"id": 4}},
    {"maxValues": {"id": 9}, "nullCount": {"id": 4}},
]
SOUND = [
    {"minValues": {"id": 1}, "maxValues": {"id": 3}, "nullCount": {"id": 0}},
    {"nullCount": {"id": 4}},
]


def _count_found(stats, condition):
    store = MemoryStore(f"memory://contradictory/{uuid.uuid4()}")
    write_first(store)
    write_commit(store, 1, add("f", stats=json.dumps({"numRecords": 4, **stats})))
    return len(load_snapshot(store).add_files(condition))


@pytest.mark.parametrize("condition", ["id = 5", "id > 4 AND id < 6", "id <=> 5", "NOT (id <> 5)"])
def test_a_file_is_ruled_out_by_statistics_only_if_they_agree(condition):
    assert [_count_found(stats, condition) for stats in WRONG] == [1, 1, 1]
    assert [_count_found(stats, condition) for stats in SOUND] == [0, 0]
