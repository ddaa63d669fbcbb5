"""Small DELETEs and UPDATEs without Spark: Arrow finds and writes the rows in this process.

Arrow does only what it does exactly as Spark (`engine.expressions.evaluate`). Whatever it cannot do
so, and whatever is large, is Spark's: that is decided before anything is written.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from engine.actions.files import AddCDCFile, AddFile
from engine.expressions.evaluate import find_matches
from engine.expressions.traits import columns_of, is_asked_once
from engine.expressions.tree import Expression
from engine.operations.arrow_rows import (
    BATCH_ROWS,
    FOR_SPARK,
    FileRows,
    RowTracking,
    RuledRows,
    check_names,
    check_plain,
    compute_assignments,
    is_small,
    mark_changes,
    need_spark,
    not_generated,
    replace_columns,
    write_rows_and_changes,
)
from engine.operations.execution import Execution, keeps_row_ids
from engine.snapshot.reader import ROW_INDEX, iter_file
from engine.snapshot.snapshot import Snapshot
from engine.spark.assignment import Assignments
from engine.spark.row_positions import FileDeletion, merge_bitmaps, vector_merge
from engine.spark.table_files import TableFiles
from engine.spark.writer import WriteOutput


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
    if is_asked_once(condition) or not is_small(execution, files):
        return None
    execution.begin_stage("find rows")
    try:
        bitmaps = find_matching_positions(snapshot, condition, files)
    except FOR_SPARK as error:
        need_spark(execution, error)
        return None
    merge = vector_merge(execution.files_of(snapshot), files, write_vectors=write_vectors)
    return merge_bitmaps(merge, bitmaps)


def write_in_process(
    execution: Execution, snapshot: Snapshot, images: Images, changed: Sequence[AddFile]
) -> tuple[WriteOutput, list[AddCDCFile]] | None:
    """Rows of files under their new values; None where Spark is to write them.

    `changed` are the files whose matching rows go into the change feed, if the table has one.

    Raises:
        EngineError: there is no Spark to ask, and this cannot be done without.
    """
    every_file = {add.key: add for add in (*images.files, *changed)}
    if is_asked_once(images.condition) or not is_small(execution, list(every_file.values())):
        return None
    execution.begin_stage("write new rows")
    table = execution.files_of(snapshot)
    try:
        writer = _Images(execution, snapshot, table, images)
        rows = writer.rows()
        changes = writer.changes(changed) if snapshot.properties.enable_change_data_feed else []
    except FOR_SPARK as error:
        need_spark(execution, error)
        return None
    kept = keeps_row_ids(snapshot)
    # a rewritten file stays one: its bounds are narrow
    groups = rows if images.leaves else [[part for parts in rows for part in parts]]
    written, fed = write_rows_and_changes(execution, table, groups, changes, keep_row_ids=kept)
    return replace(written, images=writer.images), fed


def find_matching_positions(
    snapshot: Snapshot, condition: Expression, files: Sequence[AddFile]
) -> dict[int, BitMap64]:
    """The physical rows that match, by the numbers of the files that have any.

    Raises:
        EngineError: one of `FOR_SPARK`: Arrow cannot tell as Spark would.
    """
    check_names(snapshot.schema)
    names = _names(snapshot, condition)
    bitmaps: dict[int, BitMap64] = {}
    for index, add in enumerate(files):
        bitmap = BitMap64()
        for rows in iter_file(snapshot, add, names, with_positions=True, batch_rows=BATCH_ROWS):
            places = rows.column(ROW_INDEX).filter(find_matches(condition, rows))
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
    """The rows that a statement writes, all of them evaluated before the first is written.

    `images` counts the new images among them.
    """

    def __init__(
        self, execution: Execution, snapshot: Snapshot, table: TableFiles, images: Images
    ) -> None:
        self._snapshot, self._table, self._images = snapshot, table, images
        self._kept = keeps_row_ids(snapshot)
        self._files = FileRows(snapshot)
        self.images = 0
        self._rules = None
        check_plain(snapshot.schema, table, images.assignments or {})
        if images.assignments is not None:
            given = not_generated(snapshot.schema, (path[0] for path in images.assignments))
            self._rules = RuledRows.plan(
                snapshot.table_uri, snapshot.metadata, snapshot.schema, given, execution.now_ms
            )

    def rows(self) -> list[list[pa.Table]]:
        """What goes into data files, by the file that it comes from."""
        return [list(self._rows_of(add)) for add in self._images.files]

    def changes(self, files: Sequence[AddFile]) -> list[pa.Table]:
        """What goes into the change feed: rows before, and, of an UPDATE, after."""
        changes = []
        for add in files:
            for rows in self._files.read(add):
                before = rows.filter(find_matches(self._images.condition, rows))
                before = before.drop_columns([ROW_INDEX])
                if not before.num_rows:
                    continue
                if self._images.assignments is None:
                    changes.append(mark_changes(before, "delete"))
                    continue
                after = self._check_rows(replace_columns(before, self._assignments(before)))
                changes += [
                    mark_changes(before, "update_preimage"),
                    mark_changes(after, "update_postimage"),
                ]
        return changes

    def _rows_of(self, add: AddFile) -> Iterator[pa.Table]:
        tracking = RowTracking.read(self._snapshot, self._table, add) if self._kept else None
        for rows in self._files.read(add):
            mask = find_matches(self._images.condition, rows)
            left = rows.filter(pc.invert(mask)) if self._images.leaves else rows.slice(0, 0)
            new = rows.slice(0, 0)
            if self._images.assignments is not None:
                matched = rows.filter(mask)
                new = replace_columns(matched, self._assignments(matched))
                self.images += new.num_rows
            both = pa.concat_tables([left, new])
            order = pc.sort_indices(both.column(ROW_INDEX))
            both = both.take(order)
            changed = pc.greater_equal(order, left.num_rows)
            positions = both.column(ROW_INDEX)
            checked = self._check_rows(both.drop_columns([ROW_INDEX]))
            yield tracking.add_to(checked, positions, changed) if tracking else checked

    def _assignments(self, rows: pa.Table) -> dict[str, pa.ChunkedArray]:
        return compute_assignments(self._snapshot.schema, self._images.assignments or {}, rows)

    def _check_rows(self, rows: pa.Table) -> pa.Table:
        return self._rules.check(rows) if self._rules is not None and rows.num_rows else rows
