"""Tables written as other engines write them: read exactly, or refused by name."""

from datetime import UTC, datetime
from typing import Any

import pytest

from engine.errors import (
    EngineError,
    PathOutsideRootError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from engine.table import DeltaTable
from tests.engine.foreign.every_table import FOREIGN_TABLES, READABLE, REFUSED, UNREADABLE
from tests.engine.foreign.tables import ForeignTable
from tests.engine.log.checksums import checksum_differences
from tests.engine.made_tables import add, stage
from tests.engine.other_engines import deltalake_rows, duckdb_rows

OTHER_READERS = {"deltalake": deltalake_rows, "duckdb": duckdb_rows}
HELD = [(table, reader) for table in READABLE for reader in sorted(table.readers)]


def name_of(value: Any) -> str:
    return value.name if isinstance(value, ForeignTable) else str(value)


def plain(value: Any) -> Any:
    """Return a value in a form that all readers share."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return f"{value.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"
    if isinstance(value, dict):
        return tuple((key, plain(inner)) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return tuple(plain(inner) for inner in value)
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


def sort_rows(rows: Any) -> list[str]:
    return sorted(repr(plain(list(row.values() if isinstance(row, dict) else row))) for row in rows)


@pytest.mark.parametrize("table", READABLE, ids=name_of)
def test_every_version_has_its_rows(table: ForeignTable, tmp_path):
    opened = DeltaTable.open(str(table.make(tmp_path)))
    assert opened.version() == max(table.rows)
    for version, expected in table.rows.items():
        snapshot = opened.snapshot(version=version)
        rows = snapshot.to_arrow()
        rows.validate(full=True)
        assert rows.column_names == snapshot.schema.names
        assert sort_rows(rows.to_pylist()) == sort_rows(expected), version
        assert snapshot.row_count == len(expected)
        assert snapshot.files().num_rows == snapshot.file_count == len(snapshot.add_files())
    told = checksum_differences(opened.snapshot())
    assert bool(told) == (table.name == "a_checksum_of_another_table"), told


@pytest.mark.parametrize(("table", "reader"), HELD, ids=name_of)
def test_another_engine_reads_the_same(table: ForeignTable, reader: str, tmp_path):
    rows = OTHER_READERS[reader](str(table.make(tmp_path)))
    assert sort_rows(rows) == sort_rows(table.rows[max(table.rows)])


@pytest.mark.parametrize("table", READABLE + UNREADABLE, ids=name_of)
def test_the_history_of_a_table_ends_with_its_newest_version(table: ForeignTable, tmp_path):
    opened = DeltaTable.open(str(table.make(tmp_path)))
    versions = [info.version for info in opened.history()]
    assert versions == sorted(versions, reverse=True)
    assert all(info.timestamp is not None for info in opened.history())
    with pytest.raises(VersionNotFoundError) as caught:
        opened.snapshot(version=max(table.rows) + 1)
    assert caught.value.latest == opened.version() == max(table.rows)


@pytest.mark.parametrize("table", UNREADABLE, ids=name_of)
def test_a_log_without_its_data_is_readable_and_its_rows_are_refused(table: ForeignTable, tmp_path):
    snapshot = DeltaTable.open(str(table.make(tmp_path))).snapshot()
    assert snapshot.file_count == 1
    with pytest.raises(EngineError):
        snapshot.to_arrow()


def test_files_of_a_shallow_clone_are_read_from_an_allowed_root(tmp_path):
    root = FOREIGN_TABLES["a_file_outside_of_the_table"].make(tmp_path)
    source = str(tmp_path / "source_of_a_clone")
    with pytest.raises(PathOutsideRootError):
        DeltaTable.open(str(root)).snapshot().to_arrow()
    clone = DeltaTable.open(str(root), allowed_roots=[source])
    assert clone.snapshot().to_arrow().to_pylist() == [{"id": 1}]


@pytest.mark.parametrize("table", REFUSED, ids=name_of)
def test_a_table_that_cannot_be_read_is_refused_with_its_reason(table: ForeignTable, tmp_path):
    assert table.refusal is not None
    with pytest.raises(table.refusal):
        DeltaTable.open(str(table.make(tmp_path)))


@pytest.mark.parametrize("table", [table for table in READABLE if table.read_only], ids=name_of)
def test_a_table_that_may_only_be_read_refuses_every_write(table: ForeignTable, tmp_path):
    root = table.make(tmp_path)
    transaction = DeltaTable.open(str(root)).start_transaction()
    stage(transaction, add("x"))
    with pytest.raises(UnsupportedFeatureError) as caught:
        transaction.commit("WRITE")
    assert caught.value.features == [table.read_only]
    assert DeltaTable.open(str(root)).version() == max(table.rows)


def test_most_tables_are_read_by_another_engine_too():
    """Agreement with another engine shows that the expected rows are not only this engine's view."""
    assert len({table.name for table, _ in HELD}) > len(FOREIGN_TABLES) / 2
