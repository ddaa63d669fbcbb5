"""INSERT INTO … REPLACE USING and REPLACE ON: the new rows select the rows they replace."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.commands.command import check_columns
from engine.commands.names import column_list, name_sql, quote_name
from engine.commands.sources import (
    ArrowSource,
    DataFrameSource,
    FileSource,
    RowsSource,
    Source,
    TableSource,
)
from engine.errors import RequestError
from engine.schema.column_paths import column_path
from engine.schema.types import StructType

TARGET = "__lake_table"
"""The table's name in conditions rendered here."""
_SOURCE = "__lake_new_rows"
_FEW = 1000


@dataclass(frozen=True)
class ReplaceClause:
    """The rows an overwrite replaces: by columns (`using`), or by a condition."""

    source: Source
    using: tuple[str, ...]
    on: str | None
    alias: str
    source_alias: str


def check_matched(source: Source, using: tuple[str, ...], schema: StructType | None) -> None:
    """Refuse sources readable only once, and unknown columns.

    Raises:
        RequestError: names the source or column.
    """
    if isinstance(source, FileSource | DataFrameSource | ArrowSource):
        what = "REPLACE USING and REPLACE ON do not read files or rows of the program."
        raise RequestError(what, "Write the rows to a table first.", field="source")
    check_columns(using, schema, "replace_using")


def match_condition(replacing: ReplaceClause, columns: Sequence[str]) -> str:
    """Return a condition for the rows of the table a new row replaces.

    A few literal rows are compared one by one, which suits statistics and row-level resolution; any
    other source becomes a subquery. `columns` are the target columns of the source's columns, in
    order; empty if it has names of its own.
    """
    source, using = replacing.source, replacing.using
    if using and isinstance(source, RowsSource) and len(source.rows) * len(using) <= _FEW:
        return _row_by_row(source, using, [name.lower() for name in columns])
    alias = replacing.source_alias or _name_of(source)
    listed = f" ({', '.join(map(quote_name, columns))})" if columns else ""
    rows = f"({source.sql()}) AS {quote_name(alias)}{listed}"
    if replacing.on:
        test = replacing.on
    else:
        paths = [".".join(map(quote_name, column_path(name))) for name in using]
        test = " AND ".join(
            f"{quote_name(alias)}.{path} = {quote_name(TARGET)}.{path}" for path in paths
        )
    return f"EXISTS (SELECT 1 FROM {rows} WHERE {test})"  # noqa: S608 - parsed again by the engine


def _row_by_row(source: RowsSource, using: Sequence[str], names: Sequence[str]) -> str:
    places = [names.index(column_path(name)[-1].lower()) for name in using]
    tests = (
        " AND ".join(f"{name} = ({row[at]})" for name, at in zip(using, places, strict=True))
        for row in source.rows
    )
    return " OR ".join(f"({test})" for test in dict.fromkeys(tests))


def _name_of(source: Source) -> str:
    if isinstance(source, TableSource):
        return source.alias or source.table.rpartition(".")[2].rpartition("/")[2]
    return _SOURCE


def render_replace(replacing: ReplaceClause, into: str) -> str:
    """Render the statement; `into` is the text between INSERT and REPLACE, with a leading space."""
    if replacing.using:
        using = column_list(replacing.using)
        return f"INSERT{into} REPLACE USING {using} {replacing.source.sql()}"
    rows = replacing.source.sql()
    if replacing.source_alias:
        rows = f"({rows}) AS {name_sql(replacing.source_alias)}"
    return f"INSERT{into} REPLACE ON {replacing.on} {rows}"
