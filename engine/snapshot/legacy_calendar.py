"""Julian dates and timestamps of old Spark versions, converted to the current calendar.

Before 3.0 Spark, and Databricks for much longer, wrote dates before 15 October 1582 in the Julian
calendar. Such files are marked in their footer, and Spark converts them: a date keeps its name, not
its number of days.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_VERSION = b"org.apache.spark.version"
_LEGACY_DATES, _LEGACY_INT96 = b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"
_REFORM = -141427  # 1582-10-15, in days since 1970
_DAY_US = 86_400_000_000
# offset in days between the calendars from each day on; the first is Julian 0001-01-01
_CALENDARS = {
    -719164: 2, -682945: 1, -646420: 0, -609895: -1, -536845: -2, -500320: -3, -463795: -4,
    -390745: -5, -354220: -6, -317695: -7, -244645: -8, -208120: -9, -171595: -10,
}  # fmt: skip
_SINCE, _APART = np.array(list(_CALENDARS)), np.array(list(_CALENDARS.values()))


@dataclass(frozen=True, slots=True)
class LegacyTimes:
    """The Julian times of a file: dates and 64-bit timestamps, and INT96 columns."""

    dates: bool
    int96: frozenset[str]

    def correct_column(self, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Convert a file's column, by its name there, to the current calendar."""
        if not self.dates and name not in self.int96:
            return column
        chunks = [self._correct_array(chunk, int96=name in self.int96) for chunk in column.chunks]
        return pa.chunked_array(chunks, column.type)

    def _correct_array(self, array: pa.Array, *, int96: bool) -> pa.Array:
        kind = array.type
        if pa.types.is_date32(kind):
            return _days(array) if self.dates else array
        if pa.types.is_timestamp(kind):  # INT96 has no zone: it is wall time
            return _moments(array) if (self.dates if kind.tz else int96) else array
        if not pa.types.is_nested(kind):
            return array
        if pa.types.is_struct(kind):
            inside = [self._correct_array(child, int96=int96) for child in array.flatten()]
            return pa.StructArray.from_arrays(inside, fields=list(kind), mask=array.is_null())
        return self._correct_elements(array, int96=int96)

    def _correct_elements(self, array: pa.Array, *, int96: bool) -> pa.Array:
        offsets = array.offsets.to_numpy()
        first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
        moved, gone = pa.array(offsets - first, pa.int32()), array.is_null()
        if pa.types.is_map(array.type):
            parts = [child.slice(first, count) for child in (array.keys, array.items)]
            keys, items = (self._correct_array(part, int96=int96) for part in parts)
            return pa.MapArray.from_arrays(moved, keys, items, type=array.type, mask=gone)
        values = self._correct_array(array.values.slice(first, count), int96=int96)
        return pa.ListArray.from_arrays(moved, values, type=array.type, mask=gone)


def legacy_times(footer: pq.FileMetaData) -> LegacyTimes | None:
    """Read from a file's footer which times are Julian; None if none are."""
    marks: Mapping[bytes, bytes] = footer.metadata or {}
    version = _numbers(marks.get(_VERSION, b""))
    dates = _LEGACY_DATES in marks or (version is not None and version < (3, 0))
    moments = _LEGACY_INT96 in marks or (version is not None and version < (3, 1))
    columns = map(footer.schema.column, range(footer.num_columns if moments else 0))
    int96 = frozenset(c.path.split(".")[0] for c in columns if c.physical_type == "INT96")
    return LegacyTimes(dates, int96) if dates or int96 else None


def _numbers(version: bytes) -> tuple[int, int] | None:
    parts = version.split(b".")
    return (
        (int(parts[0]), int(parts[1])) if all(map(bytes.isdigit, parts[:2])) and parts[1:] else None
    )


def _days(array: pa.Array) -> pa.Array:
    days = array.cast(pa.int32())
    if not _reaches_back(days, _REFORM):
        return array
    counted = pc.fill_null(days, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    moved = (counted + _shift(counted)).astype(np.int32)
    return pa.array(moved, mask=_nulls(array)).cast(array.type)


def _moments(array: pa.Array) -> pa.Array:
    micros = array.cast(pa.timestamp("us", tz=array.type.tz)).cast(pa.int64())
    if not _reaches_back(micros, _REFORM * _DAY_US):
        return array
    counted = pc.fill_null(micros, 0).to_numpy(zero_copy_only=False)
    moved = counted + _shift(counted // _DAY_US) * _DAY_US
    return (
        pa.array(moved, mask=_nulls(array))
        .cast(pa.timestamp("us", tz=array.type.tz))
        .cast(array.type)
    )


def _reaches_back(numbers: pa.Array, reform: int) -> bool:
    earliest = pc.min(numbers).as_py()
    return earliest is not None and earliest < reform


def _shift(days: np.ndarray) -> np.ndarray:
    """Return the number of days each day moves; 0 from the reform on."""
    apart = _APART[np.maximum(np.searchsorted(_SINCE, days, side="right") - 1, 0)]
    return np.where(days < _REFORM, apart, 0)


def _nulls(array: pa.Array) -> np.ndarray:
    nulls: np.ndarray = array.is_null().to_numpy(zero_copy_only=False)
    return nulls
