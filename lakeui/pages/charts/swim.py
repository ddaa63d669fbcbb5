"""The swim-lane: a bar each transaction, from the version it read to the one it became or lost to.

Positions across are in per cent, down in px. A lane holds as many tracks as its bars overlap; what
does not fit is counted, never left out silently.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lakeui.conflicts.swim_lane import Bar, SwimLane
from lakeui.pages.charts.swim_axes import Axis, Column, Running, TimeAxis, VersionAxis
from lakeui.pages.operations import FAMILIES, family_of

MAX_LANES = 14
MAX_TRACKS = 5
REST = "other writers"
_TOP, _LANE, _TRACK, _FIRST_TRACK = 40, 44, 24, 25
_ORDER = ("write", "merge", "update", "delete", "optimize", "vacuum", "meta", "other")


@dataclass(frozen=True, slots=True)
class DrawnBar:
    """`shape`: solid, blind, lost or running. `key` names it in the address and in the table."""

    key: str
    family: str
    shape: str
    x: float
    width: float
    y: int
    begins_before: bool
    is_estimated: bool
    label: str
    title: str
    end_x: float


@dataclass(frozen=True, slots=True)
class Lane:
    name: str
    family: str
    tracks: int
    y: int
    hidden: int


@dataclass(frozen=True, slots=True)
class Link:
    """A vertical line between two bars, at the winner's version."""

    x: float
    y1: int
    y2: int
    arrow_y: int
    points_down: bool
    title: str


@dataclass(frozen=True, slots=True)
class Swap:
    x1: float
    x2: float
    title: str


@dataclass(frozen=True, slots=True)
class SwimChart:
    lanes: tuple[Lane, ...]
    bars: tuple[DrawnBar, ...]
    joints: tuple[tuple[float, int, str], ...]
    lost_links: tuple[Link, ...]
    joint_links: tuple[Link, ...]
    columns: tuple[Column, ...]
    times: tuple[Column, ...]
    swaps: tuple[Swap, ...]
    now_x: float | None
    band_width: float
    height: int
    bottom: int
    hidden: int
    min_width_class: str


@dataclass(frozen=True, slots=True)
class _Placed:
    bar: Bar | Running
    key: str
    start: float
    end: float
    begins_before: bool
    is_estimated: bool


def draw_swim_lane(
    data: SwimLane,
    running: Sequence[Running],
    *,
    by_time: bool,
    by_operation: bool,
    now: datetime,
    metadata_versions: frozenset[int] = frozenset(),
) -> SwimChart:
    """Lay the bars out."""
    axis = TimeAxis(data, running, now) if by_time else VersionAxis(data, bool(running))
    placed = [_place(bar, axis, data) for bar in data.bars]
    placed += [_place_running(each, axis, data) for each in running]
    name = _by_operation if by_operation else _by_writer(placed)
    lanes, tracks, hidden = _lanes(placed, name)
    at = {each.name: each for each in lanes}
    drawn = [
        _drawn(each, at[name(each.bar)], tracks[each.key]) for each in placed if each.key in tracks
    ]
    ends = {each.key: each for each in drawn}
    bottom = lanes[-1].y + _lane_height(lanes[-1].tracks) if lanes else _TOP + _LANE
    return SwimChart(
        lanes=tuple(lanes),
        bars=tuple(drawn),
        joints=tuple(_joints(data, axis, ends)),
        lost_links=tuple(_lost_links(data, axis, ends)),
        joint_links=tuple(_joint_links(data, axis, ends)),
        columns=tuple(axis.columns(metadata_versions)),
        times=tuple(axis.times()),
        swaps=tuple(_swaps(data, axis)),
        now_x=axis.now_x,
        band_width=axis.step,
        height=bottom + 28,
        bottom=bottom,
        hidden=hidden,
        min_width_class="lanes-wide" if data.last - data.first > 40 else "",
    )


def bar_key(bar: Bar) -> str:
    """What names a transaction in an address: its version, or the conflict it ended in."""
    return f"v{bar.version}" if bar.version is not None else f"c-{bar.conflict_id}"


def _place(bar: Bar, axis: Axis, data: SwimLane) -> _Placed:
    version = bar.version if bar.version is not None else bar.winning_version
    end = axis.of(version, bar.finished_at)
    start = axis.of(bar.read_version, bar.started_at)
    guessed = start is None or (isinstance(axis, TimeAxis) and bar.started_is_estimated)
    finish = 100.0 if end is None else end
    begin = finish - axis.step if start is None else start
    before = begin < 0 or (bar.read_version is not None and bar.read_version < data.first - 1)
    return _Placed(bar, bar_key(bar), max(min(begin, finish), 0.0), finish, before, guessed)


def _place_running(each: Running, axis: Axis, data: SwimLane) -> _Placed:
    start = axis.of(each.read_version, each.started_at) or 0.0
    before = each.read_version < data.first - 1
    end = axis.now_x if axis.now_x is not None else 100.0
    return _Placed(each, f"j-{each.job_id}", max(start, 0.0), end, before, False)


def _by_operation(bar: Bar | Running) -> str:
    return bar.operation


def _by_writer(placed: Sequence[_Placed]) -> Callable[[Bar | Running], str]:
    """The writer; beyond the busiest, writers share one lane."""
    busy = Counter(each.bar.lane for each in placed)
    named = {lane for lane, _ in busy.most_common(MAX_LANES - 1)} if len(busy) > MAX_LANES else busy
    return lambda bar: bar.lane if bar.lane in named else REST


