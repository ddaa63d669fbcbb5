"""Symbolic links that lead out of a table: no reader or writer follows them, not even on executors."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.commands.model import Append, FileSource
from engine.commands.sql import parse_statement
from engine.errors import DataFileMissingError, PathOutsideRootError
from engine.operations.run import run
from engine.operations.run_options import RunOptions
from engine.schema.types import LONG, StructField, StructType
from engine.spark.data_source import register
from engine.spark.failures import SPARK_ERRORS
from engine.table import DeltaTable
from tests.shares import one_in

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

BY_SPARK = RunOptions(in_process_bytes=0)
SECRET = 4711
READS = {
    "all rows": "INSERT INTO t SELECT id + 10 AS id, p FROM t",
    "one column": "INSERT INTO t SELECT max(id) AS id, 5 AS p FROM t",
    "an update": "UPDATE t SET id = id + 1 WHERE id >= 0",
    "a deletion": "DELETE FROM t WHERE id % 2 = 1",
    "a merge": "MERGE INTO t USING t AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = 5",
    "a compaction": "OPTIMIZE t",
}


@pytest.fixture(params=["plain", "partitioned"])
def table(spark, tmp_path, request):
    """Return a table with rows 0 to 3 in two files; the plain table's first file has a row deleted by a vector."""
    schema = StructType((StructField("id", LONG), StructField("p", LONG)))
    partitions = ["p"] if request.param == "partitioned" else []
    made = DeltaTable.create(str(tmp_path / "t"), schema, partition_columns=partitions)
    for statement in ("INSERT INTO t VALUES (0, 1), (1, 1)", "INSERT INTO t VALUES (2, 1), (3, 1)"):
        run(parse_statement(statement), made, spark)
    run(parse_statement("DELETE FROM t WHERE id = 0"), made, spark, BY_SPARK)
    return made


@pytest.fixture
def outer_directory(tmp_path):
    """Return a directory beside the table with a file that the table's owner may not read."""
    place = tmp_path / "outside"
    place.mkdir()
    pq.write_table(pa.table({"id": [SECRET], "p": [SECRET]}), place / "secret.parquet")
    return place


def _file_of(table):
    """Return the path of the first data file."""
    return Path(table.uri) / table.snapshot().add_files()[0].path


def _replace_by_link(place, target):
    """Replace a file or directory by a link to where it was moved."""
    place.rename(place.with_name(f"{place.name}.before"))
    place.symlink_to(target)


@pytest.mark.parametrize("what", one_in(2, READS))
def test_a_file_linked_out_of_the_table_is_not_read(spark, table, outer_directory, what):
    _replace_by_link(_file_of(table), outer_directory / "secret.parquet")
    before = table.version()
    with pytest.raises(PathOutsideRootError, match=r"leads outside .* through a symbolic link"):
        run(parse_statement(READS[what]), table, spark, BY_SPARK, resolve=lambda _: table)
    with pytest.raises(PathOutsideRootError, match=r"leads outside .* through a symbolic link"):
        table.snapshot().to_arrow()
    assert table.version() == before


def test_a_directory_in_the_place_of_a_file_is_not_read(spark, table, outer_directory):
    place = _file_of(table)
    place.rename(place.with_name("before"))
    place.mkdir()
    (place / "secret.parquet").symlink_to(outer_directory / "secret.parquet")
    with pytest.raises(DataFileMissingError):
        run(parse_statement(READS["all rows"]), table, spark, BY_SPARK, resolve=lambda _: table)


def test_a_link_within_the_table_is_followed(spark, table):
    place = _file_of(table)
    _replace_by_link(place, place.with_name(f"{place.name}.before"))
    run(parse_statement("UPDATE t SET id = id + 10 WHERE id >= 0"), table, spark, BY_SPARK)
    assert sorted(table.snapshot().to_arrow()["id"].to_pylist()) == [11, 12, 13]


def test_the_data_source_follows_no_link_either(spark, table, outer_directory):
    _replace_by_link(_file_of(table), outer_directory / "secret.parquet")
    register(spark)
    frame = spark.read.format("lake").load(table.uri)
    with pytest.raises(SPARK_ERRORS, match=r"leads outside .* through a symbolic link"):
        frame.collect()


def test_a_vector_linked_out_of_the_table_is_not_read(spark, tmp_path, outer_directory):
    schema = StructType((StructField("id", LONG),))
    table = DeltaTable.create(str(tmp_path / "v"), schema)
    pq.write_table(pa.table({"id": range(5000)}), tmp_path / "rows.parquet")
    run(Append(source=FileSource(str(tmp_path / "rows.parquet"), "parquet")), table, spark)
    run(parse_statement("DELETE FROM t WHERE pmod(id * 7919, 13) < 6"), table, spark, BY_SPARK)
    (vector,) = Path(table.uri).glob("deletion_vector_*.bin")
    _replace_by_link(vector, outer_directory / "secret.parquet")
    with pytest.raises(PathOutsideRootError, match=r"leads outside .* through a symbolic link"):
        run(parse_statement("UPDATE t SET id = id + 1 WHERE id > 10"), table, spark, BY_SPARK)


@pytest.mark.parametrize("table", ["partitioned"], indirect=True)
def test_nothing_is_written_through_a_link_out_of_the_table(spark, table, outer_directory):
    _replace_by_link(_file_of(table).parent, outer_directory)
    held = set(outer_directory.iterdir())
    with pytest.raises(PathOutsideRootError, match=r"leads outside .* through a symbolic link"):
        run(parse_statement("INSERT INTO t VALUES (9, 1), (9, 2)"), table, spark)
    assert set(outer_directory.iterdir()) == held
