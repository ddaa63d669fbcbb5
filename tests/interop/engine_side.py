"""This engine, driven by JSON lines like delta-spark: a phase of the sweep, in a process of its own.

Besides its own reading of a table it tells what deltalake and duckdb read.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_delta
import pyarrow as pa
from deltalake import DeltaTable as RustTable
from deltalake import QueryBuilder
from pyspark.sql.types import VariantVal

from engine.commands.model import Create, Vacuum
from engine.commands.sql import parse_statement
from engine.errors import EngineError
from engine.operations.run import run
from engine.schema.types import PrimitiveType, StructType
from engine.spark.session import build_session
from engine.storage.uri import open_store
from engine.table import DeltaTable
from tests.interop.rows import THREADS, Pairs, canonical_rows

_DUCKDB_DELTA = next(
    Path(duckdb_extension_delta.__file__).parent.glob("extensions/*/*.duckdb_extension")
)
_CHEAP = {  # many statements over few rows: compiling costs more than it saves
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
}


class Engine:
    """The engine and its Spark."""

    def __init__(self) -> None:
        self._spark = build_session("interop", master="local[2]", settings=_CHEAP)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Read, run the statements, read again, and let others read; errors are part of the answer."""
        place = request["table"]
        said: dict[str, Any] = {"case": request["case"]}
        if request["read_before"]:
            said["before"] = _attempt(lambda: _read(place))
        said["steps"] = []
        for statement in request["statements"]:
            outcome = _attempt(lambda sql=statement: self._do(sql, place))
            said["steps"].append({"statement": str(statement), **outcome})
        said["after"] = _attempt(lambda: _read(place))
        if "ok" in said["after"]:
            said["readers"] = {
                name: _attempt(lambda reader=read: reader(place)) for name, read in _READERS.items()
            }
        return said

    def _do(self, statement: str | dict[str, Any], place: str) -> str:
        if isinstance(statement, dict):
            statement = _insert_from_file(statement["json_rows"], place)
        command = parse_statement(statement.replace("{t}", "t").replace("{path}", place))
        if isinstance(command, Create):
            table = DeltaTable(open_store(place))
        else:
            table = _open(place)
        if isinstance(command, Vacuum):
            command = Vacuum(retention_hours=command.retention_hours, override_retention=True)
        result = run(command, table, self._spark)
        return f"version {result.version}"

    def stop(self) -> None:
        """End the session."""
        self._spark.stop()


def _insert_from_file(rows: list[dict[str, Any]], place: str) -> str:
    file = Path(f"{place}.json")
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return f"INSERT INTO {{t}} BY NAME SELECT * FROM read_files('{file}', format => 'json')"  # noqa: S608


def _open(place: str) -> DeltaTable:
    """Open a table; a clone's files lie beside it."""
    return DeltaTable.open(place, allowed_roots=[str(Path(place).parent)])


def _read(place: str) -> list[str]:
    snapshot = _open(place).snapshot()
    return arrow_rows(snapshot.to_arrow(), snapshot.schema)


def _read_with_deltalake(place: str) -> list[str]:
    table = RustTable(place)
    rows = pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all())
    return arrow_rows(rows, None)


def _read_with_duckdb(place: str) -> list[str]:
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        connection.load_extension(str(_DUCKDB_DELTA))
        connection.execute("SET timezone = 'UTC'")
        rows = connection.execute("SELECT * FROM delta_scan($1)", [place]).to_arrow_table()
    return arrow_rows(rows, None)


_READERS: dict[str, Callable[[str], list[str]]] = {
    "deltalake": _read_with_deltalake,
    "duckdb": _read_with_duckdb,
}


def arrow_rows(table: pa.Table, schema: StructType | None) -> list[str]:
    """Return the rows of an Arrow table as both sides write them."""
    columns = []
    for field, column in zip(table.schema, table.columns, strict=True):
        logical = schema.get(field.name) if schema is not None else None
        variant = logical is not None and logical.type == PrimitiveType("variant")
        values = column.to_pylist()
        columns.append(
            [_variant(value) if variant else _plain(value, field.type) for value in values]
        )
    return canonical_rows(zip(*columns, strict=True))


def _variant(value: dict[str, bytes] | None) -> Any:
    return None if value is None else VariantVal(value["value"], value["metadata"])


def _plain(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return [_plain(value[field.name], field.type) for field in kind]
    if pa.types.is_map(kind):
        return Pairs(
            (_plain(key, kind.key_type), _plain(item, kind.item_type)) for key, item in value
        )
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_plain(item, kind.value_type) for item in value]
    return value


def _attempt(action: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"ok": action()}
    except EngineError as error:
        return {"error": f"{type(error).__name__}: {str(error)[:600]}"}
    except Exception as error:  # noqa: BLE001 - whatever it is goes back to the sweep
        return {"error": f"{type(error).__name__}: {str(error)[:600]}", "unexpected": True}


def main(requests: Iterable[str], answers: Any) -> None:
    """Answer requests until there are no more."""
    engine = Engine()
    print(json.dumps({"duckdb": duckdb.__version__}), file=answers, flush=True)
    with ThreadPoolExecutor(THREADS) as pool:
        for answered in pool.map(lambda line: engine.answer(json.loads(line)), requests):
            print(json.dumps(answered), file=answers, flush=True)
    engine.stop()


if __name__ == "__main__":
    own = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # Java's chatter goes to the log, answers have a stream of their own
    main(sys.stdin, own)
