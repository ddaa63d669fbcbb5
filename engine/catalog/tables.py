"""Tables by their names in a catalog: open one, or reserve the place of a new one."""

from collections.abc import Mapping

from engine.catalog.catalog import Catalog, CatalogTable, CatalogTableName
from engine.catalog.managed_store import ManagedStore
from engine.clock import Clock
from engine.log.management import CATALOG_MANAGED
from engine.storage.base import Store
from engine.storage.uri import open_store


def open_catalog_store(
    catalog: Catalog, name: str, storage_options: Mapping[str, str], clock: Clock | None
) -> tuple[Store, dict[str, str]]:
    """Open the store of a catalog's table, with its options; a plain one by its location.

    Raises:
        RequestError: the name has not three parts.
        TableNotFoundError: the catalog has no such table.
        CatalogError: the catalog failed or refused.
    """
    table = catalog.resolve_table(CatalogTableName.parse(name))
    options = {**table.storage_options, **storage_options}
    files = open_store(table.location, options)
    if not table.is_managed:
        return files, options
    return ManagedStore(files, catalog, table, clock=clock), options


def stage_store(
    catalog: Catalog, name: str, storage_options: Mapping[str, str], clock: Clock | None
) -> tuple[ManagedStore, dict[str, str]]:
    """Reserve the place of a new managed table. Its version 0 gives it its name.

    Raises:
        TableExistsError: the catalog has a table of this name.
        RequestError, CatalogError: as in `open_catalog_store`.
    """
    table = catalog.stage_table(CatalogTableName.parse(name))
    options = {**table.storage_options, **storage_options}
    files = open_store(table.location, options)
    return ManagedStore(files, catalog, table, clock=clock, is_staged=True), options


def build_properties(table: CatalogTable, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a new managed table: the given ones, and those that it must have."""
    features = {f"delta.feature.{name}": "supported" for name in table.required_features}
    return {
        **properties,
        **features,
        f"delta.feature.{CATALOG_MANAGED}": "supported",
        **table.required_properties,
        "delta.enableInCommitTimestamps": "true",
    }
