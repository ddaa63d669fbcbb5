"""VACUUM on a disk that ignores the case of names, as those of macOS and Windows do."""

from pathlib import Path

import pytest

from engine.commands.model import Vacuum
from engine.operations.vacuum_plan import NeededFiles
from engine.storage.local import LocalStore
from engine.table import DeltaTable

NOW = Vacuum(retention_hours=0, override_retention=True)


class FoldingStore(LocalStore):
    """A store that finds a name in any case, and lists it in the case in which it was created."""

    def locate(self, path):
        place = Path(self.root)
        for part in super().locate(path).removeprefix(f"{self.root}/").split("/"):
            names = [entry.name for entry in place.iterdir()] if place.is_dir() else []
            same = [name for name in names if name.casefold() == part.casefold()]
            place /= part if part in names or not same else same[0]
        return str(place)


@pytest.fixture
def partition_table(do_lightly, empty_table):
    """Return a table with an updated row in each of the partitions a and A, all in the directory created first."""
    do_lightly(
        "CREATE TABLE t (id INT, p STRING) USING DELTA PARTITIONED BY (p)"
        " TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')"
    )
    do_lightly("INSERT INTO t VALUES (1, 'a'), (2, 'A')")
    do_lightly("INSERT INTO t VALUES (3, 'A')")
    do_lightly("UPDATE t SET id = 30 WHERE id = 3")
    root = Path(empty_table.uri)
    for file in (root / "p=A").iterdir():
        file.rename(root / "p=a" / file.name)
    (root / "p=A").rmdir()
    return empty_table


def test_live_files_stay_under_whichever_case_they_are_listed(do_lightly, partition_table):
    removed = partition_table.history(1)[0].operation_metrics["numRemovedFiles"]
    table = DeltaTable(FoldingStore(partition_table.uri))
    live = {file.path.rpartition("/")[2] for file in table.snapshot().add_files()}
    result = do_lightly(NOW, table=table)
    left = {file.name for file in Path(partition_table.uri).rglob("*.parquet")}
    assert left == live
    assert int(removed) == result.metrics["numDeletedFiles"] == 1


def test_a_file_that_a_commit_brings_back_meanwhile_stays(do_lightly, partition_table):
    table = DeltaTable(FoldingStore(partition_table.uri))
    live = {file.path for file in table.snapshot().add_files()}
    (old,) = (file for file in table.snapshot(2).add_files() if file.path not in live)

    def bring_back(progress):
        if progress.stage == "delete files":
            txn = DeltaTable(table.store).start_transaction()
            txn.stage(old)
            txn.commit("RESTORE")

    do_lightly(NOW, table=table, progress=bring_back)
    assert table.store.stat(old.path) is not None


def test_live_files_stay_where_a_disk_writes_accents_its_own_way(do_lightly, empty_table):
    do_lightly("CREATE TABLE t (id INT, p STRING) USING DELTA PARTITIONED BY (p)")
    do_lightly("INSERT INTO t VALUES (1, '\u00e9'), (2, 'b')")
    root = Path(empty_table.uri)
    (root / "p=\u00e9").rename(root / "p=e\u0301")
    there = sorted(root.rglob("*.parquet"))
    result = do_lightly(NOW)
    assert sorted(root.rglob("*.parquet")) == there
    assert "nothing was deleted" in result.message


def test_letters_that_are_written_in_two_ways_are_one_name():
    needs = NeededFiles(frozenset({"p=É/1.parquet"}), frozenset()).fold_names()
    assert needs.has("p=é/1.PARQUET")
    assert needs.has("p=e\u0301/1.parquet")
    assert not needs.has("p=e/1.parquet")
