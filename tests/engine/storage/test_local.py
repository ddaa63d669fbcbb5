import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.errors import (
    FileExistsAlreadyError,
    FileMissingError,
    PathOutsideRootError,
    StorageError,
    StorageOutcomeUnknownError,
)
from engine.storage import local
from engine.storage.local import LocalStore, one_at_a_time
from tests.ordinary_user import ordinary_user


def test_no_temporary_file_is_left_behind(tmp_path: Path):
    store = LocalStore(tmp_path)
    store.put_if_absent("log/1", b"x")
    with pytest.raises(StorageError):
        store.put_if_absent("log/1", b"y")
    store.put("log/2", b"z")
    assert sorted(path.name for path in (tmp_path / "log").iterdir()) == ["1", "2"]


def test_readers_never_see_a_part_of_a_commit(tmp_path: Path):
    store = LocalStore(tmp_path)
    content = b"x" * 200_000

    def read(version: int) -> bytes:
        while (status := store.stat(f"log/{version}")) is None:
            continue
        assert status.size_bytes == len(content)
        return store.read(f"log/{version}")

    with ThreadPoolExecutor(2) as pool:
        for version in range(50):
            reading = pool.submit(read, version)
            store.put_if_absent(f"log/{version}", content)
            assert reading.result(20) == content


def test_a_symbolic_link_out_of_the_table_is_not_followed(tmp_path: Path):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("x", "utf-8")
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "inside").symlink_to(secret)
    store = LocalStore(tmp_path / "table")
    with pytest.raises(PathOutsideRootError):
        store.read("inside/key")
    assert list(store.list_all()) == []


