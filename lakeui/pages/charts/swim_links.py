"""What a swim-lane's bars stand between: losers to winners, absorbed conflicts, appends that take effect later."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from lakeui.conflicts.lanes.swim_lane import SwimLane
from lakeui.pages.charts.swim_axes import Axis, TimeAxis, VersionAxis
from lakeui.pages.charts.swim_shapes import Band, DrawnBar, Link, Swap


def joints(
    data: SwimLane, axis: Axis, ends: Mapping[str, DrawnBar]
) -> Iterable[tuple[float, int, str]]:
    """Where on a bar a conflict was absorbed: at its winner."""
    for joint in data.joints:
        bar, x = ends.get(f"v{joint.version}"), _winner_x(joint.winning_version, axis, ends)
        if bar is not None and x is not None and bar.x <= x <= bar.end_x:
            yield x, bar.y, f"absorbed v{joint.winning_version}: {joint.how}"


def joint_links(data: SwimLane, axis: Axis, ends: Mapping[str, DrawnBar]) -> Iterable[Link]:
    """From a bar to what it absorbed."""
    for joint in data.joints:
        bar, winner = ends.get(f"v{joint.version}"), ends.get(f"v{joint.winning_version}")
        x = _winner_x(joint.winning_version, axis, ends)
        if bar is None or winner is None or x is None or bar.y == winner.y:
            continue
        if bar.x <= x <= bar.end_x:
            yield Link(x, x, bar.y, winner.y, winner.y, points_down=winner.y > bar.y)


def lost_links(data: SwimLane, axis: Axis, ends: Mapping[str, DrawnBar]) -> Iterable[Link]:
    """From a loser to its winner."""
    for bar in data.bars:
        if not bar.is_lost or bar.winning_version is None:
            continue
        loser, winner = ends.get(bar.key), ends.get(f"v{bar.winning_version}")
        if loser is None or winner is None or loser.y == winner.y:
            continue
        down = winner.y > loser.y
        tip = winner.y - 7 if down else winner.y + 7
        x = winner.end_x if isinstance(axis, VersionAxis) else loser.end_x
        begin, end = loser.y + (8 if down else -8), tip - (5 if down else -5)
        yield Link(x, winner.end_x, begin, end, tip, points_down=down)


def bands(metadata: Mapping[int, datetime | None], axis: Axis) -> Iterable[Band]:
    """Where a version changed the metadata."""
    for version, moment in metadata.items():
        x = axis.of(version, moment)
        if x is not None:
            yield Band(x, version)


def _winner_x(version: int | None, axis: Axis, ends: Mapping[str, DrawnBar]) -> float | None:
    winner = ends.get(f"v{version}")
    if winner is not None:
        return winner.end_x
    return axis.of(version, None) if isinstance(axis, VersionAxis) else None


def swaps(data: SwimLane, axis: Axis) -> Iterable[Swap]:
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
