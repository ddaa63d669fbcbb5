"""Statistics of every writer, compared with the values: no condition may miss a matching row."""

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.commands.definition import Clone
from engine.commands.sql import parse_statement
from engine.deletion_vectors.files import read_deletion_vector
from engine.expressions.parse import parse_condition
from engine.expressions.tree import Call, Column, Literal
from engine.operations.define.convert import Conversion, convert
from engine.operations.execution import Execution
from engine.operations.run import run
from engine.operations.run_options import RunOptions
from engine.schema.types import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    DecimalType,
    StructField,
    StructType,
)
from engine.snapshot.reader import read_file
from engine.snapshot.snapshot import Snapshot
from engine.spark.data_source import register
from engine.spark.file_writer import FileTarget, OpenFile
from engine.spark.table_files import arrow_schema
from engine.storage.uri import open_store
from engine.table import DeltaTable

UTC = dt.UTC
NAN, INF = float("nan"), float("inf")
LIMITED = "__CHAR_VARCHAR_TYPE_STRING"
MOMENTS = [
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
    dt.datetime(1500, 1, 1, 0, 0, 0, 1, UTC),
    dt.datetime(1, 1, 1, tzinfo=UTC),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC),
    dt.datetime(2020, 1, 2, 3, 4, 5, 123_456, UTC),
]
TEXTS = ["\U0010ffff" * 40, "a" * 32 + "\U0001f600", "\ud7ff\uffff" * 40, "", "ä" * 40 + "z"]
VALUES: dict[str, tuple[DataType, list]] = {
    "bool": (BOOLEAN, [True, False]),
    "i8": (BYTE, [-128, 127, 0]),
    "i16": (SHORT, [-(2**15), 2**15 - 1]),
    "i32": (INTEGER, [-(2**31), 2**31 - 1]),
    "i64": (LONG, [-(2**63), 2**63 - 1, 2**53 + 1]),
    "f32": (FLOAT, [NAN, -0.0, 0.0, INF, -INF, 1.100000023841858]),
    "f64": (DOUBLE, [-0.0, NAN, 0.1, -INF, 5e-324, INF, 0.0]),
    "dec9": (DecimalType(9, 2), [Decimal("-9999999.99"), Decimal("0.01")]),
    "dec38": (DecimalType(38, 10), [Decimal(10**28 - 1), Decimal("-1E-10")]),
    "text": (STRING, TEXTS),
    "char": (STRING, ["abc  ", "\U0010ffff" * 5, "     "]),
    "varchar": (STRING, ["", *TEXTS[:3]]),
    "bin": (BINARY, [b"\xff" * 40, b"", b"\x00"]),
    "day": (DATE, [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31)]),
    "ts": (TIMESTAMP, MOMENTS),
    "ntz": (TIMESTAMP_NTZ, [moment.replace(tzinfo=None) for moment in MOMENTS]),
}
ROW_COUNT = 8
DML = [
    "DELETE FROM t WHERE id = 0",
    "UPDATE t SET i32 = 5 WHERE id IN (1, 4)",
    "MERGE INTO t USING (VALUES (2, 7), (90, 9)) AS s (id, n) ON t.id = s.id"
    " WHEN MATCHED THEN UPDATE SET i32 = s.n WHEN NOT MATCHED THEN INSERT (id, i32) VALUES (s.id, s.n)",
    "INSERT INTO t (id, f64, text) VALUES (91, CAST('NaN' AS DOUBLE), '" + "z" * 90 + "')",
]
REWRITES = [
    "OPTIMIZE t",
    "DELETE FROM t WHERE id = 5",
    "REORG TABLE t APPLY (PURGE)",
    "OPTIMIZE t ZORDER BY (f64, ts)",
    "INSERT INTO t SELECT * FROM t",
]


def _field(name: str, kind: DataType) -> StructField:
    limits = {"char": "char(5)", "varchar": "varchar(90)"}
    return StructField(name, kind, metadata={LIMITED: limits[name]} if name in limits else {})


def _schema(left_out: str) -> StructType:
    leaves = tuple(_field(name, kind) for name, (kind, _) in VALUES.items() if name != left_out)
    inner = StructType(tuple(StructField(name, kind) for name, (kind, _) in VALUES.items()))
    nested = (StructField("inner", inner), StructField("list", ArrayType(DOUBLE, True)))
    return StructType((StructField("id", LONG), *leaves, *nested))


def _rows() -> list[dict]:
    """Return rows in which each type has each of its edge values, and null, beside other values."""
    rows = []
    for number in range(ROW_COUNT):
        leaves = {
            name: [*values, None][number % (len(values) + 1)]
            for name, (_, values) in VALUES.items()
        }
        inner = None if number == ROW_COUNT - 1 else leaves
        rows.append({"id": number, **leaves, "inner": inner, "list": [NAN, None, -0.0]})
    return rows


def _make_table(root: Path, vectors: str, left_out: str = "") -> DeltaTable:
    """Create files of two rows each, one by every writer."""
    schema = _schema(left_out)
    options = {
        "delta.checkpointInterval": "2",
        "delta.dataSkippingNumIndexedCols": "-1",
        "delta.enableDeletionVectors": vectors,
    }
    table = DeltaTable.create(str(root), schema, properties=options)
    target = FileTarget(str(root), schema, arrow_schema(schema))
    rows, txn = _rows(), table.start_transaction()
    for start in range(0, ROW_COUNT, 2):
        file = OpenFile(target, (), f"part-{start}.parquet")
        shaped = pa.Table.from_pylist(rows[start : start + 2], schema=target.arrow_schema)
        for batch in shaped.to_batches():
            file.write(batch)
        txn.stage(file.finish())
    txn.commit("WRITE")
    return table


