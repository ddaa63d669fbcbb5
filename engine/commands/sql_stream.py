"""INSERT INTO … SELECT * FROM STREAM(source): from tokens to a command."""

from collections.abc import Mapping, Sequence

from engine.commands.command import Command
from engine.commands.statement_cursor import StatementCursor
from engine.commands.stream import STREAM_OPTIONS, Stream
from engine.errors import StatementError


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
    found = Command.from_parameters(Stream.kind, given)
    if not isinstance(found, Stream):
        msg = "a stream's parameters make a stream"
        raise TypeError(msg)
    return found


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
