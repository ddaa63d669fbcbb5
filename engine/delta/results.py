"""The result of a write that returns no rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.operations.result import OperationResult


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The outcome of a write; delta-spark returns nothing here.

    Attributes:
        version: the committed version, None if nothing changed.
        metrics: `operationMetrics` under delta-spark's names.
        resolved: the conflicts resolved at row level, each with the winning commit.
        attempts: how many attempts the commit took.
        message: one sentence, if there is something to say.
    """

    version: int | None
    metrics: Mapping[str, int | str]
    resolved: tuple[Any, ...]
    attempts: int
    message: str

    @property
    def conflicts(self) -> tuple[Any, ...]:
        """The conflicts resolved at row level, each with the winning commit: `resolved`."""
        return self.resolved

    @classmethod
    def from_result(cls, result: OperationResult) -> "WriteResult":
        """Return the engine's result as a WriteResult."""
        return cls(result.version, result.metrics, result.resolved, result.attempts, result.message)