def _iter_leaves(snapshot: Snapshot) -> Iterator[Column]:
    for field in snapshot.schema:
        if isinstance(field.type, StructType):
            yield from (Column((field.name, leaf.name), leaf.type) for leaf in field.type)
        elif not isinstance(field.type, ArrayType):
            yield Column((field.name,), field.type)


def _dig(row: dict, path: tuple[str, ...]) -> object:
    value: object = row
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _check(snapshot: Snapshot, step: str, seen: set[object] | None = None) -> None:
    """Check that skipping finds the file of every live value, and that its counts match its footer and rows."""
    before = set() if seen is None else seen
    for add in snapshot.add_files():
        if (add.key, add.stats) in before:
            continue
        before.add((add.key, add.stats))
        stats = json.loads(add.stats or "{}", parse_float=Decimal)
        rows = read_file(snapshot, add).to_pylist()
        vector = add.deletion_vector
        gone = len(read_deletion_vector(snapshot.store, vector)) if vector else 0
        assert stats["numRecords"] == len(rows) + gone, step
        for leaf in _iter_leaves(snapshot):
            values = [_dig(row, leaf.path) for row in rows]
            nulls = _dig(stats.get("nullCount", {}), leaf.path)
            assert nulls is None or gone or nulls == values.count(None), (step, leaf)
            bounds = [_dig(stats.get(side, {}), leaf.path) for side in ("minValues", "maxValues")]
            _check_bounds(bounds, values, (step, leaf))
            _check_found(snapshot, add.key, leaf, values, step)


def _check_bounds(bounds: list, values: list, where: object) -> None:
    """Check that bounds of text and numbers are exact as written: other readers do not widen them."""
    comparable = [value for value in values if isinstance(value, str | int | float | Decimal)]
    if None in bounds or not comparable or isinstance(comparable[0], bool):
        return
    low, high = map(float, bounds) if isinstance(comparable[0], float) else bounds
    assert all(low <= value <= high for value in comparable), (where, bounds)


def _check_found(snapshot: Snapshot, key: tuple, leaf: Column, values: list, step: str) -> None:
    conditions = [
        Call("=", (leaf, Literal(value, leaf.type)), BOOLEAN)
        for value in {repr(value): value for value in values if value is not None}.values()
    ]
    if None in values:
        text = f"{'.'.join(leaf.path)} IS NULL"
        conditions.append(parse_condition(text, snapshot.schema))
    for condition in conditions:
        assert key in {add.key for add in snapshot.add_files(condition)}, (step, condition)


def test_writers_of_this_process_say_nothing_that_hides_a_row(tmp_path):
    for vectors in ("true", "false"):
        root = tmp_path / vectors
        table = _make_table(root, vectors, left_out="char")  # only Spark fills up with spaces
        seen: set[object] = set()
        _check(table.snapshot(), "append", seen)
        for statement in DML:
            run(parse_statement(statement), table)
            _check(table.snapshot(), statement, seen)
        _check(DeltaTable.open(str(root)).snapshot(), "checkpoint")
        for deep in (True, False):
            target = DeltaTable(
                open_store(str(tmp_path / f"{vectors}{deep}")), allowed_roots=[str(root)]
            )
            run(Clone(str(root), deep=deep), target)
            _check(target.snapshot(), f"clone {deep}")
        run(parse_statement("RESTORE TABLE t TO VERSION AS OF 1"), table)
        _check(table.snapshot(), "RESTORE")
        assert table.snapshot().row_count == ROW_COUNT


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_writers_on_spark_say_nothing_that_hides_a_row(tmp_path, spark):
    root = tmp_path / "t"
    table = _make_table(root, "true")
    options, seen = RunOptions(in_process_bytes=0), set()
    for statement in (*DML, *REWRITES):
        run(parse_statement(statement), table, spark, options, resolve=lambda _: table)
        _check(table.snapshot(), statement, seen)
    plain = tmp_path / "plain"
    plain.mkdir()
    for number, add in enumerate(table.snapshot().add_files()):
        rows = read_file(table.snapshot(), add)
        pq.write_table(rows, plain / f"{number}.parquet", row_group_size=3)
    converted = DeltaTable(open_store(str(plain)))
    convert(Conversion(), Execution(converted, spark, options))
    _check(converted.snapshot(), "CONVERT")


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_the_data_source_and_its_stream_say_nothing_that_hides_a_row(tmp_path, spark):
    register(spark)
    source = _make_table(tmp_path / "source", "true", left_out="char")
    batch, stream = (
        DeltaTable.create(
            str(tmp_path / name), _schema("char"), properties={"delta.checkpointInterval": "2"}
        )
        for name in ("batch", "stream")
    )
    frame = spark.read.format("lake").load(source.uri)
    frame.write.format("lake").mode("append").save(batch.uri)
    query = (
        spark.readStream.format("lake")
        .load(source.uri)
        .writeStream.format("lake")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(stream.uri)
    )
    query.awaitTermination()
    for table in (batch, stream):
        assert table.snapshot().row_count == ROW_COUNT
        _check(table.snapshot(), table.uri)
