"""Small DELETEs and UPDATEs without Spark: Arrow finds and writes the rows in this process.

Arrow does only what it does exactly as Spark (`engine.expressions.evaluate`). Whatever it cannot do
so, and whatever is large, is Spark's: that is decided before anything is written.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from engine.actions.files import AddCDCFile, AddFile
from engine.errors import (
    CannotEvaluateError,
    DataFileError,
    InvariantViolationError,
    RequestError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from engine.expressions.evaluate import evaluate_arrow, matching_rows
from engine.expressions.traits import columns_of, is_asked_once
from engine.expressions.tree import Call, Expression
from engine.expressions.types import is_complex
from engine.operations.execution import Execution, keeps_row_ids
from engine.schema.column_mapping import PHYSICAL_NAME_KEY
from engine.schema.types import LONG, StructField, StructType
from engine.snapshot.reader import ROW_INDEX, iter_file, read_physical
from engine.snapshot.snapshot import Snapshot
from engine.spark.assignment import Assignments, target_type
from engine.spark.file_writer import FileTarget, write_files
from engine.spark.incoming_rows import IncomingRows
from engine.spark.reader import ROW_COMMIT_VERSION, ROW_ID
from engine.spark.row_positions import FileDeletion, merge_bitmaps, vector_merge
from engine.spark.table_files import TableFiles
from engine.spark.table_rules import GENERATED
from engine.spark.writer import CHANGE_TYPE, Written, change_target, data_target

_BATCH_ROWS = 128 * 1024
_MOST_DECODED_BYTES = 512 * 1024 * 1024
_FOR_SPARK = (
    CannotEvaluateError,
    DataFileError,
    InvariantViolationError,
    RequestError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
"""What Spark is asked about, where there is one: it can do it, or says better why it cannot be done."""


@dataclass(frozen=True, slots=True)
class Images:
    """What an UPDATE writes: the rows that match as they will be, beside what stays of a file.

    Attributes:
        condition: which rows match.
        assignments: what is set of them; none for a DELETE, which writes only what stays.
        files: those whose rows are written.
        leaves: whether the files' other rows are written too, as they are.
    """

    condition: Expression
    assignments: Assignments | None
    files: Sequence[AddFile]
    leaves: bool


def find_in_process(
    execution: Execution,
    snapshot: Snapshot,
    condition: Expression,
    files: Sequence[AddFile],
    *,
    write_vectors: bool,
) -> list[FileDeletion] | None:
    """The rows of files that match, their vectors written; None where Spark is to find them.

    Raises:
        EngineError: there is no Spark to ask, and this cannot be done without.
    """
    if is_asked_once(condition) or not _is_small(execution, files):
        return None
    execution.begin_stage("find rows")
    try:
        bitmaps = _matches(snapshot, condition, files)
    except _FOR_SPARK as error:
        _need_spark(execution, error)
        return None
    merge = vector_merge(execution.files_of(snapshot), files, write_vectors=write_vectors)
    return merge_bitmaps(merge, bitmaps)


def write_in_process(
    execution: Execution, snapshot: Snapshot, images: Images, changed: Sequence[AddFile]
) -> tuple[Written, list[AddCDCFile]] | None:
    """Rows of files under their new values; None where Spark is to write them.

    `changed` are the files whose matching rows go into the change feed, if the table has one.

    Raises:
        EngineError: there is no Spark to ask, and this cannot be done without.
    """
    every_file = {add.key: add for add in (*images.files, *changed)}
    if is_asked_once(images.condition) or not _is_small(execution, list(every_file.values())):
        return None
    execution.begin_stage("write new rows")
    table = execution.files_of(snapshot)
    try:
        writer = _Images(execution, snapshot, table, images)
        rows = writer.rows()
        changes = writer.changes(changed) if snapshot.properties.enable_change_data_feed else []
    except _FOR_SPARK as error:
        _need_spark(execution, error)
        return None
    kept = keeps_row_ids(snapshot)
    written = _write(execution, rows, data_target(table, keep_row_ids=kept), table)
    fed = _write(execution, changes, change_target(table), table)
    execution.wrote_in_words(written.adds)
    cdc = [
        AddCDCFile(path=add.path, partition_values=add.partition_values, size=add.size)
        for add in fed.adds
    ]
    return written, cdc


def _is_small(execution: Execution, files: Sequence[AddFile]) -> bool:
    limit = execution.options.in_process_bytes
    if sum(add.size for add in files) <= limit:
        return limit > 0
    if execution.session is None:
        msg = f"The files to be read are larger than {limit:,} bytes, which needs Spark."
        raise RequestError(msg, "Give a session, or raise in_process_bytes.", field="kind")
    return False


def _need_spark(execution: Execution, error: Exception) -> None:
    """Leave it to Spark, if there is one."""
    if execution.session is not None:
        return
    if not isinstance(error, CannotEvaluateError):
        raise error
    msg = f"This needs Spark, and none was given. {error}"
    raise RequestError(msg, "Run it on a worker of the spark queue.", field="kind") from error


def _matches(
    snapshot: Snapshot, condition: Expression, files: Sequence[AddFile]
) -> dict[int, BitMap64]:
    names = _names(snapshot, condition)
    bitmaps: dict[int, BitMap64] = {}
    for index, add in enumerate(files):
        bitmap = BitMap64()
        for rows in iter_file(snapshot, add, names, with_positions=True, batch_rows=_BATCH_ROWS):
            places = rows.column(ROW_INDEX).filter(matching_rows(condition, rows))
            bitmap.update(places.to_pylist())
        if bitmap:
            bitmap.run_optimize()
            bitmaps[index] = bitmap
    return bitmaps


def _names(snapshot: Snapshot, condition: Expression) -> list[str]:
    """The columns that a condition needs, by the table's spelling."""
    needed = {path[0].lower() for path in columns_of(condition)}
    return [field.name for field in snapshot.schema if field.name.lower() in needed]


