"""Columns with statistics.

Protocol: Per-file Statistics, Writer Requirements for Clustered Table.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from engine.protocol.properties import DEFAULT_PREFIX_LENGTH, TableProperties
from engine.schema.column_mapping import physical_name, physical_path
from engine.schema.column_paths import ColumnPath
from engine.schema.types import DataType, DecimalType, PrimitiveType, StructField, StructType

_ORDERED = frozenset(
    (
        *("long", "integer", "short", "byte", "float", "double"),
        *("string", "date", "timestamp", "timestamp_ntz"),
    )
)


@dataclass(frozen=True, slots=True)
class IndexedColumns:
    """The leaves with statistics, by physical path.

    Attributes:
        count: the number of leaves, in schema order; -1 for all.
        paths: the columns listed instead, each with all its fields; None without a list.
        clustering: the clustering columns, which always have statistics.
        prefix_length: the number of characters kept in the bounds of a text.
    """

    count: int = 32
    paths: tuple[ColumnPath, ...] | None = None
    clustering: tuple[ColumnPath, ...] = ()
    prefix_length: int = DEFAULT_PREFIX_LENGTH

    @classmethod
    def from_properties(
        cls,
        schema: StructType,
        mode: str,
        properties: TableProperties,
        clustering: Sequence[ColumnPath] = (),
    ) -> Self:
        """Return the indexed columns of a table; `clustering` holds physical paths."""
        listed = properties.data_skipping_stats_columns
        paths = listed and tuple(physical_path(schema, path, mode) for path in listed)
        return cls(
            properties.data_skipping_num_indexed_cols,
            paths,
            tuple(clustering),
            properties.data_skipping_string_prefix_length,
        )

    def covers(self, position: int, path: ColumnPath) -> bool:
        """Return whether the leaf at a position of the schema is indexed."""
        if path in self.clustering:
            return True
        if self.paths is not None:
            return any(path[: len(prefix)] == prefix for prefix in self.paths)
        return self.count < 0 or position < self.count

    def select(self, fields: Sequence[StructField], mode: str) -> StructType:
        """Return the indexed leaves of a table's data columns, under physical names."""
        places = {path: place for place, path in enumerate(_iter_leaf_paths(fields, mode, ()))}

        def select_fields(inside: Sequence[StructField], prefix: ColumnPath) -> StructType:
            chosen = []
            for column in inside:
                path = (*prefix, physical_name(column, mode))
                kind: DataType = column.type
                if isinstance(kind, StructType):
                    kind = select_fields(kind.fields, path)
                if kind.fields if isinstance(kind, StructType) else self.covers(places[path], path):
                    chosen.append(StructField(path[-1], kind))
            return StructType(tuple(chosen))

        return select_fields(fields, ())


def has_bounds(data_type: DataType) -> bool:
    """Return whether values of a type have a minimum and a maximum in statistics."""
    return isinstance(data_type, DecimalType) or (
        isinstance(data_type, PrimitiveType) and data_type.name in _ORDERED
    )


def _iter_leaf_paths(
    fields: Sequence[StructField], mode: str, prefix: ColumnPath
) -> Iterator[ColumnPath]:
    for column in fields:
        path = (*prefix, physical_name(column, mode))
        if isinstance(column.type, StructType):
            yield from _iter_leaf_paths(column.type.fields, mode, path)
        else:
            yield path
