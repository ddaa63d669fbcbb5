"""The conditions of row-level concurrency for people: of a mirrored table, and of a write.

Each comes with its evidence, and with a fix and the cost of the fix if it does not hold.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from engine.commands.definition import Create
from engine.commands.sources import TableSource
from engine.conflicts.eligibility import VECTORS_PROPERTY, Eligibility
from engine.conflicts.reads import COMPLEX_VALUES, NOT_DETERMINISTIC, SUBQUERY
from engine.errors import EngineError
from engine.expressions.queries.tables import tables_in_condition
from engine.protocol.properties import constraint_name
from engine.vocabulary import operation_named
from lakeui.catalog.models import Table
from lakeui.conflicts.isolation.effect import Impact, impact_of
from lakeui.conflicts.isolation.settings import ROW_TRACKING, proposal_of, protocol_under
from lakeui.conflicts.recent_writes import ConditionUse, RecentWrites
from lakeui.conflicts.statements.clients import THIS_ENGINE

HOLDS, FAILS, OPTIONAL, SOME, UNKNOWN = "holds", "fails", "optional", "some fall back", "not known"

_UNTRACKED = "needed only to trace rows through ZORDER BY and clustering"
_UNTRACKED_CLUSTERED = (
    "OPTIMIZE reorders the rows of a clustered table. Without row ids they cannot be traced, "
    "and OPTIMIZE conflicts with UPDATE, DELETE, MERGE and OPTIMIZE"
)
_NOT_KEPT = ("delta.constraints.", "delta.feature.", "delta.columnMapping.", "delta.rowTracking.")

_OBSTACLES = (
    ("no subquery in the condition", SUBQUERY),
    ("deterministic conditions", NOT_DETERMINISTIC),
    ("no struct, array or map values", COMPLEX_VALUES),
)
_REMEDIES = {
    SUBQUERY: "Write it as MERGE with the subquery as its source.",
    NOT_DETERMINISTIC: "Compute the value once, and put it into the condition as a literal.",
    COMPLEX_VALUES: "Store the value in a separate column.",
}
_OWN_ROWS = (
    "First write the subquery's result to a separate table, and use that table as the source "
    "of a MERGE."
)
_IN_QUERY = re.compile(
    r"\(?(\w{1,100}) IN \(\s*SELECT (?:DISTINCT )?(\w{1,100})\s+(FROM .{1,1000}?)\s*\)\)?",
    re.IGNORECASE | re.DOTALL,
)
_NO_COST = "None: it selects the same rows."


@dataclass(frozen=True, slots=True)
class FixCost:
    """The cost of a fix. `rewrites_bytes` is 0 if no data is rewritten.

    `duration_ms` is estimated by the median speed of `runs` earlier jobs, None without any. Running
    writes are aborted, streams stop. `protocol` is the new requirement of clients, None if it
    stays.
    """

    rewrites_bytes: int = 0
    rewrites_files: int = 0
    duration_ms: int | None = None
    runs: int = 0
    runs_are_own: bool = False
    aborted_jobs: int = 0
    streams: int = 0
    protocol: tuple[int, int] | None = None
    locked_out: tuple[str, ...] = ()
    undo: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionLine:
    """A condition. `raw` is the evidence in the log, `evidence` the same in words.

    `affected` of `asked` writes do not meet it, for conditions of writes. `job` fixes it at a
    click;
    `statement` is the plan if the table must be rewritten; `rewrite` is another form of the first
    of the
    writes.
    """

    name: str
    state: str
    raw: str = ""
    evidence: str = ""
    fix: str = ""
    job: Mapping[str, Any] | None = None
    statement: str = ""
    rewrite: str = ""
    cost: FixCost | None = None
    cost_text: str = ""
    affected: int = 0
    asked: int = 0


class Speed(Protocol):
    """The speed of earlier rewrites here."""

    @property
    def runs(self) -> int: ...
    @property
    def is_own(self) -> bool: ...
    def duration_ms(self, size_bytes: int) -> int: ...


def table_lines(
    table: Table,
    eligibility: Eligibility,
    writes: RecentWrites,
    speed: Speed | None,
    readers: Sequence[str],
) -> tuple[ConditionLine, ...]:
    """Return the conditions of the table itself; `readers` are streams known to read it."""
    layout, supported, _, identity = eligibility.conditions
    impact = impact_of(table, {VECTORS_PROPERTY: "true", ROW_TRACKING: "true"}, readers=readers)
    return (
        _layout(table, layout.holds, speed, impact),
        _support_line(table, supported.holds, writes),
        _enablement_line(table, impact),
        ConditionLine(
            name=identity.name,
            state=_state(identity.holds),
            raw=_identity_raw(table),
            evidence="" if identity.holds else identity.evidence,
            fix=identity.fix,
            cost_text="" if identity.holds else "Writers must then assign the ids themselves.",
        ),
        _row_tracking(table, impact),
    )


def _state(holds: bool) -> str:
    return HOLDS if holds else FAILS


def _layout(table: Table, holds: bool, speed: Speed | None, impact: Impact) -> ConditionLine:
    columns, named = table.partition_columns, "partitionColumns"
    if table.clustering_columns:
        columns, named = table.clustering_columns, "clusteringColumns"
    listed = ", ".join(f'"{column}"' for column in columns)
    line = ConditionLine(
        name="unpartitioned or liquid-clustered", state=HOLDS, raw=f"{named} = [{listed}]"
    )
    if holds:
        return line
    cost = FixCost(
        rewrites_bytes=table.size_bytes,
        rewrites_files=table.file_count,
        duration_ms=speed.duration_ms(table.size_bytes) if speed else None,
        runs=speed.runs if speed else 0,
        runs_are_own=speed.is_own if speed else False,
        aborted_jobs=len(impact.aborted_jobs),
        streams=len(impact.streams),
        undo="RESTORE can undo this until VACUUM removes the present files.",
    )
    return replace(
        line,
        state=FAILS,
        evidence=f"{_partitions(table)}; partitioned tables are never eligible",
        fix="Rewrite the table clustered by "
        f"`{', '.join(table.partition_columns)}`.{_set_again(table)}",
        statement=_rewrite(table),
        cost=cost,
    )


def _partitions(table: Table) -> str:
    """Return the number of partitions of its mirrored files, in words."""
    count = table.live_files.order_by().values("partition_values").distinct().count()
    part = "at least " if table.live_files_mirrored < table.file_count else ""
    return f"{part}{count:,} {'partition' if count == 1 else 'partitions'}"


def _set_again(table: Table) -> str:
    """Describe the settings that a rewritten table does not keep."""
    count = sum(constraint_name(name) is not None for name in table.properties)
    return f" Set its {count} constraint{'' if count == 1 else 's'} again." if count else ""


def _rewrite(table: Table) -> str:
    """Return the statement that rewrites the table, clustered, with its settings."""
    kept = {
        name: str(value)
        for name, value in table.properties.items()
        if name.startswith("delta.") and not name.startswith(_NOT_KEPT)
    }
    return Create(
        table=table.name,
        clustering_columns=tuple(table.partition_columns),
        properties=kept | {VECTORS_PROPERTY: "true"},
        source=TableSource(table=table.name),
        replace=True,
    ).statement()


def _support_line(table: Table, holds: bool, writes: RecentWrites) -> ConditionLine:
    features = ", ".join(f'"{reader_feature}"' for reader_feature in table.reader_features)
    line = ConditionLine(
        name="deletion vectors supported",
        state=_state(holds),
        raw=f"readerFeatures = [{features}]" if features else "readerFeatures absent",
        evidence=f"protocol {table.min_reader_version or 1}, {table.min_writer_version or 1}",
    )
    if "deletionVectors" in table.reader_features:
        return line
    return replace(
        line,
        fix="The property below enables it.",
        cost=FixCost(
            protocol=_protocol(table, VECTORS_PROPERTY),
            locked_out=list_locked_out_clients(writes, "deletionVectors"),
            undo="Only DROP FEATURE can undo this. The history needs a second DROP FEATURE 24 "
            "h later.",
        ),
    )


def _enablement_line(table: Table, impact: Impact) -> ConditionLine:
    setting = table.properties.get(VECTORS_PROPERTY)
    raw = f"{VECTORS_PROPERTY} absent" if setting is None else f"{VECTORS_PROPERTY} = {setting}"
    name = "deletion vectors enabled"
    if str(setting).lower() == "true":
        return ConditionLine(name=name, state=HOLDS, raw=raw)
    return ConditionLine(
        name=name,
        state=FAILS,
        raw=raw,
        evidence="rows of one file cannot be distinguished without a vector",
        fix="Set the property.",
        job=_set_property_job(VECTORS_PROPERTY),
        cost=_property_cost(impact),
    )


def _row_tracking(table: Table, impact: Impact) -> ConditionLine:
    setting = table.properties.get(ROW_TRACKING)
    raw = f"{ROW_TRACKING} absent" if setting is None else f"{ROW_TRACKING} = {setting}"
    if table.row_tracking:
        return ConditionLine(
            name="row tracking", state=HOLDS, raw=raw, evidence="rows keep a permanent id"
        )
    files = f"{table.file_count:,} files"
    return ConditionLine(
        name="row tracking",
        state=OPTIONAL,
        raw=raw,
        evidence=_UNTRACKED_CLUSTERED if table.clustering_columns else _UNTRACKED,
        fix="Set the property.",
        job=_set_property_job(ROW_TRACKING),
        cost=_property_cost(impact),
        cost_text=f"Changes the metadata of {files}, which get row ids in separate commits.",
    )


def _set_property_job(name: str) -> Mapping[str, Any]:
    return {"kind": "set_properties", "parameters": {"properties": {name: "true"}}}


def _property_cost(impact: Impact) -> FixCost:
    return FixCost(aborted_jobs=len(impact.aborted_jobs), streams=len(impact.streams))


def _protocol(table: Table, name: str) -> tuple[int, int]:
    after = protocol_under(table, proposal_of(table, {name: "true"}))
    return after.min_reader_version, after.min_writer_version


def list_locked_out_clients(writes: RecentWrites, feature: str) -> tuple[str, ...]:
    """Return recent writers that do not know a feature, with their commits."""
    return tuple(
        f"{client} ({times:,} {'commit' if times == 1 else 'commits'})"
        for client, times in writes.count_by_client()
        if client.lacks(feature)
    )


def _identity_raw(table: Table) -> str:
    fields = table.schema.get("fields", [])
    marked = [f for f in fields if "delta.identity.start" in (f.get("metadata") or {})]
    return f"{len(marked)} of {len(fields)} columns"


def write_lines(table: Table, writes: RecentWrites) -> tuple[ConditionLine, ...]:
    """Return the conditions of overlapping writes, and whether winning commits can be traced."""
    uses = writes.conditions
    lines = (_condition_line(name, obstacle, uses, table) for name, obstacle in _OBSTACLES)
    return (*lines, _row_tracing_line(table, writes))


def _condition_line(
    name: str, obstacle: str, uses: Sequence[ConditionUse], table: Table
) -> ConditionLine:
    """Return one requirement for conditions: how many writes break it, and whose is the first."""
    asked = sum(use.times for use in uses)
    hit = [use for use in uses if use.condition.obstacle == obstacle]
    unclear = sum(use.times for use in uses if not use.condition.is_whole) if not hit else 0
    if not hit:
        text = f"{asked - unclear:,} of {asked:,}" if asked else "no two writes overlapped"
        rest = f"; {unclear:,} use names that are not columns here" if unclear else ""
        return ConditionLine(
            name=name, state=HOLDS if asked else UNKNOWN, evidence=text + rest, asked=asked
        )
    worst = hit[0]
    reads_itself = obstacle == SUBQUERY and _reads(worst, table)
    return ConditionLine(
        name=name,
        state=SOME,
        raw=worst.text[:200],
        evidence=f"{worst.user_name or 'not recorded'}, {worst.operation}",
        fix=_OWN_ROWS if reads_itself else _REMEDIES[obstacle],
        rewrite=_rewrite_as_merge(worst) if obstacle == SUBQUERY and not reads_itself else "",
        cost_text=_NO_COST,
        affected=sum(use.times for use in hit),
        asked=asked,
    )


def _reads(use: ConditionUse, table: Table) -> bool:
    """Whether a subquery reads the table itself: a MERGE with it as its source would be decided by files too."""
    try:
        names = tables_in_condition(use.text)
    except EngineError:
        return False
    return not {table.name, table.uri}.isdisjoint(names)


def _rewrite_as_merge(use: ConditionUse) -> str:
    """Rewrite the write as a MERGE with the subquery as its source; empty for another form."""
    match = _IN_QUERY.fullmatch(use.text.strip())
    action = {"DELETE": "DELETE", "UPDATE": "UPDATE SET …"}.get(use.operation)
    if match is None or action is None:
        return ""
    column, key, rest = match.groups()
    return (
        f"MERGE INTO … t\nUSING (SELECT DISTINCT {key} {rest}) s\n"
        f"ON t.{column} = s.{key}\nWHEN MATCHED THEN {action}"
    )


def _row_tracing_line(table: Table, writes: RecentWrites) -> ConditionLine:
    """Return whether compactions record the moves of rows: by this engine's tags, or by row ids."""
    compactions = [w for w in writes.writes if operation_named(w.operation).statement.moves_rows]
    told = [w for w in compactions if _tells(w.client.name, w.orders_by, table)]
    name, count = "compactions can be traced", len(compactions)
    if not compactions:
        return ConditionLine(name=name, state=UNKNOWN, evidence="no compaction in 30 days")
    return ConditionLine(
        name=name,
        state=HOLDS if len(told) == count else SOME,
        evidence=f"the rows of {len(told):,} of {count:,} compactions can be traced",
        fix="" if len(told) == count else "Enable row tracking, or compact with this engine.",
        affected=count - len(told),
        asked=count,
    )


def _tells(client: str, orders_by: str, table: Table) -> bool:
    return table.row_tracking or (client == THIS_ENGINE and not orders_by)
