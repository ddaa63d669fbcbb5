"""File sizes that a log claims wrongly in an object store: readers get the store's own sizes."""

import msgspec
import pytest

from engine.actions.files import AddFile
from engine.errors import DataFileError, DataFileMissingError
from engine.operations.run import run
from engine.schema.types import LONG, StructField, StructType
from engine.spark.scan.reader import locate_files
from engine.spark.table_files import TableFiles
from engine.table import DeltaTable

SCHEMA = StructType((StructField("id", LONG),))
CLAIMS = (-1, 0, 1, 4, 2**40)


@pytest.fixture(scope="module")
def table(s3_options: dict[str, str]) -> DeltaTable:
    made = DeltaTable.create("s3://lake/claimed sizes", SCHEMA, storage_options=s3_options)
    run("INSERT INTO t VALUES (1), (2)", made)
    run("INSERT INTO t VALUES (3)", made)
    return made


def _files(table: DeltaTable, options: dict[str, str]) -> tuple[TableFiles, list[AddFile]]:
    files = TableFiles(table.store.root, SCHEMA, storage_options=options)
    return files, table.snapshot().add_files()


def test_no_claimed_size_reaches_spark(table: DeltaTable, s3_options: dict[str, str]) -> None:
    files, adds = _files(table, s3_options)
    sizes = [len(table.store.read(add.path)) for add in adds]
    for claim in CLAIMS:
        lies = [msgspec.structs.replace(add, size=claim) for add in adds]
        for neighbor_count in (0, 10**6):  # by one listing, and each by its name
            many = lies * 32
            assert locate_files(files, many, neighbor_count)[1] == sizes * 32, claim


def test_missing_or_empty_files_are_named(table: DeltaTable, s3_options: dict[str, str]) -> None:
    files, adds = _files(table, s3_options)
    table.store.put_if_absent("empty.parquet", b"")
    for path, error in (("gone.parquet", DataFileMissingError), ("empty.parquet", DataFileError)):
        with pytest.raises(error, match=path):
            locate_files(files, [*adds, msgspec.structs.replace(adds[0], path=path, size=100)])
