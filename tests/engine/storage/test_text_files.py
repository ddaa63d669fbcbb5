from engine.storage.text_files import CsvDialect, TextFile, csv_columns, iter_csv, iter_lines


def _file(tmp_path, text):
    path = tmp_path / "f.csv"
    path.write_text(text, "utf-8")
    return TextFile(str(tmp_path), "f.csv", path.stat().st_size)


def _rows(batches):
    return [row for batch in batches for row in batch.to_pylist()]


def test_records_carry_their_numbers_and_misfits_their_problem(tmp_path):
    file = _file(tmp_path, 'a,b\n1,"x\ny"\n2\n3,""\n4,\n\n5,6,7\n8,é\n')
    rows = _rows(iter_csv(file, CsvDialect(), ["a", "b"]))
    good = {row["__record"]: (row["a"], row["b"]) for row in rows if not row["__problem"]}
    assert good == {2: ("1", "x\ny"), 4: ("3", ""), 5: ("4", None), 7: ("8", "é")}
    bad = {row["__record"]: row["__problem"] for row in rows if row["__problem"]}
    assert set(bad) == {3, 6}
    assert bad[6].startswith("3 values where 2 are expected")


def test_names_come_from_the_header_or_are_numbered(tmp_path):
    file = _file(tmp_path, "a;b\n1;2\n")
    assert csv_columns(file, CsvDialect(delimiter=";")) == ["a", "b"]
    assert csv_columns(file, CsvDialect(header=False, delimiter=";")) == ["_c0", "_c1"]


def test_an_empty_file_has_no_columns(tmp_path):
    assert csv_columns(_file(tmp_path, ""), CsvDialect()) == []


def test_lines_that_are_not_blank_keep_their_numbers(tmp_path):
    rows = _rows(iter_lines(_file(tmp_path, '{"a": 1}\n\n  \n{"a": 2}')))
    assert [(row["__record"], row["value"]) for row in rows] == [(1, '{"a": 1}'), (4, '{"a": 2}')]
