"""MERGE: update, delete and insert by matching rows of a source, in one commit."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from time import monotonic

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from engine.actions.files import AddCDCFile, AddFile
from engine.commands.command import column_path
from engine.commands.merge import (
    BY_SOURCE,
    DELETE,
    INSERT_ALL,
    MATCHED,
    NOT_MATCHED,
    UPDATE_ALL,
    AnalysedClause,
    AnalysedMerge,
    Merge,
)
from engine.conflicts.reads import READS_TARGET, row_obstacle, value_obstacle
from engine.expressions.render import to_sql
from engine.expressions.traits import conjunction, spark_expressions, split_conjuncts
from engine.expressions.tree import TRUE
from engine.operations.execution import Execution, keeps_row_ids, uses_deletion_vectors
from engine.operations.merge_ranges import source_ranges
from engine.operations.merge_rows import CLAUSE, SOURCE_ROW, MergeRows, with_computed_source
from engine.operations.query_tables import QueryTables
from engine.operations.result import OperationResult, PlannedFile, plan_of
from engine.operations.row_deletion import RowDeletion, settle
from engine.operations.source_rows import source_rows
from engine.operations.write_rows import Terms, with_new_columns
from engine.schema.types import StructType
from engine.snapshot.snapshot import Snapshot
from engine.spark.assignment import check_assignments
from engine.spark.columns import column, to_column
from engine.spark.identity import check_explicit
from engine.spark.reader import FILE, ROW, ROW_COMMIT_VERSION, ROW_ID, ScanRequest, scan
from engine.spark.row_positions import delete_positions
from engine.spark.table_files import TableFiles
from engine.spark.table_rules import enforce
from engine.spark.winner_rows import join_matcher
from engine.spark.writer import (
    CHANGE_TYPE,
    Written,
    gathered,
    is_scattered,
    write,
    write_changes,
)
from engine.transaction.optimistic_transaction import OptimisticTransaction


@dataclass
class _Merging:
    """One MERGE on its way."""

    execution: Execution
    snapshot: Snapshot
    terms: Terms
    rows: MergeRows
    candidates: list[AddFile]
    source_count: int = 0

    @property
    def table(self) -> TableFiles:
        """The target's files under its new columns."""
        return self.terms.files(self.execution)

    @property
    def by_vector(self) -> bool:
        """Whether rows go by deletion vectors."""
        return uses_deletion_vectors(self.snapshot)

    @property
    def kept(self) -> bool:
        """Whether row ids are carried along."""
        return keeps_row_ids(self.snapshot)

    def indices(self, files: Iterable[AddFile]) -> frozenset[int]:
        """Candidates by number."""
        keys = {add.key for add in files}
        return frozenset(i for i, add in enumerate(self.candidates) if add.key in keys)

    def target(self, only: frozenset[int] | None = None, *, row_ids: bool = False) -> DataFrame:
        """Rows of candidate files with their positions."""
        request = ScanRequest(self.candidates, positions=True, row_ids=row_ids, only=only)
        return scan(self.execution.spark, self.table, request)


@dataclass(frozen=True)
class _Matched:
    """What is done to which target row, the files that change by it, and how often each clause."""

    actions: DataFrame | None = None
    gone: RowDeletion = field(default_factory=RowDeletion)
    by_clause: Mapping[int, int] = field(default_factory=dict)


def merge(command: Merge, execution: Execution) -> OperationResult:
    """Run a MERGE.

    Raises:
        MultipleSourceRowsError: two source rows would change one target row.
        InvariantViolationError: a row that would break a rule of the table.
        ConflictError: a concurrent commit won.
    """
    started = monotonic()
    txn = execution.begin()
    snapshot = execution.snapshot_of(txn)
    if execution.options.dry_run:
        return _plan(snapshot)
    with execution.spark_stage("read the source"):
        merging = _begin(command, execution, txn, snapshot)
    execution.found(f"{merging.source_count:,} rows")
    execution.chose(len(merging.candidates), snapshot)
    materialised = monotonic()
    if merging.rows.merge.inserts_only:
        matched = _Matched()
    else:
        with execution.spark_stage("match rows"):
            matched = _match(merging)
        execution.found(matched.gone.in_words())
    scanned = monotonic()
    with execution.spark_stage("write new rows"):
        written, changes, inserted = _write(merging, matched)
    execution.wrote_in_words(written.adds)
    txn.stage(
        *merging.terms.changes_from(snapshot), *matched.gone.actions(), *written.adds, *changes
    )
    times = {
        "executionTimeMs": round((monotonic() - started) * 1000),
        "materializeSourceTimeMs": round((materialised - started) * 1000),
        "scanTimeMs": round((scanned - materialised) * 1000),
        "rewriteTimeMs": round((monotonic() - scanned) * 1000),
    }
    analysed = merging.rows.merge
    counts = MergeCounts(analysed.clauses, merging.source_count, inserted, matched.by_clause)
    metrics = {**merge_metrics(counts, matched.gone, written), **times}
    metrics["numTargetChangeFilesAdded"] = len(changes)
    result = execution.commit(txn, "MERGE", merge_parameters(analysed), metrics)
    return result if txn.actions else result.saying("No row matches: nothing was changed.")


