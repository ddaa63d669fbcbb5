"""Time limit for comparing rows in one commit."""

from collections.abc import Iterator
from contextlib import contextmanager

from engine.clock import Clock
from engine.errors import EngineError


class BudgetSpentError(EngineError, code="LAKE_ROW_BUDGET_SPENT", sqlstate="57014"):
    """Row-level conflict resolution took longer than one commit may."""


class Budget:
    """A stopwatch that runs only while rows are compared.

    `seconds` is the limit for the whole commit.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._left_s, self.seconds = clock, seconds, seconds
        self._since: float | None = None

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Run the stopwatch during the block."""
        self._since = self._clock.monotonic_s()
        try:
            yield
        finally:
            self._left_s -= self._clock.monotonic_s() - self._since
            self._since = None

    def check(self) -> None:
        """Check that time is left.

        Raises:
            BudgetSpentError: there is none left.
        """
        spent = 0.0 if self._since is None else self._clock.monotonic_s() - self._since
        if spent >= self._left_s:
            what = (
                "The rows of the two writes could not be compared in the time that one commit has."
            )
            raise BudgetSpentError(what)
