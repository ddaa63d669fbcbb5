"""Tables that other engines wrote, read by Spark as the engine reads them without it."""

import pyarrow as pa
import pytest

from engine.spark.reader import ScanRequest, scan
from engine.spark.table_files import TableFiles
from engine.table import DeltaTable
from tests.shared import SHARED, needs_shared

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120), needs_shared]

TABLES = [
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


@pytest.mark.parametrize("name", TABLES)
def test_spark_reads_the_same_rows_as_the_engine(spark, name):
    snapshot = DeltaTable.open(str(SHARED / "tables" / name)).snapshot()
    table = TableFiles(
        snapshot.table_uri,
        snapshot.schema,
        tuple(snapshot.partition_columns),
        snapshot.properties,
    )
    rows = scan(spark, table, ScanRequest(snapshot.add_files())).toArrow()
    assert rows.column_names == snapshot.schema.names
    assert _rows(rows) == _rows(snapshot.to_arrow())
