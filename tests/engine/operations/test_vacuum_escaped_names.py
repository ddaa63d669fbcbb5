"""VACUUM on tables whose writers logged file names without escaping them."""

import os
from pathlib import Path
from urllib.parse import quote

import pytest

from engine.commands.model import Vacuum
from engine.operations.vacuum_plan import NeededFiles, decode_fully, find_unneeded, fold_to_listing
from engine.storage.base import FileStatus
from engine.storage.memory import MemoryStore
from engine.storage.presence import StoreListing
from engine.table import DeltaTable
from lakeui.pages.jobs.plans import plan_view

NOW = Vacuum(retention_hours=0, override_retention=True)


@pytest.fixture
def paths_as_written(do_lightly, empty_table: DeltaTable) -> tuple[Path, Path]:
    """Return a partition's file whose name on disk is escaped, and a file that no version needs."""
    do_lightly("CREATE TABLE t (id INT, p STRING) USING DELTA PARTITIONED BY (p)")
    do_lightly("INSERT INTO t VALUES (1, 'a b'), (2, 'c')")
    (add,) = (
        file for file in empty_table.snapshot().add_files() if "a" in file.partition_values["p"]
    )
    root = Path(empty_table.uri)
    decoded = decode_fully(add.path)
    escaped = root / quote(quote(decoded))
    escaped.parent.mkdir(parents=True)
    (root / _path_on_disk(root)).rename(escaped)
    orphan = root / "p=c" / "part-orphan%20.parquet"
    orphan.write_bytes(b"PAR1")
    for file in (escaped, orphan):
        os.utime(file, (1_000_000, 1_000_000))
    return escaped, orphan


def _path_on_disk(root: Path) -> Path:
    (file,) = (one for one in root.rglob("*.parquet") if "a" in one.parent.name.partition("=")[2])
    return file.relative_to(root)


def test_vacuum_leaves_a_live_file_whose_path_the_log_does_not_escape(do_lightly, paths_as_written):
    escaped, orphan = paths_as_written
    plan = do_lightly(NOW, dry_run=True).plan
    result = do_lightly(NOW)
    assert escaped.exists()
    assert not orphan.exists()
    for text in (plan.summary, result.message):
        assert "Missing from the table's directory" in text
        assert f"only in escape sequences: {escaped.parent.name}/{escaped.name}" in text
    shown = dict(plan_view(plan.as_dict()).facts)
    assert shown["Missing files"] == "".join(plan.facts["missing_files"])
    assert shown["Spared files"] == f"{escaped.parent.name}/{escaped.name}"


def test_vacuum_lite_spares_a_removed_path_that_may_be_a_live_file(do_lightly, paths_as_written):
    escaped, _ = paths_as_written
    do_lightly(Vacuum(retention_hours=0, override_retention=True, lite=True))
    assert escaped.exists()


def test_only_files_that_may_be_missing_ones_are_spared():
    live = frozenset({"p=a b/1.parquet", "p=c%20d/2.parquet", "p=e f/3.parquet"})
    spared = {"p=a%20b/1.parquet", "p=a%2520b/1.parquet", "p=c d/2.parquet", "p=c%2520d/2.parquet"}
    gone = {"p=e%20f/3.parquet", "p=a%20b/4.parquet"}
    paths = {*spared, *gone, "p=e f/3.parquet"}
    known = {path: FileStatus(path, 1, 0) for path in paths}
    listing = StoreListing(MemoryStore("memory://t"), known.keys(), known)
    needs = fold_to_listing(NeededFiles(live, frozenset()), listing)
    assert needs.missing == ("p=a b/1.parquet", "p=c%20d/2.parquet")
    assert {file.path for file in find_unneeded(listing, needs, 1, None)} == gone


def test_no_file_is_missing_that_only_the_listing_lacks():
    store = MemoryStore("memory://t")
    store.put_if_absent("linked/1.parquet", b"PAR1")
    needs = fold_to_listing(
        NeededFiles(frozenset({"linked/1.parquet"}), frozenset()), StoreListing(store, [], {})
    )
    assert needs.missing == ()
