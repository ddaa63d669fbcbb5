"""What a write that returns no rows did."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.operations.result import OperationResult


@dataclass(frozen=True, slots=True)
class WriteResult:
    """How a write ended; delta-spark returns nothing here.

    Attributes:
        version: the version it committed, None where it changed nothing.
        metrics: `operationMetrics` under delta-spark's names.
        resolved: the conflicts that were resolved at row level, each with the winning commit.
        attempts: how often the log was tried.
        message: one sentence, where there is something to say.
    """

    version: int | None
    metrics: Mapping[str, int | str]
    resolved: tuple[Any, ...]
    attempts: int
    message: str

    @property
    def conflicts(self) -> tuple[Any, ...]:
        """The conflicts that were resolved at row level, each with the winning commit: `resolved`."""
        return self.resolved

    @classmethod
    def from_result(cls, result: OperationResult) -> "WriteResult":
        """What the engine says of it."""
        return cls(result.version, result.metrics, result.resolved, result.attempts, result.message)
