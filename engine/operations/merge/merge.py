"""MERGE: update, delete and insert by matching rows of a source, in one commit.

The statement is checked against the columns of both sides before any row is read. The commit's
metrics and parameters have delta-spark's names.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from engine.actions.files import AddCDCFile, AddFile
from engine.commands.merge import (
    BY_SOURCE,
    DELETE,
    MATCHED,
    NOT_MATCHED,
    AnalyzedClause,
    AnalyzedMerge,
    Merge,
)
from engine.conflicts.reads import READS_TARGET, row_obstacle, value_obstacle
from engine.errors import CannotEvaluateError, RequestError
from engine.expressions.render import to_sql
from engine.expressions.traits import conjunction, split_conjuncts
from engine.expressions.tree import TRUE, Expression
from engine.expressions.types import is_cast_by_zone, sql_name
from engine.operations.arrow_rows import need_spark
from engine.operations.execution import READ_SOURCE, Execution, keeps_row_ids, uses_deletion_vectors
from engine.operations.frame_sources import pin_tables, register_reads
from engine.operations.merge.arrow_merge import (
    MOST_SOURCE_ROWS,
    ArrowMerge,
    MergeChanges,
    merge_in_process,
    plan_of_merge,
)
from engine.operations.merge.merge_join import (
    Bounds,
    Matcher,
    bounds_by_spark,
    check_columns,
    source_bounds,
    source_ranges,
)
from engine.operations.merge.merge_rows import (
    CLAUSE,
    SOURCE_ROW,
    MergeRows,
    PairColumns,
    choose_pair_columns,
    clause_setting,
    compute_source_columns,
)
from engine.operations.query_tables import QueryTables
from engine.operations.result import OperationResult
from engine.operations.rows.dry_run_counts import raise_in_process_limit, table_at_hand
from engine.operations.rows.row_deletion import RowDeletion, settle
from engine.operations.rows.row_sums import (
    RowSumError,
    check_clauses,
    check_inserted,
    check_rewritten,
)
from engine.operations.source_rows import rows_at_hand, source_rows
from engine.operations.write_rows import WriteTerms, add_columns
from engine.schema.types import StructType
from engine.snapshot.snapshot import Snapshot
from engine.spark.collection import (
    MOST_BYTES,
    FrameSize,
    collect_rows,
    materialize_rows,
    size_of_all,
)
from engine.spark.columns import column
from engine.spark.row_positions import (
    MOST_COLUMNS_ALONG,
    delete_positions,
    is_one_task,
    join_matcher,
)
from engine.spark.scan.reader import FILE, ROW, ROW_COMMIT_VERSION, ROW_ID, ScanRequest, scan
from engine.spark.session import is_in_utc
from engine.spark.table_files import TableFiles
from engine.spark.write.assignment import check_assignments, target_type
from engine.spark.write.identity import check_explicit
from engine.spark.write.table_rules import enforce
from engine.spark.write.writer import (
    CHANGE_TYPE,
    WriteOutput,
    rebalance_partitions,
    write,
    write_changes,
)
from engine.transaction.optimistic_transaction import OptimisticTransaction
from engine.transaction.snapshot_rows import RowMatcher

_MatcherOf: TypeAlias = Callable[[Sequence[Expression]], RowMatcher]


@dataclass(frozen=True, slots=True)
class MergeCounts:
    """Row counts of a MERGE: source rows, inserted rows, and rows per clause."""

    clauses: tuple[AnalyzedClause, ...]
    source_rows: int
    inserted_rows: int
    by_clause: Mapping[int, int]


@dataclass
class _MergeRun:
    """One MERGE on its way."""

    execution: Execution
    snapshot: Snapshot
    terms: WriteTerms
    rows: MergeRows
    candidates: list[AddFile]

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
        """Return the numbers of the given candidates."""
        keys = {add.key for add in files}
        return frozenset(i for i, add in enumerate(self.candidates) if add.key in keys)

    def target(self, only: frozenset[int] | None = None, *, row_ids: bool = False) -> DataFrame:
        """Read the rows of candidate files with their positions."""
        request = ScanRequest(self.candidates, positions=True, row_ids=row_ids, only=only)
        return scan(self.execution.spark, self.table, request)


@dataclass(frozen=True)
class _MatchedActions:
    """The actions for target rows, the files they change, and rows per clause."""

    actions: DataFrame | None = None
    gone: RowDeletion = field(default_factory=RowDeletion)
    by_clause: Mapping[int, int] = field(default_factory=dict)


def merge(command: Merge, execution: Execution) -> OperationResult:
    """Run a MERGE.

    Raises:
        MultipleSourceRowsError: two source rows would change one target row.
        InvariantViolationError: a row would break a rule of the table.
    """
    started = monotonic()
    txn = execution.begin(operation="MERGE")
    snapshot = execution.snapshot_of(txn)
    if execution.options.dry_run:
        counting_run = raise_in_process_limit(execution)
        return plan_of_merge(
            counting_run, snapshot, _plan_in_process(command, counting_run, txn, snapshot)
        )
    reading = _read(command, execution, txn, snapshot)
    execution.report_finding(f"{reading.source_count:,} rows", READ_SOURCE)
    materialized = monotonic()
    merged, terms = _merge_in_process(reading) or _merge_in_spark(reading)
    txn.stage(*terms.changes_from(snapshot), *merged.written.adds, *merged.changes)
    times = {
        "executionTimeMs": round((monotonic() - started) * 1000),
        "materializeSourceTimeMs": round((materialized - started) * 1000),
        "scanTimeMs": round((merged.scanned - materialized) * 1000),
        "rewriteTimeMs": round((monotonic() - merged.scanned) * 1000),
    }
    clauses = reading.merge.clauses
    _check_sums(snapshot, reading.source_count, clauses, merged)
    counts = MergeCounts(clauses, reading.source_count, merged.inserted, merged.by_clause)
    metrics = {**merge_metrics(counts, merged.gone, merged.written), **times}
    metrics["numTargetChangeFilesAdded"] = len(merged.changes)
    result = execution.commit(txn, "MERGE", merge_parameters(reading.merge), metrics)
    return result if txn.actions else result.replace_message("No row matches: nothing was changed.")


def _check_sums(
    snapshot: Snapshot, source_count: int, clauses: Sequence[AnalyzedClause], merged: MergeChanges
) -> None:
    """Check the counts of rows found on both sides against the rows written.

    Raises:
        RowSumError: a row was lost or written twice.
    """
    images = sum(
        count for number, count in merged.by_clause.items() if clauses[number].action != DELETE
    )
    check_clauses(snapshot, clauses, merged.by_clause, merged.gone)
    check_rewritten(snapshot, merged.gone, merged.written.rows, images + merged.inserted)
    if merged.unmatched is not None:
        check_inserted(snapshot, clauses, merged.inserted, merged.unmatched)
    elif merged.inserted > source_count:
        raise RowSumError(snapshot.table_uri, "rows inserted", merged.inserted, source_count)


@dataclass
class _SourceReading:
    """The source, read once: few rows of it as Arrow, and in Spark unless they need none."""

    command: Merge
    execution: Execution
    txn: OptimisticTransaction
    snapshot: Snapshot
    tables: QueryTables
    terms: WriteTerms
    merge: AnalyzedMerge
    source_count: int
    arrow: pa.Table | None = None
    frame: DataFrame | None = None
    size: FrameSize | None = None

    def candidates(
        self, bounds_of: Callable[[Sequence[Expression]], Bounds], matcher: _MatcherOf
    ) -> list[AddFile]:
        """Register the reads of the target and choose its files."""
        analyzed, txn = self.merge, self.txn
        ranges = [] if analyzed.reads_whole_target else source_ranges(analyzed.on, bounds_of)
        stated = [part for part in split_conjuncts(analyzed.target_condition()) if part != TRUE]
        condition = conjunction([*stated, *ranges])
        txn.read_where(None if condition == TRUE else condition)
        obstacles = [why for test in analyzed.conditions() if (why := row_obstacle(test))]
        obstacles += [why for value in analyzed.values() if (why := value_obstacle(value))]
        if obstacles:
            txn.use_files_alone(obstacles[0])
        elif (reached := analyzed.collect_by_source_conditions()) is not None:
            txn.match_rows_with(matcher(reached))
        files = self.snapshot.add_files(None if condition == TRUE else condition)
        self.execution.chose(len(files), self.snapshot)
        return files


def _read(
    command: Merge, execution: Execution, txn: OptimisticTransaction, snapshot: Snapshot
) -> _SourceReading:
    terms = WriteTerms.from_snapshot(snapshot)
    tables = QueryTables(execution, txn)
    at_hand = rows_at_hand(execution, command.source, terms.schema, stored=False)
    if at_hand is not None and at_hand[0].num_rows > MOST_SOURCE_ROWS:
        many = f"The source of a MERGE has more than {MOST_SOURCE_ROWS:,} rows."
        need_spark(execution, CannotEvaluateError(many))
    elif at_hand is not None and execution.options.in_process_bytes:
        rows, schema = at_hand
        terms, analyzed = analyze_merge(command, execution, terms, schema, tables)
        return _SourceReading(
            command, execution, txn, snapshot, tables, terms, analyzed, rows.num_rows, rows
        )
    return _read_by_spark(command, execution, txn, snapshot)


def _read_by_spark(
    command: Merge, execution: Execution, txn: OptimisticTransaction, snapshot: Snapshot
) -> _SourceReading:
    terms, tables = WriteTerms.from_snapshot(snapshot), QueryTables(execution, txn)
    with execution.spark_stage(READ_SOURCE):
        incoming = source_rows(execution, command.source, terms.schema, txn, stored=False)
        if txn.has_read:  # rows missing from the source need not join anything
            txn.use_files_alone(READS_TARGET)
        terms, analyzed = analyze_merge(command, execution, terms, incoming.schema, tables)
        analyzed, frame = compute_source_columns(analyzed, incoming.frame)
        if frame is not incoming.frame:
            register_reads(execution, frame, txn)
            frame = pin_tables(execution, frame)
        numbered = frame.withColumn(SOURCE_ROW, F.monotonically_increasing_id())
        source = materialize_rows(numbered)
        size = size_of_all(source)
        few = size.rows <= MOST_SOURCE_ROWS and size.bytes_of() <= MOST_BYTES
        is_here = few and bool(execution.options.in_process_bytes)
        arrow = collect_rows(source.drop(SOURCE_ROW)) if is_here else None
    return _SourceReading(
        command, execution, txn, snapshot, tables, terms, analyzed, size.rows, arrow, source, size
    )


def _merge_in_process(reading: _SourceReading) -> tuple[MergeChanges, WriteTerms] | None:
    """Run a small MERGE in this process; return None if Spark must run it."""
    work = _arrow_merge(reading)
    merged = merge_in_process(reading.execution, reading.snapshot, work) if work else None
    if merged is None:
        return None
    reading.txn.stage(*merged.gone.actions())
    return merged, reading.terms


def _arrow_merge(reading: _SourceReading) -> ArrowMerge | None:
    source, unchanged = reading.arrow, reading.terms.schema == reading.snapshot.schema
    if source is None or not unchanged:
        return None
    try:
        check_columns(reading.merge, source)
        files = reading.candidates(
            lambda values: source_bounds(values, source),
            lambda reached: Matcher(reading.merge.on, source, tuple(reached)),
        )
    except CannotEvaluateError as error:
        need_spark(reading.execution, error)
        return None
    return ArrowMerge(reading.merge, source, files)


def _plan_in_process(
    command: Merge, execution: Execution, txn: OptimisticTransaction, snapshot: Snapshot
) -> ArrowMerge | None:
    """Prepare a dry run without Spark; return None if the source needs Spark."""
    terms, tables = WriteTerms.from_snapshot(snapshot), QueryTables(execution, txn)
    source = rows_at_hand(execution, command.source, terms.schema, stored=False) or table_at_hand(
        execution, command.source
    )
    if source is None:
        return None
    rows, schema = source
    changed, analyzed = analyze_merge(command, execution, terms, schema, tables)
    reading = _SourceReading(
        command, execution, txn, snapshot, tables, changed, analyzed, rows.num_rows, rows
    )
    return _arrow_merge(reading)


def _merge_in_spark(reading: _SourceReading) -> tuple[MergeChanges, WriteTerms]:
    execution, snapshot = reading.execution, reading.snapshot
    if reading.frame is None:
        reading = _read_by_spark(reading.command, execution, reading.txn, snapshot)
    merge, source, size = reading.merge, reading.frame, reading.size
    assert source is not None and size is not None  # noqa: S101, PT018 - it was just read
    with execution.spark_stage("match rows"):
        files = reading.candidates(
            lambda values: bounds_by_spark(source, values),
            lambda reached: join_matcher(execution.spark, source, merge.on, reached),
        )
        rows = MergeRows(
            merge,
            snapshot.table_uri,
            reading.terms.schema,
            source,
            size,
            execution.now_ms,
            execution.caller,
            reading.tables,
        )
        merging = _MergeRun(execution, snapshot, reading.terms, rows, files)
        matched = _MatchedActions() if merge.inserts_only else _match(merging)
    reading.txn.stage(*matched.gone.actions())
    execution.report_finding(matched.gone.describe())
    scanned = monotonic()
    with execution.spark_stage("write new rows"):
        merged = replace(_write(merging, matched), scanned=scanned)
    execution.wrote_in_words(merged.written.adds)
    return merged, merging.terms


def _match(merging: _MergeRun) -> _MatchedActions:
    """Match the rows and return the actions for target rows with the files they change.

    Raises:
        MultipleSourceRowsError: two source rows would change one target row.
    """
    rows = replace(merging.rows, carried=_choose_carried_columns(merging))
    target = merging.target(row_ids=rows.carried is not None and rows.carried.row_ids)
    pairs = rows.pairs(target)
    counts = _count_by_clause(pairs)
    actions = pairs.filter(column(CLAUSE) >= 0)
    by_clause = {clause: count for clause, count in counts.items() if clause >= 0}
    if rows.merge.only_deletes_matches:
        actions = actions.dropDuplicates([FILE, ROW])
        by_clause = _count_by_clause(actions)
    if rows.merge.reads_whole_target:
        unmatched = rows.find_unmatched_targets(target, pairs)
        actions, by_clause = actions.unionByName(unmatched), by_clause | _count_by_clause(unmatched)
    deletions = delete_positions(
        actions.select(FILE, ROW),
        merging.table,
        merging.candidates,
        write_vectors=merging.by_vector,
    )
    merging.execution.wrote_vectors(deletion.vector for deletion in deletions)
    acting = sum(by_clause.values())
    if acting > sum(deletion.deleted for deletion in deletions):
        rows.merge.check_single(rows.table)
    pair_count = sum(counts.values())
    merging.rows = replace(rows, pairs_found=pairs, pair_count=pair_count, action_count=acting)
    return _MatchedActions(actions, settle(deletions, by_vector=merging.by_vector), by_clause)


def _choose_carried_columns(merging: _MergeRun) -> PairColumns | None:
    """Choose the columns pairs carry for new images.

    None without deletion vectors or with a change feed: the files are read again then.
    """
    if not merging.by_vector or merging.snapshot.properties.enable_change_data_feed:
        return None
    rows = merging.rows
    is_narrow = is_one_task(merging.candidates) and len(rows.schema) <= MOST_COLUMNS_ALONG
    columns = rows.size.by_column
    return choose_pair_columns(
        rows.merge, rows.schema, columns, reads_all=is_narrow, row_ids=merging.kept
    )


def _count_by_clause(rows: DataFrame) -> dict[int, int]:
    counted = rows.groupBy(CLAUSE).count().collect()
    return {int(row[CLAUSE]): int(row["count"]) for row in counted}


def _write(merging: _MergeRun, matched: _MatchedActions) -> MergeChanges:
    """Write new images and new rows."""
    rows, gone, actions = merging.rows, matched.gone, matched.actions
    touched = merging.indices((*gone.removed, *(file.add for file in gone.masked)))
    frames: list[DataFrame] = []
    inserts, marked = rows.inserts(rows.find_unmatched_source(merging.target))
    merging.terms = merging.terms.record_identity_marks(marked)
    if actions is not None and touched:
        if merging.snapshot.properties.enable_change_data_feed or rows.asks_for_values:
            rows, actions = rows.materialize_values(merging.target(touched), actions)
            merging.rows = rows
        if rows.carried is not None:
            frames.append(rows.build_images_from_pairs(actions, kept=merging.kept))
        elif rows.updates or gone.rewritten:
            target, others = merging.target(touched, row_ids=merging.kept), bool(gone.rewritten)
            frames.append(rows.images(target, actions, others=others, kept=merging.kept))
    inserted, unmatched = 0, None
    if inserts is not None:
        inserts = materialize_rows(inserts)
        inserted, unmatched = _insert_counts(rows, inserts)
        frames.append(_add_null_row_ids(inserts) if merging.kept else inserts)
    written = WriteOutput()
    for frame in frames:
        checked = enforce(frame, rows.caller, rows.table, rows.schema, merging.terms.metadata)
        if merging.table.properties.optimize_write is not False:  # joins spread rows over all tasks
            checked = rebalance_partitions(checked, merging.table)
        part = write(checked, merging.table, keep_row_ids=merging.kept)
        merging.execution.wrote(part.adds)
        written += part
    changes = _changes(merging, actions, inserts, touched)
    return MergeChanges(gone, written, tuple(changes), inserted, matched.by_clause, unmatched)


def _insert_counts(rows: MergeRows, inserts: DataFrame) -> tuple[int, int | None]:
    """Count inserted rows and unmatched source rows; the latter are None without kept pairs."""
    if rows.pairs_found is None:
        return inserts.count(), None
    if not rows.pair_count:
        return inserts.count(), rows.size.rows
    matched = rows.pairs_found.agg(F.count_distinct(SOURCE_ROW).alias("count"))
    counts = inserts.agg(F.count(F.lit(1)).alias("count")).select(F.lit(0).alias("of"), "count")
    both = counts.unionByName(matched.select(F.lit(1).alias("of"), "count")).collect()
    inserted, distinct = (int(row["count"]) for row in sorted(both))
    return inserted, rows.size.rows - distinct


def _add_null_row_ids(frame: DataFrame) -> DataFrame:
    nothing = F.lit(None).cast("long")
    return frame.withColumn(ROW_ID, nothing).withColumn(ROW_COMMIT_VERSION, nothing)


def _changes(
    merging: _MergeRun,
    actions: DataFrame | None,
    inserts: DataFrame | None,
    touched: frozenset[int],
) -> list[AddCDCFile]:
    """Write the change files if a feed is enabled; a version with only new files needs none."""
    if not merging.snapshot.properties.enable_change_data_feed or actions is None or not touched:
        return []
    frame = merging.rows.changes(merging.target(touched), actions, CHANGE_TYPE)
    if inserts is not None:
        frame = frame.unionByName(inserts.withColumn(CHANGE_TYPE, F.lit("insert")))
    changes = write_changes(frame, merging.table)
    merging.execution.wrote(changes)
    return changes


def analyze_merge(
    command: Merge, execution: Execution, terms: WriteTerms, source: StructType, tables: QueryTables
) -> tuple[WriteTerms, AnalyzedMerge]:
    """Return the target's terms after the MERGE, and its analyzed conditions and clauses.

    Raises:
        EngineError: a name, type or clause is invalid.
    """
    if command.schema_evolution:
        terms = add_columns(terms, command.choose_new_columns(source))
    analyzed = command.analyze(terms.schema, source, now_ms=execution.now_ms, tables=tables.schema)
    for clause in analyzed.clauses:
        _check_clause(clause, terms.schema)
        _check_casts(clause, terms.schema, execution)
    return terms, analyzed


def _check_casts(clause: AnalyzedClause, schema: StructType, execution: Execution) -> None:
    """Refuse values of UPDATE SET * and INSERT * that the session's time zone would decide."""
    if execution.has_engine_terms or is_in_utc(execution.caller):
        return
    for path, value in clause.assignments.items():
        column = target_type(schema, path)
        if is_cast_by_zone(value.type, column):
            what = f"{'.'.join(path)} would be stored in the session's time zone."
            remedy = f"Cast it in the source: CAST(… AS {sql_name(column)})."
            raise RequestError(what, remedy, field="source")


def _check_clause(clause: AnalyzedClause, schema: StructType) -> None:
    inserts = clause.when == NOT_MATCHED
    check_assignments(schema, clause.assignments, clause_setting(clause), new_rows=inserts)
    if inserts:
        named = {path[0] for path in clause.assignments}
        check_explicit(
            schema, StructType(tuple(declared for declared in schema if declared.name in named))
        )


def merge_metrics(
    counts: MergeCounts, gone: RowDeletion, written: WriteOutput
) -> dict[str, int | str]:
    """Build `operationMetrics` under delta-spark's names."""
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


def merge_parameters(merge: AnalyzedMerge) -> dict[str, object]:
    """Build `operationParameters` under delta-spark's names."""

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
