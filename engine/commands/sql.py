"""Parsing of statements to commands: a small grammar that refuses all other statements.

Conditions in a statement remain text here; they become trees once the schema is known. INSERT,
DELETE, UPDATE and ALTER TABLE are in `sql_writes` and `sql_alter`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from engine.commands.command import Command
from engine.commands.common_tables import TAKES_COMMON_TABLES, CommonTables
from engine.commands.definition import Clone, Create
from engine.commands.maintenance import Optimize, Reorg, Restore, Vacuum
from engine.commands.merge import (
    BY_SOURCE,
    DELETE,
    INSERT,
    INSERT_ALL,
    MATCHED,
    NOT_MATCHED,
    UPDATE,
    UPDATE_ALL,
    Merge,
    MergeClause,
)
from engine.commands.script import AtomicScript, Script
from engine.commands.sources import RowsSource, Source, TableSource
from engine.commands.sql_alter import CHANGES, alter, column_definitions, comment
from engine.commands.sql_refusals import not_known
from engine.commands.sql_writes import (
    ENDS,
    assignments,
    compaction,
    delete,
    files,
    insert,
    items,
    rows_of_values,
    source,
    truncate,
    update,
)
from engine.commands.statement_cursor import StatementCursor
from engine.commands.writes import OPTION
from engine.errors import StatementError
from engine.expressions.lexer import Token
from engine.expressions.literals import is_whole
from engine.schema.types import StructType
from engine.schema.write_errors import InsertedTwiceError, ValueCountError

NOT_OF_A_TABLE = {
    "LOCATION": (
        "LOCATION is not supported: a new table is created under the lake's root.",
        "Leave it out.",
    ),
    "LIKE": (
        "CREATE TABLE … LIKE is not supported.",
        "Use CREATE TABLE t USING DELTA AS SELECT * FROM s WHERE FALSE, or CLONE.",
    ),
    "OPTIONS": ("OPTIONS is not supported: a table has properties.", "Use TBLPROPERTIES."),
}
"""Clauses Spark allows after a table's columns and this grammar refuses: error and remedy."""


def parse_statement(text: str) -> Command:
    """Parse a statement to a command.

    Raises:
        StatementError: it is not a known statement, or ends in DRY RUN, which is not part of a
            command; `position` is the offset of the error.
    """
    command, dry_run = parse_request(text)
    if dry_run:
        what = "A command cannot contain DRY RUN."
        remedy = "Remove DRY RUN, and request the dry run with dry_run=True."
        raise StatementError(what, remedy, position=text.upper().rindex("DRY"))
    return command


def parse_request(text: str) -> tuple[Command, bool]:
    """Parse a statement; return the command and whether it ends in DRY RUN.

    Several statements separated by semicolons become one `Script`, in BEGIN ATOMIC …; END one
    `AtomicScript`; a DRY RUN at the end applies to all. Errors as in `parse_statement`.
    """
    cursor = StatementCursor.from_text(text)
    is_atomic = _take_block(cursor)
    parts = _statements(cursor)
    if not parts:
        what = "The statement is empty."
        raise StatementError(what, "Write a SQL statement.", position=0)
    commands = [_parse_one(cursor.text, part) for part in parts]
    for part, (_, dry_run) in zip(parts[:-1], commands[:-1], strict=True):
        if dry_run:
            what = "In a script, DRY RUN must come at the end. It applies to all statements."
            raise StatementError(what, "Move it to the end.", position=part[-1].position)
    command, dry_run = commands[-1]
    if is_atomic or len(commands) > 1:
        script = AtomicScript if is_atomic else Script
        command = script(tuple(step for step, _ in commands))
    command.validate(None)
    return command, dry_run


def _take_block(cursor: StatementCursor) -> bool:
    """Remove BEGIN ATOMIC …; END around the tokens; return whether it was there.

    Raises:
        StatementError: the block has no END.
    """
    if not cursor.take("BEGIN", "ATOMIC"):
        return False
    tokens = cursor.tokens[cursor.index :]
    while tokens and _is_symbol(tokens[-1], ";"):
        tokens.pop()
    values = [token.value if token.kind in ("word", "symbol") else "" for token in tokens]
    tail = 2 if values[-2:] == ["DRY", "RUN"] else 0
    inside = len(tokens) - tail
    if values[max(inside - 2, 0) : inside] != [";", "END"]:
        what = "The transaction does not end with END after a semicolon."
        raise StatementError(what, "Write BEGIN ATOMIC …; …; END.", position=len(cursor.text))
    cursor.tokens, cursor.index = [*tokens[: inside - 2], *tokens[inside:]], 0
    return True


