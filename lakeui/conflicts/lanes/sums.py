"""How many transactions of each writer landed and were aborted, by bucket of versions."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import F

from lakeui.catalog.models import Table
from lakeui.conflicts.lanes.bars import NOT_RECORDED, pipelines_of, writer_of
from lakeui.conflicts.lanes.narrowing import LaneFilter
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.version_effects import conflicts_of

MAX_VERSIONS = 5_000
BUCKETS = 40
_LANES = 20
OTHERS = "others"
_ANY = LaneFilter()


@dataclass(frozen=True, slots=True)
class LaneBucket:
    """Versions `first` to `last`: the commits in them, and the attempts aborted by them.

    `began_at` is when the first of them landed, None if it is not recorded.
    """

    first: int
    last: int
    commits: int
    aborted: int
    began_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SummedLane:
    """One writer, or one operation. `operation` is its most frequent one."""

    name: str
    commits: int
    aborted: int
    buckets: tuple[LaneBucket, ...]
    operation: str = ""


@dataclass(frozen=True, slots=True)
class LaneSums:
    """All lanes have the same buckets; `all` sums them. Lanes beyond the busiest are one.

    `began_at` and `ended_at` are when the first and the last version landed.
    """

    first: int
    last: int
    lanes: tuple[SummedLane, ...]
    all: SummedLane
    wasted_ms: int = 0
    wasted_bytes: int = 0
    began_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def took(self) -> timedelta | None:
        """From the first of the versions to the last, where both times are recorded."""
        return self.ended_at - self.began_at if self.began_at and self.ended_at else None


@dataclass(frozen=True, slots=True)
class _Event:
    """A transaction's end in a bucket."""

    writer: str
    operation: str
    place: int
    is_aborted: bool
    wasted_ms: int = 0
    wasted_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Grid:
    """Buckets of `width` versions each, and the start of each."""

    first: int
    last: int
    width: int
    moments: Mapping[int, datetime | None]

    @property
    def starts(self) -> range:
        return range(self.first, self.last + 1, self.width)

    def place(self, version: int) -> int:
        """Return the bucket of a version."""
        return (version - self.first) // self.width


def lane_sums(
    table: Table, first: int, last: int, *, by_operation: bool = False, only: LaneFilter = _ANY
) -> LaneSums:
    """Return the sums in four queries for any range; at most its latest `MAX_VERSIONS` versions.

    `only` filters by its writer and operation; outcome and partition do not apply to sums.
    """
    last = min(last, table.version or 0)
    first = max(first, last - MAX_VERSIONS + 1, 0)
    width = max(1, -(-(last - first + 1) // BUCKETS))
    starts = range(first, last + 1, width)
    marks = table.commits.filter(version__in=[*starts, last])
    grid = _Grid(first, last, width, dict(marks.values_list("version", "committed_at")))
    events = [
        e
        for e in (*_iter_commit_events(table, grid), *_iter_aborted_events(table, grid))
        if _is_asked_for(e, only)
    ]
    inside = _group_by_lane(events, by_operation=by_operation)
    return LaneSums(
        first=first,
        last=last,
        lanes=tuple(_lane(name, of_lane, grid) for name, of_lane in inside.items()),
        all=_lane("all", events, grid),
        wasted_ms=sum(event.wasted_ms for event in events),
        wasted_bytes=sum(event.wasted_bytes for event in events),
        began_at=grid.moments.get(first),
        ended_at=grid.moments.get(last),
    )


def _iter_commit_events(table: Table, grid: _Grid) -> Iterator[_Event]:
    rows = table.commits.filter(version__range=(grid.first, grid.last)).order_by()
    reported = pipelines_of(table, grid.first, grid.last)
    for version, user, engine, operation in rows.values_list(
        "version", "user_name", "engine_info", "operation"
    ):
        writer = writer_of(user, engine, reported.get(version))
        yield _Event(writer, operation or NOT_RECORDED, grid.place(version), is_aborted=False)


def _iter_aborted_events(table: Table, grid: _Grid) -> Iterator[_Event]:
    of_these = conflicts_of(table).filter(winning_version__range=(grid.first, grid.last))
    aborted = of_these.exclude(kind=Conflict.Kind.RESOLVED)
    for version, user, operation, ms, size in aborted.order_by().values_list(
        F("winning_version"), "current_user_name", "current_operation", "wasted_ms", "wasted_bytes"
    ):
        place = grid.place(version)
        yield _Event(user or NOT_RECORDED, operation or NOT_RECORDED, place, True, ms, size)


def _is_asked_for(event: _Event, only: LaneFilter) -> bool:
    return only.writer in ("", event.writer) and only.operation in ("", event.operation)


def _group_by_lane(
    events: Sequence[_Event], *, by_operation: bool
) -> Mapping[str, Sequence[_Event]]:
    """Events by lane, in the order of their names; those beyond the busiest together, last."""
    names = [event.operation if by_operation else event.writer for event in events]
    busiest = [name for name, _ in Counter(names).most_common(_LANES)]
    inside: dict[str, list[_Event]] = {name: [] for name in sorted(busiest, key=str.lower)}
    for name, event in zip(names, events, strict=True):
        inside.setdefault(name if name in inside else OTHERS, []).append(event)
    return inside


def _lane(name: str, events: Sequence[_Event], grid: _Grid) -> SummedLane:
    landed = Counter(event.place for event in events if not event.is_aborted)
    aborted = Counter(event.place for event in events if event.is_aborted)
    usual = Counter(event.operation for event in events).most_common(1)
    buckets = tuple(
        LaneBucket(
            first=start,
            last=min(start + grid.width - 1, grid.last),
            commits=landed[place],
            aborted=aborted[place],
            began_at=grid.moments.get(start),
        )
        for place, start in enumerate(grid.starts)
    )
    return SummedLane(name, landed.total(), aborted.total(), buckets, usual[0][0] if usual else "")
