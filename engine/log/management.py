"""Management of a table's log by a catalog (protocol: Catalog-managed tables).

A store that commits through a catalog has an attribute `management`. Without it, the table is
addressed by its path, where a managed table is refused.
"""

from collections.abc import Mapping
from typing import Protocol

from engine.actions.table import Protocol as TableProtocol
from engine.errors import (
    CatalogDependencyError,
    CatalogManagedTableError,
    CatalogOperationError,
    MalformedLogError,
)
from engine.protocol.features import check_readable, has_feature
from engine.protocol.properties import TableProperties
from engine.storage.base import Store

CATALOG_MANAGED = "catalogManaged"
UNITY_TABLE_ID = "io.unitycatalog.tableId"
OPTIMIZE, REORG, VACUUM, LOG_CLEANUP = "OPTIMIZE", "REORG", "VACUUM", "LOG CLEANUP"
MAINTENANCE = frozenset({OPTIMIZE, REORG, VACUUM, LOG_CLEANUP})
"""The operations that a catalog must permit (protocol: Maintenance Operations)."""


class LogManagement(Protocol):
    """The catalog of one table, as the layers below `engine.catalog` know it."""

    @property
    def catalog(self) -> str:
        """The catalog's name."""
        ...

    def publish(self, version: int) -> bool:
        """Publish the ratified commits in order; return whether a version is published."""
        ...

    def permits(self, operation: str) -> bool:
        """Return whether clients may run a maintenance operation."""
        ...


def management_of(store: Store) -> LogManagement | None:
    """Return the catalog that a store commits through; None if the store is a plain one."""
    management: LogManagement | None = getattr(store, "management", None)
    return management


def permits(store: Store, operation: str) -> bool:
    """Return whether a maintenance operation may run; on plain tables every one may."""
    management = management_of(store)
    return management is None or management.permits(operation)


def check_permitted(store: Store, operation: str) -> None:
    """Refuse maintenance that the table's catalog does not permit; other operations pass.

    `operation` is a name in the log (VACUUM START), or `LOG_CLEANUP`.

    Raises:
        CatalogOperationError: names the catalog and the operation.
    """
    management = management_of(store)
    name = operation if operation in MAINTENANCE else operation.partition(" ")[0]
    if management is not None and name in MAINTENANCE and not management.permits(name):
        raise CatalogOperationError(store.root, management.catalog, name)


def check_access(
    store: Store, protocol: TableProtocol, configuration: Mapping[str, str] | None = None
) -> None:
    """Refuse a table that cannot be read, or not this way.

    Raises:
        UnsupportedFeatureError: the protocol has a feature that this engine cannot read.
        CatalogManagedTableError: a managed table is addressed by its path.
        MalformedLogError: the catalog manages a table whose protocol says otherwise.
    """
    check_readable(store.root, protocol)
    check_management(store, protocol, configuration or {})


def check_management(
    store: Store, protocol: TableProtocol, configuration: Mapping[str, str]
) -> None:
    """Refuse a managed table by its path, and a plain one through a catalog's commits.

    Raises:
        CatalogManagedTableError, MalformedLogError: as in `check_access`.
    """
    management = management_of(store)
    is_managed = has_feature(protocol, CATALOG_MANAGED)
    if is_managed and management is None:
        raise CatalogManagedTableError(store.root, _guess_catalog(configuration))
    if management is not None and not is_managed:
        what = f"{management.catalog} manages {store.root}, but its protocol lacks catalogManaged."
        raise MalformedLogError(what, "Ask the catalog's administrator to repair the table.")


def check_terms(
    store: Store,
    protocol: TableProtocol,
    configuration: Mapping[str, str],
    earlier: Mapping[str, str] | None,
) -> None:
    """Check that a commit leaves a managed table managed, and a plain one plain.

    `protocol` and `configuration` are those after the commit. `earlier` are the properties before
    it, None if it creates the table.

    Raises:
        CatalogDependencyError: the table would become managed or plain, or lose its in-commit
            timestamps or its id.
        CatalogOperationError: Iceberg clients would read a managed table by its path.
    """
    management = management_of(store)
    is_managed = has_feature(protocol, CATALOG_MANAGED)
    if management is None:
        if is_managed:
            what = f"{store.root} cannot become catalog-managed by its path."
            raise CatalogDependencyError(what, "Create a table of this kind in its catalog.")
        return
    properties = TableProperties.parse(configuration)
    if properties.universal_formats:
        raise CatalogOperationError(store.root, management.catalog, "Iceberg metadata")
    if not (is_managed and properties.in_commit_timestamps):
        what = (
            f"{store.root} needs catalogManaged and in-commit timestamps, as a catalog manages it."
        )
        raise CatalogDependencyError(what, "Leave both as they are.")
    if earlier is not None and configuration.get(UNITY_TABLE_ID) != earlier.get(UNITY_TABLE_ID):
        what = f"The catalog knows {store.root} by {UNITY_TABLE_ID}, which cannot change."
        raise CatalogDependencyError(what, "Leave this property out of the statement.")


def _guess_catalog(configuration: Mapping[str, str]) -> str:
    """Return the name of the catalog that the table properties tell; "" if they tell none."""
    table_id = configuration.get(UNITY_TABLE_ID)
    return f"Unity Catalog (table id {table_id[:100]})" if table_id else ""
