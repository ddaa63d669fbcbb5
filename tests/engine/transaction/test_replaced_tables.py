"""A transaction never writes into a table other than the one that it read."""

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import (
    CommitOutcomeUnknownError,
    LogCleanedError,
    TableReplacedError,
    VersionNotFoundError,
)
from engine.log.paths import commit_path
from engine.log.segment import complete_checkpoints, list_log_files
from engine.snapshot.post_commit import checkpoint
from engine.snapshot.snapshot import load_snapshot
from engine.storage.local import LocalStore
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver
from tests.engine.made_tables import stage
from tests.engine.transaction.tables import SCHEMA, append, data_file, paths_of, removal_of

HOUR_MS = 3_600_000


@pytest.mark.parametrize("has_checkpoint", [False, True])
@pytest.mark.parametrize("commits", [0, 1, 2, 3, 5])
def test_a_commit_never_lands_in_a_recreated_table(tmp_path, commits, has_checkpoint):
    place = str(tmp_path / "t")
    _create_table(place, "old1", "old2")
    if has_checkpoint:
        checkpoint(DeltaTable.open(place).snapshot(), now_ms=0)
    txn = DeltaTable.open(place).start_transaction()
    stage(txn, data_file("mine"))
    shutil.rmtree(place)
    new = [f"new{number}" for number in range(commits)]
    _create_table(place, *new, later_ms=5)
    with pytest.raises(TableReplacedError, match="Nothing was written"):
        txn.commit("WRITE")
    assert paths_of(DeltaTable.open(place)) == set(new)
    assert DeltaTable.open(place).version() == commits


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_a_commit_never_lands_after_a_backup_whose_later_commits_leave_the_same_files(
    tmp_path, has_checkpoint
):
    """The difference between the logs was removed again: only the version that was read shows it."""
    place, backup = tmp_path / "t", tmp_path / "backup"
    table = _create_table(str(place), "a")
    shutil.copytree(place, backup)
    _commit_nothing(table)
    if has_checkpoint:
        checkpoint(table.snapshot(), now_ms=0)
    txn = DeltaTable.open(str(place)).start_transaction()
    txn.read_files(["a"])
    stage(txn, removal_of("a"), data_file("mine"))
    shutil.rmtree(place)
    shutil.copytree(backup, place)
    again = DeltaTable.open(str(place))
    append(again, "passing")
    removing = again.start_transaction()
    stage(removing, removal_of("passing"))
    removing.commit("DELETE")
    with pytest.raises(TableReplacedError):
        txn.commit("UPDATE")
    assert paths_of(again) == {"a"}


def test_a_commit_makes_no_table_where_one_was_deleted(tmp_path):
    table = _create_table(str(tmp_path / "t"), "a")
    txn = table.start_transaction()
    stage(txn, data_file("mine"))
    shutil.rmtree(tmp_path / "t")
    with pytest.raises(TableReplacedError):
        txn.commit("WRITE")
    assert list_log_files(table.store) == []


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_a_copy_of_the_same_table_may_have_other_file_times(tmp_path, has_checkpoint):
    table = _create_table(str(tmp_path / "t"), "a")
    if has_checkpoint:
        checkpoint(table.snapshot(), now_ms=0)
    txn = DeltaTable.open(table.uri).start_transaction()
    stage(txn, data_file("mine"))
    _shift_times(table.uri, 5)
    assert txn.commit("WRITE") == 2


