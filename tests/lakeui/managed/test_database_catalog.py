"""The dashboard's own mirror and jobs read and write a managed table through the catalog."""

import pytest
from django.contrib.auth.models import User

from engine.actions.table import SetTransaction
from engine.catalog.catalog import CatalogTableName, GroupCommit, ProposedCommit
from engine.errors import (
    CatalogManagedTableError,
    GroupRefusedError,
    InvalidCommitError,
    TableNotFoundError,
    VersionTakenError,
)
from engine.table import DeltaTable
from lakeui.catalog.database_catalog import DatabaseCatalog, show_table
from lakeui.catalog.managed_tables import create_catalog, create_schema, open_location
from lakeui.catalog.mirror import refresh_table
from lakeui.managed.models import CommitAttempt, ManagedTable
from tests.lakeui.managed.staged import SCHEMA, lines, make_managed, propose, stage
from workers.job_tables import open_table


@pytest.fixture
def user(db):
    return User.objects.create_user("ann")


@pytest.fixture
def table(user):
    return make_managed(user)


def test_the_mirror_follows_the_catalog_and_not_the_log(table, user):
    store = open_location(table)
    propose(table, stage(store, 1, lines(1, operation="OPTIMIZE")), user)
    store.put_if_absent("_delta_log/00000000000000000002.json", lines(2))
    refresh_table(table.mirror)
    mirror = table.mirror
    assert (mirror.version, mirror.last_operation, mirror.mirror_error) == (1, "OPTIMIZE", "")


def test_a_job_commits_through_the_catalog(table, user):
    one, other = open_table(table.location), open_table(table.location)
    losing, winning = one.start_transaction(), other.start_transaction()
    for txn, name in ((losing, "a"), (winning, "b")):
        txn.stage(SetTransaction(app_id=name, version=1))
    assert winning.commit("WRITE") == 1
    assert losing.commit("WRITE") == 2  # rebased
    table.refresh_from_db()
    assert (table.latest_version, table.published_version) == (2, 0)
    assert not CommitAttempt.objects.exists()
    assert open_table(table.location).version() == 2
    with pytest.raises(CatalogManagedTableError):
        DeltaTable.open(table.location)


def test_the_engine_creates_opens_and_drops_a_table_by_its_name(user):
    schema = create_schema(create_catalog("lake", user), "sales", user)
    catalog = DatabaseCatalog(user)
    DeltaTable.create(f"{schema}.orders", SCHEMA, catalog=catalog)
    opened = DeltaTable.open(f"{schema}.orders", catalog=catalog)
    txn = opened.start_transaction()
    txn.stage(SetTransaction(app_id="a", version=1))
    assert txn.commit("WRITE") == 1
    name = CatalogTableName("lake", "sales", "orders")
    assert catalog.read_versions([catalog.resolve_table(name)]) == (1,)
    assert ManagedTable.objects.get().created_by == user
    catalog.drop_table(name)
    with pytest.raises(TableNotFoundError):
        DeltaTable.open(f"{schema}.orders", catalog=catalog)


def test_the_commits_of_a_group_are_ratified_together_or_not_at_all(user):
    rows = [make_managed(user, name) for name in ("a", "b", "c")]
    catalog = DatabaseCatalog(user)
    tables = [show_table(row) for row in rows]

    def propose_group(*versions):
        return [
            GroupCommit(table, ProposedCommit(stage(open_location(row), v, lines(v))), None)
            for table, row, v in zip(tables[:2], rows[:2], versions, strict=True)
        ]

    def latest():
        return catalog.read_versions(tables)

    group = propose_group(1, 1)
    catalog.ratify_group(group, {tables[2].name: 0})
    catalog.ratify_group(group, {tables[2].name: 0})  # the same again
    assert latest() == (1, 1, 0)
    with pytest.raises(GroupRefusedError) as refused:
        catalog.ratify_group(propose_group(2, 1), {})
    assert refused.value.table_id == tables[1].table_id
    assert isinstance(refused.value.cause, VersionTakenError)
    propose(rows[2], stage(open_location(rows[2]), 1, lines(1)), user)
    with pytest.raises(GroupRefusedError) as refused:
        catalog.ratify_group(propose_group(2, 2), {tables[2].name: 0})
    assert refused.value.table_id == tables[2].table_id
    with pytest.raises(GroupRefusedError) as refused:
        catalog.ratify_group(propose_group(2, 4), {tables[2].name: 1})
    assert isinstance(refused.value.cause, InvalidCommitError)
    assert latest() == (1, 1, 1)
