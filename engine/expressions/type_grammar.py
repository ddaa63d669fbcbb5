"""Types as text: in column definitions, casts and schemas of JSON."""

from engine.expressions.cursor import Cursor
from engine.expressions.lexer import tokenize
from engine.expressions.literals import is_whole
from engine.expressions.types import NAMED_TYPES
from engine.schema.text_lengths import MAX_LENGTH, text_type
from engine.schema.types import (
    VARIANT,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)

_COMMENT = "comment"
_MAX_DEPTH = 32
_NAMED: dict[str, DataType] = {**NAMED_TYPES, "VARIANT": VARIANT}


def parse_type(text: str) -> DataType:
    """Parse a type as in a column definition; raise `ExpressionError` if the text is not a type."""
    cursor = Cursor(tokenize(text), text)
    named = read_type(cursor)
    if not cursor.at_end:
        cursor.refuse("the end of the type was expected")
    return named


def read_type(cursor: Cursor, depth: int = 0) -> DataType:  # noqa: RET503
    """Parse any column type; texts of limited length as in `engine.schema.text_lengths`.

    Raises:
        StatementError: something else is ahead.
    """
    word = cursor.peek()
    if depth > _MAX_DEPTH:
        cursor.refuse("the type is nested too deeply")
    cursor.index += 1
    match word:
        case "ARRAY" | "MAP":
            return _collection(cursor, word, depth)
        case "STRUCT":
            return _struct(cursor, depth)
        case "DECIMAL" | "DEC" | "NUMERIC":
            return _decimal(cursor)
        case "CHAR" | "CHARACTER" | "VARCHAR":
            return _parse_limited_text(cursor, "varchar" if word == "VARCHAR" else "char")
        case _ if word in _NAMED:
            return _NAMED[word]
        case _:
            cursor.index -= 1
            cursor.refuse(
                "a type was expected, such as BIGINT, STRING, DECIMAL(10, 2) or ARRAY<INT>"
            )


def _collection(cursor: Cursor, word: str, depth: int) -> DataType:
    cursor.need("<")
    held = read_type(cursor, depth + 1)
    if word == "ARRAY":
        close_angle(cursor)
        return ArrayType(held)
    cursor.need(",")
    value = read_type(cursor, depth + 1)
    close_angle(cursor)
    return MapType(held, value)


def close_angle(cursor: Cursor) -> None:
    """Take one `>`, even from a `>>` or `<>` the lexer reads as one symbol.

    Raises:
        StatementError: something else is ahead.
    """
    token = cursor.token()
    if token is not None and token.kind == "symbol" and token.value in {">>", ">=", ">>>"}:
        rest = token.value[1:]
        cursor.tokens[cursor.index] = type(token)(
            "symbol", rest, rest, token.position + 1, token.end
        )
        return
    cursor.need(">")


def _struct(cursor: Cursor, depth: int) -> StructType:
    if cursor.take("<>"):
        return StructType()
    cursor.need("<")
    fields: list[StructField] = []
    while True:
        name = _name(cursor)
        cursor.take(":")
        data_type = read_type(cursor, depth + 1)
        nullable = not cursor.take("NOT", "NULL")
        metadata = {_COMMENT: cursor.string("a comment")} if cursor.take("COMMENT") else {}
        fields.append(StructField(name, data_type, nullable, metadata))
        if not cursor.take(","):
            close_angle(cursor)
            return StructType(tuple(fields))


def _parse_limited_text(cursor: Cursor, kind: str) -> DataType:
    cursor.need("(")
    length = _integer(cursor)
    cursor.need(")")
    if not 1 <= length <= MAX_LENGTH:
        cursor.refuse(f"the length must be 1 to {MAX_LENGTH}")
    return text_type(kind, length)


def _decimal(cursor: Cursor) -> DecimalType:
    precision, scale = 10, 0
    if cursor.take("("):
        precision = _integer(cursor)
        scale = _integer(cursor) if cursor.take(",") else 0
        cursor.need(")")
    if not 0 <= scale <= precision <= 38 or precision == 0:
        cursor.refuse("a decimal can have 1 to 38 digits")
    return DecimalType(precision, scale)


def _name(cursor: Cursor) -> str:
    token = cursor.token()
    if token is None or token.kind not in {"word", "name"}:
        cursor.refuse("a name was expected")
    cursor.index += 1
    return token.value if token.kind == "name" else token.text


def _integer(cursor: Cursor) -> int:
    token = cursor.token()
    if token is None or not is_whole(token.value) or len(token.value) > 18:
        cursor.refuse("a whole number was expected")
    cursor.index += 1
    return int(token.value)
