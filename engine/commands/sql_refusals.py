"""Known but unsupported statements: each is refused by name, with an alternative."""

from collections.abc import Callable, Sequence
from difflib import get_close_matches

from engine.commands.names import table_sql
from engine.commands.statement_cursor import StatementCursor
from engine.errors import OnlyReadsError, StatementError
from engine.expressions.lexer import Token
from engine.expressions.queries.reader import read_query
from engine.expressions.queries.syntax import (
    SelectSyntax,
    TableName,
    Tokens,
    selects_of,
    text_of,
)
from engine.expressions.render import quote_string

_TRANSACTIONS = frozenset({"BEGIN", "COMMIT", "ROLLBACK", "START", "SAVEPOINT", "END", "ABORT"})
_KINDS_OF_BEGIN = frozenset({"", ";", "ATOMIC", "TRANSACTION", "TRAN", "WORK"})
"""Words after a BEGIN that opens a transaction; otherwise a script follows."""
_QUERIES = frozenset({"SELECT", "WITH", "VALUES", "FROM", "TABLE", "("})
_READS = frozenset({"SHOW", "DESCRIBE", "DESC", "EXPLAIN"})
_OBJECTS = {
    "TBLPROPERTIES": "summary",
    "COLUMNS": "schema",
    "PARTITIONS": "files",
    "HISTORY": "history",
    "DETAIL": "summary",
}
"""Objects of SHOW and DESCRIBE, and the table's page with them."""
_LISTS = frozenset({"TABLES", "VIEWS", "SCHEMAS", "DATABASES", "CATALOGS"})
_PAGES = {
    "data": "the Rows page of the table",
    "summary": "the page of the table",
    "schema": "the Schema page of the table",
    "files": "the Files page of the table",
    "history": "the History page of the table",
}
_IN_PYTHON = {
    "data": "snapshot().to_arrow()",
    "summary": "snapshot().metadata",
    "schema": "snapshot().schema",
    "files": "snapshot().add_files()",
    "history": "history()",
}
"""Objects of SHOW and DESCRIBE, and their methods of `engine.table.DeltaTable`."""


def not_known(cursor: StatementCursor, statements: Sequence[str]) -> StatementError:
    """Build the error for the unsupported statement ahead."""
    word = cursor.peek() or (cursor.tokens[0].text if cursor.tokens else "")
    position = cursor.position
    if word in _TRANSACTIONS:
        return StatementError(*refuse_transaction(word), position=position)
    if word in _QUERIES:
        return _query(cursor, word)
    if word in _READS:
        return _description(cursor, word)
    if word in _REFUSED:
        what, remedy = _REFUSED[word](cursor)
        return StatementError(what, remedy, position=position)
    what = f"No supported statement begins with {word[:60]!r}."
    near = get_close_matches(word, statements, n=1)
    remedy = f"Did you mean {near[0]}?" if near else f"Use {', '.join(statements)}."
    return StatementError(what, remedy, position=position)


def opens_transaction(cursor: StatementCursor) -> bool:
    """Return whether the statement ahead is about a transaction, and not a script of Spark's."""
    word, following = cursor.peek(), cursor.peek(1)
    return word in _TRANSACTIONS and (word != "BEGIN" or following in _KINDS_OF_BEGIN)


def refuse_transaction(word: str) -> tuple[str, str]:
    """Return why a transaction is not opened or ended by a statement, and the alternative."""
    what = f"{word} is not supported: a transaction is one block, BEGIN ATOMIC …; …; END."
    remedy = (
        "Put the INSERT, UPDATE, DELETE and MERGE statements on one table into such a block. "
        "Outside it, statements separated by semicolons run in order, each with its own commit."
    )
    return what, remedy


def _query(cursor: StatementCursor, word: str) -> OnlyReadsError:
    """Build the error for a SELECT, with the page that shows its table's matching rows."""
    position, table, condition = cursor.position, "", ""
    try:
        query = read_query(cursor)
        for select in selects_of(query.body):
            table, condition = _table_and_condition(select)
            break
    except StatementError:
        pass  # report only that it reads
    return _only_reads(word, "data", table, condition, position)


def _table_and_condition(select: SelectSyntax) -> tuple[str, str]:
    if not isinstance(select.source, TableName):
        return "", ""
    table = select.source
    names = {name.lower() for name in (table.alias, table.name.rpartition(".")[2]) if name}
    return table.name, text_of(_drop_qualifiers(select.where, names))


def _drop_qualifiers(tokens: Tokens, names: set[str]) -> Tokens:
    """Drop the table's name before its columns: the page knows one table."""
    kept: list[Token] = []
    for token in tokens:
        dot = token.kind == "symbol" and token.value == "."
        before = kept[-2] if len(kept) > 1 else None
        first = before is None or before.value != "."
        if dot and kept and first and kept[-1].value.lower() in names:
            kept.pop()
        else:
            kept.append(token)
    return tuple(kept)


