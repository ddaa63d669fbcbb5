"""Parsing of INSERT, DELETE, UPDATE and TRUNCATE, and of the sources of rows in every statement."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from engine.commands.command import Command
from engine.commands.fields import values_from_json
from engine.commands.names import name_sql
from engine.commands.sources import (
    MAX_ROWS,
    FileSource,
    QuerySource,
    RowsSource,
    Source,
    TableSource,
    exact_texts,
)
from engine.commands.statement_cursor import StatementCursor
from engine.commands.stream import STREAM_OPTIONS, Stream
from engine.commands.writes import OPTION, Append, Delete, Overwrite, Truncate, Update, choice_of
from engine.errors import StatementError
from engine.expressions.operands import RESERVED
from engine.expressions.queries.from_clause import BEGINNINGS
from engine.expressions.queries.functions import find_window_function
from engine.expressions.queries.reader import read_query
from engine.expressions.queries.syntax import (
    DerivedTable,
    ItemSyntax,
    QuerySyntax,
    SelectSyntax,
    TableName,
    Tokens,
    ValuesSyntax,
)
from engine.schema.write_errors import SetTwiceError

ENDS = ("WITH (", "DRY RUN", ";")
"""Words that may follow the conditions and assignments of a statement."""
_AFTER_TABLE = ("PARTITION", "IF", "BY", "WITH", "REPLACE", "VALUES", "SET")
_QUERIES = ("( SELECT", "( WITH", "( VALUES")

_STAR = (ItemSyntax((), star=True),)


def insert(cursor: StatementCursor) -> Append | Overwrite | Stream:
    """INSERT [WITH SCHEMA EVOLUTION] INTO | OVERWRITE t [PARTITION (…)] [(columns)] … source.

    Between columns and rows: [BY NAME] [WITH (options)] [REPLACE WHERE c | USING (columns) | ON c].
    """
    cursor.need("INSERT")
    evolves = cursor.take("WITH", "SCHEMA", "EVOLUTION")
    overwrite = cursor.take("OVERWRITE")
    if not overwrite:
        cursor.need("INTO")
    cursor.take("TABLE")
    into = _parse_target(cursor, overwrite=overwrite)
    if overwrite:
        return replace(_overwrite(cursor, into), merge_schema=evolves)
    options = cursor.options(*STREAM_OPTIONS, OPTION)
    into = _parse_by_name(cursor, into)
    choice = compaction(cursor, options)
    if cursor.take("REPLACE"):
        return replace(_parse_replace(cursor, into, options, choice), merge_schema=evolves)
    if cursor.take("SELECT", "*", "FROM", "STREAM", "("):
        _refuse_alias(cursor, into)
        options = {**options, "mergeSchema": "true"} if evolves else options
        return replace(stream(cursor, into.table, options), auto_compact=choice)
    refuse_stream_options(cursor, options)
    _refuse_alias(cursor, into)
    rows = source(cursor, into.columns, by_position=not into.by_name)
    merges = evolves or _flag(cursor, options, "mergeSchema")
    return Append(rows, merges, choice, into.partition, table=into.table)


@dataclass(frozen=True)
class _InsertTarget:
    """The part between INTO and the rows."""

    table: str
    alias: str
    partition: dict[str, str]
    columns: tuple[str, ...]
    by_name: bool


def _parse_target(cursor: StatementCursor, *, overwrite: bool) -> _InsertTarget:
    table = cursor.table()
    alias = cursor.alias(*_AFTER_TABLE)
    partition = _partition(cursor) if cursor.peek() == "PARTITION" else {}
    if cursor.peek() == "IF" and cursor.peek(1) == "NOT":
        what = f"INSERT {'OVERWRITE' if overwrite else 'INTO'} … IF NOT EXISTS is not supported."
        remedy = "Remove it: an existing partition is replaced."
        raise StatementError(what, remedy, position=cursor.position)
    columns = cursor.columns() if cursor.peek() == "(" and not cursor.query_ahead() else ()
    if cursor.peek() == "PARTITION" and not partition:
        partition = _partition(cursor)
    return _parse_by_name(cursor, _InsertTarget(table, alias, partition, columns, by_name=False))


def _parse_by_name(cursor: StatementCursor, into: _InsertTarget) -> _InsertTarget:
    if into.by_name and cursor.peek() == "BY":
        cursor.refuse("BY NAME was already given")
    return replace(into, by_name=cursor.take("BY", "NAME") or into.by_name)


def _refuse_alias(cursor: StatementCursor, into: _InsertTarget) -> None:
    if into.alias:
        what = (
            f"{into.alias} is an alias of the table, which only REPLACE WHERE and REPLACE ON "
            "can use."
        )
        raise StatementError(what, "Leave it out.", position=cursor.position)


def _partition(cursor: StatementCursor) -> dict[str, str]:
    """Parse PARTITION (p = 1, q): constants by column, "" for columns with values in the rows."""
    cursor.need("PARTITION", "(")
    values: dict[str, str] = {}
    while True:
        position, name = cursor.position, cursor.column()
        if name in values:
            what = f"{name} appears twice in PARTITION."
            raise StatementError(what, "List it once.", position=position)
        values[name] = cursor.take_until(",", ")") if cursor.take("=") else ""
        if cursor.take(")"):
            return values
        cursor.need(",")


def _parse_replace(
    cursor: StatementCursor, into: _InsertTarget, options: Mapping[str, str], choice: str
) -> Overwrite:
    """REPLACE is passed: WHERE condition, USING (columns), or ON condition; then the rows."""
    if cursor.peek() not in {"WHERE", "USING", "ON"}:
        cursor.refuse("WHERE, USING or ON was expected")
    way = cursor.peek()
    cursor.index += 1
    refuse_stream_options(cursor, options, taken=())
    if into.partition:
        what = "PARTITION and REPLACE both select the rows to replace."
        raise StatementError(what, "Remove one of them.", position=cursor.position)
    if way == "USING":
        using = cursor.columns()
        into = _parse_by_name(cursor, into)
        rows = source(cursor, into.columns, by_position=not into.by_name)
        return Overwrite(
            rows, replace_using=using, alias=into.alias, auto_compact=choice, table=into.table
        )
    condition = cursor.take_until("BY NAME", "VALUES", "SELECT", "WITH", "TABLE", *_QUERIES)
    into = _parse_by_name(cursor, into)
    rows, source_alias = _parse_aliased_rows(cursor, into)
    if way == "WHERE":
        return Overwrite(
            rows, replace_where=condition, alias=into.alias, auto_compact=choice, table=into.table
        )
    return Overwrite(
        rows,
        replace_on=condition,
        alias=into.alias,
        source_alias=source_alias,
        auto_compact=choice,
        table=into.table,
    )


def _parse_aliased_rows(cursor: StatementCursor, into: _InsertTarget) -> tuple[Source, str]:
    """Parse the rows of REPLACE ON, with an alias after a query in parentheses."""
    by_position = not into.by_name
    if not cursor.take("("):
        return source(cursor, into.columns, by_position=by_position), ""
    rows = source(cursor, into.columns, by_position=by_position)
    cursor.need(")")
    return rows, cursor.alias("DRY")


def _overwrite(cursor: StatementCursor, into: _InsertTarget) -> Overwrite:
    _refuse_alias(cursor, into)
    options = cursor.options("overwriteSchema", "partitionOverwriteMode", OPTION)
    into = _parse_by_name(cursor, into)
    mode = options.get("partitionOverwriteMode", "static").lower()
    if mode not in {"static", "dynamic"}:
        what = f"partitionOverwriteMode cannot be {mode[:100]}."
        raise StatementError(what, "Use static or dynamic.", position=cursor.position)
    replace_schema = _flag(cursor, options, "overwriteSchema")
    choice = compaction(cursor, options)
    rows = source(cursor, into.columns, by_position=not into.by_name)
    return Overwrite(
        rows,
        overwrite_schema=replace_schema,
        dynamic_partitions=mode == "dynamic" and not _all_static(into.partition),
        auto_compact=choice,
        partition=into.partition,
        table=into.table,
    )


def _all_static(partition: Mapping[str, str]) -> bool:
    """Return whether PARTITION names one partition; the mode then has no effect."""
    return bool(partition) and all(partition.values())


def compaction(cursor: StatementCursor, options: Mapping[str, str]) -> str:
    """Return the compaction choice of the options.

    Raises:
        StatementError: it is neither true nor false.
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
    where = cursor.take_until(*ENDS) if cursor.take("WHERE") else None
    choice = compaction(cursor, cursor.options(OPTION))
    return Delete(where, alias=alias, auto_compact=choice, table=table)


