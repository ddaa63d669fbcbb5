from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from engine.actions.deletion_vector import DeletionVectorDescriptor
from engine.deletion_vectors.files import (
    locate,
    read_deletion_vector,
    write_deletion_vector,
    write_deletion_vectors,
)
from engine.errors import DeletionVectorError, PathOutsideRootError
from engine.storage.local import LocalStore


@dataclass
class Written:
    store: LocalStore
    descriptor: DeletionVectorDescriptor

    def changed(self, **values: Any) -> DeletionVectorDescriptor:
        return msgspec.structs.replace(self.descriptor, **values)


@pytest.fixture
def written(tmp_path) -> Written:
    store = LocalStore(tmp_path)
    return Written(store, write_deletion_vector(store, range(0, 10_000, 3), inline_below_bytes=0))


def test_a_small_vector_is_inline_and_writes_no_file(tmp_path):
    store = LocalStore(tmp_path)
    descriptor = write_deletion_vector(store, [1, 5])
    assert descriptor.storage_type == "i"
    assert descriptor.offset is None
    assert list(store.list_all()) == []
    assert list(read_deletion_vector(store, descriptor)) == [1, 5]


def test_a_large_vector_has_a_file(written: Written):
    assert written.descriptor.storage_type == "u"
    assert written.descriptor.offset == 1
    assert list(read_deletion_vector(written.store, written.descriptor)) == list(
        range(0, 10_000, 3)
    )


def test_several_vectors_share_a_file(tmp_path):
    store = LocalStore(tmp_path)
    rows = {name: range(start, 10_000, 7) for start, name in enumerate("abc")}
    descriptors = write_deletion_vectors(store, rows, inline_below_bytes=0, prefix_length=4)
    directory = descriptors["a"].path_or_inline_dv[:-20]
    assert len(directory) == 4
    assert directory.isalnum()
    assert len(list(store.list_all(directory))) == 1
    assert {descriptor.path_or_inline_dv for descriptor in descriptors.values()} == {
        descriptors["a"].path_or_inline_dv
    }
    for name, expected in rows.items():
        assert list(read_deletion_vector(store, descriptors[name])) == list(expected)


@pytest.mark.parametrize(
    "change",
    [
        {"offset": 2},
        {"offset": -1},
        {"offset": 10**9},
        {"size_in_bytes": 7},
        {"size_in_bytes": 10**12},
        {"size_in_bytes": -1},
        {"cardinality": 3},
        {"storage_type": "x"},
        {"path_or_inline_dv": "short"},
        {"path_or_inline_dv": "~" * 20},
        {"storage_type": "i", "path_or_inline_dv": "00000", "offset": None},
    ],
)
def test_a_descriptor_that_does_not_fit_is_refused(written: Written, change: dict[str, Any]):
    with pytest.raises(DeletionVectorError):
        read_deletion_vector(written.store, written.changed(**change))


def test_a_missing_file_is_named(written: Written):
    path = locate(written.store.root, written.descriptor).path
    written.store.delete(path)
    with pytest.raises(DeletionVectorError, match=path):
        read_deletion_vector(written.store, written.descriptor)


def test_a_damaged_byte_does_not_pass_the_checksum(written: Written):
    path = locate(written.store.root, written.descriptor).path
    data = bytearray(written.store.read(path))
    data[len(data) // 2] ^= 1
    written.store.put(path, bytes(data))
    with pytest.raises(DeletionVectorError, match="checksum"):
        read_deletion_vector(written.store, written.descriptor)


def test_an_absolute_vector_outside_the_table_is_read_from_allowed_roots_alone(
    written: Written, tmp_path
):
    path = locate(written.store.root, written.descriptor).path
    absolute = written.changed(
        storage_type="p", path_or_inline_dv=f"file://{written.store.root}/{path}"
    )
    clone = LocalStore(tmp_path / "clone")
    with pytest.raises(PathOutsideRootError):
        read_deletion_vector(clone, absolute)
    assert (
        len(read_deletion_vector(clone, absolute, [written.store.root]))
        == written.descriptor.cardinality
    )


def test_a_prefix_cannot_lead_out_of_the_table(written: Written):
    with pytest.raises(PathOutsideRootError):
        read_deletion_vector(
            written.store,
            written.changed(path_or_inline_dv="../" + written.descriptor.path_or_inline_dv),
        )
