"""The layout column of a table's files, used to put both sides' files in one order."""

from dataclasses import dataclass
from decimal import Decimal

from engine.actions.files import AddFile, RemoveFile
from engine.actions.statistics import parse_stats

_SHOWN = 64
Bounds = tuple[str | None, str | None]


@dataclass(frozen=True, slots=True)
class LayoutColumn:
    """The first partition or clustering column, by logical and physical name.

    `file_count` is the number of the table's files, None if unknown.
    """

    column: str = ""
    physical_name: str = ""
    is_partition: bool = False
    file_count: int | None = None

    def bounds(self, file: AddFile | RemoveFile) -> Bounds:
        """Return the column's minimum and maximum in a file, as text; None if unknown."""
        if not self.physical_name:
            return None, None
        if self.is_partition:
            value = _shorten_value((file.partition_values or {}).get(self.physical_name))
            return value, value
        stats = parse_stats(file.stats) or {}
        low, high = (stats.get(kind) for kind in ("minValues", "maxValues"))
        return self._read_value(low), self._read_value(high)

    def _read_value(self, values: object) -> str | None:
        return _shorten_value(values.get(self.physical_name)) if isinstance(values, dict) else None


NO_LAYOUT = LayoutColumn()


def _shorten_value(value: object) -> str | None:
    plain = isinstance(value, str | int | Decimal)
    return str(value)[:_SHOWN] if plain else None
