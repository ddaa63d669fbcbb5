"""What if the table had another isolation level, or row-level concurrency switched on or off.

Commits are replayed through the engine's own checks, from the mirrored commit texts. Aborted writes
left no commit: their recorded facts are judged. If the record does not decide, the answer is
"undecidable", with the reason.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.conflict_facts import Verdict
from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.predict.record_replay import (
    RecordedConflict,
    ReplaySetting,
    judge_commit,
    judge_conflict,
    passes_by_tracing,
)
from engine.conflicts.predict.replay_history import CommitReplay, replay_history
from engine.conflicts.transaction_info import WinningCommit
from lakeui.catalog.models import Table
from lakeui.conflicts.assessment import replay_setting
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.replay.recorded_history import (
    History,
    latest_versions,
    load_recorded_history,
    prepare_for_judgment,
    records_of,
)
from lakeui.conflicts.version_effects import conflicts_of

DEFAULT_VERSIONS = 100
MAX_CONFLICTS = 2_000


@dataclass(frozen=True, slots=True)
class CommitVerdict:
    """A commit with overlaps. `rule` and `winning_version` are those that would have aborted it."""

    version: int
    operation: str
    overlapping_versions: tuple[int, ...]
    verdict: Verdict
    why: str
    rule: str | None = None
    winning_version: int | None = None


@dataclass(frozen=True, slots=True)
class ConflictVerdict:
    """A recorded conflict, aborted or resolved, under the other setting.

    `version` is the resolving write's; None if it is not recorded or the write was aborted.
    """

    conflict_id: int
    kind: str
    rule: str
    verdict: Verdict
    why: str
    version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfAnswer:
    """Versions `first` to `last` under the requested setting.

    `not_replayed` versions have a commit too long for the mirror, or unreadable. `is_capped`: of
    the conflicts of that range only the latest `MAX_CONFLICTS` are judged.
    """

    level: str
    row_level: bool
    first: int
    last: int
    commits: tuple[CommitVerdict, ...]
    conflicts: tuple[ConflictVerdict, ...]
    not_replayed: tuple[int, ...]
    is_capped: bool = False


@dataclass(frozen=True, slots=True)
class RecordedConflicts:
    """The conflicts with a range of versions, in their order, and each as it is judged."""

    conflicts: tuple[Conflict, ...]
    records: Mapping[int, RecordedConflict]


def what_if(  # noqa: PLR0913 - what is given spares a query
    table: Table,
    level: IsolationLevel,
    *,
    row_level: bool,
    versions: tuple[int, int] | None = None,
    history: History | None = None,
    conflicts: RecordedConflicts | None = None,
    replayed: Sequence[CommitReplay] | None = None,
) -> WhatIfAnswer:
    """Judge a range of versions, the latest hundred by default, under another setting.

    `history` and `conflicts` are those of that range if they have been read already, `replayed` its
    replay at that level.
    """
    first, last = versions or latest_versions(table, DEFAULT_VERSIONS)
    history = history or load_recorded_history(table, first, last)
    recorded = conflicts or load_recorded_conflicts(table, first, last)
    if replayed is None:
        replayed = tuple(replay_history(history.commits, history.table, level))
    asked = replay_setting(table, level, row_level=row_level)
    return WhatIfAnswer(
        level=str(level),
        row_level=row_level,
        first=first,
        last=last,
        commits=tuple(_commits(replayed, history, recorded, asked)),
        conflicts=tuple(_conflicts(recorded, asked)),
        not_replayed=tuple(sorted(history.missing)),
        is_capped=len(recorded.conflicts) == MAX_CONFLICTS,
    )


def load_recorded_conflicts(table: Table, first: int, last: int) -> RecordedConflicts:
    """Return the latest of them, in two queries."""
    of_these = conflicts_of(table).filter(winning_version__range=(first, last))
    recorded = of_these.exclude(kind=Conflict.Kind.REPORTED)
    latest = prepare_for_judgment(recorded).order_by("-winning_version", "-id")[:MAX_CONFLICTS]
    conflicts = tuple(reversed(latest))
    return RecordedConflicts(conflicts, records_of(table, conflicts))


def _commits(
    replayed: Sequence[CommitReplay],
    history: History,
    recorded: RecordedConflicts,
    asked: ReplaySetting,
) -> Iterator[CommitVerdict]:
    resolved = _map_resolved_versions(recorded.conflicts)
    traced = _map_resolved_versions(
        [
            conflict
            for conflict in recorded.conflicts
            if passes_by_tracing(recorded.records[conflict.pk], asked)
        ]
    )
    landed = {commit.version: commit for commit in history.commits}
    for verdict in replayed:
        unseen = _has_unseen_versions(landed[verdict.version], history)
        if not (verdict.overlapping_versions or unseen):
            continue
        judged = judge_commit(
            verdict,
            asked,
            recorded_level=landed[verdict.version].info.isolation_level,
            resolved=resolved.get(verdict.version, ()),
            traced=traced.get(verdict.version, ()),
            unseen=unseen,
        )
        yield CommitVerdict(
            verdict.version,
            verdict.operation,
            verdict.overlapping_versions,
            judged.verdict,
            judged.why,
            judged.rule,
            judged.winning_version,
        )


def _conflicts(recorded: RecordedConflicts, asked: ReplaySetting) -> Iterator[ConflictVerdict]:
    for conflict in recorded.conflicts:
        judged = judge_conflict(recorded.records[conflict.pk], asked)
        yield ConflictVerdict(
            conflict.pk,
            conflict.kind,
            conflict.rule,
            judged.verdict,
            judged.why,
            conflict.became,
        )


def _has_unseen_versions(commit: WinningCommit, history: History) -> bool:
    """Whether a version that landed meanwhile cannot be replayed."""
    read_version = commit.info.read_version
    if read_version is None or not history.missing:
        return False
    return any(read_version < version < commit.version for version in history.missing)


def _map_resolved_versions(conflicts: Sequence[Conflict]) -> Mapping[int, list[int]]:
    """Return by version the versions whose conflicts with it were resolved."""
    winners: dict[int, list[int]] = {}
    for conflict in conflicts:
        version = conflict.became
        if version is not None and conflict.winning_version is not None:
            winners.setdefault(version, []).append(conflict.winning_version)
    return winners
