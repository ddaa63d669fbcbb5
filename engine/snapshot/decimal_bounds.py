"""Bounds of decimals as writers leave them in statistics: rounded, cut off, and bounds all the same."""

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from engine.schema.types import DecimalType

_DIGITS = Context(prec=100)
_EXACT_DIGITS = 15  # digits a double represents exactly
_ROUNDING = Decimal("4e-16")
_SMALLEST, _LARGEST = Decimal(-(2**63)), Decimal(2**63 - 1)  # limits of the bounds deltalake writes


def lower_bound(value: Decimal, data_type: DecimalType) -> Decimal | None:
    """Return a value at or below all values behind a minimum; None if there is no bound."""
    return None if value <= _SMALLEST else _widen_bound(value, -1, data_type)


def upper_bound(value: Decimal, data_type: DecimalType) -> Decimal | None:
    """Return a value at or above all values behind a maximum; None if there is no bound."""
    return None if value >= _LARGEST else _widen_bound(value, 1, data_type)


def _widen_bound(value: Decimal, side: int, data_type: DecimalType) -> Decimal | None:
    """Widen a bound, because some writers round decimals through a double."""
    lost = abs(value) * _ROUNDING if data_type.precision > _EXACT_DIGITS else Decimal(0)
    rounding = ROUND_CEILING if side < 0 else ROUND_FLOOR
    try:
        moved = _DIGITS.add(value, lost * side)
        return moved.quantize(Decimal(1).scaleb(-data_type.scale), rounding, _DIGITS)
    except ArithmeticError:
        return None
