"""`spark.sql` of an enabled session: the engine runs statements about Delta tables."""

# ruff: noqa: S608 - statements with paths of this test
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException
from pyspark.sql import functions as F  # noqa: N812

from engine.delta import DeltaTable, enable
from engine.delta.session_hooks import NotEnabledError, has_delta_spark
from engine.delta.statement_views import StatementNotRoutedError
from engine.errors import EngineError
from engine.spark.data_source import register
from engine.spark.jvm import source_exists
from tests.engine.delta.conftest import rows_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]
MERGE_COLUMNS = [
    "num_affected_rows",
    "num_updated_rows",
    "num_deleted_rows",
    "num_inserted_rows",
]


@pytest.fixture
def orders(lake):
    lake.sql("CREATE TABLE orders (id BIGINT, item STRING DEFAULT 'none') USING delta")
    lake.sql("INSERT INTO orders VALUES (1, 'pen'), (2, 'ink'), (3, 'nib')")
    yield "orders"
    lake.sql("DROP TABLE IF EXISTS orders")


def rows(session, text, *arguments, **named):
    return rows_of(session.sql(text, *arguments, **named))


def test_rows_are_changed_with_values_bound_and_counted(lake, orders):
    assert rows(
        lake, "DELETE FROM orders WHERE id = :id AND item = :item", {"id": 1, "item": "x"}
    ) == [(0,)]
    hostile = "' OR 'a' = 'a"
    assert rows(lake, "DELETE FROM orders o WHERE o.item = ?", [hostile]) == [(0,)]
    assert rows(
        lake, "UPDATE orders SET item = :item WHERE reverse(item) = 'nep'", {"item": hostile}
    ) == [(1,)]
    assert rows(lake, "SELECT * FROM orders WHERE id < ?", [3]) == [(1, hostile), (2, "ink")]
    changed = lake.sql("DELETE FROM orders")
    assert changed.columns == ["num_affected_rows"]
    assert rows(lake, "SELECT count(*) FROM orders") == [(0,)]
    assert lake.sql("DESCRIBE HISTORY orders LIMIT 1").first().operation == "DELETE"


def test_merge_takes_views_queries_and_the_table_itself(lake, orders):
    updates = lake.createDataFrame([(3, "NIB"), (4, "gum")], "id bigint, item string")
    updates.createOrReplaceTempView("updates")
    result = lake.sql(
        "MERGE INTO orders t USING updates ON t.id = updates.id WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT (id, item) VALUES (updates.id, lower(updates.item))"
    )
    assert result.columns == MERGE_COLUMNS
    assert rows_of(result) == [(2, 1, 0, 1)]
    assert rows(
        lake,
        "MERGE INTO orders USING (SELECT id FROM orders WHERE id > 3) s ON orders.id = s.id "
        "WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED BY SOURCE AND orders.id = 1 THEN UPDATE SET item = sentences(item)[0][0]",
    ) == [(2, 1, 1, 0)]
    assert rows(lake, "DELETE FROM orders WHERE id IN (SELECT max(id) FROM orders)") == [(1,)]
    assert rows(lake, "SELECT * FROM orders") == [(1, "pen"), (2, "ink")]


def test_queries_read_versions_natively_and_common_names_are_their_own(lake, orders):
    lake.sql("DELETE FROM orders WHERE id = 2")
    assert rows(lake, "SELECT id FROM orders VERSION AS OF 1") == [(1,), (2,), (3,)]
    assert rows(lake, "SELECT o.id FROM orders o JOIN orders USING (id)") == [(1,), (3,)]
    assert rows(lake, "WITH orders AS (SELECT id FROM orders) SELECT * FROM orders") == [(1,), (3,)]
    assert rows(lake, "WITH orders AS (SELECT 7 AS id) SELECT * FROM orders") == [(7,)]
    assert rows(lake, "SELECT 'orders' FROM shop.orders WHERE orders.id = 3") == [("orders",)]
    moment = lake.sql("DESCRIBE HISTORY orders").filter("version = 1").first().timestamp
    text = f"SELECT count(*) FROM orders TIMESTAMP AS OF '{moment.isoformat()}'"
    assert rows(lake, text) == [(3,)]
    plan = lake.sql("SELECT id FROM orders WHERE id = 3")._jdf.queryExecution().toString()
    assert "FileScan parquet" in plan
    assert "PushedFilters: [IsNotNull(id), EqualTo(id,3)]" in plan
    assert not [v for v in lake.catalog.listTables() if v.name.startswith("__lake")]


