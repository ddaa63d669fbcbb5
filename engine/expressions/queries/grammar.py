"""Expressions in a query: those of conditions, plus aggregates and window functions if allowed."""

from collections.abc import Mapping
from math import inf

from engine.errors import ExpressionError
from engine.expressions.functions import Function
from engine.expressions.grammar import Grammar
from engine.expressions.lexer import Token
from engine.expressions.literals import is_whole
from engine.expressions.operands import Moments, Nested
from engine.expressions.queries.functions import (
    WINDOW_FUNCTIONS,
    find_aggregate,
    find_window_function,
)
from engine.expressions.queries.plan import AggregateCall, SortKey, WindowCall
from engine.expressions.queries.scope import QueryScope
from engine.expressions.traits import has_subquery
from engine.expressions.tree import VOID, Column, Expression, Literal
from engine.expressions.types import sql_name
from engine.schema.types import BOOLEAN, LONG, DataType, MapType

_NEEDS_ORDER = frozenset(
    {"row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead"}
)


class Calls:
    """The aggregate and window calls in the expressions of one SELECT, each with a name."""

    def __init__(self, side: str) -> None:
        self.side = side
        self.aggregates: dict[AggregateCall, str] = {}
        self.windows: dict[WindowCall, str] = {}

    def aggregate(self, call: AggregateCall) -> Column:
        """Return the column for the aggregate's value."""
        name = self.aggregates.setdefault(call, f"{self.side}.a{len(self.aggregates)}")
        return Column((name,), call.type)

    def window(self, call: WindowCall) -> Column:
        """Return the column for the window function's value."""
        name = self.windows.setdefault(call, f"{self.side}.w{len(self.windows)}")
        return Column((name,), call.type)


