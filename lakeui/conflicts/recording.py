"""Conflicts of our workers and of reporting programs, written down: a log holds no aborted write."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from django.utils import timezone

from engine.conflict_facts import Decision, Rule, SideFile
from engine.errors import ConflictError, ConflictFacts, ConflictSide
from lakeui.catalog import log_values
from lakeui.catalog.models import Table
from lakeui.conflicts.costs import keep
from lakeui.conflicts.models import Conflict

_MAX_FILES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptOrigin:
    """The origin of an attempt: a job of ours, or a transaction reported by a pipeline.

    `sequence` is the number of the reporting event; `occurred_at` None: it occurs now.
    """

    attempt: int
    job_id: UUID | None = None
    transaction_id: int | None = None
    sequence: int | None = None
    occurred_at: datetime | None = None

    def fields(self) -> dict[str, Any]:
        """Return these values as fields of a conflict."""
        return asdict(self) | {"occurred_at": self.occurred_at or timezone.now()}


class ResolvedRecord(Protocol):
    """The engine's facts of a conflict resolved at row level."""

    @property
    def current(self) -> ConflictSide: ...
    @property
    def winner(self) -> ConflictSide: ...
    @property
    def rule(self) -> Rule: ...
    @property
    def files(self) -> tuple[str, ...]: ...
    @property
    def row_count(self) -> int: ...
    @property
    def rows(self) -> Mapping[str, tuple[int, ...]]: ...
    @property
    def how(self) -> str: ...
    @property
    def duration_ms(self) -> int: ...
    @property
    def decision(self) -> Decision | None: ...


def record_aborted(
    error: ConflictError,
    *,
    table: Table,
    origin: AttemptOrigin,
    user_name: str = "",
    wasted_ms: int = 0,
    wasted_bytes: int = 0,
) -> Conflict:
    """Record an aborted write; `user_name` is its requester if the engine does not know it."""
    current = _name_user(error.conflict.current, user_name)
    facts = replace(error.conflict, current=current)
    return keep(
        **_fields(facts, current),
        **origin.fields(),
        table=table,
        kind=Conflict.Kind.ABORTED,
        exception=type(error).__name__,
        code=error.code,
        message=log_values.text(error),
        wasted_ms=wasted_ms,
        wasted_bytes=wasted_bytes,
        facts=log_values.json_value(facts.as_dict()),
    )


def record_resolved(
    resolved: ResolvedRecord,
    *,
    table: Table,
    origin: AttemptOrigin,
    user_name: str = "",
    committed_version: int | None = None,
) -> Conflict:
    """Record two writes that touched the same files and both landed; set this one's version."""
    current = _name_user(resolved.current, user_name)
    facts = {
        "current": asdict(current),
        "winner": asdict(resolved.winner),
        "files": list(resolved.files[:_MAX_FILES]),
        "rows": {path: list(rows) for path, rows in resolved.rows.items()},
        "how": resolved.how,
        "duration_ms": resolved.duration_ms,
        "decision": asdict(resolved.decision) if resolved.decision else None,
    }
    return keep(
        **_sides(current, resolved.winner),
        **_bounds(resolved.decision, resolved.files),
        **origin.fields(),
        table=table,
        attempted_version=committed_version,
        kind=Conflict.Kind.RESOLVED,
        rule=log_values.text(resolved.rule, 60),
        file_count=len(resolved.files),
        row_count=resolved.row_count,
        facts=log_values.json_value(facts),
    )


def _name_user(current: ConflictSide, user_name: str) -> ConflictSide:
    return replace(current, user=current.user or user_name or None)


def _sides(current: ConflictSide, winner: ConflictSide) -> dict[str, Any]:
    return {
        "read_version": current.read_version,
        "winning_version": winner.version,
        "current_operation": log_values.text(current.operation, 100),
        "current_predicate": log_values.text(current.predicate),
        "current_user_name": log_values.text(current.user, 255),
        "isolation_level": log_values.text(current.isolation_level, 30),
        "winner_operation": log_values.text(winner.operation, 100),
        "winner_user_name": log_values.text(winner.user, 255),
        "winner_at": log_values.moment(winner.timestamp_ms),
    }


def _fields(facts: ConflictFacts, current: ConflictSide) -> dict[str, Any]:
    return {
        **_sides(current, facts.winner),
        **_bounds(facts.decision, [file.path for file in facts.files]),
        "subclass": log_values.text(facts.subclass, 60),
        "rule": log_values.text(facts.rule, 60),
        "read_version": facts.read_version,
        "attempted_version": facts.attempted_version,
        "partitions": log_values.json_value(list(facts.partitions)),
        "file_count": facts.file_count,
        "row_count": facts.row_count,
        "can_retry": facts.can_retry,
    }


def _bounds(decision: Decision | None, shared: Iterable[str]) -> dict[str, str]:
    """Return the bounds of the shared files in the layout's column."""
    if decision is None or not decision.order_column:
        return {}
    shared_paths = set(shared)
    files = [file for file in decision.winner_files if file.path in shared_paths]
    if not files or any(file.low is None or file.high is None for file in files):
        return {}
    lows, highs = (
        sorted(map(_value_sort_key, values)) for values in zip(*map(_ends, files), strict=True)
    )
    return {
        "order_column": log_values.text(decision.order_column, 100),
        "shared_low": log_values.text(lows[0][-1], 64),
        "shared_high": log_values.text(highs[-1][-1], 64),
    }


def _ends(file: SideFile) -> tuple[str, str]:
    return file.low or "", file.high or ""


def _value_sort_key(value: str) -> tuple[bool, float, str]:
    """Sort numbers by size, before texts by their letters."""
    try:
        return False, float(value), value
    except ValueError:
        return True, 0.0, value
