"""A deletion vector that names rows beyond its file is refused on every path, whatever the log claims."""

import pytest

from engine.commands.sql import parse_statement
from engine.errors import DeletionVectorError
from engine.operations.run import run
from engine.operations.run_options import RunOptions
from engine.snapshot.change_feed import read_changes
from engine.snapshot.row_difference import compare_rows
from engine.spark.failures import translate_spark_errors
from engine.spark.scan import deletion_vectors
from engine.spark.scan.reader import ScanRequest, scan
from engine.spark.table_files import TableFiles
from tests.engine.lying_logs import VECTORS, add_file, commit, inline_vector, make, read, rows_of

CLAIMS = (10, 11, 1000, 2**40)
BEYOND = "deletes row 10, but the file has 10 rows"
STATEMENTS = [
    "DELETE FROM t WHERE id = 4",
    "DELETE FROM t WHERE id >= 0",
    "UPDATE t SET v = 'z' WHERE id = 4",
    "MERGE INTO t USING (VALUES (4, 'z')) AS s (id, v) ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
]
REWRITES = [
    "OPTIMIZE t",
    "OPTIMIZE t ZORDER BY (id)",
    "REORG TABLE t APPLY (PURGE)",
]


def _make_table(root, claim):
    root.mkdir()
    stats = {"numRecords": claim}
    add = add_file(root, "a", rows_of(range(10)), stats, deletionVector=inline_vector([3, 10]))
    other = add_file(root, "b", rows_of(range(10, 20)))
    return make(root, add, other, configuration=VECTORS)


def test_readers_and_statements_without_spark_refuse_it(tmp_path):
    for claim in CLAIMS:
        table = _make_table(tmp_path / str(claim), claim)
        for statement in STATEMENTS:
            with pytest.raises(DeletionVectorError, match=BEYOND):
                run(statement, table)
        with pytest.raises(DeletionVectorError, match=BEYOND):
            read(tmp_path / str(claim))
        assert table.version() == 0


def test_the_change_feed_refuses_it_on_both_sides_of_a_commit(tmp_path):
    for number, (old, new) in enumerate([([3, 10], [3, 4]), ([3], [3, 10])]):
        root = tmp_path / str(number)
        root.mkdir()
        feed = {**VECTORS, "delta.enableChangeDataFeed": "true"}
        stats = {"numRecords": 1000}
        first = add_file(root, "a", rows_of(range(10)), stats, deletionVector=inline_vector(old))
        table = make(root, first, configuration=feed)
        gone = {"path": "a", "dataChange": True, "deletionVector": inline_vector(old)}
        came = {**first["add"], "deletionVector": inline_vector(new)}
        commit(root, 1, {"remove": gone}, {"add": came}, operation="DELETE")
        with pytest.raises(DeletionVectorError, match=BEYOND):
            read_changes(table, 1)


@pytest.mark.spark
def test_spark_refuses_it(tmp_path, spark, monkeypatch):
    for claim in CLAIMS[1:3]:
        table = _make_table(tmp_path / str(claim), claim)
        snapshot = table.snapshot()
        files = TableFiles(snapshot.table_uri, snapshot.schema)
        for most_words in (0, deletion_vectors.MOST_WORDS):  # on executors, or here
            monkeypatch.setattr(deletion_vectors, "MOST_WORDS", most_words)
            with pytest.raises(DeletionVectorError, match=BEYOND), translate_spark_errors("t"):
                scan(spark, files, ScanRequest(snapshot.add_files())).collect()
        for statement in (*STATEMENTS, *REWRITES):
            options = RunOptions(in_process_bytes=0)
            with pytest.raises(DeletionVectorError, match=BEYOND):
                run(parse_statement(statement), table, spark, options)
        assert table.version() == 0


def test_versions_that_differ_by_it_are_not_compared(tmp_path):
    table = _make_table(tmp_path / "t", 1000)
    gone = {"path": "a", "dataChange": True, "deletionVector": inline_vector([3, 10])}
    came = add_file(tmp_path / "t", "a", rows_of(range(10)), deletionVector=inline_vector([3]))
    commit(tmp_path / "t", 1, {"remove": gone}, came, operation="RESTORE")
    with pytest.raises(DeletionVectorError, match=BEYOND):
        compare_rows(table, 0, 1)
