"""The preview of a file before it is loaded: inferred types, and rows as a write would store them."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from engine.commands.source_sample import SHOWN_ROWS, sample_file
from engine.commands.sources import FileSource
from engine.commands.text_sample import HEAD_BYTES
from engine.errors import RequestError, TooManyColumnsError


@pytest.fixture
def look(tmp_path):
    """Write a file and preview it: `look("rows.csv", b"…", types={…}, header=False)`."""

    def sample(name, content, types=None, **dialect):
        path = tmp_path / name
        if isinstance(content, pa.Table):
            writer = orc.write_table if name.endswith(".orc") else pq.write_table
            writer(content, path)
        else:
            path.write_bytes(content)
        source = FileSource(str(path), name.rpartition(".")[2], **dialect)
        return sample_file(source, path, types or {})

    return sample


def types_of(sample):
    return {column.name: column.type for column in sample.columns}


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1", "-20"], "BIGINT"),
        (["1", "9223372036854775808"], "DECIMAL(38,0)"),
        (["-" + "9" * 38, "7"], "DECIMAL(38,0)"),
        (["1" + "0" * 38, "7"], "STRING"),
        (["1" * 5000], "STRING"),
        (["1.5", "9223372036854775808"], "STRING"),
        (["1.5", "9223372036854775807"], "DOUBLE"),
        (["1.5", "2e3", "7"], "DOUBLE"),
        (["007", "12"], "STRING"),
        (["true", "FALSE"], "BOOLEAN"),
        (["2026-01-02"], "DATE"),
        (["2026-13-02"], "STRING"),
        (["2026-01-02T10:00:00Z", "2026-01-02 10:00"], "TIMESTAMP"),
        (["2026-01-02", "soon"], "STRING"),
        (["", ""], "STRING"),
        ([".", "-"], "STRING"),
    ],
)
def test_a_type_is_inferred_where_every_text_has_it(look, texts, expected):
    body = "a,b\n" + "".join(f"{text},x\n" for text in texts)
    assert types_of(look("rows.csv", body.encode()))["a"] == expected


def test_a_chosen_type_shows_values_as_they_would_be_written(look):
    sample = look("rows.csv", b"a,b\n1,007\n2,8\n", {"a": "decimal(5,2)", "b": "int"})
    assert types_of(sample) == {"a": "DECIMAL(5,2)", "b": "INT"}
    assert [row.values for row in sample.rows] == [["1.00", "7"], ["2.00", "8"]]
    assert [column.inferred for column in sample.columns] == ["BIGINT", "STRING"]
    assert json.loads(sample.schema_json)["fields"][0]["type"] == "decimal(5,2)"
    assert sample.is_changed


@pytest.mark.parametrize(
    ("bad_rows", "fate"), [("fail", "fails"), ("drop", "dropped"), ("null", "nulled")]
)
def test_a_value_that_does_not_fit_says_what_happens_to_its_row(look, bad_rows, fate):
    sample = look("rows.csv", b"a\n1\nx\n", {"a": "INT"}, bad_rows=bad_rows)
    assert [(row.values, row.misfits, row.fate) for row in sample.rows] == [
        (["1"], [], ""),
        (["x"], [0], fate),
    ]


@pytest.mark.parametrize(
    "kind", ["nonsense", "array<", "decimal(99,1)", "VARIANT", "varchar(3)", "interval"]
)
def test_a_type_that_cannot_be_written_is_refused_at_its_column(look, kind):
    sample = look("rows.csv", b"a,b\n1,2\n", {"b": kind})
    assert [bool(column.problem) for column in sample.columns] == [False, True]
    assert sample.schema_json == ""


def test_a_line_of_too_few_values_keeps_its_place(look):
    sample = look("rows.csv", b"a,b\n1,2\n3\n4,5\n")
    assert [row.fate for row in sample.rows] == ["", "fails", ""]
    assert "1 values where 2" in sample.rows[1].problem


def test_json_columns_have_the_common_types_of_all_lines(look):
    lines = b'{"a": 1, "b": {"c": [1, 2.5]}}\n{"a": 2.5, "d": true, "b": {"e": "x"}}\nnot json\n'
    sample = look("rows.json", lines)
    assert types_of(sample) == {
        "a": "DOUBLE",
        "b": "STRUCT<c: ARRAY<DOUBLE>, e: STRING>",
        "d": "BOOLEAN",
    }
    assert [row.fate for row in sample.rows] == ["", "", "fails"]


def test_json_reads_no_number_from_a_text(look):
    sample = look("rows.json", b'{"a": "1"}\n{"a": 2}\n', {"a": "INT"}, bad_rows="null")
    assert [(row.misfits, row.fate) for row in sample.rows] == [([0], "dropped"), ([], "")]


@pytest.mark.parametrize("name", ["rows.parquet", "rows.orc"])
def test_a_file_with_types_keeps_them_until_others_are_chosen(look, name):
    table = pa.table({"a": pa.array([1, 300], pa.int64()), "s": ["7", "x"], "n": [[1], None]})
    kept = look(name, table)
    assert (kept.is_changed, kept.sampled_rows) == (False, None)
    assert kept.rows[1].values == ["300", "x", None]
    other = look(name, table, {"a": "TINYINT", "s": "INT"})
    assert [row.values[:2] for row in other.rows] == [["1", "7"], ["300", "x"]]
    assert [row.misfits for row in other.rows] == [[], [0, 1]]


def test_a_type_without_a_cast_is_refused_by_the_engines_store_assignment(look):
    sample = look("rows.parquet", pa.table({"a": [1]}), {"a": "array<int>"})
    assert "array<int>" in sample.columns[0].problem


def test_names_that_parquet_forbids_are_reported(look):
    assert look("rows.csv", b"order id,b\n1,2\n").mapped_names == ["order id"]


def test_only_the_head_of_a_long_file_is_read(look):
    line = b'1,"a\nb"\n'
    sample = look("rows.csv", b"id,text\n" + line * (2 * HEAD_BYTES // len(line)))
    assert not sample.is_whole
    assert len(sample.rows) == SHOWN_ROWS
    assert {tuple(row.values) for row in sample.rows} == {("1", "a\nb")}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("rows.csv", b"\n\n", "no rows"),
        ("rows.csv", b"a,b\n\xff\xfe\n", "byte 5 is 0xFF"),
        ("rows.csv", "a,b\n1,2\n".encode("utf-16"), "NUL bytes"),
        ("rows.csv", b"x" * (HEAD_BYTES + 1), "longer than 1,024 KiB"),
        ("rows.csv", b"a,a\n1,2\n", "two columns called"),
        ("rows.csv", b"a,A\n1,2\n", "two columns called"),
        ("rows.json", b'[\n{"a": 1}\n]\n'[:2], "no JSON object"),
        ("rows.json", b"[" * 100_000 + b"\n", "no JSON object"),
        ("rows.parquet", b"PAR1 not at all PAR1", "cannot be read as PARQUET"),
        ("rows.orc", b"ORC", "cannot be read as ORC"),
    ],
)
def test_a_file_that_cannot_be_loaded_says_why(look, name, content, said):
    with pytest.raises(RequestError, match=said):
        look(name, content)


@pytest.mark.parametrize("columns", [10_001, 100_000])
@pytest.mark.parametrize("name", ["rows.csv", "rows.json"])
def test_too_many_columns_are_refused(look, name, columns):
    names = [f"c{number}" for number in range(columns)]
    body = ",".join(names) if name == "rows.csv" else json.dumps(dict.fromkeys(names, 1))
    if len(body) > HEAD_BYTES:
        body = body[: HEAD_BYTES // 2]
    with pytest.raises(RequestError) as refused:
        look(name, f"{body}\n".encode())
    assert f"{columns:,} columns" in refused.value.what or len(body) == HEAD_BYTES // 2


def test_too_many_columns_of_parquet_are_refused(look):
    with pytest.raises(TooManyColumnsError):
        look("rows.parquet", pa.table({f"c{number}": [1] for number in range(10_001)}))


def test_whole_numbers_of_more_than_38_digits_stay_text_and_the_column_says_why(look):
    ids = ["1" * 39, "1" * 38 + "2"]
    in_csv = look("rows.csv", ("id,x\n" + "".join(f"{one},1e40\n" for one in ids)).encode())
    in_json = look("rows.json", "".join(f'{{"id": {one}, "x": 1e40}}\n' for one in ids).encode())
    mixed = look("rows.json", f'{{"id": {ids[0]}}}\n{{"id": {ids[1]}}}\n{{"id": 1.5}}\n'.encode())
    for sample in (in_csv, in_json, mixed):
        assert types_of(sample)["id"] == "STRING"
        assert sample.columns[0].note.startswith("Some numbers have more digits than DOUBLE keeps")
        assert [row.values[0] for row in sample.rows[:2]] == ids
        assert json.loads(sample.schema_json)["fields"][0]["type"] == "string"
    for sample in (in_csv, in_json):
        assert (types_of(sample)["x"], sample.columns[1].note) == ("DOUBLE", "")


def test_whole_numbers_beyond_64_bits_keep_their_digits(look):
    ids = ["12345678901234567890", "12345678901234567891"]
    for sample in (
        look("rows.csv", ("id,x\n" + "".join(f"{one},y\n" for one in ids)).encode()),
        look("rows.json", "".join(f'{{"id": {one}}}\n' for one in ids).encode()),
        look("rows.json", f'{{"id": {ids[0]}}}\n{{"id": {ids[1]}}}\n{{"id": 1}}\n'.encode()),
    ):
        assert types_of(sample)["id"] == "DECIMAL(38,0)"
        assert [row.values[0] for row in sample.rows[:2]] == ids
