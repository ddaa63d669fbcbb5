"""The engine as a client of this catalog, over HTTP in both generations."""

import threading
from contextlib import ExitStack, closing
from datetime import timedelta

import pytest
from django.contrib.auth.models import User

from engine.actions.table import SetTransaction
from engine.catalog.catalog import CatalogTableName
from engine.catalog.unity import UnityCatalog, _PreviewApi
from engine.errors import CatalogDeniedError, CatalogTableMissingError, TableNotFoundError
from engine.table import DeltaTable
from lakeui.api.models import ApiToken
from lakeui.catalog.managed_tables import create_catalog, create_schema
from lakeui.catalog.roles import Role
from lakeui.managed.models import ManagedTable, RatifiedVersion
from tests.lakeui.managed.staged import SCHEMA

NAME = "lake.sales.orders"


@pytest.fixture
def connect(live_server, transactional_db):
    """Connect in a generation of the API, with a new token of a person."""
    with ExitStack() as opened:

        def connect_as(generation, user, role=Role.ADMIN):
            lifetime = timedelta(days=1)
            _, token = ApiToken.objects.create(user=user, name="x", role=role, expiry=lifetime)
            catalog = opened.enter_context(closing(UnityCatalog(live_server.url, token)))
            if generation == "preview":
                catalog._apis["lake"] = _PreviewApi(catalog._server)
            return catalog

        yield connect_as


def commit(table, application):
    txn = table.start_transaction()
    txn.stage(SetTransaction(app_id=application, version=1))
    return txn.commit("WRITE")


@pytest.mark.parametrize("generation", ["preview", "v1"])
def test_the_engine_creates_writes_and_drops_a_table_over_http(connect, generation):
    user = User.objects.create_superuser("root")
    create_schema(create_catalog("lake", user), "sales", user)
    catalog = connect(generation, user)
    table = DeltaTable.create(NAME, SCHEMA, catalog=catalog)
    assert commit(table, "first") == 1
    landed, start = [], threading.Barrier(3)

    catalogs = [connect(generation, user) for _ in range(3)]

    def write(number):
        own = DeltaTable.open(NAME, catalog=catalogs[number])
        start.wait()
        landed.extend(commit(own, f"{number}-{attempt}") for attempt in range(3))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(landed) == [*range(2, 11)]
    assert table.version() == 10
    versions = RatifiedVersion.objects.order_by("version").values_list("version", flat=True)
    assert [*versions] == [*range(1, 11)]
    reader = DeltaTable.open(NAME, catalog=connect(generation, user, Role.VIEWER))
    with pytest.raises(CatalogDeniedError):
        commit(reader, "reader")
    catalog.drop_table(CatalogTableName.parse(NAME))
    with pytest.raises(CatalogTableMissingError):
        commit(table, "late")
    with pytest.raises(TableNotFoundError):
        DeltaTable.open(NAME, catalog=catalog)
    assert ManagedTable.objects.get().latest_version == 10
