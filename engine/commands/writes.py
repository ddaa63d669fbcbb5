"""Commands for rows: append, overwrite, delete, update, truncate.

PARTITION and REPLACE are checked and rendered here, and so is the choice of a write to compact
afterwards or not, which overrides the table's setting.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from engine.commands.column_sql import or_default
from engine.commands.command import Command, check_columns, check_source
from engine.commands.fields import parameter
from engine.commands.names import (
    column_list,
    name_sql,
    options_sql,
    quote_name,
    render_where,
    table_sql,
)
from engine.commands.sources import (
    ArrowSource,
    DataFrameSource,
    FileSource,
    QuerySource,
    RowsSource,
    Source,
    TableSource,
)
from engine.errors import RequestError
from engine.expressions import build
from engine.expressions.parse import Given, parse_expression, row_condition, value_of
from engine.expressions.queries.binding import Tables
from engine.expressions.queries.reader import check_calls
from engine.expressions.queries.subqueries import bind_subqueries, parse_unbound
from engine.expressions.queries.tables import tables_in_condition
from engine.expressions.scope import Scope
from engine.expressions.traits import conjunction
from engine.expressions.tree import VOID, Column, Expression, Literal
from engine.expressions.types import is_cast_by_zone
from engine.schema.column_paths import column_path
from engine.schema.types import StructType
from engine.schema.write_errors import SetTwiceError
from engine.vocabulary import OVERWRITE, REPLACE_ROWS, Operation

TARGET = "__lake_table"
"""The table's name in conditions rendered here."""
_SOURCE = "__lake_new_rows"
_FEW = 1000

OPTION = "autoCompact"
AS_TABLE, ON, OFF = "as_table", "on", "off"
_SAID = {"true": ON, "on": ON, "false": OFF, "off": OFF}

_SOURCE_HELP = "Files, rows or another table."
_SCHEMA_HELP = "Add columns that the data has and the table lacks."
_PARTITION_HELP = (
    "Partition columns and their literal values, for all rows. A column without a value "
    "takes it from the data."
)


def compaction_choice() -> Any:  # noqa: ANN401 - a dataclass field
    """Declare the compaction field of a writing command."""
    return parameter(
        "Compact afterwards",
        "choice",
        choices=(AS_TABLE, ON, OFF),
        default=AS_TABLE,
        help="Compact small files in a separate commit after this one. The value as_table "
        "follows delta.autoOptimize.autoCompact.",
    )


def choice_option(choice: str) -> str:
    """Return the choice as an option's value in a statement, "" for the table's setting."""
    return "" if choice == AS_TABLE else {ON: "true", OFF: "false"}[choice]


def choice_of(text: str | None) -> str | None:
    """Parse an option's value as a choice; a missing one is the table's. None if invalid."""
    return AS_TABLE if text is None else _SAID.get(text.lower())


@dataclass(frozen=True)
class Append(Command):
    """Add rows. It reads nothing of the table."""

    kind: ClassVar[str] = "append"
    help: ClassVar[str] = "Add rows from files, from another table, or from literals."
    source: Source = parameter("Source", "source", help=_SOURCE_HELP)
    merge_schema: bool = parameter("Add new columns", "boolean", default=False, help=_SCHEMA_HELP)
    auto_compact: str = compaction_choice()
    partition: Mapping[str, str] = parameter(
        "Partition", "mapping", default={}, help=_PARTITION_HELP
    )

    def validate(self, schema: StructType | None) -> None:
        """Refuse invalid parameters, and if a schema is given, those invalid for it."""
        check_source(self.source)
        _check_row_columns(self.source, schema)
        check_partition(self.partition, self.source)

    def statement(self) -> str:
        """Render the command as SQL; `parse_statement` returns an equal command."""
        options = options_sql(
            {"mergeSchema": self.merge_schema, OPTION: choice_option(self.auto_compact)}
        )
        return f"INSERT INTO {_render_target(self)}{options} {self.source.sql()}"


@dataclass(frozen=True)
class ReplaceClause:
    """The rows an overwrite replaces: by columns (`using`), or by a condition."""

    source: Source
    using: tuple[str, ...]
    on: str | None
    alias: str
    source_alias: str


