import uuid

import pytest

from engine.actions.files import AddCDCFile
from engine.deletion_vectors.files import write_deletion_vector
from engine.errors import DataFileError, RequestError
from engine.schema.types import LONG, STRING, StructField, StructType
from engine.snapshot.change_feed import read_changes
from engine.storage.memory import MemoryStore
from engine.table import DeltaTable
from tests.engine.made_tables import (
    WITH_VECTORS,
    metadata,
    remove,
    write_commit,
    write_first,
    write_rows,
)

ENABLED = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore(f"memory://{uuid.uuid4()}")
    write_first(store, protocol=WITH_VECTORS, configuration=ENABLED)
    return store


def changes(store: MemoryStore, start: int, end: int | None = None) -> list[tuple[int, str, int]]:
    rows = read_changes(DeltaTable.open(store.root), start, end).to_pylist()
    return sorted((row["_commit_version"], row["_change_type"], row["id"]) for row in rows)


def test_rows_between_two_deletion_vectors_changed(store: MemoryStore):
    file = write_rows(store, "f", {"id": [10, 11, 12, 13]})
    write_commit(store, 1, file)
    first = write_deletion_vector(store, [0, 1])
    write_commit(store, 2, remove("f", partition_values={}), replace_vector(file, first))
    second = write_deletion_vector(store, [1, 3])
    write_commit(
        store,
        3,
        remove("f", partition_values={}, deletion_vector=first),
        replace_vector(file, second),
    )
    assert changes(store, 2) == [
        (2, "delete", 10),
        (2, "delete", 11),
        (3, "delete", 13),
        (3, "insert", 10),
    ]


def replace_vector(file, vector):
    return type(file)(
        path=file.path,
        partition_values={},
        size=file.size,
        modification_time=1,
        data_change=True,
        deletion_vector=vector,
    )


def test_change_files_contain_all_changes(store: MemoryStore):
    file = write_rows(store, "f", {"id": [1]})
    told = write_rows(
        store,
        "_change_data/c",
        {"id": [1, 2], "_change_type": ["update_preimage", "update_postimage"]},
    )
    cdc = AddCDCFile(path=told.path, partition_values={}, size=told.size)
    write_commit(store, 1, file, cdc)
    assert changes(store, 1) == [(1, "update_postimage", 2), (1, "update_preimage", 1)]


def test_the_error_about_missing_change_files_names_a_remedy(store: MemoryStore):
    """An earlier version of the table does not bring the changes back; later changes can still be read."""
    file = write_rows(store, "f", {"id": [1, 2]})
    rows = {"id": [1], "_change_type": ["delete"]}
    told = write_rows(store, "_change_data/c", rows)
    vector = write_deletion_vector(store, [1])
    write_commit(store, 1, file)
    write_commit(store, 2, file, AddCDCFile(path=told.path, partition_values={}, size=told.size))
    write_commit(store, 3, remove("f", partition_values={}), replace_vector(file, vector))
    write_commit(store, 4, remove("f", partition_values={}, deletion_vector=vector))
    write_commit(store, 5, write_rows(store, "last", {"id": [9]}))
    for gone, version in (
        (told.path, 2),
        ("f", 4),
    ):
        store.delete(gone)
        with pytest.raises(
            DataFileError, match=f"after version {version}, or restore the"
        ) as refused:
            changes(store, version)
        assert "deletedFileRetentionDuration" in refused.value.remedy, gone
        assert "earlier version" not in str(refused.value), gone
    assert changes(store, 5) == [(5, "insert", 9)]


def test_a_compaction_adds_no_rows_to_the_change_feed(store: MemoryStore):
    file = write_rows(store, "f", {"id": [1]}, data_change=False)
    write_commit(store, 1, file, remove("g", data_change=False))
    assert changes(store, 0) == []


def test_versions_without_the_feed_are_refused(store: MemoryStore):
    write_commit(store, 1, metadata(configuration={}))
    write_commit(store, 2, write_rows(store, "f", {"id": [1]}))
    with pytest.raises(RequestError, match="not enabled at version 2"):
        changes(store, 2)
    with pytest.raises(RequestError, match="not enabled at version 1"):
        changes(store, 0)


@pytest.mark.parametrize("start", [-1, 1, 5])
def test_an_empty_range_is_refused(store: MemoryStore, start: int):
    with pytest.raises(RequestError):
        changes(store, start, 0)


@pytest.mark.parametrize(
    ("schema", "partitions", "what"),
    [
        (StructType((StructField("id", LONG),)), [], "the column name"),
        (
            StructType((StructField("id", LONG), StructField("name", STRING))),
            ["name"],
            "partitions",
        ),
    ],
)
def test_a_range_whose_columns_are_dropped_at_its_end_is_refused(schema, partitions, what):
    store = MemoryStore(f"memory://{uuid.uuid4()}")
    feed = {"configuration": {"delta.enableChangeDataFeed": "true"}}
    write_first(store, **feed)
    write_commit(store, 1, write_rows(store, "a", {"id": [1], "name": ["x"]}))
    write_commit(store, 2, metadata(schema, partition_columns=partitions, **feed))
    table = DeltaTable.open(store.root)
    assert read_changes(table, 0, 1).num_rows == 1
    assert read_changes(table, 2).num_rows == 0
    for start in (0, 1):
        with pytest.raises(RequestError, match=what):
            read_changes(table, start)
