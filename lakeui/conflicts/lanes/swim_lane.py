"""Who wrote when, from read version to commit: the data of the concurrency swim-lane.

Logs do not record when a transaction began. Where a job of ours or a pipeline told it, it is exact;
else it is taken as the moment its read version was committed, the earliest it can have been, and
marked so.

Beside the shown versions stand their surroundings, by bucket of time, and how many more writes
would be aborted under neighboring settings.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Q, TextField, Value
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import NullIf

from engine.commands.model import Script
from engine.conflict_facts import Verdict
from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.predict.replay_history import PassedOver
from lakeui.catalog.models import Table
from lakeui.conflicts.assessment import level_of
from lakeui.conflicts.lanes.bars import (
    BarSurroundings,
    LaneBar,
    Properties,
    ResolvedLink,
    build_aborted_bar,
    build_commit_bar,
    build_running_bar,
    describe_resolution,
    load_versions_around,
    pipelines_of,
    properties_of,
)
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.replay.recorded_history import (
    History,
    find_out_of_order,
    load_recorded_history,
)
from lakeui.conflicts.replay.what_if import (
    RecordedConflicts,
    WhatIfAnswer,
    load_recorded_conflicts,
    what_if,
)
from lakeui.conflicts.version_effects import conflicts_of
from lakeui.jobs.models import JobAttempt
from lakeui.jobs.version_jobs import makers_of, scripts_elsewhere
from lakeui.jobs.writers import active_writers

DEFAULT_VERSIONS = 100
MAX_VERSIONS = 500
_JSON_NULL = Value(
    "null", output_field=TextField()
)  # SQLite yields this text; PostgreSQL yields NULL
_NOT_YET = datetime.max.replace(tzinfo=UTC)
_RUNNING_SHOWN = 50
_SETTINGS_LOOKED_AT = 60
_RUN = (
    "id", "kind", "progress_done", "progress_total", "requested_by__username",
    "attempt_rows__read_version", "attempt_rows__started_at", "attempt_rows__number",
)  # fmt: skip

BUCKETS = 96
MAX_NAVIGATOR_VERSIONS = 3_000
DAY = timedelta(hours=24)
_SHORTEST = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class LaneSwap:
    """`version`, a blind append, takes effect after `later`, the last write that passed it over.

    Version `later` is out of order: no prefix of the history explains its state.
    """

    version: int
    later: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SwimLane:
    """Versions `first` to `last`; bars in the order of their end.

    `running` are attempts that have read and not ended; none if `last` is not the latest version.
    Whichever bars are shown, `is_open` says whether something runs, `moments` when the versions
    landed, and `engines` each writer's engine in the log. `history` is the replayable part of the
    range.
    """

    first: int
    last: int
    lanes: tuple[str, ...]
    bars: tuple[LaneBar, ...]
    joints: tuple[ResolvedLink, ...]
    reordered: tuple[LaneSwap, ...]
    running: tuple[LaneBar, ...] = ()
    is_open: bool = False
    moments: Mapping[int, datetime | None] = field(default_factory=dict, compare=False)
    engines: Mapping[str, frozenset[str]] = field(default_factory=dict, compare=False)
    history: History | None = field(default=None, repr=False, compare=False)

    @property
    def all(self) -> tuple[LaneBar, ...]:
        """Ended and running transactions."""
        return (*self.bars, *self.running)


def swim_lane(table: Table, first: int | None = None, last: int | None = None) -> SwimLane:
    """Return the transactions of a range of versions; by default the latest 100, at most 500."""
    start, end = _range(table, first, last)
    here = table.commits.filter(version__range=(start, end))
    commits = list(here.defer("raw").order_by("version"))
    aborted, joints = _conflicts(table, start, end)
    runs = _list_running_attempts(table, end)
    read = [commit.read_version for commit in commits]
    read += [conflict.read_version for conflict in aborted]
    read += [row["attempt_rows__read_version"] for row in runs]
    landed = load_versions_around(table, read, start, end)
    around = BarSurroundings(
        table=table,
        landed=landed,
        jobs=makers_of(table, start, end),
        pipelines=pipelines_of(table, start, end),
        joints=joints,
        properties=_properties_before(table, end),
    )
    bars = [build_commit_bar(commit, around) for commit in commits]
    bars += [build_aborted_bar(conflict, around) for conflict in aborted]
    bars.sort(key=lambda bar: bar.finished_at or _NOT_YET)
    running = [build_running_bar(row, table, landed) for row in runs]
    history = load_recorded_history(table, start, end)
    return SwimLane(
        first=start,
        last=end,
        lanes=tuple(sorted({bar.lane for bar in bars})),
        bars=tuple(bars),
        joints=tuple(joints),
        reordered=_list_swaps(find_out_of_order(table, start, end, history)),
        running=tuple(running),
        is_open=bool(running),
        moments={commit.version: commit.committed_at for commit in commits},
        engines=_engines([*bars, *running]),
        history=history,
    )


def _list_swaps(pairs: Iterable[PassedOver]) -> tuple[LaneSwap, ...]:
    """Return one arrow for each append, to the last write that passed it over."""
    last: dict[int, int] = {}
    for pair in pairs:
        last[pair.append_version] = max(pair.version, last.get(pair.append_version, 0))
    return tuple(LaneSwap(append, version) for append, version in last.items())


def _engines(bars: Iterable[LaneBar]) -> Mapping[str, frozenset[str]]:
    engines_by_lane: dict[str, set[str]] = defaultdict(set)
    for bar in bars:
        if bar.engine:
            engines_by_lane[bar.lane].add(bar.engine)
    return {lane: frozenset(engines) for lane, engines in engines_by_lane.items()}


def _range(table: Table, first: int | None, last: int | None) -> tuple[int, int]:
    end = min(last if last is not None else (table.version or 0), table.version or 0)
    start = max(first if first is not None else end - DEFAULT_VERSIONS + 1, 0)
    return max(start, end - MAX_VERSIONS + 1), end


def _conflicts(table: Table, start: int, end: int) -> tuple[Sequence[Conflict], list[ResolvedLink]]:
    """Return attempts aborted by a version of the range, and resolved conflicts with it."""
    to_these = Q(winning_version__range=(start, end))
    became = Q(job__committed_version__range=(start, end)) | Q(
        attempted_version__range=(start, end)
    )
    rows = conflicts_of(table).filter(to_these | Q(became, kind=Conflict.Kind.RESOLVED))
    rows = rows.select_related("job", "transaction__pipeline").defer("facts")
    said = rows.prefetch_related("job__attempt_rows").annotate(
        how=KeyTextTransform("how", "facts"),
        engine=NullIf(KeyTextTransform("engine", KeyTransform("current", "facts")), _JSON_NULL),
    )
    conflicts = list(said.order_by("occurred_at", "id"))
    with_rows = [conflict for conflict in conflicts if conflict.kind == Conflict.Kind.RESOLVED]
    joints = [_joint(conflict, conflict.how or "") for conflict in with_rows]
    return [conflict for conflict in conflicts if conflict.kind != Conflict.Kind.RESOLVED], joints


def _joint(conflict: Conflict, how: str) -> ResolvedLink:
    words = describe_resolution(conflict, how)
    return ResolvedLink(
        conflict.pk, conflict.became, conflict.winning_version, conflict.rule, words
    )


def _list_running_attempts(table: Table, end: int) -> Sequence[Mapping[str, Any]]:
    """Return attempts that have read and not ended, if the range ends with the latest version."""
    if end != (table.version or 0):
        return []
    jobs = active_writers(table).filter(
        attempt_rows__outcome=JobAttempt.Outcome.RUNNING,
        attempt_rows__read_version__isnull=False,
    )
    rows = list(jobs.order_by("started_at").values(*_RUN)[:_RUNNING_SHOWN])
    scripts = [row["id"] for row in rows if row["kind"] == Script.kind]
    elsewhere = scripts_elsewhere(table, scripts) if scripts else frozenset()
    return [row for row in rows if row["id"] not in elsewhere]


def _properties_before(table: Table, end: int) -> Mapping[int, Properties]:
    """Return the earlier values of properties by the version that set them, as far as recorded."""
    setting: Iterable[tuple[int, object]] = (
        table.commits.filter(changes_metadata=True, version__lte=end)
        .order_by("-version")
        .values_list("version", "operation_parameters")[:_SETTINGS_LOOKED_AT]
    )
    before: dict[int, Properties] = {}
    properties: dict[str, str] = {}
    for version, parameters in reversed(list(setting)):
        before[version] = dict(properties)
        properties |= properties_of(parameters)
    return before


@dataclass(frozen=True, slots=True)
class NavigatorBucket:
    """A bucket of time from `start`: versions `first` to `last` landed; None without any."""

    start: datetime
    first: int | None
    last: int | None
    commits: int
    aborted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Navigator:
    """The last 24 hours if they include the shown versions, else all recorded time.

    A table younger than a day is shown since its first version, so that nothing stays blank.
    `passages` omits empty buckets. `is_capped`: more is recorded than the latest `MAX_VERSIONS`
    counted versions.
    """

    start: datetime
    end: datetime
    is_day: bool
    is_capped: bool
    passages: tuple[NavigatorBucket, ...]

    @property
    def width(self) -> timedelta:
        """The duration of a bucket."""
        return (self.end - self.start) / BUCKETS


def navigator(table: Table, began: datetime | None, now: datetime) -> Navigator | None:
    """Return the surroundings; `began` is the first shown version's time. None without times."""
    is_day = began is not None and began >= now - DAY
    commits = table.commits.filter(committed_at__isnull=False)
    commits = commits.filter(committed_at__gte=now - DAY) if is_day else commits
    rows = list(
        commits.order_by("-version").values_list("version", "committed_at")[
            : MAX_NAVIGATOR_VERSIONS + 1
        ]
    )
    moments = [
        (version, moment) for version, moment in rows[:MAX_NAVIGATOR_VERSIONS] if moment is not None
    ]
    if not moments:
        return None
    earliest = min(moment for _, moment in moments)
    is_young = moments[-1][0] <= (table.earliest_version or 0)
    start = (
        now - DAY if is_day and not is_young and len(rows) <= MAX_NAVIGATOR_VERSIONS else earliest
    )
    end = max(now if is_day else max(moment for _, moment in moments), start + _SHORTEST)
    aborted = table.conflicts.filter(occurred_at__range=(start, end)).exclude(
        kind=Conflict.Kind.RESOLVED
    )
    aborted_at = aborted.order_by("-occurred_at").values_list("occurred_at", flat=True)[
        :MAX_NAVIGATOR_VERSIONS
    ]
    return Navigator(
        start=start,
        end=end,
        is_day=is_day,
        is_capped=len(rows) > MAX_NAVIGATOR_VERSIONS,
        passages=tuple(_passages(moments, aborted_at, start, end)),
    )


