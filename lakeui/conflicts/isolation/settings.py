"""The settings that decide conflicts: a proposed change with its commits, and earlier changes.

The settings are properties of a table, and its clustering columns.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.actions.table import Protocol
from engine.commands.model import ClusterBy, Command, SetProperties, UnsetProperties
from engine.conflicts.eligibility import table_eligibility
from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.predict.sample_table import TableSetting
from engine.protocol.features import FEATURES, find_required_features, upgrade
from engine.protocol.properties import RESOLUTION_PROPERTY
from engine.schema.column_mapping import MODE_KEY
from engine.schema.types import StructType
from lakeui.catalog.definitions import DEFINES, DiffLine, DiffSection, read_definition_actions
from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.assessment import build_setting, metadata_of, protocol_of
from lakeui.conflicts.isolation.overlaps import Overlaps
from lakeui.conflicts.statements.text import DEFINITION

LEVEL = "delta.isolationLevel"
VECTORS = "delta.enableDeletionVectors"
ROW_TRACKING = "delta.enableRowTracking"
_FOR_GOOD = frozenset({MODE_KEY})  # the engine refuses to take these back
_DOMAIN = "clustering"

CLUSTERING = "clustering columns"
_LOOKED_AT = 60
_KEPT_BY_ENGINES = ("delta.columnMapping.max", "delta.rowTracking.mat", "delta.inCommitTimestampEn")
_ONE_WAY = {
    "delta.columnMapping.mode": "column mapping cannot be disabled, because the files use its names",
}


@dataclass(frozen=True, slots=True)
class Proposal:
    """Properties to set and columns to cluster by, as far as they differ from the table's.

    `clustering` is None if it stays; if empty, the table would no longer be clustered.
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    clustering: tuple[str, ...] | None = None

    def __bool__(self) -> bool:
        return bool(self.properties) or self.clustering is not None

    @property
    def jobs(self) -> tuple[tuple[str, Mapping[str, Any]], ...]:
        """The jobs to do, as kinds with their parameters, each a commit of its own."""
        planned: list[tuple[str, Mapping[str, Any]]] = []
        if self.properties:
            planned.append(("set_properties", {"properties": dict(self.properties)}))
        if self.clustering is not None:
            planned.append(("alter_cluster_by", {"columns": list(self.clustering)}))
        return tuple(planned)

    @property
    def job(self) -> tuple[str, Mapping[str, Any]]:
        """The one job to do: its kind and parameters; of two, a script."""
        jobs = self.jobs
        if len(jobs) == 1:
            return jobs[0]
        return "script", {
            "steps": [{"kind": kind, "parameters": parameters} for kind, parameters in jobs]
        }

    @property
    def statement(self) -> str:
        """Its name in the log."""
        parts = ["SET TBLPROPERTIES"] if self.properties else []
        return ", then ".join([*parts, *(["CLUSTER BY"] if self.clustering is not None else [])])


def proposal_of(
    table: Table, properties: Mapping[str, str], clustering: tuple[str, ...] | None = None
) -> Proposal:
    """Return the settings that the table does not have yet."""
    changes = {
        name: value
        for name, value in properties.items()
        if _current_value(table, name).lower() != value.lower()
    }
    other = clustering is not None and clustering != tuple(table.clustering_columns)
    return Proposal(changes, clustering if other else None)


def resolves_enablement(table: Table) -> bool:
    """Return whether running writes pass a commit that only enables features."""
    return str(table.properties.get(RESOLUTION_PROPERTY, "")).strip().lower() == "true"


def propose_setting(table: Table, proposal: Proposal) -> TableSetting:
    """Return the table's setting after the change."""
    named, level = proposal.properties, proposal.properties.get(LEVEL)
    vectors, tracking = named.get(VECTORS), named.get(ROW_TRACKING)
    return build_setting(
        table,
        IsolationLevel(level) if level else None,
        vectors=None if vectors is None else vectors == "true",
        row_tracking=None if tracking is None else tracking == "true",
        clustered=None if proposal.clustering is None else bool(proposal.clustering),
    )


