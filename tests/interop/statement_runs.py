"""A statement of `statement_cases` run by this engine."""

from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from engine.commands.sql import parse_statement
from engine.errors import EngineError
from engine.operations.run import run
from engine.operations.run_options import RunOptions
from engine.snapshot.conform import target_type
from engine.storage.uri import open_store
from engine.table import DeltaTable
from tests.engine.made_tables import write_rows
from tests.interop.engine_side import arrow_rows
from tests.interop.statement_cases import Rows, Statement

NEEDS_SPARK = "needs Spark"


def create_table(place: Path, columns: str, rows: Rows, properties: str = "") -> DeltaTable:
    """Create a table with rows, without Spark."""
    table = DeltaTable(open_store(str(place)))
    more = f", {properties}" if properties else ""
    layout = f"TBLPROPERTIES ('delta.enableDeletionVectors' = 'true'{more})"
    run(parse_statement(f"CREATE TABLE t ({columns}) USING DELTA {layout}"), table, None)
    if rows:
        schema = table.snapshot().schema
        arrays = [
            pa.array(values, target_type(field.type))
            for field, values in zip(schema, zip(*rows, strict=True), strict=True)
        ]
        txn = table.start_transaction()
        file = pa.Table.from_arrays(arrays, names=schema.names)
        txn.stage(write_rows(table.store, "rows.parquet", file))
        txn.commit("WRITE")
    return table


def outcome(statement: Statement, place: Path, spark: SparkSession | None, limit: int) -> object:
    """Return the table's rows after a statement as lines, or the code of its error."""
    table = create_table(place / "t", statement.table, statement.rows, statement.properties)
    source = create_table(place / "s", statement.source or "id INT", statement.source_rows)
    tables = {"t": table, "s": source}
    options = RunOptions(resolve=tables.__getitem__, in_process_bytes=limit)
    before = table.version()
    try:
        run(parse_statement(statement.text.format(t="t", s="s")), table, spark, options)
    except EngineError as error:
        assert table.version() == before
        assert {path.name for path in (place / "t").glob("*.parquet")} <= {"rows.parquet"}
        return NEEDS_SPARK if spark is None and NEEDS_SPARK in error.what else error.code
    snapshot = table.snapshot()
    return tuple(arrow_rows(snapshot.to_arrow(), snapshot.schema))
