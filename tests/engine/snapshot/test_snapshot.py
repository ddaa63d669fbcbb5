import json
import os
import shutil
import uuid
from datetime import UTC, datetime
from functools import partial

import pyarrow as pa
import pytest

from engine.actions.table import DomainMetadata, SetTransaction
from engine.deletion_vectors.files import write_deletion_vector
from engine.errors import (
    CannotEvaluateError,
    DataFileError,
    DeletionVectorError,
    MalformedLogError,
    RequestError,
    TableNotFoundError,
    UnknownColumnError,
    UnsupportedFeatureError,
)
from engine.log.paths import commit_path
from engine.schema.types import DATE, INTEGER, LONG, STRING, StructField, StructType
from engine.snapshot.snapshot import load_snapshot
from engine.storage.base import Store
from engine.storage.local import LocalStore
from engine.storage.memory import MemoryStore
from engine.table import DeltaTable
from tests.engine.made_tables import (
    WITH_VECTORS,
    add,
    metadata,
    remove,
    write_commit,
    write_first,
    write_rows,
)


@pytest.fixture
def store() -> Store:
    return MemoryStore(f"memory://{uuid.uuid4()}")


def test_condition_that_spark_alone_evaluates_is_refused_with_the_way_out(store: Store):
    write_first(store)
    write_commit(store, 1, write_rows(store, "one", {"id": [1, 2], "name": ["a", None]}))
    for condition in ("sqrt(id) = 1", "name RLIKE '^a'", "CAST(name AS INT) = 1"):
        with pytest.raises(CannotEvaluateError, match="or read the table with Spark"):
            load_snapshot(store).to_arrow(condition=condition)


def test_rows_of_every_live_file_are_read(store: Store):
    write_first(store)
    one = write_rows(store, "one", {"id": [1, 2], "name": ["a", None]})
    two = write_rows(store, "two", {"id": [3], "name": ["c"]})
    gone = write_rows(store, "gone", {"id": [9], "name": ["z"]})
    write_commit(store, 1, one, two, gone)
    write_commit(store, 2, remove("gone"))
    snapshot = load_snapshot(store)
    assert snapshot.to_arrow().to_pydict() == {"id": [1, 2, 3], "name": ["a", None, "c"]}
    assert (snapshot.file_count, snapshot.row_count) == (2, 3)
    assert snapshot.size_bytes == one.size + two.size
    assert snapshot.to_arrow(columns=["name"]).to_pydict() == {"name": ["a", None, "c"]}
    assert snapshot.to_arrow(columns=["NAME", "id"]).column_names == ["name", "id"]
    assert snapshot.to_arrow(condition="id >= 2", columns=["name"]).to_pydict() == {
        "name": [None, "c"]
    }
    assert snapshot.to_arrow(limit=1).to_pydict() == {"id": [1], "name": ["a"]}
    assert snapshot.to_arrow(limit=0).num_rows == 0
    assert snapshot.to_arrow(limit=100).num_rows == 3
    assert snapshot.to_arrow(columns=[]).num_columns == 0


def test_an_unknown_column_is_refused(store: Store):
    write_first(store)
    with pytest.raises(UnknownColumnError, match="nope"):
        load_snapshot(store).to_arrow(columns=["nope"])


def test_the_files_of_a_table_are_listed(store: Store):
    write_first(store, partition_columns=["name"])
    write_commit(
        store,
        1,
        add("name=a/x", {"name": "a"}, size=7, stats='{"numRecords":3}', base_row_id=4),
        add("name=b/y", {"name": "b"}, stats='{"minValues":{"numRecords":5},"numRecords":8}'),
        add("z", {"name": None}),
    )
    files = load_snapshot(store).files()
    assert files.column_names == [
        "path",
        "size",
        "partition_values",
        "modification_time",
        "num_records",
        "stats",
        "deletion_vector",
        "base_row_id",
    ]
    assert files.column("path").to_pylist() == ["name=a/x", "name=b/y", "z"]
    assert files.column("num_records").to_pylist() == [3, 8, None]
    assert files.column("base_row_id").to_pylist() == [4, None, None]
    assert files.column("deletion_vector").to_pylist() == [None, None, None]


def test_partitions_that_cannot_match_are_left_out(store: Store):
    write_first(store, partition_columns=["name"])
    write_commit(store, 1, *(add(f"{name}", {"name": name}) for name in ["a", "b", None, ""]))
    snapshot = load_snapshot(store)
    assert snapshot.files("name = 'a'").column("path").to_pylist() == ["a"]
    assert snapshot.files("name IS NULL").column("path").to_pylist() == ["None", ""]
    assert snapshot.files("name = 'a' OR id = 1").num_rows == 4
    assert snapshot.files("name > 'a' AND id = 1").column("path").to_pylist() == ["b"]


