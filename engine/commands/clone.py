"""CREATE TABLE … SHALLOW CLONE and DEEP CLONE: a new table with the files of another one."""

from dataclasses import dataclass
from typing import ClassVar

from engine.commands.command import Command
from engine.commands.fields import parameter
from engine.commands.names import table_sql
from engine.commands.time_travel import check_point, point_sql
from engine.errors import RequestError
from engine.schema.types import StructType
from engine.vocabulary import CLONE, CLONE_TO_NEW, Operation


@dataclass(frozen=True)
class Clone(Command):
    """A table over the files of a version of another one, or over copies of them."""

    kind: ClassVar[str] = "clone"
    help: ClassVar[str] = (
        "Make the table a copy of another one, which shares its files or has its own."
    )
    source_table: str = parameter("Clone of", "text", help="The name or location of a Delta table.")
    version: int | None = parameter(
        "At version", "integer", default=None, minimum=0, help="Left out, the latest."
    )
    timestamp: str | None = parameter(
        "At time", "timestamp", default=None, help="The version that was current then; UTC."
    )
    if_not_exists: bool = parameter(
        "Only if there is none", "boolean", default=False, help="Otherwise nothing is done."
    )
    replace: bool = parameter(
        "Replace", "boolean", default=False, help="A table that is there gives way, schema and all."
    )
    deep: bool = parameter(
        "Copy the files",
        "boolean",
        default=False,
        help="The clone stands on its own. Done again, with replace, it copies what is new alone.",
    )

    @property
    def operation(self) -> Operation:
        """The operation: only OR REPLACE replaces an existing table."""
        return CLONE if self.replace else CLONE_TO_NEW

    def validate(self, schema: StructType | None) -> None:  # noqa: ARG002
        """Refuse invalid parameters; the schema of an existing table does not matter."""
        if not self.source_table:
            what = "The clone has no source."
            raise RequestError(what, "Name the table to clone.", field="source_table")
        if self.if_not_exists and self.replace:
            what = "IF NOT EXISTS and OR REPLACE exclude one another."
            raise RequestError(what, "Choose one.", field="replace")
        check_point(self.version, self.timestamp, "CLONE")

    def statement(self) -> str:
        """Render the command as SQL; `parse_statement` returns an equal command."""
        head = "CREATE OR REPLACE TABLE" if self.replace else "CREATE TABLE"
        guard = " IF NOT EXISTS" if self.if_not_exists else ""
        point = point_sql(self.version, self.timestamp)
        source = f"{table_sql(self.source_table)} {point}".rstrip()
        depth = "DEEP" if self.deep else "SHALLOW"
        return f"{head}{guard} {table_sql(self.table)} {depth} CLONE {source}"
