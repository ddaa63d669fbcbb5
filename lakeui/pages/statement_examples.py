"""Statements to begin with, in the words of one table: its name, its columns, what it is set to."""

from collections.abc import Iterator
from typing import Any

from engine.commands.names import name_sql, table_sql
from lakeui.catalog.models import Table

_LITERALS = {
    "string": "'…'",
    "boolean": "true",
    "date": "DATE '2026-11-20'",
    "timestamp": "TIMESTAMP '2026-11-20 00:00:00'",
    "byte": "1",
    "short": "1",
    "integer": "1",
    "long": "1",
    "float": "0.5",
    "double": "0.5",
}


def examples_for(table: Table) -> list[str]:
    """Each would be understood of the table as it is; values are to be put in."""
    return [*_of_rows(table), *_of_shape(table)]


def _of_rows(table: Table) -> Iterator[str]:
    name, columns = table_sql(table.name), list(_columns(table))
    if not columns:
        return
    key, value = columns[0]
    yield f"DELETE FROM {name} WHERE {key} = {value}"  # noqa: S608 - shown
    changed = next((each for each in columns[1:] if each[0] not in _laid_out_by(table)), None)
    if changed:
        yield f"UPDATE {name} SET {changed[0]} = {changed[1]} WHERE {key} = {value}"  # noqa: S608 - shown
    yield (
        f"MERGE INTO {name} AS t USING staging AS s ON t.{key} = s.{key} "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def _of_shape(table: Table) -> Iterator[str]:
    name = table_sql(table.name)
    first = next((key for key, _ in _columns(table) if key not in _laid_out_by(table)), None)
    by_key = f" ZORDER BY ({first})" if first and not table.clustering_columns else ""
    yield f"OPTIMIZE {name}{by_key}"
    if table.deletion_vectors:
        yield f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.targetFileSize' = '128mb')"
    else:
        yield f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    if table.version:
        yield f"RESTORE TABLE {name} TO VERSION AS OF {table.version - 1}"
    yield f"VACUUM {name} RETAIN 168 HOURS DRY RUN"


def _columns(table: Table) -> Iterator[tuple[str, str]]:
    """The columns at the top that a literal can be compared with, each with one of its type."""
    fields: list[dict[str, Any]] = table.schema.get("fields", []) if table.schema else []
    for field in fields:
        kind = field.get("type")
        literal = _LITERALS.get(kind) if isinstance(kind, str) else None
        if isinstance(kind, str) and kind.startswith("decimal"):
            literal = "1"
        if literal:
            yield name_sql(str(field.get("name"))), literal


def _laid_out_by(table: Table) -> set[str]:
    return {name_sql(str(each)) for each in (*table.partition_columns, *table.clustering_columns)}
