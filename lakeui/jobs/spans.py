"""How long something took, the same wherever it is shown."""

from datetime import UTC, datetime, timedelta

_EPOCH, _A_MS = datetime.fromtimestamp(0, UTC), timedelta(milliseconds=1)


def span_ms(start: datetime, end: datetime) -> int:
    """Return the whole milliseconds between two times, so that consecutive spans add up."""
    return max((end - _EPOCH) // _A_MS - (start - _EPOCH) // _A_MS, 0)
