"""A job writes what the preview of its file showed, under the types chosen there."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.commands.model import Create
from engine.commands.source_sample import arrow_texts, sample_file
from engine.commands.sources import FileSource
from engine.schema.types import parse_schema

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]

CSV = (
    b"id,code,amount,at,day,flag,note\n"
    b'1,007, 1.5,2026-01-02T10:00:00+02:00,2026-01-02,true,"a ""b"", c"\n'
    b"2,8,-2.345,2026-01-02 10:00,2026-02-03,F,\n"
    b"x,9,1,2026-01-02,2026-01-02,yes,bad\n"
)
JSON = (
    b'{"id": 1, "code": 7, "amount": "1.5", "at": "2026-01-02T10:00:00Z", "tags": ["a"]}\n'
    b'{"id": 2, "code": "x", "amount": 2.345, "flag": true}\n'
    b'{"id": "3", "code": "bad"}\n'
    b"no object\n"
)
TYPES = {"id": "INT", "amount": "DECIMAL(5,2)", "flag": "BOOLEAN"}


@pytest.mark.parametrize("bad_rows", ["drop", "null"])
@pytest.mark.parametrize(("name", "content"), [("rows.csv", CSV), ("rows.json", JSON)])
def test_a_text_file_is_written_as_its_sample_shows_it(
    do, empty_table, tmp_path, name, content, bad_rows
):
    path = tmp_path / name
    path.write_bytes(content)
    source = FileSource(str(path), name.rpartition(".")[2], bad_rows=bad_rows)
    sample = sample_file(source, path, TYPES | {"code": "STRING", "at": "TIMESTAMP"})
    do(Create(parse_schema(sample.schema_json), source=source, replace=True))
    expected = [
        tuple(None if place in row.misfits else value for place, value in enumerate(row.values))
        for row in sample.rows
        if row.fate != "dropped"
    ]
    written = empty_table.snapshot().to_arrow()
    columns = [arrow_texts(written.column(column.name)) for column in sample.columns]
    assert sorted(zip(*columns, strict=True), key=str) == sorted(expected, key=str)


def test_a_parquet_file_is_written_as_its_sample_shows_it(do, empty_table, tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": [1, 2], "b": ["7", "8"], "c": [1.5, 2.5]}), path)
    source = FileSource(str(path), "parquet")
    sample = sample_file(source, path, {"a": "STRING", "b": "INT", "c": "DECIMAL(3,1)"})
    do(Create(parse_schema(sample.schema_json), source=source, replace=True))
    written = empty_table.snapshot().to_arrow()
    columns = [arrow_texts(written.column(name)) for name in ("a", "b", "c")]
    assert sorted(map(list, zip(*columns, strict=True))) == [row.values for row in sample.rows]
