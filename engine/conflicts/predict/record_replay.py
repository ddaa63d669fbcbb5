"""Replay of recorded writes under another setting: the other level, row level or file level.

A commit's log entry is replayed through the checks. An aborted attempt left no entry: its recorded
facts are judged, with a forecast of the two operations if rows would decide. If the record is not
sufficient, the verdict is UNDECIDABLE.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.conflict_facts import Rule, Subclass, Verdict
from engine.conflicts.candidates import counts_appends
from engine.conflicts.decide.checker import FILE_RULES
from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.predict.forecast import ForecastSide, forecast
from engine.conflicts.predict.replay_history import CommitReplay
from engine.conflicts.predict.sample_table import TableSetting
from engine.vocabulary import StatementKind

JUDGED = (Verdict.PASSES, Verdict.CONFLICT, Verdict.UNDECIDABLE)
"""The verdicts on a recorded write."""
ENABLED = "the winning commit only enabled features that do not affect running writes"
_TERMS_RULES = frozenset({Rule.PROTOCOL_CHANGED, Rule.METADATA_CHANGED})
_APPEND = ForecastSide(kind=StatementKind.INSERT)
_BY_FILES = "it was resolved at row level: at file level the two conflict"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The hypothetical outcome of a write; `rule` and `winning_version` say what would abort it."""

    verdict: Verdict
    why: str
    winning_version: int | None = None
    rule: Rule | None = None


@dataclass(frozen=True, slots=True)
class ReplaySetting:
    """The hypothetical setting.

    `row_level`: whether rows decide under it; `rows_decided`: whether they did when the writes were
    recorded. `eligible` is the table as it would be if rows decided. `traces_moves`: whether rows
    moved by a compaction are traced under it, which needs only deletion vectors.
    """

    level: IsolationLevel
    row_level: bool
    rows_decided: bool
    eligible: TableSetting
    traces_moves: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedConflict:
    """The known facts of a conflict that was resolved at row level or aborted a write.

    `level` is the recorded one, "" if unknown. `rows_compared`: rows were compared, and both sides
    had changed the same ones. An unknown operation is None.
    """

    rule: Rule | None
    resolved: bool
    level: str
    subclass: str = ""
    rows_compared: bool = False
    winner_is_blind: bool | None = None
    current: ForecastSide | None = None
    winner: ForecastSide | None = None


def judge_conflict(record: RecordedConflict, asked: ReplaySetting) -> Judgement:
    """Judge a recorded conflict under another setting."""
    if record.resolved:
        return _judge_resolved(record, asked)
    if record.rule is not None and record.rule not in FILE_RULES:
        return Judgement(Verdict.CONFLICT, "it depends neither on the isolation level nor on rows")
    spared = _judge_blind_append(record, asked)
    if spared is not None:
        return spared
    if asked.row_level and not asked.rows_decided:
        return judge_at_row_level(record, asked.eligible)
    return Judgement(Verdict.CONFLICT, "it was aborted at this level or at a weaker level")


def _judge_blind_append(record: RecordedConflict, asked: ReplaySetting) -> Judgement | None:
    """Judge a write aborted at Serializable for added data, at a level without blind appends.

    They count at every level for operations that set the whole table or change its metadata.
    """
    strict = record.level == IsolationLevel.SERIALIZABLE
    if record.rule is not Rule.DATA_ADDED or not strict or counts_appends(asked.level):
        return None
    if record.current is not None and _counts_all(record.current, asked):
        return None
    if record.winner_is_blind is None:
        why = "it is not recorded whether the winning commit was a blind append"
        return Judgement(Verdict.UNDECIDABLE, why)
    why = "the winning commit was a blind append, which can be ordered after it"
    return Judgement(Verdict.PASSES, why) if record.winner_is_blind else None


def _counts_all(current: ForecastSide, asked: ReplaySetting) -> bool:
    told = forecast(asked.eligible, ForecastSide(kind=current.kind), _APPEND)
    return told.verdict is Verdict.ALWAYS


def judge_at_row_level(record: RecordedConflict, eligible: TableSetting) -> Judgement:
    """Judge a file-level conflict as if rows had decided it on an eligible table."""
    if record.rows_compared or record.subclass == Subclass.ROW_LEVEL_CHANGES:
        return Judgement(
            Verdict.CONFLICT, "the comparison of rows showed that both changed the same rows"
        )
    if record.subclass == Subclass.WHOLE_TABLE_READ:
        return Judgement(Verdict.CONFLICT, "it had read the whole table")
    if record.current is not None and record.current.obstacle:
        why = f"{record.current.obstacle}, so it is still decided at file level"
        return Judgement(Verdict.CONFLICT, why)
    if record.current is None or record.winner is None:
        return Judgement(Verdict.UNDECIDABLE, "the rows that each side changed are not recorded")
    return _forecast(record.current, record.winner, eligible)


