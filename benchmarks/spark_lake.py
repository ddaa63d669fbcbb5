"""Tables of many small files for the measurements that need Spark."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from engine.actions.files import AddFile
from engine.schema.types import PrimitiveType, StructField, StructType
from engine.spark.session import build_session
from engine.table import DeltaTable

_SCHEMA = StructType(
    tuple(
        StructField(name, PrimitiveType(kind), nullable=True)
        for name, kind in (("id", "long"), ("name", "string"), ("value", "double"))
    )
)


def local_session() -> SparkSession:
    """Return the session shared by all measurements, warmed by a first job."""
    spark = build_session("benchmarks")
    spark.range(1000).selectExpr("sum(id)").collect()
    return spark


def table_of_small_files(
    place: Path,
    files: int,
    rows: int,
    properties: dict[str, str],
    clustered_by: Sequence[str] = (),
) -> DeltaTable:
    """Create a table of `files` files of `rows` rows each, added in one commit."""
    table = DeltaTable.create(
        str(place), _SCHEMA, clustering_columns=clustered_by, properties=properties
    )
    values = np.random.default_rng(7).random(rows)
    txn = table.start_transaction()
    for number in range(files):
        first = number * rows
        ids = np.arange(first, first + rows)
        data = pa.table(
            {"id": ids, "name": pa.array([f"name {id_ % 977}" for id_ in ids]), "value": values}
        )
        name = f"part-{number:05}.parquet"
        pq.write_table(data, place / name)
        stats = f'{{"numRecords":{rows},"minValues":{{"id":{first}}},"maxValues":{{"id":{first + rows - 1}}}}}'
        size = (place / name).stat().st_size
        txn.stage(
            AddFile(
                path=name,
                partition_values={},
                size=size,
                modification_time=0,
                data_change=True,
                stats=stats,
            )
        )
    txn.commit("WRITE", {"mode": "Append"})
    return table
