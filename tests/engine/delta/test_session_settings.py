"""A table's rows do not depend on the caller's settings for reading other files."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from engine.delta import DeltaTable
from engine.errors import EngineError
from engine.table import DeltaTable as EngineTable
from tests.engine.delta.conftest import rows_of

READ_ERRORS = (PySparkException, Py4JJavaError, EngineError)
pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]


def test_columns_are_found_by_their_ids_in_any_session(lake, tmp_path):
    """Another engine wrote the files before a column was renamed and another one took its name."""
    place = tmp_path / "table"
    (place / "_delta_log").mkdir(parents=True)
    fields = [
        pa.field("before", pa.int64(), metadata={"PARQUET:field_id": "1"}),
        pa.field("b", pa.string(), metadata={"PARQUET:field_id": "9"}),
    ]
    pq.write_table(pa.table([[1, 2], ["x", "y"]], schema=pa.schema(fields)), place / "f.parquet")
    ids = "delta.columnMapping.id", "delta.columnMapping.physicalName"
    columns = [
        {
            "name": name,
            "type": kind,
            "nullable": True,
            "metadata": dict(zip(ids, (i, name), strict=True)),
        }
        for i, (name, kind) in enumerate((("a", "long"), ("b", "string")), 1)
    ]
    actions = [
        {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}},
        {
            "metaData": {
                "id": "m",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": columns}),
                "partitionColumns": [],
                "configuration": {
                    "delta.columnMapping.mode": "id",
                    "delta.columnMapping.maxColumnId": "9",
                },
            }
        },
        {
            "add": {
                "path": "f.parquet",
                "partitionValues": {},
                "size": (place / "f.parquet").stat().st_size,
                "modificationTime": 1,
                "dataChange": True,
            }
        },
    ]
    (place / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    session = lake.newSession()
    session.conf.set("spark.sql.parquet.fieldId.read.enabled", "false")
    frame = session.read.format("delta").load(str(place))
    assert rows_of(frame) == [(1, None), (2, None)]
    assert frame.filter("a = 2").count() == 1
    assert frame.filter("b IS NULL").count() == 2


@pytest.mark.parametrize("damage", ["missing", "corrupt"])
def test_files_that_cannot_be_read_are_never_left_out(lake, tmp_path, damage):
    place = tmp_path / "table"
    session = lake.newSession()
    session.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    session.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    for start in (0, 10):
        session.range(start, start + 10).coalesce(1).write.format("delta").mode("append").save(
            str(place)
        )
    frame = session.read.format("delta").load(str(place))
    file = next(place.glob("*.parquet"))
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-30] + b"x" * 30)
    with pytest.raises(READ_ERRORS):
        frame.collect()
    with pytest.raises(READ_ERRORS):
        DeltaTable.forPath(session, str(place)).update(
            "length(cast(id as string)) > 0", {"id": "id"}
        )
    assert EngineTable.open(str(place)).version() == 1
