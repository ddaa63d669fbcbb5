"""Small DELETEs and UPDATEs without Spark: Arrow finds and writes the rows in this process.

Arrow evaluates only expressions with exactly Spark's result (`engine.expressions.evaluate`). Spark
runs all others and every large statement; the choice is made before anything is written.
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
from engine.spark.row_positions import FileDeletion, merge_bitmaps, vector_merge
from engine.spark.table_files import TableFiles
from engine.spark.write.assignment import Assignments
from engine.spark.write.writer import WriteOutput


@dataclass(frozen=True, slots=True)
class Images:
    """The rows to write for an UPDATE or DELETE: new images, and the unchanged rows of a file.

    Attributes:
        condition: selects the matching rows.
        assignments: the new values; None for a DELETE, which writes unchanged rows only.
        files: the files whose rows are written.
        leaves: whether the files' unchanged rows are written too.
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
    """Find the matching rows of files and write their vectors; return None if Spark must do it.

    Raises:
        EngineError: the statement needs Spark, and there is no session.
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
    """Write the changed rows of files; return None if Spark must write them.

    `changed` are the files whose matching rows go into the change feed, if the table has one.

    Raises:
        EngineError: the statement needs Spark, and there is no session.
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
    # keep one file per rewritten file: its bounds are narrow
    groups = rows if images.leaves else [[part for parts in rows for part in parts]]
    written, fed = write_rows_and_changes(execution, table, groups, changes, keep_row_ids=kept)
    return replace(written, images=writer.images), fed


def find_matching_positions(
    snapshot: Snapshot, condition: Expression, files: Sequence[AddFile]
) -> dict[int, BitMap64]:
    """Return the physical positions of matching rows, keyed by the index of their file.

    Raises:
        EngineError: one of `FOR_SPARK`: Arrow cannot evaluate the condition as Spark does.
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
    """Return the columns used by a condition, as the table spells them."""
    needed = {path[0].lower() for path in columns_of(condition)}
    return [field.name for field in snapshot.schema if field.name.lower() in needed]


class _Images:
    """All rows of a statement, evaluated before the first one is written.

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
            self._rules = RuledRows.plan(execution, snapshot.metadata, snapshot.schema, given)

    def rows(self) -> list[list[pa.Table]]:
        """Return the rows for data files, grouped by source file."""
        return [list(self._rows_of(add)) for add in self._images.files]

    def changes(self, files: Sequence[AddFile]) -> list[pa.Table]:
        """Return the rows for the change feed: old images, and for an UPDATE the new images."""
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
