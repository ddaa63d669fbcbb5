"""Which columns of an earlier version go on in a later one that replaced it.

A column goes on where files call it as before, or else where people do: a table that is replaced
gives its columns other names in files, and may have other partitions.
"""

from dataclasses import replace

from engine.errors import RequestError
from engine.schema.column_mapping import physical_name
from engine.schema.types import DecimalType, PrimitiveType, StructField
from engine.snapshot.conform import target_type
from engine.snapshot.snapshot import Snapshot


def continued_columns(before: Snapshot, after: Snapshot) -> dict[str, StructField]:
    """By the name of a later column, the one that files of the earlier version hold it as.

    Raises:
        RequestError: a nested column has other parts now, and nobody can say which were which.
    """
    by_file = {physical_name(old, before.mapping_mode): old for old in before.schema}
    taken: dict[str, StructField] = {}
    for column in after.schema:
        same = by_file.pop(physical_name(column, after.mapping_mode), None)
        if same is not None:
            taken[column.name] = same
    by_name = {old.name.lower(): old for old in by_file.values()}
    for column in after.schema:
        called = by_name.get(column.name.lower())
        if column.name not in taken and called is not None:
            taken[column.name] = called
    return {
        column.name: _typed_as(column, taken[column.name], before)
        for column in after.schema
        if column.name in taken
    }


def _typed_as(column: StructField, old: StructField, before: Snapshot) -> StructField:
    """The earlier column with the later one's type, where that is another."""
    if target_type(old.type) == target_type(column.type):
        return old
    nested = any(not _is_plain(field) for field in (old, column))
    if nested and before.mapping_mode != "none":
        msg = (
            f"Column {old.name} of version {before.version} of {before.table_uri} had other parts."
        )
        raise RequestError(msg, "Start after the version that replaced it.", field="start")
    return replace(old, type=column.type)


def _is_plain(column: StructField) -> bool:
    return isinstance(column.type, PrimitiveType | DecimalType)