@dataclass(frozen=True)
class Overwrite(Command):
    """Replace all rows, those of a condition, or those of the partitions in the data."""

    kind: ClassVar[str] = "overwrite"
    help: ClassVar[str] = "Replace the table's rows, or some of them."
    source: Source = parameter("Source", "source", help=_SOURCE_HELP)
    replace_where: Given | None = parameter(
        "Replace only where",
        "condition",
        default=None,
        help="Matching rows are replaced. Every new row must match too.",
    )
    overwrite_schema: bool = parameter("Replace the schema too", "boolean", default=False)
    dynamic_partitions: bool = parameter(
        "Only partitions in the data",
        "boolean",
        default=False,
        help="Partitions without new rows stay as they are.",
    )
    auto_compact: str = compaction_choice()
    partition: Mapping[str, str] = parameter(
        "Partition", "mapping", default={}, help=_PARTITION_HELP
    )
    replace_using: tuple[str, ...] = parameter(
        "Replace by columns",
        "columns",
        default=(),
        help="Rows are replaced if a new row has the same values in these columns.",
    )
    replace_on: str | None = parameter(
        "Replace on",
        "condition",
        default=None,
        help="Rows are replaced if this condition is true for them and a new row.",
    )
    alias: str = parameter(
        "Alias", "text", default="", help="The alias of the table in the REPLACE ON condition."
    )
    source_alias: str = parameter("Alias of the source", "text", default="")
    merge_schema: bool = parameter("Add new columns", "boolean", default=False, help=_SCHEMA_HELP)

    def validate(self, schema: StructType | None) -> None:
        """Refuse invalid parameters, and if a schema is given, those invalid for it."""
        check_source(self.source)
        _check_row_columns(self.source, schema)
        check_partition(self.partition, self.source)
        if self.merge_schema and self.overwrite_schema:
            what = "merge_schema adds columns, and overwrite_schema replaces them all."
            raise RequestError(what, "Choose one.", field="merge_schema")
        ways = (self.replace_where, self.overwrite_schema, self.dynamic_partitions)
        others = (self.replace_using, self.replace_on)
        if sum(map(bool, (*ways, *others))) > 1:
            what = "Only one of replace_where, overwrite_schema, dynamic_partitions, replace_using "
            what += "and replace_on can be set."
            raise RequestError(what, "Choose one.", field="replace_where")
        if self.partition and any((self.replace_where, self.overwrite_schema, *others)):
            what = (
                "PARTITION cannot be combined with another clause that selects the rows to replace."
            )
            raise RequestError(what, "Choose one.", field="partition")
        if any(others):
            check_matched(self.source, self.replace_using, schema)
        if schema is not None:
            self.parse_replace_where(schema)

    def parse_replace_where(
        self, schema: StructType, *, now_ms: int | None = None
    ) -> Expression | None:
        """Parse the condition of the replaced rows; None for all, and if the new rows decide."""
        if self.replace_where:
            scope = self.scope(schema)
            return row_condition(self.replace_where, scope, "REPLACE WHERE", now_ms=now_ms)
        if self.dynamic_partitions:
            return None
        return partition_condition(self.partition, schema)

    @property
    def operation(self) -> Operation:
        """The operation: existing rows may remain."""
        told = self.replace_where or self.replace_using or self.replace_on
        some = told or self.dynamic_partitions or any(self.partition.values())
        return REPLACE_ROWS if some else OVERWRITE

    @property
    def _replacing(self) -> ReplaceClause:
        return ReplaceClause(
            self.source, self.replace_using, self.replace_on, self.alias, self.source_alias
        )

    def render_match(self, columns: Sequence[str]) -> str:
        """Render the condition for table rows a new row replaces; "" if there is none.

        `columns` are the target columns of the source's columns, in order.
        """
        if not self.replace_using and not self.replace_on:
            return ""
        return match_condition(self._replacing, columns)

    def tables_read(self) -> tuple[str, ...]:
        """Return the tables named by its source, conditions and REPLACE ON, as written."""
        inner = tables_in_condition(self.replace_on) if self.replace_on else ()
        return tuple(dict.fromkeys((*super().tables_read(), *inner)))

    def statement(self) -> str:
        """Render the command as SQL; `parse_statement` returns an equal command."""
        if self.replace_where:
            return (
                f"INSERT{_evolution(self)} INTO {_render_target(self)}{_options(self)} "
                f"REPLACE WHERE {self.replace_where}"
                f" {self.source.sql()}"
            )
        if self.replace_using or self.replace_on:
            evolution = _evolution(self)
            return render_replace(
                self._replacing, f"{evolution} INTO {_render_target(self)}{_options(self)}"
            )
        mode = "dynamic" if self.dynamic_partitions else ""
        options: dict[str, str | bool | int | None] = {
            "overwriteSchema": self.overwrite_schema,
            "partitionOverwriteMode": mode,
            OPTION: choice_option(self.auto_compact),
        }
        return (
            f"INSERT{_evolution(self)} OVERWRITE {_render_target(self)}{options_sql(options)} "
            f"{self.source.sql()}"
        )