def test_inserts_of_all_forms(lake, orders):
    lake.sql("CREATE TABLE days (n INT, day STRING) USING lake PARTITIONED BY (day)")
    lake.sql("INSERT INTO days VALUES (1, 'mon'), (2, 'tue')")
    lake.sql("INSERT INTO days BY NAME SELECT 'tue' AS day, 3 AS n")
    lake.sql("INSERT INTO days (day, n) SELECT 'wed', 4")
    lake.sql("INSERT OVERWRITE days PARTITION (day = 'tue') SELECT 5")
    lake.sql(
        "WITH s AS (SELECT 6 AS n, 'mon' AS day) INSERT INTO days REPLACE WHERE day = 'mon' SELECT * FROM s"
    )
    assert rows(lake, "TABLE days") == [(4, "wed"), (5, "tue"), (6, "mon")]
    lake.sql("CREATE TABLE unrouted USING parquet AS SELECT id FROM orders")
    lake.sql("INSERT INTO unrouted SELECT n FROM days")
    assert rows(lake, "SELECT count(*) FROM unrouted") == [(6,)]
    with pytest.raises(AnalysisException, match="has 1 columns, but the table needs 2"):
        lake.sql("INSERT INTO days SELECT 1")
    lake.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    lake.sql("INSERT OVERWRITE days SELECT 7, 'wed'")
    lake.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert rows(lake, "TABLE days") == [(5, "tue"), (6, "mon"), (7, "wed")]
    lake.sql("INSERT OVERWRITE days SELECT 8, 'sun'")
    assert rows(lake, "TABLE days") == [(8, "sun")]


def test_with_may_precede_delete_update_and_merge(lake, orders):
    lake.sql("CREATE OR REPLACE TEMP VIEW late AS SELECT 9 AS id, 'view' AS item")
    for text, left in (
        ("WITH c AS (SELECT max(id) AS m FROM orders) DELETE FROM orders WHERE id = (SELECT m FROM c)",
         [(1, "pen"), (2, "ink")]),
        ("WITH late AS (SELECT 1 AS id), b AS (SELECT id + 1 AS id FROM late) UPDATE orders o"
         " SET item = 'b' WHERE EXISTS (SELECT 1 FROM b WHERE b.id = o.id)",
         [(1, "pen"), (2, "b")]),
        ("WITH q(id, item) AS (SELECT id + 1, upper(item) FROM shop.orders) MERGE INTO orders USING q"
         " ON orders.id = q.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
         [(1, "pen"), (2, "PEN"), (3, "B")]),
    ):  # fmt: skip
        lake.sql(text)
        assert rows(lake, "TABLE orders") == left, text
        assert not lake.sql("DESCRIBE HISTORY orders LIMIT 1").first().isBlindAppend
    assert rows(lake, "TABLE late") == [(9, "view")]
    assert not [v for v in lake.catalog.listTables() if v.name.startswith("__lake")]


def test_columns_have_the_names_of_database_and_catalog_before_their_table(lake, orders):
    lake.sql("CREATE OR REPLACE TABLE stock (id BIGINT, n INT, s STRUCT<orders: INT>) USING delta")
    lake.sql("INSERT INTO stock VALUES (1, 5, named_struct('orders', 7))")
    for text, found in (
        ("SELECT shop.orders.id FROM orders WHERE SHOP.Orders.id = 1", [(1,)]),
        ("SELECT spark_catalog.shop.orders.*, `shop`.`stock`.s.orders FROM shop.orders"
         " JOIN stock ON spark_catalog.shop.orders.id = shop.stock.id", [(1, "pen", 7)]),
        ("SELECT n FROM stock WHERE EXISTS (SELECT 1 FROM orders WHERE shop.orders.id = shop.stock.id)",
         [(5,)]),
        ("SELECT 'shop.orders.id' FROM shop.orders o WHERE o.id = 1", [("shop.orders.id",)]),
        ("SELECT orders.id FROM orders ORDER BY shop.orders.id LIMIT 1", [(1,)]),
    ):  # fmt: skip
        assert rows(lake, text) == found, text
    lake.sql("UPDATE shop.orders SET shop.orders.item = 'x' WHERE spark_catalog.shop.orders.id = 1")
    lake.sql("DELETE FROM spark_catalog.shop.orders WHERE shop.orders.id = 2")
    lake.sql(
        "MERGE INTO shop.orders USING shop.stock ON shop.orders.id = shop.stock.id"
        " WHEN MATCHED THEN UPDATE SET shop.orders.item = concat(shop.orders.item, shop.stock.n)"
    )
    assert rows(lake, "TABLE orders") == [(1, "x5"), (3, "nib")]
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        lake.sql("SELECT shop.orders.id FROM orders o")
    for frame in (lake.table("orders"), lake.read.table("shop.orders")):
        for name in ("id", "orders.id", "shop.orders.id", "spark_catalog.shop.orders.id"):
            assert rows_of(frame.where(f"{name} > 1").select(name)) == [(3,)]


