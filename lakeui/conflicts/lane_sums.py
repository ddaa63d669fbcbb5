"""Thousands of transactions at a look: how many each writer landed and lost, by bucket of versions."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from lakeui.catalog.models import Table
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.swim_lane import NOT_RECORDED

MAX_VERSIONS = 5_000
BUCKETS = 40
_LANES = 20
OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Bucket:
    """Versions `first` to `last`: commits that landed there, attempts that lost to them."""

    first: int
    last: int
    commits: int
    lost: int


@dataclass(frozen=True, slots=True)
class Lane:
    """One writer, or one operation."""

    name: str
    commits: int
    lost: int
    buckets: tuple[Bucket, ...]


@dataclass(frozen=True, slots=True)
class LaneSums:
    """All lanes have the same buckets; `all` sums them. Lanes beyond the busiest are one."""

    first: int
    last: int
    lanes: tuple[Lane, ...]
    all: Lane


def lane_sums(table: Table, first: int, last: int, *, by_operation: bool = False) -> LaneSums:
    """Two queries, whatever the range; at most `MAX_VERSIONS` of it, the latest."""
    last = min(last, table.version or 0)
    first = max(first, last - MAX_VERSIONS + 1, 0)
    width = max(1, -(-(last - first + 1) // BUCKETS))
    landed = [
        (
            (operation if by_operation else user or engine) or NOT_RECORDED,
            (version - first) // width,
        )
        for version, user, engine, operation in table.commits.filter(
            version__range=(first, last)
        ).values_list("version", "user_name", "engine_info", "operation")
    ]
    escaped = table.conflicts.filter(winning_version__range=(first, last)).exclude(
        kind=Conflict.Kind.ABSORBED
    )
    lost = [
        ((operation if by_operation else user) or NOT_RECORDED, (version - first) // width)
        for version, user, operation in escaped.values_list(
            "winning_version", "current_user_name", "current_operation"
        )
        if version is not None
    ]
    spans = [(start, min(start + width - 1, last)) for start in range(first, last + 1, width)]
    names = _names([*landed, *lost])
    shown = {name: name for name in names}
    lanes = tuple(
        _lane(
            name,
            spans,
            Counter(place for lane, place in landed if shown.get(lane, OTHERS) == name),
            Counter(place for lane, place in lost if shown.get(lane, OTHERS) == name),
        )
        for name in [
            *names,
            *([OTHERS] if {lane for lane, _ in [*landed, *lost]} - {*names} else []),
        ]
    )
    together = _lane("all", spans, Counter(p for _, p in landed), Counter(p for _, p in lost))
    return LaneSums(first, last, lanes, together)


def _names(events: Iterable[tuple[str, int]]) -> list[str]:
    busiest = Counter(lane for lane, _ in events).most_common(_LANES)
    return sorted((name for name, _ in busiest), key=str.lower)


def _lane(
    name: str, spans: list[tuple[int, int]], landed: Counter[int], lost: Counter[int]
) -> Lane:
    buckets = tuple(
        Bucket(first, last, landed[place], lost[place]) for place, (first, last) in enumerate(spans)
    )
    return Lane(name, landed.total(), lost.total(), buckets)