def _is_symbol(token: Token, value: str) -> bool:
    return token.kind == "symbol" and token.value == value


def _statements(cursor: StatementCursor) -> list[list[Token]]:
    """Split tokens into statements, without the semicolons."""
    parts: list[list[Token]] = [[]]
    for token in cursor.tokens:
        if _is_symbol(token, ";"):
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def _parse_one(text: str, tokens: list[Token]) -> tuple[Command, bool]:
    cursor = StatementCursor(tokens, text)
    common = None
    if cursor.peek() == "WITH":
        common = CommonTables.ahead(cursor)
        if cursor.peek() not in TAKES_COMMON_TABLES:
            cursor.index = 0
            raise not_known(cursor, tuple(STATEMENTS))
    read = STATEMENTS.get(cursor.peek())
    if read is None:
        raise not_known(cursor, tuple(STATEMENTS))
    cursor.help = f"Write {describe_syntax(read)}."
    command = read(cursor)
    if common is not None:
        command = common.apply_to(command)
    dry_run = cursor.take("DRY", "RUN")
    cursor.end()
    return command, dry_run


def describe_syntax(read: Callable[[StatementCursor], Command]) -> str:
    """Describe the syntax of the statement parsed by `read`, on one line."""
    if read is alter:
        changes = dict.fromkeys(" ".join(words) for words, _ in CHANGES)
        return f"ALTER TABLE t {' | '.join(changes)} \u2026"
    return (read.__doc__ or "").strip().splitlines()[0].rstrip(".")


def create(cursor: StatementCursor) -> Create | Clone:
    """CREATE [OR REPLACE] TABLE [IF NOT EXISTS] t …, of columns, a SELECT or another table.

    [(columns)] … [AS SELECT …], or [DEEP | SHALLOW] CLONE source [VERSION | TIMESTAMP AS OF …]; CLONE
    alone is deep. REPLACE TABLE is CREATE OR REPLACE TABLE.
    """
    replace = cursor.take("REPLACE")
    if not replace:
        cursor.need("CREATE")
        replace = cursor.take("OR", "REPLACE")
    if not cursor.take("TABLE"):
        what = (
            f"CREATE {cursor.peek() or 'this'} is not supported: only tables can be created here."
        )
        raise StatementError(what, "Use CREATE TABLE.", position=cursor.position)
    guard = cursor.take("IF", "NOT", "EXISTS")
    table = cursor.table()
    if cursor.peek() in {"SHALLOW", "DEEP", "CLONE"}:
        return _clone(cursor, table, {"replace": replace, "if_not_exists": guard})
    definition: dict[str, Any] = {"replace": replace, "if_not_exists": guard, "properties": {}}
    if cursor.peek() == "(":
        fields, constraints = column_definitions(cursor)
        definition["schema"] = StructType(fields)
        definition["properties"].update(constraints)
    while _layout(cursor, definition):
        pass
    if cursor.take("AS") or cursor.peek() in {"SELECT", "VALUES", "WITH"}:
        definition["source"] = source(cursor)
    return Create(**definition, table=table)


def _clone(cursor: StatementCursor, table: str, how: dict[str, bool]) -> Clone:
    shallow = cursor.take("SHALLOW")
    if not shallow:
        cursor.take("DEEP")
    cursor.need("CLONE")
    source_table = cursor.table()
    version, timestamp = cursor.point()
    return Clone(source_table, version, timestamp, deep=not shallow, table=table, **how)


