"""Commands: values, validated without Spark, with a form in SQL."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from engine.commands.fields import Parameter, parameter, parameters_of, to_json, values_from_json
from engine.commands.names import ANY_TABLE, is_location
from engine.commands.sources import QuerySource, Source, TableSource, source_from_json
from engine.errors import RequestError
from engine.expressions.parse import row_condition
from engine.expressions.queries.binding import Tables
from engine.expressions.queries.subqueries import bind_subqueries, parse_unbound
from engine.expressions.queries.tables import tables_in_condition
from engine.expressions.scope import Relation, Scope
from engine.expressions.tree import Expression
from engine.schema.column_paths import column_path
from engine.schema.types import StructType
from engine.vocabulary import OPERATION_OF_COMMAND, Operation, Reads, Removes

COMMANDS: "dict[str, type[Command]]" = {}
"""All commands by kind."""
PARSE: dict[str, Callable[[Any], Any]] = {"source": source_from_json}
"""Converters from JSON for field kinds other than plain values."""


@dataclass(frozen=True, kw_only=True)
class Command(ABC):
    """An operation on one table.

    Attributes:
        table: the name or URI in the statement, "" if the job names it.
        subqueries: whether its condition may have subqueries.
    """

    kind: ClassVar[str] = ""
    label: ClassVar[str] = ""
    help: ClassVar[str] = ""
    subqueries: ClassVar[bool] = False
    table: str = parameter(
        "Table", "text", default="", help="Leave out if the job names the table."
    )

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.kind:
            COMMANDS[cls.kind] = cls
            cls.label = cls.label or OPERATION_OF_COMMAND[cls.kind].label

    @property
    def operation(self) -> Operation:
        """The operation, given its parameters."""
        return OPERATION_OF_COMMAND[self.kind]

    @property
    def removes_rows(self) -> bool:
        """Whether it may remove rows, columns or history, given its parameters."""
        return self.operation.removes is not Removes.NOTHING

    @property
    def reads_itself(self) -> bool:
        """Whether it reads rows of the table that it changes."""
        return self.operation.reads is not Reads.NOTHING or self.names_itself

    @classmethod
    def list_parameters(cls) -> tuple[Parameter, ...]:
        """Return the command's parameters, for forms, schemas and the command line."""
        return parameters_of(cls)

    @staticmethod
    def from_parameters(kind: Any, parameters: Any) -> "Command":  # noqa: ANN401 - JSON
        """Build a command of a kind from JSON, with its fields checked.

        Raises:
            RequestError: the kind is unknown, or a field is missing, unknown or of a wrong type.
        """
        model = COMMANDS.get(kind) if isinstance(kind, str) else None
        if model is None:
            what = f"There is no command {str(kind)[:100]!r}."
            raise RequestError(what, f"Use {', '.join(COMMANDS)}.", field="kind")
        if not isinstance(parameters, Mapping):
            what = "The parameters must be a JSON object."
            raise RequestError(what, "Send each parameter under its name.", field="parameters")
        command = model(**values_from_json(model, parameters, PARSE))
        command.validate(None)
        return command

    def parameters(self) -> dict[str, Any]:
        """Return JSON-ready parameters; `from_parameters` of them equals the command."""
        return {name: to_json(value) for name, value in vars(self).items()}

    def validate(self, schema: StructType | None) -> None:  # noqa: B027 - most commands refuse nothing
        """Refuse invalid parameters, and if a schema is given, those invalid for it.

        Raises:
            RequestError: (`ExpressionError` and others) `field` names the part.
        """

    @abstractmethod
    def statement(self) -> str:
        """Render the command as SQL; `parse_statement` returns an equal command."""

    def condition(
        self, schema: StructType, *, now_ms: int | None = None, tables: Tables | None = None
    ) -> Expression | None:
        """Parse its WHERE over the table's schema; None if it has none.

        Subqueries are bound if `tables` knows their tables, else only checked for syntax.

        Raises:
            NotDeterministicError: it may differ between evaluations of one row.
        """
        where = getattr(self, "where", None)
        if not where:
            return None
        nested = None
        if self.subqueries:
            nested = parse_unbound if tables is None else bind_subqueries(tables)
        scope, clause = self.scope(schema), self.kind.upper()
        return row_condition(where, scope, clause, now_ms=now_ms, nested=nested)

    def tables_read(self) -> tuple[str, ...]:
        """Return the tables named by its source and conditions, as written.

        Raises:
            ExpressionError: (`StatementError`) a query does not parse.
        """
        source = getattr(self, "source", None)
        outer = source.tables_read() if isinstance(source, QuerySource | TableSource) else ()
        where = getattr(self, "where", None) if self.subqueries else None
        inner = tables_in_condition(where) if isinstance(where, str) and where else ()
        return tuple(dict.fromkeys((*outer, *inner)))

    @property
    def own_name(self) -> str:
        """The command's name for its own table."""
        return self.table or ANY_TABLE

    def is_own_name(self, name: str) -> bool:
        """Return whether a name in its queries is its name for its own table.

        Case does not matter, except in locations.
        """
        own = self.own_name
        return name == own or (not is_location(own) and name.lower() == own.lower())

    def other_tables_read(self) -> tuple[str, ...]:
        """Return the tables it reads under names other than its own table's, as written."""
        return tuple(name for name in self.tables_read() if not self.is_own_name(name))

    @property
    def names_itself(self) -> bool:
        """Whether its queries read its own table by its own name."""
        return any(map(self.is_own_name, self.tables_read()))

    def scope(self, schema: StructType) -> Scope:
        """Return the scope of its conditions: the table's columns, also with its name or alias."""
        names = (getattr(self, "alias", ""), self.table.rpartition(".")[2])
        return Scope((Relation(schema, "", tuple(name for name in names if name)),))


def check_source(source: Source | None) -> None:
    """Refuse an invalid source.

    Raises:
        RequestError: the source's own error.
    """
    if source is not None:
        source.validate()


def check_new_columns(columns: StructType, field: str) -> None:
    """Refuse columns without a name, and names that differ only in case.

    Raises:
        RequestError: names the column; `field` is the parameter.
    """
    seen: set[str] = set()
    for column in columns:
        if not column.name or column.name.lower() in seen:
            what = (
                f"The column {column.name!r} appears twice."
                if column.name
                else "A column has no name."
            )
            raise RequestError(what, "Give each a unique name.", field=field)
        seen.add(column.name.lower())


def check_columns(columns: tuple[str, ...], schema: StructType | None, field: str) -> None:
    """Refuse unknown and repeated columns.

    Raises:
        RequestError: names the column; `field` is the parameter.
    """
    lowered = [column.lower() for column in columns]
    if len(set(lowered)) < len(lowered):
        what = f"A column is named twice in {', '.join(columns)}."
        raise RequestError(what, "List each column once.", field=field)
    if schema is not None:
        for column in columns:
            if schema.get(column) is None:  # a name may contain dots and backticks
                Scope.from_schema(schema).resolve(column_path(column))
