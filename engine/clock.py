"""Time as an argument: every part that needs the hour or a pause is handed a clock."""

import time
from datetime import UTC, datetime
from typing import Protocol


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
