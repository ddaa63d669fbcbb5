"""How many rows files hold, from their statistics where those say so."""

from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

_FIRST_FIELD = r'^\s*\{\s*"numRecords"\s*:\s*(?P<count>\d{1,18})\s*[,}]'


def num_records(stats: pa.ChunkedArray) -> pa.ChunkedArray:
    """`numRecords` of every row's statistics, null where there is none.

    Writers put it first, so that a pattern finds it without parsing a million JSON texts.
    """
    counts = pc.struct_field(pc.extract_regex(stats, _FIRST_FIELD), "count").cast(pa.int64())
    rest = pc.and_(pc.is_null(counts), pc.is_valid(stats))
    if not pc.any(rest).as_py():
        return counts
    values = counts.to_pylist()
    for row in pc.indices_nonzero(rest).to_pylist():
        values[row] = _parsed(stats[row].as_py())
    return pa.chunked_array([pa.array(values, pa.int64())])


def parse_stats(text: str | None) -> dict[str, Any] | None:
    """Statistics as a dict; None where they are absent, `null` or no JSON object."""
    if text is None:
        return None
    try:
        stats = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
    return stats if isinstance(stats, dict) else None


def _parsed(text: str) -> int | None:
    count = (parse_stats(text) or {}).get("numRecords")
    return (
        count
        if isinstance(count, int) and not isinstance(count, bool) and 0 <= count < 2**63
        else None
    )