def _begin(
    command: Merge, execution: Execution, txn: OptimisticTransaction, snapshot: Snapshot
) -> _Merging:
    """Read the source once, register what is read of the target, choose its files."""
    terms = Terms.of(snapshot)
    incoming = source_rows(execution, command.source, terms.schema, txn)
    if txn.has_read:  # rows that the source should have had need not join anything
        txn.use_files_alone(READS_TARGET)
    if command.schema_evolution:
        terms = with_new_columns(terms, _taken(command, incoming.schema))
    tables = QueryTables(execution, txn)
    analysed = command.analysed(
        terms.schema, incoming.schema, now_ms=execution.now_ms, tables=tables.schema
    )
    for clause in analysed.clauses:
        _check_clause(clause, terms.schema)
    analysed, frame = with_computed_source(analysed, incoming.frame)
    numbered = frame.withColumn(SOURCE_ROW, F.monotonically_increasing_id())
    source = numbered.localCheckpoint(eager=True)
    ranges = [] if analysed.reads_whole_target else source_ranges(analysed.on, source)
    stated = [part for part in split_conjuncts(analysed.target_condition()) if part != TRUE]
    condition = conjunction([*stated, *ranges])
    txn.read_where(None if condition == TRUE else condition)
    obstacles = [why for test in analysed.conditions() if (why := row_obstacle(test))]
    obstacles += [why for value in analysed.values() if (why := value_obstacle(value))]
    if obstacles:
        txn.use_files_alone(obstacles[0])
    elif (reached := analysed.reached_without_source()) is not None:
        txn.match_rows_with(join_matcher(execution.spark, source, analysed.on, reached))
    candidates = snapshot.add_files(None if condition == TRUE else condition)
    rows = MergeRows(analysed, snapshot.table_uri, terms.schema, source, execution.now_ms, tables)
    return _Merging(execution, snapshot, terms, rows, candidates, source.count())


def _check_clause(clause: AnalysedClause, schema: StructType) -> None:
    inserts = clause.when == NOT_MATCHED
    check_assignments(schema, clause.assignments, new_rows=inserts)
    if inserts:
        named = {path[0] for path in clause.assignments}
        check_explicit(
            schema, StructType(tuple(declared for declared in schema if declared.name in named))
        )


def _taken(command: Merge, source: StructType) -> StructType:
    """The source's columns that the target is to have: all where `*` is set, else those set by name."""
    if any(clause.action in {UPDATE_ALL, INSERT_ALL} for clause in command.clauses):
        return source
    alias = command.target_alias.lower()
    paths = (column_path(key.lower()) for clause in command.clauses for key in clause.assignments)
    names = {path[-1] for path in paths if path[:-1] in {(), (alias,)}}
    return StructType(tuple(declared for declared in source if declared.name.lower() in names))


def _match(merging: _Merging) -> _Matched:
    """What is done to which target row, and the files that change by it."""
    rows, target = merging.rows, merging.target()
    pairs = rows.pairs(target)
    actions = pairs.filter(column(CLAUSE) >= 0).dropDuplicates([FILE, ROW])
    if rows.merge.reads_whole_target:
        actions = actions.unionByName(rows.unmatched_targets(target, pairs))
    deletions = delete_positions(
        actions.select(FILE, ROW),
        merging.table,
        merging.candidates,
        write_vectors=merging.by_vector,
    )
    merging.execution.wrote_vectors(deletion.vector for deletion in deletions)
    counted = actions.groupBy(CLAUSE).count().collect()
    by_clause = {int(row[CLAUSE]): int(row["count"]) for row in counted}
    merging.rows = replace(rows, pairs_found=pairs)
    return _Matched(actions, settle(deletions, by_vector=merging.by_vector), by_clause)


def _write(merging: _Merging, matched: _Matched) -> tuple[Written, list[AddCDCFile], int]:
    """New images and new rows; how many rows are new."""
    rows, gone, actions = merging.rows, matched.gone, matched.actions
    touched = merging.indices((*gone.removed, *(file.add for file in gone.masked)))
    frames: list[DataFrame] = []
    inserts, marked = rows.inserts(_unmatched_source(merging))
    merging.terms = merging.terms.numbered_to(marked)
    if actions is not None and touched:
        if merging.snapshot.properties.enable_change_data_feed or rows.asks_for_values:
            rows, actions = rows.with_values(merging.target(touched), actions)
            merging.rows = rows
        target = merging.target(touched, row_ids=merging.kept)
        others = bool(gone.rewritten)
        frames.append(rows.images(target, actions, others=others, kept=merging.kept))
    inserted = 0
    if inserts is not None:
        inserts = inserts.localCheckpoint(eager=True)
        inserted = inserts.count()
        frames.append(_without_row_ids(inserts) if merging.kept else inserts)
    written = Written()
    for frame in frames:
        checked = enforce(frame, rows.table, rows.schema, merging.terms.metadata)
        if _is_scattered(merging.table, len(touched)):
            checked = gathered(checked, merging.table)
        part = write(checked, merging.table, keep_row_ids=merging.kept)
        merging.execution.wrote(part.adds)
        written += part
    changes = _changes(merging, actions, inserts, touched)
    return written, changes, inserted


