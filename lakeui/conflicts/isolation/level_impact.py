"""The effects of a change of a table's isolation settings, before it is made."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Max
from django.db.models.fields.json import KeyTextTransform
from django.utils import timezone

from engine.actions.table import Protocol
from engine.conflicts.isolation import IsolationLevel
from engine.protocol.features import (
    FEATURES,
    WRITER_FEATURES_VERSION,
    list_supported_features,
)
from engine.schema.column_mapping import MODE_KEY
from lakeui.catalog.line_differences import DiffSection
from lakeui.catalog.models import Table
from lakeui.conflicts.assessment import protocol_of
from lakeui.conflicts.isolation.proposal import (
    LEVEL,
    ROW_TRACKING,
    VECTORS,
    Proposal,
    eligible_under,
    list_needed_features,
    preview_commits,
    proposal_of,
    protocol_under,
    render_undo_statements,
)
from lakeui.jobs.writers import active_writers

STREAMS_DAYS = 7
MAX_STREAMS = 10
PROMISES: Mapping[str, str] = {
    IsolationLevel.WRITE_SERIALIZABLE: (
        "Writes are serializable. A blind append may be ordered after a write that did not see it, so it"
        " alone aborts no UPDATE, DELETE or MERGE. Once another of them may have read the appended rows,"
        " a write that did not see them is aborted: let at most one of them read fresh data."
    ),
    IsolationLevel.SERIALIZABLE: (
        "The history is the order. An append that a write should have read aborts that write. For tables"
        " whose history must explain each version; it adds conflicts and cures none."
    ),
}
_UNSET = {LEVEL: str(IsolationLevel.WRITE_SERIALIZABLE), VECTORS: "false", ROW_TRACKING: "false"}
_CLIENTS = {
    "deletionVectors": "such as delta-spark before 2.3 and Databricks Runtime before 12.2 LTS",
    "rowTracking": "such as delta-spark before 3.2 and delta-rs",
}


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job to be aborted, because its metadata would change. `since`: its attempt began."""

    id: str
    kind: str
    state: str
    by: str
    since: datetime | None


@dataclass(frozen=True, slots=True)
class SeenStream:
    """A recently seen stream. A reader stops; a writer's open batch is aborted."""

    name: str
    reads: bool
    by: str = ""
    last_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """The changes and who is affected. `changes` is empty if all settings are already in force.

    `committed` are the lines of the log to be added and removed, `undone_by` the statements that
    restore the settings. `clustering` is None if it stays.
    """

    changes: Mapping[str, str]
    clustering: tuple[str, ...] | None
    committed: tuple[DiffSection, ...]
    aborted_jobs: tuple[RunningJob, ...]
    streams: tuple[SeenStream, ...]
    new_features: tuple[str, ...]
    locked_out: tuple[str, ...]
    irreversible: tuple[str, ...]
    undone_by: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def stopped(self) -> tuple[SeenStream, ...]:
        """Reading streams, which would stop."""
        return tuple(stream for stream in self.streams if stream.reads)

    @property
    def aborted_streams(self) -> tuple[SeenStream, ...]:
        """Writing streams, whose open batch may be aborted."""
        return tuple(stream for stream in self.streams if not stream.reads)


def impact_of(
    table: Table,
    properties: Mapping[str, str],
    clustering: tuple[str, ...] | None = None,
    readers: Iterable[str] = (),
) -> Impact:
    """Return the impact of settings on a mirrored table. `readers` are known streams on it."""
    proposal = proposal_of(table, properties, clustering)
    protocol = protocol_under(table, proposal) if proposal else protocol_of(table)
    features = tuple(
        sorted(list_needed_features(proposal) - list_supported_features(protocol_of(table)))
    )
    stops = bool(proposal.properties or features)
    return Impact(
        changes=proposal.properties,
        clustering=proposal.clustering,
        committed=preview_commits(table, proposal),
        aborted_jobs=_list_jobs_to_abort(table) if stops else (),
        streams=tuple(_streams(table, proposal, readers)) if stops else (),
        new_features=features,
        locked_out=tuple(_list_locked_out_clients(protocol, features)),
        irreversible=tuple(_irreversible(proposal, features)),
        undone_by=render_undo_statements(table, proposal),
        warnings=tuple(_warnings(table, proposal)),
    )


