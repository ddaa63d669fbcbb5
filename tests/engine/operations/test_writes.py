# ruff: noqa: S608 - statements are what is tested
import pytest

from engine.commands.model import Append, Create, FileSource
from engine.errors import (
    BadRowsError,
    InvariantViolationError,
    OperationCancelledError,
    RequestError,
    SchemaMismatchError,
)
from engine.schema.types import LONG, STRING, StructField, StructType
from engine.spark.failures import ValueNotParsedError
from engine.spark.jobs import Progress
from tests.shares import one_in

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]

LAYOUTS = ("", "PARTITIONED BY (p)", "CLUSTER BY (id)")
ROWS = [(1, "a b/c%", 1.5), (2, "b", None), (3, None, -2.0)]


@pytest.fixture
def table(do, empty_table):
    do("CREATE TABLE t (id BIGINT, p STRING, v DOUBLE) USING DELTA")
    return empty_table


@pytest.mark.parametrize("layout", one_in(2, LAYOUTS))
def test_three_engines_read_the_same_appended_rows(do, empty_table, rows_elsewhere, layout):
    do(f"CREATE TABLE t (id BIGINT, p STRING, v DOUBLE) USING DELTA {layout}")
    result = do("INSERT INTO t VALUES (1, 'a b/c%', 1.5), (2, 'b', NULL), (3, NULL, -2.0)")
    assert result.version == 1
    assert result.metrics["numOutputRows"] == 3
    rows = rows_elsewhere(empty_table)
    assert rows["engine"] == rows["deltalake"] == rows["duckdb"] == sorted(ROWS, key=repr)


def test_append_is_blind_and_says_so(do, table):
    do("INSERT INTO t VALUES (1, 'a', 1.0)")
    info = table.history(1)[0]
    assert info.is_blind_append is True
    assert info.operation == "WRITE"
    assert info.operation_metrics["numOutputRows"] == "1"


def test_insert_from_its_own_table_is_not_blind(do, table):
    do("INSERT INTO t VALUES (1, 'a', 1.0)")
    do(f"INSERT INTO t BY NAME SELECT id + 1 AS id, p, v FROM delta.`{table.uri}` WHERE id = 1")
    assert table.history(1)[0].is_blind_append is False
    assert sorted(table.snapshot().to_arrow()["id"].to_pylist()) == [1, 2]


def test_statistics_let_a_query_skip_files(do, table):
    do("INSERT INTO t VALUES (1, 'a', 1.0)")
    do("INSERT INTO t VALUES (100, 'b', 2.0)")
    assert table.snapshot().files("id > 50").num_rows == 1
    assert table.snapshot().row_count == 2


