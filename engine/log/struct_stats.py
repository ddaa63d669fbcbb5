"""Statistics only stored as structs in a checkpoint, converted to the JSON text of `add.stats`.

Whole columns are converted at once: such checkpoints may name a million files.
"""

import json

import pyarrow as pa
import pyarrow.compute as pc

from engine.schema.civil_time import DAY_MICROS, days_of

_FIRST_DAY, _LAST_DAY = days_of("0001-01-01"), days_of("+10000-01-01")
_CONTROL = "[\x00-\x1f]"


def stats_as_json(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert `stats_parsed` to JSON text; omit values JSON cannot express."""
    return pa.chunked_array([_struct(chunk) for chunk in column.chunks], pa.string())


def _json(array: pa.Array) -> pa.Array:
    """Convert values to JSON text; null for null and for unsupported types such as binary."""
    kind = array.type
    for matches, write in _WRITERS:
        if matches(kind):
            return write(array)
    return pa.nulls(len(array), pa.string())


def _struct(array: pa.StructArray) -> pa.Array:
    """Build JSON objects such as `{"a":1,"b":2}`, without null fields."""
    names = [array.type.field(i).name for i in range(array.type.num_fields)]
    parts = []
    for name, child in zip(names, array.flatten(), strict=True):
        parts.append(pc.binary_join_element_wise(f"{json.dumps(name)}:", _json(child), ""))
    head = pa.repeat(
        pa.scalar(""), len(array)
    )  # without it, rows of nulls would vanish in the join
    inside = pc.binary_join_element_wise(head, *parts, ",", null_handling="skip")
    inside = pc.utf8_ltrim(inside, characters=",")
    whole = pc.binary_join_element_wise("{", inside, "}", "")
    return pc.if_else(array.is_valid(), whole, None)


def _text(array: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(array, _CONTROL)).as_py():
        return pa.array(
            [None if text is None else json.dumps(text) for text in array.to_pylist()], pa.string()
        )
    escaped = pc.replace_substring(pc.replace_substring(array, "\\", "\\\\"), '"', '\\"')
    return _quote_texts(escaped)


def _moment(array: pa.Array) -> pa.Array:
    """Format timestamps in ISO 8601 with microseconds, with `Z` if they have a zone."""
    zone = "" if array.type.tz is None else "Z"
    wall = pc.floor_temporal(array, unit="microsecond").cast(pa.int64())
    scale = {"s": 1_000_000, "ms": 1000, "us": 1}.get(array.type.unit)
    micros = pc.multiply(wall, scale) if scale else pc.divide(wall, 1000)
    in_range = _null_outside_range(micros, _FIRST_DAY * DAY_MICROS, _LAST_DAY * DAY_MICROS)
    text = pc.strftime(in_range.cast(pa.timestamp("us")), format="%Y-%m-%dT%H:%M:%S")
    return pc.binary_join_element_wise('"', text, f'{zone}"', "")


def _quote_texts(array: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', array, '"', "")


def _plain(array: pa.Array) -> pa.Array:
    return array.cast(pa.string())


def _render_floats(array: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_finite(array), array.cast(pa.string()), None)


def _date(array: pa.Array) -> pa.Array:
    days = _null_outside_range(array.cast(pa.date32()).cast(pa.int32()), _FIRST_DAY, _LAST_DAY)
    return _quote_texts(days.cast(pa.date32()).cast(pa.string()))


def _null_outside_range(numbers: pa.Array, first: int, last: int) -> pa.Array:
    """Replace numbers outside [first, last) by null.

    Bounds of other years are omitted: readers could not parse their text.
    """
    within = pc.and_(pc.greater_equal(numbers, first), pc.less(numbers, last))
    return pc.if_else(within, numbers, pa.scalar(None, numbers.type))


_WRITERS = (
    (pa.types.is_struct, _struct),
    (pa.types.is_string, _text),
    (pa.types.is_floating, _render_floats),
    (pa.types.is_timestamp, _moment),
    (pa.types.is_date, _date),
    (pa.types.is_integer, _plain),
    (pa.types.is_boolean, _plain),
    (pa.types.is_decimal, _plain),
)
