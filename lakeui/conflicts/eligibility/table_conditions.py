"""The conditions of row-level concurrency that a table meets or not, as mirrored; what mends it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from engine.commands.definition import Create
from engine.commands.sources import TableSource
from engine.conflicts.eligibility import VECTORS_PROPERTY, Eligibility
from lakeui.catalog.models import Table
from lakeui.conflicts.eligibility.lines import FAILS, HOLDS, OPTIONAL, ConditionLine, FixCost
from lakeui.conflicts.isolation.level_impact import Impact, impact_of
from lakeui.conflicts.isolation.proposal import ROW_TRACKING, proposal_of, protocol_under
from lakeui.conflicts.recent_writes import RecentWrites

_UNTRACKED = "needed only to follow rows through ZORDER BY and clustering"
_UNTRACKED_CLUSTERED = (
    "OPTIMIZE orders the rows of a clustered table: without row ids they cannot be followed, and it"
    " conflicts with UPDATE, DELETE, MERGE and OPTIMIZE"
)
_NOT_KEPT = ("delta.constraints.", "delta.feature.", "delta.columnMapping.", "delta.rowTracking.")


class Speed(Protocol):
    """How fast rewrites went here."""

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
    """The conditions of the table itself; `readers` are streams known to read it."""
    layout, supported, _, identity = eligibility.conditions
    impact = impact_of(table, {VECTORS_PROPERTY: "true", ROW_TRACKING: "true"}, readers=readers)
    return (
        _layout(table, layout.holds, speed, impact),
        _supported(table, supported.holds, writes),
        _enabled(table, impact),
        ConditionLine(
            name=identity.name,
            state=_state(identity.holds),
            raw=_identity_raw(table),
            evidence="" if identity.holds else identity.evidence,
            fix=identity.fix,
            cost_text="" if identity.holds else "Writers must draw their numbers elsewhere.",
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
        losing_jobs=len(impact.losing_jobs),
        streams=len(impact.streams),
        undo="Undone by RESTORE, until VACUUM removes the files of now.",
    )
    return replace(
        line,
        state=FAILS,
        evidence=f"{_partitions(table)}; partitioned tables are never eligible",
        fix=f"Rewrite it as clustered by `{', '.join(table.partition_columns)}`.{_set_again(table)}",
        statement=_rewrite(table),
        cost=cost,
    )


def _partitions(table: Table) -> str:
    """How many partitions its mirrored files lie in."""
    count = table.live_files.order_by().values("partition_values").distinct().count()
    part = "at least " if table.live_files_mirrored < table.file_count else ""
    return f"{part}{count:,} {'partition' if count == 1 else 'partitions'}"


def _set_again(table: Table) -> str:
    """What a table that is written anew does not keep."""
    count = sum(name.startswith("delta.constraints.") for name in table.properties)
    return f" Set its {count} constraint{'' if count == 1 else 's'} again." if count else ""


def _rewrite(table: Table) -> str:
    """The statement that writes the table again, clustered, with its settings."""
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


def _supported(table: Table, holds: bool, writes: RecentWrites) -> ConditionLine:
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
        fix="Comes with the property below.",
        cost=FixCost(
            protocol=_protocol(table, VECTORS_PROPERTY),
            locked_out=locked_out_by(writes, "deletionVectors"),
            undo="Undone only by DROP FEATURE, and by a second one 24 h later for the history.",
        ),
    )


def _enabled(table: Table, impact: Impact) -> ConditionLine:
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
        job=_setting(VECTORS_PROPERTY),
        cost=_setting_cost(impact),
    )


def _row_tracking(table: Table, impact: Impact) -> ConditionLine:
    setting = table.properties.get(ROW_TRACKING)
    raw = f"{ROW_TRACKING} absent" if setting is None else f"{ROW_TRACKING} = {setting}"
    if table.row_tracking:
        return ConditionLine(
            name="row tracking", state=HOLDS, raw=raw, evidence="rows keep an id for life"
        )
    files = f"{table.file_count:,} files"
    return ConditionLine(
        name="row tracking",
        state=OPTIONAL,
        raw=raw,
        evidence=_UNTRACKED_CLUSTERED if table.clustering_columns else _UNTRACKED,
        fix="Set the property.",
        job=_setting(ROW_TRACKING),
        cost=_setting_cost(impact),
        cost_text=f"Metadata of {files}: each gets its row ids by commits of their own.",
    )


def _setting(name: str) -> Mapping[str, Any]:
    return {"kind": "set_properties", "parameters": {"properties": {name: "true"}}}


def _setting_cost(impact: Impact) -> FixCost:
    return FixCost(losing_jobs=len(impact.losing_jobs), streams=len(impact.streams))


def _protocol(table: Table, name: str) -> tuple[int, int]:
    after = protocol_under(table, proposal_of(table, {name: "true"}))
    return after.min_reader_version, after.min_writer_version


def locked_out_by(writes: RecentWrites, feature: str) -> tuple[str, ...]:
    """Programs that wrote lately and do not know a feature, with their commits."""
    return tuple(
        f"{client} ({times:,} {'commit' if times == 1 else 'commits'})"
        for client, times in writes.by_client()
        if client.lacks(feature)
    )


def _identity_raw(table: Table) -> str:
    fields = table.schema.get("fields", [])
    marked = [f for f in fields if "delta.identity.start" in (f.get("metadata") or {})]
    return f"{len(marked)} of {len(fields)} columns"
