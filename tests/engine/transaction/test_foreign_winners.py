"""Winning commits of other engines, and values that are easy to misread: none is missed."""

import json
import uuid
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from engine.actions.codec import Action, encode
from engine.actions.commit_info import CommitInfo
from engine.actions.files import AddCDCFile, AddFile
from engine.conflicts.decide.rebase import build_remove
from engine.deletion_vectors.files import write_deletion_vector
from engine.errors import ConflictError
from engine.log.commits import read_commit
from engine.log.paths import commit_path
from engine.schema.types import DOUBLE, LONG, STRING, TIMESTAMP, StructField, StructType
from engine.storage.uri import local_path
from engine.table import DeltaTable
from engine.transaction.optimistic_transaction import OptimisticTransaction
from tests.engine.made_tables import stage

SCHEMA = StructType(
    (
        StructField("id", LONG),
        StructField("v", DOUBLE),
        StructField("Moment", TIMESTAMP),
        StructField("s", StructType((StructField("a", LONG),))),
        StructField("name", STRING),
    )
)
ARROW = pa.schema(
    [
        ("id", pa.int64()),
        ("v", pa.float64()),
        ("Moment", pa.timestamp("us", "UTC")),
        ("s", pa.struct([("a", pa.int64())])),
        ("name", pa.string()),
    ]
)
NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)
LATE = datetime(2026, 11, 2, 23, 30, tzinfo=UTC)


def _table(uri: str = "", **properties: str) -> DeltaTable:
    named = {"delta.enableDeletionVectors": "true", "delta.isolationLevel": "Serializable"}
    named |= {f"delta.{key}": value for key, value in properties.items()}
    table = DeltaTable.create(uri or f"memory://foreign/{uuid.uuid4()}", SCHEMA, properties=named)
    txn = table.start_transaction()
    stage(txn, _file(table, *({"id": i, "v": float(i), "Moment": NOON} for i in range(6))))
    txn.commit("WRITE")
    return table


def _file(table: DeltaTable, *rows: dict[str, Any], **rest: Any) -> AddFile:
    sink = BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), ARROW), sink)
    path = f"{uuid.uuid4()}.parquet"
    table.store.put_if_absent(path, sink.getvalue())
    values = {"stats": json.dumps({"numRecords": len(rows)})} | rest
    return AddFile(
        path=path,
        partition_values={},
        size=len(sink.getvalue()),
        modification_time=1,
        data_change=True,
        **values,
    )


def _begin_delete(table: DeltaTable, condition: str, *rows: int) -> OptimisticTransaction:
    """Begin a DELETE of these rows of the first file, all that match the condition."""
    txn = table.start_transaction()
    txn.read_where(condition, every_match_changes=True)
    assert txn.snapshot is not None
    (add,) = txn.snapshot.add_files()
    stage(txn, build_remove(add), _mask_rows(table, add, *rows))
    return txn


def _mask_rows(table: DeltaTable, add: AddFile, *rows: int, **rest: Any) -> AddFile:
    vector = write_deletion_vector(table.store, BitMap64(rows), inline_below_bytes=0)
    return msgspec.structs.replace(add, deletion_vector=vector, data_change=True, **rest)


def _land(table: DeltaTable, *actions: Action, **info: Any) -> None:
    """Write a commit as other engines do, possibly without commit information."""
    lines = [encode(CommitInfo(**info)), *map(encode, actions)]
    place = commit_path(DeltaTable(table.store).version() + 1)
    table.store.put_if_absent(place, "".join(f"{line}\n" for line in lines).encode())


def _conflict_name(txn: OptimisticTransaction) -> str | None:
    try:
        txn.commit("DELETE")
    except ConflictError as error:
        return type(error).__name__
    return None


APPENDED, REMOVED = "ConcurrentAppendException", "ConcurrentDeleteReadException"


