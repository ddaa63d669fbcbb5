"""What every command is: a value, checked without Spark, that can say itself in SQL."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from engine.commands.fields import Parameter, parameter, parameters_of, to_json, values_from_json
from engine.commands.names import ANY_TABLE, is_location
from engine.commands.sources import QuerySource, Source, TableSource, source_from_json
from engine.errors import RequestError
from engine.expressions.conditions import row_condition
from engine.expressions.queries.binding import Tables
from engine.expressions.queries.subqueries import bind_subqueries, parse_unbound
from engine.expressions.queries.tables import tables_in_condition
from engine.expressions.scope import Relation, Scope
from engine.expressions.tree import Expression
from engine.schema.column_paths import column_path
from engine.schema.types import StructType

COMMANDS: "dict[str, type[Command]]" = {}
"""Every command by its kind."""
PARSE: dict[str, Callable[[Any], Any]] = {"source": source_from_json}
"""From JSON, the kinds of field that are not plain values."""


@dataclass(frozen=True, kw_only=True)
class Command(ABC):
    """Something to do to one table.

    Attributes:
        table: the name or URI in the statement, "" where the job names it.
        destructive: whether rows or history may be gone afterwards, whatever its parameters say;
            `removes_rows` is of this one.
        subqueries: whether its condition may hold them.
    """

    kind: ClassVar[str] = ""
    label: ClassVar[str] = ""
    help: ClassVar[str] = ""
    destructive: ClassVar[bool] = False
    subqueries: ClassVar[bool] = False
    table: str = parameter("Table", "text", default="", help="Left out where the job names it.")

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.kind:
            COMMANDS[cls.kind] = cls

    @property
    def removes_rows(self) -> bool:
        """Whether rows or history may be gone after it, with the parameters that it has."""
        return self.destructive

    @classmethod
    def list_parameters(cls) -> tuple[Parameter, ...]:
        """Its parameters, for forms, schemas and the command line."""
        return parameters_of(cls)

    @staticmethod
    def from_parameters(kind: Any, parameters: Any) -> "Command":  # noqa: ANN401 - JSON
        """The command of a kind from JSON, its fields checked.

        Raises:
            RequestError: an unknown kind, or a field that is missing, unknown or of a wrong type.
        """
        model = COMMANDS.get(kind) if isinstance(kind, str) else None
        if model is None:
            what = f"There is no command {str(kind)[:100]!r}."
            raise RequestError(what, f"Use {', '.join(COMMANDS)}.", field="kind")
        if not isinstance(parameters, Mapping):
            what = "The parameters are not an object."
            raise RequestError(what, "Give them by name.", field="parameters")
        command = model(**values_from_json(model, parameters, PARSE))
        command.validate(None)
        return command

    def parameters(self) -> dict[str, Any]:
        """JSON-ready; `from_parameters` of it equals the command."""
        return {name: to_json(value) for name, value in vars(self).items()}

    def validate(self, schema: StructType | None) -> None:  # noqa: B027 - most refuse nothing
        """Refuse what cannot be done, to a table of that schema if it is known.

        Raises:
            RequestError: (`ExpressionError` and others) `field` names the part.
        """

    @abstractmethod
    def statement(self) -> str:
        """SQL that says the same; `parse_statement` of it equals the command."""

    def condition(
        self, schema: StructType, *, now_ms: int | None = None, tables: Tables | None = None
    ) -> Expression | None:
        """Its WHERE over the table's schema; None where it has none.

        Subqueries are bound where `tables` knows their tables, else read for their form alone.

        Raises:
            NotDeterministicError: the same row would not get the same answer each time.
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
        """The tables that its source and its conditions name, as written.

        Raises:
            ExpressionError: (`StatementError`) a query that is not understood.
        """
        source = getattr(self, "source", None)
        outer = source.tables_read() if isinstance(source, QuerySource | TableSource) else ()
        where = getattr(self, "where", None) if self.subqueries else None
        inner = tables_in_condition(where) if isinstance(where, str) and where else ()
        return tuple(dict.fromkeys((*outer, *inner)))

    @property
    def own_name(self) -> str:
        """What it calls its own table."""
        return self.table or ANY_TABLE

    def is_own_name(self, name: str) -> bool:
        """Return whether a name in its queries is the one that it has for its own table.

        Case does not matter, but in a location.
        """
        own = self.own_name
        return name == own or (not is_location(own) and name.lower() == own.lower())

    def other_tables_read(self) -> tuple[str, ...]:
        """The tables that it reads under other names than its own table's, as written."""
        return tuple(name for name in self.tables_read() if not self.is_own_name(name))

    @property
    def names_itself(self) -> bool:
        """Whether its queries read its own table under the name that it has for it."""
        return any(map(self.is_own_name, self.tables_read()))

    def scope(self, schema: StructType) -> Scope:
        """What its conditions may name: the table's columns, after its name or alias too."""
        names = (getattr(self, "alias", ""), self.table.rpartition(".")[2])
        return Scope((Relation(schema, "", tuple(name for name in names if name)),))


def check_source(source: Source | None) -> None:
    """Refuse a source that is none.

    Raises:
        RequestError: as the source says.
    """
    if source is not None:
        source.validate()


def check_new_columns(columns: StructType, field: str) -> None:
    """Refuse columns without a name, and names that differ in case alone.

    Raises:
        RequestError: which one; `field` is the parameter.
    """
    seen: set[str] = set()
    for column in columns:
        if not column.name or column.name.lower() in seen:
            what = (
                f"The column {column.name!r} comes twice."
                if column.name
                else "A column has no name."
            )
            raise RequestError(what, "Give each a name of its own.", field=field)
        seen.add(column.name.lower())


def check_columns(columns: tuple[str, ...], schema: StructType | None, field: str) -> None:
    """Refuse columns that a schema does not have, and columns named twice.

    Raises:
        RequestError: which one; `field` is the parameter.
    """
    lowered = [column.lower() for column in columns]
    if len(set(lowered)) < len(lowered):
        what = f"A column is named twice in {', '.join(columns)}."
        raise RequestError(what, "Name each once.", field=field)
    if schema is not None:
        for column in columns:
            if schema.get(column) is None:  # a name may have dots and backticks itself
                Scope.from_schema(schema).resolve(column_path(column))