def update(cursor: StatementCursor) -> Update:
    """UPDATE t [AS a] SET column = expression, … [WHERE c] [WITH (options)]."""
    cursor.need("UPDATE")
    table, alias = cursor.table(), cursor.alias("SET")
    cursor.need("SET")
    assigned = assignments(cursor, "WHERE", *ENDS)
    where = cursor.take_until(*ENDS) if cursor.take("WHERE") else None
    choice = compaction(cursor, cursor.options(OPTION))
    return Update(assigned, where, alias=alias, auto_compact=choice, table=table)


def assignments(cursor: StatementCursor, *stops: str) -> dict[str, str]:
    """Parse `column = expression, …` up to one of the stops.

    Raises:
        StatementError: something else is ahead, or a column is set twice.
    """
    values: dict[str, str] = {}
    while True:
        if cursor.peek() in RESERVED and cursor.peek(1) not in {"=", "."}:
            cursor.refuse("a column to set was expected")
        position, column = cursor.position, cursor.column()
        if column in values:
            what = f"{column} is set twice."
            raise SetTwiceError(what, "Set it once.", position=position)
        cursor.need("=")
        values[column] = cursor.take_until(",", *stops)
        if not cursor.take(","):
            return values


def truncate(cursor: StatementCursor) -> Truncate:
    """TRUNCATE TABLE t."""
    cursor.need("TRUNCATE", "TABLE")
    return Truncate(table=cursor.table())


