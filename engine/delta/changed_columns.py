"""ALTER TABLE … CHANGE COLUMN name name type: the form of Hive's, as changes of the engine's grammar."""

from collections.abc import Iterator

from engine.commands.alter import ChangeColumn
from engine.commands.statement_cursor import StatementCursor
from engine.errors import StatementError
from engine.expressions.type_grammar import read_type
from engine.schema.column_paths import column_path
from engine.schema.types import DataType, StructType

_OF_ENGINE = frozenset({"TYPE", "SET", "DROP", "COMMENT", "FIRST", "AFTER"})


def hive_changes(cursor: StatementCursor, schema: StructType) -> tuple[ChangeColumn, ...] | None:
    """Parse CHANGE [COLUMN] name name type [COMMENT '…'] [FIRST | AFTER other] into changes.

    Return None for any other statement and leave the cursor after the table's name.

    Raises:
        StatementError: it renames the column.
    """
    start = cursor.index
    if not cursor.take("CHANGE"):
        return None
    cursor.take("COLUMN")
    column = cursor.column()
    token = cursor.token()
    if token is None or token.kind not in {"word", "name"} or cursor.peek() in _OF_ENGINE:
        cursor.index = start
        return None
    position, name = cursor.position, cursor.name()
    if name.lower() != column_path(column)[-1].lower():
        what = f"CHANGE COLUMN cannot call {column} {name}."
        raise StatementError(what, "Use RENAME COLUMN.", position=position)
    begins = cursor.index
    declared = read_type(cursor)
    new_type = cursor.slice(begins)
    changes = tuple(_rest(cursor, column))
    cursor.end()
    if declared == _type_of(schema, column):
        return changes
    return (ChangeColumn(column, new_type=new_type), *changes)


def _rest(cursor: StatementCursor, column: str) -> Iterator[ChangeColumn]:
    if cursor.take("COMMENT"):
        yield ChangeColumn(column, comment=cursor.string("a comment"))
    if cursor.take("FIRST"):
        yield ChangeColumn(column, first=True)
    elif cursor.take("AFTER"):
        yield ChangeColumn(column, after=cursor.name())


def _type_of(schema: StructType, column: str) -> DataType | None:
    kind: DataType | None = schema
    for name in column_path(column):
        field = kind.get(name) if isinstance(kind, StructType) else None
        kind = None if field is None else field.type
    return kind
