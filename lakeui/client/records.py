"""The REST interface's tables, jobs and conflicts, with types; `raw` has the whole answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class JobState(StrEnum):
    """The state of a job."""

    QUEUED = "queued"
    RUNNING = "running"
    COMMITTING = "committing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CONFLICTED = "conflicted"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"


ENDED = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CONFLICTED, JobState.CANCELLED})
"""The final states of a job."""


@dataclass(frozen=True)
class TableRecord:
    """A registered table. `version` is None until its log was first read."""

    id: int
    name: str
    uri: str
    version: int | None
    isolation_level: str | None
    row_level_eligible: bool
    raw: Mapping[str, Any] = field(repr=False)

    @classmethod
    def from_answer(cls, told: Mapping[str, Any]) -> "TableRecord":
        """Build a record from an answer."""
        return cls(
            told["id"],
            told["name"],
            told["uri"],
            told["version"],
            told["isolation_level"],
            told["row_level_eligible"],
            told,
        )


@dataclass(frozen=True)
class JobRecord:
    """A job at the time of the request.

    Attributes:
        state: one of `JobState`.
        committed_version: None if it has not committed, or changed nothing.
        metrics: by the names of the log's operationMetrics.
        plan: the findings of a dry run.
    """

    id: str
    table_id: int
    table: str
    kind: str
    statement: str
    state: str
    dry_run: bool
    attempts: int
    created_at: datetime
    finished_at: datetime | None
    committed_version: int | None
    error_code: str | None
    error_message: str | None
    metrics: Mapping[str, Any]
    plan: Mapping[str, Any] | None
    conflict_ids: tuple[int, ...]
    raw: Mapping[str, Any] = field(repr=False)

    @property
    def has_ended(self) -> bool:
        """Whether it will change no more."""
        return self.state in ENDED

    @classmethod
    def from_answer(cls, told: Mapping[str, Any]) -> "JobRecord":
        """Build a record from an answer with the whole job."""
        return cls(
            id=told["id"],
            table_id=told["table_id"],
            table=told["table"],
            kind=told["kind"],
            statement=told["statement"],
            state=told["state"],
            dry_run=told["dry_run"],
            attempts=told["attempts"],
            created_at=_moment(told["created_at"]),
            finished_at=_moment_or_none(told["finished_at"]),
            committed_version=told["committed_version"],
            error_code=told["error_code"],
            error_message=told["error_message"],
            metrics=told["metrics"] or {},
            plan=told["plan"] or None,
            conflict_ids=tuple(told["conflicts"]),
            raw=told,
        )


@dataclass(frozen=True)
class Conflict:
    """A conflict: the write, the winning commit, the rule.

    Attributes:
        kind: `aborted`, `resolved` or `reported`.
        code: the error class, such as DELTA_CONCURRENT_APPEND; `exception` the exception's name.
        row_count: rows touched by both; None if rows were not compared.
        wasted_ms, wasted_bytes: the work of the aborted attempt.
    """

    id: int
    table: str | None
    job_id: str | None
    kind: str
    occurred_at: datetime
    exception: str | None
    code: str | None
    subclass: str | None
    rule: str | None
    message: str
    read_version: int | None
    winning_version: int | None
    current_operation: str
    current_predicate: str | None
    winner_operation: str
    winner_user_name: str | None
    file_count: int
    row_count: int | None
    wasted_ms: int
    wasted_bytes: int
    raw: Mapping[str, Any] = field(repr=False)

    @classmethod
    def from_answer(cls, told: Mapping[str, Any]) -> "Conflict":
        """Build a conflict from an answer: of a list, or of one conflict."""
        rows = told["row_count"]
        return cls(
            **{name: told[name] for name in _AS_TOLD},
            occurred_at=_moment(told["occurred_at"]),
            row_count=None if rows is None else int(rows),
            wasted_ms=int(told["wasted_ms"] or 0),
            wasted_bytes=int(told["wasted_bytes"] or 0),
            raw=told,
        )


_AS_TOLD = (
    "id",
    "table",
    "job_id",
    "kind",
    "exception",
    "code",
    "subclass",
    "rule",
    "message",
    "read_version",
    "winning_version",
    "current_operation",
    "current_predicate",
    "winner_operation",
    "winner_user_name",
    "file_count",
)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _moment_or_none(text: str | None) -> datetime | None:
    return None if text is None else _moment(text)
