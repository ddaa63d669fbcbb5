"""Partitions of years that Python's calendar does not have, read and written by Spark."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.commands.model import Append, FileSource
from engine.commands.sql import parse_statement
from engine.operations.run import run
from engine.schema.types import DATE, LONG, TIMESTAMP, TIMESTAMP_NTZ, StructField, StructType
from engine.table import DeltaTable
from tests.shares import one_in

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

DAYS = [18_262, 2_932_897, -719_893]  # 2020, 10000 and the year before 0
DAY_MICROS = 86_400_000_000
TEXTS = ["2020-01-01", "+10000-01-01", "-0001-01-01"]


def _columns():
    days = pa.array(DAYS, pa.int32()).view(pa.date32())
    micros = pa.array([day * DAY_MICROS for day in DAYS], pa.int64())
    moments = micros.view(pa.timestamp("us", "UTC"))
    return {DATE: days, TIMESTAMP: moments, TIMESTAMP_NTZ: micros.view(pa.timestamp("us"))}


@pytest.mark.parametrize("kind", one_in(2, _columns()), ids=lambda kind: kind.name)
def test_every_command_works_beside_partitions_of_any_year(spark, tmp_path, kind):
    schema = StructType((StructField("id", LONG), StructField("p", kind)))
    table = DeltaTable.create(str(tmp_path / "t"), schema, partition_columns=["p"])
    rows = pa.table({"id": [1, 2, 3], "p": _columns()[kind]})
    pq.write_table(rows, tmp_path / "rows.parquet")

    def do(command):
        return run(parse_statement(command) if isinstance(command, str) else command, table, spark)

    def read_rows():
        read = table.snapshot().to_arrow()
        storage = pa.int32() if kind == DATE else pa.int64()
        days = [
            n // (1 if kind == DATE else DAY_MICROS) for n in read["p"].cast(storage).to_pylist()
        ]
        return sorted(zip(read["id"].to_pylist(), days, strict=True))

    for _ in range(2):
        do(Append(source=FileSource(str(tmp_path / "rows.parquet"), "parquet")))
    texts = {add.partition_values["p"][:12].rstrip("T 0") for add in table.snapshot().add_files()}
    assert texts == {text.rstrip("0") for text in TEXTS}
    assert read_rows() == sorted(2 * list(zip([1, 2, 3], DAYS, strict=True)))
    do("OPTIMIZE t")
    assert table.snapshot().file_count == 3
    do("UPDATE t SET id = id + 10 WHERE id < 3")
    assert read_rows() == sorted(2 * list(zip([11, 12, 3], DAYS, strict=True)))
    do("DELETE FROM t WHERE p > '2019-01-01'")
    assert read_rows() == [(3, DAYS[2])] * 2
