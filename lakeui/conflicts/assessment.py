"""A table's eligibility for row-level concurrency: the conditions, the obstacles, the fixes.

The conditions are the engine's own, evaluated on the mirror's row; fixes come with their job and
their cost.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from django.db.models import Count, Q
from django.utils import timezone

from engine.actions.table import Metadata, Protocol
from engine.conflicts.eligibility import (
    IDENTITY_KEY,
    UNKNOWN_TABLE,
    VECTORS_PROPERTY,
    Eligibility,
    EligibilityCondition,
    RuntimeVerdict,
    TableFacts,
    runtime_verdicts,
    table_eligibility,
)
from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.predict.record_replay import ReplaySetting
from engine.conflicts.predict.sample_table import TableSetting
from lakeui.catalog.models import Table
from lakeui.conflicts.models import Conflict

AVOIDED_DAYS = 30
_LEVELS = {level.value: level for level in IsolationLevel}
VECTORS_COST = (
    "This changes the metadata: concurrent writes fail, and streaming readers stop. Clients "
    "that cannot read deletion vectors lose access. To undo it, run REORG … APPLY (PURGE) "
    "and drop the feature."
)
_REWRITE_COST = "The whole table is rewritten with a new layout: {size} bytes."


@dataclass(frozen=True, slots=True)
class AssessedCondition:
    """One condition with its evidence; if it fails: the fix, its cost, and the job for it."""

    name: str
    holds: bool
    evidence: str
    fix: str = ""
    cost: str = ""
    job: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEligibility:
    """A table's eligibility. `traces_moves`: OPTIMIZE of this table can be traced row by row.

    `avoided`: conflicts resolved at row level; `avoided_lately`: in 30 days.
    """

    eligible: bool | None
    obstacle: str
    traces_moves: bool
    conditions: tuple[AssessedCondition, ...]
    runtimes: tuple[RuntimeVerdict, ...]
    locked_out: tuple[str, ...]
    avoided: int
    avoided_lately: int


def eligibility_of(table: Table) -> TableEligibility:
    """Return a table's eligibility as mirrored; `eligible` is None until its log was read."""
    avoided = table.conflicts.filter(kind=Conflict.Kind.RESOLVED).aggregate(
        all=Count("id"),
        lately=Count(
            "id", filter=Q(occurred_at__gte=timezone.now() - timedelta(days=AVOIDED_DAYS))
        ),
    )
    is_read = bool(table.schema) and table.version is not None
    eligibility = assess_eligibility(table) if is_read else None
    return TableEligibility(
        eligible=eligibility.eligible if eligibility else None,
        obstacle=(eligibility.obstacle or "") if eligibility else "Its log has not been read.",
        traces_moves=eligibility.traces_optimize if eligibility else False,
        conditions=tuple(_step(condition, table) for condition in eligibility.conditions)
        if eligibility
        else (),
        runtimes=_runtimes(eligibility, table) if eligibility else (),
        locked_out=tuple(_list_locked_out_clients(table)),
        avoided=avoided["all"],
        avoided_lately=avoided["lately"],
    )


def _runtimes(eligibility: Eligibility, table: Table) -> tuple[RuntimeVerdict, ...]:
    return runtime_verdicts(eligibility, clustered=bool(table.clustering_columns))


def build_setting(
    table: Table,
    level: IsolationLevel | None = None,
    *,
    vectors: bool | None = None,
    row_tracking: bool | None = None,
    clustered: bool | None = None,
) -> TableSetting:
    """Return the table's setting with the given changes."""
    return TableSetting(
        level=level or level_of(None, table),
        vectors=table.deletion_vectors if vectors is None else vectors,
        partitioned=bool(table.partition_columns),
        row_tracking=table.row_tracking if row_tracking is None else row_tracking,
        clustered=bool(table.clustering_columns) if clustered is None else clustered,
        identity=has_identity(table.schema),
        supports_clustering="clustering" in table.writer_features,
    )


def level_of(recorded: str | None, table: Table) -> IsolationLevel:
    """Return the recorded level; the table's if it is missing or unknown."""
    named = recorded or table.isolation_level
    return _LEVELS.get(named, IsolationLevel.WRITE_SERIALIZABLE)


def eligible_setting(table: Table, level: IsolationLevel | None = None) -> TableSetting:
    """Return the table's setting with every requirement of row-level concurrency met."""
    return replace(build_setting(table, level, vectors=True), partitioned=False, identity=False)


def replay_setting(table: Table, level: IsolationLevel, *, row_level: bool) -> ReplaySetting:
    """Return the table's setting under another level, with or without row-level concurrency.

    Without it, a table that takes part loses its deletion vectors; one that has vectors, and does
    not take part, keeps them.
    """
    kept = table.deletion_vectors and not table.row_level_eligible
    return ReplaySetting(
        level,
        row_level,
        table.row_level_eligible,
        eligible_setting(table, level),
        traces_moves=row_level or kept,
    )


def facts_of(table: Table) -> TableFacts:
    """Return the mirrored facts that decide the level of the table's conflicts."""
    return (
        assess_eligibility(table).facts
        if table.schema and table.version is not None
        else UNKNOWN_TABLE
    )


def metadata_of(table: Table, properties: Mapping[str, str]) -> Metadata:
    """Return the table's mirrored metadata with other properties."""
    return Metadata(
        id=table.table_uuid,
        schema_string=json.dumps(table.schema),
        partition_columns=table.partition_columns,
        configuration=dict(properties),
    )


def protocol_of(table: Table) -> Protocol:
    """Return the table's mirrored protocol."""
    return Protocol(
        min_reader_version=table.min_reader_version or 1,
        min_writer_version=table.min_writer_version or 1,
        reader_features=table.reader_features or None,
        writer_features=table.writer_features or None,
    )


def has_identity(schema: Mapping[str, Any]) -> bool:
    """Whether a mirrored schema has an identity column."""
    return any(IDENTITY_KEY in (field.get("metadata") or {}) for field in schema.get("fields", ()))


def assess_eligibility(table: Table) -> Eligibility:
    """Evaluate the engine's own conditions on the mirror's row."""
    metadata = metadata_of(table, table.properties)
    return table_eligibility(metadata, protocol_of(table), table.clustering_columns)


def _step(condition: EligibilityCondition, table: Table) -> AssessedCondition:
    if condition.holds:
        return AssessedCondition(condition.name, True, condition.evidence)
    cost, job = "", None
    if VECTORS_PROPERTY in condition.fix:
        job = {"kind": "set_properties", "parameters": {"properties": {VECTORS_PROPERTY: "true"}}}
        cost = VECTORS_COST
    elif "rewriting" in condition.fix:
        cost = _REWRITE_COST.format(size=table.size_bytes)
    return AssessedCondition(condition.name, False, condition.evidence, condition.fix, cost, job)


def _list_locked_out_clients(table: Table) -> Iterator[str]:
    if "deletionVectors" in table.reader_features:
        yield (
            "Readers without deletion vectors: delta-spark before 2.3, Databricks Runtime "
            "before 12.2 LTS, and all readers that do not support table features."
        )
    if "rowTracking" in table.writer_features:
        yield "Writers without row tracking: delta-spark before 3.2, and delta-rs."