@pytest.mark.parametrize(
    ("condition", "row", "stats", "meets"),
    [
        ("v > 5", {"v": float("nan")}, {"minValues": {"v": 0.0}, "maxValues": {"v": 1.0}}, True),
        ("v > 5", {"v": 1.0}, {"minValues": {"v": 0.0}, "maxValues": {"v": 1.0}}, False),
        ("v = CAST('NaN' AS DOUBLE)", {"v": float("nan")}, {}, True),
        ("NOT (v <= 5)", {"v": float("nan")}, {}, True),
        ("NOT (v <= 5)", {"v": None}, {}, False),
        ("V > 5", {"v": 9.0}, {}, True),
        ("ID = 7 AND mOMENT > '2026-01-01'", {"id": 7, "Moment": LATE}, {}, True),
        ("CAST(moment AS DATE) = '2026-11-02' AND id > 5", {"id": 7, "Moment": LATE}, {}, True),
        ("CAST(moment AS DATE) = '2026-11-03' AND id > 5", {"id": 7, "Moment": LATE}, {}, False),
        ("name = 'a' OR id = 5", {"name": "A"}, {}, False),
        ("name = 'a' OR id = 5", {"name": "a "}, {}, False),
        ("name IS NULL AND id > 5", {"id": 9}, {"nullCount": {"name": 0}}, False),
        ("id = 7", {"id": 7}, {"minValues": {"id": -9}, "maxValues": {"id": 99}}, True),
        ("id = 7", {"id": 8}, {"minValues": {"id": -9}, "maxValues": {"id": 99}}, False),
        ("id = 7", {"id": 7}, {"tightBounds": False, "minValues": {"id": 7}}, True),
        ("id = 7", {"id": 7}, None, True),
        ("id = 7", {"id": 8}, None, False),
    ],
)
@pytest.mark.parametrize("blind", [True, None])
def test_a_row_of_a_winner_matches_as_spark_would_say(
    condition: str,
    row: dict[str, Any],
    stats: dict[str, Any] | None,
    meets: bool,
    blind: bool | None,
):
    """Statistics decide first, if they are trustworthy; then the row."""
    table = _table()
    txn = _begin_delete(table, condition, 5)
    said = None if stats is None else json.dumps({"numRecords": 1, **stats})
    _land(table, _file(table, row, stats=said), is_blind_append=blind, operation="WRITE")
    assert _conflict_name(txn) == (APPENDED if meets else None)


def test_a_field_of_a_struct_leaves_it_to_files():
    table = _table()
    txn = _begin_delete(table, "s.a = 1 OR id = 5", 5)
    _land(table, _file(table, {"s": {"a": 2}}))
    with pytest.raises(ConflictError) as raised:
        txn.commit("DELETE")
    assert "struct, array or map" in raised.value.conflict.row_level


@pytest.mark.parametrize("info", [{}, {"operation": "DELETE", "engine_info": "delta-rs:1.0"}])
def test_copy_on_write_replaces_every_row_of_its_file(info: dict[str, str]):
    """delta-rs rewrites a file without the rows that it deletes, and records little about it."""
    table = _table()
    txn, elsewhere = _begin_delete(table, "id = 5", 5), table.start_transaction()
    elsewhere.read_where("id = 99", every_match_changes=True)
    stage(elsewhere, _file(table, {"id": 99}))
    (add,) = table.snapshot().add_files()
    anew = _file(table, *({"id": i, "v": float(i)} for i in range(1, 6)), stats=None)
    _land(table, build_remove(add), anew, **info)
    assert _conflict_name(txn) == APPENDED
    assert _conflict_name(elsewhere) is None