def _description(cursor: StatementCursor, word: str) -> OnlyReadsError:
    position = cursor.position
    cursor.index += 1
    page = _OBJECTS.get(cursor.peek(), "")
    if page:
        cursor.index += 1
        cursor.take("IN") or cursor.take("FROM")
    else:
        page = "schema"
        cursor.take("TABLE")
        cursor.take("EXTENDED")
    if word == "EXPLAIN":
        what = "EXPLAIN is not supported: it only reads, and jobs write."
        remedy = "Remove EXPLAIN, and request a dry run: it shows what the statement would change."
        return OnlyReadsError(what, remedy, position=position)
    if word == "SHOW" and cursor.peek() in _LISTS:
        what = f"SHOW {cursor.peek()} is not supported: it only reads, and jobs write."
        return OnlyReadsError(what, "See the Tables page.", position=position)
    try:
        table = cursor.table()
    except StatementError:
        table = ""
    return _only_reads(word, page, table, "", position)


def _only_reads(word: str, page: str, table: str, condition: str, position: int) -> OnlyReadsError:
    what = f"{word[:60]} is not supported: it only reads, and jobs write."
    where = f" {table[:200]}" if table else ""
    remedy = f"See {_PAGES[page]}{where}. In Python, use {_IN_PYTHON[page]} of DeltaTable."
    error = OnlyReadsError(what, remedy, position=position)
    error.table, error.page, error.condition = table, page, condition
    return error


def _drop(_: StatementCursor) -> tuple[str, str]:
    what = "DROP is not supported: tables are unregistered, not dropped."
    return what, "Unregister the table on its page or over REST. Its files stay."


def _copy(cursor: StatementCursor) -> tuple[str, str]:
    """COPY INTO t FROM 'place' FILEFORMAT = format: said again as an INSERT."""
    what = "COPY INTO is not supported: this engine keeps no list of the files it has loaded."
    table, place, kind = "t", "/data/new.csv", "csv"
    try:
        cursor.need("COPY", "INTO")
        table = cursor.table()
        cursor.need("FROM")
        place = cursor.string("a location")
        cursor.need("FILEFORMAT", "=")
        kind = cursor.name().lower()
    except StatementError:
        pass  # keep the example
    table, place, kind = table[:200], place[:200], kind[:20]
    rows = f"read_files({quote_string(place)}, format => {quote_string(kind)})"
    remedy = f"Load the files with INSERT INTO {table_sql(table)} BY NAME SELECT * FROM {rows}."  # noqa: S608
    return what, remedy


def _convert(_: StatementCursor) -> tuple[str, str]:
    what = "CONVERT TO DELTA is not supported as a job: a job runs on a registered table."
    remedy = (
        "Convert it from Python (engine.delta.tables.DeltaTable.convertToDelta), then register it"
        " under Tables."
    )
    return what, remedy


def _generate(_: StatementCursor) -> tuple[str, str]:
    what = "GENERATE is not supported as a job."
    remedy = "In Python, use generate('symlink_format_manifest') of engine.delta.tables.DeltaTable."
    return what, remedy


def _session(cursor: StatementCursor) -> tuple[str, str]:
    what = f"{cursor.peek()} changes a session, and a job has no session of its own."
    return what, "Set options in the statement: WITH ('option' = 'value')."


def _database(cursor: StatementCursor) -> tuple[str, str]:
    what = f"{cursor.peek()} is not supported: only tables are managed here."
    return what, "Use full table names. Grant roles on tables in the admin or over REST."


def _statistics(cursor: StatementCursor) -> tuple[str, str]:
    what = f"{cursor.peek()} is not supported: statistics are written with each file."
    return what, "Remove it. OPTIMIZE rewrites files together with their statistics."


def _program(cursor: StatementCursor) -> tuple[str, str]:
    what = f"{cursor.peek()} is not supported: a statement cannot run code."
    return what, "Use the functions in docs/sql.md, or a Python program with enable(spark)."


_REFUSED: dict[str, Callable[[StatementCursor], tuple[str, str]]] = {
    "DROP": _drop,
    "COPY": _copy,
    "CONVERT": _convert,
    "GENERATE": _generate,
    **dict.fromkeys(("SET", "RESET", "USE", "DECLARE"), _session),
    **dict.fromkeys(("GRANT", "REVOKE", "DENY"), _database),
    **dict.fromkeys(("ANALYZE", "CACHE", "UNCACHE", "REFRESH", "MSCK", "FSCK"), _statistics),
    **dict.fromkeys(("CALL", "EXECUTE", "ADD", "LOAD", "IMPORT", "EXPORT", "LIST"), _program),
}


def list_refusals() -> dict[str, tuple[str, str]]:
    """Return the error texts of statements refused by name, by first word."""
    return {word: say(StatementCursor.from_text(word)) for word, say in _REFUSED.items()}
