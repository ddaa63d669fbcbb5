"""Operands with a syntax of their own: calls with keywords, lambdas and structs.

EXTRACT, POSITION, SUBSTRING … FROM, DATEADD and the like are other spellings of functions in the
allow-list.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from engine.errors import ExpressionError
from engine.expressions import build
from engine.expressions.cursor import Cursor
from engine.expressions.lexer import Token
from engine.expressions.literals import interval_literal
from engine.expressions.nested_calls import LAMBDAS, MAX_LAMBDAS, lambda_depth, variables
from engine.expressions.scope import Scope
from engine.expressions.traits import has_subquery
from engine.expressions.tree import Call, Column, Expression, Literal, Variable
from engine.expressions.types import INTEGRALS, NAMED_TYPES
from engine.schema.types import DATE, INTEGER, STRING, TIMESTAMP, DataType, DecimalType

Reading: TypeAlias = Callable[[], Expression]
_VALUE = 5
"""The level of the operand before IN, where IN is not an operator."""
_PARTS = {
    "YEAR": "year",
    "QUARTER": "quarter",
    "MONTH": "month",
    "WEEK": "weekofyear",
    "DAY": "day",
    "DAYOFWEEK": "dayofweek",
    "DOW": "dayofweek",
    "DOY": "dayofyear",
    "HOUR": "hour",
    "MINUTE": "minute",
}
_ATOMS: tuple[str, ...] = (
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DATE",
    "TIMESTAMP",
)
_ATOMS += ("BINARY", "STRING")
_DATES_ADDED = frozenset({"TIMESTAMPADD", "DATEADD", "DATE_ADD"})
_TRIMS = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}
_CASTS: dict[str, DataType] = {
    **{name: NAMED_TYPES[name] for name in _ATOMS},
    "DECIMAL": DecimalType(10, 0),
}
"""Spark's functions named after the type they cast to."""
KEYWORD_CALLS = frozenset(
    (
        *("extract", "date_part", "datepart", "position", "locate", "dateadd", "timestampadd"),
        *map(str.lower, _CASTS),
    )
)
"""Keyword calls without a function of their name."""


class NestedOperands(Cursor, ABC):
    """Parses the arguments of functions with lambdas, and of `struct`."""

    def __init__(self, tokens: list[Token], scope: Scope) -> None:
        super().__init__(tokens)
        self.scope = scope
        self._made = 0
        self._variables: list[dict[str, Variable]] = []

    @abstractmethod
    def expression(self) -> Expression:
        """Parse an expression of any operators."""

    @abstractmethod
    def _column(self) -> Expression:
        """Parse the column ahead."""

    def _parse_name(self) -> Expression:
        """Parse a variable of an enclosing lambda, or a column."""
        token = self.token()
        name = "" if token is None else token.value if token.kind == "name" else token.text
        for made in reversed(self._variables):
            if name.lower() in made:
                self.index += 1
                return made[name.lower()]
        return self._column()

    def field_name(self) -> str:
        """Parse the name after a dot, possibly a keyword.

        Raises:
            ExpressionError: something else follows.
        """
        token = self.token()
        if token is None or token.kind not in {"word", "name"}:
            self.refuse("the name of a field was expected")
        self.index += 1
        return token.value if token.kind == "name" else token.text

    def _struct(self, position: int) -> Expression:
        """Parse struct(a, b AS c): fields are named by columns, by AS, else col1, col2, …."""
        parts: list[Expression] = []
        while True:
            value = self.expression()
            name = f"col{len(parts) // 2 + 1}"
            if self.take("AS"):
                name = self.field_name()
            elif isinstance(value, Column):
                name = value.path[-1].rpartition(".")[2] if len(value.path) == 1 else value.path[-1]
            elif isinstance(value, Call) and value.function == "field":
                last = value.arguments[1]
                name = str(last.value) if isinstance(last, Literal) else name
            parts += [Literal(name, STRING), value]
            if not self.take(","):
                self.need(")")
                return build.call("named_struct", parts, position)

    def _parse_lambda_call(self, name: str, position: int) -> Expression:
        """Parse a call with values first, then lambdas over their elements."""
        (first, kind), counts = LAMBDAS[name]
        arguments: list[Expression] = []
        while len(arguments) < first:
            arguments.append(self.expression())
            self.need(",")
        types = [argument.type for argument in arguments]
        arguments.append(self._lambda(name, lambda count: variables(kind, types, count), counts))
        if name == "aggregate" and self.take(","):
            arguments.append(self._lambda(name, lambda _: [types[1]], (1,)))
        self.need(")")
        call = build.call(name, arguments, position)
        if lambda_depth(call) > MAX_LAMBDAS:
            what = f"Lambdas are nested more than {MAX_LAMBDAS} levels deep."
            raise ExpressionError(what, "Compute the inner ones first.", position=position)
        return call

    def _lambda(
        self, name: str, types_of: Callable[[int], list[DataType] | None], counts: tuple[int, ...]
    ) -> Expression:
        position = self.position
        bracket = self.take("(")
        names = [self.field_name()]
        while bracket and self.take(","):
            names.append(self.field_name())
        if bracket:
            self.need(")")
        self.need("->")
        types = types_of(len(names))
        if (
            types is None
            or len(names) not in counts
            or len({n.lower() for n in names}) < len(names)
        ):
            takes = " or ".join(map(str, counts))
            what = f"The lambda of {name} takes {takes} names, over a matching array or map."
            raise ExpressionError(what, "Check the argument before the lambda.", position=position)
        made = [Variable(self._fresh(), data_type) for data_type in types]
        self._variables.append(
            {given.lower(): variable for given, variable in zip(names, made, strict=True)}
        )
        body = self.expression()
        self._variables.pop()
        if has_subquery(body):
            what = f"A lambda of {name} contains a subquery."
            raise ExpressionError(what, "Join the subquery's table instead.", position=position)
        return Call("lambda", (body, *made), body.type)

    def _fresh(self) -> str:
        """Return a name unused by any column, for a lambda's variable."""
        taken = {
            column.lower() for relation in self.scope.relations for column in relation.schema.names
        }
        while (name := f"v{self._made}") in taken:
            self._made += 1
        self._made += 1
        return name


