"""Damaged logs: the engine returns the right rows, or an error of its own that names the damage."""

import json
import struct
import uuid
import zlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from pyroaring import BitMap64

from engine.actions.files import DeletionVectorDescriptor
from engine.actions.table import Protocol
from engine.deletion_vectors.bitmap import encode_bitmap, encode_z85
from engine.errors import (
    DataFileError,
    DeletionVectorError,
    EngineError,
    MalformedLogError,
    PathOutsideRootError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from engine.log.paths import checkpoint_path, commit_path, v2_checkpoint_path
from engine.snapshot.change_feed import read_changes
from engine.storage.memory import MemoryStore
from engine.table import DeltaTable
from tests.engine.made_tables import (
    SCHEMA,
    WITH_VECTORS,
    add,
    metadata,
    remove,
    write_commit,
    write_first,
    write_lines,
    write_rows,
)

ALL = [1, 2, 3, 4, 5]
Damage = Callable[[MemoryStore], None]


@pytest.fixture
def store() -> MemoryStore:
    """Return a store whose version 0 creates the table, and whose versions 1 and 2 each add a file."""
    made = MemoryStore(f"memory://damage/{uuid.uuid4()}")
    write_first(made)
    write_commit(made, 1, write_rows(made, "a.parquet", {"id": [1, 2, 3]}))
    write_commit(made, 2, write_rows(made, "b.parquet", {"id": [4, 5]}))
    return made


def read(store: MemoryStore) -> list[Any]:
    """Return the ids, after using the other parts of a table's interface."""
    table = DeltaTable.open(store.root)
    snapshot = table.snapshot()
    _ = (snapshot.size_bytes, snapshot.timestamp_ms)
    table.history()
    snapshot.files("id = 4 AND name > 'x'")
    ids = snapshot.to_arrow().column("id").to_pylist()
    assert snapshot.row_count == len(ids)
    return sorted(ids)


def _line(name: str, **fields: Any) -> str:
    return json.dumps({name: fields})


def _add_line(path: str, **fields: Any) -> str:
    plain = {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1}
    return _line("add", **plain, dataChange=True, **fields)


def _third(*lines: str) -> Damage:
    return lambda store: write_lines(store, 3, *lines)


def _bytes(version: int, data: bytes) -> Damage:
    return lambda store: store.put(commit_path(version), data)


def _file(path: str, data: bytes) -> Damage:
    return lambda store: store.put(path, data)


def _schema(text: str) -> Damage:
    return lambda store: write_commit(store, 3, metadata(schema_string=text))


def metadata_of(text: str) -> str:
    return text


PLAIN = SCHEMA.to_json()
V2 = "\n".join(
    [
        _line("checkpointMetadata", version=2),
        _line("sidecar", path="%s", sizeInBytes=1, modificationTime=1),
    ]
)
READ: dict[str, tuple[Damage, list[Any]]] = {
    "an unknown action": (_third(_line("martian", size=1)), ALL),
    "unknown fields": (_third(_add_line("a.parquet", future={"x": [1]})), ALL),
    "a file added again": (_third(_add_line("a.parquet"), _add_line("a.parquet")), ALL),
    "a remove before its add": (
        lambda store: write_commit(store, 3, remove("c.parquet")),
        ALL,
    ),
    "added and removed at once": (_third(_add_line("c.parquet"), _line("remove", path="c.parquet", dataChange=True)), ALL),
    "blank lines and carriage returns": (_bytes(3, b"\r\n \n" + _line("commitInfo").encode() + b"\r\n"), ALL),
    "an empty commit": (_bytes(3, b""), ALL),
    "a commit that says nonsense of itself": (
        _third(json.dumps({"commitInfo": 5}), _line("commitInfo", timestamp="x", readVersion=2.5, txnId=7)),
        ALL,
    ),
    "an unknown writer feature": (
        lambda store: write_commit(store, 3, Protocol(min_reader_version=1, min_writer_version=7, writer_features=["martian"])),
        ALL,
    ),
    "a hint beyond the log": (_file("_delta_log/_last_checkpoint", b'{"version":99,"size":1}'), ALL),
    "a hint that is too large": (_file("_delta_log/_last_checkpoint", b'{"version":1' + b"0" * 30 + b"}"), ALL),
    "a checkpoint that is none": (_file(checkpoint_path(2), b"PAR1"), ALL),
    "a checkpoint whose sidecar is missing": (_file(v2_checkpoint_path(2, "json"), (V2 % "gone.parquet").encode()), ALL),
    "a checksum of another table": (
        _file(
            "_delta_log/00000000000000000002.crc",
            json.dumps({"tableSizeBytes": 1, "numFiles": 7, "numMetadata": 1, "numProtocol": 1, "metadata": {"id": "x", "schemaString": "no json"}, "protocol": {"minReaderVersion": 9, "minWriterVersion": 9}}).encode(),
        ),
        ALL,
    ),
    "a compaction that is none": (_file("_delta_log/00000000000000000000.00000000000000000001.compacted.json", b"?"), ALL),
    "a compaction that ends before it begins": (
        _file("_delta_log/00000000000000000002.00000000000000000000.compacted.json", _add_line("zz").encode()),
        ALL,
    ),
    "statistics that are none": (_third(_add_line("a.parquet", stats="{bad")), ALL),
    "statistics of the wrong types": (
        _third(_add_line("a.parquet", stats='{"numRecords":"x","minValues":5,"maxValues":[],"nullCount":"q"}')),
        ALL,
    ),
    "statistics that count too far": (_third(_add_line("a.parquet", stats='{"numRecords":1' + "0" * 40 + "}")), ALL),
    "a path with dots that stays inside": (_third(_add_line("x/../y/.././a.parquet"), _line("remove", path="a.parquet", dataChange=True)), ALL),
    "a decoded name that is a path of its own": (
        lambda store: write_commit(store, 3, msgspec.structs.replace(write_rows(store, "d%2Fe.parquet", {"id": [6]}), path="d%252Fe.parquet")),
        [*ALL, 6],
    ),
    "a time that no calendar has": (
        lambda store: write_commit(store, 3, metadata(configuration={"delta.enableInCommitTimestamps": "true"})),
        ALL,
    ),
}  # fmt: skip
REFUSED: dict[str, tuple[Damage, type[EngineError]]] = {
    "a missing commit": (lambda store: store.delete(commit_path(1)), MalformedLogError),
    "a cut line": (_bytes(2, b'{"add":{"path":"b.parquet","part'), MalformedLogError),
    "zeros after a crash": (_bytes(2, _add_line("b.parquet").encode() + b"\n" + b"\0" * 64), MalformedLogError),
    "two actions on a line": (_third('{"commitInfo":{},"remove":{"path":"a","dataChange":true}}'), MalformedLogError),
    "no action on a line": (_third('{"add":null}'), MalformedLogError),
    "a path that is null": (_third(_add_line(None)), MalformedLogError),  # type: ignore[arg-type]
    "a path that is empty": (_third(_add_line("")), MalformedLogError),
    "a path with a zero byte": (_third(_add_line("a\0.parquet")), MalformedLogError),
    "a lone surrogate": (_bytes(3, _add_line("\ud800.parquet").encode()), MalformedLogError),
    "no UTF-8": (_bytes(3, b'{"txn":{"appId":"\xe9","version":1}}'), MalformedLogError),
    "a size beyond 64 bits": (_third(_line("add", path="a", partitionValues={}, size=2**70, modificationTime=1, dataChange=True)), MalformedLogError),
    "a size below zero": (_third(_line("add", path="a", partitionValues={}, size=-1, modificationTime=1, dataChange=True)), MalformedLogError),
    "an unknown reader feature": (
        lambda store: write_commit(store, 3, Protocol(min_reader_version=3, min_writer_version=7, reader_features=["martian"], writer_features=["martian"])),
        UnsupportedFeatureError,
    ),
    "a reader version from the future": (
        lambda store: write_commit(store, 3, Protocol(min_reader_version=99, min_writer_version=7)),
        UnsupportedFeatureError,
    ),
    "a way out by dots": (_third(_add_line("../../etc/passwd")), PathOutsideRootError),
    "a way out by encoded dots": (_third(_add_line("%2e%2e/%2e%2e/etc/passwd")), PathOutsideRootError),
    "a way out by a URL": (_third(_add_line("file:///etc/passwd")), PathOutsideRootError),
    "a file of another store": (_third(_add_line("s3://bucket/x.parquet")), PathOutsideRootError),
    "a sidecar outside": (_file(v2_checkpoint_path(2, "json"), (V2 % "../../../etc/passwd").encode()), PathOutsideRootError),
    "a file that is gone": (lambda store: store.delete("a.parquet"), DataFileError),
    "a file that is empty": (_file("a.parquet", b""), DataFileError),
    "a schema that is no JSON": (_schema("hello"), MalformedLogError),
    "a schema that is a list": (_schema("[]"), MalformedLogError),
    "fields that are no fields": (_schema('{"type":"struct","fields":["a"]}'), MalformedLogError),
    "field metadata that is text": (_schema(PLAIN.replace('"metadata":{}', '"metadata":"abc"')), MalformedLogError),
    "field metadata that is a list": (_schema(PLAIN.replace('"metadata":{}', '"metadata":[1]')), MalformedLogError),
    "a field twice": (_schema(PLAIN.replace('"name"', '"id"')), MalformedLogError),
    "a decimal without digits": (_schema(PLAIN.replace('"long"', '"decimal(0,0)"')), MalformedLogError),
    "a decimal of other digits": (_schema(PLAIN.replace('"long"', '"decimal(1²,2)"')), MalformedLogError),
    "a decimal of negative scale": (_schema(PLAIN.replace('"long"', '"decimal(9,-2)"')), MalformedLogError),
    "a type nested too deep": (_schema('{"type":"struct","fields":[{"name":"id","type":' + '{"type":"array","elementType":' * 5000 + '"long"' + "}" * 5000 + "}]}"), MalformedLogError),
    "a mode of mapping that is none": (
        lambda store: write_commit(store, 3, metadata(configuration={"delta.columnMapping.mode": "bogus"})),
        MalformedLogError,
    ),
    "partitions that no column is": (lambda store: write_commit(store, 3, metadata(partition_columns=["zz"])), MalformedLogError),
    "no log": (lambda store: [store.delete(commit_path(version)) for version in range(3)], TableNotFoundError),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_damage_that_readers_may_ignore_is_read_over(store: MemoryStore, name: str):
    damage, ids = READ[name]
    damage(store)
    assert read(store) == ids


@pytest.mark.parametrize("name", REFUSED)
def test_damage_that_prevents_reading_is_refused_by_name(store: MemoryStore, name: str):
    damage, error = REFUSED[name]
    damage(store)
    with pytest.raises(error):
        read(store)


@pytest.mark.parametrize("ms", [2**62, -(2**62)])
def test_a_commit_at_an_impossible_time_is_refused_where_its_time_is_needed(
    store: MemoryStore, ms: int
):
    enabled = metadata(configuration={"delta.enableInCommitTimestamps": "true"})
    write_commit(store, 3, enabled)
    store.put(commit_path(4), json.dumps({"commitInfo": {"inCommitTimestamp": ms}}).encode())
    assert read(store) == ALL
    with pytest.raises(MalformedLogError, match="ms since 1970"):
        _ = DeltaTable.open(store.root).snapshot().timestamp


PAYLOAD = encode_bitmap([1])
FRAME = struct.pack(">I", len(PAYLOAD)) + PAYLOAD + struct.pack(">I", zlib.crc32(PAYLOAD))
INLINE_FAR = encode_bitmap(BitMap64([2**40]))
VECTORS: dict[str, tuple[dict[str, Any], bytes]] = {
    "another checksum": ({}, b"\x01" + FRAME[:-1] + bytes([FRAME[-1] ^ 1])),
    "another magic": ({}, b"\x01" + FRAME[:4] + b"XXXX" + FRAME[8:]),
    "another size": ({"size_in_bytes": 5}, b"\x01" + FRAME),
    "an offset beyond the file": ({"offset": 9999}, b"\x01" + FRAME),
    "an offset before the file": ({"offset": -3}, b"\x01" + FRAME),
    "a cut file": ({}, b"\x01" + FRAME[:9]),
    "an empty file": ({}, b""),
    "another count": ({"cardinality": 2}, b"\x01" + FRAME),
    "an unknown storage": ({"storage_type": "q"}, b"\x01" + FRAME),
    "a short name": ({"path_or_inline_dv": "abc"}, b"\x01" + FRAME),
    "no Z85": ({"path_or_inline_dv": "~" * 20}, b"\x01" + FRAME),
    "inline garbage": ({"storage_type": "i", "path_or_inline_dv": "garbage!!!"}, b""),
    "inline nothing": ({"storage_type": "i", "path_or_inline_dv": ""}, b""),
    "inline rows that the file does not have": (
        {
            "storage_type": "i",
            "path_or_inline_dv": encode_z85(INLINE_FAR),
            "size_in_bytes": len(INLINE_FAR),
        },
        b"",
    ),
    "a way out": (
        {"storage_type": "p", "path_or_inline_dv": "file:///etc/passwd"},
        b"",
    ),
}


@pytest.mark.parametrize("name", ["sound", *VECTORS])
def test_a_damaged_deletion_vector_is_refused_and_a_sound_one_applied(
    store: MemoryStore, name: str
):
    identity = uuid.uuid4()
    fields: dict[str, Any] = {
        "storage_type": "u",
        "path_or_inline_dv": encode_z85(identity.bytes),
        "offset": 1,
        "size_in_bytes": len(PAYLOAD),
        "cardinality": 1,
    }
    changes, content = VECTORS.get(name, ({}, b"\x01" + FRAME))
    store.put(f"deletion_vector_{identity}.bin", content)
    vector = DeletionVectorDescriptor(**{**fields, **changes})
    masked = add("a.parquet", deletion_vector=vector, stats='{"numRecords":3}')
    write_commit(store, 3, WITH_VECTORS, remove("a.parquet"), masked)
    if name == "sound":
        assert read(store) == [1, 3, 4, 5]
        return
    error = PathOutsideRootError if name == "a way out" else DeletionVectorError
    with pytest.raises(error):
        read(store)


def test_changes_of_a_removed_file_are_read_where_its_partition_was_never_recorded(
    store: MemoryStore,
):
    write_commit(store, 3, metadata(configuration={"delta.enableChangeDataFeed": "true"}))
    write_commit(store, 4, remove("b.parquet"))
    changes = read_changes(DeltaTable.open(store.root), 4)
    assert changes.column("id").to_pylist() == [4, 5]
    assert set(changes.column("_change_type").to_pylist()) == {"delete"}
