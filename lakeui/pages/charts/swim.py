"""The swim-lane: a bar per transaction, from its read version to its own or its winning version.

Positions across are in per cent, down in px. A lane holds as many tracks as its bars overlap; bars
that do not fit are counted, never left out silently.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType

from engine.vocabulary import Family
from lakeui.conflicts.lanes.bars import NOT_RECORDED, BarEnd, LaneBar, engine_name
from lakeui.conflicts.lanes.swim_lane import SwimLane
from lakeui.pages.charts.swim_shapes import (
    AbortLink,
    Axis,
    DrawnBar,
    DrawnLane,
    MetadataBand,
    OrderSwap,
    SwimChart,
    TimeAxis,
    VersionAxis,
    labels_for,
)
from lakeui.pages.operations import family_of

MAX_LANES = 14
MAX_TRACKS = 5
REST = "other writers"
_TOP, _LANE, _TRACK, _FIRST_TRACK = 40, 44, 28, 27
_WIDE, _MIN_WIDTH, _WIDE_WIDTH = 40, 900, 2200
_ORDER = tuple(Family)


@dataclass(frozen=True, slots=True)
class _Placed:
    bar: LaneBar
    start: float
    end: float
    begins_before: bool
    is_estimated: bool

    @property
    def key(self) -> str:
        return self.bar.key


def draw_swim_lane(
    data: SwimLane,
    *,
    by_time: bool,
    by_operation: bool,
    now: datetime,
    metadata: Mapping[int, datetime | None] = MappingProxyType({}),
) -> SwimChart:
    """Lay the bars out. `metadata` maps versions that changed it, drawn or not, to times."""
    axis: Axis = TimeAxis(data, now) if by_time else VersionAxis(data)
    placed = [_place(bar, axis, data) for bar in data.bars]
    placed += [_place_running(running, axis, data) for running in data.running]
    name = _operation_lane if by_operation else _choose_writer_lanes(placed)
    lanes, tracks, hidden = _lanes(placed, name, data, by_operation=by_operation)
    at = {lane.name: lane for lane in lanes}
    drawn = [
        _draw_bar(placed_bar, at[name(placed_bar.bar)], tracks[placed_bar.key])
        for placed_bar in placed
        if placed_bar.key in tracks
    ]
    is_wide = data.last - data.first > _WIDE
    drawn = _add_labels(drawn, _WIDE_WIDTH if is_wide else _MIN_WIDTH)
    ends = {drawn_bar.key: drawn_bar for drawn_bar in drawn}
    bottom = lanes[-1].y + _lane_height(lanes[-1].tracks) if lanes else _TOP + _LANE
    return SwimChart(
        lanes=tuple(lanes),
        bars=tuple(drawn),
        joints=tuple(joints(data, axis, ends)),
        aborted_links=tuple(draw_aborted_links(data, axis, ends)),
        joint_links=tuple(joint_links(data, axis, ends)),
        columns=tuple(axis.columns(frozenset(metadata))),
        bands=tuple(bands(metadata, axis)),
        times=tuple(axis.times()),
        swaps=tuple(swaps(data, axis)),
        now_x=axis.now_x,
        band_width=axis.step,
        height=bottom + 28,
        bottom=bottom,
        hidden=hidden,
        min_width_class="lanes-wide" if is_wide else "",
    )


def _place(bar: LaneBar, axis: Axis, data: SwimLane) -> _Placed:
    version = bar.version if bar.version is not None else bar.winning_version
    end = axis.position_of(version, bar.finished_at)
    start = axis.position_of(bar.read_version, bar.started_at)
    guessed = start is None or (isinstance(axis, TimeAxis) and bar.started_is_estimated)
    finish = 100.0 if end is None else end
    begin = finish - axis.step if start is None else start
    before = begin < 0 or (bar.read_version is not None and bar.read_version < data.first - 1)
    return _Placed(bar, max(min(begin, finish), 0.0), finish, before, guessed)


def _place_running(bar: LaneBar, axis: Axis, data: SwimLane) -> _Placed:
    start = axis.position_of(bar.read_version, bar.started_at) or 0.0
    before = bar.read_version is not None and bar.read_version < data.first - 1
    end = axis.now_x if axis.now_x is not None else 100.0
    return _Placed(bar, max(start, 0.0), end, before, False)


def _operation_lane(bar: LaneBar) -> str:
    return bar.operation


def _choose_writer_lanes(placed: Sequence[_Placed]) -> Callable[[LaneBar], str]:
    """Return a function from a bar to its writer; beyond the busiest, writers share one lane."""
    busy = Counter(placed_bar.bar.lane for placed_bar in placed)
    named = {lane for lane, _ in busy.most_common(MAX_LANES - 1)} if len(busy) > MAX_LANES else busy
    return lambda bar: bar.lane if bar.lane in named else REST


def _lanes(
    placed: Sequence[_Placed], name: Callable[[LaneBar], str], data: SwimLane, *, by_operation: bool
) -> tuple[list[DrawnLane], dict[str, int], int]:
    inside: dict[str, list[_Placed]] = defaultdict(list)
    for bar in placed:
        inside[name(bar.bar)].append(bar)
    families = {lane: _usual_family(bars) for lane, bars in inside.items()}
    order = sorted(
        inside,
        key=lambda lane: (lane == REST, _ORDER.index(families[lane]), -len(inside[lane]), lane),
    )
    lanes: list[DrawnLane] = []
    tracks: dict[str, int] = {}
    y, hidden = _TOP, 0
    for lane in order:
        given, left_over = _tracks(inside[lane])
        tracks |= given
        hidden += left_over
        count = max(given.values(), default=0) + 1
        under = _writers(inside[lane]) if by_operation else _engines(lane, data)
        asks = "" if lane == REST else lane
        lanes.append(DrawnLane(lane, families[lane], count, y, left_over, under, asks))
        y += _lane_height(count)
    return lanes, tracks, hidden


def _tracks(bars: Iterable[_Placed]) -> tuple[dict[str, int], int]:
    """Assign each bar the first track that is free at its start; count the others."""
    free: list[float] = []
    given: dict[str, int] = {}
    hidden = 0
    for placed_bar in sorted(bars, key=lambda bar: (bar.start, bar.end)):
        place = next((i for i, end in enumerate(free) if end <= placed_bar.start + 0.01), None)
        if place is None and len(free) < MAX_TRACKS:
            free.append(0.0)
            place = len(free) - 1
        if place is None:
            hidden += 1
            continue
        free[place] = placed_bar.end
        given[placed_bar.key] = place
    return given, hidden


def _lane_height(tracks: int) -> int:
    return _LANE + _TRACK * (tracks - 1)


def _usual_family(bars: Iterable[_Placed]) -> Family:
    return Counter(family_of(bar.bar.operation) for bar in bars).most_common(1)[0][0]


def _engines(lane: str, data: SwimLane) -> str:
    """Return the engines of a writer's commits."""
    engines = data.engines.get(lane, frozenset())
    if lane in engines:
        return "writer not recorded"
    names = sorted({engine_name(engine) for engine in engines})
    return ", ".join(names) or f"engine {NOT_RECORDED}"


