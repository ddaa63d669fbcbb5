"""Tables of other engines: Spark reads the same rows as the engine without Spark."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.spark.scan.reader import ScanRequest, scan
from engine.spark.table_files import TableFiles
from engine.table import DeltaTable
from tests.engine.foreign.every_table import WITH_ODD_FILES
from tests.shares import one_in

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]

REAL_TABLES = [
    "dat/all_primitive_types",
    "dat/column_mapping",
    "dat/deletion_vectors",
    "dat/multi_partitioned",
    "dat/nested_types",
    "dat/partitioned_with_null",
    "dat/with_schema_change",
    "golden/data-reader-array-complex-objects",
    "golden/data-reader-escaped-chars",
    "golden/data-reader-partition-values",
    "golden/data-reader-timestamp_ntz-id-mode",
    "golden/data-skipping-basic-stats-all-types-columnmapping-name",
    "golden/dv-partitioned-with-checkpoint",
    "golden/kernel-timestamp-int96",
    "golden/log-replay-special-characters",
    "golden/parquet-all-types",
]


def _rows(table: pa.Table) -> list[str]:
    return sorted(repr(row) for row in table.to_pylist())


def assert_spark_reads_the_same(spark: SparkSession, root: Path) -> None:
    snapshot = DeltaTable.open(str(root)).snapshot()
    table = TableFiles(
        snapshot.table_uri,
        snapshot.schema,
        tuple(snapshot.partition_columns),
        snapshot.properties,
    )
    rows = scan(spark, table, ScanRequest(snapshot.add_files())).toArrow()
    assert rows.column_names == snapshot.schema.names
    assert _rows(rows) == _rows(snapshot.to_arrow())


NOT_BY_SPARK = {
    "moments_in_nanoseconds",  # Spark reads none
    "variants",  # PySpark makes no Arrow of a variant that is null
}
BY_SPARK = [table for table in WITH_ODD_FILES if table.name not in NOT_BY_SPARK]


@pytest.mark.parametrize("table", one_in(3, BY_SPARK), ids=lambda table: table.name)
def test_spark_reads_the_same_rows_as_the_engine(spark, table, tmp_path):
    assert_spark_reads_the_same(spark, table.make(tmp_path))


@pytest.mark.parametrize("name", REAL_TABLES)
def test_spark_reads_the_same_rows_of_a_real_table(spark, reference, name):
    assert_spark_reads_the_same(spark, reference / "tables" / name)
