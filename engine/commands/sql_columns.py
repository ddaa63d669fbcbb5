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
from engine.expressions.type_grammar import read_type
from engine.protocol.properties import CONSTRAINT_PREFIX
from engine.schema.text_lengths import (
    TEXT_TYPE,
    drop_limits,
    render_declared_type,
)
from engine.schema.types import (
    StructField,
)

_DEFAULT_STOPS = ("NOT", "COMMENT", "GENERATED", "FIRST", "AFTER", "CONSTRAINT")


def column_definitions(cursor: StatementCursor) -> tuple[tuple[StructField, ...], dict[str, str]]:
    """Parse the columns in parentheses, and CHECK constraints as properties.

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
    condition = cursor.take_until(")")
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
    declared = read_type(cursor)
    data_type = drop_limits(declared)
    nullable, metadata = True, dict[str, Any]()
    if declared != data_type:
        metadata[TEXT_TYPE] = render_declared_type(declared)
    while True:
        if cursor.take("NOT", "NULL"):
            nullable = False
        elif cursor.take("COMMENT"):
            metadata[COMMENT] = cursor.string("a comment")
        elif cursor.take("DEFAULT"):
            metadata[DEFAULT] = cursor.take_until(",", ")", *_DEFAULT_STOPS)
        elif cursor.take("GENERATED"):
            metadata.update(_parse_generated(cursor))
        elif cursor.peek() in {"CHECK", "PRIMARY", "UNIQUE", "REFERENCES", "COLLATE"}:
            raise _column_option_error(cursor)
        else:
            return StructField(name, data_type, nullable, metadata)


def _column_option_error(cursor: StatementCursor) -> StatementError:
    """Build the error for a column option Spark allows and this grammar does not."""
    if cursor.peek() == "CHECK":
        what = "A CHECK beside a column is not understood."
        remedy = "Put it after the columns: CONSTRAINT name CHECK (condition)."
    elif cursor.peek() == "COLLATE":
        what = "COLLATE is not understood: texts are compared by their bytes."
        remedy = "Leave it out, and compare lower(column)."
    else:
        return _informational(cursor)
    return StatementError(what, remedy, position=cursor.position)


def _parse_generated(cursor: StatementCursor) -> dict[str, Any]:
    explicit = cursor.take("BY", "DEFAULT")
    if not explicit:
        cursor.need("ALWAYS")
    cursor.need("AS")
    if cursor.take("IDENTITY"):
        return _identity(cursor, explicit=explicit)
    if explicit:
        cursor.refuse("IDENTITY was expected")
    cursor.need("(")
    expression = cursor.take_until(")")
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
