"""Calls with keyword arguments: EXTRACT, POSITION, SUBSTRING … FROM, DATEADD.

Each is another spelling of functions in the allow-list.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from engine.errors import ExpressionError
from engine.expressions import build
from engine.expressions.literals import interval_literal
from engine.expressions.nested_operands import NestedOperands
from engine.expressions.tree import Expression, Literal
from engine.expressions.types import INTEGRALS, NAMED_TYPES
from engine.schema.types import (
    DATE,
    INTEGER,
    STRING,
    TIMESTAMP,
    DataType,
    DecimalType,
)

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
            self.refuse("TRIM of one side takes spaces away alone: FROM was expected")
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
            what = f"DATEADD takes a unit and a number that is written out, and {unit[:60]} is not one."
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
        what = f"{part[:60]} is no part of a date that is known here."
        remedy = f"Use {', '.join(_PARTS)}, or a function of docs/sql.md."
        raise ExpressionError(what, remedy, position=position)
    return build.call(name, (value,), position)
