"""Filters of a swim-lane's transactions: outcome, writer, operation, partition."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from django.db.models import Q
from django.db.models.fields.json import KeyTransform

from lakeui.catalog.models import CommitFile, Table
from lakeui.conflicts.lanes.bars import BarEnd, LaneBar
from lakeui.conflicts.lanes.swim_lane import SwimLane

NULL = "null"


class LaneOutcome(StrEnum):
    """Outcomes to filter a swim-lane by."""

    ABORTED = "aborted"
    RESOLVED = "resolved"
    RUNNING = "running"
    COMMITTED = "committed"


@dataclass(frozen=True, slots=True)
class LaneFilter:
    """Empty is any. `partition` is column=value, or several joined by "/" as in a path."""

    outcome: str = ""
    writer: str = ""
    operation: str = ""
    partition: str = ""

    @property
    def is_any(self) -> bool:
        return not (self.outcome or self.writer or self.operation or self.partition)


@dataclass(frozen=True, slots=True)
class Counts:
    """How many of the transactions ended how; `resolved` are among the committed."""

    all: int
    committed: int
    aborted: int
    resolved: int
    running: int
    wasted_ms: int
    wasted_bytes: int


def filter_lane(table: Table, lane: SwimLane, by: LaneFilter) -> tuple[SwimLane, Counts]:
    """Filter a swim-lane; the counts include all outcomes that match the other filters."""
    touching = (
        find_touching_versions(table, lane, by.partition) if by.partition else frozenset[int]()
    )
    others = [bar for bar in lane.all if _fits(bar, by, touching)]
    kept = [bar for bar in others if _has_outcome(bar, by.outcome)]
    return _only(lane, kept), count_bars(others)


def count_bars(bars: Iterable[LaneBar]) -> Counts:
    """Count transactions by outcome, and the waste of aborted ones."""
    given = list(bars)
    return Counts(
        all=len(given),
        committed=sum(bar.outcome is BarEnd.COMMITTED for bar in given),
        aborted=sum(bar.is_aborted for bar in given),
        resolved=sum(bool(bar.resolved) for bar in given),
        running=sum(bar.outcome is BarEnd.RUNNING for bar in given),
        wasted_ms=sum(bar.wasted_ms for bar in given),
        wasted_bytes=sum(bar.wasted_bytes for bar in given),
    )


def find_touching_versions(table: Table, lane: SwimLane, partition: str) -> frozenset[int]:
    """Return versions that added or removed a mirrored file in the partition."""
    files = CommitFile.objects.filter(
        commit__table=table, commit__version__range=(lane.first, lane.last)
    )
    for number, part in enumerate(partition.split("/")):
        column, _, value = part.partition("=")
        if column not in table.partition_columns:
            return frozenset()
        name = f"part_{number}"
        files = files.alias(**{name: KeyTransform(_physical(table, column), "partition_values")})
        files = files.filter(Q(**{name: None if value == NULL else value}))
    return frozenset(files.order_by().values_list("commit__version", flat=True).distinct())


def _physical(table: Table, column: str) -> str:
    """Return a column's name in the log: another one under column mapping."""
    for column_field in table.schema.get("fields", ()) if isinstance(table.schema, dict) else ():
        if column_field.get("name") == column:
            metadata = column_field.get("metadata") or {}
            return str(metadata.get("delta.columnMapping.physicalName", column))
    return column


def _fits(bar: LaneBar, by: LaneFilter, touching: frozenset[int]) -> bool:
    if by.writer and bar.lane != by.writer:
        return False
    if by.operation and bar.operation != by.operation:
        return False
    return not by.partition or bar.version in touching or _names(bar, by.partition)


def _names(bar: LaneBar, partition: str) -> bool:
    parts = set(partition.split("/"))
    return any(parts <= set(written.split("/")) for written in bar.partitions)


def _has_outcome(bar: LaneBar, outcome: str) -> bool:
    match outcome:
        case "":
            return True
        case LaneOutcome.ABORTED:
            return bar.is_aborted
        case LaneOutcome.RESOLVED:
            return bool(bar.resolved)
        case _:
            return bar.outcome == outcome


def _only(lane: SwimLane, kept: list[LaneBar]) -> SwimLane:
    versions = {bar.version for bar in kept if bar.version is not None}
    ended = tuple(bar for bar in kept if bar.outcome is not BarEnd.RUNNING)
    return replace(
        lane,
        lanes=tuple(sorted({bar.lane for bar in kept})),
        bars=ended,
        running=tuple(bar for bar in kept if bar.outcome is BarEnd.RUNNING),
        joints=tuple(joint for joint in lane.joints if joint.version in versions),
        reordered=tuple(pair for pair in lane.reordered if pair.version in versions),
    )
