"""What if the table had another isolation level, or row-level concurrency switched on or off.

Commits are replayed through the engine's own checks, from the commit texts that the mirror keeps.
Losers left no commit: of them the recorded facts are judged. Where what is recorded does not decide
it, the answer is "undecidable", with the reason.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from django.db.models.fields.json import KeyTransform

from engine.conflicts.checker import FILE_RULES
from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.replay_history import WhatIf, replay_history
from engine.conflicts.transaction_info import WinningCommit
from engine.errors import ConflictFacts
from lakeui.catalog.models import Table
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.replay.recorded_history import History, latest_versions, recorded_history

DEFAULT_VERSIONS = 100
MAX_CONFLICTS = 2_000
_DATA_ADDED = "data_added"
_JUDGED_BY = (
    "table",
    "kind",
    "rule",
    "isolation_level",
    "occurred_at",
    "read_version",
    "attempted_version",
    "winning_version",
    "current_operation",
    "current_user_name",
    "winner_operation",
    "wasted_ms",
    "wasted_bytes",
    "job__committed_version",
)


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
    """A recorded conflict, lost or absorbed, under the other setting.

    `version` is what a write that absorbed it became, None where that is not recorded or it lost.
    """

    conflict_id: int
    kind: str
    rule: str
    verdict: Verdict
    why: str
    version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Versions `first` to `last` under the setting that was asked for.

    `not_replayed` are versions whose commit is longer than the mirror keeps, or cannot be read.
    `is_capped`: of the conflicts of that range only the latest `MAX_CONFLICTS` are judged.
    """

    level: str
    row_level: bool
    first: int
    last: int
    commits: tuple[CommitVerdict, ...]
    conflicts: tuple[ConflictVerdict, ...]
    not_replayed: tuple[int, ...]
    is_capped: bool = False


def what_if(  # noqa: PLR0913 - what is given spares a query
    table: Table,
    level: IsolationLevel,
    *,
    row_level: bool,
    versions: tuple[int, int] | None = None,
    history: History | None = None,
    conflicts: Sequence[Conflict] | None = None,
    replayed: Sequence[WhatIf] | None = None,
) -> Answer:
    """Judge a range of versions, the latest hundred by default, under another setting.

    `history` and `conflicts` are those of that range where they have been read already, `replayed`
    its replay at that level.
    """
    first, last = versions or latest_versions(table, DEFAULT_VERSIONS)
    history = history or recorded_history(table, first, last)
    met = recorded_conflicts(table, first, last) if conflicts is None else conflicts
    absorbed = _absorbed_by(met)
    if replayed is None:
        replayed = tuple(replay_history(history.commits, history.table, level))
    landed = {each.version: each for each in history.commits}
    judged = [
        _Landed(each, landed[each.version], absorbed.get(each.version, ())).judged(
            level,
            row_level=row_level,
            by_rows_now=table.row_level_eligible,
            unseen=_unseen(landed[each.version], history),
        )
        for each in replayed
        if each.met or _unseen(landed[each.version], history)
    ]
    return Answer(
        level=str(level),
        row_level=row_level,
        first=first,
        last=last,
        commits=tuple(judged),
        conflicts=tuple(_conflict_verdict(each, table, level, row_level=row_level) for each in met),
        not_replayed=tuple(sorted(history.missing)),
        is_capped=len(met) == MAX_CONFLICTS,
    )


def recorded_conflicts(table: Table, first: int, last: int) -> tuple[Conflict, ...]:
    """The conflicts with a range of versions, in their order, the latest of them; without facts."""
    met = table.conflicts.filter(winning_version__range=(first, last)).exclude(
        kind=Conflict.Kind.REPORTED
    )
    blind = KeyTransform("is_blind_append", KeyTransform("winner", "facts"))
    rows = met.select_related("job").only(*_JUDGED_BY).annotate(winner_is_blind=blind)
    return tuple(rows.order_by("-winning_version", "-id")[:MAX_CONFLICTS])[::-1]