def _unmatched_source(merging: _Merging) -> DataFrame:
    rows = merging.rows
    if rows.pairs_found is None and spark_expressions(rows.merge.on):
        rows = replace(rows, pairs_found=rows.pairs(merging.target()))
    if rows.pairs_found is not None:
        return rows.source.join(rows.pairs_found.select(SOURCE_ROW), SOURCE_ROW, "left_anti")
    target = scan(merging.execution.spark, merging.table, ScanRequest(merging.candidates))
    on = to_column(rows.merge.on)
    return rows.source.alias("source").join(target.alias("target"), on, "left_anti")


def _is_scattered(table: TableFiles, file_count: int) -> bool:
    """In a partitioned table a join leaves rows of each partition to each task."""
    joined = bool(table.partition_columns) and table.properties.optimize_write is not False
    return joined or is_scattered(table, file_count)


def _without_row_ids(frame: DataFrame) -> DataFrame:
    nothing = F.lit(None).cast("long")
    return frame.withColumn(ROW_ID, nothing).withColumn(ROW_COMMIT_VERSION, nothing)


def _changes(
    merging: _Merging, actions: DataFrame | None, inserts: DataFrame | None, touched: frozenset[int]
) -> list[AddCDCFile]:
    """Every change, where a change feed is kept; a version of new files alone needs none."""
    if not merging.snapshot.properties.enable_change_data_feed or actions is None or not touched:
        return []
    frame = merging.rows.changes(merging.target(touched), actions, CHANGE_TYPE)
    if inserts is not None:
        frame = frame.unionByName(inserts.withColumn(CHANGE_TYPE, F.lit("insert")))
    changes = write_changes(frame, merging.table)
    merging.execution.wrote(changes)
    return changes


def _plan(snapshot: Snapshot) -> OperationResult:
    files = [PlannedFile.of(add, "may be read") for add in snapshot.add_files()]
    return OperationResult(plan=plan_of(f"Up to {len(files)} files would be read.", files))


@dataclass(frozen=True, slots=True)
class MergeCounts:
    """Rows of a MERGE: of its source, new ones, and those that each clause was done to."""

    clauses: tuple[AnalysedClause, ...]
    source_rows: int
    inserted_rows: int
    by_clause: Mapping[int, int]


def merge_metrics(counts: MergeCounts, gone: RowDeletion, written: Written) -> dict[str, int | str]:
    """`operationMetrics` under delta-spark's names."""
    clauses, inserted = counts.clauses, counts.inserted_rows

    def total(when: str, *, deletes: bool) -> int:
        return sum(
            count
            for number, count in counts.by_clause.items()
            if clauses[number].when == when and (clauses[number].action == DELETE) == deletes
        )

    updated, dropped = total(MATCHED, deletes=False), total(MATCHED, deletes=True)
    updated_by, dropped_by = total(BY_SOURCE, deletes=False), total(BY_SOURCE, deletes=True)
    vectors = {f"numTarget{k.removeprefix('num')}": v for k, v in gone.vector_metrics().items()}
    return {
        "numSourceRows": counts.source_rows,
        "numTargetRowsInserted": inserted,
        "numTargetRowsUpdated": updated + updated_by,
        "numTargetRowsMatchedUpdated": updated,
        "numTargetRowsNotMatchedBySourceUpdated": updated_by,
        "numTargetRowsDeleted": dropped + dropped_by,
        "numTargetRowsMatchedDeleted": dropped,
        "numTargetRowsNotMatchedBySourceDeleted": dropped_by,
        "numTargetRowsCopied": max(0, written.rows - inserted - updated - updated_by),
        "numOutputRows": written.rows,
        "numTargetFilesAdded": len(written.adds),
        "numTargetFilesRemoved": len(gone.removed),
        "numTargetBytesAdded": written.size_bytes,
        "numTargetBytesRemoved": sum(add.size for add in gone.removed),
        **vectors,
    }


def merge_parameters(merge: AnalysedMerge) -> dict[str, object]:
    """`operationParameters` under delta-spark's names."""

    def predicates(when: str) -> list[dict[str, str]]:
        shown = []
        for clause in merge.clauses:
            if clause.when == when:
                action = {"actionType": clause.action.removesuffix("_all")}
                condition = {"predicate": to_sql(clause.condition)} if clause.condition else {}
                shown.append({**condition, **action})
        return shown

    return {
        "predicate": [to_sql(merge.on)],
        "matchedPredicates": predicates(MATCHED),
        "notMatchedPredicates": predicates("not_matched"),
        "notMatchedBySourcePredicates": predicates(BY_SOURCE),
    }
