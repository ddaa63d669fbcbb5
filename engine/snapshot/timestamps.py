"""Timestamps from people and programs, in milliseconds."""

from datetime import UTC, date, datetime, timedelta

from engine.errors import RequestError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def timestamp_to_ms(timestamp: datetime | date | int | str) -> int:
    """Convert a datetime, a date, ISO 8601 text or milliseconds to milliseconds since the epoch.

    Values without a time zone are UTC. Fractions of a millisecond are dropped.

    Raises:
        RequestError: it is none of these.
    """
    if isinstance(timestamp, int) and not isinstance(timestamp, bool):
        return timestamp
    moment = _parse_timestamp(timestamp) if isinstance(timestamp, str) else timestamp
    if isinstance(moment, datetime):
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return (aware - _EPOCH) // timedelta(milliseconds=1)
    if isinstance(moment, date):
        return timestamp_to_ms(datetime(moment.year, moment.month, moment.day, tzinfo=UTC))
    msg = f"{timestamp!r} is not a time."
    raise RequestError(msg, "Use ISO 8601 such as 2026-11-02T10:00:00Z.", field="timestamp")


def _parse_timestamp(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError as error:
        msg = f"{text[:100]!r} is not a time."
        raise RequestError(
            msg, "Use ISO 8601 such as 2026-11-02T10:00:00Z.", field="timestamp"
        ) from error
