"""What if the table had another isolation level, or row-level concurrency switched on or off.

Commits are replayed through the engine's own checks, from the commit texts that the mirror keeps.
Losers left no commit: of them the recorded facts are judged. Where what is recorded does not decide
it, the answer is "undecidable", with the reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from engine.actions.codec import decode_lines
from engine.actions.commit_info import CommitInfo
from engine.conflicts.checker import FILE_RULES
from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.replay_history import (
    RecordedTable,
    UnexplainedSnapshot,
    WhatIf,
    replay_history,
    unexplained_snapshots,
)
from engine.conflicts.transaction_info import WinningCommit
from engine.errors import EngineError
from engine.schema.types import StructType, parse_schema
from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.models import Conflict

DEFAULT_VERSIONS = 100
MAX_VERSIONS = 500
_DATA_ADDED = "data_added"


class Verdict(StrEnum):
    """What would have become of a write."""

    PASSES = "passes"
    CONFLICT = "conflict"
    UNDECIDABLE = "undecidable"


@dataclass(frozen=True, slots=True)
class CommitVerdict:
    """A commit that met others. `rule` and `winning_version` are of what would have stopped it."""

    version: int
    operation: str
    met: tuple[int, ...]
    verdict: Verdict
    why: str
    rule: str | None = None
    winning_version: int | None = None


@dataclass(frozen=True, slots=True)
class ConflictVerdict:
    """A recorded conflict, lost or absorbed, under the other setting."""

    conflict_id: int
    kind: str
    rule: str
    verdict: Verdict
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Versions `first` to `last` under the setting that was asked for.

    `not_replayed` are versions whose commit is longer than the mirror keeps, or cannot be read.
    """

    level: str
    row_level: bool
    first: int
    last: int
    commits: tuple[CommitVerdict, ...]
    conflicts: tuple[ConflictVerdict, ...]
    not_replayed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class History:
    """The commits of a range that can be replayed, and the versions that cannot."""

    table: RecordedTable
    commits: tuple[WinningCommit, ...]
    missing: frozenset[int]


def what_if(
    table: Table,
    level: IsolationLevel,
    *,
    row_level: bool,
    versions: tuple[int, int] | None = None,
    history: History | None = None,
) -> Answer:
    """Judge a range of versions, the latest hundred by default, under another setting.

    `history` is that range where it has been read already.
    """
    first, last = versions or latest_versions(table, DEFAULT_VERSIONS)
    history = history or recorded_history(table, first, last)
    judged = [
        _commit_verdict(each, _unseen(each, history), row_level=row_level)
        for each in replay_history(history.commits, history.table, level)
        if each.met or _unseen(each, history)
    ]
    met = table.conflicts.filter(winning_version__range=(first, last)).exclude(
        kind=Conflict.Kind.REPORTED
    )
    return Answer(
        level=str(level),
        row_level=row_level,
        first=first,
        last=last,
        commits=tuple(judged),
        conflicts=tuple(
            _conflict_verdict(each, table, level, row_level=row_level)
            for each in met.order_by("winning_version", "id")
        ),
        not_replayed=tuple(sorted(history.missing)),
    )


def unexplained(
    table: Table, first: int, last: int, history: History | None = None
) -> tuple[UnexplainedSnapshot, ...]:
    """Versions whose snapshot no serial order explains, as far as the kept commits tell.

    `history` is that range where it has been read already.
    """
    history = history or recorded_history(table, first, last)
    serializable = {
        each.version
        for each in history.commits
        if (each.info.isolation_level or table.isolation_level) == IsolationLevel.SERIALIZABLE
    }
    found = unexplained_snapshots(history.commits, history.table)
    return tuple(each for each in found if each.later_version not in serializable)


def latest_versions(table: Table, count: int) -> tuple[int, int]:
    """The last `count` versions, as first and last."""
    last = table.version or 0
    return max(0, last - min(count, MAX_VERSIONS) + 1), last


def recorded_history(table: Table, first: int, last: int) -> History:
    """The commits of a range from the mirror's texts, decoded as the engine does it."""
    last = min(last, table.version or 0)
    first = max(first, last - MAX_VERSIONS + 1, 0)
    rows = list(table.commits.filter(version__range=(first, last)).order_by("version"))
    read = {row.version: decoded(row) for row in rows}
    here = {version: commit for version, commit in read.items() if commit is not None}
    recorded = recorded_table(table)
    missing = frozenset(range(first, last + 1)) - here.keys() if rows else frozenset()
    return History(recorded, tuple(here.values()), missing)