def test_conditions_of_a_table_have_the_names_of_database_and_catalog(lake, orders):
    lake.sql("CREATE OR REPLACE TABLE news (id BIGINT, item STRING) USING delta")
    lake.sql("INSERT INTO news VALUES (1, 'pen'), (2, 'INK'), (5, 'cap')")
    lake.udf.register("plain", lambda text: text.lower(), "string")
    lake.udf.register("alike", lambda one, other: one.lower() == other.lower(), "boolean")
    table = DeltaTable.forName(lake, "orders")
    table.update(F.col("shop.orders.id") == 1, {"shop.orders.item": "upper(shop.orders.item)"})
    table.update("plain(spark_catalog.shop.orders.item) = 'nib'", {"orders.item": F.lit("n")})
    assert rows(lake, "TABLE orders") == [(1, "PEN"), (2, "ink"), (3, "n")]
    on = "shop.orders.id = shop.news.id AND alike(Shop.Orders.item, spark_catalog.shop.news.item)"
    merge = table.merge(lake.table("news"), on)
    merge = merge.whenMatchedUpdate(
        "shop.news.id = 2", {"shop.orders.item": F.col("spark_catalog.shop.news.item")}
    )
    merge.whenNotMatchedInsert(
        values={"orders.id": "shop.news.id", "spark_catalog.shop.orders.item": "shop.news.item"}
    ).execute()
    assert rows(lake, "TABLE orders") == [(1, "PEN"), (2, "INK"), (3, "n"), (5, "cap")]
    table.delete("SHOP.orders.id = 5 AND plain(shop.orders.item) = 'cap'")
    for text in ("shop.orders.id = 1", "plain(shop.orders.item) = 'pen'", "other.orders.id = 1"):
        with pytest.raises(AnalysisException, match=r"column .*orders|UNRESOLVED_COLUMN"):
            table.alias("o").delete(text)
    table.delete(F.col("spark_catalog.shop.orders.id") > 1)
    assert rows(lake, "TABLE orders") == [(1, "PEN")]
    lake.sql("CREATE OR REPLACE TABLE news USING delta AS SELECT id, item AS shop FROM shop.news")
    DeltaTable.forName(lake, "news").delete("shop = 'pen' AND shop.news.id = 1")
    assert rows(lake, "SELECT id FROM news") == [(2,), (5,)]


def test_a_merge_target_may_be_called_source_and_its_source_target(lake, orders):
    lake.sql("CREATE OR REPLACE TEMP VIEW news AS SELECT 2 AS id, 'INK' AS item")
    lake.sql(
        "MERGE INTO orders AS source USING news AS target ON source.id = target.id"
        " WHEN MATCHED THEN UPDATE SET item = concat(source.item, target.item)"
    )
    assert rows(lake, "TABLE orders") == [(1, "pen"), (2, "inkINK"), (3, "nib")]
    lake.sql("MERGE INTO orders source USING news ON source.id = news.id WHEN MATCHED THEN DELETE")
    assert rows(lake, "TABLE orders") == [(1, "pen"), (3, "nib")]
    table = DeltaTable.forName(lake, "orders").alias("source")
    news = lake.createDataFrame([(3, "NIB")], "id bigint, item string").alias("target")
    table.merge(news, "source.id = target.id").whenMatchedUpdate(
        set={"item": F.col("target.item")}
    ).execute()
    assert rows(lake, "TABLE orders") == [(1, "pen"), (3, "NIB")]
    merge = table.merge(
        news, F.expr("sentences(source.item)[0][0] = target.item")
    ).whenMatchedDelete()
    with pytest.raises(AnalysisException, match="Give this table another alias"):
        merge.execute()  # Spark would read the other side's columns
    assert rows(lake, "TABLE orders") == [(1, "pen"), (3, "NIB")]


