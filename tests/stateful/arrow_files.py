"""File operations of the executor without Spark: read, write, mask and move rows."""

import json
import uuid
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from engine.actions.codec import Action
from engine.actions.compaction import CompactionInfo
from engine.actions.files import AddCDCFile, AddFile, RemoveFile
from engine.deletion_vectors.files import (
    INLINE_BELOW_BYTES,
    read_deletion_vector,
    write_deletion_vector,
)
from engine.schema.arrow import to_arrow_type
from engine.schema.column_mapping import physical_path, physical_schema
from engine.snapshot.reader import read_file
from engine.snapshot.snapshot import Snapshot
from tests.stateful.commands import Rows
from tests.stateful.typed_values import NAME as TYPED
from tests.stateful.typed_values import Typed, type_of

ROW_INDEX = "__row_index"
FIXED = ("u", "part", "x", "n")
_PLACES = {"part": 0, "x": 1, "n": 2}
_STATS = msgspec.json.Encoder(decimal_format="number")


class Files:
    """The files of one version, and the staged changes to them."""

    def __init__(self, snapshot: Snapshot, *, stats: bool) -> None:
        self.snapshot, self.stats = snapshot, stats
        self.staged: list[Action] = []
        self.ids: dict[str, int] = {}
        self.row_id_column = (
            snapshot.properties.row_id_column if snapshot.properties.row_tracking else None
        )
        self.partitioned = bool(snapshot.partition_columns)
        physical = physical_schema(snapshot.schema, snapshot.mapping_mode)
        self.names = dict(zip(snapshot.schema.names, physical.names, strict=True))
        self.kinds = {field.name: to_arrow_type(field.type) for field in physical}
        self.typed = type_of(snapshot.schema)

    def part_of(self, add: AddFile) -> str | None:
        """The partition of a file; None in a table without partitions."""
        return add.partition_values.get(self.names["part"])

    def rows(self, add: AddFile) -> Rows:
        return read_rows(read_file(self.snapshot, add))

    def write(self, rows: Rows) -> None:
        """Write new files, one for each partition; existing rows keep their ids."""
        for part in sorted({row[0] for row in rows.values()}) if self.partitioned else [None]:
            chosen = {k: row for k, row in rows.items() if part in (None, row[0])}
            if chosen:
                self.staged.append(self._rewrite(chosen, part))

    def remove(self, add: AddFile) -> None:
        """Every row of a file."""
        self.staged.append(removal(add, data_change=True))

    def take(self, add: AddFile, rows: pa.Table, keys: set[str], *, rewrite: bool) -> None:
        """Remove some rows of a file, by a deletion vector or by rewriting the others."""
        self.remove(add)
        if self.row_id_column:
            ids = self.row_ids(add)[rows[ROW_INDEX].to_numpy()].tolist()
            self.ids |= dict(zip(rows["u"].to_pylist(), ids, strict=True))
        kept = {k: row for k, row in read_rows(rows).items() if k not in keys}
        if not kept:
            return
        if rewrite or not self.snapshot.properties.enable_deletion_vectors:
            self.staged.append(self._rewrite(kept, self.part_of(add)))
            return
        mask = [key in keys for key in rows["u"].to_pylist()]
        gone = BitMap64(
            [p for p, hit in zip(rows[ROW_INDEX].to_pylist(), mask, strict=True) if hit]
        )
        limit = 0 if self.snapshot.version % 2 else INLINE_BELOW_BYTES
        rows_gone = self._read_deleted(add) | gone
        vector = write_deletion_vector(self.snapshot.store, rows_gone, inline_below_bytes=limit)
        again = msgspec.structs.replace(add, deletion_vector=vector, data_change=True)
        self.staged.append(again)

    def compact(self, chosen: list[AddFile], *, sort: bool, tagged: bool) -> None:
        """Write the rows of several files into one, in order or sorted."""
        tables, ids, offset = [], [], 0
        target = f"{uuid.uuid4()}.parquet"
        for add in chosen:
            rows = read_file(self.snapshot, add, with_positions=True)
            info = CompactionInfo(
                target=target,
                offset=offset,
                row_count=_count(add),
                deletion_vector=add.deletion_vector,
            )
            tags = info.tags() if tagged and not sort else None
            self.staged.append(removal(add, data_change=False, tags=tags))
            ids.append(self.row_ids(add)[rows[ROW_INDEX].to_numpy()])
            tables.append(rows.drop_columns([ROW_INDEX]))
            offset += rows.num_rows
        if not offset:
            return
        whole, row_ids = pa.concat_tables(tables), np.concatenate(ids)
        if sort:
            order = pc.sort_indices(whole["x"].combine_chunks()).to_numpy()[::-1]
            whole, row_ids = whole.take(pa.array(order)), row_ids[order]
        kept = row_ids.tolist() if self.row_id_column else None
        part = self.part_of(chosen[0])
        self.staged.append(self._file(whole, part, data_change=False, path=target, row_ids=kept))

    def write_changes(self, changes: Mapping[str, Rows]) -> None:
        """Write change files for this commit, one for each kind of change and partition."""
        for kind, rows in changes.items():
            for part in sorted({row[0] for row in rows.values()}) if self.partitioned else [None]:
                chosen = {k: row for k, row in rows.items() if part in (None, row[0])}
                if chosen:
                    self.staged.append(self._change_file(kind, chosen, part))

    def _change_file(self, kind: str, rows: Rows, part: str | None) -> AddCDCFile:
        path, stored = f"_change_data/{uuid.uuid4()}.parquet", self._physical(self._table(rows))
        told = stored.append_column("_change_type", pa.repeat(pa.scalar(kind), stored.num_rows))
        values = {self.names["part"]: part} if self.partitioned else {}
        return AddCDCFile(path=path, partition_values=values, size=self._put(path, told))

    def _put(self, path: str, rows: pa.Table) -> int:
        """Write a data file; its size."""
        sink = BytesIO()
        pq.write_table(rows, sink, compression="none")
        self.snapshot.store.put_if_absent(path, sink.getvalue())
        return len(sink.getvalue())

    def _rewrite(self, rows: Rows, part: str | None) -> AddFile:
        ids = [self.ids.get(key) for key in rows]
        kept = ids if any(id_ is not None for id_ in ids) else None
        return self._file(self._table(rows), part, data_change=True, row_ids=kept)

    def row_ids(self, add: AddFile) -> np.ndarray:
        """The stable ids of every physical row; made up where the table keeps none."""
        count = _count(add)
        if self.row_id_column is None:
            return np.zeros(count, np.int64)
        data = pq.read_table(pa.BufferReader(self.snapshot.store.read(add.path)))
        counted = np.arange(count) + (add.base_row_id or 0)
        if self.row_id_column not in data.column_names:
            return counted
        kept = data[self.row_id_column].to_pylist()
        return np.array([n if k is None else k for k, n in zip(kept, counted, strict=True)])

    def _file(
        self,
        rows: pa.Table,
        part: str | None,
        *,
        data_change: bool,
        path: str | None = None,
        row_ids: Sequence[int | None] | None = None,
    ) -> AddFile:
        path = path or f"{uuid.uuid4()}.parquet"
        stored = self._physical(rows)
        if row_ids is not None and self.row_id_column is not None:
            stored = stored.append_column(self.row_id_column, pa.array(row_ids, pa.int64()))
        return AddFile(
            path=path,
            partition_values={self.names["part"]: part} if self.partitioned else {},
            size=self._put(path, stored),
            modification_time=1,
            data_change=data_change,
            stats=self._stats(rows),
        )

    def _physical(self, rows: pa.Table) -> pa.Table:
        """Return rows as files of the table store them."""
        stored = rows.drop_columns(["part"]) if self.partitioned else rows
        stored = stored.rename_columns([self.names[name] for name in stored.column_names])
        name = self.names.get(TYPED)
        if name is None or stored[name].type == self.kinds[name]:
            return stored
        renamed = pa.array(
            _rename_fields(stored[name].to_pylist(), self.kinds[name]), self.kinds[name]
        )
        return stored.set_column(stored.column_names.index(name), name, renamed)

    def _stats(self, rows: pa.Table) -> str:
        count = rows.num_rows
        stats: dict[str, Any] = {"numRecords": count}
        if self.stats:
            low, high, nulls = stats["minValues"], stats["maxValues"], stats["nullCount"] = (
                {},
                {},
                {},
            )
            values = rows["x"].to_pylist()
            present = [x for x in values if x is not None]
            nulls[self.names["x"]] = count - len(present)
            if present:
                low[self.names["x"]], high[self.names["x"]] = min(present), max(present)
            if self.typed is not None:
                self._build_typed_stats(self.typed, rows, (low, high, nulls))
        return _STATS.encode(stats).decode()

    def _build_typed_stats(
        self, typed: Typed, rows: pa.Table, stats: tuple[dict[str, Any], ...]
    ) -> None:
        """Build statistics of the typed column, in a style chosen by the number of rows."""
        keys = zip(rows["x"].to_pylist(), rows["u"].to_pylist(), strict=True)
        values = [typed.leaf(x, key) for x, key in keys]
        present = [number for number in values if number is not None]
        bounds = typed.bounds(present, rows.num_rows % 2) if present else (None, None)
        path = physical_path(self.snapshot.schema, (TYPED, *typed.path), self.snapshot.mapping_mode)
        for place, value in zip(stats, (*bounds, len(values) - len(present)), strict=True):
            if value is not None:
                place |= _nest_value(path, value)

    def _read_deleted(self, add: AddFile) -> BitMap64:
        if add.deletion_vector is None:
            return BitMap64()
        return read_deletion_vector(self.snapshot.store, add.deletion_vector)

    def _table(self, rows: Rows) -> pa.Table:
        return pa.table({name: self._column(name, rows) for name in self.names})

    def _column(self, name: str, rows: Rows) -> pa.Array:
        if name == "u":
            return pa.array(list(rows), pa.string())
        if name == TYPED and self.typed is not None:
            values = [self.typed.value(row[1], key) for key, row in rows.items()]
            return pa.array(values, self.typed.arrow)
        place = _PLACES.get(name, 3)
        kind = pa.int32() if place else pa.string()
        return pa.array([row[place] for row in rows.values()], kind)


