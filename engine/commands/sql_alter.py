"""Parsing of ALTER TABLE, COMMENT ON and column definitions.

Hive's form CHANGE COLUMN name name type becomes changes of the engine's grammar.
"""

from collections.abc import Callable, Iterator
from typing import Any

from engine.commands.alter import (
    AddColumns,
    AddConstraint,
    ChangeColumn,
    ClusterBy,
    DropColumns,
    DropConstraint,
    DropFeature,
    RenameColumn,
)
from engine.commands.column_sql import (
    COMMENT,
    DEFAULT,
    GENERATION,
    IDENTITY_EXPLICIT,
    IDENTITY_START,
    IDENTITY_STEP,
)
from engine.commands.command import Command
from engine.commands.definition import DESCRIPTION, SetProperties, UnsetProperties
from engine.commands.statement_cursor import StatementCursor
from engine.errors import StatementError
from engine.expressions.type_grammar import read_type
from engine.protocol.properties import CONSTRAINT_PREFIX
from engine.schema.column_paths import column_path
from engine.schema.text_lengths import TEXT_TYPE, drop_limits, render_declared_type
from engine.schema.types import StructField, StructType

_DEFAULT_STOPS = ("NOT", "COMMENT", "GENERATED", "FIRST", "AFTER", "CONSTRAINT")

_CHANGES = frozenset({"TYPE", "COMMENT", "SET", "DROP", "FIRST", "AFTER"})


def alter(cursor: StatementCursor) -> Command:
    """ALTER TABLE t and one change."""
    cursor.need("ALTER", "TABLE")
    table = cursor.table()
    change = next((read for words, read in CHANGES if cursor.take(*words)), None)
    if change is None and cursor.peek() in {"ALTER", "CHANGE"}:
        cursor.index += 1
        change = _change  # COLUMN is optional
    if change is None:
        raise _not_known(cursor)
    return change(cursor, table)


def _not_known(cursor: StatementCursor) -> StatementError:
    """Build the error for Spark's other changes, with the alternative here."""
    words = f"{cursor.peek()} {cursor.peek(1)}"
    if words not in OTHER_CHANGES:
        cursor.refuse("no ALTER TABLE clause begins like this")
    what = f"ALTER TABLE … {words} is not understood."
    return StatementError(what, OTHER_CHANGES[words], position=cursor.position)


def _set(cursor: StatementCursor, table: str) -> Command:
    return SetProperties(cursor.properties(), table=table)


def _unset(cursor: StatementCursor, table: str) -> Command:
    guard = cursor.take("IF", "EXISTS")
    cursor.need("(")
    keys = [cursor.property_key()]
    while cursor.take(","):
        keys.append(cursor.property_key())
    cursor.need(")")
    return UnsetProperties(tuple(keys), guard, table=table)


def _add_columns(cursor: StatementCursor, table: str) -> Command:
    bracket = cursor.take("(")
    fields: list[StructField] = []
    parents: list[str] = []
    places: list[tuple[bool, str]] = []
    while True:
        parents.append(_parent(cursor))
        fields.append(column_definition(cursor))
        places.append(_place(cursor))
        if not cursor.take(","):
            break
    if bracket:
        cursor.need(")")
    columns = StructType(tuple(fields))
    (first, after), parent = places[0], parents[0]
    together = AddColumns(columns, parent, first, after, table=table)
    asked = [(parent, *place) for parent, place in zip(parents, places, strict=True)]
    if [tuple(place) for _, *place in together.list_additions()] == asked:
        return together
    texts = tuple(
        "FIRST" if first else f"AFTER {after}" if after else "" for first, after in places
    )
    inside = tuple(parents) if any(parents) else ()
    return AddColumns(columns, parents=inside, places=texts if any(texts) else (), table=table)


def _parent(cursor: StatementCursor) -> str:
    """Take the names before the last dot, as written, leaving the cursor before the last name."""
    start, count = cursor.index, 0
    while cursor.token(1) is not None and cursor.peek(1) == ".":
        cursor.name()
        cursor.need(".")
        count += 1
    return cursor.slice(start)[:-1].strip() if count else ""


def _place(cursor: StatementCursor) -> tuple[bool, str]:
    if cursor.take("FIRST"):
        return True, ""
    return False, cursor.name() if cursor.take("AFTER") else ""


