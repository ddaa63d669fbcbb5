"""Parsing of expressions and conditions: the only entry for a person's text.

The result consists only of nodes of `engine.expressions.tree`; the text is not passed on.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import lru_cache
from typing import NoReturn, TypeAlias

from engine.clock import SystemClock, utc_from_ms
from engine.errors import ExpressionError, RequestError
from engine.expressions.cursor import note_part
from engine.expressions.functions import FOLDED
from engine.expressions.grammar import Grammar
from engine.expressions.lexer import tokenize
from engine.expressions.operands import MAX_DEPTH, Moments, Nested
from engine.expressions.scope import Scope
from engine.expressions.traits import is_deterministic
from engine.expressions.tree import VOID, Call, Column, Expression, Literal, children
from engine.schema.types import BOOLEAN, DATE, TIMESTAMP, DataType, StructType
from engine.schema.write_errors import NotDeterministicError

MAX_CHARACTERS = 65_536
MAX_TOKENS = 12_000
_BARE = re.compile(r"-?[0-9][0-9A-Za-z.]*|'[^'\\]*'")
_LONGEST_KEPT = 64


class NotBooleanError(ExpressionError, code="DATATYPE_MISMATCH", sqlstate="42K09"):
    """A condition is neither true nor false."""


def parse_condition(
    text: str,
    schema: StructType | Scope,
    *,
    now_ms: int | None = None,
    nested: Nested | None = None,
    by_session: bool = False,
) -> Expression:
    """Parse a boolean expression.

    Args:
        text: SQL in Spark's dialect, without comments.
        schema: the available columns, or a `Scope` of several relations.
        now_ms: the value of `current_timestamp`, in ms since the epoch; by default the current
            time.
        nested: parses subqueries, if the command allows them.
        by_session: leave times without a time zone to the session that evaluates the tree: they
            become casts.

    Raises:
        UnknownColumnError: a column does not exist.
        ExpressionError: it is not allowed, not boolean, or does not parse.
    """
    expression = parse_expression(text, schema, now_ms=now_ms, nested=nested, by_session=by_session)
    return _require_boolean(expression, "this expression")


def parse_expression(
    text: str,
    schema: StructType | Scope,
    *,
    now_ms: int | None = None,
    nested: Nested | None = None,
    by_session: bool = False,
) -> Expression:
    """Parse an expression of any type. Arguments and errors as in `parse_condition`."""
    try:
        return _parse_text(text, schema, moments(now_ms, by_session=by_session), nested)
    except ExpressionError as error:
        note_part(error, text)
        raise


def parse_value(text: str, *, now_ms: int | None = None, by_session: bool = False) -> Expression:
    """Parse an expression without columns; results for plain numbers and texts are cached.

    Arguments and errors as in `parse_condition`.
    """
    if len(text) <= _LONGEST_KEPT and _BARE.fullmatch(text):
        return _bare(text)
    return parse_expression(text, StructType(), now_ms=now_ms, by_session=by_session)


@lru_cache(maxsize=16_384)
def _bare(text: str) -> Expression:
    return parse_expression(text, StructType())


def _parse_text(
    text: str, schema: StructType | Scope, times: Moments, nested: Nested | None
) -> Expression:
    if len(text) > MAX_CHARACTERS:
        what = f"The expression has {len(text)} characters: {MAX_CHARACTERS} is the limit."
        raise ExpressionError(what, "Put the values into a source and use MERGE.")
    tokens = tokenize(text)
    if len(tokens) > MAX_TOKENS:
        what = f"The expression has {len(tokens)} parts: {MAX_TOKENS} is the limit."
        raise ExpressionError(what, "Put the values into a source and use MERGE.")
    if not tokens:
        what = "The expression is empty."
        raise ExpressionError(what, "Write an expression.", position=0)
    if any(token.after_comment for token in tokens):
        what = "A comment is not allowed in an expression."
        raise ExpressionError(what, "Remove it.", position=_comment_at(text))
    grammar = Grammar(tokens, Scope.from_schema(schema), times, nested)
    expression = grammar.expression()
    if not grammar.at_end:
        grammar.refuse("an operator or a comma was expected")
    _check_depth((expression,))
    return expression


def moments(now_ms: int | None = None, *, by_session: bool = False) -> Moments:
    """Return the values of time functions; dates are in UTC, or in the session's time zone."""
    return _moments(SystemClock().now_ms() if now_ms is None else now_ms, by_session)


@lru_cache(maxsize=8)
def _moments(now_ms: int, by_session: bool) -> Moments:
    now = utc_from_ms(now_ms)
    instant = Literal(now, TIMESTAMP)

    def value(data_type: DataType) -> Expression:
        if by_session and data_type != TIMESTAMP:
            return Call("cast", (instant,), data_type)
        if data_type == DATE:
            return Literal(now.date(), DATE)
        return instant if data_type == TIMESTAMP else Literal(now.replace(tzinfo=None), data_type)

    return Moments({name: value(data_type) for name, data_type in FOLDED.items()}, by_session)


def _comment_at(text: str) -> int:
    starts = [at for at in (text.find("--"), text.find("/*")) if at >= 0]
    return min(starts, default=0)


def _check_depth(level: Iterable[Expression]) -> None:
    depth = 0
    while level := [below for node in level for below in children(node)]:
        depth += 1
        if depth > MAX_DEPTH:
            what = f"The expression is nested deeper than {MAX_DEPTH} levels."
            raise ExpressionError(
                what, "Split it, or group its parts with parentheses.", position=0
            )


class GivenExpression(ABC):
    """A condition or value other than text, such as a Spark `Column` of the caller's session.

    Only trusted code creates one. It has no JSON form, so no request can contain one.
    """

    @property
    @abstractmethod
    def text(self) -> str:
        """The text that people see."""

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
    return _require_boolean(tree, given.text[:200])


def _require_boolean(tree: Expression, shown: str) -> Expression:
    if tree.type not in {BOOLEAN, VOID}:
        what = f"A condition must be true or false, but {shown} is neither."
        raise NotBooleanError(what, "Write a comparison, such as amount > 10.", position=0)
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
