"""Sources in statements: VALUES, and SELECT from tables or from files."""

from dataclasses import replace
from itertools import pairwise

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
from engine.errors import StatementError
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

_STAR = (ItemSyntax((), star=True),)


def source(
    cursor: StatementCursor, columns: tuple[str, ...] = (), *, by_position: bool = False
) -> Source:
    """Parse the source ahead. `columns` are those an INSERT names.

    Raises:
        StatementError: something else is ahead.
    """
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
    """Parse a query: read_files(…), one table with a WHERE, or any supported query.

    Raises:
        StatementError: something else is ahead.
    """
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
    """Parse expressions with commas between them, as text, up to `stop`.

    Raises:
        StatementError: one is missing.
    """
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
        what = "Files are taken whole, their columns by name."
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