@pytest.mark.parametrize("stats", [None, '{"numRecords":6}'], ids=["no statistics", "a count"])
@pytest.mark.parametrize("absolute", [False, True], ids=["relative path", "absolute path"])
def test_a_vector_of_another_engine_is_merged_wherever_it_lies(
    stats: str | None, absolute: bool, tmp_path
):
    table = _table(str(tmp_path / "t"))
    txn, same = _begin_delete(table, "id = 5", 5), _begin_delete(table, "id < 2", 0, 1)
    place, (add,) = local_path(table.uri), table.snapshot().add_files()
    assert place is not None
    before = set(place.glob("*.bin"))
    masked = _mask_rows(table, add, 1, 2, stats=stats)
    assert masked.deletion_vector is not None
    if absolute:
        (foreign,) = set(place.glob("*.bin")) - before
        vector = msgspec.structs.replace(
            masked.deletion_vector, storage_type="p", path_or_inline_dv=foreign.as_uri()
        )
        masked = msgspec.structs.replace(masked, deletion_vector=vector)
    _land(table, build_remove(add), masked)
    assert _conflict_name(txn) is None
    assert _conflict_name(same) == REMOVED
    assert sorted(table.snapshot().to_arrow()["id"].to_pylist()) == [0, 3, 4]
    (left,) = table.snapshot().add_files()
    assert json.loads(left.stats or "{}")["numRecords"] == 6


def test_a_vector_that_cannot_be_read_is_a_conflict():
    table = _table()
    txn = _begin_delete(table, "id = 5", 5)
    (add,) = table.snapshot().add_files()
    masked = _mask_rows(table, add, 1)
    assert masked.deletion_vector is not None
    for file in list(table.store.list_all()):
        if file.path.endswith(".bin"):
            table.store.delete(file.path)
    gone = msgspec.structs.replace(
        masked.deletion_vector, storage_type="u", path_or_inline_dv="ab^-aqEH.-t@S}K{vb[*k^"
    )
    _land(table, build_remove(add), msgspec.structs.replace(masked, deletion_vector=gone))
    assert _conflict_name(txn) is not None


@pytest.mark.parametrize(
    "content", [b"", b"PAR1 and nothing more PAR1", b"PAR1" + b"\0" * 64 + b"PAR1"]
)
def test_a_file_that_is_no_parquet_is_a_conflict(content: bytes):
    """The rows that the file was meant to hold are unknown."""
    table = _table()
    txn = _begin_delete(table, "id = 5", 5)
    broken = msgspec.structs.replace(_file(table, {"id": 9}), path="broken.parquet")
    table.store.put_if_absent(broken.path, content)
    _land(table, broken)
    assert _conflict_name(txn) == APPENDED


def test_a_vector_for_more_rows_than_the_file_has_is_a_conflict():
    table = _table()
    reading = table.start_transaction()
    reading.read_where("v >= 0")
    stage(reading, _file(table, {"id": 9}))
    (add,) = table.snapshot().add_files()
    _land(table, build_remove(add), _mask_rows(table, add, 7))
    assert _conflict_name(reading) is not None


def test_change_files_are_those_of_the_rows_that_current_changed():
    """Rows merged into its vector were changed by another commit, whose change files contain them."""
    table = _table(enableChangeDataFeed="true")
    txn = _begin_delete(table, "id = 5", 5)
    change = _file(table, {"id": 5})
    cdc = AddCDCFile(path=change.path, partition_values={}, size=change.size, data_change=False)
    stage(txn, cdc)
    (add,) = table.snapshot().add_files()
    _land(table, build_remove(add), _mask_rows(table, add, 0))
    assert _conflict_name(txn) is None
    landed = read_commit(table.store, table.version()).actions
    assert [action for action in landed if isinstance(action, AddCDCFile)] == [cdc]


def test_statistics_that_another_engine_computes_are_no_new_rows():
    """COMPUTE STATISTICS adds every file again, without a change of data."""
    table = _table()
    txn = _begin_delete(table, "id = 5", 5)
    (add,) = table.snapshot().add_files()
    stats = '{"numRecords":6,"minValues":{"id":0},"maxValues":{"id":5},"nullCount":{"id":0}}'
    _land(table, msgspec.structs.replace(add, stats=stats, data_change=False))
    assert _conflict_name(txn) is None
    (left,) = table.snapshot().add_files()
    assert json.loads(left.stats or "{}")["maxValues"] == {"id": 5}
    assert sorted(table.snapshot().to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 4]
