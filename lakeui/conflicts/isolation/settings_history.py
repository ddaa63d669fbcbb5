"""What versions did to the settings that decide who conflicts: properties, and clustering columns."""

from collections.abc import Iterator
from typing import Any

from lakeui.catalog.models import Commit, Table
from lakeui.catalog.property_changes import (
    Command,
    PropertyChange,
    SettingsChange,
    settings_changes,
)
from lakeui.conflicts.isolation.overlaps import Overlaps
from lakeui.conflicts.statements.kinds import DEFINITION

CLUSTERING = "clustering columns"
_LOOKED_AT = 60


def settings_history(table: Table, overlaps: Overlaps, limit: int) -> list[SettingsChange]:
    """The newest first. Clustering is looked for in the window that was counted: no index has it."""
    versions = [commit.version for commit in overlaps.landed if commit.kind == DEFINITION]
    clustered = table.commits.filter(
        version__in=versions[-_LOOKED_AT:], changes_metadata=False, operation="CLUSTER BY"
    )
    narrow = clustered.only(
        "table", "version", "operation_parameters", "user_name", "committed_at", "operation"
    )
    changes = [
        *settings_changes(table, limit),
        *(_of_clustering(table, commit) for commit in narrow),
    ]
    return sorted(changes, key=lambda change: -change.commit.version)[:limit]


def _of_clustering(table: Table, commit: Commit) -> SettingsChange:
    old, new = (list(_columns(commit, name)) for name in ("old", "new"))
    change = PropertyChange(CLUSTERING, ", ".join(old) or None, ", ".join(new) or None)
    is_back = old == list(table.clustering_columns)
    revert = () if is_back else (Command("alter_cluster_by", {"columns": old}),)
    return SettingsChange(commit, (change,), revert, "", new == list(table.clustering_columns))


def _columns(commit: Commit, which: str) -> Iterator[str]:
    parameters: dict[str, Any] = commit.operation_parameters or {}
    text = str(parameters.get(f"{which}ClusteringColumns") or "")
    yield from (name for name in (part.strip() for part in text.split(",")) if name)