def test_statistics_rule_files_out(store: Store):
    write_first(store)
    stats = [
        json.dumps({"numRecords": 1, "minValues": {"id": i}, "maxValues": {"id": i + 9}})
        for i in (0, 10, 20)
    ]
    write_commit(store, 1, *(add(str(i), stats=text) for i, text in enumerate(stats)), add("none"))
    assert load_snapshot(store).files("id = 15").column("path").to_pylist() == ["1", "none"]
    assert [add_file.path for add_file in load_snapshot(store).add_files("id < 5")] == ["0", "none"]
    assert [add_file.path for add_file in load_snapshot(store).add_files(paths=["2", "x"])] == ["2"]


class OfAnotherThread:
    """A condition that is compared just as another thread requests other files."""

    def __init__(self, ask):
        self.ask = ask

    def __eq__(self, other):
        self.ask()
        return True

    __hash__ = None


def test_threads_that_share_a_snapshot_get_the_files_of_their_own_condition(store: Store):
    write_first(store)
    for path, low in (("low", 1), ("high", 8)):
        bounds = {"numRecords": 1, "minValues": {"id": low}, "maxValues": {"id": low}}
        write_commit(store, 1 + (low > 5), add(path, stats=json.dumps(bounds)))
    snapshot = load_snapshot(store)
    assert snapshot.files("id > 5").column("path").to_pylist() == ["high"]
    of_another = snapshot._left
    assert snapshot.files("id < 5").column("path").to_pylist() == ["low"]
    ask = partial(setattr, snapshot, "_left", of_another)
    snapshot._left = (OfAnotherThread(ask), snapshot._left[1])
    assert snapshot.files("id < 5").column("path").to_pylist() == ["low"]


def test_deleted_rows_are_left_out(store: Store):
    write_first(store, protocol=WITH_VECTORS)
    vector = write_deletion_vector(store, [0, 2])
    file = write_rows(
        store, "f", {"id": [1, 2, 3], "name": ["a", "b", "c"]}, deletion_vector=vector
    )
    write_commit(store, 1, file)
    snapshot = load_snapshot(store)
    assert snapshot.to_arrow().to_pydict() == {"id": [2], "name": ["b"]}
    assert snapshot.row_count == 1
    assert snapshot.add_files()[0].deletion_vector == vector


def test_a_vector_that_deletes_rows_the_file_does_not_have_is_refused(store: Store):
    write_first(store, protocol=WITH_VECTORS)
    vector = write_deletion_vector(store, [3])
    write_commit(store, 1, write_rows(store, "f", {"id": [1, 2, 3]}, deletion_vector=vector))
    with pytest.raises(DeletionVectorError, match="row 3"):
        load_snapshot(store).to_arrow()


def test_rows_are_counted_where_statistics_do_not(store: Store):
    write_first(store)
    one = write_rows(store, "one", {"id": [1, 2]}, stats=None)
    two = write_rows(store, "two", {"id": [1, 2]}, stats="null")
    three = write_rows(store, "three", {"id": [1, 2]}, stats='{"numRecords":-5}')
    write_commit(store, 1, one, two, three)
    assert load_snapshot(store).row_count == 6


def test_columns_added_later_are_null_in_older_files(store: Store):
    write_first(store)
    wider = StructType(
        (
            StructField("id", LONG),
            StructField("name", STRING),
            StructField("s", StructType((StructField("x", LONG), StructField("y", DATE)))),
        )
    )
    old = write_rows(store, "old", {"id": [1]})
    half = write_rows(store, "half", {"id": [2], "s": [{"x": 5}]})
    write_commit(store, 1, metadata(wider), old, half)
    assert load_snapshot(store).to_arrow().to_pylist() == [
        {"id": 1, "name": None, "s": None},
        {"id": 2, "name": None, "s": {"x": 5, "y": None}},
    ]


def test_narrower_types_of_older_files_are_widened(store: Store):
    write_first(store)
    write_commit(store, 1, write_rows(store, "f", {"id": pa.array([1], pa.int16())}))
    assert load_snapshot(store).to_arrow().column("id").to_pylist() == [1]


def test_a_type_that_cannot_become_the_tables_is_refused(store: Store):
    write_first(store)
    write_commit(store, 1, write_rows(store, "f", {"id": ["x"]}))
    with pytest.raises(DataFileError, match="id"):
        load_snapshot(store).to_arrow()


def test_a_column_whose_name_has_a_dot_is_not_a_field_of_another(store: Store):
    schema = StructType(
        (StructField("a.b", LONG), StructField("a", StructType((StructField("b", LONG),))))
    )
    write_first(store, schema)
    write_commit(store, 1, write_rows(store, "f", {"a": [{"b": 1}], "a.b": [2]}))
    snapshot = load_snapshot(store)
    assert snapshot.to_arrow().to_pylist() == [{"a.b": 2, "a": {"b": 1}}]
    assert snapshot.to_arrow(columns=["a.b"]).to_pylist() == [{"a.b": 2}]


def test_a_missing_data_file_is_named_and_the_log_still_reads(store: Store):
    write_first(store)
    write_commit(store, 1, add("lost.parquet", stats='{"numRecords":2}'))
    snapshot = load_snapshot(store)
    assert snapshot.row_count == 2
    with pytest.raises(DataFileError, match=r"lost\.parquet"):
        snapshot.to_arrow()


