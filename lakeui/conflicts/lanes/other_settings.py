"""The shown versions under neighbouring settings: how many more writes would be aborted."""

from dataclasses import dataclass

from engine.conflict_facts import Verdict
from engine.conflicts.isolation import IsolationLevel
from lakeui.catalog.models import Table
from lakeui.conflicts.assessment import level_of
from lakeui.conflicts.lanes.swim_lane import SwimLane
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.replay.what_if import (
    RecordedConflicts,
    WhatIfAnswer,
    load_recorded_conflicts,
    what_if,
)


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
