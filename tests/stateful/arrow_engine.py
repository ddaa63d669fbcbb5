"""An executor of commands without Spark: Arrow, real Parquet files, the engine's own transactions."""

import json
import uuid
from dataclasses import dataclass, replace
from io import BytesIO

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from engine.actions.codec import Action
from engine.actions.compaction import CompactionInfo
from engine.actions.files import AddFile, RemoveFile
from engine.deletion_vectors.files import read_deletion_vector, write_deletion_vector
from engine.snapshot.reader import read_file
from engine.snapshot.snapshot import Snapshot
from engine.table import DeltaTable
from engine.transaction.optimistic_transaction import OptimisticTransaction
from tests.stateful import commands as c

ROW_INDEX = "__row_index"


@dataclass
class Running:
    """A command whose transaction has staged all it does."""

    command: c.Command
    txn: OptimisticTransaction
    operation: str
    staged: tuple[Action, ...] = ()


def rows_of(snapshot: Snapshot) -> c.Rows:
    """The table's rows, each of which must be there once."""
    found = snapshot.to_arrow()
    keys = found["u"].to_pylist()
    assert len(keys) == len(set(keys)), f"rows doubled: {sorted(keys)}"
    values = zip(
        found["part"].to_pylist(), found["x"].to_pylist(), found["n"].to_pylist(), strict=True
    )
    return dict(zip(keys, values, strict=True))


def run(  # noqa: C901, PLR0911 - one a kind
    command: c.Command, table: DeltaTable, *, stats: bool
) -> Running:
    """Read and stage a command; its transaction is left to be committed."""
    txn = table.start_transaction()
    snapshot = txn.snapshot
    assert snapshot is not None
    work = _Work(txn, snapshot, stats)
    match command:
        case c.Append():
            work.write(command.new_rows())
            return work.running(command, "WRITE")
        case c.Delete():
            work.change(command.where, None, rewrite=command.rewrite, promise=_promises(command))
            return work.running(command, "DELETE")
        case c.Update():
            to = (command.x, command.number)
            work.change(command.where, to, rewrite=command.rewrite, promise=_promises(command))
            return work.running(command, "UPDATE")
        case c.Merge():
            work.merge(command)
            return work.running(command, "MERGE")
        case c.InsertSelect():
            found = work.select(command.where)
            work.write(command.new_rows(found))
            return work.running(command, "WRITE")
        case c.ReplaceWhere():
            work.change(command.where, None, rewrite=False)
            work.write(c.Append(command.number, command.values).new_rows())
            return work.running(command, "WRITE")
        case c.Optimize():
            work.optimize(command)
            return work.running(command, "OPTIMIZE")
        case c.Restore():
            restored = work.restore(command, table)
            return work.running(replace(command, restored=restored), "RESTORE")
        case _:
            raise AssertionError(command)


