"""Fast pruning by the most common conditions: a column compared with constants.

Statistics of a million files are decoded for the compared columns only and compared in one pass.
Anything beyond `column = 5`, `name < 'x'` or `day IN (…)` is left to
`engine.snapshot.data_skipping`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from engine.expressions.text_bounds import may_be_cut
from engine.expressions.tree import Call, Column, Expression, Literal
from engine.expressions.types import INTEGRALS
from engine.schema.column_mapping import physical_name
from engine.schema.types import DATE, STRING, DataType, StructType
from engine.snapshot.stats_fields import can_be_decoded

_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MAY_HOLD: dict[str, Callable[[Any, Any, Any], bool]] = {
    "=": lambda low, high, value: low <= value and (high is None or value <= high),
    "<": lambda low, _, value: low < value,
    "<=": lambda low, _, value: low <= value,
    ">": lambda _, high, value: high is None or high > value,
    ">=": lambda _, high, value: high is None or high >= value,
}


@dataclass(frozen=True, slots=True)
class ColumnComparison:
    """A column against one value, or several for IN. Dates are ISO texts, as in statistics."""

    name: str  # physical
    kind: DataType
    operator: str
    values: tuple[Any, ...]

    def may_hold(self, low: Any, high: Any) -> bool:  # noqa: ANN401 - JSON
        """Return whether the comparison can be true for a value between two bounds of statistics."""
        low, high = self._check_bound(low), self._check_bound(high)
        if low is None or high is None or low > high:
            return True
        if self.kind == STRING and may_be_cut(high):
            high = None
        test = _MAY_HOLD[self.operator]
        return any(test(low, high, value) for value in self.values)

    def _check_bound(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        """Return the bound if it is a value of the column's type, else None."""
        if self.kind in INTEGRALS:
            return value if type(value) is int else None
        if not isinstance(value, str):
            return None
        return value if self.kind == STRING or _ISO_DATE.fullmatch(value) else None


def parse_comparison(
    condition: Expression, schema: StructType, mode: str
) -> ColumnComparison | None:
    """Parse a condition as a simple comparison; return None if it is anything else."""
    if not isinstance(condition, Call):
        return None
    if condition.function == "in":
        return _build_comparison(condition.arguments[0], "=", condition.arguments[1:], schema, mode)
    if condition.function not in _MIRRORED:
        return None
    left, right = condition.arguments
    if isinstance(left, Literal):
        return _build_comparison(right, _MIRRORED[condition.function], (left,), schema, mode)
    return _build_comparison(left, condition.function, (right,), schema, mode)


def prune_by(files: pa.Table, comparisons: Sequence[ColumnComparison]) -> pa.Table:
    """Return the files whose statistics allow every comparison to be true."""
    names = list(dict.fromkeys(comparison.name for comparison in comparisons))
    decode = _decoder(tuple(names))
    placed = [(f"f{names.index(comparison.name)}", comparison) for comparison in comparisons]
    keep = np.ones(files.num_rows, dtype=bool)
    texts = (text for chunk in files.column("stats").chunks for text in chunk.to_pylist())
    masked = files.column("deletion_vector").is_valid().to_numpy()
    for row, text in enumerate(texts):
        if text is None:
            continue
        try:
            stats = decode(text)
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            continue
        keep[row] = _all_possible(stats, placed, has_vector=bool(masked[row]))
    return files if keep.all() else files.filter(pa.array(keep))


def _all_possible(
    stats: Any,  # noqa: ANN401 - generated
    comparisons: Sequence[tuple[str, ColumnComparison]],
    *,
    has_vector: bool,
) -> bool:
    """Return whether statistics allow every comparison to be true.

    With a vector, some writers count only the live rows in `numRecords`, but the nulls of all.
    """
    row_count = None if has_vector else stats.numRecords
    lows, highs, nulls = stats.minValues, stats.maxValues, stats.nullCount
    for field, comparison in comparisons:
        low = None if lows is None else getattr(lows, field)
        high = None if highs is None else getattr(highs, field)
        if nulls is not None and low is None and high is None and row_count is not None:
            count = getattr(nulls, field)
            if type(count) is int and 0 < count == row_count:
                return False  # no comparison with null is true
        if not comparison.may_hold(low, high):
            return False
    return True


@lru_cache(maxsize=64)
def _decoder(names: tuple[str, ...]) -> Callable[[str], Any]:
    """Return a decoder for the statistics of the compared columns, skipping all others."""
    fields = [(f"f{place}", Any, None) for place in range(len(names))]
    bounds = msgspec.defstruct(
        "_Bounds", fields, rename=dict(zip((f[0] for f in fields), names, strict=True))
    )
    stats = msgspec.defstruct(
        "_Stats",
        [
            ("numRecords", int | None, None),
            ("minValues", bounds | None, None),
            ("maxValues", bounds | None, None),
            ("nullCount", bounds | None, None),
        ],
    )
    return msgspec.json.Decoder(stats).decode


def _build_comparison(
    column: Expression, operator: str, values: Sequence[Expression], schema: StructType, mode: str
) -> ColumnComparison | None:
    if not isinstance(column, Column) or len(column.path) != 1 or column.relation:
        return None
    field = schema.get(column.path[0])
    if field is None or "__COLLATIONS" in field.metadata:
        return None
    constants = tuple(_constant(value, field.type) for value in values)
    if not constants or any(constant is None for constant in constants):
        return None
    name = physical_name(field, mode)
    return ColumnComparison(name, field.type, operator, constants) if can_be_decoded(name) else None


def _constant(expression: Expression, kind: DataType) -> int | str | None:
    """Convert a constant to its form in statistics; return None if its type is not the column's."""
    if not isinstance(expression, Literal) or expression.value is None:
        return None
    value = expression.value
    if kind in INTEGRALS and expression.type in INTEGRALS:
        return value if type(value) is int else None
    if kind == STRING and expression.type == STRING:
        return str(value)
    if kind == DATE and expression.type == DATE and isinstance(value, date):
        return value.isoformat()
    return None
