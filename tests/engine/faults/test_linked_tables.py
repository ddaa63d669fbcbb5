"""A log with absolute paths is readable through every name of the table's directory."""

import os
from pathlib import Path

import pytest

from engine.commands.model import Vacuum
from engine.errors import PathOutsideRootError
from engine.operations.run import run
from engine.storage.local import LocalStore
from engine.storage.uri import resolve_log_path
from engine.table import DeltaTable
from tests.engine.made_tables import add, write_commit, write_first, write_rows


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """Return a table's directory and a link to it; the log names a file by each."""
    there, link = tmp_path / "there", tmp_path / "link"
    there.mkdir()
    link.symlink_to(there)
    store = LocalStore(there)
    write_first(store)
    write_rows(store, "a.parquet", {"id": [1]})
    write_rows(store, "b c.parquet", {"id": [2]})
    write_commit(store, 1, add(f"file:{there}/a.parquet"), add(f"file://{link}/b%20c.parquet"))
    for name in ("a.parquet", "b c.parquet"):
        os.utime(there / name, (1, 1))
    return there, link


@pytest.mark.parametrize("which", [0, 1])
def test_absolute_paths_are_found_by_either_name(places: tuple[Path, Path], which: int):
    snapshot = DeltaTable.open(str(places[which])).snapshot()
    assert sorted(snapshot.to_arrow().column("id").to_pylist()) == [1, 2]


@pytest.mark.parametrize("which", [0, 1])
def test_vacuum_spares_live_files_named_by_the_other_name(places: tuple[Path, Path], which: int):
    table = DeltaTable.open(str(places[which]))
    run(Vacuum(retention_hours=0, override_retention=True), table, None)
    assert (places[0] / "a.parquet").exists()
    assert (places[0] / "b c.parquet").exists()


def test_a_link_inside_the_table_leads_no_reader_out(places: tuple[Path, Path], tmp_path: Path):
    secret = tmp_path / "secret"
    secret.mkdir()
    (places[0] / "way-out").symlink_to(secret)
    for path in (f"{secret}/x", f"{places[1]}/way-out/x"):
        with pytest.raises(PathOutsideRootError):
            resolve_log_path(str(places[0]), path)