class QueryGrammar(Grammar):
    """One pass over the tokens of one expression of a query.

    `calls` collects aggregate and window functions; without it there may be none, for the reason
    `place`. `aliases` are the column names of the SELECT; with `aliases_first` they hide the
    tables' columns, and without `aliases_in_calls` aggregate and window functions do not see them.
    """

    aliases_in_calls = True

    help = "Use columns, literals, operators and the functions in docs/sql.md."

    def __init__(  # noqa: PLR0913 - the context of an expression
        self,
        tokens: list[Token],
        scope: QueryScope,
        moments: Moments,
        nested: Nested,
        *,
        calls: Calls | None = None,
        place: str = "here",
        aliases: Mapping[str, Expression] | None = None,
        aliases_first: bool = False,
    ) -> None:
        super().__init__(tokens, scope, moments, nested)
        self.tables, self.calls, self.place = scope, calls, place
        self.aliases, self.aliases_first = aliases or {}, aliases_first

    def whole(self) -> Expression:
        """Parse all tokens as one expression; raise `ExpressionError` if tokens are left over."""
        expression = self.expression()
        if not self.at_end:
            self.refuse()
        return expression

    def _column(self) -> Expression:
        token = self.token(0)
        if token is not None and self.peek(1) not in {".", "("}:
            name = (token.value if token.kind == "name" else token.text).lower()
            tree = self.aliases.get(name)
            if tree is not None and (self.aliases_first or not self.tables.has([name])):
                self.index += 1
                return tree
        return super()._column()

    def _function(self, token: Token) -> Expression:
        name = token.value.lower()
        aggregate, windowed = find_aggregate(name), find_window_function(name)
        if windowed is None:
            return super()._function(token)
        if self.calls is None or self._variables:
            place = "in a lambda" if self._variables else self.place
            what = f"The function {name} at {token.position} cannot be used {place}."
            raise ExpressionError(
                what, "Compute it in a subquery, or use HAVING.", position=token.position
            )
        self.index += 2
        aliases = self.aliases
        self.aliases = aliases if self.aliases_in_calls else {}
        tree = self._parse_row_call(token, aggregate, windowed)
        self.aliases = aliases
        return tree

    def _parse_row_call(
        self, token: Token, aggregate: Function | None, windowed: Function
    ) -> Expression:
        """Parse the call of an aggregate or window function after its name and parenthesis."""
        name, calls = token.value.lower(), self.calls
        assert calls is not None  # noqa: S101 - checked by the caller
        before = len(calls.aggregates)
        distinct = self.take("DISTINCT")
        arguments = self._all_rows(name) or tuple(self._list())
        condition = self._only_where()
        if any(has_subquery(tree) for tree in (*arguments, *([condition] if condition else []))):
            what = f"{name} at {token.position} contains a subquery."
            raise ExpressionError(what, "Use a subquery in FROM.", position=token.position)
        if self.take("OVER"):
            if distinct or condition is not None:
                self.refuse("DISTINCT and FILTER cannot be combined with OVER")
            return self._window(windowed, arguments, token)
        if aggregate is None:
            self.refuse(f"{name} needs OVER (…)")
        if len(calls.aggregates) > before:
            what = f"{name} at {token.position} contains an aggregate."
            raise ExpressionError(what, "Use a subquery in FROM.", position=token.position)
        _check_call(aggregate, arguments, token)
        result = _result(aggregate, arguments, token)
        call = AggregateCall(aggregate.name, arguments, result, distinct, condition)
        return calls.aggregate(call)

    def _all_rows(self, name: str) -> tuple[Expression, ...]:
        if name != "count" or not self.take("*", ")"):
            return ()
        return (Literal(1, LONG),)

    def _only_where(self) -> Expression | None:
        if not self.take("FILTER"):
            return None
        self.need("(", "WHERE")
        calls, self.calls = self.calls, None
        condition = self.expression()
        self.calls = calls
        if condition.type not in {BOOLEAN, VOID}:
            self.refuse("FILTER takes a condition")
        self.need(")")
        return condition

    def _window(
        self, function: Function, arguments: tuple[Expression, ...], token: Token
    ) -> Expression:
        _check_call(function, arguments, token)
        if self.peek() != "(":
            self.refuse("a window in parentheses was expected")
        self.index += 1
        partition = self._several() if self.take("PARTITION", "BY") else ()
        order = self._parse_sort_keys() if self.take("ORDER", "BY") else ()
        frame = self._frame()
        self.need(")")
        if function.name in _NEEDS_ORDER and not order:
            what = f"{function.name} at {token.position} needs an ORDER BY in its window."
            raise ExpressionError(what, "Add ORDER BY to the window.", position=token.position)
        if function.name in WINDOW_FUNCTIONS and frame and "value" not in function.name:
            self.refuse(f"{function.name} takes no frame")
        result = _result(function, arguments, token)
        assert self.calls is not None  # noqa: S101 - checked by the caller
        return self.calls.window(
            WindowCall(function.name, arguments, result, partition, order, frame)
        )

    def _several(self) -> tuple[Expression, ...]:
        expressions = [self.expression()]
        while self.take(","):
            expressions.append(self.expression())
        return tuple(expressions)

    def _parse_sort_keys(self) -> tuple[SortKey, ...]:
        keys = [self._sort_key()]
        while self.take(","):
            keys.append(self._sort_key())
        return tuple(keys)

    def _sort_key(self) -> SortKey:
        value = self.expression()
        descending = self.take("DESC")
        if not descending:
            self.take("ASC")
        nulls_first = not descending
        if self.take("NULLS", "FIRST"):
            nulls_first = True
        elif self.take("NULLS", "LAST"):
            nulls_first = False
        return SortKey(value, descending, nulls_first)

    def _frame(self) -> str:
        """Parse ROWS | RANGE [BETWEEN] bound [AND bound] to words of this grammar; "" for none."""
        unit = self.peek()
        if unit not in {"ROWS", "RANGE"}:
            return ""
        self.index += 1
        between = self.take("BETWEEN")
        start, first = self._parse_frame_bound(unit)
        end, last = "CURRENT ROW", 0.0
        if between:
            self.need("AND")
            end, last = self._parse_frame_bound(unit)
        if first > last or first == inf or last == -inf:
            self.refuse("the frame ends before it starts")
        return f"{unit} BETWEEN {start} AND {end}"

    def _parse_frame_bound(self, unit: str) -> tuple[str, float]:
        """Parse a bound of a frame; return it with its distance after the current row."""
        if self.take("CURRENT", "ROW"):
            return "CURRENT ROW", 0.0
        token = self.token()
        if self.take("UNBOUNDED"):
            count, number = "UNBOUNDED", inf
        elif (
            token is not None and unit == "ROWS" and is_whole(token.value) and len(token.value) < 10
        ):
            self.index += 1
            count, number = str(int(token.value)), float(token.value)
        else:
            self.refuse("a frame has the bounds UNBOUNDED, CURRENT ROW or a number of ROWS")
        if self.take("PRECEDING"):
            return f"{count} PRECEDING", -number
        self.need("FOLLOWING")
        return f"{count} FOLLOWING", number


def _check_call(function: Function, arguments: tuple[Expression, ...], token: Token) -> None:
    if not function.accepts_count(len(arguments)):
        what = f"{function.name} at {token.position} does not take {len(arguments)} arguments."
        raise ExpressionError(what, "Check its arguments.", position=token.position)
    mismatch = function.mismatch([argument.type for argument in arguments])
    if mismatch:
        type_name = sql_name(arguments[mismatch[0]].type)
        what = f"{function.name} at {token.position} takes a {mismatch[1]}, not {type_name}."
        raise ExpressionError(what, "Cast it first.", position=token.position)


def _result(function: Function, arguments: tuple[Expression, ...], token: Token) -> DataType:
    types = [argument.type for argument in arguments]
    result = function.result(types)
    unordered = function.name in {"min", "max"} and isinstance(types[0], MapType)
    if result is None or unordered:
        what = f"{function.name} at {token.position} does not accept these types."
        raise ExpressionError(what, "Cast its arguments.", position=token.position)
    return result
