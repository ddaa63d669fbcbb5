"""Who wrote when, from read version to commit: the data of the concurrency swim-lane.

Logs do not record when a transaction began. Where a job of ours knows it, it is exact; else it is
taken as the moment its read version was committed, the earliest it can have been, and marked so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import Q

from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.what_if import unexplained

DEFAULT_VERSIONS = 100
MAX_VERSIONS = 500
NOT_RECORDED = "not recorded"
_NOT_YET = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A transaction. `outcome`: committed, escaped or reported; the last two lost to a version."""

    lane: str
    operation: str
    outcome: str
    version: int | None
    read_version: int | None
    started_at: datetime | None
    started_is_estimated: bool
    finished_at: datetime | None
    isolation_level: str
    is_blind_append: bool | None
    conflict_id: int | None = None
    winning_version: int | None = None
    job_id: str | None = None


@dataclass(frozen=True, slots=True)
class Joint:
    """A conflict that was absorbed: both versions landed."""

    conflict_id: int
    version: int | None
    winning_version: int | None
    rule: str


@dataclass(frozen=True, slots=True)
class Reordered:
    """`version`, a blind append, is ordered after `later`, which should have read it and did not.

    So readers of the versions from `version` up to before `later` saw what no serial order explains.
    """

    version: int
    later: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SwimLane:
    """Versions `first` to `last`; bars in the order in which they ended."""

    first: int
    last: int
    lanes: tuple[str, ...]
    bars: tuple[Bar, ...]
    joints: tuple[Joint, ...]
    reordered: tuple[Reordered, ...]


def swim_lane(table: Table, first: int | None = None, last: int | None = None) -> SwimLane:
    """The transactions of a range of versions, the latest hundred by default, 500 at most."""
    end = min(last if last is not None else (table.version or 0), table.version or 0)
    start = max(first if first is not None else end - DEFAULT_VERSIONS + 1, 0)
    start = max(start, end - MAX_VERSIONS + 1)
    within = Q(version__range=(start, end))
    commits = list(table.commits.filter(within).defer("raw").order_by("version"))
    moments = _moments(table, commits)
    jobs = _jobs(table, start, end)
    met = list(
        table.conflicts.filter(winning_version__range=(start, end))
        .select_related("job")
        .defer("facts")
        .order_by("occurred_at", "id")
    )
    bars = [_landed(commit, moments, jobs) for commit in commits]
    bars += [_lost(each, moments) for each in met if each.kind != Conflict.Kind.ABSORBED]
    bars.sort(key=lambda bar: bar.finished_at or _NOT_YET)
    return SwimLane(
        first=start,
        last=end,
        lanes=tuple(sorted({bar.lane for bar in bars})),
        bars=tuple(bars),
        joints=tuple(_joint(each) for each in met if each.kind == Conflict.Kind.ABSORBED),
        reordered=tuple(
            Reordered(each.append_version, each.later_version)
            for each in unexplained(table, start, end)
        ),
    )


def _moments(table: Table, commits: Sequence[Commit]) -> Mapping[int, datetime | None]:
    """When each version was committed, those that were only read included."""
    read = {commit.read_version for commit in commits if commit.read_version is not None}
    versions = read | {commit.version for commit in commits}
    rows = table.commits.filter(version__in=versions).values_list("version", "committed_at")
    return dict(rows)


def _jobs(table: Table, start: int, end: int) -> Mapping[int, tuple[str, datetime | None]]:
    """Which job of ours committed a version, and when its last attempt began."""
    landed = Q(committed_version__range=(start, end), attempt_rows__outcome="committed")
    rows = table.jobs.filter(landed).values_list(
        "committed_version", "id", "attempt_rows__started_at"
    )
    return {version: (str(job_id), began) for version, job_id, began in rows if version is not None}


def _landed(
    commit: Commit,
    moments: Mapping[int, datetime | None],
    jobs: Mapping[int, tuple[str, datetime | None]],
) -> Bar:
    job_id, began = jobs.get(commit.version, (None, None))
    read_at = moments.get(commit.read_version) if commit.read_version is not None else None
    return Bar(
        lane=commit.user_name or commit.engine_info or NOT_RECORDED,
        operation=commit.operation or NOT_RECORDED,
        outcome="committed",
        version=commit.version,
        read_version=commit.read_version,
        started_at=began or read_at or commit.committed_at,
        started_is_estimated=began is None,
        finished_at=commit.committed_at,
        isolation_level=commit.isolation_level,
        is_blind_append=commit.is_blind_append,
        job_id=job_id,
    )


def _lost(conflict: Conflict, moments: Mapping[int, datetime | None]) -> Bar:
    began = conflict.job.started_at if conflict.job and conflict.attempt == 1 else None
    read_at = moments.get(conflict.read_version) if conflict.read_version is not None else None
    return Bar(
        lane=conflict.current_user_name or NOT_RECORDED,
        operation=conflict.current_operation or NOT_RECORDED,
        outcome=conflict.kind,
        version=None,
        read_version=conflict.read_version,
        started_at=began or read_at or conflict.occurred_at,
        started_is_estimated=began is None,
        finished_at=conflict.occurred_at,
        isolation_level=conflict.isolation_level,
        is_blind_append=None,
        conflict_id=conflict.pk,
        winning_version=conflict.winning_version,
        job_id=str(conflict.job_id) if conflict.job_id else None,
    )


def _joint(conflict: Conflict) -> Joint:
    version = conflict.job.committed_version if conflict.job else None
    return Joint(conflict.pk, version, conflict.winning_version, conflict.rule)