def judge_commit(
    replayed: CommitReplay,
    asked: ReplaySetting,
    *,
    recorded_level: str | None,
    resolved: Sequence[int] = (),
    traced: Sequence[int] = (),
    unseen: bool = False,
) -> Judgement:
    """Judge a commit under another setting.

    `resolved` are the versions it passed only at row level, `traced` those it also passes under the
    setting because moved rows are traced; `unseen`: an overlapping commit is missing from the
    replay. If it was checked at least as strictly as requested, its success is better evidence than
    a replay.
    """
    alike = asked.row_level or not (asked.rows_decided or replayed.certain or resolved)
    if alike and _is_as_strict(recorded_level, asked.level):
        return Judgement(Verdict.PASSES, "it committed at this level or a stricter level")
    conflict = replayed.row_conflict if asked.row_level else replayed.conflict
    stopping = [version for version in resolved if version not in traced]
    if stopping and not asked.row_level:
        rule = conflict.rule if conflict else None
        return Judgement(Verdict.CONFLICT, _BY_FILES, min(stopping), rule)
    if conflict is None:
        return _not_stopped(unseen=unseen)
    if conflict.winner.version in traced:
        return _judge_past_resolved(conflict.rule, recorded_level, asked)
    judgement = judge_replay(
        conflict.rule, conflict.what, replayed.certain, row_level=asked.row_level
    )
    return Judgement(judgement.verdict, judgement.why, conflict.winner.version, conflict.rule)


def _judge_past_resolved(rule: Rule, recorded_level: str | None, asked: ReplaySetting) -> Judgement:
    """Judge a commit whose replay ends at a conflict resolved without comparing rows."""
    enables = rule in _TERMS_RULES
    if _is_as_strict(recorded_level, asked.level):
        resolved = ENABLED if enables else "rows that a compaction moved are traced"
        return Judgement(Verdict.PASSES, f"{resolved}, and it committed")
    what = "a commit that enabled features" if enables else "a compaction"
    return Judgement(Verdict.UNDECIDABLE, f"commits after {what} are not replayed")


def judge_replay(rule: Rule, what: str, certain: bool, *, row_level: bool) -> Judgement:
    """Judge a conflict of a file-level replay; `certain`: the write's reads are recorded."""
    if not certain:
        why = "its reads are not recorded; it would conflict if it read the whole table"
        return Judgement(Verdict.UNDECIDABLE, why)
    if row_level and rule in FILE_RULES:
        why = "it would conflict at file level; the rows that each side changed are not recorded"
        return Judgement(Verdict.UNDECIDABLE, why)
    return Judgement(Verdict.CONFLICT, what)


def passes_by_tracing(record: RecordedConflict, asked: ReplaySetting) -> bool:
    """Return whether a resolved conflict is also resolved at file level.

    This holds for conflicts with a compaction, or with a commit that only enabled features.
    """
    if record.resolved and record.rule in _TERMS_RULES:
        return True
    sides = (side for side in (record.current, record.winner) if side is not None)
    return record.resolved and asked.traces_moves and any(side.kind.moves_rows for side in sides)


def _judge_resolved(record: RecordedConflict, asked: ReplaySetting) -> Judgement:
    if record.rule in _TERMS_RULES:
        return Judgement(Verdict.PASSES, ENABLED)
    if not (asked.row_level or passes_by_tracing(record, asked)):
        return Judgement(Verdict.CONFLICT, _BY_FILES)
    if counts_appends(asked.level) and record.level != asked.level:
        why = (
            "rows of blind appends then count too, and it is not recorded whether its "
            "condition matched them"
        )
        return Judgement(Verdict.UNDECIDABLE, why)
    return Judgement(Verdict.PASSES, "the rows of the two writes were different")


def _not_stopped(*, unseen: bool) -> Judgement:
    if unseen:
        return Judgement(Verdict.UNDECIDABLE, "a commit in between is not fully recorded")
    return Judgement(Verdict.PASSES, "no check of the engine finds a conflict")


def _is_as_strict(recorded: str | None, asked: IsolationLevel) -> bool:
    """Return whether a commit passed equally strict checks; moving no data has its own level."""
    if recorded in (IsolationLevel.SERIALIZABLE, IsolationLevel.SNAPSHOT):
        return True
    return recorded == IsolationLevel.WRITE_SERIALIZABLE == asked


def _forecast(current: ForecastSide, winner: ForecastSide, eligible: TableSetting) -> Judgement:
    told = forecast(eligible, current, winner)
    if not told.exceptions:
        return Judgement(Verdict.PASSES, told.why)
    if told.verdict is Verdict.ALWAYS:
        return Judgement(Verdict.CONFLICT, told.why)
    return Judgement(Verdict.UNDECIDABLE, _explain_unknown(current, winner))


def _explain_unknown(current: ForecastSide, winner: ForecastSide) -> str:
    if current.kind.moves_rows or winner.kind.moves_rows:
        return "it is not recorded whether the compaction's rows can be traced"
    if current.conditions is None:
        return "its condition is not recorded"
    if winner.conditions is None:
        return "the winning commit's condition is not recorded"
    return "both may concern the same rows"
