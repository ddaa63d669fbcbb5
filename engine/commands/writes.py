"""Commands that change rows: append, overwrite, delete, update, truncate."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from engine.commands.after_write import OPTION, choice_option, compaction_choice
from engine.commands.command import Command, check_columns, check_source, column_path
from engine.commands.fields import parameter
from engine.commands.names import column_list, name_sql, options_sql, table_sql, where_sql
from engine.commands.sources import QuerySource, RowsSource, Source
from engine.errors import RequestError
from engine.expressions.given import Given, condition_of, value_of
from engine.expressions.queries.binding import Tables
from engine.expressions.queries.subqueries import nested_in, unbound
from engine.expressions.queries.tables import tables_in_condition
from engine.expressions.tree import Expression
from engine.schema.types import StructType

_SOURCE_HELP = "Files, rows or another table."
_SCHEMA_HELP = "Add columns that the data has and the table has not."


def _into(command: "Append | Overwrite") -> str:
    source = command.source
    columns = source.columns if isinstance(source, RowsSource | QuerySource) else ()
    listed = f" {column_list(columns)}" if columns else ""
    positional = isinstance(command.source, RowsSource) or getattr(
        command.source, "by_position", False
    )
    return f"{table_sql(command.table)}{listed}{'' if positional else ' BY NAME'}"


@dataclass(frozen=True)
class Append(Command):
    """Add rows. It reads nothing of the table."""

    kind: ClassVar[str] = "append"
    label: ClassVar[str] = "Append"
    help: ClassVar[str] = "Add rows from files, from another table, or written out."
    source: Source = parameter("Source", "source", help=_SOURCE_HELP)
    merge_schema: bool = parameter("Add new columns", "boolean", default=False, help=_SCHEMA_HELP)
    auto_compact: str = compaction_choice()

    def validate(self, schema: StructType | None) -> None:
        """As `Command.validate`."""
        check_source(self.source)
        _check_row_columns(self.source, schema)

    def statement(self) -> str:
        """As `Command.statement`."""
        options = options_sql(
            {"mergeSchema": self.merge_schema, OPTION: choice_option(self.auto_compact)}
        )
        return f"INSERT INTO {_into(self)}{options} {self.source.sql()}"


@dataclass(frozen=True)
class Overwrite(Command):
    """Replace all rows, those of a condition, or those of the partitions that the data touches."""

    kind: ClassVar[str] = "overwrite"
    label: ClassVar[str] = "Overwrite"
    help: ClassVar[str] = "Replace the table's rows, or some of them."
    destructive: ClassVar[bool] = True
    source: Source = parameter("Source", "source", help=_SOURCE_HELP)
    replace_where: Given | None = parameter(
        "Replace only where",
        "condition",
        default=None,
        help="Rows that match are replaced; every new row must match.",
    )
    overwrite_schema: bool = parameter("Replace the schema too", "boolean", default=False)
    dynamic_partitions: bool = parameter(
        "Only partitions in the data",
        "boolean",
        default=False,
        help="Partitions that the data does not touch stay.",
    )
    auto_compact: str = compaction_choice()

    def validate(self, schema: StructType | None) -> None:
        """As `Command.validate`."""
        check_source(self.source)
        _check_row_columns(self.source, schema)
        if sum(map(bool, (self.replace_where, self.overwrite_schema, self.dynamic_partitions))) > 1:
            what = "Only one of replace_where, overwrite_schema and dynamic_partitions can be."
            raise RequestError(what, "Choose one.", field="replace_where")
        if schema is not None and self.replace_where:
            self.replaced(schema)

    def replaced(self, schema: StructType, *, now_ms: int | None = None) -> Expression | None:
        """The condition of the rows it replaces; None for all."""
        if not self.replace_where:
            return None
        return condition_of(self.replace_where, self.scope(schema), now_ms=now_ms)

    def statement(self) -> str:
        """As `Command.statement`."""
        if self.replace_where:
            return (
                f"INSERT INTO {_into(self)}{_options(self)} REPLACE WHERE {self.replace_where}"
                f" {self.source.sql()}"
            )
        mode = "dynamic" if self.dynamic_partitions else ""
        options: dict[str, str | bool | int | None] = {
            "overwriteSchema": self.overwrite_schema,
            "partitionOverwriteMode": mode,
            OPTION: choice_option(self.auto_compact),
        }
        return f"INSERT OVERWRITE {_into(self)}{options_sql(options)} {self.source.sql()}"


@dataclass(frozen=True)
class Delete(Command):
    """Remove rows."""

    kind: ClassVar[str] = "delete"
    label: ClassVar[str] = "Delete"
    help: ClassVar[str] = "Remove the rows that match a condition."
    destructive: ClassVar[bool] = True
    subqueries: ClassVar[bool] = True
    where: Given | None = parameter(
        "Where", "condition", default=None, help="Left out, every row goes."
    )
    alias: str = parameter("Alias", "text", default="")
    auto_compact: str = compaction_choice()

    def validate(self, schema: StructType | None) -> None:
        """As `Command.validate`."""
        if schema is not None:
            self.condition(schema)

    def statement(self) -> str:
        """As `Command.statement`."""
        place = f"{table_sql(self.table)}{_alias(self.alias)}"
        return f"DELETE FROM {place}{where_sql(self.where)}{_options(self)}"  # noqa: S608


@dataclass(frozen=True)
class Update(Command):
    """Change columns of rows."""

    kind: ClassVar[str] = "update"
    label: ClassVar[str] = "Update"
    help: ClassVar[str] = "Set columns of the rows that match a condition."
    destructive: ClassVar[bool] = True
    subqueries: ClassVar[bool] = True
    assignments: Mapping[str, Given] = parameter(
        "Set", "assignments", help="Column to expression, over the row as it was."
    )
    where: Given | None = parameter(
        "Where", "condition", default=None, help="Left out, every row changes."
    )
    alias: str = parameter("Alias", "text", default="")
    auto_compact: str = compaction_choice()

    def validate(self, schema: StructType | None) -> None:
        """As `Command.validate`."""
        if not self.assignments:
            what = "UPDATE sets nothing."
            raise RequestError(what, "Give at least one column.", field="assignments")
        check_columns(tuple(self.assignments), None, "assignments")
        if schema is not None:
            self.condition(schema)
            self.assigned(schema)

    def assigned(
        self, schema: StructType, *, now_ms: int | None = None, tables: Tables | None = None
    ) -> dict[tuple[str, ...], Expression]:
        """The assignments as trees, by the path of the column; subqueries as in `condition`."""
        scope = self.scope(schema)
        nested = unbound if tables is None else nested_in(tables)
        return dict(
            value_of(value, scope, scope.resolve(column_path(key)), now_ms=now_ms, nested=nested)
            for key, value in self.assignments.items()
        )

    def tables_read(self) -> tuple[str, ...]:
        """As `Command.tables_read`, with the subqueries of its values."""
        texts = (value for value in self.assignments.values() if isinstance(value, str))
        inner = (name for text in texts for name in tables_in_condition(text))
        return tuple(dict.fromkeys((*super().tables_read(), *inner)))

    def statement(self) -> str:
        """As `Command.statement`."""
        pairs = ", ".join(f"{column} = {value}" for column, value in self.assignments.items())
        place = f"{table_sql(self.table)}{_alias(self.alias)}"
        return f"UPDATE {place} SET {pairs}{where_sql(self.where)}{_options(self)}"  # noqa: S608


@dataclass(frozen=True)
class Truncate(Command):
    """Remove every row."""

    kind: ClassVar[str] = "truncate"
    label: ClassVar[str] = "Truncate"
    help: ClassVar[str] = "Remove every row; the history keeps them until VACUUM."
    destructive: ClassVar[bool] = True

    def statement(self) -> str:
        """As `Command.statement`."""
        return f"TRUNCATE TABLE {table_sql(self.table)}"


def _options(command: "Overwrite | Delete | Update") -> str:
    return options_sql({OPTION: choice_option(command.auto_compact)})


def _alias(alias: str) -> str:
    return f" AS {name_sql(alias)}" if alias else ""


def _check_row_columns(source: Source, schema: StructType | None) -> None:
    if isinstance(source, RowsSource | QuerySource) and source.columns:
        check_columns(source.columns, schema, "source.columns")
