"""Clustering columns of a table (protocol: Clustered Table)."""

import msgspec

from engine.actions.table import DomainMetadata
from engine.errors import MalformedLogError
from engine.schema.column_paths import ColumnPath

CLUSTERING_DOMAIN = "delta.clustering"


def clustering_paths(domain: DomainMetadata | None) -> tuple[ColumnPath, ...]:
    """Return the physical paths in a domain; () without a domain.

    Raises:
        MalformedLogError: it does not list columns.
    """
    if domain is None or domain.removed:
        return ()
    try:
        listed = msgspec.json.decode(domain.configuration)["clusteringColumns"]
        return tuple(msgspec.convert(listed, list[ColumnPath]))
    except (msgspec.MsgspecError, RecursionError, KeyError, TypeError) as error:
        msg = f"The {CLUSTERING_DOMAIN} domain is not a list of columns: {error}."
        raise MalformedLogError(msg, "Set the clustering columns again.") from error
