"""Commands for a table's columns, constraints, clustering and features."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from engine.commands.column_sql import column_sql
from engine.commands.command import Command, check_columns, check_new_columns
from engine.commands.fields import parameter
from engine.commands.names import column_list, name_sql, table_sql
from engine.commands.statement_cursor import StatementCursor
from engine.errors import RequestError
from engine.expressions.parse import parse_expression
from engine.expressions.render import quote_string, to_sql
from engine.expressions.scope import Scope
from engine.expressions.traits import is_deterministic
from engine.expressions.tree import VOID, Expression
from engine.expressions.type_grammar import read_type
from engine.expressions.types import sql_name
from engine.schema.column_paths import column_path
from engine.schema.text_lengths import TEXT_TYPE, has_limits
from engine.schema.types import BOOLEAN, DataType, StructField, StructType
from engine.schema.write_errors import ConstraintNotBooleanError, NotDeterministicError
from engine.vocabulary import CHANGE_COLUMN, SET_NOT_NULL, Operation


class _Alter(Command):
    """ALTER TABLE t …."""

    def statement(self) -> str:
        """Render the command as SQL; `parse_statement` returns an equal command."""
        return f"ALTER TABLE {table_sql(self.table)} {self._change()}"

    @abstractmethod
    def _change(self) -> str:
        """Render the change after the table's name."""


def _place(after: str, *, first: bool) -> str:
    return " FIRST" if first else f" AFTER {name_sql(after)}" if after else ""


@dataclass(frozen=True)
class AddColumns(_Alter):
    """Add columns, or fields to a struct column."""

    kind: ClassVar[str] = "alter_add_columns"
    help: ClassVar[str] = "Add columns. Existing rows get null. Concurrent writes will fail."
    columns: StructType = parameter("Columns", "schema")
    parent: str = parameter(
        "Inside", "text", default="", help="The struct column to add the fields to."
    )
    first: bool = parameter("First", "boolean", default=False)
    after: str = parameter("After", "text", default="")
    parents: tuple[str, ...] = parameter(
        "Inside, one by one", "texts", default=(), help="For each column, the struct to add it to."
    )
    places: tuple[str, ...] = parameter(
        "Places, one by one",
        "texts",
        default=(),
        help="For each column, FIRST, AFTER name or nothing.",
    )

    def validate(self, schema: StructType | None) -> None:
        """Refuse invalid parameters, and if a schema is given, those invalid for it."""
        if not self.columns.fields:
            what = "The statement names no column to add."
            raise RequestError(what, "Give at least one.", field="columns")
        if self.first and self.after:
            what = "FIRST and AFTER cannot be combined."
            raise RequestError(what, "Choose one.", field="first")
        self._check_places()
        if not any(self.parents):
            check_new_columns(self.columns, "columns")
        inside = next((parent for parent in (self.parent, *self.parents) if parent), "")
        if inside and any(TEXT_TYPE in column.metadata for column in self.columns):
            what = f"A field added to the existing column {inside} cannot be CHAR or VARCHAR."
            raise RequestError(what, "Make it STRING.", field="columns")
        for parent in (self.parent, *self.parents):
            if schema is not None and parent:
                Scope.from_schema(schema).resolve(column_path(parent))

    def _check_places(self) -> None:
        count = len(self.columns.fields)
        for name, given in (("parents", self.parents), ("places", self.places)):
            if given and (len(given) != count or self.parent or self.first or self.after):
                what = (
                    f"{name} are for each of the {count} columns, and stand for the other places."
                )
                raise RequestError(what, "Give one for each column, and these alone.", field=name)
        for place in self.places:
            if place and place != "FIRST" and not place.startswith("AFTER "):
                what = f"{place[:100]!r} is not a column position."
                raise RequestError(what, "Use FIRST, or AFTER and a column name.", field="places")

    def list_additions(self) -> list[tuple[StructField, str, bool, str]]:
        """List each column with its struct, whether it is first there, and the column before it."""
        fields = self.columns.fields
        if not self.parents and not self.places:
            behind = [self.after, *(field.name for field in fields)]
            moves = self.first or bool(self.after)
            return [
                (field, self.parent, self.first and at == 0, behind[at] if moves else "")
                for at, field in enumerate(fields)
            ]
        parents = self.parents or ("",) * len(fields)
        places = self.places or ("",) * len(fields)
        return [
            (field, parent, place == "FIRST", place.removeprefix("AFTER ") if " " in place else "")
            for field, parent, place in zip(fields, parents, places, strict=True)
        ]

    def _change(self) -> str:
        shown = [
            (f"{parent}." if parent else "") + column_sql(field) + _place(after, first=first)
            for field, parent, first, after in self.list_additions()
        ]
        return f"ADD COLUMNS ({', '.join(shown)})"


