"""Three common pipelines, written with DataFrames alone, whose overlapping writes both commit.

Every overlap fails a check of Delta's file-level rules, so delta-spark aborts one of its two writes.
`.resolved` names the rule; here the rows resolve it.
"""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from engine.conflict_facts import Rule
from engine.delta import DeltaTable
from engine.delta.exceptions import DeltaConcurrentModificationException
from engine.errors import RequestError
from engine.snapshot.stream_log import Position
from engine.transaction.observer import TransactionObserver
from tests.engine.delta.conftest import Meanwhile, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def list_resolved(conflicts):
    """Return each winning operation, and the rule that file-level checks would have failed."""
    return [(conflict.winner.operation, Rule(conflict.rule)) for conflict in conflicts]


# --- CDC: upserts of a stream beside OPTIMIZE ---

CHANGES = "key string, value bigint, op string, at bigint"


class Feed:
    """A stream of change files, merged batch by batch; resolved conflicts are kept."""

    def __init__(self, spark, place):
        self.spark, self.place, self.resolved = spark, place, []

    def add(self, *rows):
        frame = self.spark.createDataFrame(rows, CHANGES).coalesce(1)
        frame.write.mode("append").json(str(self.place / "changes"))

    def run(self, table):
        """Merge the changes since the last run, according to the checkpoint."""
        reader = self.spark.readStream.schema(CHANGES).json(str(self.place / "changes"))
        query = (
            reader.writeStream.foreachBatch(lambda rows, batch: self.upsert(table, rows, batch))
            .option("checkpointLocation", str(self.place / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        assert query.exception() is None

    def upsert(self, table, rows, batch):
        latest = Window.partitionBy("key").orderBy(F.col("at").desc())
        changes = rows.withColumn("n", F.row_number().over(latest)).where("n = 1").alias("s")
        done = (
            table.option("txnAppId", "cdc")
            .option("txnVersion", batch)
            .alias("t")
            .merge(changes, F.col("t.key") == F.col("s.key"))
            .whenMatchedDelete(F.col("s.op") == "D")
            .whenMatchedUpdate(set={"value": "s.value"})
            .whenNotMatchedInsert("s.op <> 'D'", {"key": "s.key", "value": "s.value"})
            .execute()
        )
        self.resolved += list_resolved(done.resolved)


def small_files(spark, table):
    for rows in ([("e", 5), ("f", 6)], [("g", 7), ("h", 8)]):
        frame = spark.createDataFrame(rows, "key string, value bigint").coalesce(1)
        table.merge(frame, "false").whenNotMatchedInsertAll().execute()


def test_a_cdc_stream_upserts_beside_optimize(spark, make, tmp_path):
    table, feed = make(), Feed(spark, tmp_path)
    small_files(spark, table)
    feed.add(("a", 10, "U", 1), ("a", 11, "U", 2), ("e", 0, "D", 1), ("z", 26, "I", 1))
    compacted = []
    meanwhile = Meanwhile(lambda: compacted.append(table.optimize().executeCompaction()))
    feed.run(table.observed(meanwhile))
    assert feed.resolved == [("OPTIMIZE", Rule.DATA_ADDED)]
    assert compacted[0].first().metrics.numFilesRemoved == 3
    expected = [("a", 11), ("b", 2), ("c", 3), ("d", 4), ("f", 6), ("g", 7), ("h", 8), ("z", 26)]
    assert rows_of(table.toDF()) == expected

    feed.add(("b", 20, "U", 3), ("z", 0, "D", 4))  # and an OPTIMIZE that commits second
    optimizing = table.observed(Meanwhile(lambda: feed.run(table))).optimize()
    done = optimizing.executeCompaction()
    assert list_resolved(done.resolved) == [("MERGE", Rule.REMOVED_FILE_REMOVED)]
    assert rows_of(table.toDF()) == [("a", 11), ("b", 20), *expected[2:-1]]

    version = table.history(1).first().version
    feed.upsert(table, spark.createDataFrame([("b", 20, "U", 3)], CHANGES), 1)  # the batch again
    assert table.history(1).first().version == version


# --- SCD type 2: two writers close the rows of their customers and add new ones ---

DIMENSION = "id bigint, city string, since bigint, until bigint, current boolean"


class Together(TransactionObserver):
    """A barrier that holds every writer until all have staged their changes."""

    def __init__(self, writers):
        self._barrier = threading.Barrier(writers, timeout=120)

    def staged(self, txn):  # noqa: ARG002
        self._barrier.wait()


def move_customers(spark, table, *customers):
    """Apply SCD type 2: for each customer, a row that closes the current one, and a new row."""
    changes = spark.createDataFrame(customers, "id bigint, city string, at bigint")
    source = changes.withColumn("closes", F.col("id")).unionByName(
        changes.withColumn("closes", F.lit(None).cast("bigint"))
    )
    new = {"id": "s.id", "city": "s.city", "since": "s.at", "current": F.lit(True)}
    return (
        table.alias("t")
        .merge(source.alias("s"), (F.col("t.id") == F.col("s.closes")) & F.col("t.current"))
        .whenMatchedUpdate("t.city <> s.city", {"current": F.lit(False), "until": "s.at"})
        .whenNotMatchedInsert(F.col("s.closes").isNull(), new)
        .execute()
    )


@pytest.fixture
def customers(make):
    first = [(n, city, 0, None, True) for n, city in enumerate(["Rome", "Oslo", "Bonn", "Lima"])]
    return make(first, DIMENSION)


def test_two_writers_keep_a_dimension_of_type_2(spark, customers):
    table = customers.observed(Together(2))
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(move_customers, spark, table, (0, "Turin", 5), (9, "Kiel", 5))
        two = pool.submit(move_customers, spark, table, (2, "Mainz", 6))
    outcomes = sorted(list_resolved(done.result().resolved) for done in (one, two))
    assert outcomes == [[], [("MERGE", Rule.DATA_ADDED)]]
    assert rows_of(customers.toDF()) == [
        (0, "Rome", 0, 5, False),
        (0, "Turin", 5, None, True),
        (1, "Oslo", 0, None, True),
        (2, "Bonn", 0, 6, False),
        (2, "Mainz", 6, None, True),
        (3, "Lima", 0, None, True),
        (9, "Kiel", 5, None, True),
    ]


def test_two_writers_of_one_customer_do_not_both_close_its_row(spark, customers):
    meanwhile = Meanwhile(lambda: move_customers(spark, customers, (0, "Turin", 5)))
    with pytest.raises(DeltaConcurrentModificationException):
        move_customers(spark, customers.observed(meanwhile), (0, "Milan", 6))
    again = Meanwhile(lambda: move_customers(spark, customers, (0, "Parma", 7)))
    move_customers(spark, customers.observed(again).retries(1), (0, "Milan", 8))
    assert rows_of(customers.toDF().where("id = 0")) == [
        (0, "Milan", 8, None, True),
        (0, "Parma", 7, 8, False),
        (0, "Rome", 0, 5, False),
        (0, "Turin", 5, 7, False),
    ]


# --- GDPR: a person's rows are deleted while events stream in ---

EVENTS = "event string, person bigint"


def stream_in(spark, place, table, *rows):
    """Append each event once, even if it is sent again; return the resolved conflicts."""
    frame = spark.createDataFrame(rows, EVENTS).coalesce(1)
    frame.write.mode("append").json(str(place / "events"))
    told = []

    def append(batch, number):
        merging = table.alias("t").merge(batch.alias("s"), "t.event = s.event")
        done = merging.option("txnAppId", "events").option("txnVersion", number)
        told.extend(list_resolved(done.whenNotMatchedInsertAll().execute().resolved))

    query = (
        spark.readStream.schema(EVENTS)
        .json(str(place / "events"))
        .writeStream.foreachBatch(append)
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert query.exception() is None
    return told


def test_a_persons_rows_are_erased_while_events_stream_in(spark, make, tmp_path):
    table = make([("e1", 7), ("e2", 8), ("e3", 7)], EVENTS)
    forget = F.col("person").isin(7, 70)
    meanwhile = Meanwhile(lambda: stream_in(spark, tmp_path, table, ("e0", 6), ("e4", 9)))
    first = table.observed(meanwhile)
    assert list_resolved(first.delete(forget).resolved) == [("MERGE", Rule.DATA_ADDED)]
    assert rows_of(table.toDF()) == [("e0", 6), ("e2", 8), ("e4", 9)]

    second = table.observed(Meanwhile(lambda: table.delete(F.col("person") == 8)))
    told = stream_in(spark, tmp_path, second, ("e0", 6), ("e5", 7), ("e6", 9))
    assert told == [("DELETE", Rule.READ_FILE_REMOVED)]
    assert rows_of(table.toDF()) == [("e0", 6), ("e4", 9), ("e5", 7), ("e6", 9)]

    late = table.observed(Meanwhile(lambda: stream_in(spark, tmp_path, table, ("e7", 70))))
    with pytest.raises(DeltaConcurrentModificationException):  # an event of the erased person
        late.delete(forget)
    again = Meanwhile(lambda: stream_in(spark, tmp_path, table, ("e8", 7)))
    table.observed(again).retries(1).delete(forget)
    assert rows_of(table.toDF()) == [("e0", 6), ("e4", 9), ("e6", 9)]


# --- the ways in which programs name the target of a stream ---


def write_stream(writer, place, name, table="", **options):
    """Run a stream to its end, with a checkpoint of its own."""
    writer = writer.format("delta").options(checkpointLocation=str(place / f"{name}.checkpoint"))
    writer = writer.options(**options).trigger(availableNow=True)
    query = writer.toTable(table) if table else writer.start()
    assert query.awaitTermination(120)


def test_a_stream_to_a_name_reads_its_place_from_an_option(lake, tmp_path):
    lake.range(3).write.format("delta").save(str(tmp_path / "rows"))
    stream = lake.readStream.format("delta").load(str(tmp_path / "rows"))
    place = str(tmp_path / "placed")
    for name in ("placed", "again"):  # the second finds the table and names it
        write_stream(stream.writeStream, tmp_path, name, table=name, path=place)
        assert lake.read.format("delta").load(place).count() == lake.table(name).count()
    assert lake.table("placed").count() == 6


def test_a_stream_adds_columns_where_it_may(lake, tmp_path):
    lake.range(1).write.format("delta").save(str(tmp_path / "rows"))
    stream = lake.readStream.format("delta").load(str(tmp_path / "rows"))
    lake.sql("CREATE TABLE grown (id BIGINT) USING delta")
    wider = stream.withColumn("more", F.struct(F.lit(1).alias("a")))
    with pytest.raises(Exception, match="more"):
        write_stream(wider.writeStream, tmp_path, "refused", table="grown")
    assert lake.table("grown").columns == ["id"]
    write_stream(wider.writeStream, tmp_path, "merged", table="grown", mergeSchema="true")
    lake.conf.set("spark.databricks.delta.schema.autoMerge.enabled", "true")
    try:
        wider = stream.withColumn("more", F.struct(F.lit(2).alias("a"), F.lit(3).alias("b")))
        write_stream(wider.writeStream, tmp_path, "set", table="grown")
    finally:
        lake.conf.unset("spark.databricks.delta.schema.autoMerge.enabled")
    assert rows_of(lake.table("grown")) == [(0, (1, None)), (0, (2, 3))]


def test_the_jvm_s_session_of_a_batch_runs_statements_of_the_engine(lake, tmp_path):
    lake.range(3).write.format("delta").save(str(tmp_path / "rows"))
    lake.sql("CREATE TABLE merged_by_jvm (id BIGINT) USING delta")
    lake.sql("INSERT INTO merged_by_jvm VALUES (1)")

    def upsert(batch, number):
        batch.createOrReplaceTempView("news")
        session = batch._jdf.sparkSession()
        session.sql(
            "MERGE INTO shop.merged_by_jvm t USING news ON t.id = news.id"
            " WHEN NOT MATCHED THEN INSERT *"
        )
        versions.append(session.version())

    versions = []
    stream = lake.readStream.format("delta").load(str(tmp_path / "rows"))
    writer = stream.writeStream.foreachBatch(upsert).trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "batches"))
    assert writer.start().awaitTermination(120)
    assert rows_of(lake.table("merged_by_jvm")) == [(0,), (1,), (2,)]
    assert versions == [lake.version]


def test_a_stream_continues_from_a_checkpoint_of_delta_spark(lake, tmp_path):
    place, copy, checkpoint = (str(tmp_path / name) for name in ("rows", "copy", "checkpoint"))

    def add_rows(first):
        """Add two rows in two files."""
        writer = lake.range(first, first + 2).write.format("delta").mode("append")
        writer.option("maxRecordsPerFile", 1).save(place)

    for first in range(0, 6, 2):
        add_rows(first)
    table_id = DeltaTable.forPath(lake, place).detail().first().id

    def copy_rows(**options):
        stream = lake.readStream.format("delta").options(**options).load(place)
        writer = stream.writeStream.format("delta").option("checkpointLocation", checkpoint)
        assert writer.trigger(availableNow=True).start(copy).awaitTermination(120)
        return sorted(row.id for row in lake.read.format("delta").load(copy).collect())

    def write_offsets(*offsets):
        """Rewrite the source's offsets in the checkpoint as delta-spark writes them."""
        for number, (version, index, initial) in enumerate(offsets):
            file = tmp_path / "checkpoint" / "offsets" / str(number)
            source = {
                "sourceVersion": 1,
                "reservoirId": table_id,
                "reservoirVersion": version,
                "index": index,
                "isStartingVersion": initial,
            }
            lines = file.read_text().splitlines()[:2]
            file.write_text("\n".join([*lines, json.dumps(source)]))
            (file.parent / f".{number}.crc").unlink(missing_ok=True)

    assert copy_rows(maxFilesPerTrigger="2") == list(
        range(6)
    )  # batches 0 to 2 of the first version
    write_offsets((2, 1, True), (2, 3, True), (3, -1, False))
    add_rows(6)
    assert copy_rows() == list(range(8))
    write_offsets((2, 1, True), (2, 3, True), (3, -1, False), (3, 0, False))  # within version 3
    copied = copy_rows()
    assert len(copied) == 9  # one file of version 3 is read again
    assert set(copied) == set(range(8))
    for index in (-20, "x"):
        with pytest.raises(RequestError, match="taken over"):
            Position.from_json(
                {
                    "sourceVersion": 3,
                    "reservoirId": table_id,
                    "reservoirVersion": 3,
                    "index": index,
                    "isStartingVersion": False,
                }
            )
