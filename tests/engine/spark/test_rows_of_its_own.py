"""The data source `lake` writes rows into the table that they were read from; `readVersion` names the version."""

import pytest

from engine.commands.sql import parse_statement
from engine.errors import ConflictError, RequestError
from engine.operations.run import run
from engine.spark.columns import to_spark_schema
from engine.storage.uri import open_store
from engine.table import DeltaTable
from tests.engine.lake_writes import COLUMNS, append, batch, data_files, delete, ids, lake_source


@pytest.fixture
def table(tmp_path):
    """Return a table whose version 1 has the rows 1 to 3."""
    made = DeltaTable(open_store(str(tmp_path / "t")))
    run(parse_statement(f"CREATE TABLE t ({COLUMNS})"), made, None)
    append(made, *((x, "x", None) for x in (1, 2, 3)))
    return made


def write(table, *rows, overwrite=True, **options):
    schema = to_spark_schema(table.snapshot().schema)
    writer = lake_source(table, **options).writer(schema, overwrite=overwrite)
    writer.commit([writer.write(iter([batch(*((x, "x", None) for x in rows))]))])


def test_rows_added_after_the_read_are_not_overwritten_unseen(table):
    append(table, (4, "x", None))
    write(table, 2, 3, readVersion="1")
    assert ids(table) == [2, 3, 4]  # the append, which read nothing, comes after the overwrite


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_row_that_changed_after_the_read_is_a_conflict(table, overwrite):
    before = data_files(table)
    delete(table, 2)
    with pytest.raises(ConflictError) as lost:
        write(table, 1, 2, overwrite=overwrite, readVersion="1")
    assert lost.value.conflict.current.read_version == 1
    assert ids(table) == [1, 3]
    assert data_files(table) == before


def test_an_append_of_rows_of_its_own_is_not_blind(table):
    write(table, 7, overwrite=False, readVersion="1")
    (latest,) = table.history(1)
    assert (latest.is_blind_append, latest.read_version) == (False, 1)


def test_an_append_conflicts_with_nothing_if_it_does_not_declare_its_read(table):
    delete(table, 2)
    write(table, 7, overwrite=False)
    assert table.history(1)[0].is_blind_append
    assert ids(table) == [1, 3, 7]


def test_an_unknown_version_is_refused(table):
    with pytest.raises(RequestError, match="readversion"):
        write(table, 7, readVersion="latest")
