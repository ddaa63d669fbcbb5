"""CHAR and VARCHAR: texts of limited length (Spark's own convention; the protocol has only STRING).

The schema says STRING. The declared type is stored in the column's metadata as Spark writes types:
`array<varchar(3)>`. Here a text of limited length is a primitive type named `varchar(3)`.
"""

import re

from engine.errors import InvalidSchemaError
from engine.schema.types import (
    STRING,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)

TEXT_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
MAX_LENGTH = 10_000_000
_LIMITED = re.compile(r"(char|varchar)\(([0-9]{1,9})\)")
_TOKEN = re.compile(r"[<>,:]|[^<>,:(]+(?:\([^)]*\))?")
_MAX_DEPTH = 32


def text_type(kind: str, length: int) -> PrimitiveType:
    """Return the type of a text of limited length; `kind` is char or varchar."""
    return PrimitiveType(f"{kind}({length})")


def limit_of(data_type: DataType) -> tuple[str, int]:
    """Return `char` or `varchar` and the length; "" and 0 for every other type."""
    match = _LIMITED.fullmatch(data_type.name) if isinstance(data_type, PrimitiveType) else None
    return (match[1], int(match[2])) if match else ("", 0)


def read_declared_type(column: StructField) -> DataType:
    """Return a column's type with its declared text limits.

    Struct fields are found by name: fields added or removed since have no limit.

    Raises:
        InvalidSchemaError: the declared type is invalid.
    """
    text = column.metadata.get(TEXT_TYPE)
    if not text:
        return column.type
    return _apply_limits(column.type, _TypeReader(str(text)).whole())


def declare_type(column: StructField, data_type: DataType) -> StructField:
    """Set a column's type, declaring its text limits in the metadata.

    Raises:
        InvalidSchemaError: the name of a field does not allow a declared limit.
    """
    metadata = {key: value for key, value in column.metadata.items() if key != TEXT_TYPE}
    if has_limits(data_type):
        metadata[TEXT_TYPE] = render_declared_type(data_type)
    declared = StructField(column.name, drop_limits(data_type), column.nullable, metadata)
    if not _reads_as(declared, data_type):
        what = f"The name of a field of {column.name} would hide its CHAR or VARCHAR length."
        raise InvalidSchemaError(what, "Choose a name without <, >, : and commas.")
    return declared


def char_length(column: StructField) -> int:
    """Return the text length of a CHAR column; 0 for other columns."""
    match = _LIMITED.fullmatch(str(column.metadata.get(TEXT_TYPE, "")))
    return int(match[2]) if match and match[1] == "char" else 0


def has_limits(data_type: DataType) -> bool:
    """Return whether a type contains a text of limited length."""
    return drop_limits(data_type) != data_type


def drop_limits(data_type: DataType) -> DataType:
    """Return the type as in a schema: STRING for every text."""
    match data_type:
        case ArrayType(element, nulls):
            return ArrayType(drop_limits(element), nulls)
        case MapType(key, value, nulls):
            return MapType(drop_limits(key), drop_limits(value), nulls)
        case StructType(fields):
            return StructType(
                tuple(
                    StructField(f.name, drop_limits(f.type), f.nullable, f.metadata) for f in fields
                )
            )
        case _:
            return STRING if limit_of(data_type)[1] else data_type


def render_declared_type(data_type: DataType) -> str:
    """Render the type as Spark writes it into a column's metadata."""
    match data_type:
        case ArrayType(element):
            return f"array<{render_declared_type(element)}>"
        case MapType(key, value):
            return f"map<{render_declared_type(key)},{render_declared_type(value)}>"
        case StructType(fields):
            return f"struct<{','.join(f'{f.name}:{render_declared_type(f.type)}' for f in fields)}>"
        case DecimalType(precision, scale):
            return f"decimal({precision},{scale})"
        case PrimitiveType(name):
            return _SPARK_NAMES.get(name, name)


_SPARK_NAMES = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}


def _reads_as(column: StructField, data_type: DataType) -> bool:
    try:
        return read_declared_type(column) == data_type
    except InvalidSchemaError:
        return False


def _apply_limits(data_type: DataType, declared: DataType) -> DataType:
    """Apply the declared limits to the type, place by place."""
    match data_type, declared:
        case ArrayType(element, nulls), ArrayType(said):
            return ArrayType(_apply_limits(element, said), nulls)
        case MapType(key, value, nulls), MapType(said_key, said_value):
            return MapType(_apply_limits(key, said_key), _apply_limits(value, said_value), nulls)
        case StructType(fields), StructType():
            return StructType(tuple(_field_over(field, declared) for field in fields))
        case _:
            is_text = data_type == STRING and limit_of(declared)[1]
            return declared if is_text else data_type


def _field_over(column: StructField, declared: StructType) -> StructField:
    said = declared.get(column.name)
    kind = column.type if said is None else _apply_limits(column.type, said.type)
    return StructField(column.name, kind, column.nullable, column.metadata)


class _TypeReader:
    """One pass over a type as Spark writes it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _TOKEN.findall(text)

    def whole(self) -> DataType:
        data_type = self._type(0)
        if self._tokens:
            raise self._invalid_type_error()
        return data_type

    def _type(self, depth: int) -> DataType:
        word = self._take()
        if depth > _MAX_DEPTH or word in "<>,:":
            raise self._invalid_type_error()
        if word not in {"array", "map", "struct"}:
            return PrimitiveType(word)
        self._need("<")
        data_type: DataType
        if word == "array":
            data_type = ArrayType(self._type(depth + 1))
        elif word == "map":
            key = self._type(depth + 1)
            self._need(",")
            data_type = MapType(key, self._type(depth + 1))
        else:
            data_type = self._struct(depth)
        self._need(">")
        return data_type

    def _struct(self, depth: int) -> StructType:
        fields: list[StructField] = []
        while self._tokens and self._tokens[0] != ">":
            if fields:
                self._need(",")
            name = self._take()
            self._need(":")
            fields.append(StructField(name, self._type(depth + 1)))
        return StructType(tuple(fields))

    def _take(self) -> str:
        if not self._tokens:
            raise self._invalid_type_error()
        return str(self._tokens.pop(0))

    def _need(self, text: str) -> None:
        if self._take() != text:
            raise self._invalid_type_error()

    def _invalid_type_error(self) -> InvalidSchemaError:
        what = f"{self._text[:200]!r} is not a valid declaration of CHAR or VARCHAR."
        return InvalidSchemaError(what, "Correct the table's schema with the engine that wrote it.")