def test_a_directory_that_becomes_a_link_out_of_the_table_is_followed_no_more(tmp_path: Path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("x", "utf-8")
    store = LocalStore(tmp_path / "table")
    store.put("inside/key", b"own")
    assert store.read("inside/key") == b"own"
    (tmp_path / "table" / "inside").rename(tmp_path / "table" / "before")
    (tmp_path / "table" / "inside").symlink_to(tmp_path / "secret")
    for refused in (store.read, store.stat, store.open_input, store.delete):
        with pytest.raises(PathOutsideRootError):
            refused("inside/key")
    with pytest.raises(PathOutsideRootError):
        store.delete_many(["before/none", "inside/key"])
    with pytest.raises(PathOutsideRootError):
        store.put("inside/new", b"")
    assert (tmp_path / "secret" / "key").exists()
    assert store.read("before/key") == b"own"


def test_a_replaced_root_is_not_read(tmp_path: Path):
    for name in ("mine", "theirs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "key").write_text(name, "utf-8")
    link = tmp_path / "table"
    link.symlink_to(tmp_path / "mine")
    store = LocalStore(link)
    assert store.read("key") == b"mine"
    link.unlink()
    link.symlink_to(tmp_path / "theirs")
    with pytest.raises(PathOutsideRootError):
        store.read("key")


def test_a_table_that_was_put_back_from_a_copy_is_read(tmp_path: Path):
    store = LocalStore(tmp_path / "table")
    store.put("x", b"1")
    (tmp_path / "table").rename(tmp_path / "old")
    LocalStore(tmp_path / "table").put("x", b"2")
    assert store.read("x") == b"2"


def test_a_link_within_the_table_is_followed(tmp_path: Path):
    store = LocalStore(tmp_path)
    store.put("a/x", b"1")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    (tmp_path / "y").symlink_to(tmp_path / "a" / "x")
    assert store.read("b/x") == store.read("y") == b"1"


def test_links_out_of_the_table_are_not_listed(tmp_path: Path):
    (tmp_path / "table").mkdir()
    (tmp_path / "secret").write_text("x", "utf-8")
    (tmp_path / "table" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "table" / "dangling").symlink_to(tmp_path / "nothing")
    (tmp_path / "table" / "file").write_text("x", "utf-8")
    store = LocalStore(tmp_path / "table")
    assert [file.path for file in store.list_all()] == ["file"]


def test_a_link_that_replaces_a_folder_during_a_listing_is_not_entered(tmp_path: Path):
    store = LocalStore(tmp_path / "table")
    for path in ("first", "folder/mine"):
        store.put(path, b"x")
    LocalStore(tmp_path / "elsewhere").put("secret", b"x")
    listing = store.list_all()
    assert next(listing).path == "first"
    (tmp_path / "table" / "folder").rename(tmp_path / "away")
    (tmp_path / "table" / "folder").symlink_to(tmp_path / "elsewhere")
    assert list(listing) == []


def test_a_link_that_exists_only_while_a_folder_is_opened_shows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store = LocalStore(tmp_path / "table")
    store.put("folder/mine", b"x")
    LocalStore(tmp_path / "elsewhere").put("secret", b"x")
    folder, away, opened = tmp_path / "table" / "folder", tmp_path / "away", os.open

    def open_through_link(place: str, *arguments: object, **keywords: object) -> int:
        if not str(place).endswith("/folder"):
            return opened(place, *arguments, **keywords)
        folder.rename(away)
        folder.symlink_to(tmp_path / "elsewhere")
        try:
            return opened(place, *arguments, **keywords)
        finally:
            folder.unlink()
            away.rename(folder)

    monkeypatch.setattr(os, "open", open_through_link)
    assert list(store.list_all()) == list(store.stat_many(["folder/secret"])) == []
    with pytest.raises(StorageError, match="another directory"):
        store.delete_many(["folder/secret"])
    assert (tmp_path / "elsewhere" / "secret").exists()


def test_many_files_are_deleted_and_missing_ones_are_no_error(tmp_path: Path):
    store = LocalStore(tmp_path)
    for path in ("a/1", "a/2", "a/3", "b/1", "top"):
        store.put(path, b"x")
    store.delete_many(["a/1", "b/1", "a/2", "a/gone", "nowhere/1", "top"])
    assert [file.path for file in store.list_all()] == ["a/3"]
    with pytest.raises(PathOutsideRootError):
        store.delete_many(["../a/3"])


def test_entries_that_cannot_be_listed_are_skipped_and_the_rest_is_listed(tmp_path: Path):
    store = LocalStore(tmp_path)
    for path in ("a/b/1", "a/2", "c/d/e/3"):
        store.put(path, b"xyz")
    (tmp_path / "a" / "loop").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "other").symlink_to("2")
    os.mkfifo(tmp_path / "pipe")
    assert sorted(file.path for file in store.list_all()) == ["a/2", "a/b/1", "a/other", "c/d/e/3"]
    assert {file.path: file for file in store.list_all()}["a/2"] == store.stat("a/2")


def test_paths_and_later_lookups_agree_with_the_listing(tmp_path: Path):
    store = LocalStore(tmp_path / "table")
    for path in ("a/b/1", "a/2", "c/d/e/3", "top"):
        store.put(path, b"xyz")
    (tmp_path / "secret").write_text("x", "utf-8")
    (tmp_path / "table" / "out").symlink_to(tmp_path)
    (tmp_path / "table" / "a" / "out").symlink_to(tmp_path / "secret")
    (tmp_path / "table" / "a" / "loop").symlink_to(tmp_path / "table" / "a")
    (tmp_path / "table" / "a" / "other").symlink_to("2")
    os.mkfifo(tmp_path / "table" / "pipe")
    listed = sorted(store.list_all(), key=lambda file: file.path)
    assert sorted(store.list_paths()) == [file.path for file in listed]
    others = ["a/gone", "nowhere/1", "a", "a/out", "out/secret", "pipe", "../secret", "a/2/x"]
    asked = [*(file.path for file in listed), *others]
    assert sorted(store.stat_many(asked), key=lambda file: file.path) == listed


def test_a_table_may_itself_be_reached_by_a_symbolic_link(tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store = LocalStore(tmp_path / "link")
    store.put_if_absent("a/x", b"1")
    assert LocalStore(tmp_path / "real").read("a/x") == b"1"


def test_an_impossible_file_name_is_refused_at_once(tmp_path: Path):
    store = LocalStore(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "c")
    for path, kind in (
        ("a", "a directory"),
        ("b", "a broken symbolic link"),
        ("c", "not a regular file"),
    ):
        with pytest.raises(StorageError, match=f"{path} of .* is {kind}") as caught:
            store.put_if_absent(path, b"x")
        assert not isinstance(caught.value, FileExistsAlreadyError)


def test_a_directory_is_no_file(tmp_path: Path):
    (tmp_path / "a").mkdir()
    with pytest.raises(FileMissingError):
        LocalStore(tmp_path).read("a")


@pytest.mark.parametrize(("name", "synced"), [("1.json", 2), ("1.crc", 0)])
def test_a_commit_is_synced_with_its_directory_and_a_checksum_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, synced: int
):
    (tmp_path / "log").mkdir()
    sync, seen = os.fsync, []

    def watch_sync(descriptor: int) -> None:
        seen.append(descriptor)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", watch_sync)
    LocalStore(tmp_path).put_if_absent(f"log/{name}", b"x")
    assert len(seen) == synced
    assert (tmp_path / "log" / name).read_bytes() == b"x"


def test_an_existing_name_costs_no_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store, synced = LocalStore(tmp_path), []
    store.put_if_absent("log/1.json", b"x")
    monkeypatch.setattr(os, "fsync", synced.append)
    with pytest.raises(FileExistsAlreadyError):
        store.put_if_absent("log/1.json", b"y")
    assert (synced, [file.name for file in (tmp_path / "log").iterdir()]) == ([], ["1.json"])


def test_a_writer_that_waits_for_a_name_finds_it_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "log").mkdir()
    target, synced = tmp_path / "log" / "1.json", []
    monkeypatch.setattr(os, "fsync", synced.append)
    with ThreadPoolExecutor(4) as pool:
        with one_at_a_time(target):
            puts = [
                pool.submit(LocalStore(tmp_path).put_if_absent, "log/1.json", b"y")
                for _ in range(4)
            ]
            target.write_bytes(b"x")
        assert all(isinstance(put.exception(), FileExistsAlreadyError) for put in puts)
    assert (synced, target.read_bytes()) == ([], b"x")


