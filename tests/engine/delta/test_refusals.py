"""Refusals have the error classes of delta-spark 4.4, which programs compare.

The expectations are the errors of delta-spark for the same calls.
"""

import pytest

from engine.delta.tables import DeltaTable

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def condition_of(call):
    """Return the error class of a call, or "" if it succeeds."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - its class is what is compared
        return error.getCondition()
    return ""


@pytest.fixture
def table(lake, tmp_path):
    place = str(tmp_path / "t")
    rows = lake.createDataFrame([(1, "a"), (2, "b")], "id int, v string")
    rows.write.format("delta").partitionBy("v").save(place)
    return rows, place


def test_readers_and_writers_refuse_with_delta_spark_s_classes(lake, table, tmp_path):
    rows, place = table

    def write(frame=rows, mode="error", to=place, partitions=(), **options):
        writer = frame.write.format("delta").mode(mode).options(**options)
        if partitions:
            writer = writer.partitionBy(*partitions)
        return lambda: writer.save(to)

    def read(**options):
        return lambda: lake.read.format("delta").options(**options).load(place)

    new = str(tmp_path / "new")
    for number, (call, expected) in enumerate(
        (
            (write(), "DELTA_PATH_EXISTS"),
            (write(mode="append", mergeSchema="maybe"), "DELTA_ILLEGAL_OPTION"),
            (write(mode="overwrite", replaceWhere="v = 'b'"), "DELTA_REPLACE_WHERE_MISMATCH"),
            (
                write(mode="append", txnAppId="a"),
                "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS",
            ),
            (write(rows.selectExpr("id", "id AS ID"), to=new), "DELTA_DUPLICATE_COLUMNS_FOUND"),
            (
                write(rows.selectExpr("id AS `a b`"), to=new),
                "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES",
            ),
            (write(to=new, partitions=["zz"]), "DELTA_PARTITION_COLUMN_NOT_FOUND"),
            (
                write(to=new, partitions=["id", "v"]),
                "DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION",
            ),
            (
                lambda: rows.write.format("delta").bucketBy(4, "id").saveAsTable("buckets"),
                "DELTA_OPERATION_NOT_ALLOWED_DETAIL",
            ),
            (read(versionAsOf="x"), "DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE"),
            (read(versionAsOf=0, timestampAsOf="2020-01-01"), "DELTA_ONEOF_IN_TIMETRAVEL"),
            (read(timestampAsOf="2190-01-01"), "DELTA_TIMESTAMP_GREATER_THAN_COMMIT"),
            (read(timestampAsOf="1990-01-01"), "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION"),
            (read(readChangeFeed="true"), "DELTA_NO_START_FOR_CDC_READ"),
        )
    ):
        assert condition_of(call) == expected, number
    assert lake.read.format("delta").load(place).count() == 2


def test_calls_and_statements_refuse_with_delta_spark_s_classes(lake, table):
    rows, place = table
    target = DeltaTable.forPath(lake, place)
    merge = target.alias("t").merge(rows.alias("s"), "t.id = s.id")
    calls = {
        "DELTA_MERGE_MISSING_WHEN": merge.execute,
        "DELTA_NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION": (
            merge.whenMatchedDelete().whenMatchedUpdateAll().execute
        ),
        "DELTA_CANNOT_RESTORE_TABLE_VERSION": lambda: target.restoreToVersion(99),
        "DELTA_CANNOT_RESTORE_TIMESTAMP_GREATER": lambda: target.restoreToTimestamp("2190-01-01"),
        "DELTA_CANNOT_RESTORE_TIMESTAMP_EARLIER": lambda: target.restoreToTimestamp("1990-01-01"),
        "DELTA_CLUSTER_BY_WITH_PARTITIONED_BY": (
            DeltaTable.create(lake)
            .location(f"{place}-new")
            .addColumns(rows.schema)
            .partitionedBy("v")
            .clusterBy("id")
            .execute
        ),
    }
    for expected, call in calls.items():
        assert condition_of(call) == expected
    for statement in (
        "VACUUM nothing",
        "OPTIMIZE nothing",
        "DESCRIBE HISTORY nothing",
        "DESCRIBE DETAIL nothing",
        "RESTORE nothing TO VERSION AS OF 1",
    ):
        assert condition_of(lambda text=statement: lake.sql(text)) == "TABLE_OR_VIEW_NOT_FOUND"
    wide = f"INSERT INTO delta.`{place}` VALUES (3, 'c', 5)"  # noqa: S608 - a path of this test
    assert condition_of(lambda: lake.sql(wide)) == "DELTA_METADATA_MISMATCH"
    narrow = f"INSERT INTO delta.`{place}` VALUES (3)"  # noqa: S608 - a path of this test
    assert condition_of(lambda: lake.sql(narrow)) == "DELTA_INSERT_COLUMN_ARITY_MISMATCH"


STATEMENTS = {
    "UPDATE kept SET id = 5, id = 6": "DELTA_CONFLICT_SET_COLUMN",
    "INSERT INTO kept (id, zz) VALUES (1, 2)": "UNRESOLVED_COLUMN",
    "INSERT INTO kept (id, ID) VALUES (1, 2)": "COLUMN_ALREADY_EXISTS",
    "DELETE FROM kept WHERE id": "DATATYPE_MISMATCH",
    "DELETE FROM seen": "EXPECT_TABLE_NOT_VIEW",
    "UPDATE seen SET id = 2": "EXPECT_TABLE_NOT_VIEW",
    "INSERT INTO seen VALUES (2)": "EXPECT_TABLE_NOT_VIEW",
    "ALTER TABLE kept SET LOCATION '{p}/none'": "DELTA_MISSING_DELTA_TABLE",
    "ALTER TABLE kept SET LOCATION '{p}/other'": "DELTA_SET_LOCATION_SCHEMA_MISMATCH",
    "ALTER TABLE kept ADD COLUMNS (n INT NOT NULL)": "DELTA_OPERATION_NOT_ALLOWED",
    "ALTER TABLE kept ADD COLUMNS (n INT DEFAULT 5)": (
        "WRONG_COLUMN_DEFAULTS_FOR_DELTA_ALTER_TABLE_ADD_COLUMN_NOT_SUPPORTED"
    ),
    "ALTER TABLE kept SET TBLPROPERTIES ('delta.xyz' = '1')": "DELTA_UNKNOWN_CONFIGURATION",
    "ALTER TABLE kept SET TBLPROPERTIES ('delta.logRetentionDuration' = 'x')": (
        "DELTA_INVALID_INTERVAL"
    ),
    "ALTER TABLE kept SET TBLPROPERTIES ('delta.columnMapping.mode' = 'id')": (
        "DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE"
    ),
    "OPTIMIZE clustered ZORDER BY (id)": "DELTA_CLUSTERING_WITH_ZORDER_BY",
    "CREATE TABLE new (a INT) USING delta CLUSTERED BY (a) INTO 4 BUCKETS": (
        "DELTA_OPERATION_NOT_ALLOWED_DETAIL"
    ),
    "CREATE TABLE new (a INTERVAL DAY) USING delta": "DELTA_UNSUPPORTED_DATA_TYPES",
}


def test_statements_refuse_with_delta_spark_s_classes(lake, tmp_path):
    lake.sql("CREATE TABLE kept (id INT, v STRING) USING delta")
    lake.sql("INSERT INTO kept VALUES (1, 'a')")
    lake.sql("CREATE TABLE clustered (id INT) USING delta CLUSTER BY (id)")
    lake.sql("CREATE TEMPORARY VIEW seen AS SELECT id FROM kept")
    lake.range(1).write.format("delta").save(str(tmp_path / "other"))
    for statement, expected in STATEMENTS.items():
        text = statement.replace("{p}", str(tmp_path))
        assert (statement, condition_of(lambda: lake.sql(text))) == (statement, expected)  # noqa: B023
    assert [tuple(row) for row in lake.table("kept").collect()] == [(1, "a")]
    assert not lake.catalog.tableExists("new")
