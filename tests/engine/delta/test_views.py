"""Permanent views over Delta tables: Spark's catalog keeps their text, queries read the latest version."""
# ruff: noqa: S608 - the only names in these statements are the tables of this module

import pytest
from pyspark.errors import AnalysisException, NumberFormatException

from engine.delta import DeltaTable, enable
from engine.delta.statement_views import StatementNotRoutedError
from tests.engine.delta.conftest import rows_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]


@pytest.fixture
def orders(lake):
    lake.sql("DROP DATABASE shop CASCADE")
    lake.sql("CREATE DATABASE shop")
    lake.sql("USE shop")
    lake.sql(
        "CREATE TABLE orders (id INT, state STRING) USING delta"
        " TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    lake.sql("INSERT INTO orders VALUES (1, 'new'), (2, 'paid')")


def test_a_view_reads_the_latest_version_by_every_name_and_in_every_session(lake, orders):
    lake.sql("CREATE VIEW paid AS SELECT id FROM orders WHERE state = 'paid'")
    lake.sql(
        "CREATE VIEW twice (n COMMENT 'doubled') AS WITH p AS (SELECT * FROM paid) SELECT 2 * id AS n FROM p"
    )
    lake.sql("CREATE TEMP VIEW largest AS SELECT max(n) AS n FROM twice")
    frame = lake.table("twice")
    other = enable(lake.newSession())  # its database is default
    lake.sql("INSERT INTO orders VALUES (3, 'paid')")
    lake.sql("DELETE FROM orders WHERE id = 2")
    assert rows_of(frame) == [(6,)]
    assert rows_of(lake.table("largest")) == [(6,)]
    for session, name in [
        (lake, "twice"),
        (other, "shop.twice"),
        (other, "spark_catalog.shop.twice"),
    ]:
        assert rows_of(session.table(name)) == [(6,)], name
        assert rows_of(session.sql(f"SELECT n FROM {name} AS v WHERE v.n > 0")) == [(6,)], name
        assert rows_of(session.sql(f"SELECT twice.n FROM {name}")) == [(6,)], name
    assert lake.table("twice").schema["n"].metadata["comment"] == "doubled"


def test_every_form_of_a_query_in_a_view_reads_its_delta_tables(lake, orders, tmp_path):
    place = str(tmp_path / "items")
    lake.sql(f"CREATE TABLE delta.`{place}` (id INT) USING delta")
    lake.sql(f"INSERT INTO delta.`{place}` VALUES (2), (5)")
    lake.sql("CREATE TABLE plain (id INT) USING parquet")
    lake.sql("INSERT INTO plain VALUES (1), (5)")
    queries = {
        "path": (f"SELECT id FROM delta.`{place}`", [2, 5]),
        "qualified": ("SELECT shop.orders.id FROM shop.orders", [1, 2]),
        "self_join": ("SELECT a.id FROM orders a JOIN orders b ON a.id = b.id + 1", [2]),
        "subquery": ("SELECT id FROM plain WHERE id IN (SELECT id FROM orders)", [1]),
        "correlated": (
            f"SELECT id FROM delta.`{place}` i WHERE EXISTS (SELECT 1 FROM orders o WHERE o.id = i.id)",
            [2],
        ),
        "scalar": ("SELECT (SELECT max(id) FROM orders) AS id", [2]),
        "union_all": ("SELECT id FROM plain UNION ALL SELECT id FROM orders", [1, 1, 2, 5]),
        "with_queries": (
            "WITH a AS (SELECT id FROM orders), b AS (WITH c AS (SELECT id FROM a) SELECT id FROM c)"
            " SELECT id FROM b",
            [1, 2],
        ),
        "hidden_name": ("WITH orders AS (SELECT 7 AS id) SELECT id FROM orders", [7]),
        "time_travel": ("SELECT id FROM orders VERSION AS OF 0", []),
        "changes": ("SELECT id FROM table_changes('orders', 1, 1)", [1, 2]),
        "no_delta": ("SELECT id FROM plain", [1, 5]),
    }
    lake.sql("CREATE DATABASE elsewhere")
    for name, (query, _) in queries.items():
        lake.sql(f"CREATE VIEW {name} AS {query}")
    lake.sql("USE elsewhere")
    read = {
        name: sorted(row.id for row in lake.sql(f"SELECT id FROM shop.{name}").collect())
        for name in queries
    }
    lake.sql("USE shop")
    lake.sql("DROP DATABASE elsewhere")
    assert read == {name: ids for name, (_, ids) in queries.items()}


def test_a_view_is_altered_replaced_described_renamed_and_dropped(lake, orders):
    lake.sql("CREATE VIEW v COMMENT 'open ones' TBLPROPERTIES ('k' = 'x') AS SELECT id FROM orders")
    lake.sql("CREATE VIEW IF NOT EXISTS v AS SELECT state FROM orders")
    assert lake.table("v").columns == ["id"]
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        lake.sql("CREATE VIEW v AS SELECT state FROM orders")
    described = {row.col_name: row.data_type for row in lake.sql("DESCRIBE EXTENDED v").collect()}
    assert described["View Text"] == "SELECT id FROM orders"
    assert (described["Type"], described["Comment"]) == ("VIEW", "open ones")
    lake.sql("ALTER VIEW v AS SELECT state FROM orders")
    assert rows_of(lake.sql("SELECT * FROM v")) == [("new",), ("paid",)]
    lake.sql("ALTER VIEW v SET TBLPROPERTIES ('k' = 'y')")
    lake.sql("ALTER VIEW v RENAME TO w")
    assert rows_of(lake.table("w")) == [("new",), ("paid",)]
    lake.sql("CREATE OR REPLACE VIEW w AS SELECT id, state FROM orders WHERE id = 1")
    assert rows_of(lake.table("w")) == [(1, "new")]
    lake.sql("DROP VIEW w")
    assert not lake.catalog.tableExists("w")


def test_a_temporary_view_is_altered(lake, orders):
    lake.sql("CREATE TEMP VIEW passing AS SELECT id FROM orders")
    lake.sql("CREATE GLOBAL TEMP VIEW passing AS SELECT id FROM orders")
    for name in ("passing", "global_temp.passing"):
        lake.sql(f"ALTER VIEW {name} AS SELECT state FROM orders WHERE id = 1")
        assert rows_of(lake.table(name)) == [("new",)], name
        lake.sql(f"DROP VIEW {name}")


def test_a_view_follows_the_rules_of_spark_on_the_tables_it_reads(lake, orders):
    lake.sql("CREATE TEMP VIEW passing AS SELECT id FROM orders")
    lake.sql("CREATE VIEW v AS SELECT id FROM orders")
    lake.sql("CREATE VIEW w AS SELECT id FROM v")
    errors = {
        "CREATE VIEW x AS SELECT * FROM passing": "INVALID_TEMP_OBJ_REFERENCE",
        "CREATE OR REPLACE VIEW v AS SELECT id FROM w": "RECURSIVE_VIEW",
        "ALTER VIEW v AS SELECT id FROM w": "RECURSIVE_VIEW",
        "CREATE VIEW x AS SELECT nothing FROM orders": "UNRESOLVED_COLUMN",
        "CREATE VIEW x (a, b) AS SELECT id FROM orders": "CREATE_VIEW_COLUMN_ARITY_MISMATCH",
        "CREATE OR REPLACE VIEW orders AS SELECT id FROM v": "EXPECT_VIEW_NOT_TABLE",
        "SELECT * FROM v VERSION AS OF 0": "UNSUPPORTED_FEATURE.TIME_TRAVEL",
        "INSERT INTO v VALUES (1)": "EXPECT_TABLE_NOT_VIEW|UNSUPPORTED_INSERT",
    }
    for statement, code in errors.items():
        with pytest.raises(AnalysisException, match=code):
            lake.sql(statement)
    assert rows_of(lake.sql("SELECT * FROM w")) == [(1,), (2,)]
    lake.sql("DROP VIEW passing")


def test_a_view_keeps_its_columns_when_its_table_gets_more_and_fails_when_one_is_dropped(
    lake, orders
):
    lake.sql("ALTER TABLE orders SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    lake.sql("CREATE VIEW v AS SELECT * FROM orders")
    lake.sql("CREATE VIEW follower WITH SCHEMA EVOLUTION AS SELECT * FROM orders")
    lake.sql("ALTER TABLE orders ADD COLUMN total INT")
    assert lake.table("v").columns == ["id", "state"]
    assert lake.table("follower").columns == ["id", "state", "total"]
    lake.sql("ALTER TABLE orders DROP COLUMN state")
    with pytest.raises(
        AnalysisException, match=r"INCOMPATIBLE_VIEW_SCHEMA_CHANGE|UNRESOLVED_COLUMN"
    ):
        lake.table("v")
    assert lake.table("follower").columns == ["id", "total"]
    assert [column.name for column in lake.catalog.listColumns("follower")] == ["id", "total"]


def test_a_write_from_a_view_counts_as_a_read_of_its_tables(lake, orders):
    lake.sql("CREATE VIEW raised AS SELECT id + 10 AS id, 'raised' AS state FROM orders")
    for _ in range(2):
        lake.sql("MERGE INTO orders t USING raised s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *")
    assert sorted(row.id for row in lake.table("orders").collect()) == [1, 2, 11, 12, 21, 22]
    lake.sql("INSERT INTO orders SELECT * FROM raised WHERE id = 31")
    lake.sql("CREATE TABLE copy USING delta AS SELECT * FROM raised")
    assert lake.table("copy").count() == 7
    written = DeltaTable.forName(lake, "orders").history(1).first()
    assert written.isBlindAppend is False


def test_a_table_is_described_and_commented_on_as_by_delta_spark(lake, orders):
    lake.sql("COMMENT ON TABLE orders IS 'all of them'")
    described = [tuple(row)[:2] for row in lake.sql("DESCRIBE EXTENDED orders").collect()]
    assert described[:2] == [("id", "int"), ("state", "string")]
    details = dict(described[described.index(("# Detailed Table Information", "")) + 1 :])
    properties, place = details.pop("Table Properties"), details.pop("Location")
    assert "delta.minReaderVersion=" in properties
    assert place.endswith("/shop.db/orders")
    details.pop("Owner", "")  # the catalog of tests keeps none
    assert details == {
        "Catalog": "spark_catalog", "Namespace": "shop", "Database": "shop", "Table": "orders",
        "Type": "MANAGED", "Comment": "all of them", "Provider": "delta",
        "Is_managed_location": "true",
    }  # fmt: skip
    with pytest.raises(AnalysisException, match="NOT_SUPPORTED_COMMAND_FOR_V2_TABLE"):
        lake.sql("ANALYZE TABLE orders COMPUTE STATISTICS")


def test_a_view_is_no_table_to_open_to_cache_or_to_stream(lake, orders):
    lake.sql("CREATE VIEW v AS SELECT id FROM orders")
    for name in ("v", "orders"):
        for cache in (lambda n: lake.sql(f"CACHE TABLE {n}"), lake.catalog.cacheTable):
            with pytest.raises(StatementNotRoutedError, match="cannot be cached by name"):
                cache(name)
        assert not lake.catalog.isCached(name)
        lake.catalog.uncacheTable(name)
        lake.catalog.refreshTable(name)
        assert rows_of(lake.sql(f"UNCACHE TABLE {name}")) == []
    with pytest.raises(StatementNotRoutedError, match="cannot be cached by name"):
        lake.sql("CACHE TABLE kept AS SELECT * FROM v")
    with pytest.raises(AnalysisException, match="not a Delta table"):
        DeltaTable.forName(lake, "v")
    with pytest.raises(AnalysisException, match="permanent view, which is not supported by stream"):
        lake.readStream.table("v")


def test_a_view_follows_the_settings_of_its_creation(lake, orders):
    lake.sql("CREATE TABLE events (at TIMESTAMP, n STRING) USING delta")
    lake.sql("INSERT INTO events VALUES (TIMESTAMP'2026-01-01 23:30:00+00:00', 'x')")
    query = (
        "SELECT hour(at) AS hour, CAST(at AS STRING) AS text, CAST(n AS INT) AS n,"
        " at > DATE'2026-01-02' AS later FROM events"
    )
    zone, ansi = "spark.sql.session.timeZone", "spark.sql.ansi.enabled"
    settings = {name: lake.conf.get(name) for name in (zone, ansi)}
    try:
        lake.conf.set(ansi, "false")
        lake.conf.set(zone, "Asia/Tokyo")
        lake.sql(f"CREATE VIEW of_tokyo AS {query}")
        lake.sql(
            "CREATE VIEW over_tokyo AS SELECT *, hour(TIMESTAMP'2026-01-01') AS own FROM of_tokyo"
        )
        lake.conf.set(ansi, "true")
        lake.sql("CREATE VIEW strict AS SELECT CAST(n AS INT) AS n FROM events")
        lake.conf.set(zone, "America/New_York")
        for strictness in ("true", "false"):
            lake.conf.set(ansi, strictness)
            expected = (8, "2026-01-02 08:30:00", None, True)
            assert rows_of(lake.table("of_tokyo")) == [expected]
            assert rows_of(lake.sql("SELECT *, current_timezone() FROM over_tokyo")) == [
                (*expected, 0, "America/New_York")
            ]
            assert rows_of(lake.sql("SELECT hour(at) FROM events")) == [(18,)]
            with pytest.raises(NumberFormatException, match="CAST_INVALID_INPUT"):
                lake.table("strict").collect()
    finally:
        for name, value in settings.items():
            lake.conf.set(name, value)