@pytest.mark.parametrize("landed", [True, False])
@pytest.mark.parametrize(
    ("code", "expected"),
    [(errno.EIO, StorageOutcomeUnknownError), (errno.ENOSPC, StorageError)],
    ids=["lost", "refused"],
)
def test_a_link_whose_answer_was_lost_and_that_cannot_be_looked_at_is_not_known_to_have_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, expected: type, *, landed: bool
):
    """A mount of a server that goes away behaves in this way."""
    (tmp_path / "log").mkdir()
    target, link, look = tmp_path / "log" / "1.json", os.link, Path.stat

    def link_and_fail(source: Path, name: Path) -> None:
        if landed and code == errno.EIO:
            link(source, name)
        monkeypatch.setattr(Path, "stat", fail_stat)
        raise OSError(code, "the server is away")

    def fail_stat(path: Path, **keywords: bool) -> os.stat_result:
        if path == target:
            raise OSError(errno.EIO, "the server is away")
        return look(path, **keywords)

    monkeypatch.setattr(os, "link", link_and_fail)
    with pytest.raises(StorageError, match="the server is away") as failure:
        LocalStore(tmp_path).put_if_absent("log/1.json", b"x")
    assert type(failure.value) is expected


def test_a_file_system_without_hard_links_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def link(_source: Path, _name: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(StorageError, match="hard links"):
        LocalStore(tmp_path).put_if_absent("log/1.json", b"x")
    assert list((tmp_path / "log").iterdir()) == []


@pytest.mark.timeout(60)
def test_a_disk_that_never_answers_one_write_delays_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(local, "_LONGEST_WAIT_S", 0.05)
    monkeypatch.setattr(local, "_LOCKS", [threading.Lock()])  # as if all names met in one
    (tmp_path / "stuck").mkdir()
    arrived, answered, sync = threading.Event(), threading.Event(), os.fsync

    def slow(descriptor: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            arrived.set()
            assert answered.wait(50)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    with ThreadPoolExecutor(1) as pool:
        stuck = pool.submit(LocalStore(tmp_path / "stuck").put_if_absent, "log/1.json", b"x")
        assert arrived.wait(50)
        other = LocalStore(tmp_path / "other")
        other.put_if_absent("log/1.json", b"y")
        with one_at_a_time(tmp_path) as is_held:
            assert is_held, "who comes after waits for nobody"
        answered.set()
        stuck.result()
    assert other.read("log/1.json") == b"y"


def test_a_fork_does_not_wait_for_writes_of_its_parents_threads(tmp_path: Path):
    with one_at_a_time(tmp_path):
        child = os.fork()
        if not child:
            with one_at_a_time(tmp_path) as is_held:
                os._exit(0 if is_held else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_staged_files_can_be_made_durable(tmp_path: Path):
    store = LocalStore(tmp_path)
    store.put("a/b/c.parquet", b"x")
    store.make_durable(["a/b/c.parquet"])
    with pytest.raises(FileMissingError):
        store.make_durable(["a/b/none.parquet"])


def test_a_directory_that_cannot_be_written_is_a_storage_error(tmp_path: Path):
    tmp_path.chmod(0o555)
    with ordinary_user(tmp_path), pytest.raises(StorageError, match="EACCES"):
        LocalStore(tmp_path).put_if_absent("x", b"")


def test_an_overlong_name_is_a_storage_error(tmp_path: Path):
    with pytest.raises(StorageError, match="ENAMETOOLONG"):
        LocalStore(tmp_path).put_if_absent("x" * 300, b"")


def test_a_listing_is_whole_while_other_files_come_and_go(tmp_path: Path):
    store = LocalStore(tmp_path)
    stay = [f"log/{n:03}.json" for n in range(100)]
    for path in stay:
        store.put(path, b"x")
    done = threading.Event()

    def come_and_go() -> None:
        while not done.is_set():
            for n in range(50):
                (tmp_path / "log" / f"{n:03}.tmp").write_bytes(b"x")
            for n in range(50):
                (tmp_path / "log" / f"{n:03}.tmp").unlink()

    other = threading.Thread(target=come_and_go)
    other.start()
    try:
        for _ in range(300):
            listed = {file.path for file in store.list_from("log", "")}
            assert listed >= set(stay)
    finally:
        done.set()
        other.join()


def test_links_that_lead_nowhere_or_in_a_circle_are_not_listed(tmp_path: Path):
    store = LocalStore(tmp_path)
    store.put("log/a", b"x")
    (tmp_path / "log" / "b").symlink_to("b")
    (tmp_path / "log" / "c").symlink_to("nothing")
    assert [file.path for file in store.list_from("log", "")] == ["log/a"]
    assert [file.path for file in store.list_all("log")] == ["log/a"]
    assert store.stat("log/b") is None
