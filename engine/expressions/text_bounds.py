"""Upper bounds of texts as written in statistics: truncated, with the last character raised.

Older writers truncate after 32 UTF-16 units, which are 16 characters beyond U+FFFF, and append
U+FFFD. This is no bound in the order of UTF-8: such a character sorts above it, and half of one
becomes `?`.
"""

from engine.expressions.ranges import prefix_upper_bound

_KEPT_UNITS = 32
_TIE_BREAKER = "\ufffd"
_HALF = "?"


def may_be_cut(maximum: str) -> bool:
    """Return whether a maximum may be a truncated text."""
    long = 2 * len(maximum) >= _KEPT_UNITS and len(_units(maximum)) >= 2 * _KEPT_UNITS
    return long or maximum.endswith(_TIE_BREAKER)


def upper_bound(maximum: str) -> str | None:
    """Return a text at or above all values behind a maximum; None if there is no bound."""
    if not may_be_cut(maximum):
        return maximum
    kept = _units(maximum)[: 2 * _KEPT_UNITS].decode("utf-16-le", "ignore")
    return prefix_upper_bound(kept.rstrip(_TIE_BREAKER).removesuffix(_HALF))


def _units(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")