class _Images:
    """The rows that a statement writes, all of them evaluated before the first is written."""

    def __init__(
        self, execution: Execution, snapshot: Snapshot, table: TableFiles, images: Images
    ) -> None:
        self._snapshot, self._table, self._images = snapshot, table, images
        self._kept = keeps_row_ids(snapshot)
        assigned = {path[0] for path in images.assignments or ()}
        _check_plain(snapshot, table, images.assignments or {})
        given = [
            field
            for field in snapshot.schema
            if GENERATED not in field.metadata or field.name in assigned
        ]
        self._incoming = None
        if images.assignments is not None:
            self._incoming = IncomingRows.plan(
                snapshot.table_uri,
                snapshot.metadata,
                snapshot.schema,
                StructType(tuple(given)),
                execution.now_ms,
            )
        self._given = [field.name for field in given]
        self._bytes = 0

    def rows(self) -> list[pa.Table]:
        """What goes into data files."""
        return [rows for add in self._images.files for rows in self._rows_of(add) if rows.num_rows]

    def changes(self, files: Sequence[AddFile]) -> list[pa.Table]:
        """What goes into the change feed: rows before, and, of an UPDATE, after."""
        change_rows = []
        for add in files:
            for rows in self._read(add):
                before = rows.filter(matching_rows(self._images.condition, rows))
                before = before.drop_columns([ROW_INDEX])
                if not before.num_rows:
                    continue
                if self._images.assignments is None:
                    change_rows.append(_typed(before, "delete"))
                    continue
                after = self._checked(_set(before, self._assignments(before)))
                change_rows += [
                    _typed(before, "update_preimage"),
                    _typed(after, "update_postimage"),
                ]
        return change_rows

    def _rows_of(self, add: AddFile) -> Iterator[pa.Table]:
        tracking = _RowTracking.of(self._snapshot, self._table, add) if self._kept else None
        for rows in self._read(add):
            mask = matching_rows(self._images.condition, rows)
            left = rows.filter(pc.invert(mask)) if self._images.leaves else rows.slice(0, 0)
            new = rows.slice(0, 0)
            if self._images.assignments is not None:
                matched = rows.filter(mask)
                new = _set(matched, self._assignments(matched))
            both = pa.concat_tables([left, new])
            order = pc.sort_indices(both.column(ROW_INDEX))
            both = both.take(order)
            changed = pc.greater_equal(order, left.num_rows)
            positions = both.column(ROW_INDEX)
            checked = self._checked(both.drop_columns([ROW_INDEX]))
            yield tracking.add_to(checked, positions, changed) if tracking else checked

    def _read(self, add: AddFile) -> Iterator[pa.Table]:
        for rows in iter_file(self._snapshot, add, with_positions=True, batch_rows=_BATCH_ROWS):
            self._bytes += rows.nbytes
            if self._bytes > _MOST_DECODED_BYTES:
                msg = "The rows take too much memory for one process."
                raise CannotEvaluateError(msg)
            yield rows

    def _assignments(self, rows: pa.Table) -> dict[str, pa.ChunkedArray]:
        values = {}
        for path, value in (self._images.assignments or {}).items():
            kind = target_type(self._snapshot.schema, path)
            stored = value if value.type == kind else Call("cast", (value,), kind)
            values[path[0]] = evaluate_arrow(stored, rows)
        return values

    def _checked(self, rows: pa.Table) -> pa.Table:
        """The rows with generated columns computed, once they keep the table's rules."""
        if self._incoming is None or not rows.num_rows:
            return rows
        (batch,) = rows.select(self._given).combine_chunks().to_batches()
        return self._incoming.apply(batch)


