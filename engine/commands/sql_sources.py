"""Sources in statements: VALUES, and SELECT from one table or from files."""

from engine.commands.fields import values_from_json
from engine.commands.sources import FileSource, RowsSource, Source, TableSource, exact_texts
from engine.commands.statement_cursor import StatementCursor
from engine.errors import StatementError

_JOINS = ("JOIN", "INNER JOIN", "CROSS JOIN", "LEFT JOIN", "LEFT OUTER", "LEFT SEMI", "LEFT ANTI")
_MORE_JOINS = (
    "RIGHT JOIN",
    "RIGHT OUTER",
    "FULL JOIN",
    "FULL OUTER",
    "NATURAL JOIN",
    "LATERAL VIEW",
)
_ENDINGS = ("GROUP BY", "HAVING", "ORDER BY", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "WINDOW")
_CLAUSES = (*_JOINS, *_MORE_JOINS, *_ENDINGS)
_FIRST_WORDS = tuple({each.split()[0] for each in _CLAUSES})


def source(
    cursor: StatementCursor, columns: tuple[str, ...] = (), *, by_position: bool = False
) -> Source:
    """The source ahead. `columns` are those an INSERT names.

    Raises:
        StatementError: something else is ahead.
    """
    if cursor.take("VALUES"):
        return _values(cursor, columns)
    if cursor.take("TABLE"):
        return TableSource(cursor.table(), by_position=by_position)
    if cursor.peek() != "SELECT":
        cursor.refuse("VALUES or SELECT was expected")
    if columns:
        what = "Columns before a SELECT are not understood."
        remedy = "Give the SELECT's columns names with AS, and write INSERT INTO … BY NAME."
        raise StatementError(what, remedy, position=cursor.position)
    return select(cursor, by_position=by_position)


def select(cursor: StatementCursor, *, by_position: bool = False) -> Source:
    """SELECT * or columns FROM a table or readfiles(…) [WHERE condition].

    Raises:
        StatementError: something else is ahead.
    """
    cursor.need("SELECT")
    columns = () if cursor.take("*") else items(cursor, "FROM")
    cursor.need("FROM")
    if cursor.peek() == "READ_FILES":
        return files(cursor, columns, by_position=by_position)
    table = cursor.table()
    version = cursor.integer() if cursor.take("VERSION", "AS", "OF") else None
    alias = cursor.alias("WHERE", "DRY", "ON", "WHEN", ")", *_FIRST_WORDS)
    where = cursor.until(")", ";", "DRY RUN", *_CLAUSES) if cursor.take("WHERE") else None
    if cursor.peek() in _FIRST_WORDS:
        what = f"{cursor.peek()} is not understood in a source."
        remedy = "Select from one table with a WHERE; prepare anything more in another table."
        raise StatementError(what, remedy, position=cursor.position)
    return TableSource(table, columns, where, alias, version, by_position)


def _values(cursor: StatementCursor, columns: tuple[str, ...]) -> RowsSource:
    rows = [_row(cursor)]
    while cursor.take(","):
        rows.append(_row(cursor))
    return RowsSource(columns, tuple(rows))


def _row(cursor: StatementCursor) -> tuple[str, ...]:
    cursor.need("(")
    row = items(cursor, ")")
    cursor.need(")")
    return row


def items(cursor: StatementCursor, stop: str) -> tuple[str, ...]:
    """Expressions with commas between them, as text, up to `stop`.

    Raises:
        StatementError: one is missing.
    """
    items = [cursor.until(",", stop)]
    while cursor.take(","):
        items.append(cursor.until(",", stop))
    return tuple(items)


def files(cursor: StatementCursor, columns: tuple[str, ...], *, by_position: bool) -> FileSource:
    """read_files('location', option => value, …).

    Raises:
        StatementError: columns or positions were asked for, or an option is wrong.
    """
    position = cursor.position
    if columns or by_position:
        what = "Files are taken whole, their columns by name."
        remedy = "Write INSERT INTO … BY NAME SELECT * FROM readfiles(…)."
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
