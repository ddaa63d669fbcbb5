"""`DeltaTable` as programs use it: rows, commands, results."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from engine.delta.tables import DeltaTable, IdentityGenerator
from engine.errors import MultipleSourceRowsError, TableNotFoundError
from tests.engine.delta.conftest import rows_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]
INITIAL = [("a", -1), ("b", 0), ("e", -5), ("f", -6)]
MERGED = [("a", -1), ("b", 0), ("c", 3), ("d", 4), ("e", -5), ("f", -6)]


@pytest.fixture
def source(spark):
    return spark.createDataFrame(INITIAL, "k string, v bigint")


def test_a_table_is_opened_by_its_path_and_no_other_place_is_one(spark, make, tmp_path):
    table = make()
    place = table.detail().first().location.removeprefix("file:")
    assert rows_of(DeltaTable.forPath(spark, place, {"fs.x.y": "z"}).toDF()) == rows_of(
        table.toDF()
    )
    assert DeltaTable.isDeltaTable(spark, place)
    assert not DeltaTable.isDeltaTable(spark, str(tmp_path / "nowhere"))
    with pytest.raises(AnalysisException, match="nowhere` is not a Delta table") as caught:
        DeltaTable.forPath(spark, str(tmp_path / "nowhere"))
    assert isinstance(caught.value, TableNotFoundError)
    with pytest.raises(AnalysisException, match="begin with fs"):
        DeltaTable.forPath(spark, place, {"password": "x"})


def test_delete_takes_text_and_columns_and_nothing(make):
    table = make()
    table.delete("key = 'a'")
    table.delete(F.col("key") == F.lit("b"))
    assert rows_of(table.toDF()) == [("c", 3), ("d", 4)]
    result = table.delete()
    assert rows_of(table.toDF()) == []
    assert result.version == 4
    assert result.resolved == ()
    assert result.conflicts == result.resolved


def test_update_takes_text_and_columns(make):
    table = make()
    table.update("key = 'a' or key = 'b'", {"value": "1"})
    table.update(F.expr("key = 'c'"), {"value": F.expr("0")})
    assert rows_of(table.toDF()) == [("a", 1), ("b", 1), ("c", 0), ("d", 4)]
    table.alias("t").update(set={"t.value": F.col("t.value") + 200})
    assert rows_of(table.toDF()) == [("a", 201), ("b", 201), ("c", 200), ("d", 204)]
    assert table.update("key = 'a'", {}).version is None


@pytest.mark.parametrize("as_given", [str, F.expr], ids=["text", "column"])
def test_merge_does_every_clause(make, source, as_given):
    table = make()
    done = (
        table.merge(source, as_given("key = k"))
        .whenMatchedUpdate(set={"value": as_given("v + 0")})
        .whenNotMatchedInsert(values={"key": "k", "value": as_given("v + 0")})
        .whenNotMatchedBySourceUpdate(set={"value": as_given("value + 0")})
        .execute()
    )
    assert rows_of(table.toDF()) == MERGED
    assert done.columns == [
        "num_affected_rows",
        "num_updated_rows",
        "num_deleted_rows",
        "num_inserted_rows",
    ]
    assert rows_of(done) == [(6, 4, 0, 2)]
    assert done.resolved == []


@pytest.mark.parametrize("as_given", [str, F.expr], ids=["text", "column"])
def test_clauses_of_merge_have_conditions_in_their_order(make, source, as_given):
    table = make()
    (
        table.merge(source, "key = k")
        .whenMatchedUpdate(as_given("k = 'a'"), {"value": "v + 0"})
        .whenMatchedDelete(as_given("k = 'b'"))
        .whenNotMatchedInsert(as_given("k = 'e'"), {"key": "k", "value": "v + 0"})
        .whenNotMatchedBySourceUpdate(as_given("key = 'c'"), {"value": F.col("value") + 0})
        .whenNotMatchedBySourceDelete(as_given("key = 'd'"))
        .execute()
    )
    assert rows_of(table.toDF()) == [("a", -1), ("c", 3), ("e", -5)]


def test_merge_by_aliases_takes_all_columns_by_name(make, source):
    table = make()
    (
        table.alias("t")
        .merge(source.toDF("key", "value").alias("s"), "s.key = t.key")
        .whenMatchedUpdateAll("s.key = 'a'")
        .whenNotMatchedInsertAll(F.expr("s.key = 'e'"))
        .execute()
    )
    assert rows_of(table.toDF()) == [("a", -1), ("b", 2), ("c", 3), ("d", 4), ("e", -5)]


def test_a_builder_of_merge_can_be_used_again(make, source):
    table = make()
    builder = table.merge(source, "key = k")
    builder.whenMatchedDelete()
    builder.whenMatchedUpdate(set={"value": "v"}).execute()
    assert rows_of(table.toDF()) == [("a", -1), ("b", 0), ("c", 3), ("d", 4)]


def test_merge_evolves_the_schema_by_the_columns_that_its_clauses_set(spark, make, source):
    table = make()
    wider = source.toDF("key", "value").withColumns({"n": F.lit(1), "m": F.lit(2)}).alias("s")
    on = "t.key = s.key"
    merging = table.alias("t").merge(wider, on).withSchemaEvolution()
    merging.whenMatchedUpdate(set={"n": "s.n"}).execute()
    assert table.toDF().columns == ["key", "value", "n"]
    spark.conf.set("spark.databricks.delta.schema.autoMerge.enabled", "true")
    try:
        table.alias("t").merge(wider, on).whenMatchedUpdateAll().execute()
    finally:
        spark.conf.unset("spark.databricks.delta.schema.autoMerge.enabled")
    assert rows_of(table.toDF().where("n is not null")) == [("a", -1, 1, 2), ("b", 0, 1, 2)]


def test_merge_refuses_the_same_arguments_as_delta_spark(make, source):
    table = make().alias("t")
    renamed = source.toDF("key", "value").alias("s")
    with pytest.raises(AnalysisException, match="ambiguous"):
        table.merge(renamed, "key = key").whenMatchedDelete().execute()
    with pytest.raises(AnalysisException, match="nokey"):
        table.merge(renamed, "t.key = s.nokey").whenMatchedDelete().execute()
    with pytest.raises(AnalysisException, match="no WHEN"):
        table.merge(renamed, "t.key = s.key").execute()
    doubled = renamed.union(renamed).alias("s")
    with pytest.raises(MultipleSourceRowsError):
        table.merge(doubled, "t.key = s.key").whenMatchedUpdateAll().execute()


@pytest.mark.parametrize(
    ("condition", "error", "words"),
    [
        ("nosuch = 1", AnalysisException, "UNRESOLVED_COLUMN"),
        ("key = = 1", ParseException, "Syntax error"),
        ("key", AnalysisException, "true or false"),
        ("rand() > 0.5", AnalysisException, "not deterministic"),
        (lambda: F.col("nosuch") == 1, AnalysisException, "UNRESOLVED_COLUMN"),
        (lambda: F.rand() > 0.5, AnalysisException, "not deterministic"),
    ],
)
def test_conditions_that_cannot_be_are_refused_as_spark_refuses_them(make, condition, error, words):
    table = make()
    with pytest.raises(error, match=words):
        table.delete(condition if isinstance(condition, str) else condition())
    assert table.history().count() == 2


def test_a_dataframe_of_the_table_has_its_declared_columns_and_its_latest_rows(spark, tmp_path):
    table = (
        DeltaTable.create(spark)
        .location(str(tmp_path / "t"))
        .addColumn("p", "int", comment="foo", nullable=False)
        .addColumn("q", T.IntegerType(), generatedAlwaysAs="p + 10")
        .addColumn("i", "bigint", generatedAlwaysAs=IdentityGenerator(5, 5), nullable=False)
        .partitionedBy("p")
        .execute()
    )
    expected = T.StructType(
        [
            T.StructField("p", T.IntegerType(), False, {"comment": "foo"}),
            T.StructField("q", T.IntegerType(), True),
            T.StructField("i", T.LongType(), False),
        ]
    )
    before = table.toDF()
    source = spark.createDataFrame([(1,), (2,)], "p int")
    table.merge(source, "false").whenNotMatchedInsert(values={"p": "p"}).execute()
    assert before.schema == table.toDF().schema == expected
    assert [row[:2] for row in rows_of(before)] == [(1, 11), (2, 12)]
    assert [row[:2] for row in rows_of(table.toDF())] == [(1, 11), (2, 12)]
    table.delete("p = 2")
    assert rows_of(table.toDF().where("p = 1").select("q")) == [(11,)]


def test_history_and_detail_have_delta_sparks_columns(make):
    table = make()
    table.commitInfo("why").delete("key = 'a'")
    latest = table.history(1).first()
    assert (latest.version, latest.operation, latest.userMetadata) == (2, "DELETE", "why")
    assert latest.operationMetrics["numDeletedRows"] == "1"
    assert table.history().columns[-2:] == ["userMetadata", "engineInfo"]
    detail = table.detail().first()
    assert (detail.format, detail.numFiles, detail.partitionColumns) == ("delta", 1, [])
    assert "deletionVectors" in detail.tableFeatures


def test_optimize_returns_its_metrics_and_refuses_other_columns(spark, make):
    table = make(schema="key string, value bigint, p int", rows=[("a", 1, 1)])
    for number in (2, 3):
        more = spark.createDataFrame([("a", number, 1)], "key string, value bigint, p int")
        table.merge(more, "false").whenNotMatchedInsertAll().execute()
    metrics = table.optimize().executeCompaction().first().metrics
    assert (metrics.numFilesAdded, metrics.numFilesRemoved) == (1, 3)
    assert (metrics.totalConsideredFiles, metrics.totalFilesSkipped) == (3, 0)
    with pytest.raises(AnalysisException, match="DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST"):
        table.optimize().executeZOrderBy("nobody")
    ordered = table.optimize().executeZOrderBy(["key", "value"]).first().metrics
    assert (ordered.zOrderStats.strategyName, ordered.zOrderStats.numOutputCubes) == ("all", 1)
    words = "Predicate references non-partition column 'key'. Only the partition columns may"
    with pytest.raises(AnalysisException, match=words):
        table.optimize().where("key = 'a'").executeCompaction()


def test_restore_brings_a_version_or_a_time_back(make):
    table = make()
    moment = table.history(1).first().timestamp.strftime("%Y-%m-%d %H:%M:%S.%f")
    table.delete("key = 'a'")
    restored = table.restoreToVersion(1).first()
    assert (restored.num_restored_files, restored.num_removed_files) == (1, 1)
    table.delete("key = 'b'")
    table.restoreToTimestamp(moment)
    assert table.toDF().count() == 4
    with pytest.raises(AnalysisException, match="cannot be converted to a valid timestamp"):
        table.restoreToTimestamp("05/04/1999")
    with pytest.raises(AnalysisException, match="Version 99"):
        table.restoreToVersion(99)


def test_vacuum_heeds_the_retention_unless_the_check_is_off(spark, make):
    table = make()
    place = table.detail().first().location.removeprefix("file:")
    stray = f"{place}/stray.parquet"
    with open(stray, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write("x")
    assert table.vacuum().collect() == []
    table.vacuum(1000)
    with pytest.raises(Exception, match="VACUUM_RETENTION_PERIOD_TOO_SHORT"):
        table.vacuum(0)
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        table.vacuum(0.0)
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    assert table.history(1).first().operation == "VACUUM END"


def test_protocol_and_features_are_raised_and_never_lowered(make, spark, tmp_path):
    settings = ("minReaderVersion", "1"), ("minWriterVersion", "2")
    for key, value in settings:
        spark.conf.set(f"spark.databricks.delta.{key}", value)
    try:
        table = make()
    finally:
        for key, _ in settings:
            spark.conf.unset(f"spark.databricks.delta.{key}")
    assert table.detail().first()[-3:-1] == (1, 2)
    table.upgradeTableProtocol(1, 3)
    table.upgradeTableProtocol(1, 2)
    assert table.detail().first()[-3:-1] == (1, 3)
    table.addFeatureSupport("deletionVectors")
    assert "deletionVectors" in table.detail().first().tableFeatures
    for name, code in (
        ("none", "UNSUPPORTED_CLIENT_FEATURE"),
        ("v2Checkpoint", "FEATURE_NOT_PRESENT"),
    ):
        with pytest.raises(AnalysisException, match=f"DELTA_FEATURE_DROP_{code}"):
            table.dropFeatureSupport(name)
    with pytest.raises(AnalysisException, match="DELTA_UNSUPPORTED_FEATURES_IN_CONFIG"):
        table.addFeatureSupport("none")
    table.dropFeatureSupport("deletionVectors")
    assert "deletionVectors" not in table.detail().first().tableFeatures


def test_clones_hold_the_rows_of_their_version(make, tmp_path):
    table = make()
    table.delete("key = 'a'")
    shallow = table.clone(str(tmp_path / "s"), True, False, {"foo": "bar"})
    deep = table.cloneAtVersion(1, str(tmp_path / "d"))
    assert rows_of(shallow.toDF()) == rows_of(table.toDF())
    assert shallow.detail().first().properties["foo"] == "bar"
    assert deep.toDF().count() == 4
    shallow.update(set={"value": "0"})
    assert rows_of(table.toDF())[0] == ("b", 2)


def test_parquet_files_become_a_table_where_they_lie(spark, source, tmp_path):
    plain, parted = str(tmp_path / "plain"), str(tmp_path / "parted")
    source.write.parquet(plain)
    source.write.partitionBy("v").parquet(parted)
    table = DeltaTable.convertToDelta(spark, f"parquet.`{plain}`")
    assert rows_of(table.toDF()) == INITIAL
    assert table.history().first().operation == "CONVERT"
    with pytest.raises(AnalysisException, match=r"Expecting 0 .*such as `v` STRING"):
        DeltaTable.convertToDelta(spark, f"parquet.`{parted}`")
    with pytest.raises(AnalysisException, match=r"v=-?[0-9] does not match the type of v"):
        DeltaTable.convertToDelta(spark, f"parquet.`{parted}`", "v date")
    by_ddl = DeltaTable.convertToDelta(spark, f"parquet.`{parted}`", "v int")
    assert rows_of(by_ddl.toDF()) == INITIAL
    assert by_ddl.detail().first().partitionColumns == ["v"]
    by_ddl.delete("v < -4")
    assert rows_of(by_ddl.toDF()) == INITIAL[:2]
    assert DeltaTable.convertToDelta(spark, f"parquet.`{plain}`").history().count() == 1


def test_parquet_types_that_spark_lacks_are_refused_with_the_way_out(spark, tmp_path):
    for name, kind in {"nanoseconds": pa.timestamp("ns"), "time": pa.time64("us")}.items():
        place = tmp_path / name
        place.mkdir()
        pq.write_table(pa.table({"at": pa.array([1], kind)}), place / "a.parquet")
        with pytest.raises(AnalysisException, match="Rewrite these files"):
            DeltaTable.convertToDelta(spark, f"parquet.`{place}`")
        assert not (place / "_delta_log").exists()


def test_files_are_not_converted_under_physical_names_that_they_lack(spark, source, tmp_path):
    places = [(str(tmp_path / mode), mode, parts) for mode, parts in (("name", ""), ("id", "v"))]
    key = "spark.databricks.delta.properties.defaults.columnMapping.mode"
    for place, mode, parts in places:
        written = source.write.partitionBy(parts) if parts else source.write
        written.parquet(place)
        spark.conf.set(key, mode)
        try:
            with pytest.raises(AnalysisException, match=f"cannot be set to `{mode}`"):
                DeltaTable.convertToDelta(
                    spark, f"parquet.`{place}`", f"{parts} int" if parts else None
                )
        finally:
            spark.conf.unset(key)
        table = DeltaTable.convertToDelta(
            spark, f"parquet.`{place}`", f"{parts} int" if parts else None
        )
        assert rows_of(table.toDF()) == INITIAL


def test_a_manifest_names_the_files_of_each_partition(spark, source, tmp_path):
    place = tmp_path / "t"
    source.write.partitionBy("v").parquet(str(place))
    table = DeltaTable.convertToDelta(spark, f"parquet.`{place}`", "v int")
    table.generate("symlink_format_manifest")
    lines = (place / "_symlink_format_manifest" / "v=-1" / "manifest").read_text().splitlines()
    assert [line.startswith(f"file:{place}/v=-1/part-") for line in lines] == [True]
    table.delete("v = -1")
    table.generate("SYMLINK_FORMAT_MANIFEST")
    assert not (place / "_symlink_format_manifest" / "v=-1").joinpath("manifest").exists()
    with pytest.raises(AnalysisException, match="'zzz' is not supported"):
        table.generate("zzz")


def test_names_live_in_the_sessions_catalog(spark, tmp_path):
    def builder(make):
        return make(spark).tableName("named_table").addColumn("c", "int")

    try:
        table = builder(DeltaTable.create).comment("words").property("foo", "bar").execute()
        assert table.detail().first().name == "spark_catalog.default.named_table"
        with pytest.raises(AnalysisException, match=r"named_table.*already exists"):
            builder(DeltaTable.create).execute()
        assert builder(DeltaTable.createIfNotExists).execute().history().count() == 1
        named = DeltaTable.forName(spark, "named_table")
        rows = spark.createDataFrame([(1,)], "c int").alias("s")
        merging = named.merge(rows, "named_table.c = s.c")
        merging.whenNotMatchedInsertAll().execute()
        assert rows_of(DeltaTable.forName(spark, "default.named_table").toDF()) == [(1,)]
        replaced = builder(DeltaTable.replace).addColumn("d", "int").execute()
        assert replaced.toDF().columns == ["c", "d"]
        assert replaced.toDF().count() == 0
    finally:
        spark.sql("DROP TABLE IF EXISTS named_table")
    with pytest.raises(AnalysisException, match="cannot be found"):
        builder(DeltaTable.replace).execute()
    with pytest.raises(AnalysisException, match="`named_table` is not a Delta table"):
        DeltaTable.forName(spark, "named_table")
    path = str(tmp_path / "t")
    DeltaTable.createOrReplace(spark).tableName(f"delta.`{path}`").addColumn("c", "int").execute()
    assert DeltaTable.forName(spark, f"delta.`{path}`").toDF().columns == ["c"]


def test_a_name_is_known_in_every_session_of_the_catalog(spark):
    try:
        DeltaTable.create(spark).tableName("first_one").addColumn("c", "int").execute()
        beside = spark.newSession()
        assert DeltaTable.forName(beside, "first_one").toDF().columns == ["c"]
        DeltaTable.create(beside).tableName("second_one").addColumn("d", "int").execute()
        table = DeltaTable.forName(spark, "spark_catalog.default.`second_one`")
        assert table.toDF().columns == ["d"]
        with pytest.raises(AnalysisException, match="`third_one` is not a Delta table"):
            DeltaTable.forName(spark, "third_one")
    finally:
        spark.sql("DROP TABLE IF EXISTS first_one")
        spark.sql("DROP TABLE IF EXISTS second_one")


def test_a_table_without_name_and_place_cannot_be_made(spark):
    with pytest.raises(AnalysisException, match="Table name or location has to be specified"):
        DeltaTable.create(spark).addColumn("c", "int").execute()
    with pytest.raises(ParseException):
        DeltaTable.create(spark).location("x").addColumn("c", "1")
