from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError

from engine.actions.files import AddFile
from engine.deletion_vectors.files import write_deletion_vector
from engine.errors import PathOutsideRootError, RequestError
from engine.protocol.properties import TableProperties
from engine.schema.types import LONG, STRING, StructField, StructType
from engine.spark.scan.reader import FILE, ROW, ROW_ID, ScanRequest, scan
from engine.spark.table_files import TableFiles
from engine.storage.uri import open_store

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]

SCHEMA = StructType((StructField("id", LONG), StructField("p", STRING), StructField("new", LONG)))
NAMES = ["plain.parquet", "p=a b%20{x}[1]*/part é:1.parquet", "_p=1/x.parquet"]


@pytest.fixture
def table(tmp_path):
    return TableFiles(str(tmp_path / "t%41 able"), SCHEMA, ("p",))


def _add(table, name, ids):
    place = Path(table.uri) / name
    place.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), place)
    path = name.replace("%", "%25").replace(" ", "%20")
    return AddFile(
        path=path, partition_values={"p": name}, size=1, modification_time=0, data_change=True
    )


def test_files_of_any_name_are_read_with_their_positions(spark, table):
    adds = [_add(table, name, [10 * i, 10 * i + 1]) for i, name in enumerate(NAMES)]
    adds[1] = msgspec.structs.replace(
        adds[1], deletion_vector=write_deletion_vector(open_store(table.uri), [0]), base_row_id=100
    )
    frame = scan(spark, table, ScanRequest(adds, positions=True, row_ids=True))
    rows = [(r.id, r.p, r.new, r[FILE], r[ROW], r[ROW_ID]) for r in frame.collect()]
    assert sorted(rows) == [
        (0, NAMES[0], None, 0, 0, None),
        (1, NAMES[0], None, 0, 1, None),
        (11, NAMES[1], None, 1, 1, 101),
        (20, NAMES[2], None, 2, 0, None),
        (21, NAMES[2], None, 2, 1, None),
    ]


def test_a_scan_of_no_files_has_no_rows(spark, table):
    frame = scan(spark, table, ScanRequest([], positions=True))
    assert frame.columns == ["id", "p", "new", FILE, ROW]
    assert frame.count() == 0


def test_a_scan_may_be_limited_to_some_files(spark, table):
    adds = [_add(table, name, [i]) for i, name in enumerate(NAMES)]
    frame = scan(spark, table, ScanRequest(adds, positions=True, only=frozenset({2})))
    assert [(row.id, row[FILE]) for row in frame.collect()] == [(2, 2)]


def test_a_file_that_spark_would_pass_over_is_refused(spark, table):
    with pytest.raises(RequestError, match="hidden"):
        scan(spark, table, ScanRequest([_add(table, "_hidden.parquet", [1])]))


def test_a_path_out_of_the_table_is_refused(spark, table):
    outside = AddFile(
        path="../x.parquet", partition_values={}, size=1, modification_time=0, data_change=True
    )
    with pytest.raises(PathOutsideRootError):
        scan(spark, table, ScanRequest([outside]))


def test_a_table_in_memory_is_refused(spark):
    table = TableFiles("memory://here/t", SCHEMA)
    add = AddFile(path="a", partition_values={}, size=1, modification_time=0, data_change=True)
    with pytest.raises(RequestError, match="memory"):
        scan(spark, table, ScanRequest([add]))


def test_a_bucket_without_its_connector_is_refused_by_name(spark):
    table = TableFiles("s3://bucket/t", SCHEMA)
    add = AddFile(path="a", partition_values={}, size=1, modification_time=0, data_change=True)
    with pytest.raises(RequestError, match=r"S3AFileSystem.*SPARK_JARS"):
        scan(spark, table, ScanRequest([add]))


def test_a_file_without_field_ids_is_never_read_as_nulls(spark, tmp_path):
    """Where columns are mapped by id, such a file has no column, whatever its names: Spark refuses it."""
    marked = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "id"}
    schema = StructType((StructField("id", LONG, metadata=marked),))
    by_id = TableProperties.parse({"delta.columnMapping.mode": "id"})
    table = TableFiles(str(tmp_path), schema, properties=by_id)
    add = _add(table, "plain.parquet", [1, 2])
    with pytest.raises(Py4JJavaError, match="field Ids"):
        scan(spark, table, ScanRequest([add])).collect()
    numbered = pa.schema([pa.field("other", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    pq.write_table(pa.table([[3]], schema=numbered), tmp_path / "plain.parquet")
    assert [row.id for row in scan(spark, table, ScanRequest([add])).collect()] == [3]