def stream(cursor: StatementCursor, table: str, options: Mapping[str, str]) -> Stream:
    """Parse the rest of a stream: its source and the closing parenthesis.

    Raises:
        StatementError: something else is ahead.
        RequestError: an option is invalid.
    """
    parameters = {
        STREAM_OPTIONS[name]: value for name, value in options.items() if name in STREAM_OPTIONS
    }
    source = cursor.table()
    cursor.need(")")
    given = {**parameters, "source_table": source, "table": table}
    command = Command.from_parameters(Stream.kind, given)
    if not isinstance(command, Stream):
        msg = "the stream's parameters could not be parsed"
        raise TypeError(msg)
    return command


def refuse_stream_options(
    cursor: StatementCursor, options: Mapping[str, str], taken: Sequence[str] = ("mergeSchema",)
) -> None:
    """Refuse options only streams have, except those in `taken`.

    Raises:
        StatementError: there is one.
    """
    for name in options:
        if name in STREAM_OPTIONS and name not in taken:
            what = f"{name} is an option of streams."
            remedy = "Write SELECT * FROM STREAM(source), or leave it out."
            raise StatementError(what, remedy, position=cursor.position)


def source(
    cursor: StatementCursor, columns: tuple[str, ...] = (), *, by_position: bool = False
) -> Source:
    """Parse the source ahead. `columns` are those an INSERT names."""
    if cursor.take("VALUES"):
        return _values(cursor, columns)
    if cursor.take("TABLE"):
        return TableSource(cursor.table(), by_position=by_position)
    if cursor.peek() not in {"SELECT", "WITH"} and not cursor.query_ahead():
        cursor.refuse("VALUES or SELECT was expected")
    return select(cursor, columns, by_position=by_position)


def select(
    cursor: StatementCursor, columns: tuple[str, ...] = (), *, by_position: bool = False
) -> Source:
    """Parse a query: read_files(…), one table with a WHERE, or any supported query."""
    if _reads_files(cursor):
        chosen = () if cursor.take("SELECT", "*") else ("…",)
        while not cursor.take("FROM"):
            cursor.index += 1
        return files(cursor, chosen or columns, by_position=by_position)
    start = cursor.index
    query = read_query(cursor)
    plain = None if columns else _parse_table_select(cursor, query, by_position=by_position)
    return plain or QuerySource(cursor.slice(start), columns, by_position)


def rows_of_values(cursor: StatementCursor) -> RowsSource | None:
    """Parse SELECT * FROM VALUES … AS name (columns); return None if something else is ahead.

    In this form Spark has literal rows with column names in a MERGE.

    Raises:
        StatementError: (`ExpressionError`) it begins this way, and does not parse.
    """
    if [cursor.peek(offset) for offset in range(4)] != ["SELECT", "*", "FROM", "VALUES"]:
        return None
    start = cursor.index
    query = read_query(cursor)
    if (rows := _parse_values_rows(cursor, query)) is None:
        cursor.index = start
    return rows