def protocol_under(table: Table, proposal: Proposal) -> Protocol:
    """Return the protocol after the change: the current one with the needed features."""
    return upgrade(protocol_of(table), list_needed_features(proposal))


def list_needed_features(proposal: Proposal) -> set[str]:
    """Return the table features needed by the settings."""
    no_columns = StructType(())
    needed = find_required_features(no_columns, proposal.properties) - find_required_features(
        no_columns, {}
    )
    return needed if proposal.clustering is None else needed | {_DOMAIN, *FEATURES[_DOMAIN].needs}


def eligible_under(table: Table, proposal: Proposal) -> bool:
    """Whether it would take part in row-level concurrency."""
    columns = table.clustering_columns if proposal.clustering is None else proposal.clustering
    metadata = metadata_of(table, {**table.properties, **proposal.properties})
    return table_eligibility(metadata, protocol_under(table, proposal), columns).eligible


def preview_commits(table: Table, proposal: Proposal) -> tuple[DiffSection, ...]:
    """Return the contents of the commits, as added and removed lines, by action of the log."""
    sections = (
        DiffSection("protocol", tuple(_protocol_lines(table, proposal))),
        DiffSection("metaData.configuration", tuple(_property_lines(table, proposal))),
        DiffSection(
            "domainMetadata delta.clustering", tuple(_iter_clustering_lines(table, proposal))
        ),
    )
    return tuple(section for section in sections if section.lines)


def render_undo_statements(table: Table, proposal: Proposal) -> tuple[str, ...]:
    """Return the statements that restore the settings, as far as statements can."""
    names = [name for name in proposal.properties if name not in _FOR_GOOD]
    kept = {name: table.properties[name] for name in names if name in table.properties}
    gone = tuple(name for name in names if name not in table.properties)
    commands: list[Command] = []
    if kept:
        commands.append(SetProperties(table=table.name, properties=kept))
    if gone:
        commands.append(UnsetProperties(table=table.name, keys=gone))
    if proposal.clustering is not None:
        commands.append(ClusterBy(table=table.name, columns=tuple(table.clustering_columns)))
    return tuple(command.statement() for command in commands)


def _current_value(table: Table, name: str) -> str:
    """Return a setting's value in the log, or its default."""
    current = {
        LEVEL: table.isolation_level,
        VECTORS: str(table.deletion_vectors),
        ROW_TRACKING: str(table.row_tracking),
    }
    return str(table.properties.get(name) or current.get(name, ""))


def _protocol_lines(table: Table, proposal: Proposal) -> Iterator[DiffLine]:
    old, new = protocol_of(table), protocol_under(table, proposal)
    for name, before, after in (
        ("minReaderVersion", old.min_reader_version, new.min_reader_version),
        ("minWriterVersion", old.min_writer_version, new.min_writer_version),
    ):
        if before != after:
            yield DiffLine("-", f"{name} = {before}")
            yield DiffLine("+", f"{name} = {after}")
    for name, had, has in (
        ("readerFeatures", old.reader_features, new.reader_features),
        ("writerFeatures", old.writer_features, new.writer_features),
    ):
        for feature in sorted(set(has or ()) - set(had or ())):
            yield DiffLine("+", f"{name}: {feature}")


def _property_lines(table: Table, proposal: Proposal) -> Iterator[DiffLine]:
    for name, value in proposal.properties.items():
        if name in table.properties:
            yield DiffLine("-", f"{name} = {table.properties[name]}")
        yield DiffLine("+", f"{name} = {value}")


def _iter_clustering_lines(table: Table, proposal: Proposal) -> Iterator[DiffLine]:
    if proposal.clustering is None:
        return
    if table.clustering_columns:
        yield DiffLine("-", f"clusteringColumns = {', '.join(table.clustering_columns)}")
    yield DiffLine("+", f"clusteringColumns = {', '.join(proposal.clustering) or 'none'}")


