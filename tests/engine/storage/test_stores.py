"""The contract that every store keeps, whatever it stores files in."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.errors import (
    DataFileError,
    EngineError,
    FileExistsAlreadyError,
    FileMissingError,
    PathOutsideRootError,
)
from engine.storage.base import Store

COMMIT = "_delta_log/00000000000000000001.json"


@pytest.mark.parametrize(
    "path", ["a", "a b/c%20d=1/#x.parquet", "ü/?*:.bin", "_delta_log/_sidecars/x"]
)
def test_bytes_that_are_put_are_read_back(store: Store, path: str):
    store.put_if_absent(path, b"0123456789")
    assert store.read(path) == b"0123456789"
    assert store.read(path, 3, 4) == b"3456"
    assert store.read(path, 8, 100) == b"89"
    assert store.read(path, 8) == b"89"
    assert store.read(path, 20, 4) == b""


def test_a_second_put_if_absent_is_refused_and_changes_nothing(store: Store):
    store.put_if_absent(COMMIT, b"first")
    with pytest.raises(FileExistsAlreadyError):
        store.put_if_absent(COMMIT, b"second")
    assert store.read(COMMIT) == b"first"


def test_one_of_many_racing_writers_wins(store: Store):
    def attempt(number: int) -> bool:
        try:
            store.put_if_absent(COMMIT, f"writer {number}".encode())
        except FileExistsAlreadyError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = [number for number, landed in enumerate(pool.map(attempt, range(8))) if landed]
    assert len(won) == 1
    assert store.read(COMMIT) == f"writer {won[0]}".encode()


def test_put_replaces_an_existing_file(store: Store):
    store.put("x", b"old")
    store.put("x", b"new")
    assert store.read("x") == b"new"


def test_a_streamed_file_appears_completely_or_not_at_all(store: Store):
    def break_stream() -> Iterator[bytes]:
        yield b"x" * 6_000_000
        raise DataFileError("The source is gone.")  # noqa: EM101, TRY003

    store.put_stream("a/b", iter([b"x" * 6_000_000, b"", b"end"]))
    assert store.stat("a/b").size_bytes == 6_000_003
    assert store.read("a/b", 5_999_999) == b"xend"
    with pytest.raises(EngineError):
        store.put_stream("a/c", break_stream())
    assert store.stat("a/c") is None
    assert {file.path for file in store.list_all()} == {"a/b"}


def test_a_directory_lists_its_files_from_a_name_on_in_order(store: Store):
    for name in ("3", "1", "2", "2.crc", ".hidden", "_sidecars/9"):
        store.put(f"_delta_log/{name}", name.encode())
    listed = list(store.list_from("_delta_log", "2"))
    assert [file.name for file in listed] == ["2", "2.crc", "3"]
    assert listed[0].path == "_delta_log/2"
    assert [file.size_bytes for file in listed] == [1, 5, 1]


def test_a_missing_directory_is_empty(store: Store):
    assert list(store.list_from("_delta_log", "")) == []
    assert list(store.list_all()) == []
    assert list(store.list_all("nowhere")) == []


def test_everything_below_a_prefix_is_listed(store: Store):
    for path in ("a/1", "a/b/2", "ab/3"):
        store.put(path, b"")
    assert sorted(file.path for file in store.list_all()) == ["a/1", "a/b/2", "ab/3"]
    assert sorted(file.path for file in store.list_all("a")) == ["a/1", "a/b/2"]


def test_a_missing_file_is_named(store: Store):
    for read in (store.read, store.open_input):
        with pytest.raises(FileMissingError, match="nothing"):
            read("nothing")
    assert store.stat("nothing") is None


def test_deleting_a_file_twice_is_no_error(store: Store):
    store.put("x", b"")
    store.delete("x")
    store.delete("x")
    assert store.stat("x") is None


def test_an_input_is_read_at_random(store: Store):
    store.put("x", b"0123456789")
    with store.open_input("x") as source:
        source.seek(4)
        assert bytes(source.read(3)) == b"456"
        assert source.size() == 10


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/passwd", "a\0b"])
def test_a_path_that_leaves_the_root_is_refused(store: Store, path: str):
    for act in (store.read, store.stat, store.delete, store.open_input):
        with pytest.raises(PathOutsideRootError):
            act(path)
    with pytest.raises(PathOutsideRootError):
        store.put_if_absent(path, b"")


def test_a_directory_is_no_file_to_a_store(store: Store):
    store.put("a/b", b"x")
    assert store.stat("a") is None
    with pytest.raises(FileMissingError):
        store.read("a")
