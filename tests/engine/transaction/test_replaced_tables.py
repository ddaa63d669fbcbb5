"""A transaction never writes into another table than the one it read."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import TableReplacedError
from engine.log.paths import commit_path
from engine.log.segment import list_log_files
from engine.snapshot.snapshot import load_snapshot
from engine.snapshot.upkeep import checkpoint
from engine.storage.local import LocalStore
from engine.table import DeltaTable
from tests.engine.transaction.tables import SCHEMA, append, data_file, paths_of


@pytest.mark.parametrize("has_checkpoint", [False, True])
@pytest.mark.parametrize("commits", [0, 1, 2, 3, 5])
def test_a_commit_never_lands_in_a_table_that_was_made_anew(tmp_path, commits, has_checkpoint):
    place = str(tmp_path / "t")
    _made(place, "old1", "old2")
    if has_checkpoint:
        checkpoint(DeltaTable.open(place).snapshot(), now_ms=0)
    txn = DeltaTable.open(place).start_transaction()
    txn.stage(data_file("mine"))
    shutil.rmtree(place)
    new = [f"new{each}" for each in range(commits)]
    _made(place, *new, later_ms=5)
    with pytest.raises(TableReplacedError, match="Nothing was written"):
        txn.commit("WRITE")
    assert paths_of(DeltaTable.open(place)) == set(new)
    assert DeltaTable.open(place).version() == commits


def test_a_commit_makes_no_table_where_one_was_deleted(tmp_path):
    table = _made(str(tmp_path / "t"), "a")
    txn = table.start_transaction()
    txn.stage(data_file("mine"))
    shutil.rmtree(tmp_path / "t")
    with pytest.raises(TableReplacedError):
        txn.commit("WRITE")
    assert list_log_files(table.store) == []


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_a_copy_of_the_same_table_may_have_other_file_times(tmp_path, has_checkpoint):
    table = _made(str(tmp_path / "t"), "a")
    if has_checkpoint:
        checkpoint(table.snapshot(), now_ms=0)
    txn = DeltaTable.open(table.uri).start_transaction()
    txn.stage(data_file("mine"))
    _shift_times(table.uri, 5)
    assert txn.commit("WRITE") == 2


def test_a_file_whose_time_is_told_in_whole_seconds_is_not_looked_into(tmp_path):
    """Some object stores list milliseconds and answer for one object in seconds."""

    class InSeconds(LocalStore):
        def stat(self, path):
            found = super().stat(path)
            return found and replace(found, modified_ms=found.modified_ms // 1000 * 1000)

        def read(self, path, *part):
            assert path != commit_path(1)
            return super().read(path, *part)

    _made(str(tmp_path / "t"), "a")
    table = DeltaTable(
        InSeconds(tmp_path / "t"), snapshot=load_snapshot(LocalStore(tmp_path / "t"))
    )
    assert append(table, "b") == 2


def test_a_version_of_a_checkpoint_is_not_read_on_from_in_a_table_made_anew(tmp_path):
    place = str(tmp_path / "t")
    checkpoint(_made(place, "old1", "old2").snapshot(), now_ms=0)
    known = DeltaTable.open(place)
    shutil.rmtree(place)
    _made(place, "new1", "new2", "new3", later_ms=5)
    assert {each.path for each in known.snapshot().add_files()} == {"new1", "new2", "new3"}


def _made(place: str, *names: str, later_ms: int = 0) -> DeltaTable:
    table = DeltaTable.create(place, SCHEMA)
    for each in names:
        append(table, each)
    _shift_times(place, later_ms)
    return table


def _shift_times(place: str, by_ms: int) -> None:
    """Files may be written within one millisecond here; two tables never are."""
    for each in Path(place, "_delta_log").iterdir():
        ns = each.stat().st_mtime_ns + by_ms * 10**6
        os.utime(each, ns=(ns, ns))
