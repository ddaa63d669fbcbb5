"""Storage of deletion vectors: inline or in files (protocol: Deletion Vector Storage).

A file is a version byte, then for each vector its size, its payload and a checksum; `offset` points
at the size. Several vectors may share a file.
"""

import struct
import uuid
import zlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from pyroaring import BitMap64

from engine.actions.files import DeletionVectorDescriptor
from engine.deletion_vectors.bitmap import decode_bitmap, decode_z85, encode_bitmap, encode_z85
from engine.errors import DeletionVectorError, FileMissingError
from engine.storage.base import Store, put_fresh, random_prefix
from engine.storage.uri import ResolvedPath, open_beside, resolve_log_path

INLINE_BELOW_BYTES = 512
_UUID_CHARS = 20
_FORMAT_VERSION = b"\x01"
_REMEDY = "Restore the file from a backup, or restore the table to an earlier version."
Key = TypeVar("Key", bound=Hashable)


def read_deletion_vector(
    store: Store, descriptor: DeletionVectorDescriptor, allowed_roots: Sequence[str] = ()
) -> BitMap64:
    """Read the positions a descriptor deletes.

    Raises:
        DeletionVectorError: the bytes are missing or do not match the descriptor.
        PathOutsideRootError: the file lies outside the table and the allowed roots.
    """
    if descriptor.size_in_bytes < 0 or descriptor.cardinality < 0:
        msg = "A deletion vector's descriptor has a negative size."
        raise DeletionVectorError(msg, _REMEDY)
    if descriptor.storage_type == "i":
        payload = _inline_payload(descriptor)
    else:
        place = locate(store.root, descriptor, allowed_roots)
        holder = store if place.inside else open_beside(store, place.root)
        payload = _file_payload(holder, place.path, descriptor)
    rows = decode_bitmap(payload)
    if len(rows) != descriptor.cardinality:
        msg = (
            f"A deletion vector has {len(rows)} rows, but its descriptor says "
            f"{descriptor.cardinality}."
        )
        raise DeletionVectorError(msg, _REMEDY)
    return rows


def locate(
    root: str, descriptor: DeletionVectorDescriptor, allowed_roots: Sequence[str] = ()
) -> ResolvedPath:
    """Return the location of a deletion vector's file.

    Raises:
        DeletionVectorError: it is inline, or the descriptor names no file.
        PathOutsideRootError: it lies outside the table and the allowed roots.
    """
    text = descriptor.path_or_inline_dv
    if descriptor.storage_type == "p":
        return resolve_log_path(root, text, allowed_roots)
    if descriptor.storage_type != "u" or len(text) < _UUID_CHARS:
        msg = (
            f"A deletion vector is stored as {descriptor.storage_type[:20]!r}, which does not "
            "name a file."
        )
        raise DeletionVectorError(msg, _REMEDY)
    return ResolvedPath(root, relative_path(text), inside=True)


def relative_path(text: str) -> str:
    """Return the path below the table for a `u` descriptor: a directory, then 20 Z85 characters."""
    prefix, encoded = text[:-_UUID_CHARS], text[-_UUID_CHARS:]
    name = f"deletion_vector_{uuid.UUID(bytes=decode_z85(encoded)[:16])}.bin"
    return f"{prefix.strip('/')}/{name}" if prefix.strip("/") else name


def write_deletion_vector(
    store: Store,
    rows: BitMap64 | Iterable[int],
    *,
    inline_below_bytes: int = INLINE_BELOW_BYTES,
    prefix_length: int = 0,
) -> DeletionVectorDescriptor:
    """Keep a set of positions: inline if its payload is small, else in a file of its own."""
    return write_deletion_vectors(
        store, {0: rows}, inline_below_bytes=inline_below_bytes, prefix_length=prefix_length
    )[0]


def write_deletion_vectors(
    store: Store,
    rows_by_key: Mapping[Key, BitMap64 | Iterable[int]],
    *,
    inline_below_bytes: int = INLINE_BELOW_BYTES,
    prefix_length: int = 0,
) -> dict[Key, DeletionVectorDescriptor]:
    """Write sets of positions: small ones inline, the others in one shared file.

    The file lies in a directory of `prefix_length` random characters (0: in the table's own).
    """
    descriptors: dict[Key, DeletionVectorDescriptor] = {}
    place = random_prefix(prefix_length) + encode_z85(uuid.uuid4().bytes)
    content = bytearray(_FORMAT_VERSION)
    for key, rows in rows_by_key.items():
        bitmap = BitMap64(rows)
        payload = encode_bitmap(bitmap)
        if len(payload) < inline_below_bytes:
            descriptors[key] = DeletionVectorDescriptor(
                "i", encode_z85(payload), len(payload), len(bitmap)
            )
            continue
        descriptors[key] = DeletionVectorDescriptor(
            "u", place, len(payload), len(bitmap), len(content)
        )
        content += (
            struct.pack(">I", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))
        )
    if len(content) > len(_FORMAT_VERSION):
        put_fresh(store, relative_path(place), bytes(content))
    return descriptors


def _inline_payload(descriptor: DeletionVectorDescriptor) -> bytes:
    payload = decode_z85(descriptor.path_or_inline_dv)
    if len(payload) < descriptor.size_in_bytes:
        msg = (
            f"An inline deletion vector has {len(payload)} bytes, but its descriptor says "
            f"{descriptor.size_in_bytes}."
        )
        raise DeletionVectorError(msg, _REMEDY)
    return payload[: descriptor.size_in_bytes]


def _file_payload(store: Store, path: str, descriptor: DeletionVectorDescriptor) -> bytes:
    offset, size = descriptor.offset or 0, descriptor.size_in_bytes
    status = store.stat(path)
    if status is None:
        msg = f"The deletion vector {path} is missing."
        raise DeletionVectorError(msg, _REMEDY)
    if offset < 0 or offset + size + 8 > status.size_bytes:
        msg = (
            f"The deletion vector {path} has {status.size_bytes} bytes, too few for its descriptor."
        )
        raise DeletionVectorError(msg, _REMEDY)
    try:
        framed = store.read(path, offset, size + 8)
    except FileMissingError as error:
        msg = f"The deletion vector {path} is missing."
        raise DeletionVectorError(msg, _REMEDY) from error
    payload = framed[4 : 4 + size]
    if len(framed) != size + 8 or struct.unpack_from(">I", framed)[0] != size:
        msg = f"The size of the deletion vector {path} differs from its descriptor."
        raise DeletionVectorError(msg, _REMEDY)
    if struct.unpack_from(">I", framed, 4 + size)[0] != zlib.crc32(payload):
        msg = f"The deletion vector {path} does not match its checksum."
        raise DeletionVectorError(msg, _REMEDY)
    return payload