def test_a_dynamic_overwrite_with_one_partition_fixed_replaces_the_partitions_of_its_rows(lake):
    lake.sql(
        "CREATE TABLE shifts (n INT, day STRING, shift INT) USING delta PARTITIONED BY (day, shift)"
    )
    lake.sql("INSERT INTO shifts VALUES (1, 'mon', 1), (2, 'mon', 2), (3, 'tue', 1)")
    lake.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    lake.sql("INSERT OVERWRITE shifts PARTITION (day = 'mon', shift) SELECT 4, 1")
    lake.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert rows(lake, "SELECT n FROM shifts") == [(2,), (3,), (4,)]
    lake.sql("INSERT OVERWRITE shifts PARTITION (day = 'mon', shift) SELECT 5, 1")
    assert rows(lake, "SELECT n FROM shifts") == [(3,), (5,)]


def test_a_temporary_view_has_the_latest_rows_and_leaves_no_other_view(lake, orders):
    lake.sql("CREATE OR REPLACE TEMP VIEW recent (number) AS SELECT id FROM orders WHERE id > 1")
    lake.sql("CREATE GLOBAL TEMP VIEW shared AS SELECT * FROM orders")
    lake.sql("DELETE FROM orders WHERE id = 3")
    assert rows(lake, "SELECT number FROM recent") == [(2,)]
    assert lake.newSession().table("global_temp.shared").count() == 2
    lake.catalog.dropGlobalTempView("shared")
    assert {v.name for v in lake.catalog.listTables() if v.isTemporary} >= {"recent"}
    assert not [v.name for v in lake.catalog.listTables() if v.name.startswith("__lake")]
    with pytest.raises(AnalysisException, match="TEMP_TABLE_OR_VIEW_ALREADY_EXISTS"):
        lake.sql("CREATE TEMP VIEW recent AS SELECT id FROM orders")


def test_default_is_the_default_of_the_column(lake, orders):
    lake.sql("INSERT INTO orders VALUES (4, DEFAULT), (DEFAULT, 'cap')")
    lake.sql("UPDATE orders SET item = DEFAULT WHERE id = 1")
    assert rows(lake, "SELECT * FROM orders WHERE id IS NULL OR id IN (1, 4)") == [
        (1, "none"),
        (4, "none"),
        (None, "cap"),
    ]


def test_maintenance_and_definition_statements_work(lake, orders, tmp_path):
    assert lake.sql("OPTIMIZE orders WHERE 1 = 1").columns == ["path", "metrics"]
    assert rows(lake, "OPTIMIZE orders ZORDER BY (id)")[0][1].numFilesAdded == 1
    assert lake.sql("REORG TABLE orders APPLY (PURGE)").columns == ["path", "metrics"]
    assert rows(lake, "VACUUM orders DRY RUN") == []
    lake.sql("ALTER TABLE orders SET TBLPROPERTIES ('team' = :team)", {"team": "it's"})
    assert rows(lake, "SHOW TBLPROPERTIES orders ('team')") == [("team", "it's")]
    lake.sql("ALTER TABLE orders ADD COLUMNS (extra INT COMMENT 'more')")
    assert lake.sql("SELECT * FROM orders").columns == ["id", "item", "extra"]
    restored = lake.sql("RESTORE TABLE orders TO VERSION AS OF ?", [1])
    assert restored.columns[0] == "table_size_after_restore"
    place = tmp_path / "copy of it"
    cloned = lake.sql(f"CREATE TABLE delta.`{place}` SHALLOW CLONE orders")
    assert cloned.columns[:2] == ["source_table_size", "source_num_of_files"]
    lake.sql(f"TRUNCATE TABLE delta.`{place}`")
    assert rows(lake, f"SELECT * FROM delta.`{place}`") == []
    assert lake.sql(f"DESCRIBE DETAIL '{place}'").first().numFiles == 0
    lake.sql(
        "CREATE OR REPLACE TABLE orders USING delta CLUSTER BY (n) COMMENT 'new' AS SELECT 1 AS n"
    )
    detail = lake.sql("DESCRIBE DETAIL orders").first()
    assert (detail.clusteringColumns, detail.description) == (["n"], "new")
    lake.range(3).write.parquet(str(tmp_path / "files"))
    lake.sql(f"CONVERT TO DELTA parquet.`{tmp_path / 'files'}`")
    assert rows(lake, f"SELECT count(*) FROM delta.`{tmp_path / 'files'}`") == [(3,)]
    lake.sql(f"CREATE TABLE known USING delta LOCATION '{place}'")
    assert lake.sql("SELECT * FROM known").columns == ["id", "item"]


