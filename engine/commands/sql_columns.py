"""Column definitions and types in statements."""

from typing import Any

from engine.commands.column_sql import (
    COMMENT,
    DEFAULT,
    GENERATION,
    IDENTITY_EXPLICIT,
    IDENTITY_START,
    IDENTITY_STEP,
)
from engine.commands.statement_cursor import StatementCursor
from engine.errors import StatementError
from engine.expressions.types import NAMED_TYPES
from engine.protocol.properties import CONSTRAINT_PREFIX
from engine.schema.text_lengths import (
    MAX_LENGTH,
    TEXT_TYPE,
    as_declared,
    limited,
    without_limits,
)
from engine.schema.types import (
    VARIANT,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)

_MAX_DEPTH = 32
_NAMED: dict[str, DataType] = {**NAMED_TYPES, "VARIANT": VARIANT}
_DEFAULT_STOPS = ("NOT", "COMMENT", "GENERATED", "FIRST", "AFTER", "CONSTRAINT")


def column_definitions(cursor: StatementCursor) -> tuple[tuple[StructField, ...], dict[str, str]]:
    """The columns in brackets, and CHECK constraints as the properties that hold them.

    Raises:
        StatementError: something else is ahead.
    """
    cursor.need("(")
    fields: list[StructField] = []
    constraints: dict[str, str] = {}
    while True:
        if cursor.peek() in {"PRIMARY", "FOREIGN", "UNIQUE"}:
            raise _informational(cursor)
        if cursor.take("CONSTRAINT"):
            name = cursor.name()
            constraints[f"{CONSTRAINT_PREFIX}{name.lower()}"] = check(cursor)
        else:
            fields.append(column_definition(cursor))
        if cursor.take(")"):
            return tuple(fields), constraints
        cursor.need(",")


def check(cursor: StatementCursor) -> str:
    """CHECK (condition), as text.

    Raises:
        StatementError: something else is ahead.
    """
    if cursor.peek() in {"PRIMARY", "FOREIGN", "UNIQUE"}:
        raise _informational(cursor)
    cursor.need("CHECK", "(")
    condition = cursor.until(")")
    cursor.need(")")
    return condition


def _informational(cursor: StatementCursor) -> StatementError:
    what = f"{cursor.peek()} KEY is informational and not part of a Delta table's log."
    remedy = "Leave it out, and enter it in the catalogue."
    return StatementError(what, remedy, position=cursor.position)


def column_definition(cursor: StatementCursor) -> StructField:
    """Name TYPE [NOT NULL] [DEFAULT e] [GENERATED …] [COMMENT 'text'].

    Raises:
        StatementError: something else is ahead.
    """
    name = cursor.name()
    declared = type_definition(cursor)
    data_type = without_limits(declared)
    nullable, metadata = True, dict[str, Any]()
    if declared != data_type:
        metadata[TEXT_TYPE] = as_declared(declared)
    while True:
        if cursor.take("NOT", "NULL"):
            nullable = False
        elif cursor.take("COMMENT"):
            metadata[COMMENT] = cursor.string("a comment")
        elif cursor.take("DEFAULT"):
            metadata[DEFAULT] = cursor.until(",", ")", *_DEFAULT_STOPS)
        elif cursor.take("GENERATED"):
            metadata.update(_generated(cursor))
        else:
            return StructField(name, data_type, nullable, metadata)


def _generated(cursor: StatementCursor) -> dict[str, Any]:
    explicit = cursor.take("BY", "DEFAULT")
    if not explicit:
        cursor.need("ALWAYS")
    cursor.need("AS")
    if cursor.take("IDENTITY"):
        return _identity(cursor, explicit=explicit)
    if explicit:
        cursor.refuse("IDENTITY was expected")
    cursor.need("(")
    expression = cursor.until(")")
    cursor.need(")")
    return {GENERATION: expression}


def _identity(cursor: StatementCursor, *, explicit: bool) -> dict[str, Any]:
    start, step = 1, 1
    if cursor.take("("):
        while not cursor.take(")"):
            if cursor.take("START", "WITH"):
                start = cursor.integer()
            else:
                cursor.need("INCREMENT", "BY")
                step = cursor.integer()
            cursor.take(",")
    if step == 0:
        what = "An identity column cannot increment by 0."
        raise StatementError(what, "Use another step.", position=cursor.position)
    return {IDENTITY_START: start, IDENTITY_STEP: step, IDENTITY_EXPLICIT: explicit}


def type_definition(cursor: StatementCursor, depth: int = 0) -> DataType:  # noqa: RET503
    """Any type a column can have, texts of limited length as `engine.schema.text_lengths` has them.

    Raises:
        StatementError: something else is ahead.
    """
    word = cursor.peek()
    if depth > _MAX_DEPTH:
        cursor.refuse("types are nested too deeply")
    cursor.index += 1
    match word:
        case "ARRAY" | "MAP":
            return _collection(cursor, word, depth)
        case "STRUCT":
            return _struct(cursor, depth)
        case "DECIMAL" | "DEC" | "NUMERIC":
            return _decimal(cursor)
        case "CHAR" | "CHARACTER" | "VARCHAR":
            return _limited(cursor, "varchar" if word == "VARCHAR" else "char")
        case _ if word in _NAMED:
            return _NAMED[word]
        case _:
            cursor.index -= 1
            cursor.refuse("this is not a type")


def _collection(cursor: StatementCursor, word: str, depth: int) -> DataType:
    cursor.need("<")
    held = type_definition(cursor, depth + 1)
    if word == "ARRAY":
        close_angle(cursor)
        return ArrayType(held)
    cursor.need(",")
    value = type_definition(cursor, depth + 1)
    close_angle(cursor)
    return MapType(held, value)


def close_angle(cursor: StatementCursor) -> None:
    """Take one `>`, even of a `>>` or `<>` that the lexer sees as one symbol.

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


def _struct(cursor: StatementCursor, depth: int) -> StructType:
    if cursor.take("<>"):
        return StructType()
    cursor.need("<")
    fields: list[StructField] = []
    while True:
        name = cursor.name()
        cursor.take(":")
        data_type = type_definition(cursor, depth + 1)
        nullable = not cursor.take("NOT", "NULL")
        metadata = {COMMENT: cursor.string("a comment")} if cursor.take("COMMENT") else {}
        fields.append(StructField(name, data_type, nullable, metadata))
        if not cursor.take(","):
            close_angle(cursor)
            return StructType(tuple(fields))


def _limited(cursor: StatementCursor, kind: str) -> DataType:
    cursor.need("(")
    length = cursor.integer()
    cursor.need(")")
    if not 1 <= length <= MAX_LENGTH:
        cursor.refuse(f"a text has 1 to {MAX_LENGTH} characters")
    return limited(kind, length)


def _decimal(cursor: StatementCursor) -> DecimalType:
    precision, scale = 10, 0
    if cursor.take("("):
        precision = cursor.integer()
        scale = cursor.integer() if cursor.take(",") else 0
        cursor.need(")")
    if not 0 <= scale <= precision <= 38 or precision == 0:
        cursor.refuse("a decimal has 1 to 38 digits")
    return DecimalType(precision, scale)