def _lanes(
    placed: Sequence[_Placed], name: Callable[[Bar | Running], str]
) -> tuple[list[Lane], dict[str, int], int]:
    inside: dict[str, list[_Placed]] = defaultdict(list)
    for each in placed:
        inside[name(each.bar)].append(each)
    families = {lane: _usual_family(bars) for lane, bars in inside.items()}
    order = sorted(inside, key=lambda lane: (lane == REST, _ORDER.index(families[lane]), lane))
    lanes: list[Lane] = []
    tracks: dict[str, int] = {}
    y, hidden = _TOP, 0
    for lane in order:
        given, left_over = _tracks(inside[lane])
        tracks |= given
        hidden += left_over
        count = max(given.values(), default=0) + 1
        lanes.append(Lane(lane, families[lane], count, y, left_over))
        y += _lane_height(count)
    return lanes, tracks, hidden


def _tracks(bars: Iterable[_Placed]) -> tuple[dict[str, int], int]:
    """The first track that is free where a bar begins; those that find none are counted."""
    free: list[float] = []
    given: dict[str, int] = {}
    hidden = 0
    for each in sorted(bars, key=lambda bar: (bar.start, bar.end)):
        place = next((i for i, end in enumerate(free) if end <= each.start + 0.01), None)
        if place is None and len(free) < MAX_TRACKS:
            free.append(0.0)
            place = len(free) - 1
        if place is None:
            hidden += 1
            continue
        free[place] = each.end
        given[each.key] = place
    return given, hidden


def _lane_height(tracks: int) -> int:
    return _LANE + _TRACK * (tracks - 1)


def _usual_family(bars: Iterable[_Placed]) -> str:
    return Counter(family_of(each.bar.operation) for each in bars).most_common(1)[0][0]


def _drawn(each: _Placed, lane: Lane, track: int) -> DrawnBar:
    bar = each.bar
    if isinstance(bar, Running):
        shape, label = "running", "" if bar.percent is None else f"{bar.percent} %"
        title = f"{bar.operation} by {bar.lane}, read v{bar.read_version}, running"
    else:
        lost = bar.outcome != "committed"
        shape = "lost" if lost else "blind" if bar.is_blind_append else "solid"
        label = ""
        read = f"read v{bar.read_version}" if bar.read_version is not None else "read not recorded"
        end = f"lost to v{bar.winning_version}" if lost else f"became v{bar.version}"
        title = f"{bar.operation} by {bar.lane}, {read}, {end}"
    family = family_of(bar.operation)
    return DrawnBar(
        each.key,
        family if family in FAMILIES else "other",
        shape,
        each.start,
        max(each.end - each.start, 0.4),
        lane.y + _FIRST_TRACK + _TRACK * track,
        each.begins_before,
        each.is_estimated,
        label,
        title,
        each.end,
    )


def _joints(
    data: SwimLane, axis: Axis, ends: Mapping[str, DrawnBar]
) -> Iterable[tuple[float, int, str]]:
    for joint in data.joints:
        bar, x = ends.get(f"v{joint.version}"), _winner_x(joint.winning_version, axis, ends)
        if bar is not None and x is not None and bar.x <= x <= bar.end_x:
            yield x, bar.y, f"c-{joint.conflict_id}: v{joint.winning_version} was absorbed"


def _joint_links(data: SwimLane, axis: Axis, ends: Mapping[str, DrawnBar]) -> Iterable[Link]:
    for joint in data.joints:
        bar, winner = ends.get(f"v{joint.version}"), ends.get(f"v{joint.winning_version}")
        x = _winner_x(joint.winning_version, axis, ends)
        if bar is not None and winner is not None and x is not None and bar.y != winner.y:
            yield Link(x, bar.y, winner.y, winner.y, winner.y > bar.y, "")


def _lost_links(data: SwimLane, axis: Axis, ends: Mapping[str, DrawnBar]) -> Iterable[Link]:
    for bar in data.bars:
        if bar.outcome == "committed" or bar.winning_version is None:
            continue
        loser, winner = ends.get(f"c-{bar.conflict_id}"), ends.get(f"v{bar.winning_version}")
        if loser is None or winner is None or loser.y == winner.y:
            continue
        down = winner.y > loser.y
        tip = winner.y - 7 if down else winner.y + 7
        x = winner.end_x if isinstance(axis, VersionAxis) else loser.end_x
        yield Link(x, loser.y + (8 if down else -8), tip - (5 if down else -5), tip, down, "")


def _winner_x(version: int | None, axis: Axis, ends: Mapping[str, DrawnBar]) -> float | None:
    winner = ends.get(f"v{version}")
    if winner is not None:
        return winner.end_x
    return axis.of(version, None) if isinstance(axis, VersionAxis) else None


def _swaps(data: SwimLane, axis: Axis) -> Iterable[Swap]:
    """Only across versions: an order is shown there, not a span."""
    if isinstance(axis, TimeAxis):
        return
    for pair in data.reordered:
        x1, x2 = axis.of(pair.version, None), axis.of(pair.later, None)
        if x1 is not None and x2 is not None:
            text = (
                f"v{pair.version} takes effect after v{pair.later}: a blind append it did not see"
            )
            yield Swap(x1, x2 + min(axis.step * 0.35, 2), text)
