from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from engine.actions.files import DeletionVectorDescriptor
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

    def replace_descriptor(self, **values: Any) -> DeletionVectorDescriptor:
        return msgspec.structs.replace(self.descriptor, **values)


@pytest.fixture
def vector_file(tmp_path) -> Written:
    store = LocalStore(tmp_path)
    return Written(store, write_deletion_vector(store, range(0, 10_000, 3), inline_below_bytes=0))


def test_a_small_vector_is_inline_and_writes_no_file(tmp_path):
    store = LocalStore(tmp_path)
    descriptor = write_deletion_vector(store, [1, 5])
    assert descriptor.storage_type == "i"
    assert descriptor.offset is None
    assert list(store.list_all()) == []
    assert list(read_deletion_vector(store, descriptor)) == [1, 5]


def test_a_large_vector_has_a_file(vector_file: Written):
    assert vector_file.descriptor.storage_type == "u"
    assert vector_file.descriptor.offset == 1
    assert list(read_deletion_vector(vector_file.store, vector_file.descriptor)) == list(
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
def test_a_descriptor_that_does_not_fit_is_refused(vector_file: Written, change: dict[str, Any]):
    with pytest.raises(DeletionVectorError):
        read_deletion_vector(vector_file.store, vector_file.replace_descriptor(**change))


def test_a_missing_file_is_named(vector_file: Written):
    path = locate(vector_file.store.root, vector_file.descriptor).path
    vector_file.store.delete(path)
    with pytest.raises(DeletionVectorError, match=path):
        read_deletion_vector(vector_file.store, vector_file.descriptor)


def test_a_damaged_byte_does_not_pass_the_checksum(vector_file: Written):
    path = locate(vector_file.store.root, vector_file.descriptor).path
    data = bytearray(vector_file.store.read(path))
    data[len(data) // 2] ^= 1
    vector_file.store.put(path, bytes(data))
    with pytest.raises(DeletionVectorError, match="checksum"):
        read_deletion_vector(vector_file.store, vector_file.descriptor)


def test_an_absolute_vector_outside_the_table_is_read_from_allowed_roots_alone(
    vector_file: Written, tmp_path
):
    path = locate(vector_file.store.root, vector_file.descriptor).path
    absolute = vector_file.replace_descriptor(
        storage_type="p", path_or_inline_dv=f"file://{vector_file.store.root}/{path}"
    )
    clone = LocalStore(tmp_path / "clone")
    with pytest.raises(PathOutsideRootError):
        read_deletion_vector(clone, absolute)
    assert (
        len(read_deletion_vector(clone, absolute, [vector_file.store.root]))
        == vector_file.descriptor.cardinality
    )


def test_a_prefix_cannot_lead_out_of_the_table(vector_file: Written):
    with pytest.raises(PathOutsideRootError):
        read_deletion_vector(
            vector_file.store,
            vector_file.replace_descriptor(
                path_or_inline_dv="../" + vector_file.descriptor.path_or_inline_dv
            ),
        )
