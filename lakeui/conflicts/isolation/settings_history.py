"""Changes by versions of the settings that decide conflicts: properties, and clustering columns."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakeui.catalog.definitions import DEFINES, read_definition_actions
from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.isolation.overlaps import Overlaps
from lakeui.conflicts.statements.kinds import DEFINITION

CLUSTERING = "clustering columns"
_LOOKED_AT = 60
_KEPT_BY_ENGINES = ("delta.columnMapping.max", "delta.rowTracking.mat", "delta.inCommitTimestampEn")
_ONE_WAY = {
    "delta.columnMapping.mode": "column mapping is not switched off: the files bear its names",
}


@dataclass(frozen=True, slots=True)
class PropertyChange:
    """A change; `old` or `new` is None if the property was not set."""

    name: str
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True)
class Command:
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
    revert: tuple[Command, ...]
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
    revert = () if is_back else (Command("alter_cluster_by", {"columns": old}),)
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
        commands.append(Command("set_properties", {"properties": back}))
    if gone:
        commands.append(Command("unset_properties", {"keys": gone, "if_exists": True}))
    obstacles = [_ONE_WAY[change.name] for change in changes if change.name in _ONE_WAY]
    in_force = all(table.properties.get(change.name) == change.new for change in changes)
    return SettingsChange(commit, changes, tuple(commands), "; ".join(obstacles), in_force)