@dataclass(frozen=True)
class Delete(Command):
    """Remove rows."""

    kind: ClassVar[str] = "delete"
    help: ClassVar[str] = "Remove the rows that match a condition."
    subqueries: ClassVar[bool] = True
    where: Given | None = parameter(
        "Where", "condition", default=None, help="Without a condition, every row is deleted."
    )
    alias: str = parameter("Alias", "text", default="")
    auto_compact: str = compaction_choice()

    def validate(self, schema: StructType | None) -> None:
        """Refuse invalid parameters, and if a schema is given, those invalid for it."""
        if schema is not None:
            self.condition(schema)

    def statement(self) -> str:
        """Render the command as SQL; `parse_statement` returns an equal command."""
        place = f"{table_sql(self.table)}{_alias(self.alias)}"
        return f"DELETE FROM {place}{render_where(self.where)}{_options(self)}"  # noqa: S608


@dataclass(frozen=True)
class Update(Command):
    """Change columns of rows."""

    kind: ClassVar[str] = "update"
    help: ClassVar[str] = "Set columns of the rows that match a condition."
    subqueries: ClassVar[bool] = True
    assignments: Mapping[str, Given] = parameter(
        "Set", "assignments", help="Columns and their new values, as expressions over the old row."
    )
    where: Given | None = parameter(
        "Where", "condition", default=None, help="Without a condition, every row is updated."
    )
    alias: str = parameter("Alias", "text", default="")
    auto_compact: str = compaction_choice()

    def validate(self, schema: StructType | None) -> None:
        """Refuse invalid parameters, and if a schema is given, those invalid for it."""
        if not self.assignments:
            what = "UPDATE sets no column."
            raise RequestError(what, "Give at least one column.", field="assignments")
        if len({column.lower() for column in self.assignments}) < len(self.assignments):
            what = f"UPDATE sets a column twice: {', '.join(self.assignments)}."
            raise SetTwiceError(what, "Set it once.", field="assignments")
        if schema is not None:
            self.condition(schema)
            self.parse_assignments(schema)

    def parse_assignments(
        self, schema: StructType, *, now_ms: int | None = None, tables: Tables | None = None
    ) -> dict[tuple[str, ...], Expression]:
        """Parse the assignments, by column path; subqueries as in `condition`.

        Raises:
            SetTwiceError: two are for one column.
        """
        scope = self.scope(schema)
        nested = parse_unbound if tables is None else bind_subqueries(tables)
        assigned: dict[tuple[str, ...], Expression] = {}
        for key, given in self.assignments.items():
            value = or_default(given, schema, column_path(key))
            column = scope.resolve(column_path(key))
            path, tree = value_of(value, scope, column, now_ms=now_ms, nested=nested)
            if path in assigned:
                what = f"UPDATE sets {'.'.join(path)} twice."
                raise SetTwiceError(what, "Set it once.", field="assignments")
            assigned[path] = tree
        return assigned

    def tables_read(self) -> tuple[str, ...]:
        """Return the tables named by its condition and values, as written."""
        texts = (value for value in self.assignments.values() if isinstance(value, str))
        inner = (name for text in texts for name in tables_in_condition(text))
        return tuple(dict.fromkeys((*super().tables_read(), *inner)))

    def statement(self) -> str:
        """Render the command as SQL; `parse_statement` returns an equal command."""
        pairs = ", ".join(f"{column} = {value}" for column, value in self.assignments.items())
        place = f"{table_sql(self.table)}{_alias(self.alias)}"
        return f"UPDATE {place} SET {pairs}{render_where(self.where)}{_options(self)}"  # noqa: S608


