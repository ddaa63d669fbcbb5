"""One transaction's path: the versions it overlapped with, each result, and the next attempt."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from engine.conflict_facts import Verdict
from engine.conflicts.candidates import counts_appends
from engine.conflicts.predict.forecast import FORECASTS
from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.assessment import level_of
from lakeui.conflicts.conflict_detail.sides import decision_of
from lakeui.conflicts.lanes.bars import BarEnd, LaneBar, overlap_place
from lakeui.conflicts.lanes.swim_lane import SwimLane
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.statements.operations import JobSide

OVERLAPS_SHOWN = 24
RESULTS = (Verdict.PASSES, Verdict.RESOLVED, Verdict.CONFLICT, *FORECASTS)
"""Possible results of an overlapping version."""
_UNNAMED = "an operation not recorded"


@dataclass(frozen=True, slots=True)
class PathStep:
    """A version that overlapped with the transaction: the result, and why in words.

    For a running transaction it is a forecast: the version is checked at the commit.
    """

    version: int
    operation: str
    verdict: Verdict
    why: str


@dataclass(frozen=True, slots=True)
class NextAttempt:
    """The same job's next attempt after the abort. `state` is the job's if it did not commit."""

    job_id: str
    number: int | None
    version: int | None
    finished_at: datetime | None
    state: str


@dataclass(frozen=True, slots=True)
class TransactionPath:
    """A path; `left_out` versions came before its steps, which are the last ones, in order."""

    bar: LaneBar
    steps: tuple[PathStep, ...]
    left_out: int
    after: NextAttempt | None


@dataclass(frozen=True, slots=True)
class _PathContext:
    bar: LaneBar
    conflict: Conflict | None
    hows: Mapping[int | None, str]
    recorded: Mapping[int, Verdict]
    appends_count: bool
    running: JobSide | None


def lane_path(table: Table, lane: SwimLane, key: str) -> TransactionPath | None:
    """Return the path of a transaction by its key; None if the span holds no such."""
    bar = next((candidate for candidate in lane.all if candidate.key == key), None)
    if bar is None:
        return None
    conflict = _conflict(table, bar)
    end = _end(table, bar)
    if bar.read_version is None or end is None:
        return TransactionPath(bar, (), 0, _find_next_attempt(conflict))
    overlapping = table.commits.filter(version__gt=bar.read_version, version__lte=end)
    commits = list(overlapping.defer("raw").order_by("-version")[:OVERLAPS_SHOWN])[::-1]
    joints = [
        joint for joint in lane.joints if bar.version is not None and joint.version == bar.version
    ]
    hows = {joint.winning_version: joint.how for joint in joints}
    way = _PathContext(
        bar,
        conflict,
        hows,
        _read_verdicts(conflict),
        appends_count=_appends_count(table, bar),
        running=_find_running_side(table, bar),
    )
    steps = tuple(_step(commit, way) for commit in commits)
    left_out = max(0, end - bar.read_version - len(steps))
    return TransactionPath(bar, steps, left_out, _find_next_attempt(conflict))


def _appends_count(table: Table, bar: LaneBar) -> bool:
    """Whether blind appends counted for it; a change of metadata is ordered after none."""
    return counts_appends(level_of(bar.isolation_level, table), changes_terms=bar.changes_metadata)


def _find_running_side(table: Table, bar: LaneBar) -> JobSide | None:
    """Return the running job, for forecasts with landed versions; None if it has ended."""
    if bar.outcome is not BarEnd.RUNNING or bar.job_id is None:
        return None
    job = table.jobs.filter(pk=bar.job_id).first()
    return JobSide(job) if job is not None else None


def _conflict(table: Table, bar: LaneBar) -> Conflict | None:
    conflicts = table.conflicts.select_related("job", "transaction").prefetch_related(
        "job__attempt_rows"
    )
    return conflicts.filter(pk=bar.conflict_id).first() if bar.conflict_id else None


def _end(table: Table, bar: LaneBar) -> int | None:
    """Return the last checked version."""
    if bar.outcome is BarEnd.RUNNING:
        return table.version
    return bar.winning_version if bar.version is None else bar.version - 1


def _step(commit: Commit, way: _PathContext) -> PathStep:
    verdict, why = _decide_verdict(commit, way) or _let_by(commit, way)
    return PathStep(commit.version, commit.operation, verdict, why)


def _decide_verdict(commit: Commit, way: _PathContext) -> tuple[Verdict, str] | None:
    """Return the verdict on a version whose files or rows were compared."""
    version, name = commit.version, commit.operation or _UNNAMED
    if way.conflict is not None and version == way.conflict.winning_version:
        where = overlap_place(way.conflict) or way.conflict.rule.replace("_", " ")
        return Verdict.CONFLICT, _join_words(name, where)
    if version in way.hows:
        return Verdict.RESOLVED, _join_words(name, way.hows[version].partition(": ")[2])
    if way.recorded.get(version) is Verdict.RESOLVED:
        return Verdict.RESOLVED, f"{name}, resolved"
    return None


def _let_by(commit: Commit, way: _PathContext) -> tuple[Verdict, str]:
    """Return the verdict on a version that shares no file, or does not count."""
    name = commit.operation or _UNNAMED
    if way.running is not None:
        told = way.running.forecast_with_commit(commit, None)
        return told.verdict, f"{name}, {told.why}"
    appends_count = way.appends_count or way.recorded.get(commit.version) is Verdict.PASSES
    if commit.is_blind_append and not appends_count:
        return Verdict.EXEMPT, "blind append, exempt"
    return Verdict.PASSES, f"{name}, {_why_passed(way.bar)}"


def _why_passed(bar: LaneBar) -> str:
    return "it reads nothing" if bar.is_blind_append else "nothing in common"


def _join_words(*words: str) -> str:
    return ", ".join(word for word in words if word)


def _read_verdicts(conflict: Conflict | None) -> Mapping[int, Verdict]:
    """Return the recorded verdicts on earlier winning commits: each one's strongest check."""
    decision = decision_of(conflict) if conflict is not None else None
    winners = decision.winners if decision is not None else ()
    return {winner.version: _strongest(winner.verdicts.values()) for winner in winners}


def _strongest(verdicts: Iterable[Verdict]) -> Verdict:
    said = set(verdicts)
    order = (Verdict.CONFLICT, Verdict.RESOLVED, Verdict.EXEMPT, Verdict.PASSES)
    return next((verdict for verdict in order if verdict in said), Verdict.NOTHING)


def _find_next_attempt(conflict: Conflict | None) -> NextAttempt | None:
    job = conflict.job if conflict is not None else None
    if conflict is None or job is None:
        return None
    later = [
        attempt_row
        for attempt_row in job.attempt_rows.all()
        if attempt_row.number > conflict.attempt
    ]
    last = max(later, key=lambda attempt: attempt.number, default=None)
    committed = job.committed_version
    if last is None and committed is None:
        return NextAttempt(str(job.pk), None, None, job.finished_at, job.state)
    ended = last.finished_at if last is not None else job.finished_at
    number = last.number if last is not None else None
    return NextAttempt(str(job.pk), number, committed, ended or job.finished_at, job.state)