@dataclass(frozen=True)
class DropColumns(_Alter):
    """Drop columns. Their data stays in the files until they are rewritten."""

    kind: ClassVar[str] = "alter_drop_columns"
    help: ClassVar[str] = "Drop columns. This needs column mapping. Concurrent writes will fail."
    columns: tuple[str, ...] = parameter("Columns", "columns")
    if_exists: bool = parameter("IF EXISTS: skip missing columns", "boolean", default=False)

    def validate(self, schema: StructType | None) -> None:
        """Refuse invalid parameters, and if a schema is given, those invalid for it."""
        if not self.columns:
            what = "The statement names no column to drop."
            raise RequestError(what, "Give at least one.", field="columns")
        check_columns(self.columns, None if self.if_exists else schema, "columns")

    def _change(self) -> str:
        guard = " IF EXISTS" if self.if_exists else ""
        return f"DROP COLUMNS{guard} {column_list(self.columns)}"


@dataclass(frozen=True)
class RenameColumn(_Alter):
    """Rename a column or a field of a struct."""

    kind: ClassVar[str] = "alter_rename_column"
    help: ClassVar[str] = "Rename a column. This needs column mapping. Concurrent writes will fail."
    column: str = parameter("Column", "text")
    new_name: str = parameter("New name", "text")

    def validate(self, schema: StructType | None) -> None:
        """Refuse invalid parameters, and if a schema is given, those invalid for it."""
        if not self.new_name:
            what = "The new name is empty."
            raise RequestError(what, "Enter a new name.", field="new_name")
        check_columns((self.column,), schema, "column")

    def _change(self) -> str:
        return f"RENAME COLUMN {self.column} TO {name_sql(self.new_name)}"


@dataclass(frozen=True)
class ChangeColumn(_Alter):
    """Change one thing of a column: type, nullability, default, comment or place."""

    kind: ClassVar[str] = "alter_change_column"
    help: ClassVar[str] = "Change one attribute of a column. Concurrent writes will fail."
    column: str = parameter("Column", "text")
    new_type: str = parameter("New type", "text", default="", help="A wider type, written in SQL.")
    nullable: bool | None = parameter("May be null", "boolean", default=None)
    new_default: str | None = parameter("Default", "expression", default=None)
    drop_default: bool = parameter("Drop the default", "boolean", default=False)
    comment: str | None = parameter("Comment", "text", default=None)
    first: bool = parameter("First", "boolean", default=False)
    after: str = parameter("After", "text", default="")

    @property
    def operation(self) -> Operation:
        """The operation: SET NOT NULL reads every row."""
        return SET_NOT_NULL if self.nullable is False else CHANGE_COLUMN

    def validate(self, schema: StructType | None) -> None:
        """Refuse invalid parameters, and if a schema is given, those invalid for it."""
        given = [
            self.new_type,
            self.nullable is not None,
            self.new_default,
            self.drop_default,
            self.comment is not None,
            self.first,
            self.after,
        ]
        if sum(map(bool, given)) != 1:
            what = f"{sum(map(bool, given))} changes of {self.column} are requested."
            raise RequestError(what, "Ask for one.", field="column")
        check_columns((self.column,), schema, "column")
        self.parse_new_type()

    def parse_new_type(self) -> DataType | None:
        """Parse the new type; return None if the type stays.

        Raises:
            RequestError: a column cannot change to this type.
        """
        if not self.new_type:
            return None
        cursor = StatementCursor.from_text(self.new_type)
        data_type = read_type(cursor)
        cursor.end()
        if has_limits(data_type):
            what = f"{self.column} cannot become {self.new_type}: existing values may be longer."
            raise RequestError(what, "Add a CHECK constraint on its length.", field="new_type")
        return data_type

    def _change(self) -> str:
        return f"ALTER COLUMN {self.column}{self._what()}"

    def _what(self) -> str:
        if self.nullable is not None:
            return f" {'DROP' if self.nullable else 'SET'} NOT NULL"
        if self.comment is not None:
            return f" COMMENT {quote_string(self.comment)}"
        if self.new_type or self.new_default:
            return f" TYPE {self.new_type}" if self.new_type else f" SET DEFAULT {self.new_default}"
        return " DROP DEFAULT" if self.drop_default else _place(self.after, first=self.first)