def test_updates_of_other_rows_of_one_file_all_commit(lake, orders):
    def double(number):
        return lake.sql(
            "UPDATE orders SET item = item || item WHERE id = :id", {"id": number}
        ).first()[0]

    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(double, [1, 2, 3])) == [1, 1, 1]
    assert rows(lake, "SELECT item FROM orders") == [("inkink",), ("nibnib",), ("penpen",)]


def test_a_name_of_a_python_source_is_read_once_the_session_is_enabled(spark, make, orders):
    session = spark.newSession()
    place = make().detail().first().location
    source_exists(session, "lake")  # from here on the session is the active session of the thread
    register(session)
    session.sql(f"CREATE TABLE shop.letters USING lake OPTIONS (path '{place}')")
    with pytest.raises(AnalysisException, match=r"engine\.delta\.enable\(spark\)"):
        session.sql("SELECT * FROM shop.letters").collect()
    enable(session).sql("INSERT INTO shop.letters VALUES ('e', 5)")
    assert session.table("shop.letters").count() == 5
    described = session.sql("DESCRIBE shop.letters").collect()
    assert [tuple(row) for row in described] == [("key", "string", None), ("value", "bigint", None)]
    assert ("Provider", "delta", "") in rows(session, "DESC EXTENDED shop.letters")


def test_statements_that_neither_parser_routes_are_refused_by_name(lake, orders, tmp_path):
    for text in (
        "CACHE TABLE orders",
        "FROM orders INSERT INTO orders SELECT 1, 'a' INSERT INTO orders SELECT 2, 'b'",
        "BEGIN DELETE FROM orders; END",
        "BEGIN SELECT * FROM orders; END",
        "OPTIMIZE orders DRY RUN",
        "INSERT OVERWRITE orders PARTITION (item = 'pen') SELECT 1",
        "INSERT OVERWRITE orders PARTITION (item = 'pen') IF NOT EXISTS SELECT 1",
    ):
        with pytest.raises(StatementNotRoutedError):
            lake.sql(text)
    with pytest.raises(AnalysisException, match="nowhere` is not a Delta table"):
        lake.sql(f"DELETE FROM delta.`{tmp_path}/nowhere`")
    with pytest.raises(AnalysisException, match="Check the spelling"):
        lake.readStream.format("delta").load(f"{tmp_path}/nowhere")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        lake.sql("VACUUM nothing")
    assert rows(lake, "SELECT count(*) FROM orders") == [(3,)]


def test_a_transaction_of_a_session_is_one_version_with_queries_of_its_own_rows(lake, orders):
    lake.sql("CREATE TABLE t USING delta AS SELECT 1 AS id, 'x' AS item")
    before = lake.sql("DESCRIBE HISTORY orders").count()
    lake.sql(
        "begin atomic delete from orders where id = 1; "
        "insert into orders select id + 10, item from orders where id > 1; "
        "merge into orders using t on orders.id = t.id when not matched then insert *; end;"
    )
    assert lake.sql("DESCRIBE HISTORY orders").count() == before + 1
    assert sorted(rows(lake, "SELECT id FROM orders")) == [(1,), (2,), (3,), (12,), (13,)]
    with pytest.raises(EngineError, match=r"runs on .*orders, and a statement changes .*t"):
        lake.sql("BEGIN ATOMIC DELETE FROM orders; DELETE FROM t; END")
    lake.sql("CREATE TABLE others USING delta AS SELECT 1 AS id")
    with pytest.raises(EngineError, match=r"runs on .*orders, and a statement changes .*others"):
        lake.sql("BEGIN ATOMIC DELETE FROM orders; DELETE FROM others; END")
    assert len(rows(lake, "SELECT * FROM orders")) == 5
    lake.sql("DROP TABLE t")
    lake.sql("DROP TABLE others")


def test_statements_that_open_a_transaction_name_the_block(lake, orders):
    """Spark runs its own scripts, unless they name a Delta table."""
    for text in (
        "BEGIN", "BEGIN;", "BEGIN TRANSACTION", "START TRANSACTION", "COMMIT", "ROLLBACK",
        "BEGIN DELETE FROM orders; END", "BEGIN SELECT * FROM orders; END",
    ):  # fmt: skip
        with pytest.raises(StatementNotRoutedError, match="one block, BEGIN ATOMIC"):
            lake.sql(text)
    assert lake.table("orders").count() == 3
    assert rows(lake, "BEGIN SELECT 1; END") == [(1,)]


