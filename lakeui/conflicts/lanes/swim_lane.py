"""Who wrote when, from read version to commit: the data of the concurrency swim-lane.

Logs do not record when a transaction began. Where a job of ours or a pipeline told it, it is exact;
else it is taken as the moment its read version was committed, the earliest it can have been, and marked so.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.db.models import Q, TextField, Value
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import NullIf

from engine.commands.model import Script
from engine.conflicts.replay_history import PassedOver
from lakeui.catalog.models import Table
from lakeui.conflicts.lanes.bars import (
    BarSurroundings,
    LaneBar,
    ResolvedLink,
    build_aborted_bar,
    build_commit_bar,
    build_running_bar,
    pipelines_of,
)
from lakeui.conflicts.lanes.committed_versions import load_versions_around
from lakeui.conflicts.lanes.words import Properties, describe_resolution, properties_of
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.replay.recorded_history import (
    History,
    find_out_of_order,
    load_recorded_history,
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
