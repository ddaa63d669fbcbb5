"""MERGE of few rows into few files without Spark: Arrow joins, decides and writes in this process.

It is the counterpart of `merge_rows`; `arrow_rows` decides when Spark must take over. A dry run
counts the rows of each action and writes nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from engine.actions.files import AddCDCFile, AddFile
from engine.commands.merge import (
    BY_SOURCE,
    DELETE,
    MATCHED,
    NOT_MATCHED,
    AnalyzedClause,
    AnalyzedMerge,
)
from engine.expressions.evaluate import find_matches
from engine.expressions.tree import Expression
from engine.operations.arrow_rows import (
    FOR_SPARK,
    IN_PROCESS,
    FileRows,
    RowTracking,
    RuledRows,
    check_plain,
    compute_assignments,
    is_small,
    mark_changes,
    need_spark,
    not_generated,
    replace_columns,
    write_rows_and_changes,
)
from engine.operations.execution import Execution, keeps_row_ids, uses_deletion_vectors
from engine.operations.merge.merge_join import (
    Numbers,
    join_columns,
    pair_rows,
    pairs,
    qualify_source,
)
from engine.operations.result import OperationResult, PlannedFile, plan_of
from engine.operations.rows.dry_run_counts import NOT_COUNTED
from engine.operations.rows.row_deletion import RowDeletion, settle
from engine.snapshot.conform import target_type
from engine.snapshot.reader import ROW_INDEX
from engine.snapshot.snapshot import Snapshot
from engine.spark.row_positions import merge_bitmaps, vector_merge
from engine.spark.scan.reader import ROW_COMMIT_VERSION, ROW_ID
from engine.spark.write.writer import WriteOutput
from engine.words import count_noun

MOST_SOURCE_ROWS = 100_000
_FILE = "\0file"
_NOTHING = -1

_ACTIONS = ("updated", "deleted", "inserted")


@dataclass(frozen=True, slots=True)
class ArrowMerge:
    """A MERGE whose source is available as Arrow.

    Attributes:
        merge: conditions and clauses.
        source: the source's rows under its column names.
        candidates: the target's files with rows the MERGE may read.
    """

    merge: AnalyzedMerge
    source: pa.Table
    candidates: Sequence[AddFile]


@dataclass(frozen=True)
class MergeChanges:
    """The result of a MERGE: files with deleted rows, written files, and rows per clause.

    `unmatched` is the number of unmatched source rows; None if not counted.
    `scanned` is when the rows were found, on the monotonic clock.
    """

    gone: RowDeletion = field(default_factory=RowDeletion)
    written: WriteOutput = field(default_factory=WriteOutput)
    changes: tuple[AddCDCFile, ...] = ()
    inserted: int = 0
    by_clause: Mapping[int, int] = field(default_factory=dict)
    unmatched: int | None = None
    scanned: float = 0.0


def merge_in_process(
    execution: Execution, snapshot: Snapshot, work: ArrowMerge
) -> MergeChanges | None:
    """Run a MERGE up to its commit; return None if Spark must run it.

    Raises:
        MultipleSourceRowsError: two source rows would change one target row.
        EngineError: the statement needs Spark, and there is no session.
    """
    if not is_small(execution, work.candidates):
        return None
    execution.begin_stage("match rows")
    try:
        rows = MergeRowsByArrow(execution, snapshot, work)
        data, changes = rows.data(), rows.changes()
    except FOR_SPARK as error:
        need_spark(execution, error)
        return None
    by_vector = uses_deletion_vectors(snapshot)
    table = execution.files_of(snapshot)
    merge = vector_merge(table, work.candidates, write_vectors=by_vector)
    deletions = merge_bitmaps(merge, rows.bitmaps())
    execution.wrote_vectors(deletion.vector for deletion in deletions)
    gone = settle(deletions, by_vector=by_vector)
    execution.report_finding(f"{gone.describe()}, {IN_PROCESS}")
    scanned = monotonic()
    execution.begin_stage("write new rows")
    kept = keeps_row_ids(snapshot)
    written, fed = write_rows_and_changes(execution, table, [data], changes, keep_row_ids=kept)
    unmatched = rows.unmatched
    return MergeChanges(
        gone, written, tuple(fed), rows.inserted, rows.by_clause, unmatched, scanned
    )


class MergeRowsByArrow:
    """All rows of a MERGE, evaluated before the first one is written.

    Raises:
        MultipleSourceRowsError: two source rows would change one target row.
        EngineError: one of `FOR_SPARK`: Arrow cannot do it as Spark would.
    """

    def __init__(self, execution: Execution, snapshot: Snapshot, work: ArrowMerge) -> None:
        self._execution, self._snapshot, self._work = execution, snapshot, work
        self._schema, self._table = snapshot.schema, execution.files_of(snapshot)
        self._kept = keeps_row_ids(snapshot)
        self._by_vector = uses_deletion_vectors(snapshot)
        for clause in work.merge.clauses:
            check_plain(self._schema, self._table, clause.assignments)
        self._target = self._read()
        self._rows, self._sources, self._clauses, unmatched = self._decide()
        self.unmatched = len(unmatched)
        self._inserts = list(self._new_rows(unmatched))
        self._updated = list(self._images())

    @property
    def inserted(self) -> int:
        """The number of new rows."""
        return sum(rows.num_rows for rows in self._inserts)

    @property
    def by_clause(self) -> dict[int, int]:
        """The number of target rows that each clause changes."""
        numbers, counts = np.unique(self._clauses, return_counts=True)
        return dict(zip(numbers.tolist(), counts.tolist(), strict=True))

    def bitmaps(self) -> dict[int, BitMap64]:
        """Return the positions of updated or deleted rows, keyed by candidate index."""
        files, positions = (
            self._target.column(name).to_numpy()[self._rows] for name in (_FILE, ROW_INDEX)
        )
        return {
            int(number): BitMap64(positions[files == number].tolist())
            for number in np.unique(files)
        }

    def data(self) -> list[pa.Table]:
        """Return the rows for data files: new images, unchanged rows, inserted rows."""
        tables = list(self._updated)
        if not self._by_vector:
            tables.append(self._others())
        tables += [_add_null_row_ids(rows) if self._kept else rows for rows in self._inserts]
        return tables

    def changes(self) -> list[pa.Table]:
        """Return the rows for the change feed; [] if it is off or no existing row changes."""
        if not self._snapshot.properties.enable_change_data_feed or not len(self._rows):
            return []
        tables = [mark_changes(rows, "insert") for rows in self._inserts]
        for number, clause in enumerate(self._work.merge.clauses):
            before = self._own(self._target.take(self._rows[self._clauses == number]))
            kind = "delete" if clause.action == DELETE else "update_preimage"
            tables.append(mark_changes(before, kind))
        tables += [mark_changes(self._own(rows), "update_postimage") for rows in self._updated]
        return [rows for rows in tables if rows.num_rows]

    def _read(self) -> pa.Table:
        files, pieces = FileRows(self._snapshot), []
        for number, add in enumerate(self._work.candidates):
            tracking = RowTracking.read(self._snapshot, self._table, add) if self._kept else None
            for rows in files.read(add):
                numbers = pa.repeat(pa.scalar(number, pa.int32()), rows.num_rows)
                piece = rows.append_column(_FILE, numbers)
                if tracking is not None:
                    none = pa.repeat(pa.scalar(False), rows.num_rows)
                    piece = tracking.add_to(piece, rows.column(ROW_INDEX), none)
                pieces.append(piece)
        return pa.concat_tables(pieces) if pieces else self._no_target()

    def _no_target(self) -> pa.Table:
        fields = [pa.field(column.name, target_type(column.type)) for column in self._schema]
        fields += [pa.field(ROW_INDEX, pa.int64()), pa.field(_FILE, pa.int32())]
        if self._kept:
            fields += [pa.field(ROW_ID, pa.int64()), pa.field(ROW_COMMIT_VERSION, pa.int64())]
        return pa.schema(fields).empty_table()

    def _decide(self) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """Pair target and source rows and choose a clause for each pair.

        Returns the changed target rows, their source rows (-1: none), their clauses, and the
        unmatched source rows.
        """
        merge, source = self._work.merge, self._work.source
        mine, theirs = pairs(merge.on, self._target, source)
        unmatched = np.setdiff1d(np.arange(source.num_rows), theirs)
        if merge.inserts_only:
            nothing = np.zeros(0, dtype=np.int64)
            return nothing, nothing, nothing, unmatched
        chosen = self._choose_clauses(MATCHED, pair_rows(self._target, mine, source, theirs))
        acting = chosen != _NOTHING
        rows, sources, clauses = mine[acting], theirs[acting], chosen[acting]
        _, first = np.unique(rows, return_index=True)
        if len(first) < len(rows):
            merge.check_single(self._execution.table.uri)
        rows, sources, clauses = rows[first], sources[first], clauses[first]
        if merge.reads_whole_target:
            left = np.setdiff1d(np.arange(self._target.num_rows), mine)
            chosen = self._choose_clauses(BY_SOURCE, self._target.take(left))
            reached = chosen != _NOTHING
            rows = np.concatenate([rows, left[reached]])
            sources = np.concatenate([sources, np.full(reached.sum(), _NOTHING)])
            clauses = np.concatenate([clauses, chosen[reached]])
        return rows, sources, clauses, unmatched

    def _choose_clauses(self, when: str, rows: pa.Table) -> Numbers:
        """Return for each row the first clause of a kind with a true condition, else `_NOTHING`."""
        chosen = np.full(rows.num_rows, _NOTHING, dtype=np.int64)
        left = np.arange(rows.num_rows)
        for number, clause in self._clauses_of(when):
            if clause.condition is None:
                chosen[left] = number
                break
            mask = find_matches(qualify_source(clause.condition), rows.take(left)).to_numpy()
            chosen[left[mask]] = number
            left = left[~mask]
        return chosen

    def _clauses_of(self, when: str) -> list[tuple[int, AnalyzedClause]]:
        clauses = enumerate(self._work.merge.clauses)
        return [(number, clause) for number, clause in clauses if clause.when == when]

    def _images(self) -> Iterator[pa.Table]:
        """Yield the updated rows of each clause."""
        for number, clause in enumerate(self._work.merge.clauses):
            mask = self._clauses == number
            if clause.when == NOT_MATCHED or clause.action == DELETE or not mask.any():
                continue
            old = self._target.take(self._rows[mask])
            rows = old
            if clause.when == MATCHED:
                rows = pair_rows(
                    self._target, self._rows[mask], self._work.source, self._sources[mask]
                )
            values = compute_assignments(self._schema, _qualify_assignments(clause), rows)
            assigned = [path[0] for path in clause.assignments]
            rules = self._rules(not_generated(self._schema, assigned))
            new = rules.check(replace_columns(self._own(old), values))
            if self._kept:
                new = new.append_column(ROW_ID, old.column(ROW_ID))
                new = new.append_column(ROW_COMMIT_VERSION, pa.nulls(new.num_rows, pa.int64()))
            yield new

    def _others(self) -> pa.Table:
        """Return the unchanged rows of rewritten files."""
        files = self._target.column(_FILE).to_numpy()
        touched = np.isin(files, np.unique(files[self._rows]))
        touched[self._rows] = False
        rows = self._target.filter(pa.array(touched))
        names = [*self._schema.names, *((ROW_ID, ROW_COMMIT_VERSION) if self._kept else ())]
        return rows.select(names)

    def _new_rows(self, unmatched: Numbers) -> Iterator[pa.Table]:
        source = join_columns(None, self._work.source.take(unmatched))
        chosen = self._choose_clauses(NOT_MATCHED, source)
        for number, clause in self._clauses_of(NOT_MATCHED):
            rows = source.filter(pa.array(chosen == number))
            if not rows.num_rows:
                continue
            values = compute_assignments(self._schema, _qualify_assignments(clause), rows)
            given = pa.table(
                {
                    column.name: values[column.name].cast(target_type(column.type))
                    for column in self._schema
                    if column.name in values
                }
            )
            yield self._rules(given.column_names).check(given)

    def _rules(self, given: Sequence[str]) -> RuledRows:
        return RuledRows.plan(self._execution, self._snapshot.metadata, self._schema, given)

    def _own(self, rows: pa.Table) -> pa.Table:
        return rows.select(self._schema.names)


def _add_null_row_ids(rows: pa.Table) -> pa.Table:
    none = pa.nulls(rows.num_rows, pa.int64())
    return rows.append_column(ROW_ID, none).append_column(ROW_COMMIT_VERSION, none)


def _qualify_assignments(clause: AnalyzedClause) -> dict[tuple[str, ...], Expression]:
    return {path: qualify_source(value) for path, value in clause.assignments.items()}


def plan_of_merge(
    execution: Execution, snapshot: Snapshot, work: ArrowMerge | None
) -> OperationResult:
    """Plan a MERGE; `work` is None if only Spark can read the source.

    Raises:
        MultipleSourceRowsError: two source rows would change one target row.
    """
    merged = _count_merge(execution, snapshot, work) if work else None
    if work is None or merged is None:
        candidates = snapshot.add_files() if work is None else work.candidates
        files = [PlannedFile.from_add(add, "may be read") for add in candidates]
        summary = f"Up to {count_noun(len(files), 'file')} would be read; {NOT_COUNTED}."
        return OperationResult(plan=plan_of(summary, files))
    changed = {index: len(rows) for index, rows in merged.bitmaps().items()}
    files = [
        replace(PlannedFile.from_add(add, "holds matching rows"), rows=changed[index])
        for index, add in enumerate(work.candidates)
        if index in changed
    ]
    said = {"updated": 0, "deleted": 0} | _sum_by_action(work, merged.by_clause)
    facts = {f"rows_{name}": count for name, count in {**said, "inserted": merged.inserted}.items()}
    words = ", ".join(f"{count_noun(facts[f'rows_{name}'], 'row')} {name}" for name in _ACTIONS)
    summary = (
        f"{words}, from {count_noun(work.source.num_rows, 'source row')};"
        f" {len(files):,} of {count_noun(snapshot.file_count, 'file')} would change."
    )
    return OperationResult(plan=replace(plan_of(summary, files, **facts), is_counted=True))


def _count_merge(
    execution: Execution, snapshot: Snapshot, work: ArrowMerge
) -> MergeRowsByArrow | None:
    if sum(add.size for add in work.candidates) > execution.options.count_bytes:
        return None
    execution.begin_stage("match rows")
    try:
        return MergeRowsByArrow(execution, snapshot, work)
    except FOR_SPARK:
        return None


def _sum_by_action(work: ArrowMerge, by_clause: Mapping[int, int]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for number, count in by_clause.items():
        name = "deleted" if work.merge.clauses[number].action == DELETE else "updated"
        counts[name] = counts.get(name, 0) + count
    return counts
