"""Files as rows: several tasks read a large file, and every format gets the types of the table."""

import json

import pyarrow as pa
import pyarrow.orc as pa_orc
import pytest

from engine.commands.model import FileSource
from engine.errors import BadRowsError, SchemaMismatchError, TooManyColumnsError
from engine.schema.types import LONG, STRING, StructField, StructType
from engine.spark.failures import spark_failure
from engine.spark.sources import read_files

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

WANTED = StructType((StructField("id", LONG), StructField("name", STRING)))
BAD = {17, 500, 998}  # lines, from 1; in the CSV the header is the first


def _csv(path):
    lines = ["id,name"] + [f"{n},name {n}" for n in range(2, 1001)]
    for n in BAD:
        lines[n - 1] = f"x{n},bad" if n != 500 else "500,too,many"
    path.write_text("\n".join(lines) + "\n")


def _json(path):
    lines = [json.dumps({"id": n, "name": f"name {n}"}) for n in range(1, 1001)]
    for n in BAD:
        lines[n - 1] = f'{{"id": "x{n}"}}' if n != 500 else "not json"
    path.write_text("\n".join(lines))


@pytest.mark.parametrize(("kind", "write"), [("csv", _csv), ("json", _json)])
def test_a_large_text_file_is_read_by_several_tasks_and_bad_rows_keep_their_numbers(
    spark, tmp_path, kind, write
):
    path = tmp_path / f"rows.{kind}"
    write(path)

    def read(bad_rows):
        source = FileSource(str(path), kind, bad_rows=bad_rows)
        return read_files(spark, source, WANTED, piece_bytes=1500)

    rows = read("drop")
    assert rows.frame.rdd.getNumPartitions() > 1
    good = {row["id"]: row["name"] for row in rows.frame.collect()}
    expected = set(range(2 if kind == "csv" else 1, 1001)) - BAD
    assert good == {n: f"name {n}" for n in expected}
    assert rows.dropped() == 3
    with pytest.raises(Exception, match=r"json|csv") as caught:
        read("fail").frame.collect()
    error = spark_failure(caught.value, "here")
    assert isinstance(error, BadRowsError)
    assert any(f"{n}" in str(error) for n in BAD)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("count", "error"), [(100_000, TooManyColumnsError), (9_999, SchemaMismatchError)]
)
def test_a_header_of_very_many_names_is_refused_in_good_time(spark, tmp_path, count, error):
    path = tmp_path / "wide.csv"
    path.write_text(",".join([*(f"c{n}" for n in range(count)), "c0"]) + "\n1")
    with pytest.raises(error) as refused:
        read_files(spark, FileSource(str(path), "csv"), WANTED)
    assert refused.value.field == "source"


def test_orc_files_are_read_under_their_own_types(spark, tmp_path):
    (tmp_path / "in").mkdir()
    for part in range(2):
        table = pa.table({"id": pa.array([part, part + 10]), "name": ["ä", None]})
        pa_orc.write_table(table, tmp_path / "in" / f"part-{part}.orc")
    rows = read_files(spark, FileSource(str(tmp_path / "in"), "orc"), WANTED)
    assert rows.schema == WANTED
    assert sorted(map(tuple, rows.frame.collect())) == [(0, "ä"), (1, "ä"), (10, None), (11, None)]
