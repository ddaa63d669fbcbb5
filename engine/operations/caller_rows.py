"""Rows from the calling program: Arrow, pandas or polars, under a name used by a statement."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import pyarrow as pa

from engine.commands.command import Command
from engine.commands.names import table_sql
from engine.commands.sources import ArrowSource, TableSource
from engine.errors import CannotEvaluateError, RequestError
from engine.expressions.tree import Column
from engine.operations.arrow_rows import evaluate_as
from engine.schema.arrow import from_arrow_type, to_arrow_type
from engine.schema.assignment import plan_storage
from engine.schema.types import ArrayType, MapType, StructField, StructType
from engine.schema.write_errors import ColumnCountError
from engine.spark.write.shape import check_assignable


def bind_sources(command: Command, sources: Mapping[str, Any]) -> Command:
    """Replace the command's source by the program's rows of the same name, if any.

    Raises:
        RequestError: the statement takes only part of the rows; or the value is no table of rows,
            or has a column of an unsupported type.
    """
    given = {name.lower(): rows for name, rows in sources.items()}
    hidden = next((name for name in sources if command.is_own_name(name)), None)
    if hidden is not None and command.names_itself:
        msg = (
            f"{hidden} is the statement's target table, but rows of the program have the same name."
        )
        raise RequestError(msg, "Rename the rows.", field="sources")
    named = [name for name in command.tables_read() if name.lower() in given]
    if not named:
        return command
    source = getattr(command, "source", None)
    if not isinstance(source, TableSource) or len(named) > 1:
        raise _whole_alone(named[0])
    if source != TableSource(named[0], by_position=source.by_position):
        raise _whole_alone(named[0])
    rows = _convert_to_arrow(source.table, given[source.table.lower()])
    own = ArrowSource(rows, source.table, source.by_position)
    changed: Command = replace(command, source=own)  # type: ignore[call-arg] # it has a source
    return changed


def _whole_alone(name: str) -> RequestError:
    msg = f"The rows {name} come from the calling program and can only be read as a whole."
    remedy = (
        f"Filter and compute them first, then write USING {name}, TABLE {name} or SELECT * of it."
    )
    return RequestError(msg, remedy, field="sources")


def convert_rows(
    source: ArrowSource, target_schema: StructType | None, *, stored: bool, takes_more: bool = False
) -> tuple[pa.Table, StructType]:
    """Convert the rows to the engine's Arrow types; return them with their columns.

    Args:
        source: the rows.
        target_schema: the columns of the target table.
        stored: whether to cast the rows to these columns; a MERGE compares them first.
        takes_more: whether the rows may have extra columns by position.

    Raises:
        SchemaMismatchError: a column is not assignable to the table.
        CannotEvaluateError: only Spark can cast them.
    """
    rows = source.rows
    if source.by_position and target_schema is not None:
        names = names_by_position(target_schema, rows.column_names, takes_more=takes_more)
        rows = rows.rename_columns(names)
    schema = StructType(tuple(StructField(f.name, from_arrow_type(f.type)) for f in rows.schema))
    if not stored or target_schema is None:
        return rows, schema
    check_assignable(target_schema, schema)
    columns = {
        column.name: _cast_column(rows, mine, column)
        for mine in schema
        if (column := target_schema.get(mine.name)) is not None
    }
    fields = (StructField(name, from_arrow_type(kept.type)) for name, kept in columns.items())
    return pa.table(columns), StructType(tuple(fields))


def names_by_position(
    target_schema: StructType, names: Sequence[str], *, takes_more: bool
) -> list[str]:
    """Name columns after the table's columns at the same positions.

    Raises:
        ColumnCountError: there are more or fewer columns than the table has.
    """
    width, expected = len(names), len(target_schema)
    if width < expected or (width > expected and not takes_more):
        missing = ", ".join(target_schema.names[width:][:20])
        lacking = f": there is no value for {missing}" if missing else ""
        msg = f"INSERT by position has {width} columns, but the table has {expected}{lacking}."
        remedy = "List the columns after the table name, or use BY NAME."
        raise ColumnCountError(msg, remedy, field="source")
    return [*target_schema.names, *names[expected:]]


def _cast_column(rows: pa.Table, mine: StructField, column: StructField) -> pa.ChunkedArray:
    plan_storage(mine.type, column.type, column.name)
    if mine.type == column.type:
        return rows.column(mine.name)
    if isinstance(column.type, StructType | ArrayType | MapType):
        msg = f"{column.name} is a struct, array or map whose type differs from the table's."
        raise CannotEvaluateError(msg)
    values = evaluate_as(column.type, Column((mine.name,), mine.type), rows)
    return values.cast(to_arrow_type(column.type))


def _convert_to_arrow(name: str, given: object) -> pa.Table:
    """Convert rows to table types: no dictionaries, no unsigned numbers, times in microseconds."""
    try:
        rows = _table(given)
        rows.validate(full=True)
    except (pa.ArrowException, TypeError, ValueError, AttributeError) as error:
        msg = f"The rows {table_sql(name)} are not a table: {str(error)[:300]}."
        remedy = "Pass a pyarrow.Table, a DataFrame of pandas or polars, or a list of dictionaries."
        raise RequestError(msg, remedy, field="sources") from error
    lowered = [column.lower() for column in rows.column_names]
    if not lowered:
        msg = f"The rows {table_sql(name)} have no columns."
        remedy = "An empty list has no column names. Pass a pyarrow.Table with columns and no rows."
        raise RequestError(msg, remedy, field="sources")
    repeated = next((one for one in rows.column_names if lowered.count(one.lower()) > 1), None)
    if repeated is not None:
        msg = f"The rows {table_sql(name)} have two columns called {repeated}."
        raise RequestError(msg, "List each column once.", field="sources")
    columns = {one: _convert_column(name, one, rows.column(one)) for one in rows.column_names}
    return pa.table(columns)


def _table(given: object) -> pa.Table:
    """Return the rows without the unnamed index columns of a pandas DataFrame."""
    if isinstance(given, pa.Table):
        return given
    rows = pa.table(_columns(given) if isinstance(given, list) else given)
    about = rows.schema.pandas_metadata or {"columns": (), "index_columns": ()}
    unnamed = [one["field_name"] for one in about["columns"] if one["name"] is None]
    return rows.drop_columns([name for name in unnamed if name in about["index_columns"]])


def _columns(rows: list[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the values by column, in order of first appearance; missing values are null."""
    names = dict.fromkeys(chain.from_iterable(row.keys() for row in rows))
    return {name: [row.get(name) for row in rows] for name in names}


def _convert_column(name: str, column: str, values: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = to_arrow_type(from_arrow_type(values.type))
    try:
        return values if values.type == kind else values.cast(kind)
    except pa.ArrowException as error:
        msg = (
            f"The column {column} of the rows {table_sql(name)} does not fit {kind}: "
            f"{str(error)[:300]}."
        )
        raise RequestError(msg, "Cast it first.", field="sources") from error
