"""Every overlapping write of a range: its outcome, and its outcome under another setting.

A write is a commit that did not see an earlier one, or an aborted attempt. A conflict resolved by a
commit is part of that commit.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.db.models import OuterRef, Subquery
from django.db.models.fields.json import KeyTextTransform

from engine.conflict_facts import Verdict
from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.predict.replay_history import replay_history
from lakeui.catalog.models import Table
from lakeui.conflicts.models import Conflict, PipelineTransaction
from lakeui.conflicts.replay.recorded_history import load_recorded_history
from lakeui.conflicts.replay.what_if import (
    CommitVerdict,
    WhatIfAnswer,
    load_recorded_conflicts,
    what_if,
)
from lakeui.jobs.version_jobs import makers_of, write_ms

LEVELS = (IsolationLevel.WRITE_SERIALIZABLE, IsolationLevel.SERIALIZABLE)
SETTINGS = tuple((level, by_rows) for level in LEVELS for by_rows in (True, False))


class WriteOutcome(StrEnum):
    """The outcome of a write."""

    COMMITTED = "committed"
    RESOLVED = "resolved"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedWrite:
    """A write with overlaps. `version` is None if it was aborted; `conflict_id` is its record.

    `cost_ms` and `cost_bytes` are its real or hypothetical waste; None: not recorded.
    """

    version: int | None
    conflict_id: int | None
    operation: str
    user_name: str
    at: datetime | None
    overlap_count: int | None
    outcome: WriteOutcome
    verdict: Verdict
    why: str
    winning_version: int | None
    winner_operation: str
    cost_ms: int | None
    cost_bytes: int | None

    @property
    def change(self) -> int:
        """1 if it would be aborted and was not, -1 if it was and would pass."""
        if self.outcome == WriteOutcome.ABORTED:
            return -1 if self.verdict == Verdict.PASSES else 0
        return 1 if self.verdict == Verdict.CONFLICT else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayTotals:
    """Writes under a setting: `aborted` certainly, `open` undecidable; costs beyond actual ones.

    `uncosted` are hypothetical aborts without a recorded duration.
    """

    level: str
    row_level: bool
    writes: int
    aborted: int
    passed: int
    open: int
    added: int
    spared: int
    ms: int
    size_bytes: int
    uncosted: int


@dataclass(frozen=True, slots=True)
class PairChange:
    """Two operations: how many were aborted, how many would be for certain, how many perhaps."""

    current_operation: str
    winner_operation: str
    now: int
    then: int
    open: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A range under the setting requested, and the sums under each of the four."""

    answer: WhatIfAnswer
    overlaps: tuple[ReplayedWrite, ...]
    aborted_now: int
    totals: tuple[ReplayTotals, ...]

    @property
    def asked(self) -> ReplayTotals:
        """The sums under the setting requested."""
        setting = self.answer.level, self.answer.row_level
        return next(total for total in self.totals if (total.level, total.row_level) == setting)


def replay(
    table: Table, level: IsolationLevel, *, row_level: bool, versions: tuple[int, int]
) -> Replay:
    """Replay a range, in six queries for any size."""
    first, last = versions
    history, recorded = (
        load_recorded_history(table, first, last),
        load_recorded_conflicts(table, first, last),
    )
    sides = _WriteFacts(table, first, last, recorded.conflicts)
    replayed = {
        at_level: tuple(replay_history(history.commits, history.table, at_level))
        for at_level in LEVELS
    }
    answers = {
        (at_level, by_rows): what_if(
            table, at_level, row_level=by_rows, versions=versions, history=history, conflicts=recorded,
            replayed=replayed[at_level],
        )
        for at_level, by_rows in SETTINGS
    }  # fmt: skip
    all_of_them = {setting: list(sides.overlaps(answer)) for setting, answer in answers.items()}
    asked = answers[level, row_level]
    return Replay(
        answer=asked,
        overlaps=tuple(sorted(all_of_them[level, row_level], key=_worst_first)),
        aborted_now=sum(conflict.kind != Conflict.Kind.RESOLVED for conflict in recorded.conflicts),
        totals=tuple(_totals(*setting, overlaps) for setting, overlaps in all_of_them.items()),
    )


def pair_changes(overlaps: Iterable[ReplayedWrite]) -> list[PairChange]:
    """Return the changes by pair of operations, the largest first."""
    now: Counter[tuple[str, str]] = Counter()
    then: Counter[tuple[str, str]] = Counter()
    unsure: Counter[tuple[str, str]] = Counter()
    for overlap in overlaps:
        pair = overlap.operation, overlap.winner_operation
        now[pair] += overlap.outcome == WriteOutcome.ABORTED
        then[pair] += overlap.verdict == Verdict.CONFLICT
        unsure[pair] += overlap.verdict == Verdict.UNDECIDABLE
    changes = [PairChange(*pair, now[pair], then[pair], unsure[pair]) for pair in now]
    kept = (change for change in changes if change.now or change.then or change.open)
    return sorted(
        kept, key=lambda change: (-abs(change.then - change.now), -change.open, -change.now)
    )