@dataclass(frozen=True)
class AddConstraint(_Alter):
    """Make every row satisfy a condition from now on."""

    kind: ClassVar[str] = "alter_add_constraint"
    help: ClassVar[str] = (
        "Require every row to satisfy a condition. Existing rows are checked first."
    )
    name: str = parameter("Name", "text")
    check: str = parameter("Check", "condition")

    def validate(self, schema: StructType | None) -> None:
        """Refuse invalid parameters, and if a schema is given, those invalid for it."""
        if not self.name or not self.check:
            what = "A constraint needs a name and a condition."
            raise RequestError(what, "Give both.", field="name")
        if schema is not None:
            self.parse_check(schema)

    def parse_check(self, schema: StructType, *, now_ms: int | None = None) -> Expression:
        """Parse the condition; the current time is `now_ms`.

        Raises:
            ConstraintNotBooleanError: it is not boolean.
            NotDeterministicError: it may differ between evaluations of one row.
        """
        tree = parse_expression(self.check, self.scope(schema), now_ms=now_ms, by_session=True)
        name = f"The constraint {self.name}"
        if tree.type not in {BOOLEAN, VOID}:
            what = f"{name} ({self.check[:200]}) is a {sql_name(tree.type)}, not a condition."
            raise ConstraintNotBooleanError(
                what, "Use a condition, such as a comparison.", field="check"
            )
        if not is_deterministic(tree):
            what = f"{name} ({self.check[:200]}) is not deterministic."
            raise NotDeterministicError(
                what, "Remove rand and other nondeterministic functions.", field="check"
            )
        return tree

    def render_check(self, schema: StructType) -> str:
        """Render the condition as the table stores it, with the current time of each write.

        Raises:
            ExpressionError: (`UnknownColumnError`) it needs the current time, and names the table.
        """
        tree = self.parse_check(schema, now_ms=0)
        if tree == self.parse_check(schema, now_ms=1):
            return to_sql(tree)
        parse_expression(self.check, schema)
        return self.check

    def _change(self) -> str:
        return f"ADD CONSTRAINT {name_sql(self.name)} CHECK ({self.check})"


@dataclass(frozen=True)
class DropConstraint(_Alter):
    """Drop a CHECK constraint."""

    kind: ClassVar[str] = "alter_drop_constraint"
    help: ClassVar[str] = "Drop the constraint. New rows no longer have to satisfy its condition."
    name: str = parameter("Name", "text")
    if_exists: bool = parameter("IF EXISTS: do nothing if it is missing", "boolean", default=False)

    def _change(self) -> str:
        guard = "IF EXISTS " if self.if_exists else ""
        return f"DROP CONSTRAINT {guard}{name_sql(self.name)}"


@dataclass(frozen=True)
class ClusterBy(_Alter):
    """Cluster by other columns, or by none; OPTIMIZE moves the rows."""

    kind: ClassVar[str] = "alter_cluster_by"
    help: ClassVar[str] = (
        "Set the clustering columns. OPTIMIZE then clusters the rows. Leave empty for no "
        "clustering."
    )
    columns: tuple[str, ...] = parameter("Columns", "columns", default=())

    def validate(self, schema: StructType | None) -> None:
        """Refuse invalid parameters, and if a schema is given, those invalid for it."""
        if len(self.columns) > 4:
            what = f"{len(self.columns)} clustering columns are given."
            raise RequestError(what, "Use at most four.", field="columns")
        check_columns(self.columns, schema, "columns")

    def _change(self) -> str:
        return f"CLUSTER BY {column_list(self.columns) if self.columns else 'NONE'}"


@dataclass(frozen=True)
class DropFeature(_Alter):
    """Drop a table feature, so older clients can use the table."""

    kind: ClassVar[str] = "alter_drop_feature"
    help: ClassVar[str] = "Drop a table feature. Concurrent writes will fail."
    feature: str = parameter("Feature", "text")
    truncate_history: bool = parameter(
        "Truncate the history that needs the feature", "boolean", default=False
    )

    def validate(self, schema: StructType | None) -> None:  # noqa: ARG002
        """Refuse invalid parameters, and if a schema is given, those invalid for it."""
        if not self.feature:
            what = "The statement names no feature to drop."
            raise RequestError(what, "Name the table feature to drop.", field="feature")

    def _change(self) -> str:
        cut = " TRUNCATE HISTORY" if self.truncate_history else ""
        return f"DROP FEATURE {name_sql(self.feature)}{cut}"
