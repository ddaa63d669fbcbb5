"""Sets of row positions as bytes (protocol: Deletion Vector Format), and Z85 text.

The payload is a magic number, then the 64-bit roaring array serialized by `pyroaring.BitMap64`.
"""

import struct
from collections.abc import Iterable

from pyroaring import BitMap, BitMap64

from engine.errors import DeletionVectorError

MAGIC = 1681511377
_NATIVE_MAGIC = 1681511376
_MAX_BYTES = 1 << 31
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DIGITS = {char: value for value, char in enumerate(_ALPHABET)}
_POWERS = (85**4, 85**3, 85**2, 85, 1)


def encode_bitmap(rows: BitMap64 | Iterable[int]) -> bytes:
    """Encode positions as a payload, run-length encoded if smaller."""
    bitmap = BitMap64(rows)
    bitmap.run_optimize()
    payload: bytes = struct.pack("<I", MAGIC) + bitmap.serialize()
    return payload


def decode_bitmap(payload: bytes) -> BitMap64:
    """Decode a payload's positions, in the documented layout or the older one Spark also reads.

    Raises:
        DeletionVectorError: it has neither layout.
    """
    if len(payload) < 4 or len(payload) > _MAX_BYTES:
        msg = f"A deletion vector has an invalid size of {len(payload)} bytes."
        raise DeletionVectorError(msg)
    try:
        if struct.unpack_from("<I", payload)[0] == MAGIC:
            return _decode_portable(payload[4:])
        if struct.unpack_from(">I", payload)[0] == _NATIVE_MAGIC:
            return _decode_native(payload)
    except (ValueError, struct.error, OverflowError, MemoryError) as error:
        msg = f"The bytes of a deletion vector are damaged: {error}."
        raise DeletionVectorError(msg, "Restore the file from a backup.") from error
    msg = f"A deletion vector starts with {payload[:4].hex()}, which is not a known format."
    raise DeletionVectorError(msg, "Restore the file from a backup.")


def encode_z85(data: bytes) -> str:
    """Encode bytes as Z85; zero bytes pad the last group."""
    padded = data + b"\0" * (-len(data) % 4)
    groups = (int.from_bytes(padded[i : i + 4], "big") for i in range(0, len(padded), 4))
    return "".join(_ALPHABET[group // power % 85] for group in groups for power in _POWERS)


def decode_z85(text: str) -> bytes:
    """Decode Z85 text, padding included; some writers mark tails with `#`.

    Raises:
        DeletionVectorError: it is not Z85.
    """
    if len(text) % 5 or any(char not in _DIGITS for char in text):
        msg = f"{text[:100]!r} is not Z85."
        raise DeletionVectorError(msg)
    return b"".join(_decode_group(text[i : i + 5]) for i in range(0, len(text), 5))


def _decode_group(group: str) -> bytes:
    value = sum(_DIGITS[char] * power for char, power in zip(group, _POWERS, strict=True))
    if value < 1 << 32:
        return value.to_bytes(4, "big")
    tail = group.lstrip("#")
    missing = len(group) - len(tail)
    if not 1 <= missing <= 3:
        msg = f"{group!r} is not Z85."
        raise DeletionVectorError(msg)
    rest = sum(_DIGITS[char] * _POWERS[5 - len(tail) + i] for i, char in enumerate(tail))
    try:
        return rest.to_bytes(4 - missing, "big")
    except OverflowError as error:
        msg = f"{group!r} is not Z85."
        raise DeletionVectorError(msg) from error


def _decode_portable(body: bytes) -> BitMap64:
    buckets, offset, high = struct.unpack_from("<Q", body)[0], 8, -1
    if buckets > len(body) // 8:
        msg = f"{buckets} buckets in {len(body)} bytes"
        raise ValueError(msg)
    bitmap = BitMap64.deserialize(body)
    if buckets:
        key = struct.unpack_from("<I", body, offset)[0]
        if key > 0x7FFFFFFF or key <= high:
            msg = f"bucket {key} is out of range"
            raise ValueError(msg)
    return bitmap


def _decode_native(payload: bytes) -> BitMap64:
    """Decode big-endian magic and count; each bitmap follows its size, and its place is its key."""
    count, offset = struct.unpack_from(">I", payload, 4)[0], 8
    buckets = []
    for key in range(count):
        size = struct.unpack_from(">I", payload, offset)[0]
        bitmap = BitMap.deserialize(payload[offset + 4 : offset + 4 + size])
        buckets.append(struct.pack("<I", key) + bitmap.serialize())
        offset += 4 + size
    return BitMap64.deserialize(struct.pack("<Q", count) + b"".join(buckets))
