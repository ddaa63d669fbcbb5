"""The dashboard's own mirror and jobs read and write a managed table through the catalog."""

import pytest
from django.contrib.auth.models import User

from engine.actions.table import SetTransaction
from engine.catalog.catalog import CatalogTableName
from engine.errors import CatalogManagedTableError, TableNotFoundError
from engine.table import DeltaTable
from lakeui.catalog.database_catalog import DatabaseCatalog
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
