"""Tables with deletion vectors in every form that writers use."""

import struct
import uuid

from pyroaring import BitMap

from tests.engine.foreign.hand_writer import (
    HandWriter,
    bitmap_of,
    column,
    encode_z85,
    remove_of,
    replace_vector,
)
from tests.engine.foreign.tables import foreign_table

SCHEMA = [column("id", "long"), column("name", "string")]
PROTOCOL = (3, 7, ["deletionVectors"])
SIX = {"id": [0, 1, 2, 3, 4, 5], "name": ["a", "b", "c", "d", "e", "f"]}
ALL = tuple(zip(SIX["id"], SIX["name"], strict=True))


def _inline(raw: bytes, text: str, cardinality: int, **fields: object) -> dict[str, object]:
    return {
        "storageType": "i",
        "pathOrInlineDv": text,
        "sizeInBytes": len(raw),
        "cardinality": cardinality,
        **fields,
    }


def _delete_by(writer: HandWriter, *vectors: dict[str, object]) -> None:
    """Write one file of six rows, and delete more of its rows in each version."""
    file = writer.file("f.parquet", SIX)
    writer.create(file, schema=SCHEMA, protocol=PROTOCOL)
    for version, vector in enumerate(vectors, start=1):
        changed = replace_vector(file, vector)
        writer.commit(version, remove_of(file), changed)
        file = changed


@foreign_table({0: ALL, 1: (*ALL[:2], ALL[3], ALL[5]), 2: (ALL[1],)})
def vectors_inline(writer: HandWriter) -> None:
    few, many = bitmap_of([2, 4]), bitmap_of([0, 2, 3, 4, 5])
    _delete_by(
        writer,
        _inline(few, encode_z85(few), 2),
        _inline(many, encode_z85(many), 5, offset=None),
    )


@foreign_table({1: (*ALL[:3], *ALL[4:])})
def vectors_with_a_marked_tail(writer: HandWriter) -> None:
    """Mark a short last group with `#` instead of padding it, as Z85 of the Rust crate does."""
    raw = bitmap_of([3])
    assert len(raw) % 4 == 2
    tail = encode_z85(b"\0\0" + raw[-2:])[-3:]
    text = encode_z85(raw[:-2]) + "##" + tail
    _delete_by(writer, _inline(raw, text, 1))


@foreign_table({1: (*ALL[:3], ALL[5])}, readers=())
def vectors_in_the_older_layout(writer: HandWriter) -> None:
    """Write big-endian sizes around 32-bit bitmaps, as in the protocol's own example."""
    bitmap = BitMap([3, 4]).serialize()
    raw = struct.pack(">IIi", 1681511376, 1, len(bitmap)) + bitmap
    _delete_by(writer, _inline(raw, encode_z85(raw), 2))


@foreign_table({1: ((0, "a"), (2, "c"), (10, "x"), (11, "y")), 2: ((10, "x"),)})
def vectors_that_share_a_file(writer: HandWriter) -> None:
    file, other = (
        writer.file("f.parquet", SIX),
        writer.file("g.parquet", {"id": [10, 11, 12], "name": ["x", "y", "z"]}),
    )
    one, two, three, four = writer.vectors([1, 3, 4, 5], [2], range(6), [1, 2])
    writer.create(file, other, schema=SCHEMA, protocol=PROTOCOL)
    first, second = replace_vector(file, one), replace_vector(other, two)
    writer.commit(1, remove_of(file), remove_of(other), first, second)
    writer.commit(
        2,
        replace_vector(second, four),
        remove_of(second),
        remove_of(first),
        replace_vector(file, three),
    )


@foreign_table({1: ALL[1:]})
def vectors_below_a_prefix(writer: HandWriter) -> None:
    _delete_by(writer, *writer.vectors([0], prefix="r4"))


@foreign_table({1: ALL[1:]})
def vectors_at_an_absolute_path(writer: HandWriter) -> None:
    (vector,) = writer.vectors([0])
    (path,) = writer.root.glob("deletion_vector_*.bin")
    _delete_by(writer, vector | {"storageType": "p", "pathOrInlineDv": path.as_uri()})


@foreign_table({1: tuple((number,) for number in range(0, 20_000, 2))})
def vectors_of_many_rows(writer: HandWriter) -> None:
    """Write a bitmap container; few rows become an array, and neighbors become runs."""
    file = writer.file("f.parquet", {"id": list(range(20_000))})
    writer.create(file, schema=SCHEMA[:1], protocol=PROTOCOL)
    writer.commit(1, replace_vector(file, *writer.vectors(range(1, 20_000, 2))), remove_of(file))


@foreign_table({2: ((0, "a"), (1, "b"), (2, "c"), (5, "f"))})
def vectors_of_one_path_twice(writer: HandWriter) -> None:
    """Add a path with another vector before its removal is read: (path, vector) is the key."""
    file = writer.file("f.parquet", SIX)
    one, two = writer.vectors([5], [3, 4])
    writer.create(replace_vector(file, one), schema=SCHEMA, protocol=PROTOCOL)
    writer.commit(1, replace_vector(file, two), remove_of(replace_vector(file, one)))
    writer.commit(2, remove_of(replace_vector(file, one)))


@foreign_table({1: ()}, unreadable=True, readers=())
def vectors_that_are_missing(writer: HandWriter) -> None:
    lost = encode_z85(uuid.uuid5(uuid.NAMESPACE_URL, "lost").bytes)
    vector = {"storageType": "u", "pathOrInlineDv": lost, "offset": 1}
    _delete_by(writer, vector | {"sizeInBytes": 36, "cardinality": 1})


@foreign_table({1: ()}, unreadable=True, readers=())
def vectors_beyond_their_file(writer: HandWriter) -> None:
    _delete_by(writer, *writer.vectors([2, 600]))
