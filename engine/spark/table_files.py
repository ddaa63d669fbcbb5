"""The inputs of readers and writers of a table's files."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from engine.protocol.indexed_columns import IndexedColumns
from engine.protocol.properties import TableProperties
from engine.schema.arrow import check_supported, to_arrow_type
from engine.schema.column_mapping import (
    ID_KEY,
    field_id,
    physical_name,
    physical_schema,
    read_nested_ids,
)
from engine.schema.column_paths import ColumnPath
from engine.schema.types import (
    LONG,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)
from engine.spark.file_writer import PartitionField

_ICEBERG_ROW_ID = 2147483540
_ICEBERG_ROW_VERSION = 2147483539
DEFAULT_TARGET_SIZE_BYTES = 128 * 1024 * 1024


@dataclass(frozen=True)
class TableFiles:
    """A table's location and the shape of its files.

    `allowed_roots` are locations outside the table to which its log may refer (shallow clones).
    `run_id` goes into the names of new files, none of which gets more than `max_rows` rows unless
    that is 0. `clustering` are the physical paths of the clustering columns.

    Raises:
        UnsupportedTypeError: a column has a type of other engines.
    """

    uri: str
    schema: StructType
    partition_columns: Sequence[str] = ()
    properties: TableProperties = field(default_factory=TableProperties)
    storage_options: Mapping[str, str] = field(default_factory=dict)
    allowed_roots: Sequence[str] = ()
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    max_rows: int = 0
    clustering: Sequence[ColumnPath] = ()

    def __post_init__(self) -> None:
        check_supported(self.schema)

    @property
    def mapping_mode(self) -> str:
        """`none`, `name` or `id`."""
        return self.properties.column_mapping_mode

    @property
    def is_mapped(self) -> bool:
        """Whether files use physical names."""
        return self.mapping_mode != "none"

    @property
    def fits_iceberg(self) -> bool:
        """Whether Iceberg clients must be able to read its files."""
        return self.properties.iceberg_compat_v2

    @property
    def row_id_column(self) -> str | None:
        """The files' column of row ids kept by a rewrite."""
        return self.properties.row_id_column

    @property
    def row_commit_version_column(self) -> str | None:
        """The files' column of row commit versions kept by a rewrite."""
        return self.properties.row_commit_version_column

    @property
    def row_fields(self) -> tuple[StructField, ...]:
        """Both row tracking columns of a file, under Iceberg's reserved ids if Iceberg reads it."""
        named = (
            (self.row_id_column, _ICEBERG_ROW_ID),
            (self.row_commit_version_column, _ICEBERG_ROW_VERSION),
        )
        return tuple(
            StructField(name, LONG, metadata={ID_KEY: number} if self.fits_iceberg else {})
            for name, number in named
            if name
        )

    @property
    def data_fields(self) -> list[StructField]:
        """The columns in the files, in order."""
        return [column for column in self.schema if column.name not in self.partition_columns]

    @property
    def data_schema(self) -> StructType:
        """The columns in the files, under physical names at every level."""
        return physical_schema(StructType(tuple(self.data_fields)), self.mapping_mode)

    @property
    def partition_fields(self) -> tuple[PartitionField, ...]:
        """The partition columns, outermost first."""
        fields = [self.schema.get(name) for name in self.partition_columns]
        return tuple(
            PartitionField(self.physical_name(f), f.name, f.type, field_id(f)) for f in fields if f
        )

    @property
    def target_size_bytes(self) -> int:
        """About how large a file should be."""
        return self.properties.target_file_size_bytes or DEFAULT_TARGET_SIZE_BYTES

    @property
    def random_prefix_length(self) -> int:
        """Length of the random directory of a file; 0 if the directory is its partition's.

        Names of mapped columns mean nothing to people, and change with RENAME.
        """
        always = self.properties.random_prefix_length
        return always if self.is_mapped else self.properties.file_prefix_length

    @property
    def indexed(self) -> IndexedColumns:
        """The leaves with statistics."""
        return IndexedColumns.from_properties(
            self.schema, self.mapping_mode, self.properties, self.clustering
        )

    def physical_name(self, column: StructField) -> str:
        """Return the name of a column in files and in partition values."""
        return physical_name(column, self.mapping_mode)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the schema of a Parquet file: everything nullable, with the columns' field ids."""
    return pa.schema([_arrow_field(column) for column in schema])


def _arrow_field(column: StructField) -> pa.Field:
    kind = _arrow_type(column.type, read_nested_ids(column), column.name)
    return pa.field(column.name, kind, nullable=True, metadata=_field_id_metadata(field_id(column)))


def _arrow_type(data_type: DataType, ids: Mapping[str, int], path: str) -> pa.DataType:
    """Return the type of the column at a path; `ids` number its parts that are no fields."""

    def inner(name: str, kind: DataType, *, nullable: bool = True) -> pa.Field:
        below = f"{path}.{name}"
        arrow_type = _arrow_type(kind, ids, below)
        return pa.field(name, arrow_type, nullable, metadata=_field_id_metadata(ids.get(below)))

    match data_type:
        case StructType(fields):
            return pa.struct([_arrow_field(column) for column in fields])
        case ArrayType(element, _):
            return pa.list_(inner("element", element))
        case MapType(key, value, _):
            return pa.map_(inner("key", key, nullable=False), inner("value", value))
        case _:
            return to_arrow_type(data_type)


def _field_id_metadata(number: int | None) -> dict[bytes, bytes] | None:
    return None if number is None else {b"PARQUET:field_id": str(number).encode()}