def test_a_file_whose_time_has_whole_seconds_is_not_opened(tmp_path):
    """Some object stores list milliseconds, but return whole seconds for a single object."""

    class InSeconds(LocalStore):
        def stat(self, path):
            status = super().stat(path)
            return status and replace(status, modified_ms=status.modified_ms // 1000 * 1000)

        def read(self, path, *part):
            assert path != commit_path(1)
            return super().read(path, *part)

    _create_table(str(tmp_path / "t"), "a")
    table = DeltaTable(
        InSeconds(tmp_path / "t"), snapshot=load_snapshot(LocalStore(tmp_path / "t"))
    )
    assert append(table, "b") == 2


def test_a_version_of_a_checkpoint_is_not_read_on_from_in_a_recreated_table(tmp_path):
    place = str(tmp_path / "t")
    checkpoint(_create_table(place, "old1", "old2").snapshot(), now_ms=0)
    older = DeltaTable.open(place)
    shutil.rmtree(place)
    _create_table(place, "new1", "new2", "new3", later_ms=5)
    assert {add_file.path for add_file in older.snapshot().add_files()} == {"new1", "new2", "new3"}


@pytest.mark.parametrize("commits", [0, 1, 2, 3, 8])
@pytest.mark.parametrize("shift_ms", [-HOUR_MS, HOUR_MS])
def test_a_handle_does_not_read_on_into_a_recreated_table(tmp_path, shift_ms, commits):
    """The new files may be older or newer than those that were read."""
    handle = _create_table(str(tmp_path / "t"), "old1", "old2")
    assert handle.snapshot().version == 2
    new = [f"new{number}" for number in range(commits)]
    _replace(handle, _create_table(str(tmp_path / "other"), *new, later_ms=shift_ms))
    with suppress(VersionNotFoundError):
        assert {add_file.path for add_file in handle.snapshot(2).add_files()} == set(new[:2])
    assert [commit.version for commit in handle.iter_history(2)] == [commits, commits - 1][
        : commits + 1
    ]
    assert {add_file.path for add_file in handle.snapshot().add_files()} == set(new)


@pytest.mark.parametrize("shift_ms", [-HOUR_MS, HOUR_MS])
def test_a_recreated_table_stays_readable_after_commits_of_an_older_handle(tmp_path, shift_ms):
    handle = _create_table(str(tmp_path / "t"), "old1", "old2")
    handle.snapshot()
    new = [f"new{number}" for number in range(8)]
    _replace(handle, _create_table(str(tmp_path / "other"), *new, later_ms=shift_ms))
    append(handle, "x")
    append(handle, "y")  # the tenth version writes a checkpoint
    assert complete_checkpoints(list_log_files(handle.store))
    assert paths_of(handle) == {*new, "x", "y"}


@pytest.mark.parametrize("shift_ms", [-HOUR_MS, HOUR_MS])
def test_a_commit_conflicts_with_no_winner_of_a_table_with_older_or_newer_files(tmp_path, shift_ms):
    handle = _create_table(str(tmp_path / "t"), "old1", "old2")
    txn = handle.start_transaction()
    stage(txn, data_file("mine"))
    other = _create_table(
        str(tmp_path / "other"), *(f"new{number}" for number in range(8)), later_ms=shift_ms
    )
    _replace(handle, other)
    with pytest.raises(TableReplacedError, match="Nothing was written"):
        txn.commit("WRITE")
    assert DeltaTable.open(handle.uri).version() == 8


def test_a_backup_with_other_later_commits_is_another_table(tmp_path):
    """Both have the version that was read, but not the winning commit that was checked."""
    handle = _create_table(str(tmp_path / "t"), "a")
    shutil.copytree(handle.uri, tmp_path / "backup")
    backup = DeltaTable.open(str(tmp_path / "backup"))
    txn = handle.start_transaction(observer=Before(lambda: _replace(handle, backup)))
    stage(txn, data_file("mine"))
    append(DeltaTable.open(handle.uri), "winner")
    append(backup, "other way")
    with pytest.raises(TableReplacedError):
        txn.commit("WRITE")
    assert paths_of(handle) == {"a", "other way"}


def test_a_commit_that_lands_in_another_table_after_all_is_reported(tmp_path):
    """A check and a write cannot be one atomic step."""
    other = _create_table(str(tmp_path / "other"), "new1", later_ms=5)

    class Replacing(LocalStore):
        def put_if_absent(self, path, data):
            if path == commit_path(2):
                _replace(handle, other)
            super().put_if_absent(path, data)

    _create_table(str(tmp_path / "t"), "a")
    handle = DeltaTable(Replacing(tmp_path / "t"))
    txn = handle.start_transaction()
    stage(txn, data_file("mine"))
    with pytest.raises(CommitOutcomeUnknownError, match="another table"):
        txn.commit("WRITE")


@pytest.mark.parametrize("winners", [0, 2])
def test_a_version_whose_commit_was_cleaned_is_known_by_its_files(tmp_path, winners):
    handle = _create_table(str(tmp_path / "t"), "a")
    txn = handle.start_transaction()
    stage(txn, data_file("mine"))
    for number in range(winners):
        append(DeltaTable.open(handle.uri), f"winner{number}")
    checkpoint(DeltaTable.open(handle.uri).snapshot(2 if winners else 1), now_ms=0)
    handle.store.delete(commit_path(1))
    assert txn.commit("WRITE") == 2 + winners


@pytest.mark.parametrize("winners", [0, 2])
def test_another_table_whose_log_was_cleaned_is_known_by_its_files(tmp_path, winners):
    handle = _create_table(str(tmp_path / "t"), "a")
    txn = handle.start_transaction()
    stage(txn, data_file("mine"))
    other = _create_table(
        str(tmp_path / "other"), "b", *(f"c{number}" for number in range(winners))
    )
    checkpoint(other.snapshot(min(winners, 1) + 1), now_ms=0)
    other.store.delete(commit_path(1))
    other.store.delete(commit_path(0))
    _replace(handle, other)
    with pytest.raises(TableReplacedError):
        txn.commit("WRITE")


def test_a_log_cleaned_past_the_version_read_and_its_winner_is_run_again(tmp_path):
    handle = _create_table(str(tmp_path / "t"), "a")

    def clean():
        newer = DeltaTable.open(handle.uri)
        append(newer, "b")
        checkpoint(newer.snapshot(), now_ms=0)
        for version in (0, 1, 2):
            handle.store.delete(commit_path(version))

    txn = handle.start_transaction(observer=Before(clean))
    stage(txn, data_file("mine"))
    append(DeltaTable.open(handle.uri), "winner")
    with pytest.raises(LogCleanedError, match="Nothing was written"):
        txn.commit("WRITE")


def test_no_checkpoint_is_written_into_another_table(tmp_path):
    handle = _create_table(str(tmp_path / "t"), "old1", "old2")
    snapshot = handle.snapshot()
    other = _create_table(str(tmp_path / "other"), "new1", "new2", "new3", later_ms=-HOUR_MS)
    checkpoint(other.snapshot(2), now_ms=0)
    for version in (0, 1):
        other.store.delete(commit_path(version))
    _replace(handle, other)
    with pytest.raises(TableReplacedError):
        checkpoint(snapshot, now_ms=0)
    assert paths_of(handle) == {"new1", "new2", "new3"}


def test_a_checkpoint_written_while_the_table_is_replaced_is_removed_again(tmp_path):
    other = _create_table(str(tmp_path / "other"), "new1", "new2", "new3", later_ms=-HOUR_MS)

    class Replacing(LocalStore):
        def put(self, path, data):
            if "checkpoint.parquet" in path:
                _replace(handle, other)
            super().put(path, data)

    _create_table(str(tmp_path / "t"), "old1", "old2")
    handle = DeltaTable(Replacing(tmp_path / "t"))
    with pytest.raises(TableReplacedError):
        checkpoint(handle.snapshot(), now_ms=0)
    assert paths_of(handle) == {"new1", "new2", "new3"}


def test_a_compaction_of_the_commits_of_two_tables_is_removed_again(tmp_path):
    other = _create_table(str(tmp_path / "other"), *(f"new{number}" for number in range(6)))

    class Replacing(LocalStore):
        def put_if_absent(self, path, data):
            if "compacted" in path:
                _replace(handle, other)
            super().put_if_absent(path, data)

    _create_table(str(tmp_path / "t"), "a", "b", properties={"delta.logCompactionInterval": "3"})
    handle = DeltaTable(Replacing(tmp_path / "t"))
    append(handle, "c")
    assert not [file for file in handle.store.list_all("_delta_log") if "compact" in file.name]
    assert paths_of(handle) == {f"new{number}" for number in range(6)}


def test_a_history_is_of_one_table_only(tmp_path):
    handle = _create_table(str(tmp_path / "t"), *(f"old{number}" for number in range(40)))
    history = handle.iter_history()
    ids = [next(history).txn_id]
    _replace(
        handle, _create_table(str(tmp_path / "other"), *(f"new{number}" for number in range(40)))
    )
    with pytest.raises(TableReplacedError):
        ids += [commit.txn_id for commit in history]
    new = {commit.txn_id for commit in DeltaTable.open(handle.uri).iter_history()}
    assert not new & set(ids)


def test_a_table_whose_files_were_all_touched_is_read_on(tmp_path):
    """A copy changes file times, and some file systems report other numbers; the commit's content decides."""
    handle = _create_table(str(tmp_path / "t"), "a")
    snapshot = handle.snapshot()
    _shift_times(handle.uri, HOUR_MS)
    assert handle.snapshot() is snapshot
    assert handle.snapshot(1) is snapshot
    append(DeltaTable.open(handle.uri), "b")
    assert {add_file.path for add_file in handle.snapshot().add_files()} == {"a", "b"}


class Before(TransactionObserver):
    """An observer that acts once, before the commit."""

    def __init__(self, act):
        self._act = act

    def before_commit(self, _txn, _attempt_version):
        act, self._act = self._act, None
        if act is not None:
            act()


def _replace(table: DeltaTable, other: DeltaTable) -> None:
    shutil.rmtree(table.uri)
    shutil.move(other.uri, table.uri)


def _commit_nothing(table: DeltaTable) -> None:
    table.start_transaction().commit("OPTIMIZE", even_if_empty=True)


def _create_table(
    place: str, *names: str, later_ms: int = 0, properties: Mapping[str, str] | None = None
) -> DeltaTable:
    table = DeltaTable.create(place, SCHEMA, properties=properties)
    for name in names:
        append(table, name)
    _shift_times(place, later_ms)
    return table


def _shift_times(place: str, by_ms: int) -> None:
    """Shift file times: files here may be written within one millisecond, but two tables never are."""
    for file in Path(place, "_delta_log").iterdir():
        ns = file.stat().st_mtime_ns + by_ms * 10**6
        os.utime(file, ns=(ns, ns))
