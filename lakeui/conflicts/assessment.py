"""Whether a table takes part in row-level concurrency: what speaks for it, what against, what to do.

The conditions are the engine's own, asked of the mirror's row; fixes come with the job that applies
them and with what they cost.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Count, Q
from django.utils import timezone

from engine.actions.table import Metadata, Protocol
from engine.conflicts.eligibility import (
    VECTORS_PROPERTY,
    Condition,
    Eligibility,
    table_eligibility,
)
from engine.conflicts.runtimes import RuntimeVerdict, runtime_verdicts
from lakeui.catalog.models import Table
from lakeui.conflicts.models import Conflict

AVOIDED_DAYS = 30
_VECTORS_COST = (
    "Writes that run meanwhile fail and streaming readers stop: it changes the metadata. Clients"
    " that cannot read deletion vectors lose access. Going back means REORG … APPLY (PURGE) and"
    " dropping the feature."
)
_REWRITE_COST = "The whole table is written again, under another layout: {size} bytes."


@dataclass(frozen=True, slots=True)
class Step:
    """One condition with its evidence; where it fails: the fix, its cost, and the job that does it."""

    name: str
    holds: bool
    evidence: str
    fix: str = ""
    cost: str = ""
    job: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEligibility:
    """`avoided`: conflicts that row-level concurrency resolved; `avoided_lately`: in 30 days."""

    eligible: bool | None
    obstacle: str
    traces_moves: bool
    conditions: tuple[Step, ...]
    runtimes: tuple[RuntimeVerdict, ...]
    locked_out: tuple[str, ...]
    avoided: int
    avoided_lately: int


def eligibility_of(table: Table) -> TableEligibility:
    """A table's eligibility as mirrored; `eligible` is None while its log was never read."""
    avoided = table.conflicts.filter(kind=Conflict.Kind.ABSORBED).aggregate(
        all=Count("id"),
        lately=Count(
            "id", filter=Q(occurred_at__gte=timezone.now() - timedelta(days=AVOIDED_DAYS))
        ),
    )
    known = bool(table.schema) and table.version is not None
    found = asked(table) if known else None
    return TableEligibility(
        eligible=found.eligible if found else None,
        obstacle=(found.obstacle or "") if found else "Its log was not read yet.",
        traces_moves=found.traces_moves if found else False,
        conditions=tuple(_step(each, table) for each in found.conditions) if found else (),
        runtimes=_runtimes(found, table) if found else (),
        locked_out=tuple(_locked_out(table)),
        avoided=avoided["all"],
        avoided_lately=avoided["lately"],
    )


def _runtimes(found: Eligibility, table: Table) -> tuple[RuntimeVerdict, ...]:
    return runtime_verdicts(found, clustered=bool(table.clustering_columns))


def metadata_of(table: Table, properties: Mapping[str, str]) -> Metadata:
    """The table's metadata as mirrored, but with these properties."""
    return Metadata(
        id=table.table_uuid,
        schema_string=json.dumps(table.schema),
        partition_columns=table.partition_columns,
        configuration=dict(properties),
    )


def protocol_of(table: Table) -> Protocol:
    """The table's protocol as mirrored."""
    return Protocol(
        min_reader_version=table.min_reader_version or 1,
        min_writer_version=table.min_writer_version or 1,
        reader_features=table.reader_features or None,
        writer_features=table.writer_features or None,
    )


def asked(table: Table) -> Eligibility:
    """The engine's own conditions, asked of the mirror's row."""
    metadata = metadata_of(table, table.properties)
    return table_eligibility(metadata, protocol_of(table), table.clustering_columns)


def _step(condition: Condition, table: Table) -> Step:
    if condition.holds:
        return Step(condition.name, True, condition.evidence)
    cost, job = "", None
    if VECTORS_PROPERTY in condition.fix:
        job = {"kind": "set_properties", "parameters": {"properties": {VECTORS_PROPERTY: "true"}}}
        cost = _VECTORS_COST
    elif "rewriting" in condition.fix:
        cost = _REWRITE_COST.format(size=table.size_bytes)
    return Step(condition.name, False, condition.evidence, condition.fix, cost, job)


def _locked_out(table: Table) -> Iterator[str]:
    if "deletionVectors" in table.reader_features:
        yield (
            "Readers without deletion vectors: delta-spark before 2.3, Databricks Runtime before"
            " 12.2 LTS, and any that knows no table features."
        )
    if "rowTracking" in table.writer_features:
        yield "Writers without row tracking: delta-spark before 3.2, and delta-rs."