@dataclass(frozen=True)
class Truncate(Command):
    """Remove every row."""

    kind: ClassVar[str] = "truncate"
    help: ClassVar[str] = "Remove every row. Earlier versions keep the rows until VACUUM."

    def statement(self) -> str:
        """Render the command as SQL; `parse_statement` returns an equal command."""
        return f"TRUNCATE TABLE {table_sql(self.table)}"


def _render_target(command: "Append | Overwrite") -> str:
    source = command.source
    columns = source.columns if isinstance(source, RowsSource | QuerySource) else ()
    listed = f" {column_list(columns)}" if columns else ""
    positional = isinstance(command.source, RowsSource) or getattr(
        command.source, "by_position", False
    )
    partition = partition_sql(command.partition)
    alias = _alias(getattr(command, "alias", ""))
    return f"{table_sql(command.table)}{alias}{partition}{listed}{'' if positional else ' BY NAME'}"


def _evolution(command: Overwrite) -> str:
    return " WITH SCHEMA EVOLUTION" if command.merge_schema else ""


def _options(command: "Overwrite | Delete | Update") -> str:
    return options_sql({OPTION: choice_option(command.auto_compact)})


def _alias(alias: str) -> str:
    return f" AS {name_sql(alias)}" if alias else ""


def _check_row_columns(source: Source, schema: StructType | None) -> None:
    if isinstance(source, RowsSource | QuerySource) and source.columns:
        check_columns(source.columns, schema, "source.columns")


def partition_sql(partition: Mapping[str, str]) -> str:
    """Render ` PARTITION (p = 1, q)`, or nothing."""
    parts = (f"{column} = {value}" if value else column for column, value in partition.items())
    return f" PARTITION ({', '.join(parts)})" if partition else ""


def static_values(partition: Mapping[str, str], schema: StructType) -> dict[str, Expression]:
    """Return the constants by column name, in the columns' types.

    Raises:
        RequestError: a column does not exist.
        ExpressionError: a column cannot hold its value.
    """
    values: dict[str, Expression] = {}
    for name, text in partition.items():
        column = Scope.from_schema(schema).resolve(column_path(name))
        if text:
            value = _literal(name, text)
            same = value.type == column.type
            values[column.path[0]] = (
                value if same else build.cast(value, column.type, lenient=False)
            )
    return values


def check_times(partition: Mapping[str, str], schema: StructType) -> None:
    """Refuse constants that another time zone than UTC makes other values.

    Raises:
        RequestError: names the column.
    """
    for name, text in partition.items():
        column = Scope.from_schema(schema).resolve(column_path(name))
        value = parse_expression(text or "NULL", StructType(), by_session=True)
        if not isinstance(value, Literal) or is_cast_by_zone(value.type, column.type):
            what = f"{name} = {text[:100]} in PARTITION depends on the session's time zone."
            remedy = "Write a TIMESTAMP with its zone, such as TIMESTAMP '2026-01-31 12:00:00Z'."
            raise RequestError(what, remedy, field="partition")


def partition_condition(partition: Mapping[str, str], schema: StructType) -> Expression | None:
    """Return the condition for the partitions an overwrite replaces; None for all."""
    values = static_values(partition, schema)
    if not values:
        return None
    return conjunction(
        build.call("<=>", (Column((name,), value.type), value)) for name, value in values.items()
    )


