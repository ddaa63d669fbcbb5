"""Whole tables in object stores, and stores that cannot be reached."""

import os
import signal
import uuid
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from engine.commands.model import Clone
from engine.deletion_vectors.files import locate, write_deletion_vector
from engine.delta.names import storage_options
from engine.errors import (
    PathOutsideRootError,
    RequestError,
    StorageError,
    StorageOutcomeUnknownError,
    TableExistsError,
    TableNotFoundError,
)
from engine.log.paths import checkpoint_path
from engine.operations.run import run
from engine.schema.types import LONG, StructField, StructType
from engine.spark.file_writer import write_files
from engine.spark.table_files import TableFiles
from engine.spark.write.writer import file_target
from engine.storage.uri import normalize_uri, open_store
from engine.table import DeltaTable
from engine.transaction.staged_files import StagedFilesGoneError
from tests.engine.made_tables import remove, write_commit, write_rows
from tests.stateful import commands as c
from tests.stateful.arrow_engine import run as run_on_arrow
from tests.stateful.history import SCHEMA as HISTORY

SCHEMA = StructType((StructField("id", LONG),))
NOWHERE = {
    "aws_endpoint_url": "http://127.0.0.1:1",
    "aws_access_key_id": "x",
    "aws_secret_access_key": "x",
    "aws_region": "us-east-1",
    "allow_http": "true",
}


@pytest.fixture
def table(bucket: str, options: dict[str, str]) -> DeltaTable:
    properties = {"delta.checkpointInterval": "4"}
    uri = f"{bucket}/{uuid.uuid4()}/a table"
    return DeltaTable.create(uri, SCHEMA, properties=properties, storage_options=options)


def append(table: DeltaTable, number: int) -> int:
    txn = table.start_transaction()
    txn.stage(write_rows(table.store, f"part {number}.parquet".replace(" ", "-"), {"id": [number]}))
    return txn.commit("WRITE")


def test_a_table_in_a_bucket_is_written_and_read(table: DeltaTable, options: dict[str, str]):
    assert [append(table, number) for number in range(5)] == [1, 2, 3, 4, 5]
    assert table.store.stat(checkpoint_path(4)) is not None
    again = DeltaTable.open(table.uri, options)
    assert sorted(again.snapshot().to_arrow().column("id").to_pylist()) == [0, 1, 2, 3, 4]
    assert again.snapshot(version=2).row_count == 2
    assert [info.version for info in again.history(2)] == [5, 4]
    assert again.snapshot().state.checkpoint_version == 4


def test_settings_of_hadoop_open_a_store_with_and_without_tls(s3_options: dict[str, str]):
    prefix, address = "spark.hadoop.fs.s3a.", s3_options["aws_endpoint_url"]
    settings = {
        f"{prefix}access.key": s3_options["aws_access_key_id"],
        f"{prefix}secret.key": s3_options["aws_secret_access_key"],
        f"{prefix}endpoint.region": s3_options["aws_region"],
    }
    without_scheme = address.removeprefix("http://")
    ssl = f"{prefix}connection.ssl.enabled"
    for endpoint in ({"endpoint": address}, {"endpoint": without_scheme, ssl: "false"}):
        given = {key if key == ssl else prefix + key: value for key, value in endpoint.items()}
        session: Any = SimpleNamespace(conf=settings | given)
        uri = normalize_uri(f"s3a://lake/{uuid.uuid4()}")
        store = open_store(uri, storage_options(session, uri, {}))
        store.put_if_absent("a", b"1")
        assert [file.path for file in store.list_all()] == ["a"]
    for endpoint in (without_scheme, f"https://{without_scheme}"):
        session = SimpleNamespace(conf=settings | {f"{prefix}endpoint": endpoint})
        options = storage_options(session, "s3://lake/t", {})
        assert options["aws_endpoint"] == f"https://{without_scheme}"
        assert "allow_http" not in options


def test_writers_of_one_bucket_each_land_once(table: DeltaTable, options: dict[str, str]):
    def write(number: int) -> int:
        return append(DeltaTable.open(table.uri, options), number)

    with ThreadPoolExecutor(4) as pool:
        versions = list(pool.map(write, range(8)))
    assert sorted(versions) == list(range(1, 9))
    assert sorted(table.snapshot().to_arrow().column("id").to_pylist()) == list(range(8))


def test_a_staged_object_that_expires_before_the_commit_stops_it(table: DeltaTable):
    txn = table.start_transaction()
    adds = [write_rows(table.store, f"{number}.parquet", {"id": [number]}) for number in range(3)]
    txn.stage(*adds)
    table.store.delete(adds[1].path)
    with pytest.raises(StagedFilesGoneError, match=r"1 of the 3 .* 1\.parquet"):
        txn.commit("WRITE")
    assert table.version() == 0


def test_a_table_in_a_bucket_is_created_once(table: DeltaTable, options: dict[str, str]):
    with pytest.raises(TableExistsError):
        DeltaTable.create(table.uri, SCHEMA, storage_options=options)


def test_an_empty_prefix_is_no_table(bucket: str, options: dict[str, str]):
    with pytest.raises(TableNotFoundError):
        DeltaTable.open(f"{bucket}/nothing", options)


def test_a_bucket_that_does_not_exist_cannot_be_written(bucket: str, options: dict[str, str]):
    with pytest.raises(StorageError, match="bucket"):
        open_store(f"{bucket.replace('lake', 'no-such-bucket')}/t", options).put_if_absent("x", b"")