def _unseen(commit: WinningCommit, history: History) -> bool:
    """Whether a version that landed meanwhile cannot be replayed."""
    read_version = commit.info.read_version
    if read_version is None or not history.missing:
        return False
    return any(read_version < version < commit.version for version in history.missing)


def _absorbed_by(conflicts: Sequence[Conflict]) -> Mapping[int, list[int]]:
    """The versions that a version absorbed a conflict with."""
    found: dict[int, list[int]] = {}
    for each in conflicts:
        version = became(each)
        if version is not None and each.winning_version is not None:
            found.setdefault(version, []).append(each.winning_version)
    return found


def became(conflict: Conflict) -> int | None:
    """The version that a write became which absorbed this conflict."""
    if conflict.kind != Conflict.Kind.ABSORBED:
        return None
    committed = conflict.job.committed_version if conflict.job else None
    return conflict.attempted_version if committed is None else committed


@dataclass(frozen=True, slots=True)
class _Landed:
    """A commit, what its replay found, and the versions with which rows alone kept it apart."""

    found: WhatIf
    commit: WinningCommit
    absorbed: Sequence[int]

    def judged(
        self, level: IsolationLevel, *, row_level: bool, by_rows_now: bool, unseen: bool
    ) -> CommitVerdict:
        """That it landed tells more than a replay can, where it was checked as strictly as asked."""
        alike = row_level or not (by_rows_now or self.found.certain or self.absorbed)
        if alike and _is_as_strict(self.commit.info.isolation_level, level):
            why = "it landed at this level or a stricter one"
            return self._verdict(Verdict.PASSES, why)
        facts = self.found.conflict
        if self.absorbed and not row_level:
            why = "rows alone kept the two apart: by files they conflict"
            return self._verdict(
                Verdict.CONFLICT, why, min(self.absorbed), facts.rule if facts else None
            )
        if facts is None and unseen:
            return self._verdict(Verdict.UNDECIDABLE, "a commit in between is not kept whole")
        if facts is None:
            return self._verdict(Verdict.PASSES, "no check of the engine stops it")
        verdict, why = self._by_replay(facts, row_level=row_level)
        return self._verdict(verdict, why, facts.winner.version, facts.rule)

    def _by_replay(self, facts: ConflictFacts, *, row_level: bool) -> tuple[Verdict, str]:
        if not self.found.certain:
            why = "what it read is not recorded; had it read everything, it would conflict"
            return Verdict.UNDECIDABLE, why
        if row_level and facts.rule in FILE_RULES:
            why = "it would conflict by files; which rows each side touched is not recorded"
            return Verdict.UNDECIDABLE, why
        return Verdict.CONFLICT, facts.what

    def _verdict(
        self, verdict: Verdict, why: str, winner: int | None = None, rule: str | None = None
    ) -> CommitVerdict:
        found = self.found
        return CommitVerdict(found.version, found.operation, found.met, verdict, why, rule, winner)


def _is_as_strict(recorded: str | None, asked: IsolationLevel) -> bool:
    """Whether a commit passed checks as strict as asked. What moves no data has its own level."""
    if recorded in (IsolationLevel.SERIALIZABLE, IsolationLevel.SNAPSHOT):
        return True
    return recorded == IsolationLevel.WRITE_SERIALIZABLE == asked


def _conflict_verdict(
    conflict: Conflict, table: Table, level: IsolationLevel, *, row_level: bool
) -> ConflictVerdict:
    judge = _of_absorbed if conflict.kind == Conflict.Kind.ABSORBED else _of_lost
    verdict, why = judge(conflict, table, level, row_level)
    return ConflictVerdict(
        conflict.pk, conflict.kind, conflict.rule, verdict, why, became(conflict)
    )


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
    blind = getattr(conflict, "winner_is_blind", None)
    if blind is None:
        return Verdict.UNDECIDABLE, "whether the winner was a blind append is not recorded"
    if blind:
        return Verdict.PASSES, "the winner was a blind append, which may be ordered after it"
    return Verdict.CONFLICT, "the winner was no blind append"
