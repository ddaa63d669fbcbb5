"""Tables as other engines read them, which the product is held to."""

from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_delta
import pyarrow as pa
from deltalake import DeltaTable as OtherTable
from deltalake import QueryBuilder


def deltalake_rows(uri: str) -> list[dict[str, Any]]:
    """The rows as delta-rs reads them."""
    reader = QueryBuilder().register("t", OtherTable(uri)).execute("SELECT * FROM t").read_all()
    return pa.table(reader).to_pylist()


def duckdb_rows(uri: str) -> list[dict[str, Any]]:
    """The rows as duckdb reads them, by its own delta extension."""
    root = Path(duckdb_extension_delta.__file__).parent
    extension = next(root.glob("extensions/*/delta.duckdb_extension"))
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        connection.execute(f"LOAD '{extension}'")
        cursor = connection.execute("SELECT * FROM delta_scan(?)", [uri])
        names = [column[0] for column in cursor.description or []]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