def test_a_file_that_is_no_parquet_is_refused(store: Store):
    write_first(store)
    store.put("f", b"not parquet")
    write_commit(store, 1, add("f"))
    with pytest.raises(DataFileError, match="f of"):
        load_snapshot(store).to_arrow()


@pytest.mark.parametrize(
    "values",
    [
        {"schema_string": "{}"},
        {"schema_string": "x"},
        {"schema_string": '"long"'},
        {"partition_columns": ["nope"]},
        {"schema_string": '{"type":"struct","fields":' + "[" * 50_000 + "]" * 50_000 + "}"},
    ],
)
def test_metadata_that_describes_no_table_is_refused(store: Store, values):
    write_first(store, **{"schema": StructType()} | {"schema": StructType()})
    described = {"id": "x", "schema_string": StructType().to_json(), **values}
    write_commit(store, 1, type(metadata())(**described))
    with pytest.raises(MalformedLogError):
        load_snapshot(store)


def test_a_feature_from_the_future_is_refused_by_name(store: Store):
    protocol = type(WITH_VECTORS)(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=["timeTravelForward"],
        writer_features=[],
    )
    write_first(store, protocol=protocol)
    with pytest.raises(UnsupportedFeatureError, match="timeTravelForward"):
        load_snapshot(store)


def test_an_update_reads_only_later_commits(store: Store):
    write_first(store)
    write_commit(store, 1, add("a"), SetTransaction(app_id="app", version=1))
    first = load_snapshot(store)
    assert first.update() is first
    store.put(commit_path(0), b"never read again")
    write_commit(store, 2, remove("a"), add("b"))
    second = first.update()
    assert (first.version, second.version) == (1, 2)
    assert [add_file.path for add_file in second.add_files()] == ["b"]
    assert [add_file.path for add_file in first.add_files()] == ["a"]
    assert second.set_transactions["app"].version == 1


@pytest.mark.parametrize("commits", [1, 2, 3])
def test_a_recreated_table_is_not_read_on_from_the_old_one(tmp_path, commits):
    def make(names, ms):
        store = LocalStore(tmp_path / "t")
        write_first(store)
        for version, name in enumerate(names, 1):
            write_commit(store, version, add(name))
        for file in (tmp_path / "t" / "_delta_log").iterdir():
            os.utime(file, ns=(ms * 10**6, ms * 10**6))
        return store

    older = load_snapshot(make(["old1", "old2"], 1_700_000_000_000))
    assert older.update() is older
    shutil.rmtree(tmp_path / "t")
    make([f"new{number}" for number in range(commits)], 1_700_000_001_000)
    assert set(older.update().files()["path"].to_pylist()) == {
        f"new{number}" for number in range(commits)
    }


def test_clustering_columns_are_known_by_their_logical_names(store: Store):
    inner = StructType(
        (StructField("x", INTEGER, metadata={"delta.columnMapping.physicalName": "p2"}),)
    )
    schema = StructType(
        (
            StructField("id", LONG, metadata={"delta.columnMapping.physicalName": "p0"}),
            StructField("s", inner, metadata={"delta.columnMapping.physicalName": "p1"}),
        )
    )
    write_first(store, schema, configuration={"delta.columnMapping.mode": "name"})
    domain = DomainMetadata(
        domain="delta.clustering",
        configuration='{"clusteringColumns":[["p0"],["p1","p2"]]}',
        removed=False,
    )
    write_commit(store, 1, domain)
    assert load_snapshot(store).clustering_columns == ("id", "s.x")


def test_a_table_is_read_as_it_was(tmp_path):
    table = DeltaTable.create(str(tmp_path), StructType((StructField("id", LONG),)))
    write_commit(table.store, 1, write_rows(table.store, "f", {"id": [1]}))
    assert table.version() == 1
    assert table.snapshot(version=0).to_arrow().num_rows == 0
    first = table.snapshot(version=0).timestamp
    assert table.snapshot(timestamp=first).version == 0
    assert table.snapshot(timestamp=first.isoformat()).version == 0
    assert table.snapshot(timestamp=table.snapshot().timestamp_ms).version == 1
    with pytest.raises(RequestError):
        table.snapshot(version=0, timestamp=first)
    with pytest.raises(RequestError):
        table.snapshot(timestamp="yesterday")
    assert first.tzinfo == UTC
    assert isinstance(first, datetime)


def test_a_file_is_no_table(tmp_path):
    (tmp_path / "t").write_text("x", "utf-8")
    with pytest.raises(TableNotFoundError):
        DeltaTable.open(str(tmp_path / "t"))


@pytest.mark.parametrize("version", ["1", 1.0, True])
def test_a_version_is_a_whole_number(tmp_path, version):
    table = DeltaTable.create(str(tmp_path), StructType((StructField("id", LONG),)))
    with pytest.raises(RequestError):
        table.snapshot(version=version)


def test_a_negative_limit_is_refused(store: Store):
    write_first(store)
    with pytest.raises(RequestError):
        load_snapshot(store).to_arrow(limit=-1)
