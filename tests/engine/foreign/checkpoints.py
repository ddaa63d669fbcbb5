"""Tables whose log is read from checkpoints and compactions of other writers."""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tests.engine.foreign.hand_writer import (
    CHECKPOINT_TYPES,
    HandWriter,
    column,
    metadata_of,
    protocol_of,
    remove_of,
    replace_vector,
)
from tests.engine.foreign.tables import foreign_table

SCHEMA = [column("id", "long")]
V2 = (3, 7, ["v2Checkpoint"])
LAST = "_delta_log/_last_checkpoint"


def _grow(writer: HandWriter, protocol: tuple[Any, ...] = (1, 2)) -> list[dict[str, Any]]:
    """Write versions 0 to 2: row 1; rows 2 and 3; row 1 removed and 4 added. Return the state's actions."""
    files = [
        writer.file(f"f{number}.parquet", {"id": ids})
        for number, ids in enumerate(([1], [2, 3], [4]))
    ]
    first, second, third = files
    writer.create(first, schema=SCHEMA, protocol=protocol)
    writer.commit(1, second)
    writer.commit(2, remove_of(first), third)
    return [
        {"protocol": protocol_of(*protocol)},
        {"metaData": metadata_of(SCHEMA)},
        {"txn": {"appId": "stream", "version": 7}},
        second,
        third,
        remove_of(first),
    ]


def _forget(writer: HandWriter, *versions: int) -> None:
    for version in versions:
        (writer.root / f"_delta_log/{version:020}.json").unlink()


def _name(version: int, rest: str) -> str:
    return f"{version:020}.checkpoint.{rest}"


def _is_file(action: dict[str, Any]) -> bool:
    return "add" in action or "remove" in action


ROWS = ((2,), (3,), (4,))
GROWN = {0: ((1,),), 1: ((1,), (2,), (3,)), 2: ROWS}


@foreign_table(GROWN)
def checkpoint_of_one_file(writer: HandWriter) -> None:
    size = writer.checkpoint(_name(2, "parquet"), _grow(writer))
    writer.put(LAST, json.dumps({"version": 2, "size": 6, "sizeInBytes": size}))


@foreign_table({2: ROWS, 3: (*ROWS, (5,))})
def checkpoint_of_a_cleaned_log(writer: HandWriter) -> None:
    writer.checkpoint(_name(2, "parquet"), _grow(writer))
    _forget(writer, 0, 1, 2)
    writer.put(LAST, '{"version":2,"size":6}')
    writer.commit(3, writer.file("f3.parquet", {"id": [5]}))


@foreign_table({2: ROWS})
def checkpoint_of_a_log_that_is_gone(writer: HandWriter) -> None:
    """Leave neither a commit nor a pointer."""
    writer.checkpoint(_name(2, "parquet"), _grow(writer))
    _forget(writer, 0, 1, 2)


@foreign_table({2: ROWS})
def checkpoint_in_parts(writer: HandWriter) -> None:
    actions = _grow(writer)
    for part, piece in enumerate((actions[:3], actions[3:4], actions[4:]), start=1):
        writer.checkpoint(_name(2, f"{part:010}.{3:010}.parquet"), piece)
    _forget(writer, 0, 1, 2)
    writer.put(LAST, '{"version":2,"size":6,"parts":3}')


@foreign_table(GROWN, readers=())
def checkpoint_in_parts_of_which_one_is_missing(writer: HandWriter) -> None:
    actions = _grow(writer)
    for part, piece in ((1, actions[:3]), (3, actions[4:])):
        writer.checkpoint(_name(2, f"{part:010}.{3:010}.parquet"), piece)
    writer.put(LAST, '{"version":2,"size":6,"parts":3}')


def _pointer(writer: HandWriter, text: str) -> None:
    writer.checkpoint(_name(2, "parquet"), _grow(writer))
    writer.put(LAST, text)


@foreign_table(GROWN)
def pointer_that_is_empty(writer: HandWriter) -> None:
    _pointer(writer, "")


@foreign_table(GROWN)
def pointer_that_is_torn(writer: HandWriter) -> None:
    _pointer(writer, '{"version":2,"si')


@foreign_table(GROWN, readers=())
def pointer_to_what_never_was(writer: HandWriter) -> None:
    _pointer(writer, '{"version":9,"size":6,"parts":2}')


@foreign_table(GROWN)
def pointer_that_is_stale(writer: HandWriter) -> None:
    """Point to version 0, which also has a checkpoint."""
    actions = _grow(writer)
    writer.checkpoint(_name(2, "parquet"), actions)
    first = writer.file("f0.parquet", {"id": [1]})
    writer.checkpoint(_name(0, "parquet"), [*actions[:2], first])
    writer.put(LAST, '{"version":0,"size":3}')