def impact_of_command(table: Table, kind: str, parameters: Mapping[str, Any]) -> Impact | None:
    """Return the impact of a command on properties or clustering; None for any other."""
    if kind == "set_properties":
        return impact_of(table, {k: str(v) for k, v in parameters.get("properties", {}).items()})
    if kind == "unset_properties":
        return impact_of(table, {key: _UNSET.get(key, "") for key in parameters.get("keys", ())})
    if kind == "alter_cluster_by":
        return impact_of(table, {}, tuple(parameters.get("columns", ())))
    return None


def _list_jobs_to_abort(table: Table) -> tuple[RunningJob, ...]:
    began = (
        active_writers(table)
        .annotate(began=Max("attempt_rows__started_at"))
        .order_by("started_at", "id")
    )
    return tuple(
        RunningJob(str(job_id), kind, state, by or "", attempt or started)
        for job_id, kind, state, by, attempt, started in began.values_list(
            "id", "kind", "state", "requested_by__username", "began", "started_at"
        )
    )


def _streams(table: Table, proposal: Proposal, readers: Iterable[str]) -> Iterator[SeenStream]:
    """Yield writers by their commits, and readers that run as jobs here."""
    if proposal.properties:  # a reader stops for metadata changes, not only for the protocol
        yield from (SeenStream(name, reads=True) for name in readers)
    since = timezone.now() - timedelta(days=STREAMS_DAYS)
    lately = table.commits.filter(operation="STREAMING UPDATE", committed_at__gte=since)
    query = KeyTextTransform("queryId", "operation_parameters")
    rows = lately.order_by().annotate(query=query).values_list("query", "user_name")
    for name, user, last_at in rows.annotate(last_at=Max("committed_at")).order_by("-last_at")[
        :MAX_STREAMS
    ]:
        yield SeenStream(name or "", False, user, last_at)


def _list_locked_out_clients(protocol: Protocol, features: tuple[str, ...]) -> Iterator[str]:
    """Describe the clients that a protocol with these additional features would lock out."""
    if features and protocol.min_writer_version < WRITER_FEATURES_VERSION:  # versions alone
        reads = any(FEATURES[feature].reader for feature in features)
        readers = f"readers below version {protocol.min_reader_version} and " if reads else ""
        writers = f"writers below version {protocol.min_writer_version}"
        yield f"{readers}{writers} of the protocol, which {', '.join(features)} needs"
        return
    for feature in features:
        who = "readers and writers" if FEATURES[feature].reader else "writers"
        such = f", {_CLIENTS[feature]}" if feature in _CLIENTS else ""
        yield f"{who} that do not know the table feature {feature}{such}"


def _irreversible(proposal: Proposal, features: tuple[str, ...]) -> Iterator[str]:
    if MODE_KEY in proposal.properties:
        yield (
            "Column mapping cannot be switched off by a property: its files then have column names"
            " of their own."
        )
    if features:
        yield (
            f"The protocol keeps {', '.join(features)} when the property is unset: dropping a"
            " feature takes ALTER TABLE … DROP FEATURE, and older versions still need it."
        )


def _warnings(table: Table, proposal: Proposal) -> Iterator[str]:
    changes = proposal.properties
    if changes:
        yield "It changes the metadata: writes that began before it fail, streaming readers stop."
    if changes.get(LEVEL) == IsolationLevel.SERIALIZABLE:
        yield (
            "More writes will be aborted: blind appends then count for UPDATE, DELETE and MERGE. It adds"
            " conflicts and cures none."
        )
    if changes.get(LEVEL) == IsolationLevel.WRITE_SERIALIZABLE:
        yield "Open-source Delta honors this level where it finds it, and refuses to set it."
    if table.row_level_eligible and not eligible_under(table, proposal):
        yield "Row-level concurrency ends: writes of one file conflict again."
    if changes.get(ROW_TRACKING, "").lower() == "true":
        yield "Rows that are there get their ids first, in commits of their own that state files anew."
    if changes.get(ROW_TRACKING, "").lower() == "false":
        yield "Row ids are no longer kept: rows that OPTIMIZE moves by ZORDER are then decided at file level."
    if proposal.clustering is not None:
        yield from _describe_clustering(table, proposal.clustering)


def _describe_clustering(table: Table, columns: tuple[str, ...]) -> Iterator[str]:
    if table.partition_columns:
        yield "A table is partitioned or clustered, not both: the job would refuse this."
    elif columns:
        yield "No row moves until OPTIMIZE runs: files that are there keep the order they have."
    else:
        yield "OPTIMIZE then only compacts; files keep the order they have."