def test_a_bad_row_of_a_csv_file_fails_the_job_by_name(do, table, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("id,p,v\n1,x,1.5\n2,y,many\n", "utf-8")
    with pytest.raises(BadRowsError, match=r"Row 3 of .*rows\.csv does not fit: column v is not a"):
        do(Append(FileSource(str(path), "csv")))
    assert table.version() == 0
    assert not list(tmp_path.glob("*/*.parquet"))


def test_bad_rows_can_be_dropped_and_are_counted(do, table, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('id;p;v\n1;"x;y";1.5\n2;y;many\n3\n', "utf-8")
    result = do(Append(FileSource(str(path), "csv", delimiter=";", bad_rows="drop")))
    assert result.metrics["numDroppedRows"] == 2
    assert table.snapshot().to_arrow().to_pylist() == [{"id": 1, "p": "x;y", "v": 1.5}]


def test_json_lines_are_held_to_the_tables_types(do, table, tmp_path):
    path = tmp_path / "rows.json"
    path.write_text('{"id": 1, "p": "x"}\n\n{"id": "one"}\n', "utf-8")
    with pytest.raises(BadRowsError, match=r"Row 3 of .*rows\.json"):
        do(Append(FileSource(str(path), "json")))


def test_a_format_that_cannot_hold_a_type_is_refused_by_name(do, empty_table, tmp_path):
    do("CREATE TABLE t (id BIGINT, days MAP<INT, DATE>) USING DELTA")
    path = tmp_path / "rows.json"
    path.write_text('{"id": 1, "days": {"1": "2024-01-01"}}\n', "utf-8")
    with pytest.raises(RequestError, match="format json cannot be read"):
        do(Append(FileSource(str(path), "json")))


def test_a_new_column_needs_permission(do, table, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("id,more\n1,2\n", "utf-8")
    source = FileSource(str(path), "csv")
    with pytest.raises(SchemaMismatchError, match="more"):
        do(Append(source))
    do(Append(source, merge_schema=True))
    assert table.snapshot().to_arrow().to_pylist() == [{"id": 1, "p": None, "v": None, "more": 2}]


def test_parquet_files_are_cast_where_that_loses_nothing(do, spark, table, tmp_path):
    place = str(tmp_path / "in")
    spark.range(3).selectExpr("cast(id as int) id", "'x' p").write.parquet(place)
    do(Append(FileSource(place, "parquet")))
    assert table.snapshot().row_count == 3
    spark.range(1).selectExpr("'one' id").write.parquet(place + "2")
    with pytest.raises(ValueNotParsedError, match="INSERT: 'one' cannot be stored in id"):
        do(Append(FileSource(place + "2", "parquet")))


def test_rules_of_the_table_hold_for_every_row(do, empty_table):
    schema = StructType((StructField("id", LONG, nullable=False), StructField("n", LONG)))
    do(Create(schema, properties={"delta.constraints.positive": "n > 0"}))
    with pytest.raises(InvariantViolationError, match=r"positive \(n > 0\): n = -5\. Nothing"):
        do("INSERT INTO t VALUES (1, 1), (2, -5)")
    with pytest.raises(InvariantViolationError, match=r"NOT NULL of id: id = null\."):
        do("INSERT INTO t (n) VALUES (1)")
    with pytest.raises(InvariantViolationError, match=r"positive \(n > 0\): n = null\."):
        do("INSERT INTO t VALUES (1, NULL)")
    do("ALTER TABLE t DROP CONSTRAINT positive")
    do("INSERT INTO t VALUES (1, NULL)")
    with pytest.raises(InvariantViolationError, match="false or null"):
        do("ALTER TABLE t ADD CONSTRAINT positive CHECK (n > 0)")
    do("ALTER TABLE t ADD CONSTRAINT positive CHECK (n IS NULL OR n > 0)")
    do("INSERT INTO t VALUES (2, NULL)")
    assert empty_table.snapshot().row_count == 2


def test_fields_of_structs_and_lengths_of_text_are_held_to(do, spark, empty_table, tmp_path):
    inside = StructType((StructField("k", LONG, nullable=False), StructField("n", LONG)))
    text = "__CHAR_VARCHAR_TYPE_STRING"
    schema = StructType(
        (
            StructField("s", inside),
            StructField("v", STRING, metadata={text: "varchar(3)"}),
            StructField("c", STRING, metadata={text: "char(3)"}),
        )
    )
    do(Create(schema))
    place = str(tmp_path / "in")
    spark.range(1).selectExpr("named_struct('k', CAST(NULL AS BIGINT), 'n', 1L) s").write.parquet(
        place
    )
    with pytest.raises(InvariantViolationError, match=r"NOT NULL of s\.k: .*\"n\":1\}"):
        do(Append(FileSource(place, "parquet")))
    with pytest.raises(
        InvariantViolationError, match=r"length of v \(varchar\(3\)\): v = \"abcd\""
    ):
        do("INSERT INTO t (v, c) VALUES ('abcd', 'b')")
    do("INSERT INTO t (v, c) VALUES ('abc  ', 'é')")
    with pytest.raises(InvariantViolationError, match=r"length of c \(char\(3\)\)"):
        do("UPDATE t SET c = 'four'")
    do("UPDATE t SET c = 'xyz ', v = '' WHERE s IS NULL")
    assert empty_table.snapshot().to_arrow().to_pylist() == [{"s": None, "v": "", "c": "xyz"}]
    assert empty_table.snapshot(1).to_arrow().to_pylist() == [{"s": None, "v": "abc", "c": "é  "}]


def test_constraints_inside_collections_are_checked(do, spark, empty_table, tmp_path):
    do(
        "CREATE TABLE t (id INT, tags ARRAY<CHAR(3)>, m MAP<VARCHAR(2), STRUCT<t: VARCHAR(2), n: INT NOT NULL>>)"
    )
    place = str(tmp_path / "in")
    spark.range(1).selectExpr(
        "1 id", "array('a', 'b  ', NULL) tags", "map('k  ', named_struct('t', 'x   ', 'n', 1)) m"
    ).write.parquet(place)
    do(Append(FileSource(place, "parquet")))
    do("UPDATE t SET id = 2 WHERE id = 1")
    (row,) = empty_table.snapshot().to_arrow().to_pylist()
    assert row == {"id": 2, "tags": ["a  ", "b  ", None], "m": [("k ", {"t": "x ", "n": 1})]}
    for number, wrong in enumerate(
        (
            "1 id, array('abcd') tags, NULL m",
            "1 id, NULL tags, map('abc', named_struct('t', 'x', 'n', 1)) m",
            "1 id, NULL tags, map('a', named_struct('t', 'x', 'n', CAST(NULL AS INT))) m",
        )
    ):
        spark.sql(f"SELECT {wrong}").write.parquet(f"{place}{number}")
        with pytest.raises(
            InvariantViolationError, match=r"the type of (tags|m) \(.*\): (tags|m) ="
        ):
            do(Append(FileSource(f"{place}{number}", "parquet")))
    assert empty_table.snapshot().row_count == 1


def test_a_char_column_is_found_by_the_text_that_was_meant(do, empty_table):
    do("CREATE TABLE t (id INT, c CHAR(4))")
    do("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    assert do("DELETE FROM t WHERE c = 'a'").metrics["numDeletedRows"] == 1
    assert empty_table.snapshot().to_arrow(condition="c IN ('b')").to_pylist() == [
        {"id": 2, "c": "b   "}
    ]


def test_overwrite_replaces_every_row(do, table, rows_elsewhere):
    do("INSERT INTO t VALUES (1, 'a', 1.0), (2, 'b', 2.0)")
    result = do("INSERT OVERWRITE t VALUES (3, 'c', 3.0)")
    assert result.metrics["numRemovedFiles"] == 1
    rows = rows_elsewhere(table)
    assert rows["engine"] == rows["deltalake"] == rows["duckdb"] == [(3, "c", 3.0)]


def test_replace_where_keeps_the_other_rows_and_refuses_strangers(do, table):
    do("INSERT INTO t VALUES (1, 'a', 1.0), (2, 'b', 2.0)")
    do("INSERT INTO t REPLACE WHERE p = 'a' VALUES (9, 'a', 9.0)")
    assert sorted(table.snapshot().to_arrow()["id"].to_pylist()) == [2, 9]
    with pytest.raises(InvariantViolationError, match=r"replaceWhere .*: p = \"z\"\."):
        do("INSERT INTO t REPLACE WHERE p = 'a' VALUES (9, 'z', 9.0)")
    with pytest.raises(InvariantViolationError, match=r"replaceWhere .*: p = null\."):
        do("INSERT INTO t (id, v) REPLACE WHERE p = 'a' VALUES (9, 9.0)")


def test_dynamic_overwrite_leaves_partitions_that_the_data_does_not_touch(do, empty_table):
    do("CREATE TABLE t (id BIGINT, p STRING) USING DELTA PARTITIONED BY (p)")
    do("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, NULL)")
    do("INSERT OVERWRITE t WITH ('partitionOverwriteMode' = 'dynamic') VALUES (9, 'a'), (8, NULL)")
    assert sorted(empty_table.snapshot().to_arrow()["id"].to_pylist()) == [2, 8, 9]


def test_create_as_select_is_one_commit(do, empty_table):
    result = do("CREATE TABLE t USING DELTA AS VALUES (1, 'a')")
    assert result.version == 0
    assert empty_table.history(1)[0].operation == "CREATE TABLE AS SELECT"
    assert empty_table.snapshot().row_count == 1


def test_cancelling_before_the_commit_leaves_no_file(do, table, tmp_path):
    def progress(step: Progress) -> None:
        if step.stage == "commit":
            msg = "Cancelled."
            raise OperationCancelledError(msg)

    with pytest.raises(OperationCancelledError):
        do("INSERT INTO t VALUES (1, 'a', 1.0)", progress=progress)
    assert table.version() == 0
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_job_that_runs_twice_writes_once(do, table):
    first = do("INSERT INTO t VALUES (1, 'a', 1.0)", txn_id="job-1", since_version=0)
    again = do("INSERT INTO t VALUES (1, 'a', 1.0)", txn_id="job-1", since_version=0)
    assert again.version == first.version == 1
    assert again.recognized
    assert table.snapshot().row_count == 1


def test_a_table_in_memory_is_refused_by_name(do, do_lightly):
    with pytest.raises(RequestError, match="Spark"):
        do_lightly("CREATE TABLE t USING DELTA AS VALUES (1)")


def test_identity_columns_number_rows_without_a_gap(do, empty_table):
    do(
        "CREATE TABLE t (id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY 5),"
        " p STRING) USING DELTA"
    )
    do("INSERT INTO t (p) VALUES ('a'), ('b')")
    do("INSERT INTO t (p) VALUES ('c')")
    assert sorted(empty_table.snapshot().to_arrow()["id"].to_pylist()) == [10, 15, 20]
    assert empty_table.history(1)[0].is_blind_append is False
    with pytest.raises(RequestError, match="IDENTITY"):
        do("INSERT INTO t (id, p) VALUES (1, 'x')")


def test_generated_columns_are_computed_and_checked(do, empty_table):
    do("CREATE TABLE t (a BIGINT, b BIGINT GENERATED ALWAYS AS (a * 2)) USING DELTA")
    do("INSERT INTO t (a) VALUES (1), (2)")
    with pytest.raises(InvariantViolationError, match="generation of b"):
        do("INSERT INTO t VALUES (1, 3)")
    do("UPDATE t SET a = 5 WHERE a = 1")
    assert sorted(empty_table.snapshot().to_arrow()["b"].to_pylist()) == [4, 10]


def test_create_or_replace_keeps_the_history(do, table, rows_elsewhere):
    do("INSERT INTO t VALUES (1, 'a', 1.0)")
    result = do("CREATE OR REPLACE TABLE t USING DELTA CLUSTER BY (col1) AS VALUES ('x', 2)")
    assert result.version == 2
    rows = rows_elsewhere(table)
    assert rows["engine"] == rows["deltalake"] == rows["duckdb"] == [("x", 2)]
    assert table.snapshot().metadata.id == table.snapshot(0).metadata.id
    assert table.snapshot(1).row_count == 1


def test_steps_of_a_write_report_the_files_they_found(do, empty_table):
    do("CREATE TABLE t (id BIGINT, p STRING) USING DELTA")
    do("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    told: list[Progress] = []
    do("UPDATE t SET p = 'c' WHERE id = 1", progress=told.append)
    assert [(progress.stage, progress.detail) for progress in told if progress.detail] == [
        ("read the table", "1 of 1 file"),
        ("find rows", "1 file holds a match"),
        ("write new rows", "1 file written"),
    ]
