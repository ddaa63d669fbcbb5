"""Missing files: found in few requests, and never reported if they exist."""

import uuid

import pytest

from engine.storage.memory import MemoryStore
from engine.storage.presence import find_missing_files

FILES = [f"p={number % 3}/{number:03}.parquet" for number in range(100)]


class Asked(MemoryStore):
    """A store that counts listings and lookups by name; `hidden` files are in no listing."""

    def __init__(self, *hidden):
        super().__init__(f"memory://presence/{uuid.uuid4()}")
        self.listings, self.names, self.hidden = 0, [], hidden

    def stat(self, path):
        self.names.append(path)
        return super().stat(path)

    def list_all(self, prefix=""):
        self.listings += 1
        yield from (file for file in super().list_all(prefix) if file.path not in self.hidden)


def _store(*hidden, without=()):
    store = Asked(*hidden)
    for path in FILES:
        if path not in without:
            store.put(path, b"")
    return store


@pytest.mark.parametrize("neighbor_count", [0, 10**6])
@pytest.mark.parametrize("gone", [[], FILES[:1], FILES[40:60], FILES])
def test_exactly_the_absent_files_are_missing(gone, neighbor_count):
    assert find_missing_files(_store(without=gone), FILES, neighbor_count) == sorted(gone)


def test_many_files_of_a_small_table_are_found_by_one_listing():
    store = _store()
    assert find_missing_files(store, FILES, 1000) == []
    assert (store.listings, store.names) == (1, [])


@pytest.mark.parametrize(("asked", "neighbor_count"), [(FILES[:20], 0), (FILES, 10**6)])
def test_few_files_or_those_of_a_large_table_are_looked_up_by_name(asked, neighbor_count):
    store = _store()
    assert find_missing_files(store, asked, neighbor_count) == []
    assert (store.listings, sorted(store.names)) == (0, sorted(asked))


def test_a_file_that_a_listing_omits_is_looked_up_by_name():
    store = _store(FILES[7])
    assert find_missing_files(store, FILES) == []
    assert store.names == [FILES[7]]
