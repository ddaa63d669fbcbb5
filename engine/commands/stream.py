"""The stream command: copies new rows of one table into another."""

import re
from dataclasses import dataclass
from typing import ClassVar

from engine.commands.command import Command
from engine.commands.fields import parameter
from engine.commands.names import options_sql, table_sql
from engine.commands.sources import TableSource
from engine.commands.writes import OPTION, choice_option, compaction_choice
from engine.errors import RequestError
from engine.schema.types import StructType

DEFAULT_MAX_FILES = 1000
_NAME = re.compile(r"[\w .:/@-]{0,200}\Z")


@dataclass(frozen=True)
class Stream(Command):
    """Append new rows of another table, each file once, up to its current version.

    Jobs with the same name and source continue each other: their progress is in the target's log.
    """

    kind: ClassVar[str] = "stream"
    help: ClassVar[str] = "Copy the rows that another table has gained since the last run."
    source_table: str = parameter(
        "Source table", "text", help="The name or location of a Delta table."
    )
    stream_name: str = parameter(
        "Name of the stream",
        "text",
        default="",
        help="A stream continues where the last stream of the same name and source ended. The "
        "source's location is the name by default.",
    )
    starting_version: int | None = parameter(
        "Start at version",
        "integer",
        default=None,
        minimum=0,
        help="The first version a new stream reads. By default it starts with a full copy of "
        "the table.",
    )
    max_files_per_batch: int = parameter(
        "Maximum number of files in a batch", "integer", default=DEFAULT_MAX_FILES, minimum=1
    )
    skip_change_commits: bool = parameter(
        "Skip versions that change rows", "boolean", default=False
    )
    ignore_deletes: bool = parameter("Skip removals of whole files", "boolean", default=False)
    ignore_changes: bool = parameter(
        "Read rewritten files again",
        "boolean",
        default=False,
        help="Unchanged rows of a rewritten file are then read again.",
    )
    accept_schema_version: int | None = parameter(
        "Accept the source's schema up to version",
        "integer",
        default=None,
        minimum=0,
        help="A change to the source's schema stops the stream until you accept it.",
    )
    merge_schema: bool = parameter(
        "Add new columns",
        "boolean",
        default=False,
        help="Add columns that the source has and this table lacks.",
    )
    auto_compact: str = compaction_choice()

    def application(self, source_uri: str, source_id: str) -> str:
        """Return the application id of its progress, for a source table's location and id."""
        return f"lake-stream:{self.stream_name or source_uri}:{source_id}"

    @property
    def source(self) -> TableSource:
        """The source table."""
        return TableSource(self.source_table)

    def validate(self, schema: StructType | None) -> None:  # noqa: ARG002 - the source decides
        """Refuse invalid parameters, and if a schema is given, those invalid for it."""
        if not self.source_table:
            what = "The stream has no source."
            raise RequestError(what, "Name a table.", field="source_table")
        if not _NAME.match(self.stream_name):
            what = f"A stream cannot be called {self.stream_name[:60]!r}."
            remedy = "Use at most 200 letters, digits, spaces and the characters _ . : / @ -"
            raise RequestError(what, remedy, field="stream_name")

    def statement(self) -> str:
        """Render the command as SQL; `parse_statement` returns an equal command."""
        few = self.max_files_per_batch != DEFAULT_MAX_FILES
        options = options_sql(
            {
                "streamName": self.stream_name,
                "startingVersion": _number_text(self.starting_version),
                "maxFilesPerBatch": self.max_files_per_batch if few else "",
                "skipChangeCommits": self.skip_change_commits,
                "ignoreDeletes": self.ignore_deletes,
                "ignoreChanges": self.ignore_changes,
                "acceptSchemaVersion": _number_text(self.accept_schema_version),
                "mergeSchema": self.merge_schema,
                OPTION: choice_option(self.auto_compact),
            }
        )
        source = table_sql(self.source_table)
        return (
            f"INSERT INTO {table_sql(self.table)} BY NAME{options} SELECT * FROM STREAM({source})"  # noqa: S608
        )


STREAM_OPTIONS = {
    "streamName": "stream_name",
    "startingVersion": "starting_version",
    "maxFilesPerBatch": "max_files_per_batch",
    "skipChangeCommits": "skip_change_commits",
    "ignoreDeletes": "ignore_deletes",
    "ignoreChanges": "ignore_changes",
    "acceptSchemaVersion": "accept_schema_version",
    "mergeSchema": "merge_schema",
}
"""The names of its parameters in a statement's WITH."""


def _number_text(value: int | None) -> str:
    """Render a number as text, to distinguish 0 from omitted."""
    return "" if value is None else str(value)