def _layout(cursor: StatementCursor, definition: dict[str, Any]) -> bool:
    """Parse one clause after the columns; return False if there is none."""
    if cursor.take("USING"):
        cursor.need("DELTA")
    elif cursor.take("PARTITIONED", "BY"):
        definition["partition_columns"] = _partition_columns(cursor)
    elif cursor.take("CLUSTER", "BY"):
        definition["clustering_columns"] = cursor.columns()
    elif cursor.take("COMMENT"):
        definition["description"] = cursor.string("a comment")
    elif cursor.take("TBLPROPERTIES"):
        definition["properties"].update(cursor.properties())
    elif (not_taken := NOT_OF_A_TABLE.get(cursor.peek())) is not None:
        raise StatementError(*not_taken, position=cursor.position)
    else:
        return False
    return True


def _partition_columns(cursor: StatementCursor) -> tuple[str, ...]:
    position, columns = cursor.position, list[str]()
    bracket = cursor.take("(")
    while not columns or cursor.take(","):
        columns.append(cursor.column())
    if bracket and not cursor.take(")"):
        what = "PARTITIONED BY takes column names without types."
        remedy = f"Add {columns[-1]} to the columns of the table."
        raise StatementError(what, remedy, position=position)
    return tuple(columns)


def optimize(cursor: StatementCursor) -> Optimize:
    """OPTIMIZE t [FULL] [WHERE c] [ZORDER BY (columns)] [WITH (options)]."""
    cursor.need("OPTIMIZE")
    cursor.take("TABLE")
    table = cursor.table()
    full = cursor.take("FULL")
    where = (
        cursor.take_until("ZORDER BY", "DRY RUN", "WITH (", ";") if cursor.take("WHERE") else None
    )
    columns = cursor.columns() if cursor.take("ZORDER", "BY") else ()
    position = cursor.position
    options = cursor.options("targetSizeBytes", "auto", "minNumFiles")
    return Optimize(
        where,
        columns,
        full,
        _number(options, "targetSizeBytes", position),
        options.get("auto", "false").lower() == "true",
        _number(options, "minNumFiles", position),
        table=table,
    )


def _number(options: Mapping[str, str], name: str, position: int) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not is_whole(text) or len(text) > 18 or int(text) == 0:
        what = f"{name} cannot be {text[:100]}."
        unit = " of bytes" if name == "targetSizeBytes" else ""
        raise StatementError(what, f"Use a whole number{unit}.", position=position)
    return int(text)


def reorg(cursor: StatementCursor) -> Reorg:
    """REORG TABLE t [WHERE c] APPLY (PURGE | UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = n))."""
    cursor.need("REORG", "TABLE")
    table = cursor.table()
    where = cursor.take_until("APPLY (", ";") if cursor.take("WHERE") else None
    cursor.need("APPLY", "(")
    if cursor.take("UPGRADE", "UNIFORM", "(", "ICEBERG_COMPAT_VERSION"):
        cursor.take("=")
        version = cursor.integer()
        cursor.need(")", ")")
        return Reorg(where, version, table=table)
    cursor.need("PURGE", ")")
    return Reorg(where, table=table)


def vacuum(cursor: StatementCursor) -> Vacuum:
    """VACUUM t [LITE | FULL] [RETAIN n HOURS]."""
    cursor.need("VACUUM")
    table = cursor.table()
    lite, hours, full = False, None, False
    while True:
        if not lite and not full and cursor.peek() in {"LITE", "FULL"}:
            lite = cursor.take("LITE")
            full = not lite and cursor.take("FULL")
        elif hours is None and cursor.take("RETAIN"):
            hours = _hours(cursor)
        else:
            break
    options = cursor.options("overrideRetention")
    override = options.get("overrideRetention", "false").lower() == "true"
    return Vacuum(hours, lite, override, table=table)


def _hours(cursor: StatementCursor) -> float:
    token = cursor.token()
    try:
        hours = float(token.value) if token is not None and token.kind == "number" else None
    except ValueError:
        hours = None
    if hours is None:
        cursor.refuse("a number of hours was expected")
    cursor.index += 1
    if not (cursor.take("HOURS") or cursor.take("HOUR")):
        cursor.refuse("HOURS was expected")
    return hours


def restore(cursor: StatementCursor) -> Restore:
    """RESTORE [TABLE] t [TO] VERSION AS OF n | TIMESTAMP AS OF 'time'."""
    cursor.need("RESTORE")
    cursor.take("TABLE")
    table = cursor.table()
    cursor.take("TO")
    version, timestamp = cursor.point()
    if version is None and timestamp is None:
        cursor.refuse("TIMESTAMP was expected")
    return Restore(version, timestamp, table=table)