def removal(
    add: AddFile, *, data_change: bool, tags: dict[str, str | None] | None = None
) -> RemoveFile:
    """The tombstone of a file."""
    return RemoveFile(
        path=add.path,
        data_change=data_change,
        extended_file_metadata=True,
        partition_values=add.partition_values,
        size=add.size,
        stats=add.stats,
        deletion_vector=add.deletion_vector,
        base_row_id=add.base_row_id,
        default_row_commit_version=add.default_row_commit_version,
        tags=tags,
    )


def read_rows(rows: pa.Table) -> Rows:
    """Return rows by identity; the fifth column is the one that may be added and dropped."""
    extra = extra_of(rows.column_names)
    columns = [rows[name].to_pylist() for name in FIXED]
    columns.append([None] * rows.num_rows if extra is None else rows[extra].to_pylist())
    return {u: (p, x, n, e) for u, p, x, n, e in zip(*columns, strict=True)}


def extra_of(names: Sequence[str]) -> str | None:
    """The name of the column that may come and go, None where it is gone."""
    return next((name for name in names if name not in (*FIXED, TYPED, ROW_INDEX)), None)


def check_typed(rows: pa.Table, typed: Typed) -> None:
    """Raise AssertionError if the typed column's values do not match x."""
    keys = zip(rows["x"].to_pylist(), rows["u"].to_pylist(), strict=True)
    expected = pa.array([typed.value(x, key) for x, key in keys], typed.arrow).to_pylist()
    held = rows[TYPED].to_pylist()
    assert list(map(repr, held)) == list(map(repr, expected)), f"{held} is not {expected}"


def _rename_fields(values: Sequence[Any], kind: pa.DataType) -> list[Any]:
    """Rename the fields of structs, one by one."""
    if not pa.types.is_struct(kind):
        return list(values)
    fields = [kind.field(place) for place in range(kind.num_fields)]
    renamed = []
    for value in values:
        parts = None if value is None else list(value.values())
        renamed.append(
            None
            if parts is None
            else {
                f.name: _rename_fields([part], f.type)[0]
                for f, part in zip(fields, parts, strict=True)
            }
        )
    return renamed


def _nest_value(path: Sequence[str], value: Any) -> dict[str, Any]:
    for name in reversed(path):
        value = {name: value}
    return value


def _count(add: AddFile) -> int:
    return int(json.loads(add.stats or "{}")["numRecords"])