def _drop_columns(cursor: StatementCursor, table: str) -> Command:
    guard = cursor.take("IF", "EXISTS")
    return DropColumns(cursor.columns(), guard, table=table)


def _rename(cursor: StatementCursor, table: str) -> Command:
    column = cursor.column()
    cursor.need("TO")
    return RenameColumn(column, cursor.name(), table=table)


def _change(cursor: StatementCursor, table: str) -> Command:
    position, column = cursor.position, cursor.column()
    if cursor.peek() not in {*_CHANGES, "SYNC"} and cursor.token() is not None:
        return _hive_change(cursor, column, table, position)
    change = _one_change(cursor, column, table)
    if cursor.peek() == ",":
        what = "ALTER COLUMN changes one column at a time."
        remedy = "Send one statement for each column, separated by semicolons."
        raise StatementError(what, remedy, position=cursor.position)
    return change


def _hive_change(cursor: StatementCursor, column: str, table: str, position: int) -> Command:
    """Parse `CHANGE a a TYPE [COMMENT 'text'] [FIRST | AFTER b]` if only the type changes."""
    again = cursor.peek(1) not in {"", "."} and cursor.token(1) is not None
    if not again:
        cursor.refuse("TYPE, SET, DROP, COMMENT, FIRST or AFTER was expected")
    name = cursor.name()
    if name.lower() != column.rpartition(".")[2].strip("`").lower():
        what = f"CHANGE COLUMN renames {column} to {name}."
        raise StatementError(what, "Use ALTER TABLE … RENAME COLUMN … TO ….", position=position)
    start = cursor.index
    read_type(cursor)
    new_type = cursor.slice(start)
    if cursor.peek() in {"COMMENT", "FIRST", "AFTER"}:
        what = f"CHANGE COLUMN has a type and {cursor.peek()}, which are two changes."
        remedy = (
            f"If the type stays, leave {column} {new_type} out: ALTER TABLE … ALTER COLUMN "
            f"{column} {cursor.peek()} …. Otherwise send two statements, separated by a "
            "semicolon."
        )
        raise StatementError(what, remedy, position=cursor.position)
    return ChangeColumn(column, new_type=new_type, table=table)


def _one_change(cursor: StatementCursor, column: str, table: str) -> Command:
    if cursor.take("TYPE"):
        start = cursor.index
        read_type(cursor)
        return ChangeColumn(column, new_type=cursor.slice(start), table=table)
    if cursor.take("COMMENT"):
        return ChangeColumn(column, comment=cursor.string("a comment"), table=table)
    if cursor.peek() in {"SET", "DROP"}:
        return _set_or_drop(cursor, column, table)
    if cursor.peek() == "SYNC":
        what = "SYNC IDENTITY is not supported."
        raise StatementError(what, "Run it with delta-spark.", position=cursor.position)
    first, after = _place(cursor)
    if not first and not after:
        cursor.refuse("TYPE, SET, DROP, COMMENT, FIRST or AFTER was expected")
    return ChangeColumn(column, first=first, after=after, table=table)


def _set_or_drop(cursor: StatementCursor, column: str, table: str) -> Command:
    sets = cursor.take("SET")
    if not sets:
        cursor.need("DROP")
    if cursor.take("NOT", "NULL"):
        return ChangeColumn(column, nullable=not sets, table=table)
    cursor.need("DEFAULT")
    if not sets:
        return ChangeColumn(column, drop_default=True, table=table)
    return ChangeColumn(column, new_default=cursor.take_until("DRY RUN", ";"), table=table)


def _add_constraint(cursor: StatementCursor, table: str) -> Command:
    return AddConstraint(cursor.name(), check(cursor), table=table)


def _drop_constraint(cursor: StatementCursor, table: str) -> Command:
    guard = cursor.take("IF", "EXISTS")
    return DropConstraint(cursor.name(), guard, table=table)


def _cluster(cursor: StatementCursor, table: str) -> Command:
    return ClusterBy(() if cursor.take("NONE") else cursor.columns(), table=table)


def _drop_feature(cursor: StatementCursor, table: str) -> Command:
    feature = cursor.property_key()
    return DropFeature(feature, cursor.take("TRUNCATE", "HISTORY"), table=table)