def _sidecars(writer: HandWriter, *pieces: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    named = []
    for number, piece in enumerate(pieces):
        name = f"00000000-0000-4000-8000-00000000000{number}.parquet"
        size = writer.checkpoint(f"_sidecars/{name}", piece)
        named.append({"sidecar": {"path": name, "sizeInBytes": size, "modificationTime": 1}})
    return named


_UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


def _manifest(writer: HandWriter) -> list[dict[str, Any]]:
    actions = _grow(writer, V2)
    files = [action for action in actions if _is_file(action)]
    others = [action for action in actions if not _is_file(action)]
    return [
        {"checkpointMetadata": {"version": 2}},
        *others,
        *_sidecars(writer, files[:1], files[1:]),
    ]


@foreign_table({2: ROWS})
def checkpoint_v2_in_json(writer: HandWriter) -> None:
    lines = [json.dumps(action) for action in _manifest(writer)]
    writer.put(f"_delta_log/{_name(2, f'{_UUID}.json')}", "\n".join(lines) + "\n")
    _forget(writer, 0, 1, 2)
    writer.put(LAST, '{"version":2,"size":6}')


@foreign_table({2: ROWS})
def checkpoint_v2_in_parquet(writer: HandWriter) -> None:
    writer.checkpoint(_name(2, f"{_UUID}.parquet"), _manifest(writer))
    _forget(writer, 0, 1, 2)


@foreign_table({2: ROWS})
def checkpoint_v2_without_sidecars(writer: HandWriter) -> None:
    actions = [{"checkpointMetadata": {"version": 2}}, *_grow(writer, V2)]
    writer.checkpoint(_name(2, f"{_UUID}.parquet"), actions)
    _forget(writer, 0, 1, 2)


@foreign_table({2: ROWS})
def checkpoint_v2_under_a_classic_name(writer: HandWriter) -> None:
    """Use the name that old readers look for."""
    writer.checkpoint(_name(2, "parquet"), _manifest(writer))
    _forget(writer, 0, 1, 2)


@foreign_table({2: ROWS})
def checkpoint_with_statistics_as_structs_alone(writer: HandWriter) -> None:
    parsed = pa.struct(
        {
            "numRecords": pa.int64(),
            "minValues": pa.struct({"id": pa.int64()}),
            "maxValues": pa.struct({"id": pa.int64()}),
            "nullCount": pa.struct({"id": pa.int64()}),
        }
    )
    add = CHECKPOINT_TYPES["add"]
    fields = {field.name: field.type for field in add if field.name != "stats"}
    actions = [action for action in _grow(writer) if "remove" not in action]
    for action, (low, high) in zip(actions[3:], ((2, 3), (4, 4)), strict=True):
        said = {"minValues": {"id": low}, "maxValues": {"id": high}, "nullCount": {"id": 0}}
        action["add"]["stats_parsed"] = {"numRecords": high - low + 1, **said}
        del action["add"]["stats"]
    writer.checkpoint(
        _name(2, "parquet"), actions, add=pa.struct(fields | {"stats_parsed": parsed})
    )
    _forget(writer, 0, 1, 2)


@foreign_table({2: ROWS})
def checkpoint_with_columns_of_its_own(writer: HandWriter) -> None:
    """Include commit information and change files, which do not belong in a checkpoint."""
    actions = [
        {"commitInfo": {"operation": "WRITE"}},
        {"cdc": {"path": "_change_data/x", "size": 1}},
        *_grow(writer),
    ]
    writer.checkpoint(
        _name(2, "parquet"),
        actions,
        commitInfo=pa.struct({"operation": pa.string()}),
        cdc=pa.struct({"path": pa.string(), "size": pa.int64()}),
    )
    _forget(writer, 0, 1, 2)


@foreign_table({3: (*ROWS, (5,)), 2: ROWS})
def compaction_of_the_log(writer: HandWriter) -> None:
    actions = _grow(writer)
    writer.commit(3, writer.file("f3.parquet", {"id": [5]}))
    lines = [json.dumps(action) for action in actions[3:]]
    writer.put(f"_delta_log/{1:020}.{2:020}.compacted.json", "\n".join(lines) + "\n")


@foreign_table({1: ((1,), (3,)), 2: ((3,),)})
def checkpoint_with_vectors(writer: HandWriter) -> None:
    """Put a vector into a checkpoint, and another one of the same file into the next commit."""
    protocol = (3, 7, ["deletionVectors"])
    file = writer.file("f.parquet", {"id": [1, 2, 3]})
    one, two = writer.vectors([1], [0, 1])
    writer.create(file, schema=SCHEMA, protocol=protocol)
    writer.commit(1, remove_of(file), replace_vector(file, one))
    actions = [{"protocol": protocol_of(*protocol)}, {"metaData": metadata_of(SCHEMA)}]
    writer.checkpoint(_name(1, "parquet"), [*actions, replace_vector(file, one), remove_of(file)])
    _forget(writer, 0)
    writer.commit(2, remove_of(replace_vector(file, one)), replace_vector(file, two))
