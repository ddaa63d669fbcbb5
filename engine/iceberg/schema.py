"""A Delta schema and partitioning as Iceberg has them; field ids are those of the column mapping."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)
from pyiceberg.types import DecimalType as IcebergDecimal
from pyiceberg.types import MapType as IcebergMap
from pyiceberg.types import PrimitiveType as IcebergPrimitive
from pyiceberg.types import StructType as IcebergStruct

from engine.errors import InvalidSchemaError
from engine.schema.column_mapping import field_id, physical_name, read_nested_ids
from engine.schema.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)

_PRIMITIVES: Mapping[str, IcebergPrimitive] = {
    "byte": IntegerType(),
    "short": IntegerType(),
    "integer": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "boolean": BooleanType(),
    "date": DateType(),
    "timestamp": TimestamptzType(),
    "timestamp_ntz": TimestampType(),
}
_MODE = "name"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column of plain values outside arrays and maps, as statistics speak of it."""

    path: tuple[str, ...]
    field_id: int
    type: PrimitiveType | DecimalType
    iceberg_type: IcebergPrimitive


def iceberg_schema(schema: StructType, schema_id: int = 0) -> Schema:
    """Convert a schema, with the ids of the column mapping.

    Raises:
        InvalidSchemaError: a column has no id, or a type unknown to Iceberg.
    """
    return Schema(*(_field(column) for column in schema), schema_id=schema_id)


def partition_spec(schema: StructType, partition_columns: Sequence[str]) -> PartitionSpec:
    """Build a spec of identity partitions by columns."""
    columns = [column for name in partition_columns if (column := schema.get(name)) is not None]
    fields = [
        PartitionField(
            source_id=_id_of(source),
            field_id=PARTITION_FIELD_ID_START + number,
            transform=IdentityTransform(),
            name=source.name,
        )
        for number, source in enumerate(columns)
    ]
    return PartitionSpec(*fields, spec_id=0)


def iter_leaves(schema: StructType, prefix: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """Yield the leaves with possible statistics, by physical path."""
    for column in schema:
        path = (*prefix, physical_name(column, _MODE))
        if isinstance(column.type, StructType):
            yield from iter_leaves(column.type, path)
        elif not isinstance(column.type, ArrayType | MapType):
            yield Leaf(path, _id_of(column), column.type, _plain_type(column.type))


def _field(column: StructField) -> NestedField:
    field_type = _type(column.type, read_nested_ids(column), physical_name(column, _MODE))
    return NestedField(
        field_id=_id_of(column),
        name=column.name,
        field_type=field_type,
        required=not column.nullable,
        doc=column.metadata.get("comment"),
    )


def _plain_type(data_type: PrimitiveType | DecimalType) -> IcebergPrimitive:
    if isinstance(data_type, DecimalType):
        return IcebergDecimal(data_type.precision, data_type.scale)
    primitive = _PRIMITIVES.get(data_type.name)
    if primitive is None:
        msg = f"Iceberg has no type {data_type.name}."
        raise InvalidSchemaError(msg, "Drop the column, or do not enable Iceberg.")
    return primitive


def _type(data_type: DataType, ids: Mapping[str, int], path: str) -> IcebergType:
    match data_type:
        case PrimitiveType() | DecimalType():
            return _plain_type(data_type)
        case StructType(fields):
            return IcebergStruct(*(_field(field) for field in fields))
        case ArrayType(element, contains_null):
            return ListType(
                element_id=_require_id(ids, f"{path}.element"),
                element=_type(element, ids, f"{path}.element"),
                element_required=not contains_null,
            )
        case MapType(key, value, contains_null):
            return IcebergMap(
                key_id=_require_id(ids, f"{path}.key"),
                key_type=_type(key, ids, f"{path}.key"),
                value_id=_require_id(ids, f"{path}.value"),
                value_type=_type(value, ids, f"{path}.value"),
                value_required=not contains_null,
            )


def _id_of(column: StructField) -> int:
    number = field_id(column)
    if number is None:
        raise _no_id_error(column.name)
    return number


def _require_id(ids: Mapping[str, int], path: str) -> int:
    number = ids.get(path)
    if number is None:
        raise _no_id_error(path)
    return number


def _no_id_error(name: str) -> InvalidSchemaError:
    msg = f"The column {name} has no Iceberg field id."
    return InvalidSchemaError(msg, "Upgrade the table with REORG … APPLY (UPGRADE UNIFORM …).")
