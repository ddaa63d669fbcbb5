import struct
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from engine.deletion_vectors.bitmap import decode_bitmap, decode_z85, encode_bitmap, encode_z85
from engine.errors import DeletionVectorError, EngineError

ROWS = st.sets(st.integers(0, 2**40) | st.integers(0, 300), max_size=200)


@given(ROWS)
def test_positions_survive_their_bytes(rows: set[int]):
    assert set(decode_bitmap(encode_bitmap(rows))) == rows


@given(st.binary(max_size=100))
def test_bytes_survive_z85(data: bytes):
    padded = data + b"\0" * (-len(data) % 4)
    assert decode_z85(encode_z85(data)) == padded


@given(
    st.binary(max_size=200)
    | st.binary(max_size=200).map(lambda tail: struct.pack("<I", 1681511377) + tail)
)
def test_any_bytes_are_a_bitmap_or_a_typed_error(payload: bytes):
    try:
        assert decode_bitmap(payload) is not None
    except EngineError:
        return


@given(ROWS, st.integers(0, 500), st.integers(0, 255))
def test_a_flipped_byte_is_a_bitmap_or_a_typed_error(rows: set[int], at: int, value: int):
    payload = bytearray(encode_bitmap(rows))
    payload[at % len(payload)] = value
    try:
        assert decode_bitmap(bytes(payload)) is not None
    except EngineError:
        return


@given(st.text(max_size=50))
def test_any_text_is_z85_or_a_typed_error(text: str):
    try:
        assert isinstance(decode_z85(text), bytes)
    except EngineError:
        return


def test_the_id_of_a_known_file_is_decoded():
    assert uuid.UUID(bytes=decode_z85("^-aqEH.-t@S}K{vb[*k^")) == uuid.UUID(
        "d2c639aa-8816-431a-aaf6-d3fe2512ff61"
    )


def test_a_tail_marked_by_another_writer_is_shorter():
    assert decode_z85("##093") == b"\x03\x00"


def test_the_older_layout_is_read():
    rows = BitMap([3, 4, 7, 11, 18, 29])
    body = rows.serialize()
    payload = struct.pack(">IIi", 1681511376, 1, len(body)) + body
    assert decode_bitmap(payload) == BitMap64([3, 4, 7, 11, 18, 29])


@pytest.mark.parametrize("payload", [b"", b"\0\0\0\0", b"\xd1\xd3\x39\x64" + b"\xff" * 16])
def test_damaged_bytes_are_refused(payload: bytes):
    with pytest.raises(DeletionVectorError):
        assert decode_bitmap(payload) is not None