def check_partition(partition: Mapping[str, str], source: Source) -> None:
    """Refuse values other than constants, and repeated columns.

    Raises:
        RequestError: names the column.
        ExpressionError: a value does not parse.
    """
    lowered = [name_sql(column_path(name)[-1]).lower() for name in partition]
    if len(set(lowered)) < len(lowered):
        what = f"A column appears twice in PARTITION ({', '.join(partition)})."
        raise RequestError(what, "List each column once.", field="partition")
    for name, text in partition.items():
        if text:
            check_calls(text)
            _literal(name, text)
    named = source.columns if isinstance(source, RowsSource | QuerySource) else ()
    taken = {column.lower() for column in named}
    both = [name for name, text in partition.items() if text and name.lower() in taken]
    if both:
        what = f"{both[0]} has a value in PARTITION and is also in the list of columns."
        raise RequestError(what, "Remove it from the list of columns.", field="partition")


def _literal(name: str, text: str) -> Expression:
    if text.strip().upper() == "DEFAULT":
        what = f"{name} cannot be DEFAULT in PARTITION."
        raise RequestError(what, "Write the value, or leave the column out.", field="partition")
    value = parse_expression(text, StructType())
    if isinstance(value, Literal) or value.type == VOID:
        return value
    what = f"{name} = {text[:100]} in PARTITION is not a constant."
    raise RequestError(what, "Write a literal value.", field="partition")


def check_matched(source: Source, using: tuple[str, ...], schema: StructType | None) -> None:
    """Refuse sources readable only once, and unknown columns.

    Raises:
        RequestError: names the source or column.
    """
    if isinstance(source, FileSource | DataFrameSource | ArrowSource):
        what = "REPLACE USING and REPLACE ON cannot read files or rows of the calling program."
        raise RequestError(what, "Write the rows to a table first.", field="source")
    check_columns(using, schema, "replace_using")


def match_condition(replacing: ReplaceClause, columns: Sequence[str]) -> str:
    """Return a condition for the rows of the table a new row replaces.

    A few literal rows are compared one by one, which suits statistics and row-level resolution; any
    other source becomes a subquery. `columns` are the target columns of the source's columns, in
    order; empty if it has names of its own.
    """
    source, using = replacing.source, replacing.using
    if using and isinstance(source, RowsSource) and len(source.rows) * len(using) <= _FEW:
        return _row_by_row(source, using, [name.lower() for name in columns])
    alias = replacing.source_alias or _name_of(source)
    listed = f" ({', '.join(map(quote_name, columns))})" if columns else ""
    rows = f"({source.sql()}) AS {quote_name(alias)}{listed}"
    if replacing.on:
        test = replacing.on
    else:
        paths = [".".join(map(quote_name, column_path(name))) for name in using]
        test = " AND ".join(
            f"{quote_name(alias)}.{path} = {quote_name(TARGET)}.{path}" for path in paths
        )
    return f"EXISTS (SELECT 1 FROM {rows} WHERE {test})"  # noqa: S608 - parsed again by the engine


def _row_by_row(source: RowsSource, using: Sequence[str], names: Sequence[str]) -> str:
    places = [names.index(column_path(name)[-1].lower()) for name in using]
    tests = (
        " AND ".join(f"{name} = ({row[at]})" for name, at in zip(using, places, strict=True))
        for row in source.rows
    )
    return " OR ".join(f"({test})" for test in dict.fromkeys(tests))


def _name_of(source: Source) -> str:
    if isinstance(source, TableSource):
        return source.alias or source.table.rpartition(".")[2].rpartition("/")[2]
    return _SOURCE


def render_replace(replacing: ReplaceClause, into: str) -> str:
    """Render the statement; `into` is the text between INSERT and REPLACE, with a leading space."""
    if replacing.using:
        using = column_list(replacing.using)
        return f"INSERT{into} REPLACE USING {using} {replacing.source.sql()}"
    rows = replacing.source.sql()
    if replacing.source_alias:
        rows = f"({rows}) AS {name_sql(replacing.source_alias)}"
    return f"INSERT{into} REPLACE ON {replacing.on} {rows}"
