"""Live rows by deletion vectors, evaluated on the executors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from engine.actions.files import AddFile
from engine.snapshot.data_files import read_deleted_rows
from engine.spark.table_files import TableFiles
from engine.storage.uri import open_store


def live_rows(
    table: TableFiles, files: Mapping[int, AddFile]
) -> Callable[[Column, Column], Column]:
    """Return a function of a file's number and a row's position: whether the row is live."""
    masked = {index: _drop_claims(add) for index, add in files.items()}
    roots = tuple(table.allowed_roots)
    mask = _Mask(table.uri, dict(table.storage_options), masked, roots)

    def live(file: pa.Array, row: pa.Array) -> pa.Array:
        return mask.live(file.to_numpy(zero_copy_only=False), row.to_numpy(zero_copy_only=False))

    live.__annotations__ = {"file": pa.Array, "row": pa.Array, "return": pa.Array}
    udf: Callable[[Column, Column], Column] = F.arrow_udf(live, "boolean")  # type: ignore[attr-defined] # missing in its stubs
    return udf


def _drop_claims(add: AddFile) -> AddFile:
    """Return a file without statistics and tags, which executors do not need."""
    return msgspec.structs.replace(add, stats=None, tags=None)


@dataclass
class _Mask:
    """The mask of live rows, evaluated on an executor."""

    uri: str
    storage_options: dict[str, str]
    files: dict[int, AddFile]
    allowed_roots: tuple[str, ...] = ()
    _deleted: dict[int, npt.NDArray[np.uint64]] = field(default_factory=dict)

    def live(self, files: npt.NDArray[np.int32], rows: npt.NDArray[np.int64]) -> pa.Array:
        alive = np.ones(len(files), dtype=bool)
        for index in np.unique(files):
            here = files == index
            alive[here] = ~_is_member(rows[here].astype(np.uint64), self._load_deleted(int(index)))
        return pa.array(alive)

    def _load_deleted(self, index: int) -> npt.NDArray[np.uint64]:
        if index not in self._deleted:
            if len(self._deleted) > 64:
                self._deleted.clear()
            store = open_store(self.uri, self.storage_options)
            deleted = read_deleted_rows(store, self.files[index], self.allowed_roots)
            self._deleted[index] = np.fromiter(deleted, dtype=np.uint64)
        return self._deleted[index]


def _is_member(
    values: npt.NDArray[np.uint64], ordered: npt.NDArray[np.uint64]
) -> npt.NDArray[np.bool_]:
    places = np.searchsorted(ordered, values)
    inside = places < len(ordered)
    hits = np.zeros(len(values), dtype=bool)
    hits[inside] = ordered[places[inside]] == values[inside]
    return hits