class KeywordCalls(NestedOperands, ABC):
    """Parses the arguments of functions with keyword syntax."""

    @abstractmethod
    def expression(self, level: int = 1) -> Expression:
        """Parse an expression of operators binding at least as tightly as `level`."""

    def _keyword_call(self, word: str) -> Reading | None:
        """Return the parser of the keyword call ahead; None for a plain call."""
        if word in _DATES_ADDED:
            unit = self.token(2)
            names_unit = unit is not None and interval_literal("1", unit.text) is not None
            return self._date_add if names_unit and self._arguments() == 3 else None
        if word == "TRIM":
            return self._trim if self.peek(2) in {*_TRIMS, "FROM"} else None
        readings: dict[str, Reading] = {
            "EXTRACT": self._extract,
            **dict.fromkeys(("DATE_PART", "DATEPART"), self._date_part),
            **dict.fromkeys(("POSITION", "LOCATE"), self._position),
            **dict.fromkeys(("SUBSTRING", "SUBSTR"), self._substring),
            **dict.fromkeys(_CASTS, self._cast_by_name),
        }
        return readings.get(word)

    def _arguments(self) -> int:
        """Count the arguments in the parentheses ahead, after a name: `day` may be a column."""
        offset, depth, commas = 2, 1, 0
        while depth and self.token(offset) is not None:
            word = self.peek(offset)
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(word, 0)
            commas += depth == 1 and word == ","
            offset += 1
        return commas + 1

    def _extract(self) -> Expression:
        """EXTRACT(part FROM value)."""
        position = self.position
        self.need("EXTRACT", "(")
        part = self.field_name()
        self.need("FROM")
        value = self.expression()
        self.need(")")
        return _part_of(value, part, position)

    def _date_part(self) -> Expression:
        """Parse date_part('part', value)."""
        position = self.position
        self.index += 2
        part = self.string("the part")
        self.need(",")
        value = self.expression()
        self.need(")")
        return _part_of(value, part, position)

    def _position(self) -> Expression:
        """Parse POSITION(part IN text), or with a comma for IN."""
        position = self.position
        self.index += 2
        part = self.expression(_VALUE)
        if not self.take("IN"):
            self.need(",")
        text = self.expression()
        self.need(")")
        return build.call("instr", (text, part), position)

    def _substring(self) -> Expression:
        """Parse substring(text, start [, length]), or with FROM and FOR for the commas."""
        position = self.position
        self.index += 2
        arguments = [self.expression()]
        words = self.peek() == "FROM"
        while self.take(("FROM", "FOR")[len(arguments) - 1] if words else ","):
            arguments.append(self.expression())
            if words and len(arguments) > 2:
                break
        self.need(")")
        return build.call("substring", arguments, position)

    def _cast_by_name(self) -> Expression:
        """Parse int(value) as CAST(value AS INT)."""
        position, target = self.position, _CASTS[self.peek()]
        self.index += 2
        value = self.expression()
        self.need(")")
        return build.cast(value, target, lenient=False, position=position)

    def _trim(self) -> Expression:
        """TRIM([BOTH | LEADING | TRAILING] FROM text): of spaces; BOTH takes characters too."""
        position = self.position
        self.index += 2
        side = self.peek()
        if side in _TRIMS:
            self.index += 1
        if self.peek() != "FROM" and side == "BOTH":
            characters = self.expression()
            self.need("FROM")
            text = self.expression()
            self.need(")")
            return build.call("btrim", (text, characters), position)
        if not self.take("FROM"):
            self.refuse("TRIM LEADING and TRIM TRAILING need FROM")
        text = self.expression()
        self.need(")")
        return build.call(_TRIMS.get(side, "trim"), (text,), position)

    def _date_add(self) -> Expression:
        """Parse DATEADD(unit, number, value) as the sum of a timestamp and an interval."""
        position = self.position
        self.index += 2
        unit = self.field_name()
        self.need(",")
        amount = self.expression()
        self.need(",")
        value = self.expression()
        self.need(")")
        whole = isinstance(amount, Literal) and amount.type in INTEGRALS
        span = interval_literal(str(amount.value), unit) if whole else None  # type: ignore[union-attr]
        if span is None:
            what = f"DATEADD of {unit[:60]} needs a supported unit and a literal whole number."
            remedy = "Add an interval: value + INTERVAL 7 DAYS."
            raise ExpressionError(what, remedy, position=position)
        if value.type in {DATE, STRING}:
            value = build.cast(value, TIMESTAMP, lenient=False, position=position)
        return build.call("+", (value, span), position)


def _part_of(value: Expression, part: str, position: int) -> Expression:
    if part.upper() in {"DAYOFWEEK_ISO", "DOW_ISO"}:
        counted = build.call("weekday", (value,), position)
        return build.call("+", (counted, Literal(1, INTEGER)), position)
    name = _PARTS.get(part.upper())
    if name is None:
        what = f"{part[:60]} is not a supported part of a date."
        remedy = f"Use {', '.join(_PARTS)}, or a function in docs/sql.md."
        raise ExpressionError(what, remedy, position=position)
    return build.call(name, (value,), position)