def recorded_table(table: Table) -> RecordedTable:
    """The table as the engine's replays know it; without columns where its schema cannot be read."""
    return RecordedTable(table.name, _schema(table), tuple(table.partition_columns))


def _schema(table: Table) -> StructType:
    try:
        return parse_schema(table.schema)
    except EngineError:
        return StructType(())


def decoded(row: Commit) -> WinningCommit | None:
    """A mirrored commit as it was written; None where its text is not kept whole."""
    text = row.raw.encode("utf-8")
    if not text or len(text) < row.raw_bytes:
        return None
    try:
        actions = tuple(decode_lines(text))
    except EngineError:
        return None
    info = next((each for each in actions if isinstance(each, CommitInfo)), None)
    return WinningCommit(version=row.version, actions=actions, info=info or CommitInfo())


def _unseen(found: WhatIf, history: History) -> bool:
    """Whether a version that landed meanwhile cannot be replayed."""
    commit = next(each for each in history.commits if each.version == found.version)
    read_version = commit.info.read_version
    if read_version is None:
        return False
    return any(read_version < version < found.version for version in history.missing)


def _commit_verdict(found: WhatIf, unseen: bool, *, row_level: bool) -> CommitVerdict:
    facts = found.conflict
    if facts is None:
        verdict, why = Verdict.PASSES, "no check of the engine stops it"
        if unseen:
            verdict, why = Verdict.UNDECIDABLE, "a commit in between is not kept whole"
        return CommitVerdict(found.version, found.operation, found.met, verdict, why)
    verdict, why = Verdict.CONFLICT, facts.what
    if not found.certain:
        verdict = Verdict.UNDECIDABLE
        why = "what it read is not recorded; had it read everything, it would conflict"
    elif row_level and facts.rule in FILE_RULES:
        verdict = Verdict.UNDECIDABLE
        why = "it would conflict by files; which rows each side touched is not recorded"
    winner = facts.winner.version
    return CommitVerdict(
        found.version, found.operation, found.met, verdict, why, facts.rule, winner
    )


def _conflict_verdict(
    conflict: Conflict, table: Table, level: IsolationLevel, *, row_level: bool
) -> ConflictVerdict:
    judge = _of_absorbed if conflict.kind == Conflict.Kind.ABSORBED else _of_lost
    verdict, why = judge(conflict, table, level, row_level)
    return ConflictVerdict(conflict.pk, conflict.kind, conflict.rule, verdict, why)


def _of_absorbed(
    conflict: Conflict, _table: Table, level: IsolationLevel, row_level: bool
) -> tuple[Verdict, str]:
    if not row_level:
        return Verdict.CONFLICT, "rows alone kept the two apart: by files they conflict"
    if level == IsolationLevel.SERIALIZABLE != conflict.isolation_level:
        why = (
            "rows that blind appends added then count too, and whether it matched them is not kept"
        )
        return Verdict.UNDECIDABLE, why
    return Verdict.PASSES, "their rows were different"


def _of_lost(
    conflict: Conflict, table: Table, level: IsolationLevel, row_level: bool
) -> tuple[Verdict, str]:
    if conflict.rule and conflict.rule not in FILE_RULES:
        return Verdict.CONFLICT, "it has nothing to do with the level or with rows"
    if row_level and not table.row_level_eligible:
        return Verdict.UNDECIDABLE, "which rows each side touched is not recorded"
    if conflict.rule != _DATA_ADDED or level == IsolationLevel.SERIALIZABLE:
        return Verdict.CONFLICT, "files that one side removed, or added data, count at every level"
    if conflict.isolation_level != IsolationLevel.SERIALIZABLE:
        return Verdict.CONFLICT, "it was lost at this level"
    return _of_blind_append(conflict)


def _of_blind_append(conflict: Conflict) -> tuple[Verdict, str]:
    """Lost at Serializable because data was added; asked for WriteSerializable."""
    winner: Mapping[str, object] = conflict.facts.get("winner") or {}
    blind = winner.get("is_blind_append")
    if blind is None:
        return Verdict.UNDECIDABLE, "whether the winner was a blind append is not recorded"
    if blind:
        return Verdict.PASSES, "the winner was a blind append, which may be ordered after it"
    return Verdict.CONFLICT, "the winner was no blind append"
