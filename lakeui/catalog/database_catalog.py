"""The catalog for this process: the engine's protocol over the database, without HTTP."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from django.contrib.auth.models import User

from engine.catalog.catalog import (
    Catalog,
    CatalogTable,
    CatalogTableName,
    GroupCommit,
    ProposedCommit,
    RatifiedCommits,
    refuse_group,
)
from engine.catalog.managed_store import ManagedStore
from engine.errors import TableNotFoundError
from engine.log.management import MAINTENANCE, UNITY_TABLE_ID
from engine.storage.base import Store
from engine.storage.uri import open_store
from lakeui.catalog.managed_tables import (
    drop_table,
    open_location,
    register_managed,
    reserve_table,
)
from lakeui.catalog.models import Table
from lakeui.managed.models import ManagedSchema, ManagedTable, ReservedTable
from lakeui.managed.ratification import (
    CommitOrigin,
    GroupProposal,
    begin_table,
    check_proposal,
    list_commits,
    note_published,
    ratify,
    ratify_group,
    table_missing_error,
)


class DatabaseCatalog(Catalog):
    """The tables of this installation's catalog. The caller has checked the rights of `by`.

    What it refuses is not kept as an attempt: its callers record their conflicts themselves.
    """

    name = "the catalog of this installation"
    commits_groups = True

    def __init__(self, by: User | None = None) -> None:
        """Act on behalf of a person, if one is given."""
        self._by = by

    def resolve_table(self, name: CatalogTableName) -> CatalogTable:
        """Find a table."""
        return show_table(self._find(name))

    def list_commits(self, table: CatalogTable) -> RatifiedCommits:
        """Return the latest version and the last commits."""
        row = self._row(table)
        if row.latest_version < 0:
            begin_table(row, open_location(row))
        return list_commits(row)

    def ratify(
        self, table: CatalogTable, proposal: ProposedCommit, published_version: int | None
    ) -> None:
        """Ratify a staged commit as the version after the latest."""
        row, origin = self._row(table), CommitOrigin(self._by.pk if self._by else None)
        checked = check_proposal(row, proposal.commit, origin, open_location(row))
        if checked is not None:
            ratify(row, checked, origin, published_version, keeps_attempts=False)

    def ratify_group(
        self, commits: Sequence[GroupCommit], unchanged: Mapping[CatalogTableName, int]
    ) -> None:
        """Ratify a commit of each of several tables, or none of them."""
        origin = CommitOrigin(self._by.pk if self._by else None)
        proposals: list[GroupProposal] = []
        for one in commits:
            row = self._row(one.table)
            with refuse_group(one.table.table_id):
                checked = check_proposal(row, one.proposal.commit, origin, open_location(row))
            if checked is not None:
                proposals.append(GroupProposal(row, checked, one.published_version))
        keys = {self._find(name).pk: version for name, version in unchanged.items()}
        if proposals:
            ratify_group(proposals, keys, origin, keeps_attempts=False)

    def report_published(self, table: CatalogTable, version: int) -> None:
        """Note that all versions up to one are published."""
        note_published(self._row(table), version)

    def read_versions(self, tables: Sequence[CatalogTable]) -> tuple[int, ...]:
        """Return the latest versions of several tables at one moment."""
        ids = [table.table_id for table in tables]
        rows = ManagedTable.objects.filter(table_id__in=ids, dropped_at=None)
        latest = {
            str(table_id): v for table_id, v in rows.values_list("table_id", "latest_version")
        }
        for table in tables:
            if table.table_id not in latest:
                raise table_missing_error(table.name, table.table_id)
        return tuple(latest[table.table_id] for table in tables)

    def stage_table(self, name: CatalogTableName) -> CatalogTable:
        """Reserve an id and a location for a new managed table."""
        schema = ManagedSchema.objects.filter(catalog__name=name.catalog, name=name.schema).first()
        if schema is None:
            what = f"There is no schema {name.catalog}.{name.schema}."
            raise TableNotFoundError(what, "Create it first.")
        table = show_table(reserve_table(schema, name.table, self._by))
        return replace(table, required_properties={UNITY_TABLE_ID: table.table_id})

    def register_table(self, staged: CatalogTable, first: ProposedCommit) -> None:
        """Give a staged table its name, once its version 0 is in its log."""
        del first  # read from the log
        reserved = ReservedTable.objects.filter(table_id=staged.table_id).first()
        if reserved is None:
            raise table_missing_error(staged.name, staged.table_id)
        register_managed(reserved, {}, is_written=True)

    def drop_table(self, name: CatalogTableName) -> None:
        """Remove a table from the catalog; its files stay."""
        drop_table(self._find(name))

    def _find(self, name: CatalogTableName) -> ManagedTable:
        row = ManagedTable.objects.filter(full_name=str(name), dropped_at=None).first()
        if row is None:
            what = f"There is no table {name} in the catalog."
            raise TableNotFoundError(what, "Check the name, or create the table.")
        return row

    def _row(self, table: CatalogTable) -> ManagedTable:
        row = ManagedTable.objects.filter(table_id=table.table_id, dropped_at=None).first()
        if row is None:
            raise table_missing_error(table.name, table.table_id)
        return row


def open_table_store(place: str, options: Mapping[str, str]) -> Store:
    """Open the store of a registered table; that of a managed one follows the catalog."""
    files = open_store(place, options)
    row = ManagedTable.objects.filter(location=place).first()
    return files if row is None else ManagedStore(files, DatabaseCatalog(), show_table(row))


def may_commit_together(table: Table, other: Table) -> bool:
    """Return whether one transaction may change both tables: one table, or managed ones."""
    uris = {table.uri, other.uri}
    managed = ManagedTable.objects.filter(location__in=uris, dropped_at=None)
    return len(uris) == 1 or managed.count() == len(uris)


def show_table(row: ManagedTable | ReservedTable) -> CatalogTable:
    """Return a table as the engine knows it. Jobs of this installation may do any maintenance."""
    name = CatalogTableName(*f"{row}".split("."))
    return CatalogTable(name, str(row.table_id), row.location, permitted=MAINTENANCE)
