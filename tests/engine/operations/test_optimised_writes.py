"""Optimized writes: few files for rows of many tasks, as the table's settings demand."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.commands.model import Append, FileSource
from engine.spark.scan.reader import ScanRequest, scan
from engine.spark.table_files import TableFiles
from engine.spark.write.writer import rebalance_partitions, write

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]

PARTS = 5


@pytest.fixture
def many_files(tmp_path):
    """Return twenty small files, each with a row of every partition."""
    folder = tmp_path / "rows"
    folder.mkdir()
    for number in range(20):
        rows = {"id": [PARTS * number + p for p in range(PARTS)], "p": list(range(PARTS))}
        pq.write_table(pa.table(rows), folder / f"{number:02}.parquet")
    return FileSource(str(folder), "parquet")


@pytest.fixture(autouse=True)
def _a_task_for_each_file(spark):
    names = ("spark.sql.files.maxPartitionBytes", "spark.sql.shuffle.partitions")
    before = {name: spark.conf.get(name) for name in names}
    spark.conf.set(names[0], "4m")  # the assumed cost of opening a file
    spark.conf.set(names[1], "8")
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.mark.parametrize(("setting", "files"), [("", PARTS), ("false", 20 * PARTS)])
def test_each_partition_gets_one_file_unless_the_table_says_otherwise(
    do, empty_table, many_files, setting, files
):
    listed = f"TBLPROPERTIES ('delta.autoOptimize.optimizeWrite' = '{setting}')" if setting else ""
    do(f"CREATE TABLE t (id BIGINT, p BIGINT) USING DELTA PARTITIONED BY (p) {listed}")
    assert do(Append(many_files)).metrics["numFiles"] == files
    assert sorted(empty_table.snapshot().to_arrow()["id"].to_pylist()) == list(range(20 * PARTS))


def test_rows_of_a_plain_table_are_collected_where_it_requests_it(do, empty_table, many_files):
    do("CREATE TABLE t (id BIGINT, p BIGINT) USING DELTA")
    assert do(Append(many_files)).metrics["numFiles"] == 20
    result = do("UPDATE t SET p = -1 WHERE id % 5 = 0")
    assert result.metrics["numAddedFiles"] == 1, "a row each of twenty files"
    do("ALTER TABLE t SET TBLPROPERTIES ('delta.autoOptimize.optimizeWrite' = 'true')")
    assert do(Append(many_files)).metrics["numFiles"] == 1
    assert empty_table.snapshot().row_count == 2 * 20 * PARTS


def test_a_large_partition_is_split_and_small_ones_share_a_task(spark, empty_table, do):
    do("CREATE TABLE t (id BIGINT, p BIGINT) USING DELTA PARTITIONED BY (p)")
    snapshot = empty_table.snapshot()
    table = TableFiles(empty_table.uri, snapshot.schema, ("p",), snapshot.properties)
    name = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
    before = spark.conf.get(name)
    spark.conf.set(name, "100k")
    try:
        rows = spark.range(0, 300_000, 1, 8).selectExpr("id", "IF(id < 1000, id % 4, 9) AS p")
        written = write(rebalance_partitions(rows, table), table)
    finally:
        spark.conf.set(name, before)
    small = [add for add in written.adds if add.partition_values["p"] != "9"]
    assert len(small) == 4
    assert len(written.adds) - len(small) > 1
    frame = scan(spark, table, ScanRequest(written.adds))
    assert frame.count() == written.rows == 300_000


def test_many_small_text_files_are_read_by_few_tasks(do, empty_table, tmp_path):
    folder = tmp_path / "text"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number:02}.csv").write_text(f"id,p\n{number},0\n", "utf-8")
    do("CREATE TABLE t (id BIGINT, p BIGINT) USING DELTA")
    assert do(Append(FileSource(str(folder), "csv"))).metrics["numFiles"] == 2
    assert empty_table.snapshot().to_arrow()["id"].to_pylist() == list(range(30))