def _writers(bars: Iterable[_Placed]) -> str:
    names = sorted({bar.bar.lane for bar in bars})
    return names[0] if len(names) == 1 else f"{len(names)} writers"


def _draw_bar(placed: _Placed, lane: DrawnLane, track: int) -> DrawnBar:
    bar, family = placed.bar, family_of(placed.bar.operation)
    return DrawnBar(
        key=placed.key,
        family=family,
        shape=_shape(bar),
        x=placed.start,
        width=max(placed.end - placed.start, 0.4),
        y=lane.y + _FIRST_TRACK + _TRACK * track,
        begins_before=placed.begins_before,
        is_estimated=placed.is_estimated,
        text=_bar_text(bar),
        title=_title(bar),
        end_x=placed.end,
    )


def _shape(bar: LaneBar) -> str:
    if bar.outcome is BarEnd.RUNNING:
        return "running"
    return "lost" if bar.is_aborted else "blind" if bar.is_blind_append else "solid"


def _bar_text(bar: LaneBar) -> str:
    if bar.outcome is BarEnd.RUNNING:
        return "" if bar.percent is None else f"{bar.percent} %"
    return "start not recorded" if bar.read_version is None else bar.said


def _title(bar: LaneBar) -> str:
    """Return a bar's tooltip."""
    ended = {BarEnd.RUNNING: "running", BarEnd.COMMITTED: f"became v{bar.version}"}
    end = ended.get(bar.outcome, f"aborted by v{bar.winning_version}")
    read = f"v{bar.read_version}" if bar.read_version is not None else NOT_RECORDED
    words = f"{bar.operation} by {bar.lane}, read {read}, {end}"
    return f"{words}: {bar.said}" if bar.said else words


