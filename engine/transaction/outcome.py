"""The outcome of a commit, and the limits on its attempts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.conflict_facts import Decision, Rule
from engine.errors import ConflictSide


@dataclass(frozen=True, slots=True)
class ResolvedConflict:
    """A conflict that did not abort this transaction, and why.

    Both sides changed different rows, or the winning commit only enabled features: then there are
    no files. `rule` names the check that fails otherwise, `files` the paths both sides touched,
    `row_count` the rows compared or rebased, `how` the means: merged deletion vectors, a row map,
    row ids or rows read. `duration_ms` is the time it took. `rows` are the first of these rows, by
    original path and position. `decision` records how it was decided. `current` is this transaction
    as it was checked.
    """

    current: ConflictSide
    winner: ConflictSide
    rule: Rule
    files: tuple[str, ...]
    row_count: int
    how: str
    duration_ms: int
    rows: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    decision: Decision | None = None


@dataclass(frozen=True, slots=True)
class CommitOutcome:
    """The known outcome of a commit.

    `version` is the landed version or, if nothing was staged (`committed` is false), the version
    the transaction was validated against. `recognised` means that it had landed before: version and
    time are the original ones. `timestamp_ms` is the in-commit timestamp if enabled. `metrics` are
    the operation's, as committed or as they would have been; empty if recognised.
    """

    version: int
    timestamp_ms: int
    attempts: int
    resolved: tuple[ResolvedConflict, ...] = ()
    recognised: bool = False
    committed: bool = True
    metrics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CommitLimits:
    """How often a commit tries, and how long it may take to resolve conflicts at row level."""

    attempts: int = 10_000
    unknown_outcomes: int = 8
    row_budget_s: float = 10.0


DEFAULT_LIMITS = CommitLimits()
