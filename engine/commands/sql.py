"""Statements to commands: a small grammar that knows these statements and refuses all others.

Conditions inside a statement stay text here; they become trees when the command meets a schema.
"""

from collections.abc import Callable

from engine.commands.command import Command
from engine.commands.script import Script
from engine.commands.sql_alter import alter
from engine.commands.sql_definition import create
from engine.commands.sql_maintenance import optimize, reorg, restore, vacuum
from engine.commands.sql_merge import merge
from engine.commands.sql_writes import delete, insert, truncate, update
from engine.commands.statement_cursor import StatementCursor
from engine.errors import StatementError
from engine.expressions.lexer import Token

_STATEMENTS: dict[str, Callable[[StatementCursor], Command]] = {
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
}
_TRANSACTIONS = frozenset({"BEGIN", "COMMIT", "ROLLBACK", "START", "SAVEPOINT", "END", "ABORT"})
_READS = frozenset(
    {"SELECT", "WITH", "VALUES", "FROM", "TABLE", "SHOW", "DESCRIBE", "DESC", "EXPLAIN"}
)


def parse_statement(text: str) -> Command:
    """The command that a statement says; DRY RUN at its end is left out (see `parse_request`).

    Raises:
        StatementError: it says none that is known; `position` is the offset of the fault.
    """
    return parse_request(text)[0]


def parse_request(text: str) -> tuple[Command, bool]:
    """The command and whether the statement ends in DRY RUN. Errors as `parse_statement`.

    Several statements with semicolons between them are one `Script`, which a DRY RUN at the end of
    the last plans as a whole.
    """
    cursor = StatementCursor.over(text)
    parts = _statements(cursor)
    if not parts:
        what = "The statement is empty."
        raise StatementError(what, "Write one.", position=0)
    found = [_one(cursor.text, part) for part in parts]
    for part, (_, dry_run) in zip(parts[:-1], found[:-1], strict=True):
        if dry_run:
            what = "DRY RUN stands at the end of a script, for all of it."
            raise StatementError(what, "Move it there.", position=part[-1].position)
    command, dry_run = found[-1]
    if len(found) > 1:
        command = Script(tuple(each for each, _ in found))
    command.validate(None)
    return command, dry_run


def _statements(cursor: StatementCursor) -> list[list[Token]]:
    """The tokens of each statement; a semicolon is part of no statement."""
    parts: list[list[Token]] = [[]]
    for each in cursor.tokens:
        if each.kind == "symbol" and each.value == ";":
            parts.append([])
        else:
            parts[-1].append(each)
    return [part for part in parts if part]


def _one(text: str, tokens: list[Token]) -> tuple[Command, bool]:
    cursor = StatementCursor(tokens, text)
    read = _STATEMENTS.get(cursor.peek())
    if read is None:
        raise _not_known(cursor)
    command = read(cursor)
    dry_run = cursor.take("DRY", "RUN")
    cursor.end()
    return command, dry_run


def _not_known(cursor: StatementCursor) -> StatementError:
    word = cursor.peek() or (cursor.tokens[0].text if cursor.tokens else "")
    position = cursor.position
    if word in _TRANSACTIONS:
        what = f"{word} is not supported: a transaction covers one table and one statement."
        remedy = (
            "Use MERGE to change a table in one commit, or send statements with ; between them: each "
            "commits by itself, in order."
        )
        return StatementError(what, remedy, position=position)
    if word in _READS:
        what = f"{word[:60]} reads, and jobs only write."
        return StatementError(
            what, "Use the preview and the history of the table.", position=position
        )
    if word == "DROP":
        what = "DROP is not supported: tables are unregistered, not dropped."
        return StatementError(
            what, "Unregister the table on its page or by REST; its files stay.", position=position
        )
    what = f"{word[:60]!r} begins no statement that is understood."
    return StatementError(what, f"Use {', '.join(_STATEMENTS)}.", position=position)
