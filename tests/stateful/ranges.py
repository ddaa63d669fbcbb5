"""Rows of a generated history, and the conditions by which its commands select them."""

from dataclasses import dataclass

from tests.stateful.typed_values import TYPES

Row = tuple[str, int | None, int, int | None]
"""Its part, its x, the number of the command that last changed it, and of the one that wrote it."""
Rows = dict[str, Row]
"""Every row by its identity."""


@dataclass(frozen=True)
class Range:
    """`low <= x < high`, of one partition if named; or one more value of x, or where x is null.

    `negated` it is what remains: SQL's NOT, which a null does not satisfy either. `typed` it is told
    over the column of that type, which rises with x.
    """

    low: int
    high: int
    part: str | None = None
    also: int | None = None
    nulls: bool = False
    negated: bool = False
    typed: str = ""

    @property
    def sql(self) -> str:
        column, text = "x", f"x >= {self.low} AND x < {self.high}"
        if self.typed:
            typed = TYPES[self.typed]
            column, text = (
                typed.column,
                f"{typed.render_at_least(self.low)} AND {typed.render_below(self.high)}",
            )
        text = text if self.part is None else f"part = '{self.part}' AND {text}"
        text = text if self.also is None else f"{text} OR x = {self.also}"
        text = f"{text} OR {column} IS NULL" if self.nulls else text
        return f"NOT ({text})" if self.negated else text

    def holds(self, row: Row) -> bool:
        inside = self._contains_row(row)
        return inside is not None and inside != self.negated

    def _contains_row(self, row: Row) -> bool | None:
        """Return the result before negation; None is SQL's unknown."""
        part, x = row[:2]
        if x is None:
            elsewhere = self.part not in (None, part) and self.also is None
            return True if self.nulls else False if elsewhere else None
        inside = self.low <= x < self.high and self.part in (None, part)
        return inside or x == self.also


NOWHERE = Range(0, 0)
