"""A table's rows as Iceberg clients read them: pyiceberg and duckdb, from the metadata alone."""

from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
from pyiceberg.table import StaticTable

_EXTENSIONS = ((duckdb_extension_avro, "avro"), (duckdb_extension_iceberg, "iceberg"))


def static_table(root: str) -> StaticTable:
    """Return the table at the version in the hint file."""
    hint = Path(root, "metadata/version-hint.text").read_text()
    return StaticTable.from_metadata(f"file://{root}/metadata/v{hint}.metadata.json")


def pyiceberg_rows(root: str, **scan: Any) -> list[dict[str, Any]]:
    """Return the rows that pyiceberg reads."""
    return static_table(root).scan(**scan).to_arrow().to_pylist()


def duckdb_rows(root: str) -> list[dict[str, Any]]:
    """Return the rows that duckdb's Iceberg reader reads."""
    cursor = _duckdb().execute("SELECT * FROM iceberg_scan(?)", [root])
    names = [column[0] for column in cursor.description or []]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


@cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    """Return a connection for all tests, because its extensions take a while to load."""
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute("SET TimeZone = 'UTC'")
    for package, name in _EXTENSIONS:
        root = Path(str(package.__file__)).parent
        connection.execute(f"LOAD '{next(root.glob(f'extensions/*/{name}.duckdb_extension'))}'")
    return connection


def read_with_all_clients(table: Any, key: str = "id") -> list[dict[str, Any]]:
    """Return the rows, after checking that the engine and both clients agree."""
    ours = sorted(table.snapshot().to_arrow().to_pylist(), key=lambda row: row[key])
    for read in (pyiceberg_rows, duckdb_rows):
        theirs = sorted(read(table.uri), key=lambda row: row[key])
        assert [_plain(row) for row in theirs] == [_plain(row) for row in ours], read.__name__
    return ours


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _value(value) for name, value in row.items()}


def _value(value: Any) -> Any:
    if isinstance(value, list | tuple) and all(isinstance(e, tuple) for e in value) and value:
        return {key: _value(item) for key, item in value}
    if isinstance(value, list):
        return [_value(item) for item in value]
    if isinstance(value, dict):
        return {key: _value(item) for key, item in value.items()}
    return bytes(value) if isinstance(value, memoryview | bytearray) else value
