"""Time as an argument: every part that needs the hour or a pause is handed a clock."""

import time
from datetime import UTC, datetime
from typing import Protocol

CLOCK_SLACK_MS = 3_600_000
"""How far apart the clocks of two machines, or of a machine and a store, may be."""


class Clock(Protocol):
    """Wall time in milliseconds since the epoch (UTC), a monotonic timer, and a pause."""

    def now_ms(self) -> int:
        """Wall time in milliseconds since the epoch."""
        ...

    def monotonic_s(self) -> float:
        """Seconds on a timer that never goes backwards."""
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
        """Seconds on a timer that never goes backwards."""
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)


def utc_from_ms(epoch_ms: int) -> datetime:
    """The aware UTC moment of a timestamp in milliseconds since the epoch."""
    return datetime.fromtimestamp(epoch_ms / 1000, tz=UTC)


def surely_ms(age_ms: int) -> int:
    """How old something must look that another clock dated, to be surely so old.

    An age of 0 stays 0: whoever asks for it means any age.
    """
    return age_ms + CLOCK_SLACK_MS if age_ms > 0 else 0
