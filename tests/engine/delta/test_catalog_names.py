# ruff: noqa: S608 - statements are what is tested
"""Tables of Unity Catalog by their names in an enabled session."""

import pytest

from engine.catalog.catalog import CatalogTableName
from engine.catalog.embedded import EmbeddedCatalog
from engine.delta.tables import DeltaTable
from engine.errors import EngineError
from engine.log.management import MAINTENANCE
from tests.engine.catalog.unity_server import TOKEN, UnityServer, serve

pytestmark = pytest.mark.spark
ORDERS, COPY = "cat.sales.orders", "cat.sales.copy"


@pytest.fixture
def catalog(lake, tmp_path):
    """A catalog that the session names `cat`."""
    catalog = EmbeddedCatalog(tmp_path / "catalog.db", str(tmp_path / "managed"))
    catalog.permitted = MAINTENANCE  # as the server tells it
    with serve(UnityServer(catalog, str(tmp_path / "managed"), True)) as address:
        lake.conf.set("spark.sql.catalog.cat.uri", address)
        lake.conf.set("spark.sql.catalog.cat.token", TOKEN)
        yield catalog
        lake.conf.unset("spark.sql.catalog.cat.uri")
        lake.conf.unset("spark.sql.catalog.cat.token")


def _rows(frame):
    return sorted(map(tuple, frame.collect()))


def test_statements_name_a_catalogs_tables_in_every_place(lake, catalog):
    for statement in (
        f"CREATE TABLE {ORDERS} (id BIGINT, v STRING)",
        f"CREATE TABLE IF NOT EXISTS {ORDERS} (other INT)",
        f"INSERT INTO {ORDERS} VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        f"UPDATE {ORDERS} SET v = 'x' WHERE {ORDERS}.id = 1",
        f"DELETE FROM {ORDERS} WHERE id = 2",
        f"CREATE TABLE {COPY} AS SELECT * FROM {ORDERS} WHERE id = 3",
        f"MERGE INTO {COPY} t USING {ORDERS} s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = 'm' WHEN NOT MATCHED THEN INSERT *",
        f"ALTER TABLE {ORDERS} SET TBLPROPERTIES ('a' = 'b')",
        f"BEGIN ATOMIC INSERT INTO {ORDERS} VALUES (9, 'z'); DELETE FROM {ORDERS} WHERE id = 3; END",
    ):
        lake.sql(statement)
    assert _rows(lake.sql(f"SELECT * FROM {ORDERS}")) == [(1, "x"), (9, "z")]
    assert _rows(lake.sql(f"SELECT {ORDERS}.id FROM {ORDERS} WHERE sales.orders.id > 1")) == [(9,)]
    assert _rows(lake.sql(f"SELECT id FROM {ORDERS} VERSION AS OF 1")) == [(1,), (2,), (3,)]
    joined = lake.sql(f"SELECT o.id, c.v FROM {ORDERS} o JOIN {COPY} c ON o.id = c.id")
    assert _rows(joined) == [(1, "x")]
    assert _rows(lake.table(COPY)) == [(1, "x"), (3, "m")]
    assert DeltaTable.forName(lake, ORDERS).history().count() == 6
    lake.range(1).selectExpr("id", "'w' v").write.mode("append").saveAsTable(COPY)
    assert lake.read.table(COPY).count() == 3
    table = catalog.resolve_table(CatalogTableName.parse(ORDERS))
    assert catalog.list_commits(table).latest_version == 5, "the catalog decided each commit"
    lake.sql(f"DROP TABLE {COPY}")
    lake.sql(f"DROP TABLE IF EXISTS {COPY}")
    with pytest.raises(EngineError, match="copy"):
        lake.sql(f"DROP TABLE {COPY}")


def test_what_a_catalogs_table_cannot_be_is_refused_by_name(lake, catalog, tmp_path):
    lake.sql(f"CREATE TABLE {ORDERS} (id BIGINT)")
    for statement, said in (
        (f"CREATE TABLE {ORDERS} (id BIGINT)", "orders"),
        (f"CREATE OR REPLACE TABLE {ORDERS} (id INT)", "cannot be replaced"),
        (f"CREATE TABLE {COPY} DEEP CLONE {ORDERS}", "cannot be replaced or cloned into"),
        (
            f"CREATE TABLE {COPY} (id INT) LOCATION '{tmp_path}/x'",
            "The catalog chooses the location",
        ),
    ):
        with pytest.raises(EngineError, match=said):
            lake.sql(statement)
    assert _rows(lake.table(ORDERS)) == []
