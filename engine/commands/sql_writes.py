"""INSERT, DELETE, UPDATE and TRUNCATE: from tokens to commands."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from engine.commands.after_write import OPTION, choice_of
from engine.commands.command import Command
from engine.commands.sql_sources import source
from engine.commands.statement_cursor import StatementCursor
from engine.commands.stream import STREAM_OPTIONS, Stream
from engine.commands.writes import Append, Delete, Overwrite, Truncate, Update
from engine.errors import StatementError

ENDS = ("WITH (", "DRY RUN", ";")
"""What may follow the conditions and assignments of a statement."""


def insert(cursor: StatementCursor) -> Append | Overwrite | Stream:
    """INSERT INTO | OVERWRITE [TABLE] t [(columns)] [BY NAME] [REPLACE WHERE c] source."""
    cursor.need("INSERT")
    overwrite = cursor.take("OVERWRITE")
    if not overwrite:
        cursor.need("INTO")
    cursor.take("TABLE")
    table = cursor.table()
    columns = cursor.columns() if cursor.peek() == "(" else ()
    by_name = cursor.take("BY", "NAME")
    if overwrite:
        return _overwrite(cursor, table, columns, by_name=by_name)
    options = cursor.options(*STREAM_OPTIONS, OPTION)
    choice = compaction(cursor, options)
    if cursor.take("REPLACE", "WHERE"):
        refuse_stream_options(cursor, options, taken=())
        condition = cursor.until("BY NAME", "VALUES", "SELECT", "WITH", "TABLE")
        rows = source(cursor, columns, by_position=not by_name)
        return Overwrite(rows, replace_where=condition, auto_compact=choice, table=table)
    if takes_stream(cursor):
        return replace(stream(cursor, table, options), auto_compact=choice)
    refuse_stream_options(cursor, options)
    rows = source(cursor, columns, by_position=not by_name)
    return Append(rows, _flag(cursor, options, "mergeSchema"), choice, table=table)


def _overwrite(
    cursor: StatementCursor, table: str, columns: tuple[str, ...], *, by_name: bool
) -> Overwrite:
    if cursor.peek() == "PARTITION":
        what = "INSERT OVERWRITE … PARTITION is not understood."
        remedy = "Use INSERT INTO … REPLACE WHERE, or WITH ('partitionOverwriteMode' = 'dynamic')."
        raise StatementError(what, remedy, position=cursor.position)
    options = cursor.options("overwriteSchema", "partitionOverwriteMode", OPTION)
    mode = options.get("partitionOverwriteMode", "static").lower()
    if mode not in {"static", "dynamic"}:
        what = f"partitionOverwriteMode cannot be {mode[:100]}."
        raise StatementError(what, "Use static or dynamic.", position=cursor.position)
    replace_schema = _flag(cursor, options, "overwriteSchema")
    choice = compaction(cursor, options)
    rows = source(cursor, columns, by_position=not by_name)
    return Overwrite(
        rows,
        overwrite_schema=replace_schema,
        dynamic_partitions=mode == "dynamic",
        auto_compact=choice,
        table=table,
    )


def compaction(cursor: StatementCursor, options: Mapping[str, str]) -> str:
    """What the options say of joining small files after the write.

    Raises:
        StatementError: neither true nor false.
    """
    choice = choice_of(options.get(OPTION))
    if choice is None:
        what = f"{OPTION} cannot be {options[OPTION][:100]}."
        raise StatementError(what, "Use true or false, or leave it out.", position=cursor.position)
    return choice


def _flag(cursor: StatementCursor, options: dict[str, str], name: str) -> bool:
    value = options.get(name, "false").lower()
    if value not in {"true", "false"}:
        what = f"{name} cannot be {value[:100]}."
        raise StatementError(what, "Use true or false.", position=cursor.position)
    return value == "true"


def delete(cursor: StatementCursor) -> Delete:
    """DELETE FROM t [AS a] [WHERE c] [WITH (options)]."""
    cursor.need("DELETE", "FROM")
    table, alias = cursor.table(), cursor.alias("WHERE", "DRY", "USING", "WITH")
    where = cursor.until(*ENDS) if cursor.take("WHERE") else None
    choice = compaction(cursor, cursor.options(OPTION))
    return Delete(where, alias=alias, auto_compact=choice, table=table)


def update(cursor: StatementCursor) -> Update:
    """UPDATE t [AS a] SET column = expression, … [WHERE c] [WITH (options)]."""
    cursor.need("UPDATE")
    table, alias = cursor.table(), cursor.alias("SET")
    cursor.need("SET")
    assigned = assignments(cursor, "WHERE", *ENDS)
    where = cursor.until(*ENDS) if cursor.take("WHERE") else None
    choice = compaction(cursor, cursor.options(OPTION))
    return Update(assigned, where, alias=alias, auto_compact=choice, table=table)


def assignments(cursor: StatementCursor, *stops: str) -> dict[str, str]:
    """`column = expression, …` up to one of the stops.

    Raises:
        StatementError: something else is ahead, or a column is set twice.
    """
    values: dict[str, str] = {}
    while True:
        position, column = cursor.position, cursor.column()
        if column in values:
            what = f"{column} is set twice."
            raise StatementError(what, "Set it once.", position=position)
        cursor.need("=")
        values[column] = cursor.until(",", *stops)
        if not cursor.take(","):
            return values


def truncate(cursor: StatementCursor) -> Truncate:
    """TRUNCATE TABLE t."""
    cursor.need("TRUNCATE", "TABLE")
    return Truncate(table=cursor.table())


def takes_stream(cursor: StatementCursor) -> bool:
    """Whether a stream is ahead: it is passed over up to its source."""
    return cursor.take("SELECT", "*", "FROM", "STREAM", "(")


def stream(cursor: StatementCursor, table: str, options: Mapping[str, str]) -> Stream:
    """The rest of a stream: its source and the closing bracket.

    Raises:
        StatementError: something else is ahead.
        RequestError: an option is not what it should be.
    """
    parameters = {
        STREAM_OPTIONS[name]: value for name, value in options.items() if name in STREAM_OPTIONS
    }
    source = cursor.table()
    cursor.need(")")
    given = {**parameters, "source_table": source, "table": table}
    command = Command.from_parameters(Stream.kind, given)
    if not isinstance(command, Stream):
        msg = "a stream's parameters make a stream"
        raise TypeError(msg)
    return command


def refuse_stream_options(
    cursor: StatementCursor, options: Mapping[str, str], taken: Sequence[str] = ("mergeSchema",)
) -> None:
    """Refuse options that only a stream has, `taken` ones excepted.

    Raises:
        StatementError: one is there.
    """
    for name in options:
        if name in STREAM_OPTIONS and name not in taken:
            what = f"{name} is an option of streams."
            remedy = "Write SELECT * FROM STREAM(source), or leave it out."
            raise StatementError(what, remedy, position=cursor.position)