CHANGES: tuple[tuple[tuple[str, ...], Callable[[StatementCursor, str], Command]], ...] = (
    (("SET", "TBLPROPERTIES"), _set),
    (("UNSET", "TBLPROPERTIES"), _unset),
    (("ADD", "COLUMNS"), _add_columns),
    (("ADD", "COLUMN"), _add_columns),
    (("DROP", "COLUMNS"), _drop_columns),
    (("DROP", "COLUMN"), _drop_columns),
    (("RENAME", "COLUMN"), _rename),
    (("ALTER", "COLUMN"), _change),
    (("CHANGE", "COLUMN"), _change),
    (("ADD", "CONSTRAINT"), _add_constraint),
    (("DROP", "CONSTRAINT"), _drop_constraint),
    (("CLUSTER", "BY"), _cluster),
    (("DROP", "FEATURE"), _drop_feature),
)
"""Parsers of changes, by their words."""

OTHER_CHANGES = {
    "REPLACE COLUMNS": "Use ADD COLUMNS, ALTER COLUMN and DROP COLUMNS, separated by semicolons.",
    "ADD PARTITION": "Remove the statement: a partition exists as soon as it has rows.",
    "DROP PARTITION": "Use DELETE FROM t WHERE with a condition on the partition columns.",
    "RECOVER PARTITIONS": "Remove the statement: the log lists the partitions.",
    "RENAME TO": "Register the table under the other name.",
    "SET LOCATION": "Register the existing table.",
    "ADD CHECK": "Give the constraint a name: ADD CONSTRAINT name CHECK (condition).",
}
"""Spark's changes refused here, with the alternative."""


def comment(cursor: StatementCursor) -> SetProperties | ChangeColumn:
    """COMMENT ON TABLE t IS 'text', or COMMENT ON COLUMN t.c IS 'text'; IS NULL takes it away."""
    cursor.need("COMMENT", "ON")
    if cursor.take("TABLE"):
        table = cursor.table()
        return SetProperties({DESCRIPTION: _text(cursor)}, table=table)
    if not cursor.take("COLUMN"):
        cursor.refuse("TABLE or COLUMN was expected")
    path = cursor.column()
    table, _, column = path.rpartition(".")
    if not table:
        cursor.refuse("the column's table was expected before it")
    return ChangeColumn(column, comment=_text(cursor), table=table)


def _text(cursor: StatementCursor) -> str:
    cursor.need("IS")
    return "" if cursor.take("NULL") else cursor.string("a comment")


def column_definitions(cursor: StatementCursor) -> tuple[tuple[StructField, ...], dict[str, str]]:
    """Parse the columns in parentheses, and CHECK constraints as properties."""
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
    """CHECK (condition), as text; raise `StatementError` if something else is ahead."""
    if cursor.peek() in {"PRIMARY", "FOREIGN", "UNIQUE"}:
        raise _informational(cursor)
    cursor.need("CHECK", "(")
    condition = cursor.take_until(")")
    cursor.need(")")
    return condition


def _informational(cursor: StatementCursor) -> StatementError:
    what = f"{cursor.peek()} KEY is informational and is not stored in a Delta table's log."
    remedy = "Remove it, and declare the key in the catalog."
    return StatementError(what, remedy, position=cursor.position)


def column_definition(cursor: StatementCursor) -> StructField:
    """Name TYPE [NOT NULL] [DEFAULT e] [GENERATED …] [COMMENT 'text']."""
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
        what = "A CHECK inside a column definition is not supported."
        remedy = "Put it after the columns: CONSTRAINT name CHECK (condition)."
    elif cursor.peek() == "COLLATE":
        what = "COLLATE is not supported: strings are compared by their bytes."
        remedy = "Remove it, and compare lower(column)."
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


_OF_ENGINE = frozenset({"TYPE", "SET", "DROP", "COMMENT", "FIRST", "AFTER"})


def parse_hive_changes(
    cursor: StatementCursor, schema: StructType
) -> tuple[ChangeColumn, ...] | None:
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
    changes = tuple(_iter_hive_changes(cursor, column))
    cursor.end()
    fields = schema.find(column_path(column))
    if fields and declared == fields[-1].type:
        return changes
    return (ChangeColumn(column, new_type=new_type), *changes)


def _iter_hive_changes(cursor: StatementCursor, column: str) -> Iterator[ChangeColumn]:
    if cursor.take("COMMENT"):
        yield ChangeColumn(column, comment=cursor.string("a comment"))
    if cursor.take("FIRST"):
        yield ChangeColumn(column, first=True)
    elif cursor.take("AFTER"):
        yield ChangeColumn(column, after=cursor.name())