@dataclass(frozen=True, slots=True)
class PropertyChange:
    """A change; `old` or `new` is None if the property was not set."""

    name: str
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True)
class RestoringJob:
    """A job that restores properties: its kind and parameters."""

    kind: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """A version that changed properties. `is_in_force` if none of them changed again since.

    `obstacle` says why some of it cannot be restored; `revert` is the part that can.
    """

    commit: Commit
    changes: tuple[PropertyChange, ...]
    revert: tuple[RestoringJob, ...]
    obstacle: str
    is_in_force: bool


def settings_history(table: Table, overlaps: Overlaps, limit: int) -> list[SettingsChange]:
    """Return changes, latest first. Clustering has no index: only counted versions are searched."""
    versions = [commit.version for commit in overlaps.landed if commit.kind == DEFINITION]
    clustered = table.commits.filter(
        version__in=versions[-_LOOKED_AT:], changes_metadata=False, operation="CLUSTER BY"
    )
    narrow = clustered.only(
        "table", "version", "operation_parameters", "user_name", "committed_at", "operation"
    )
    changes = [
        *settings_changes(table, limit),
        *(_clustering_change(table, commit) for commit in narrow),
    ]
    return sorted(changes, key=lambda change: -change.commit.version)[:limit]


def _clustering_change(table: Table, commit: Commit) -> SettingsChange:
    old, new = (list(_columns(commit, name)) for name in ("old", "new"))
    change = PropertyChange(CLUSTERING, ", ".join(old) or None, ", ".join(new) or None)
    is_back = old == list(table.clustering_columns)
    revert = () if is_back else (RestoringJob("alter_cluster_by", {"columns": old}),)
    return SettingsChange(commit, (change,), revert, "", new == list(table.clustering_columns))


def _columns(commit: Commit, which: str) -> Iterator[str]:
    parameters: dict[str, Any] = commit.operation_parameters or {}
    text = str(parameters.get(f"{which}ClusteringColumns") or "")
    yield from (name for name in (part.strip() for part in text.split(",")) if name)


def settings_changes(table: Table, limit: int) -> list[SettingsChange]:
    """Return the latest stored versions that changed properties, latest first."""
    defining = table.commits.filter(DEFINES, changes_metadata=True).order_by("-version")[
        :_LOOKED_AT
    ]
    before: Mapping[str, str] | None = None
    history: list[SettingsChange] = []
    for commit in reversed(list(defining)):
        metadata, _ = read_definition_actions(commit)
        now = dict(metadata.configuration) if metadata else None
        if before is not None and now is not None:
            changes = tuple(_changes(before, now))
            if changes:
                history.append(_add_revert(table, commit, changes))
        before = now
    return history[::-1][:limit]


def _changes(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[PropertyChange]:
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name) and not name.startswith(_KEPT_BY_ENGINES):
            yield PropertyChange(name, before.get(name), now.get(name))


def _add_revert(
    table: Table, commit: Commit, changes: tuple[PropertyChange, ...]
) -> SettingsChange:
    free = [change for change in changes if change.name not in _ONE_WAY]
    current = [change for change in free if table.properties.get(change.name) != change.old]
    back = {change.name: change.old for change in current if change.old is not None}
    gone = [change.name for change in current if change.old is None]
    commands = []
    if back:
        commands.append(RestoringJob("set_properties", {"properties": back}))
    if gone:
        commands.append(RestoringJob("unset_properties", {"keys": gone, "if_exists": True}))
    obstacles = [_ONE_WAY[change.name] for change in changes if change.name in _ONE_WAY]
    in_force = all(table.properties.get(change.name) == change.new for change in changes)
    return SettingsChange(commit, changes, tuple(commands), "; ".join(obstacles), in_force)
