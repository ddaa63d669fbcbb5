"""Which rows deletion vectors leave, decided on the executors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from engine.actions.deletion_vector import DeletionVectorDescriptor
from engine.actions.files import AddFile
from engine.deletion_vectors.files import read_deletion_vector
from engine.spark.table_files import TableFiles
from engine.storage.uri import open_store


def live_rows(
    table: TableFiles, files: Mapping[int, AddFile]
) -> Callable[[Column, Column], Column]:
    """A function of a file's number and a row's position: whether the row is live."""
    vectors = {index: add.deletion_vector for index, add in files.items()}
    roots = tuple(table.allowed_roots)
    mask = _Mask(table.uri, dict(table.storage_options), vectors, roots)

    def live(file: pa.Array, row: pa.Array) -> pa.Array:
        return mask.live(file.to_numpy(zero_copy_only=False), row.to_numpy(zero_copy_only=False))

    live.__annotations__ = {"file": pa.Array, "row": pa.Array, "return": pa.Array}
    udf: Callable[[Column, Column], Column] = F.arrow_udf(live, "boolean")  # type: ignore[attr-defined] # missing in its stubs
    return udf


@dataclass
class _Mask:
    """Which rows the deletion vectors leave, decided on an executor."""

    uri: str
    storage_options: dict[str, str]
    vectors: dict[int, DeletionVectorDescriptor | None]
    allowed_roots: tuple[str, ...] = ()
    _deleted: dict[int, npt.NDArray[np.uint64]] = field(default_factory=dict)

    def live(self, files: npt.NDArray[np.int32], rows: npt.NDArray[np.int64]) -> pa.Array:
        alive = np.ones(len(files), dtype=bool)
        for index in np.unique(files):
            here = files == index
            alive[here] = ~_among(rows[here].astype(np.uint64), self._of(int(index)))
        return pa.array(alive)

    def _of(self, index: int) -> npt.NDArray[np.uint64]:
        if index not in self._deleted:
            if len(self._deleted) > 64:
                self._deleted.clear()
            vector = self.vectors[index]
            store = open_store(self.uri, self.storage_options)
            deleted = read_deletion_vector(store, vector, self.allowed_roots) if vector else ()
            self._deleted[index] = np.fromiter(deleted, dtype=np.uint64)
        return self._deleted[index]


def _among(
    values: npt.NDArray[np.uint64], ordered: npt.NDArray[np.uint64]
) -> npt.NDArray[np.bool_]:
    places = np.searchsorted(ordered, values)
    inside = places < len(ordered)
    hits = np.zeros(len(values), dtype=bool)
    hits[inside] = ordered[places[inside]] == values[inside]
    return hits
