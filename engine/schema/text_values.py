"""Text parsing of Spark's casts: trimmed characters, and texts for numbers and booleans.

This is its only home. Python's own `strip`, `int`, `float` and `Decimal` also accept no-break
spaces, digits other than ASCII's and numbers with underscores.
"""

import re
from decimal import Decimal

_BLANKS = "".join(map(chr, range(0x21)))
_TRIMMED = f"{_BLANKS}\x7f"
_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")
_FRACTION = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DECIMAL = re.compile(_FRACTION.pattern.replace("[0-9]", r"(?:(?![\U00010000-\U0010ffff])\d)"))
_NAMED_FLOATS = {
    "nan": float("nan"),
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), float("inf")),
    **dict.fromkeys(("-inf", "-infinity"), float("-inf")),
}
_BOOLEANS = {
    **dict.fromkeys(("t", "true", "y", "yes", "1"), True),
    **dict.fromkeys(("f", "false", "n", "no", "0"), False),
}


def trim_text(text: str) -> str:
    """Trim as Spark does before it reads a whole number, a boolean, a date, a time or an interval."""
    return text.strip(_TRIMMED)


def trim_number(text: str) -> str:
    """Trim as Spark does before it reads a FLOAT, a DOUBLE or a DECIMAL."""
    return text.strip(_BLANKS)


def parse_whole_number(text: str) -> int | None:
    """Return the integer that a cast reads from the text; None if there is none, or only Spark can decide."""
    trimmed = trim_text(text)
    return int(trimmed) if _WHOLE.fullmatch(trimmed) else None


def parse_double(text: str) -> float | None:
    """Return the DOUBLE that a cast reads from the text; None if there is none, or only Spark can decide."""
    trimmed = trim_number(text)
    return float(trimmed) if _FRACTION.fullmatch(trimmed) else parse_float_name(trimmed)


def parse_float_name(text: str) -> float | None:
    """Return the float named `NaN`, `-Infinity` or similar; None for other texts."""
    trimmed = trim_number(text)
    return _NAMED_FLOATS.get(trimmed.lower()) if trimmed.isascii() else None


def parse_decimal(text: str) -> Decimal | None:
    """Return the finite decimal that a cast reads from the text, unrounded; None if there is none."""
    trimmed = trim_number(text)
    return Decimal(trimmed) if _DECIMAL.fullmatch(trimmed) else None


def parse_boolean(text: str) -> bool | None:
    """Return the boolean that a cast reads from the text; None if there is none."""
    trimmed = trim_text(text)
    return _BOOLEANS.get(trimmed.lower()) if trimmed.isascii() else None