def _add_labels(drawn: Iterable[DrawnBar], width: int) -> list[DrawnBar]:
    """Add labels to each track from left to right; a label without room is left to the title."""
    tracks: dict[int, list[DrawnBar]] = defaultdict(list)
    for bar in drawn:
        tracks[bar.y].append(bar)
    done: list[DrawnBar] = []
    for bars in tracks.values():
        bars.sort(key=lambda bar: bar.x)
        labels = labels_for([(bar.x, bar.end_x, bar.text) for bar in bars], width)
        done += [replace(bar, label=label) for bar, label in zip(bars, labels, strict=True)]
    return done


def joints(
    data: SwimLane, axis: Axis, ends: Mapping[str, DrawnBar]
) -> Iterable[tuple[float, int, str]]:
    """Yield the points on bars of resolved conflicts: at their winning commits."""
    for joint in data.joints:
        bar, x = ends.get(f"v{joint.version}"), _winner_x(joint.winning_version, axis, ends)
        if bar is not None and x is not None and bar.x <= x <= bar.end_x:
            yield x, bar.y, f"resolved v{joint.winning_version}: {joint.how}"


def joint_links(data: SwimLane, axis: Axis, ends: Mapping[str, DrawnBar]) -> Iterable[AbortLink]:
    """Yield links from a bar to its resolved conflicts."""
    for joint in data.joints:
        bar, winner = ends.get(f"v{joint.version}"), ends.get(f"v{joint.winning_version}")
        x = _winner_x(joint.winning_version, axis, ends)
        if bar is None or winner is None or x is None or bar.y == winner.y:
            continue
        if bar.x <= x <= bar.end_x:
            yield AbortLink(x, x, bar.y, winner.y, winner.y, points_down=winner.y > bar.y)


def draw_aborted_links(
    data: SwimLane, axis: Axis, ends: Mapping[str, DrawnBar]
) -> Iterable[AbortLink]:
    """Draw a link from each aborted transaction to its winning commit."""
    for bar in data.bars:
        if not bar.is_aborted or bar.winning_version is None:
            continue
        aborted, winner = ends.get(bar.key), ends.get(f"v{bar.winning_version}")
        if aborted is None or winner is None or aborted.y == winner.y:
            continue
        down = winner.y > aborted.y
        tip = winner.y - 7 if down else winner.y + 7
        x = winner.end_x if isinstance(axis, VersionAxis) else aborted.end_x
        begin, end = aborted.y + (8 if down else -8), tip - (5 if down else -5)
        yield AbortLink(x, winner.end_x, begin, end, tip, points_down=down)


def bands(metadata: Mapping[int, datetime | None], axis: Axis) -> Iterable[MetadataBand]:
    """Yield the versions that changed the metadata."""
    for version, moment in metadata.items():
        x = axis.position_of(version, moment)
        if x is not None:
            yield MetadataBand(x, version)


def _winner_x(version: int | None, axis: Axis, ends: Mapping[str, DrawnBar]) -> float | None:
    winner = ends.get(f"v{version}")
    if winner is not None:
        return winner.end_x
    return axis.position_of(version, None) if isinstance(axis, VersionAxis) else None


def swaps(data: SwimLane, axis: Axis) -> Iterable[OrderSwap]:
    """Yield swaps, by version only: they show an order, not a span."""
    if isinstance(axis, TimeAxis):
        return
    for pair in data.reordered:
        x1, x2 = axis.position_of(pair.version, None), axis.position_of(pair.later, None)
        if x1 is not None and x2 is not None:
            text = (
                f"v{pair.version}, a blind append, takes effect after v{pair.later}, which did "
                "not see it"
            )
            yield OrderSwap(x1, x2 + min(axis.step * 0.35, 2), text)
