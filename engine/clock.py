"""Clocks: every part that needs the time or a pause takes one as an argument."""

import time
from datetime import UTC, datetime
from typing import Protocol

CLOCK_SLACK_MS = 3_600_000
"""Maximum difference between the clocks of two machines, or of a machine and a store."""


class Clock(Protocol):
    """Wall time in milliseconds since the epoch (UTC), a monotonic timer, and a pause."""

    def now_ms(self) -> int:
        """Wall time in milliseconds since the epoch."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds on a monotonic timer."""
        ...

    def pause(self, seconds: float) -> None:
        """Wait before trying again."""
        ...


class SystemClock:
    """The machine's own time."""

    def now_ms(self) -> int:
        """Wall time in milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Return seconds on a monotonic timer."""
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)


def utc_from_ms(epoch_ms: int) -> datetime:
    """Convert milliseconds since the epoch to an aware UTC datetime."""
    return datetime.fromtimestamp(epoch_ms / 1000, tz=UTC)


def surely_ms(age_ms: int) -> int:
    """Return the apparent age at which something dated by another clock is certainly old enough.

    An age of 0 stays 0: it means any age.
    """
    return age_ms + CLOCK_SLACK_MS if age_ms > 0 else 0
