"""Change feeds written by another engine or by hand, read as their writer defines them."""

import json

import pyarrow as pa
from deltalake import DeltaTable as OtherTable
from deltalake import write_deltalake

from engine.snapshot.change_feed import read_changes
from engine.table import DeltaTable
from tests.engine.foreign.hand_writer import HandWriter, column, remove_of, replace_vector

ON = {"delta.enableChangeDataFeed": "true"}
SCHEMA = [column("id", "long"), column("p", "string")]


def changes_of(uri: str, start: int, end: int | None = None) -> list[tuple[object, ...]]:
    rows = read_changes(DeltaTable.open(uri), start, end).to_pylist()
    return sorted(
        (row["_commit_version"], row["_change_type"], row["id"], row["p"]) for row in rows
    )


def test_changes_of_deltalake_are_those_that_it_reads_itself(tmp_path):
    uri = str(tmp_path / "t")
    rows = pa.table({"id": [1, 2, 3, 4], "p": ["a", "a", "b", "b"]})
    write_deltalake(uri, rows, partition_by=["p"], configuration=ON)
    table = OtherTable(uri)
    table.update(updates={"id": "id + 10"}, predicate="p = 'a'")
    table.delete("id = 3")
    source = pa.table({"id": [4, 5], "p": ["b", "c"]})
    merge = table.merge(source, "s.id = t.id", source_alias="s", target_alias="t")
    merge.when_matched_delete().when_not_matched_insert_all().execute()
    write_deltalake(uri, pa.table({"id": [6], "p": ["c"]}), mode="overwrite")
    told = pa.table(OtherTable(uri).load_cdf(starting_version=0).read_all()).to_pylist()
    names = ("_commit_version", "_change_type", "id", "p")
    assert changes_of(uri, 0) == sorted(tuple(row[name] for name in names) for row in told)
    assert {row[1] for row in changes_of(uri, 0)} == {
        "insert",
        "delete",
        "update_preimage",
        "update_postimage",
    }


def test_change_files_are_found_by_paths_that_are_escaped_once_more(tmp_path):
    writer = HandWriter(tmp_path)
    file = writer.file("p=a%25b/f.parquet", {"id": [1]}, partition={"p": "a%b"})
    writer.create(file, schema=SCHEMA, partition_columns=["p"], protocol=(1, 4), properties=ON)
    told = {"id": [1, 2], "_change_type": ["update_preimage", "update_postimage"]}
    cdc = writer.file("_change_data/p=a%25b/cdc 1.parquet", told, partition={"p": "a%b"})["add"]
    names = ("path", "partitionValues", "size")
    other = writer.file("p=a%25b/g.parquet", {"id": [2]}, partition={"p": "a%b"})
    kept = {"cdc": {**{name: cdc[name] for name in names}, "dataChange": False}}
    writer.commit(1, remove_of(file), other, kept)
    assert "%2525" in json.dumps(kept)
    assert changes_of(str(tmp_path), 0) == [
        (0, "insert", 1, "a%b"),
        (1, "update_postimage", 2, "a%b"),
        (1, "update_preimage", 1, "a%b"),
    ]


def test_without_change_files_vectors_and_files_yield_the_changes(tmp_path):
    writer = HandWriter(tmp_path)
    file = writer.file("f.parquet", {"id": [1, 2, 3], "p": ["a", "b", "c"]})
    on = (3, 7, ["deletionVectors"], ["changeDataFeed"])
    writer.create(file, schema=SCHEMA, protocol=on, properties=ON)
    one, two = writer.vectors([0], [0, 2])
    writer.commit(1, remove_of(file), replace_vector(file, one))
    writer.commit(2, remove_of(replace_vector(file, one)), replace_vector(file, two))
    moved = writer.file("g.parquet", {"id": [2], "p": ["b"]}, dataChange=False)
    writer.commit(3, remove_of(replace_vector(file, two), dataChange=False), moved)
    writer.commit(4, remove_of(moved))
    assert changes_of(str(tmp_path), 1) == [
        (1, "delete", 1, "a"),
        (2, "delete", 3, "c"),
        (4, "delete", 2, "b"),
    ]
