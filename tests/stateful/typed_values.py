"""An additional column of a generated history, of a type with difficult statistics: `v`, a function of x.

Its SQL order follows x, so that a condition over v selects the same rows as one over x. Two rows of
one x may hold values that are equal without being identical (0.0 and -0.0, a null struct and a struct
of nulls).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_DOWN, Decimal
from typing import Any

import pyarrow as pa

from engine.schema.arrow import to_arrow_type
from engine.schema.types import (
    DOUBLE,
    INTEGER,
    STRING,
    TIMESTAMP,
    DataType,
    DecimalType,
    StructField,
    StructType,
)

NAME = "v"
TOP = 7
"""The last x that has a value of its own; conditions may ask beyond it."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONG = "a text that is much longer than 32 characters, "


@dataclass(frozen=True)
class Typed:
    """A type of the column: its values by x, and their form in SQL and in statistics.

    `path` leads from the column to the compared field; `bounds` returns the least and greatest value as
    a writer's statistics have them, in one of two styles found in tables.
    """

    type: DataType
    values: Sequence[Any]
    literal: Callable[[Any], str]
    bounds: Callable[[list[Any], int], tuple[Any, Any]]
    path: tuple[str, ...] = ()
    twins: tuple[tuple[Any, Any], ...] = ()

    @property
    def column(self) -> str:
        """Return the compared field's SQL name."""
        return ".".join((NAME, *self.path))

    @property
    def arrow(self) -> pa.DataType:
        """The column's type in Arrow."""
        return to_arrow_type(self.type)

    def leaf(self, x: int | None, key: str) -> Any:
        """Return the compared value in the row of a key."""
        if x is None:
            return None
        value = self.values[x]
        return dict(self.twins).get(value, value) if len(key) % 2 else value

    def value(self, x: int | None, key: str) -> Any:
        """The column's value in the row of a key."""
        value = self.leaf(x, key)
        if value is None and len(key) % 2:
            return None
        for name in reversed(self.path):
            value = {name: value}
        return value

    def render_at_least(self, low: int) -> str:
        """SQL for x >= low."""
        return f"{self.column} >= {self.literal(self.values[low])}"

    def render_below(self, high: int) -> str:
        """SQL for x < high."""
        if high > TOP:
            return f"{self.column} <= {self.literal(self.values[TOP])}"
        return f"{self.column} < {self.literal(self.values[high])}"


def _number(value: float) -> float | str:
    """As JSON can say it."""
    return value if math.isfinite(value) else {math.inf: "Infinity"}.get(value, "-Infinity")


def _double_bounds(values: list[float], style: int) -> tuple[Any, Any]:
    """Return bounds without NaN, or none."""
    numbers = [value for value in values if not math.isnan(value)]
    if not numbers or (style and len(numbers) < len(values)):
        return None, None
    return _number(min(numbers)), _number(max(numbers))


def _decimal_bounds(values: list[Decimal], style: int) -> tuple[Any, Any]:
    """Exact, or by way of a double."""
    low, high = min(values), max(values)
    return (float(low), float(high)) if style else (low, high)


def _timestamp_bounds(values: list[datetime], style: int) -> tuple[Any, Any]:
    """Cut to milliseconds: downwards, or towards 1970."""
    return _milliseconds(min(values), style), _milliseconds(max(values), style)


def _milliseconds(value: datetime, style: int) -> str:
    micros = (value - _EPOCH) // timedelta(microseconds=1)
    millis = int(Decimal(micros).scaleb(-3).to_integral(ROUND_DOWN)) if style else micros // 1000
    moment = _EPOCH + timedelta(milliseconds=millis)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _text_bounds(values: list[str], style: int) -> tuple[Any, Any]:
    """Cut to 32 characters, or to 32 UTF-16 units, half of one becoming a question mark."""
    low, high = min(values), max(values)
    if style:
        return _cut_units(low), _cut_units(high) + "\ufffd"
    return low[:32], high if len(high) <= 32 else high[:32] + "\U0010ffff"


def _cut_units(text: str) -> str:
    return text.encode("utf-16-le")[:64].decode("utf-16-le", "replace").replace("\ufffd", "?")


def _plain_bounds(values: list[Any], _style: int) -> tuple[Any, Any]:
    return min(values), max(values)


def _quote(text: str) -> str:
    return f"'{text}'"


_DOUBLES = (-math.inf, -2.5, -1e-300, 0.0, 0.1 + 0.2, 0.1 * 3 + 1e-15, 1e300, math.nan)
_DECIMALS = tuple(Decimal("12345678901234567.000") + Decimal(x).scaleb(-3) for x in range(8))
_MOMENTS = tuple(_EPOCH + timedelta(microseconds=400 * x - 1300) for x in range(8))
_ENDS = ("", "A", "a", "é", "€", "\uffee", "\U0001f600", "\U0001f600z")
_TEXTS = tuple(_LONG + end for end in _ENDS)
_SHORT_OF_32 = tuple(_LONG[:31] + end for end in _ENDS)
_ONE = StructType((StructField("y", INTEGER),))
_DEEP = StructType((StructField("h", StructType((StructField("z", STRING),))),))

TYPES: dict[str, Typed] = {
    "double": Typed(
        DOUBLE,
        _DOUBLES,
        lambda value: f"{value!r}D" if math.isfinite(value) else f"CAST('{value}' AS DOUBLE)",
        _double_bounds,
        twins=((0.0, -0.0),),
    ),
    "decimal": Typed(DecimalType(20, 3), _DECIMALS, str, _decimal_bounds),
    "timestamp": Typed(
        TIMESTAMP, _MOMENTS, lambda value: f"TIMESTAMP'{value.isoformat()}'", _timestamp_bounds
    ),
    "long text": Typed(STRING, _TEXTS, _quote, _text_bounds),
    "text of 32": Typed(STRING, _SHORT_OF_32, _quote, _text_bounds),
    "field": Typed(_ONE, tuple(range(-30, 50, 10)), str, _plain_bounds, ("y",)),
    "text in a field": Typed(_DEEP, _SHORT_OF_32, _quote, _text_bounds, ("h", "z")),
}


def build_field(name: str) -> StructField:
    """The column of a type, whose comment tells which it is."""
    return StructField(NAME, TYPES[name].type, metadata={"comment": name})


def type_of(schema: StructType) -> Typed | None:
    """The type of a table's column, None where it has no such column."""
    field = schema.get(NAME)
    return None if field is None else TYPES[field.metadata["comment"]]
