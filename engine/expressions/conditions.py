"""Conditions and values of commands: text, or expressions from trusted code."""

from abc import ABC, abstractmethod
from typing import NoReturn, TypeAlias

from engine.errors import ExpressionError, RequestError
from engine.expressions.operands import Nested
from engine.expressions.parse import parse_condition, parse_expression
from engine.expressions.scope import Scope
from engine.expressions.traits import is_deterministic
from engine.expressions.tree import VOID, Column, Expression
from engine.schema.types import BOOLEAN, DataType, StructType
from engine.schema.write_errors import NotDeterministicError


class GivenExpression(ABC):
    """A condition or value other than text, such as a Spark `Column` of the caller's session.

    Only trusted code creates one. It has no JSON form, so no request can contain one.
    """

    @property
    @abstractmethod
    def text(self) -> str:
        """It as people are shown it."""

    @abstractmethod
    def tree(
        self, scope: Scope, *, now_ms: int | None = None, nested: Nested | None = None
    ) -> Expression:
        """Return the tree over the columns of a scope; arguments as `parse_expression`."""

    def value(
        self,
        scope: Scope,
        kind: DataType,  # noqa: ARG002 - for sessions with other casts
        *,
        now_ms: int | None = None,
        nested: Nested | None = None,
    ) -> Expression:
        """Return its tree as the new value of a column of a type, possibly with another type."""
        return self.tree(scope, now_ms=now_ms, nested=nested)

    @property
    def statement_text(self) -> str:
        """The text if it is part of a statement, where DEFAULT is a word; else empty."""
        return ""

    def restate(self, text: str) -> "Given":
        """Return another text of the statement, with the same meaning as this one."""
        return text

    def as_json(self) -> NoReturn:
        """Refuse: the expression has no JSON form.

        Raises:
            RequestError: always.
        """
        what = f"The expression {self.text[:200]} exists only in the calling program."
        raise RequestError(what, "Write it as SQL to send or store the command.", field="where")

    def __str__(self) -> str:
        return self.text


Given: TypeAlias = str | GivenExpression


def condition_of(
    given: Given,
    schema: StructType | Scope,
    *,
    now_ms: int | None = None,
    nested: Nested | None = None,
) -> Expression:
    """Parse a condition. Arguments and errors as in `parse_condition`."""
    if isinstance(given, str):
        return parse_condition(given, schema, now_ms=now_ms, nested=nested)
    tree = given.tree(Scope.from_schema(schema), now_ms=now_ms, nested=nested)
    if tree.type not in {BOOLEAN, VOID}:
        what = f"A condition must be true or false, but {given.text[:200]} is neither."
        raise ExpressionError(what, "Compare it with something.", position=0)
    return tree


def row_condition(
    given: Given,
    schema: StructType | Scope,
    clause: str,
    *,
    now_ms: int | None = None,
    nested: Nested | None = None,
) -> Expression:
    """Parse the condition for the rows a statement changes. Errors as in `condition_of`.

    Args:
        given: the condition.
        schema: the available columns.
        clause: the clause's name for messages.
        now_ms: as in `parse_condition`.
        nested: as in `parse_condition`.

    Raises:
        NotDeterministicError: the condition may differ between evaluations of one row.
    """
    tree = condition_of(given, schema, now_ms=now_ms, nested=nested)
    if not is_deterministic(tree):
        what = f"The condition of {clause} is not deterministic."
        remedy = (
            "Remove rand, uuid and other nondeterministic functions. They are allowed in the "
            "values that a statement sets."
        )
        raise NotDeterministicError(what, remedy, field="where")
    return tree


def expression_of(
    given: Given,
    schema: StructType | Scope,
    *,
    now_ms: int | None = None,
    nested: Nested | None = None,
) -> Expression:
    """Parse a value. Arguments and errors as in `parse_expression`."""
    if isinstance(given, str):
        return parse_expression(given, schema, now_ms=now_ms, nested=nested)
    return given.tree(Scope.from_schema(schema), now_ms=now_ms, nested=nested)


def value_of(
    given: Given,
    schema: StructType | Scope,
    column: Column,
    *,
    now_ms: int | None = None,
    nested: Nested | None = None,
) -> tuple[tuple[str, ...], Expression]:
    """Return a column's path and its new value's tree; errors as in `expression_of`."""
    if isinstance(given, GivenExpression):
        scope = Scope.from_schema(schema)
        return column.path, given.value(scope, column.type, now_ms=now_ms, nested=nested)
    return column.path, expression_of(given, schema, now_ms=now_ms, nested=nested)
