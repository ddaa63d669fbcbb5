"""The conditions of row-level concurrency that writes meet or not: those of 30 days with overlaps."""

import re
from collections.abc import Sequence

from lakeui.catalog.models import Table
from lakeui.conflicts.eligibility.lines import HOLDS, SOME, UNKNOWN, ConditionLine
from lakeui.conflicts.recent_writes import ConditionUse, RecentWrites
from lakeui.conflicts.statements.clients import THIS_ENGINE
from lakeui.conflicts.statements.conditions import SUBQUERY

_OBSTACLES = (
    ("no subquery in the condition", SUBQUERY),
    ("deterministic conditions", "its condition is not deterministic"),
    ("no struct, array or map values", "its condition uses struct, array or map values"),
)
_REMEDIES = {
    SUBQUERY: "Write it as MERGE with the subquery as its source.",
    _OBSTACLES[1][1]: "Compute the value once, and put it into the condition as a literal.",
    _OBSTACLES[2][1]: "Keep what conditions ask for in a column of its own.",
}
_IN_QUERY = re.compile(
    r"\(?(\w{1,100}) IN \(\s*SELECT (?:DISTINCT )?(\w{1,100})\s+(FROM .{1,1000}?)\s*\)\)?",
    re.IGNORECASE | re.DOTALL,
)
_NO_COST = "None: the rows it selects are the same."


def write_lines(table: Table, writes: RecentWrites) -> tuple[ConditionLine, ...]:
    """The conditions of the writes that overlapped with others, and whether their winners can be followed."""
    uses = writes.conditions
    lines = (_about(name, obstacle, uses) for name, obstacle in _OBSTACLES)
    return (*lines, _traced(table, writes))


def _about(name: str, obstacle: str, uses: Sequence[ConditionUse]) -> ConditionLine:
    """One demand on conditions: how many writes do not meet it, and whose is the first that does not."""
    asked = sum(use.times for use in uses)
    hit = [use for use in uses if use.condition.obstacle == obstacle]
    unclear = sum(use.times for use in uses if not use.condition.is_whole) if not hit else 0
    if not hit:
        text = f"{asked - unclear:,} of {asked:,}" if asked else "no two writes overlapped"
        rest = f"; {unclear:,} name what is not a column here" if unclear else ""
        return ConditionLine(
            name=name, state=HOLDS if asked else UNKNOWN, evidence=text + rest, asked=asked
        )
    worst = hit[0]
    return ConditionLine(
        name=name,
        state=SOME,
        raw=worst.text[:200],
        evidence=f"{worst.user_name or 'not recorded'}, {worst.operation}",
        fix=_REMEDIES[obstacle],
        rewrite=_as_merge(worst) if obstacle == SUBQUERY else "",
        cost_text=_NO_COST,
        affected=sum(use.times for use in hit),
        asked=asked,
    )


def _as_merge(use: ConditionUse) -> str:
    """The write as a MERGE with the subquery as its source; empty where its form is another."""
    match = _IN_QUERY.fullmatch(use.text.strip())
    action = {"DELETE": "DELETE", "UPDATE": "UPDATE SET …"}.get(use.operation)
    if match is None or action is None:
        return ""
    column, key, rest = match.groups()
    return (
        f"MERGE INTO … t\nUSING (SELECT DISTINCT {key} {rest}) s\n"
        f"ON t.{column} = s.{key}\nWHEN MATCHED THEN {action}"
    )


def _traced(table: Table, writes: RecentWrites) -> ConditionLine:
    """Whether compactions tell where rows went: by this engine's tags, or by row ids."""
    compactions = [w for w in writes.writes if w.operation.startswith(("OPTIMIZE", "REORG"))]
    told = [w for w in compactions if _tells(w.client.name, w.orders_by, table)]
    name, count = "winners can be traced", len(compactions)
    if not compactions:
        return ConditionLine(name=name, state=UNKNOWN, evidence="no compaction in 30 days")
    return ConditionLine(
        name=name,
        state=HOLDS if len(told) == count else SOME,
        evidence=f"{len(told):,} of {count:,} compactions tell where each row went",
        fix="" if len(told) == count else "Turn on row tracking, or compact by this engine.",
        affected=count - len(told),
        asked=count,
    )


def _tells(client: str, orders_by: str, table: Table) -> bool:
    return table.row_tracking or (client == THIS_ENGINE and not orders_by)