def _parse_values_rows(cursor: StatementCursor, query: QuerySyntax) -> RowsSource | None:
    ends = query.common or query.order or query.limit is not None or query.offset
    select = query.body
    if ends or not isinstance(select, SelectSyntax) or not isinstance(select.source, DerivedTable):
        return None
    table = select.source
    values, plain = table.query.body, SelectSyntax(_STAR, False, table, (), (), (), (), 0)
    if not isinstance(values, ValuesSyntax) or replace(select, position=0) != plain:
        return None
    if not table.columns or len(values.rows) > MAX_ROWS:
        return None
    if not all(_is_plain(cell) for row in values.rows for cell in row):
        return None
    rows = tuple(tuple(_text(cursor, cell) for cell in row) for row in values.rows)
    return RowsSource(tuple(map(name_sql, table.columns)), rows)


def _reads_files(cursor: StatementCursor) -> bool:
    """Return whether a SELECT from READ_FILES is ahead."""
    if cursor.peek() != "SELECT":
        return False
    offset, depth = 1, 0
    while cursor.token(offset) is not None and (depth or cursor.peek(offset) != "FROM"):
        depth += {"(": 1, ")": -1}.get(cursor.peek(offset), 0)
        offset += 1
    return cursor.peek(offset + 1) == "READ_FILES"


def _parse_table_select(
    cursor: StatementCursor, query: QuerySyntax, *, by_position: bool
) -> TableSource | None:
    """Parse a SELECT of one table without groups, order or subqueries; return None for others."""
    body = query.body
    ends = query.common or query.order or query.limit is not None or query.offset
    if ends or not isinstance(body, SelectSyntax) or not isinstance(body.source, TableName):
        return None
    table = body.source
    if body.distinct or body.group_by or body.having or body.qualify or table.columns:
        return None
    if isinstance(table.version, str):
        return None
    whole = body.items == _STAR
    texts = (body.where, *(item.tokens for item in body.items))
    if not (whole or all(item.tokens for item in body.items)) or not all(map(_is_plain, texts)):
        return None
    columns = () if whole else tuple(_item(cursor, item) for item in body.items)
    where = _text(cursor, body.where) if body.where else None
    return TableSource(table.name, columns, where, table.alias, table.version, by_position)


def _is_plain(tokens: Tokens) -> bool:
    """Return whether an expression is over one row, without subqueries."""
    words = [token.value if token.kind in {"word", "symbol"} else "" for token in tokens]
    return not any(
        word in BEGINNINGS or (after == "(" and find_window_function(word.lower()) is not None)
        for word, after in pairwise((*words, ""))
    )


def _item(cursor: StatementCursor, item: ItemSyntax) -> str:
    alias = f" AS {name_sql(item.alias)}" if item.alias else ""
    return _text(cursor, item.tokens) + alias


def _text(cursor: StatementCursor, tokens: Tokens) -> str:
    return cursor.text[tokens[0].position : tokens[-1].end]


def _values(cursor: StatementCursor, columns: tuple[str, ...]) -> RowsSource:
    rows = [_row(cursor)]
    while cursor.take(","):
        rows.append(_row(cursor))
    return RowsSource(columns, tuple(rows))


def _row(cursor: StatementCursor) -> tuple[str, ...]:
    if cursor.peek() != "(" and not cursor.at_end:
        return (cursor.take_until(",", ")", "DRY RUN"),)  # one value needs no parentheses
    cursor.need("(")
    row = items(cursor, ")")
    cursor.need(")")
    return row


def items(cursor: StatementCursor, stop: str) -> tuple[str, ...]:
    """Parse expressions with commas between them, as text, up to `stop`."""
    items = [cursor.take_until(",", stop)]
    while cursor.take(","):
        items.append(cursor.take_until(",", stop))
    return tuple(items)


def files(cursor: StatementCursor, columns: tuple[str, ...], *, by_position: bool) -> FileSource:
    """read_files('location', option => value, …).

    Raises:
        StatementError: columns or positions were requested, or an option is wrong.
    """
    position = cursor.position
    if columns or by_position:
        what = "read_files takes all columns of the files, by name."
        remedy = "Write INSERT INTO … BY NAME SELECT * FROM read_files(…)."
        raise StatementError(what, remedy, position=position)
    cursor.need("READ_FILES", "(")
    given: dict[str, str] = {"uri": cursor.string("a location")}
    while cursor.take(","):
        name = cursor.name()
        if not (cursor.take("=>") or cursor.take("=", ">")):
            cursor.refuse("=> was expected")
        token = cursor.token()
        if token is None or token.kind not in {"string", "word"}:
            cursor.refuse("the value of an option was expected")
        given[name.lower()] = token.value if token.kind == "string" else token.text.lower()
        cursor.index += 1
    cursor.need(")")
    return FileSource(**{**values_from_json(FileSource, given, {}), **exact_texts(given)})