def test_an_option_that_does_not_exist_is_refused(bucket: str, options: dict[str, str]):
    with pytest.raises(RequestError, match="aws_bogus"):
        open_store(f"{bucket}/t", {**options, "aws_bogus": "1"})


def test_a_clone_reads_the_files_of_an_allowed_root_with_its_own_options(
    table: DeltaTable, bucket: str, options: dict[str, str]
):
    append(table, 1)
    clone = DeltaTable.create(f"{bucket}/{uuid.uuid4()}/clone", SCHEMA, storage_options=options)
    (file,) = table.snapshot().add_files()
    far = f"{table.uri}/{file.path}".replace(" ", "%20")
    vector = write_deletion_vector(table.store, [0], inline_below_bytes=0)
    place = f"{table.uri}/{locate(table.uri, vector).path}".replace(" ", "%20")
    absolute = msgspec.structs.replace(vector, storage_type="p", path_or_inline_dv=place)
    for version, add in enumerate(
        (
            msgspec.structs.replace(file, path=far, data_change=True),
            msgspec.structs.replace(file, path=far, data_change=True, deletion_vector=absolute),
        ),
        start=1,
    ):
        write_commit(clone.store, version, *([remove(far)] if version == 2 else []), add)
    refused = DeltaTable.open(clone.uri, options)
    with pytest.raises(PathOutsideRootError):
        refused.snapshot().to_arrow()
    allowed = DeltaTable.open(clone.uri, options, allowed_roots=[table.uri])
    assert allowed.snapshot(version=1).to_arrow().column("id").to_pylist() == [1]
    assert allowed.snapshot().to_arrow().num_rows == 0


def test_an_unreachable_store_leaves_the_outcome_of_a_write_unknown():
    store = open_store("s3://lake/t", NOWHERE)
    with pytest.raises(StorageOutcomeUnknownError):
        store.put_if_absent("x", b"")
    with pytest.raises(StorageError):
        store.read("x")
    with pytest.raises(StorageError):
        list(store.list_all())


def test_a_clone_in_a_bucket_reads_its_sources_files(table: DeltaTable, options: dict[str, str]):
    append(table, 1)
    place = f"{table.uri.rpartition('/')[0]}/a clone"
    clone = DeltaTable(
        open_store(place, options), storage_options=options, allowed_roots=[table.uri]
    )
    run(Clone(table.uri), clone, None)
    (add,) = clone.snapshot().add_files()
    assert add.path == f"{table.uri}/{table.snapshot().add_files()[0].path}".replace(" ", "%20")
    assert clone.snapshot().to_arrow().column("id").to_pylist() == [1]


def test_iceberg_clients_read_a_bucket(s3_options: dict[str, str]):
    properties = {
        "delta.enableIcebergCompatV2": "true",
        "delta.universalFormat.enabledFormats": "iceberg",
    }
    uri = f"s3://lake/{uuid.uuid4()}/a table"
    table = DeltaTable.create(uri, SCHEMA, properties=properties, storage_options=s3_options)
    snapshot = table.snapshot()
    files = TableFiles(table.uri, snapshot.schema, (), snapshot.properties, s3_options)
    txn = table.start_transaction()
    batch = pa.RecordBatch.from_pydict({"id": [1, 2]})
    txn.stage(*[add for add, _ in write_files([batch], file_target(files), 0)])
    txn.commit("WRITE")
    iceberg_table = StaticTable.from_metadata(
        f"{table.uri}/metadata/v2.metadata.json",
        {
            "s3.endpoint": s3_options["aws_endpoint_url"],
            "s3.access-key-id": s3_options["aws_access_key_id"],
            "s3.secret-access-key": s3_options["aws_secret_access_key"],
            "s3.region": s3_options["aws_region"],
        },
    )
    assert iceberg_table.scan().to_arrow().column("id").to_pylist() == [1, 2]


def test_a_row_deleted_through_two_clients_is_deleted_once(bucket: str, options: dict[str, str]):
    """Two stores of one bucket share nothing but the bucket."""
    table = DeltaTable.create(f"{bucket}/{uuid.uuid4()}", HISTORY, storage_options=options)
    _commit(c.Append(1, (("a", 1), ("a", 2), ("a", 3))), table)
    deletes = [
        run_on_arrow(c.Delete(number, c.Range(1, 2 + number % 2)), handle, stats=True)
        for number, handle in enumerate((table, DeltaTable.open(table.uri, options)), 2)
    ]
    assert deletes[0].txn.table.store is not deletes[1].txn.table.store
    deletes[1].txn.commit("DELETE")
    deletes[0].txn.commit("DELETE")
    left = DeltaTable.open(table.uri, options).snapshot().to_arrow()
    assert left["x"].to_pylist() == [3]


def _commit(command: c.Command, table: DeltaTable) -> None:
    running = run_on_arrow(command, table, stats=True)
    running.txn.commit(running.operation)


def test_a_fork_of_a_process_that_used_a_bucket_is_refused(
    table: DeltaTable, options: dict[str, str]
):
    """Its client would wait for ever for threads that a fork does not inherit."""
    assert table.version() == 0
    child = os.fork()
    if not child:
        signal.alarm(30)  # where it waits
        try:
            DeltaTable.open(table.uri, options)
        except StorageError as error:
            os._exit(0 if "forked" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