def merge(cursor: StatementCursor) -> Merge:
    """MERGE [WITH SCHEMA EVOLUTION] INTO t [AS a] USING s [AS b] ON c WHEN …."""
    cursor.need("MERGE")
    evolution = cursor.take("WITH", "SCHEMA", "EVOLUTION")
    cursor.need("INTO")
    table = cursor.table()
    target_alias = cursor.alias("USING") or table.rpartition(".")[2].rpartition("/")[2]
    cursor.need("USING")
    rows, source_alias = _parse_using(cursor)
    cursor.need("ON")
    on = cursor.take_until("WHEN")
    clauses = []
    while cursor.take("WHEN"):
        clauses.append(_clause(cursor))
    return Merge(
        rows,
        on,
        tuple(clauses),
        target_alias,
        source_alias,
        evolution,
        compaction(cursor, cursor.options(OPTION)),
        table=table,
    )


def _parse_using(cursor: StatementCursor) -> tuple[Source, str]:
    position = cursor.position
    if cursor.take("("):
        rows = rows_of_values(cursor) or source(cursor)
        cursor.need(")")
        fallback = ""
    elif cursor.peek() == "READ_FILES":
        rows, fallback = files(cursor, (), by_position=False), ""
    else:
        rows = TableSource(cursor.table())
        fallback = rows.table.rpartition(".")[2].rpartition("/")[2]
    alias = cursor.alias("ON") or fallback
    if isinstance(rows, RowsSource) and cursor.peek() == "(":
        rows = replace(rows, columns=cursor.columns())
    if not alias:
        what = "The source has no alias."
        raise StatementError(what, "Add an alias with AS.", position=position)
    return rows, alias


def _clause(cursor: StatementCursor) -> MergeClause:
    when = _parse_when(cursor)
    condition = cursor.take_until("THEN") if cursor.take("AND") else None
    cursor.need("THEN")
    if cursor.take("DELETE"):
        return MergeClause(when, DELETE, condition)
    if cursor.take("UPDATE"):
        cursor.need("SET")
        if cursor.take("*"):
            return MergeClause(when, UPDATE_ALL, condition)
        return MergeClause(when, UPDATE, condition, assignments(cursor, "WHEN", *ENDS))
    cursor.need("INSERT")
    if cursor.take("*"):
        return MergeClause(when, INSERT_ALL, condition)
    return MergeClause(when, INSERT, condition, _parse_insert_values(cursor))


def _parse_when(cursor: StatementCursor) -> str:
    if cursor.take("MATCHED"):
        return MATCHED
    cursor.need("NOT", "MATCHED")
    if cursor.take("BY", "SOURCE"):
        return BY_SOURCE
    cursor.take("BY", "TARGET")
    return NOT_MATCHED


def _parse_insert_values(cursor: StatementCursor) -> dict[str, str]:
    position, columns = cursor.position, cursor.columns()
    cursor.need("VALUES", "(")
    values = items(cursor, ")")
    cursor.need(")")
    lowered = [column.lower() for column in columns]
    twice = next((name for name in columns if lowered.count(name.lower()) > 1), None)
    if twice is not None:
        what = f"INSERT lists {twice} twice."
        raise InsertedTwiceError(what, "List it once.", position=position)
    if len(columns) != len(values):
        what = f"INSERT lists {len(columns)} columns but gives {len(values)} values."
        raise ValueCountError(what, "Give one value for each column.", position=position)
    return dict(zip(columns, values, strict=True))


STATEMENTS: dict[str, Callable[[StatementCursor], Command]] = {
    "INSERT": insert,
    "DELETE": delete,
    "UPDATE": update,
    "MERGE": merge,
    "TRUNCATE": truncate,
    "OPTIMIZE": optimize,
    "REORG": reorg,
    "VACUUM": vacuum,
    "RESTORE": restore,
    "CREATE": create,
    "REPLACE": create,
    "ALTER": alter,
    "COMMENT": comment,
}
"""Parsers of statements, by first word."""