def test_statements_about_no_delta_table_are_run_by_spark(lake, spark, orders):
    assert rows(lake, "SELECT :m['a'] + 1", {"m": F.create_map(F.lit("a"), F.lit(1))}) == [(2,)]
    assert rows(lake, "SELECT * FROM {numbers}", numbers=lake.range(2)) == [(0,), (1,)]
    assert rows(lake, "SHOW TABLES IN shop LIKE 'nothing'") == []
    with pytest.raises(ParseException, match="SELEC"):
        lake.sql("SELEC 1")
    with pytest.raises(AnalysisException, match="UNBOUND_SQL_PARAMETER"):
        lake.sql("SELECT :missing", {"other": 1})
    with pytest.raises(ParseException):
        spark.sql("OPTIMIZE orders")  # this session is not enabled
    assert rows(lake.newSession(), "SHOW TBLPROPERTIES shop.orders ('team')")[0][0] == "team"


def test_delta_spark_is_not_replaced_unless_requested(spark):
    assert not has_delta_spark(spark)
    session = spark.newSession()
    session.conf.set(
        "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    )
    with pytest.raises(NotEnabledError, match="take_over=True"):
        enable(session)


def test_points_in_time_stand_at_the_end_of_a_name(lake, orders, tmp_path):
    place = lake.sql("DESCRIBE DETAIL orders").first().location.removeprefix("file:")
    before = DeltaTable.forName(lake, orders).history(1).first()
    count = lake.table("orders").count()
    lake.sql("DELETE FROM orders")
    moment = before.timestamp.strftime("%Y%m%d%H%M%S%f")[:17]
    points = (f"v{before.version}", moment)
    for point in points:
        assert lake.sql(f"SELECT * FROM orders@{point} o WHERE 'a@v0' = 'a@v0'").count() == count
        assert lake.table(f"orders@{point}").count() == count
        assert lake.sql(f"SELECT * FROM delta.`{place}@{point}`").count() == count
        assert lake.read.format("delta").load(f"{place}@{point}").count() == count
    with pytest.raises(IllegalArgumentException, match="so do its options"):
        lake.read.format("delta").option("versionAsOf", 0).load(f"{place}@v0")
    with pytest.raises(AnalysisException, match="is not a Delta table"):
        lake.read.format("delta").load(f"{tmp_path}/nothing@v0")


def test_a_table_is_made_like_another(lake):
    lake.sql(
        "CREATE TABLE first (id BIGINT COMMENT 'which', day DATE NOT NULL) USING delta"
        " PARTITIONED BY (day) COMMENT 'all' TBLPROPERTIES (delta.appendOnly = true, k = 'v')"
    )
    lake.sql("INSERT INTO first VALUES (1, current_date())")
    lake.sql("CREATE TABLE second LIKE first TBLPROPERTIES (k = 'w')")
    lake.sql("CREATE TABLE IF NOT EXISTS second LIKE first")
    detail = lake.sql("DESCRIBE DETAIL second").first()
    assert (detail.partitionColumns, detail.numFiles, detail.description) == (["day"], 0, "all")
    assert detail.properties["delta.appendOnly"] == "true"
    assert detail.properties["k"] == "w"
    assert lake.table("second").schema == lake.table("first").schema
    lake.sql("CREATE TABLE plain (n INT) USING parquet")
    lake.sql("CREATE TABLE third LIKE plain USING delta")
    assert lake.table("third").dtypes == [("n", "int")]
    lake.sql("CREATE TABLE fourth LIKE plain")
    assert lake.table("fourth").dtypes == [("n", "int")]
    with pytest.raises(AnalysisException, match="LIMIT 0"):
        lake.sql("CREATE TABLE fifth LIKE first USING parquet")


def test_a_column_is_changed_as_hive_says_it(lake):
    lake.sql("CREATE TABLE changed (a BIGINT, b STRING) USING delta")
    lake.sql("ALTER TABLE changed CHANGE COLUMN a a LONG AFTER b")
    lake.sql("ALTER TABLE changed CHANGE b b STRING COMMENT 'text' FIRST")
    described = lake.sql("DESCRIBE changed").collect()
    assert [tuple(row) for row in described] == [
        ("b", "string", "text"),
        ("a", "bigint", None),
    ]
    with pytest.raises(AnalysisException, match="RENAME COLUMN"):
        lake.sql("ALTER TABLE changed CHANGE COLUMN a z LONG")
