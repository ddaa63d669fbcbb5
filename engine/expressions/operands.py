"""Operands: columns, literals, function calls, CASE, CAST and parentheses."""

from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from engine.errors import ExpressionError
from engine.expressions import build
from engine.expressions.functions import find_callable, remedy_for
from engine.expressions.keyword_calls import KeywordCalls
from engine.expressions.lexer import Token
from engine.expressions.literals import (
    has_zone,
    interval_between,
    interval_literal,
    interval_text,
    number_literal,
    parse_typed_literal,
    together,
)
from engine.expressions.nested_calls import LAMBDAS, field
from engine.expressions.scope import Scope
from engine.expressions.tree import (
    FALSE,
    INTERVAL,
    TRUE,
    VOID,
    Call,
    Column,
    Expression,
    Interval,
    Literal,
)
from engine.expressions.type_grammar import read_type
from engine.schema.text_lengths import has_limits
from engine.schema.types import BINARY, STRING, TIMESTAMP, DataType

MAX_DEPTH = 64
_CONSTANTS: dict[str, Literal] = {"TRUE": TRUE, "FALSE": FALSE, "NULL": Literal(None, VOID)}
_TYPED = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"})
_LOGIC = ("AND", "OR", "NOT", "IS", "IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "ESCAPE")
_VALUES = ("CASE", "WHEN", "THEN", "ELSE", "END", "NULL", "TRUE", "FALSE", "INTERVAL", "DIV")
_CALLS = ("CAST", "TRY_CAST", "OVER", "FILTER", "WITHIN", "COLLATE", "USING")
_SELECT = ("DISTINCT", "FROM", "SELECT", "WHERE", "EXISTS", "ANY", "SOME", "ALL", "LATERAL")
KEYWORDS = frozenset({*_LOGIC, *_VALUES, *_CALLS, *_SELECT})
"""Words that continue an expression after a value: no alias without AS."""
RESERVED = frozenset(
    (
        *("ALL", "AND", "ANY", "AS", "BOTH", "CASE", "CAST", "CHECK", "COLLATE", "CONSTRAINT"),
        *("CREATE", "DISTINCT", "ELSE", "END", "ESCAPE", "EXCEPT", "FALSE", "FETCH", "FILTER"),
        *("FOR", "FOREIGN", "FROM", "GROUP", "HAVING", "IN", "INTERSECT", "INTO", "IS", "LATERAL"),
        *("LEADING", "MINUS", "NOT", "NULL", "OFFSET", "ON", "OR", "ORDER", "OVERLAPS", "PRIMARY"),
        *("REFERENCES", "SELECT", "SOME", "TABLE", "THEN", "TRAILING", "TRUE", "UNION", "UNIQUE"),
        *("USING", "WHEN", "WHERE", "WITH", "WITHIN"),
    )
)
"""Words that are no column without backticks.

Spark's own list of reserved words (`sql_keywords()` with `enforceReservedKeywords`), except those no
grammar here uses (`USER`, `TIME`, `SQL`, …), and the words of joins, which Spark accepts as columns
wherever a value begins.
"""

Nested = Callable[["Operands", str], Expression]


@dataclass(frozen=True)
class Moments:
    """The values of time functions by lower-case name, and who reads times without a time zone.

    `by_session` leaves them to the session that evaluates the expression; otherwise they are UTC.
    """

    values: Mapping[str, Expression]
    by_session: bool = False


class Operands(KeywordCalls, ABC):
    """One pass over the tokens of one expression.

    `nested` parses a subquery from its SELECT; without it there are no subqueries.
    """

    def __init__(
        self,
        tokens: list[Token],
        scope: Scope,
        moments: Moments,
        nested: Nested | None = None,
    ) -> None:
        super().__init__(tokens, scope)
        self.moments, self.nested = moments, nested
        self._depth = 0

    def _subquery(self, kind: str) -> Expression:
        if self.nested is None:
            what = "A subquery is not allowed here."
            remedy = "Use MERGE, or write the values as literals."
            raise ExpressionError(what, remedy, position=self.position)
        expression = self.nested(self, kind)
        self.need(")")
        return expression

    def _list(self) -> list[Expression]:
        """Parse expressions up to and including the closing parenthesis."""
        if self.take(")"):
            return []
        items = [self.expression()]
        while self.take(","):
            items.append(self.expression())
        self.need(")")
        return items

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            what = f"The expression is nested deeper than {MAX_DEPTH} levels."
            raise ExpressionError(what, "Split it.", position=self.position)

    def _postfix(self, operand: Expression) -> Expression:
        while True:
            position = self.position
            if self.take("["):
                operand = build.call("get", (operand, self.expression()), position)
                self.need("]")
            elif self.take("::"):
                operand = build.cast(operand, self.type(), lenient=False, position=position)
            elif self.peek() == "." and not isinstance(operand, Column):
                self.index += 1
                operand = field(operand, self.field_name(), position)
            else:
                return operand

    def _primary(self) -> Expression:
        token = self.token(0)
        if token is None:
            self.refuse("a value was expected")
        if token.kind == "word":
            return self._word(token)
        if token.kind == "hex":
            return self._hex(token)
        if token.kind == "string":
            return Literal(self._strings(), STRING)
        if token.kind == "number":
            return self._number(negative=False)
        return self._parse_name() if token.kind == "name" else self._bracket()

    def _strings(self) -> str:
        """Parse adjacent strings as one."""
        text = self.string()
        while (after := self.token()) is not None and after.kind == "string":
            text += self.string()
        return text

    def _number(self, *, negative: bool) -> Literal:
        token = self.token(0)
        literal = number_literal(token.value, negative=negative) if token else None
        if literal is None:
            self.refuse("no numeric type can hold this number")
        self.index += 1
        return literal

    def _hex(self, token: Token) -> Literal:
        try:
            value = bytes.fromhex(token.value.zfill(len(token.value) + len(token.value) % 2))
        except ValueError:
            self.refuse("this is not a hexadecimal number")
        self.index += 1
        return Literal(value, BINARY)

    def _bracket(self) -> Expression:
        if not self.take("("):
            self.refuse()
        if self.peek() in {"SELECT", "WITH"}:
            return self._subquery("scalar")
        position, values = self.position, [self.expression()]
        while self.take(","):
            values.append(self.expression())
        self.need(")")
        return values[0] if len(values) == 1 else self._row(values, position)

    def _row(self, values: list[Expression], position: int) -> Expression:
        """Build (a, b) as a struct with generated field names."""
        parts: list[Expression] = []
        for number, value in enumerate(values, 1):
            parts += [Literal(f"col{number}", STRING), value]
        return build.call("named_struct", parts, position)

    def _word(self, token: Token) -> Expression:
        after = self.token(1)
        if token.value in _TYPED and after and after.kind == "string":
            return self._parse_typed_literal(token, after)
        special = self._special(token.value, after)
        if special:
            return special()
        if self.peek(1) == "(":
            return self._function(token)
        constant = _CONSTANTS.get(token.value) or self.moments.values.get(token.value.lower())
        if constant is None or self.peek(1) == ".":
            return self._parse_name()
        self.index += 1
        return constant

    def _special(self, word: str, after: Token | None) -> Callable[[], Expression] | None:
        """Return the parser for a grammar keyword, which may also be a column name elsewhere."""
        if word == "CASE":
            return self._case
        if word == "INTERVAL":
            begins = after is not None and (
                after.kind in {"number", "string"} or after.text in "+-"
            )
            return self._interval if begins else None
        return self._special_call(word) if after is not None and after.text == "(" else None

    def _special_call(self, word: str) -> Callable[[], Expression] | None:
        if word == "EXISTS" and self.peek(2) in {"SELECT", "WITH", "VALUES"}:
            return self._exists
        return self._cast if word in {"CAST", "TRY_CAST"} else self._keyword_call(word)

    def _parse_typed_literal(self, kind: Token, text: Token) -> Expression:
        literal = parse_typed_literal(kind.value, text.value)
        if literal is None:
            self.refuse(f"{text.text[:60]} is not a {kind.value}")
        self.index += 2
        if self.moments.by_session and literal.type == TIMESTAMP and not has_zone(text.value):
            return Call("cast", (Literal(text.value, STRING),), TIMESTAMP)
        return literal

    def _column(self) -> Expression:
        position, path = self.position, [self.name()]
        while self.peek() == ".":
            self.index += 1
            path.append(self.name())
        if self.peek() == "(":
            what = (
                f"The function {'.'.join(path)[:100]} is not supported: a function name has "
                "no qualifier here."
            )
            raise ExpressionError(what, remedy_for(path[-1]), position=position)
        return self.scope.resolve(path, position)

    def name(self) -> str:
        """Parse a column name, plain or in backticks.

        Raises:
            ExpressionError: it is a keyword, or no name.
        """
        token = self.token(0)
        if token is None or token.kind not in {"word", "name"}:
            self.refuse("a column was expected")
        if token.kind == "word" and token.value in RESERVED:
            self.refuse("a column of that name needs backticks")
        self.index += 1
        return token.value if token.kind == "name" else token.text

    def _function(self, token: Token) -> Expression:
        name = token.value.lower()
        self.index += 2
        if name in self.moments.values and self.take(")"):
            return self.moments.values[name]
        function = find_callable(name)
        if function is None:
            what = (
                f"The function {token.text[:100]} at {token.position} is not allowed in an "
                "expression."
            )
            raise ExpressionError(what, remedy_for(name), position=token.position)
        if function.name in LAMBDAS:
            return self._parse_lambda_call(function.name, token.position)
        if name == "struct":
            return self._struct(token.position)
        return build.call(function.name, self._list(), token.position)

    def _case(self) -> Expression:
        position = self.position
        self.need("CASE")
        operand = None if self.peek() == "WHEN" else self.expression()
        arguments: list[Expression] = []
        while self.take("WHEN"):
            condition = self.expression()
            arguments.append(
                condition if operand is None else build.call("=", (operand, condition), position)
            )
            self.need("THEN")
            arguments.append(self.expression())
        if not arguments:
            self.refuse("WHEN was expected")
        if self.take("ELSE"):
            arguments.append(self.expression())
        self.need("END")
        return build.call("case", arguments, position)

    def _cast(self) -> Expression:
        position, lenient = self.position, self.peek() == "TRY_CAST"
        self.index += 1
        self.need("(")
        operand = self.expression()
        if not self.take("AS"):
            self.refuse("AS was expected")
        target = self.type()
        self.need(")")
        return build.cast(operand, target, lenient=lenient, position=position)

    def type(self) -> DataType:
        """Parse an SQL type name.

        Raises:
            ExpressionError: it is none, or has a limited text length.
        """
        position, data_type = self.position, read_type(self)
        if has_limits(data_type):
            what = "A value cannot be cast to CHAR or VARCHAR, which are types of columns only."
            raise ExpressionError(what, "Cast to STRING.", position=position)
        return data_type

    def _interval(self) -> Expression:
        self.need("INTERVAL")
        if (whole := self._parse_interval_text()) is not None:
            return whole
        interval = self._span()
        while interval is not None and self._span_ahead():
            more = self._span()
            if more is None or (more.unit == "MONTH") != (interval.unit == "MONTH"):
                self.refuse("an interval cannot combine years and months with days and hours")
            interval = together(interval, more)
        if interval is None:
            self.refuse("write an interval as INTERVAL 7 DAYS")
        return Literal(interval, INTERVAL)

    def _parse_interval_text(self) -> Expression | None:
        """Parse an interval within quotes, as `'1 day 2 hours'`."""
        token = self.token()
        if (
            token is None
            or token.kind != "string"
            or (literal := interval_text(token.value)) is None
        ):
            return None
        self.index += 1
        return literal

    def _span_ahead(self) -> bool:
        """Return whether the interval continues: `1 YEAR 2 MONTHS`."""
        amount, unit = self.token(0), self.token(1)
        if amount is None or unit is None or amount.kind not in {"number", "string"}:
            return False
        return interval_literal(amount.value, unit.value) is not None

    def _span(self) -> Interval | None:
        sign = "-" if self.take("-") else ""
        amount, unit = self.token(0), self.token(1)
        if amount is None or unit is None or amount.kind not in {"number", "string"}:
            return None
        width, literal = 2, interval_literal(sign + amount.value, unit.value)
        if self.peek(2) == "TO" and amount.kind == "string" and not sign:
            width, literal = 4, interval_between(amount.value, unit.value, self.peek(3))
        if literal is None or not isinstance(literal.value, Interval):
            return None
        self.index += width
        return literal.value

    def _exists(self) -> Expression:
        self.need("EXISTS")
        self.need("(")
        return self._subquery("exists")
