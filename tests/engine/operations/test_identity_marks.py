"""Identity columns of tables whose metadata is replaced as a whole."""

import pytest

from engine.commands.sql import parse_statement
from engine.operations.run import run
from engine.schema.types import LONG, StructField, StructType
from engine.spark.write.identity import HIGH_WATER_MARK, START, STEP, restore_latest_marks
from engine.table import DeltaTable


def _schema(mark=None, start=1, step=1):
    marked = {} if mark is None else {HIGH_WATER_MARK: mark}
    return StructType((StructField("id", LONG, metadata={START: start, STEP: step, **marked}),))


@pytest.mark.parametrize(
    ("new", "latest", "mark"),
    [
        (_schema(3), _schema(100), 100),
        (_schema(100), _schema(3), 100),
        (_schema(), _schema(100), 100),
        (_schema(-3, step=-1), _schema(-100, step=-1), -100),
        (_schema(-100, step=-1), _schema(-3, step=-1), -100),
        (_schema(start=1000), _schema(5), None),
        (_schema(step=10), _schema(5), 11),
        (_schema(start=0, step=-1), _schema(50), None),
        (_schema(7), _schema(), 7),
    ],
)
def test_the_furthest_mark_is_kept(new, latest, mark):
    (field,) = restore_latest_marks(new, latest)
    assert field.metadata.get(HIGH_WATER_MARK) == mark


def _table(uri, mark):
    schema = StructType((*_schema(mark), StructField("v", LONG)))
    return DeltaTable.create(str(uri), schema)


@pytest.mark.parametrize("kind", ["SHALLOW CLONE", "DEEP CLONE"])
def test_a_clone_keeps_the_mark_of_the_table_that_it_replaces(tmp_path, kind):
    source, target = _table(tmp_path / "source", 3), _table(tmp_path / "target", 100)
    statement = f"CREATE OR REPLACE TABLE t {kind} delta.`{source.uri}`"
    target = DeltaTable.open(target.uri, allowed_roots=[str(tmp_path)])
    run(parse_statement(statement), target, None)
    assert target.snapshot().schema.fields[0].metadata[HIGH_WATER_MARK] == 100


def test_a_replaced_table_keeps_its_mark(tmp_path):
    target = _table(tmp_path / "target", 100)
    statement = "CREATE OR REPLACE TABLE t (id BIGINT GENERATED ALWAYS AS IDENTITY, w INT)"
    run(parse_statement(statement), target, None)
    assert target.snapshot().schema.fields[0].metadata[HIGH_WATER_MARK] == 100