class _WriteFacts:
    """Both sides of each overlap, by version: writer, statement, time, and cost."""

    def __init__(self, table: Table, first: int, last: int, recorded: Sequence[Conflict]) -> None:
        self._aborted = {
            conflict.pk: conflict
            for conflict in recorded
            if conflict.kind != Conflict.Kind.RESOLVED
        }
        self._joints: dict[int, int] = {
            version: conflict.pk
            for conflict in recorded
            if (version := conflict.became) is not None
        }
        reported = PipelineTransaction.objects.filter(
            table=OuterRef("table"), committed_version=OuterRef("version")
        )
        rows = table.commits.filter(version__range=(first, last)).annotate(
            took=KeyTextTransform("executionTimeMs", "operation_metrics"),
            began=Subquery(reported.values("started_at")[:1]),
            ended=Subquery(reported.values("ended_at")[:1]),
        )
        self._commits: Mapping[int, tuple[Any, ...]] = {
            row[0]: row
            for row in rows.values_list(
                "version",
                "operation",
                "user_name",
                "committed_at",
                "bytes_written",
                "took",
                "began",
                "ended",
            )
        }
        self._makers = makers_of(table, first, last)

    def overlaps(self, answer: WhatIfAnswer) -> Iterator[ReplayedWrite]:
        for commit in answer.commits:
            yield self._commit_overlap(commit)
        for verdict in answer.conflicts:
            conflict = self._aborted.get(verdict.conflict_id)
            if conflict is not None:
                yield self._overlap_of_abort(conflict, verdict.verdict, verdict.why)

    def _commit_overlap(self, verdict: CommitVerdict) -> ReplayedWrite:
        _, operation, user, at, size, took, began, ended = self._commits.get(
            verdict.version, (verdict.version, verdict.operation, "", *[None] * 5)
        )
        joint = self._joints.get(verdict.version)
        return ReplayedWrite(
            version=verdict.version,
            conflict_id=joint,
            operation=operation or verdict.operation,
            user_name=user,
            at=at,
            overlap_count=len(verdict.overlapping_versions),
            outcome=WriteOutcome.COMMITTED if joint is None else WriteOutcome.RESOLVED,
            verdict=verdict.verdict,
            why=verdict.why,
            winning_version=verdict.winning_version,
            winner_operation=self._operation(verdict.winning_version),
            cost_ms=write_ms(
                self._makers.get(verdict.version),
                (began, ended),
                took,
            ),
            cost_bytes=size,
        )

    def _overlap_of_abort(self, conflict: Conflict, verdict: Verdict, why: str) -> ReplayedWrite:
        read, winning_version = conflict.read_version, conflict.winning_version
        return ReplayedWrite(
            version=None,
            conflict_id=conflict.pk,
            operation=conflict.current_operation,
            user_name=conflict.current_user_name,
            at=conflict.occurred_at,
            overlap_count=None
            if read is None or winning_version is None
            else winning_version - read,
            outcome=WriteOutcome.ABORTED,
            verdict=verdict,
            why=why,
            winning_version=winning_version,
            winner_operation=conflict.winner_operation or self._operation(winning_version),
            cost_ms=conflict.wasted_ms,
            cost_bytes=conflict.wasted_bytes,
        )

    def _operation(self, version: int | None) -> str:
        row = self._commits.get(version) if version is not None else None
        return row[1] if row else ""


def _totals(
    level: IsolationLevel, row_level: bool, overlaps: Sequence[ReplayedWrite]
) -> ReplayTotals:
    verdicts = Counter(overlap.verdict for overlap in overlaps)
    changed = [overlap for overlap in overlaps if overlap.change]
    return ReplayTotals(
        level=str(level),
        row_level=row_level,
        writes=len(overlaps),
        aborted=verdicts[Verdict.CONFLICT],
        passed=verdicts[Verdict.PASSES],
        open=verdicts[Verdict.UNDECIDABLE],
        added=sum(other.change > 0 for other in changed),
        spared=sum(other.change < 0 for other in changed),
        ms=sum(other.change * (other.cost_ms or 0) for other in changed),
        size_bytes=sum(other.change * (other.cost_bytes or 0) for other in changed),
        uncosted=sum(other.change > 0 and other.cost_ms is None for other in changed),
    )


def _worst_first(overlap: ReplayedWrite) -> tuple[int, int, int]:
    order = (Verdict.CONFLICT, Verdict.UNDECIDABLE, Verdict.PASSES)
    place = overlap.version if overlap.version is not None else overlap.winning_version
    return -abs(overlap.change), order.index(overlap.verdict), -(place or 0)
