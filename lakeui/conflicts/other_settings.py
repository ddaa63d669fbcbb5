"""What the neighbouring settings would have made of the versions shown: how many more would lose."""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.conflicts.isolation import IsolationLevel
from lakeui.catalog.models import Table
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.swim_lane import SwimLane
from lakeui.conflicts.what_if import Answer, Verdict, what_if

_ABSORBED = str(Conflict.Kind.ABSORBED)


@dataclass(frozen=True, slots=True)
class OtherSetting:
    """One setting changed. `lost` landed and would lose, `spared` lost and would pass.

    `undecidable` met others, and what is recorded does not tell whether they would still pass.
    """

    name: str
    level: str
    row_level: bool
    lost: int
    spared: int
    undecidable: int


def other_settings(table: Table, lane: SwimLane) -> tuple[OtherSetting, ...]:
    """The other level, and the other way to tell writes apart, by replay of what is recorded."""
    level = IsolationLevel(table.isolation_level or IsolationLevel.WRITE_SERIALIZABLE)
    rows = table.row_level_eligible
    strict = level is IsolationLevel.SERIALIZABLE
    other = IsolationLevel.WRITE_SERIALIZABLE if strict else IsolationLevel.SERIALIZABLE
    as_is = _landed(_answer(table, lane, level, row_level=rows), lane)
    by_level = _answer(table, lane, other, row_level=rows)
    by_rows = _answer(table, lane, level, row_level=not rows)
    return (
        _weighed(str(other), as_is, by_level, lane),
        _weighed("No row-level" if rows else "By rows", as_is, by_rows, lane),
    )


def _answer(table: Table, lane: SwimLane, level: IsolationLevel, *, row_level: bool) -> Answer:
    return what_if(
        table, level, row_level=row_level, versions=(lane.first, lane.last), history=lane.history
    )


def _weighed(
    name: str, before: Mapping[str, Verdict], other: Answer, lane: SwimLane
) -> OtherSetting:
    changed = {
        key: verdict
        for key, verdict in _landed(other, lane).items()
        if before.get(key) != Verdict.CONFLICT
    }
    spared = (each for each in other.conflicts if each.kind != _ABSORBED)
    return OtherSetting(
        name=name,
        level=other.level,
        row_level=other.row_level,
        lost=sum(verdict == Verdict.CONFLICT for verdict in changed.values()),
        spared=sum(each.verdict == Verdict.PASSES for each in spared),
        undecidable=sum(verdict == Verdict.UNDECIDABLE for verdict in changed.values()),
    )


def _landed(answer: Answer, lane: SwimLane) -> dict[str, Verdict]:
    """The verdict on each version that met others; an absorbed conflict is its version's."""
    versions = {joint.conflict_id: joint.version for joint in lane.joints}
    found = {f"v{each.version}": each.verdict for each in answer.commits if each.met}
    for each in answer.conflicts:
        if each.kind == _ABSORBED and versions.get(each.conflict_id) is not None:
            key = f"v{versions[each.conflict_id]}"
            loses = Verdict.CONFLICT in (each.verdict, found.get(key))
            found[key] = Verdict.CONFLICT if loses else found.get(key, each.verdict)
    return found