class _Work:
    """Stages one command."""

    def __init__(self, txn: OptimisticTransaction, snapshot: Snapshot, stats: bool) -> None:
        self.txn, self.snapshot, self.stats = txn, snapshot, stats
        self.staged: list[Action] = []
        self.row_id_column = (
            snapshot.properties.row_id_column if snapshot.properties.row_tracking else None
        )

    def running(self, command: c.Command, operation: str) -> Running:
        self.txn.stage(*self.staged)
        return Running(command, self.txn, operation, tuple(self.staged))

    def select(self, where: c.Range) -> c.Rows:
        paths = self.txn.read_where(where.sql)["path"].to_pylist()
        found: c.Rows = {}
        for add in self.snapshot.add_files(paths=paths):
            found |= _as_rows(read_file(self.snapshot, add))
        return {key: row for key, row in found.items() if where.holds(row)}

    def change(
        self,
        where: c.Range,
        to: tuple[int, int] | None,
        *,
        rewrite: bool,
        promise: bool = True,
    ) -> None:
        read = self.txn.read_where(where.sql, every_match_changes=promise)
        paths = read["path"].to_pylist()
        images: c.Rows = {}
        for add in self.snapshot.add_files(paths=paths):
            rows = read_file(self.snapshot, add, with_positions=True)
            hit = {k: row for k, row in _as_rows(rows).items() if where.holds(row)}
            if hit:
                self._take(add, rows, set(hit), rewrite=rewrite)
                if to is not None:
                    images |= {key: (row[0], *to) for key, row in hit.items()}
        self.write(images)

    def merge(self, command: c.Merge) -> None:
        self.txn.match_rows_with(
            lambda rows: pa.array([command.reads(x) for x in rows["x"].to_pylist()], pa.bool_())
        )
        paths = self.txn.read_where(None)["path"].to_pylist()
        images: c.Rows = {}
        found: set[int] = set()
        for add in self.snapshot.add_files(paths=paths):
            rows = read_file(self.snapshot, add, with_positions=True)
            changed: dict[str, tuple[str, int, int] | None] = {}
            for key, row in _as_rows(rows).items():
                found.add(row[1])
                if command.change(row) != row:
                    changed[key] = command.change(row)
            if changed:
                self._take(add, rows, set(changed), rewrite=False)
                images |= {key: row for key, row in changed.items() if row is not None}
        self.write(images | command.inserts(found))

    def optimize(self, command: c.Optimize) -> None:
        live = sorted(self.snapshot.add_files(), key=lambda add: add.path)
        picked = [live[i] for i in sorted({p % len(live) for p in command.picks})] if live else []
        parts = sorted({add.partition_values.get("part") or "" for add in picked})
        for part in parts if self.snapshot.partition_columns else [""]:
            chosen = [a for a in picked if (a.partition_values.get("part") or "") == part]
            if len(chosen or picked) >= command.least:
                self._compact(chosen or picked, command)

    def restore(self, command: c.Restore, table: DeltaTable) -> c.Rows:
        version = max(0, self.snapshot.version - command.back)
        wanted = table.snapshot(version=version)
        before = {add.path: add for add in self.snapshot.add_files()}
        after = {add.path: add for add in wanted.add_files()}
        for path, add in before.items():
            if path not in after or after[path].key != add.key:
                self.staged.append(_remove(add, data_change=True))
        for path, add in after.items():
            if path not in before or before[path].key != add.key:
                self.staged.append(msgspec.structs.replace(add, data_change=True))
        return rows_of(wanted)

    def write(self, rows: c.Rows) -> None:
        for part in sorted({row[0] for row in rows.values()}) if self._partitioned else [None]:
            chosen = {k: row for k, row in rows.items() if part in (None, row[0])}
            if chosen:
                self.staged.append(self._file(_as_table(chosen), part, data_change=True))

    def _take(self, add: AddFile, rows: pa.Table, keys: set[str], *, rewrite: bool) -> None:
        """Delete rows of a file: by a deletion vector, or by writing the others anew."""
        self.staged.append(_remove(add, data_change=True))
        kept = {k: row for k, row in _as_rows(rows).items() if k not in keys}
        if not kept:
            return
        if rewrite or not self.snapshot.properties.enable_deletion_vectors:
            part = add.partition_values.get("part") if self._partitioned else None
            self.staged.append(self._file(_as_table(kept), part, data_change=True))
            return
        mask = [key in keys for key in rows["u"].to_pylist()]
        gone = BitMap64(
            [p for p, hit in zip(rows[ROW_INDEX].to_pylist(), mask, strict=True) if hit]
        )
        vector = write_deletion_vector(self.snapshot.store, self._deleted(add) | gone)
        again = msgspec.structs.replace(add, deletion_vector=vector, data_change=True)
        self.staged.append(again)

    def _compact(self, chosen: list[AddFile], command: c.Optimize) -> None:
        part = chosen[0].partition_values.get("part") if self._partitioned and chosen else None
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
            tags = info.tags() if command.tagged and not command.sort else None
            self.staged.append(_remove(add, data_change=False, tags=tags))
            ids.append(self._row_ids(add)[rows[ROW_INDEX].to_numpy()])
            tables.append(rows.select(["u", "part", "x", "n"]))
            offset += rows.num_rows
        if not offset:
            return
        whole, row_ids = pa.concat_tables(tables), np.concatenate(ids)
        if command.sort:
            order = np.argsort(whole["x"].to_numpy(), kind="stable")[::-1]
            whole, row_ids = whole.take(pa.array(order)), row_ids[order]
        kept = row_ids if self.row_id_column else None
        self.staged.append(self._file(whole, part, data_change=False, path=target, row_ids=kept))

    def _row_ids(self, add: AddFile) -> np.ndarray:
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
        row_ids: np.ndarray | None = None,
    ) -> AddFile:
        path = path or f"{uuid.uuid4()}.parquet"
        stored = rows.drop_columns(["part"]) if self._partitioned else rows
        if row_ids is not None and self.row_id_column is not None:
            stored = stored.append_column(self.row_id_column, pa.array(row_ids, pa.int64()))
        sink = BytesIO()
        pq.write_table(stored, sink, compression="none")
        self.snapshot.store.put_if_absent(path, sink.getvalue())
        stats: dict[str, object] = {"numRecords": rows.num_rows}
        if self.stats:
            xs = rows["x"].to_pylist()
            stats |= {
                "minValues": {"x": min(xs)},
                "maxValues": {"x": max(xs)},
                "nullCount": {"x": 0},
            }
        return AddFile(
            path=path,
            partition_values={"part": part} if self._partitioned else {},
            size=len(sink.getvalue()),
            modification_time=1,
            data_change=data_change,
            stats=json.dumps(stats),
        )

    def _deleted(self, add: AddFile) -> BitMap64:
        if add.deletion_vector is None:
            return BitMap64()
        return read_deletion_vector(self.snapshot.store, add.deletion_vector)

    @property
    def _partitioned(self) -> bool:
        return bool(self.snapshot.partition_columns)


def _promises(command: c.Delete | c.Update) -> bool:
    return bool(command.number % 3) if command.promise is None else command.promise


def _remove(
    add: AddFile, *, data_change: bool, tags: dict[str, str | None] | None = None
) -> RemoveFile:
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


def _count(add: AddFile) -> int:
    return int(json.loads(add.stats or "{}")["numRecords"])


def _as_rows(rows: pa.Table) -> c.Rows:
    columns = (rows[name].to_pylist() for name in ("u", "part", "x", "n"))
    return {u: (p, x, n) for u, p, x, n in zip(*columns, strict=True)}


def _as_table(rows: c.Rows) -> pa.Table:
    def column(place: int, kind: pa.DataType) -> pa.Array:
        return pa.array([row[place] for row in rows.values()], kind)

    return pa.table(
        {
            "u": pa.array(list(rows), pa.string()),
            "part": column(0, pa.string()),
            "x": column(1, pa.int32()),
            "n": column(2, pa.int32()),
        }
    )
