"""One transaction's way: the versions it met, what each meeting came to, and what came after."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.lanes.bars import Bar
from lakeui.conflicts.lanes.swim_lane import SwimLane
from lakeui.conflicts.lanes.words import met_where
from lakeui.conflicts.models import Conflict

MET_SHOWN = 24
_BY_ROWS = ("rows", "row map")
_UNNAMED = "an operation not recorded"


@dataclass(frozen=True, slots=True)
class Step:
    """A version that was met. `verdict`: exempt, passed, absorbed, lost or open; `why` in words."""

    version: int
    operation: str
    verdict: str
    why: str


@dataclass(frozen=True, slots=True)
class NextAttempt:
    """What the same job came to after it lost. `state` is the job's where it did not commit."""

    job_id: str
    number: int | None
    version: int | None
    finished_at: datetime | None
    state: str


@dataclass(frozen=True, slots=True)
class Path:
    """`left_out` versions were met before the steps; the steps are the last ones, in order."""

    bar: Bar
    steps: tuple[Step, ...]
    left_out: int
    after: NextAttempt | None


@dataclass(frozen=True, slots=True)
class _Way:
    bar: Bar
    conflict: Conflict | None
    hows: Mapping[int | None, str]
    recorded: Mapping[int, str]


def lane_path(table: Table, lane: SwimLane, key: str) -> Path | None:
    """The way of the transaction that a key names; None where the span holds no such."""
    bar = next((each for each in lane.all if each.key == key), None)
    if bar is None:
        return None
    conflict = _conflict(table, bar)
    end = _end(table, bar)
    if bar.read_version is None or end is None:
        return Path(bar, (), 0, _after(conflict))
    met = table.commits.filter(version__gt=bar.read_version, version__lte=end)
    commits = list(met.defer("raw").order_by("-version")[:MET_SHOWN])[::-1]
    joints = [
        each for each in lane.joints if bar.version is not None and each.version == bar.version
    ]
    hows = {each.winning_version: each.how for each in joints}
    way = _Way(bar, conflict, hows, _recorded_verdicts(conflict))
    steps = tuple(_step(commit, way) for commit in commits)
    left_out = max(0, end - bar.read_version - len(steps))
    return Path(bar, steps, left_out, _after(conflict))


def _conflict(table: Table, bar: Bar) -> Conflict | None:
    found = table.conflicts.select_related("job").prefetch_related("job__attempt_rows")
    return found.filter(pk=bar.conflict_id).first() if bar.conflict_id else None


def _end(table: Table, bar: Bar) -> int | None:
    """The last version that was met."""
    if bar.outcome == "running":
        return table.version
    return bar.winning_version if bar.version is None else bar.version - 1


def _step(commit: Commit, way: _Way) -> Step:
    verdict, why = _decided(commit, way) or _let_by(commit, way)
    return Step(commit.version, commit.operation, verdict, why)


def _decided(commit: Commit, way: _Way) -> tuple[str, str] | None:
    """Of a version that the two sides' files or rows were held against."""
    version, name = commit.version, commit.operation or _UNNAMED
    if way.conflict is not None and version == way.conflict.winning_version:
        where = met_where(way.conflict) or way.conflict.rule.replace("_", " ")
        return "lost", _joined(name, where)
    if version in way.hows:
        return "absorbed", _joined(name, way.hows[version].partition(": ")[2])
    said = way.recorded.get(version)
    return ("absorbed", f"{name}, told apart by {said}") if said in _BY_ROWS else None


def _let_by(commit: Commit, way: _Way) -> tuple[str, str]:
    """Of a version in whose files nothing was met, or which does not count."""
    bar, name = way.bar, commit.operation or _UNNAMED
    relaxed = bar.isolation_level != "Serializable" and not bar.changes_metadata
    if commit.is_blind_append and relaxed and way.recorded.get(commit.version) != "pass":
        return "exempt", "blind append, exempt"
    if bar.outcome == "running":
        return "open", f"{name}, checked at commit"
    return "passed", f"{name}, {_why_passed(bar)}"


def _why_passed(bar: Bar) -> str:
    return "it reads nothing" if bar.is_blind_append else "nothing in common"


def _joined(*words: str) -> str:
    return ", ".join(word for word in words if word)


def _recorded_verdicts(conflict: Conflict | None) -> Mapping[int, str]:
    """What the engine recorded of the winners before: the strongest of its checks' verdicts."""
    facts: Any = conflict.facts if conflict is not None else None
    decision = (facts.get("decision") if isinstance(facts, dict) else None) or {}
    winners: Iterable[Any] = decision.get("winners") or ()
    return {int(each["version"]): _strongest(each.get("verdicts") or {}) for each in winners}


def _strongest(verdicts: Mapping[str, str]) -> str:
    order = ("conflict", "row map", "rows", "exempt", "pass")
    return next((name for name in order if name in verdicts.values()), "none")


def _after(conflict: Conflict | None) -> NextAttempt | None:
    job = conflict.job if conflict is not None else None
    if conflict is None or job is None:
        return None
    later = [each for each in job.attempt_rows.all() if each.number > conflict.attempt]
    last = max(later, key=lambda each: each.number, default=None)
    committed = job.committed_version
    if last is None and committed is None:
        return NextAttempt(str(job.pk), None, None, job.finished_at, job.state)
    ended = last.finished_at if last is not None else job.finished_at
    number = last.number if last is not None else None
    return NextAttempt(str(job.pk), number, committed, ended or job.finished_at, job.state)