def _passages(
    moments: Iterable[tuple[int, datetime]],
    aborted_at: Iterable[datetime],
    start: datetime,
    end: datetime,
) -> Iterable[NavigatorBucket]:
    width = (end - start) / BUCKETS
    landed: dict[int, list[int]] = defaultdict(list)
    aborted: dict[int, int] = defaultdict(int)
    for version, moment in moments:
        landed[_place(moment, start, width)].append(version)
    for moment in aborted_at:
        aborted[_place(moment, start, width)] += 1
    for place in sorted({*landed, *aborted}):
        inside = landed.get(place, [])
        first, last = (min(inside), max(inside)) if inside else (None, None)
        yield NavigatorBucket(
            start + place * width, first, last, len(inside), aborted.get(place, 0)
        )


def _place(moment: datetime, start: datetime, width: timedelta) -> int:
    return min(max((moment - start) // width, 0), BUCKETS - 1)


@dataclass(frozen=True, slots=True)
class OtherSetting:
    """One setting changed. `aborted` landed and would be aborted, `spared` the other way around.

    The record does not decide `undecidable` ones; `not_replayed` versions are not stored
    completely.
    """

    name: str
    level: str
    row_level: bool
    aborted: int
    spared: int
    undecidable: int
    not_replayed: int


def other_settings(table: Table, lane: SwimLane) -> tuple[OtherSetting, ...]:
    """Replay the record under the other isolation level, and at the other of row and file level."""
    level = level_of(None, table)
    rows = table.row_level_eligible
    strict = level is IsolationLevel.SERIALIZABLE
    other = IsolationLevel.WRITE_SERIALIZABLE if strict else IsolationLevel.SERIALIZABLE
    recorded = load_recorded_conflicts(table, lane.first, lane.last)
    by_level = _answer(table, lane, other, rows, recorded)
    by_rows = _answer(table, lane, level, not rows, recorded)
    return (
        _weigh_setting(str(other), by_level),
        _weigh_setting("No row-level" if rows else "Row level", by_rows),
    )


def _answer(
    table: Table, lane: SwimLane, level: IsolationLevel, by_rows: bool, recorded: RecordedConflicts
) -> WhatIfAnswer:
    return what_if(
        table,
        level,
        row_level=by_rows,
        versions=(lane.first, lane.last),
        history=lane.history,
        conflicts=recorded,
    )


def _weigh_setting(name: str, answer: WhatIfAnswer) -> OtherSetting:
    landed = [commit.verdict for commit in answer.commits]
    aborted = [
        conflict.verdict for conflict in answer.conflicts if conflict.kind != Conflict.Kind.RESOLVED
    ]
    return OtherSetting(
        name=name,
        level=answer.level,
        row_level=answer.row_level,
        aborted=landed.count(Verdict.CONFLICT),
        spared=aborted.count(Verdict.PASSES),
        undecidable=[*landed, *aborted].count(Verdict.UNDECIDABLE),
        not_replayed=len(answer.not_replayed),
    )