@dataclass(frozen=True)
class _RowTracking:
    """The row ids and row commit versions of one file (protocol: Row Tracking)."""

    ids: pa.ChunkedArray | pa.Array
    versions: pa.ChunkedArray | pa.Array
    names: Sequence[str]

    @classmethod
    def of(cls, snapshot: Snapshot, table: TableFiles, add: AddFile) -> "_RowTracking":
        columns = (table.row_id_column, table.row_commit_version_column)
        if add.base_row_id is None or None in columns:
            msg = f"{add.path} has no row ids yet."
            raise CannotEvaluateError(msg)
        fields = tuple(
            StructField(str(name), LONG, metadata={PHYSICAL_NAME_KEY: str(name)})
            for name in columns
        )
        stored = read_physical(snapshot, add, StructType(fields))
        counted = pa.array(np.arange(stored.num_rows) + add.base_row_id)
        version = pa.scalar(add.default_row_commit_version, pa.int64())
        return cls(
            pc.coalesce(stored.column(0), counted),
            pc.coalesce(stored.column(1), version),
            [field.name for field in table.row_fields],
        )

    def add_to(
        self, rows: pa.Table, positions: pa.ChunkedArray, changed: pa.ChunkedArray | pa.Array
    ) -> pa.Table:
        """A changed row keeps its id and gets the commit's version, which its file says."""
        versions = self.versions.take(positions)
        none = pa.scalar(None, pa.int64())
        rows = rows.append_column(ROW_ID, self.ids.take(positions))
        return rows.append_column(ROW_COMMIT_VERSION, pc.if_else(changed, none, versions))


def _check_plain(snapshot: Snapshot, table: TableFiles, assignments: Assignments) -> None:
    """Refuse what only Spark sets or writes: fields inside columns, and structs under mapped names."""
    if any(len(path) > 1 or is_complex(target_type(snapshot.schema, path)) for path in assignments):
        msg = "A value inside a column is set."
        raise CannotEvaluateError(msg)
    renamed = table.is_mapped or table.fits_iceberg
    if renamed and any(is_complex(field.type) for field in snapshot.schema):
        msg = "Columns inside columns have other names in the files."
        raise CannotEvaluateError(msg)


def _set(rows: pa.Table, values: Mapping[str, pa.ChunkedArray]) -> pa.Table:
    for name, value in values.items():
        place = rows.column_names.index(name)
        rows = rows.set_column(
            place, rows.schema.field(place), value.cast(rows.schema.types[place])
        )
    return rows


def _typed(rows: pa.Table, change_type: str) -> pa.Table:
    return rows.append_column(CHANGE_TYPE, pa.repeat(pa.scalar(change_type), rows.num_rows))


def _write(
    execution: Execution, tables: Iterable[pa.Table], target: FileTarget, table: TableFiles
) -> Written:
    """Rows into files; a table's own columns first, then the target's, then those of partitions."""
    rows = [part for part in tables if part.num_rows]
    if not rows:
        return Written()
    partitions = [field.name for field in table.partition_fields]
    data = [field.name for field in table.data_fields]
    extra = [name for name in rows[0].column_names if name not in {*partitions, *data}]
    whole = pa.concat_tables([part.select([*data, *extra, *partitions]) for part in rows])
    if partitions:
        whole = whole.sort_by([(name, "ascending") for name in partitions])
    written = Written()
    for add, count in write_files(whole.to_batches(), target, 0):
        execution.wrote([add])
        written += Written((add,), count)
    return written
