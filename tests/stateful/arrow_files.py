"""What the executor without Spark does to files: reads them, writes them, takes rows, moves rows."""

import json
import uuid
from collections.abc import Sequence
from io import BytesIO

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from engine.actions.codec import Action
from engine.actions.compaction import CompactionInfo
from engine.actions.files import AddFile, RemoveFile
from engine.deletion_vectors.files import read_deletion_vector, write_deletion_vector
from engine.schema.column_mapping import physical_name
from engine.snapshot.reader import read_file
from engine.snapshot.snapshot import Snapshot
from tests.stateful.commands import Rows

ROW_INDEX = "__row_index"
FIXED = ("u", "part", "x", "n")


class Files:
    """The files of one version, and what is staged to change them."""

    def __init__(self, snapshot: Snapshot, *, stats: bool) -> None:
        self.snapshot, self.stats = snapshot, stats
        self.staged: list[Action] = []
        self.ids: dict[str, int] = {}
        self.row_id_column = (
            snapshot.properties.row_id_column if snapshot.properties.row_tracking else None
        )
        self.partitioned = bool(snapshot.partition_columns)
        self.names = {
            each.name: physical_name(each, snapshot.mapping_mode) for each in snapshot.schema
        }

    def part_of(self, add: AddFile) -> str | None:
        """The partition of a file; None in a table without partitions."""
        return add.partition_values.get(self.names["part"])

    def rows(self, add: AddFile) -> Rows:
        return as_rows(read_file(self.snapshot, add))

    def write(self, rows: Rows) -> None:
        """New files, one a partition; rows that were there before keep their ids."""
        for part in sorted({row[0] for row in rows.values()}) if self.partitioned else [None]:
            chosen = {k: row for k, row in rows.items() if part in (None, row[0])}
            if chosen:
                self.staged.append(self._rewritten(chosen, part))

    def remove(self, add: AddFile) -> None:
        """Every row of a file."""
        self.staged.append(removal(add, data_change=True))

    def take(self, add: AddFile, rows: pa.Table, keys: set[str], *, rewrite: bool) -> None:
        """Some rows of a file: by a deletion vector, or by writing the others anew."""
        self.remove(add)
        if self.row_id_column:
            ids = self.row_ids(add)[rows[ROW_INDEX].to_numpy()].tolist()
            self.ids |= dict(zip(rows["u"].to_pylist(), ids, strict=True))
        kept = {k: row for k, row in as_rows(rows).items() if k not in keys}
        if not kept:
            return
        if rewrite or not self.snapshot.properties.enable_deletion_vectors:
            self.staged.append(self._rewritten(kept, self.part_of(add)))
            return
        mask = [key in keys for key in rows["u"].to_pylist()]
        gone = BitMap64(
            [p for p, hit in zip(rows[ROW_INDEX].to_pylist(), mask, strict=True) if hit]
        )
        vector = write_deletion_vector(self.snapshot.store, self._deleted(add) | gone)
        again = msgspec.structs.replace(add, deletion_vector=vector, data_change=True)
        self.staged.append(again)

    def compact(self, chosen: list[AddFile], *, sort: bool, tagged: bool) -> None:
        """Rows of files into one, in order or sorted."""
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

    def _rewritten(self, rows: Rows, part: str | None) -> AddFile:
        ids = [self.ids.get(key) for key in rows]
        kept = ids if any(each is not None for each in ids) else None
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
        stored = rows.drop_columns(["part"]) if self.partitioned else rows
        stored = stored.rename_columns([self.names[name] for name in stored.column_names])
        if row_ids is not None and self.row_id_column is not None:
            stored = stored.append_column(self.row_id_column, pa.array(row_ids, pa.int64()))
        sink = BytesIO()
        pq.write_table(stored, sink, compression="none")
        self.snapshot.store.put_if_absent(path, sink.getvalue())
        return AddFile(
            path=path,
            partition_values={self.names["part"]: part} if self.partitioned else {},
            size=len(sink.getvalue()),
            modification_time=1,
            data_change=data_change,
            stats=json.dumps(self._stats(rows)),
        )

    def _stats(self, rows: pa.Table) -> dict[str, object]:
        stats: dict[str, object] = {"numRecords": rows.num_rows}
        if self.stats:
            values, name = rows["x"].to_pylist(), self.names["x"]
            known = [x for x in values if x is not None]
            if known:
                stats |= {"minValues": {name: min(known)}, "maxValues": {name: max(known)}}
            stats |= {"nullCount": {name: len(values) - len(known)}}
        return stats

    def _deleted(self, add: AddFile) -> BitMap64:
        if add.deletion_vector is None:
            return BitMap64()
        return read_deletion_vector(self.snapshot.store, add.deletion_vector)

    def _table(self, rows: Rows) -> pa.Table:
        def column(place: int, kind: pa.DataType) -> pa.Array:
            return pa.array([row[place] for row in rows.values()], kind)

        kinds = (pa.string(), pa.int32(), pa.int32(), pa.int32())
        columns = [pa.array(list(rows), pa.string()), *map(column, range(4), kinds)]
        return pa.table(dict(zip(self.names, columns, strict=False)))


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


def as_rows(rows: pa.Table) -> Rows:
    """Rows by their identity; the column that may come and go is the fifth."""
    extra = next((name for name in rows.column_names if name not in (*FIXED, ROW_INDEX)), None)
    found = [rows[name].to_pylist() for name in FIXED]
    found.append([None] * rows.num_rows if extra is None else rows[extra].to_pylist())
    return {u: (p, x, n, e) for u, p, x, n, e in zip(*found, strict=True)}


def _count(add: AddFile) -> int:
    return int(json.loads(add.stats or "{}")["numRecords"])
