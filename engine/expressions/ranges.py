"""Sets of values as bounds: the possible values of a file's column, or of an expression."""

from typing import Any, NamedTuple


class TruthValues(NamedTuple):
    """Whether a condition may be true, false and null."""

    true: bool
    false: bool
    null: bool


ANY = TruthValues(true=True, false=True, null=True)
_LAST = 0x10FFFF


class ValueRange(NamedTuple):
    """The possible values of an expression: null, NaN, and those from `low` to `high`, inclusive.

    None as a bound is no bound. `values` is False if no value between the bounds is possible.
    """

    low: Any = None
    high: Any = None
    values: bool = True
    null: bool = True
    nan: bool = True

    @property
    def single(self) -> bool:
        """Whether there is one value it can take, null aside."""
        if not self.values:
            return self.nan
        return not self.nan and self.low is not None and bool(self.low == self.high)

    @property
    def known(self) -> bool:
        """Whether it is one value, null or NaN, and nothing else."""
        if not self.values:
            return self.null != self.nan
        return not self.null and self.single

    @property
    def value(self) -> Any:  # noqa: ANN401 - any value
        """The only value of a known range; its bounds do not apply if it is null."""
        return float("nan") if self.nan else self.low if self.values else None


UNKNOWN = ValueRange()
NULL = ValueRange(values=False, nan=False)


def constant(value: Any) -> ValueRange:  # noqa: ANN401 - any value of any type
    """Return the range of one value."""
    if value is None:
        return NULL
    if isinstance(value, float) and value != value:
        return ValueRange(values=False, null=False)
    return ValueRange(value, value, null=False, nan=False)


def prefix_upper_bound(prefix: str) -> str | None:
    """Return a text at or above every text with a prefix; None if there is none."""
    for index in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[index])
        if code < _LAST:
            return prefix[:index] + chr(0xE000 if code == 0xD7FF else code + 1)
    return None
