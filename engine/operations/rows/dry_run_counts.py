"""Counts rows for a dry run of DELETE and UPDATE with Arrow; writes nothing.

Rows are counted if the files to read total at most `RunOptions.count_bytes` and Arrow finds exactly
the rows Spark would find. Otherwise the plan only names the files.
"""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from engine.actions.files import AddFile
from engine.commands.sources import Source, TableSource
from engine.expressions.traits import is_asked_once
from engine.expressions.tree import Expression
from engine.operations.arrow_rows import FOR_SPARK
from engine.operations.execution import Execution
from engine.operations.result import Plan, PlannedFile, plan_of
from engine.operations.rows.arrow_changes import find_matching_positions
from engine.operations.rows.row_deletion import split_by_partition
from engine.schema.types import StructType
from engine.snapshot.snapshot import Snapshot
from engine.words import count_noun

NOT_COUNTED = "the rows were not counted: Spark would have to read them, or they are too large"


def raise_in_process_limit(execution: Execution) -> Execution:
    """Return the run with an in-process limit of `count_bytes`."""
    options = replace(execution.options, in_process_bytes=execution.options.count_bytes)
    return replace(execution, options=options)


def plan_of_matches(
    execution: Execution,
    snapshot: Snapshot,
    condition: Expression | None,
    candidates: Sequence[AddFile],
    verb: str,
) -> Plan:
    """Plan a DELETE or UPDATE; `verb` is "deleted" or "updated".

    Files decided by partition values alone are counted from their statistics.
    """
    whole, unsure = split_by_partition(snapshot, condition, list(candidates))
    counts = _counts(execution, snapshot, condition, unsure)
    files = [PlannedFile.from_add(add, "every row matches") for add in whole]
    if counts is None:
        files += [PlannedFile.from_add(add, "may hold matching rows") for add in unsure]
        summary = f"{len(files):,} of {snapshot.file_count:,} files would be read for rows that match; {NOT_COUNTED}."
        return plan_of(summary, files)
    files += [
        replace(PlannedFile.from_add(add, "holds matching rows"), rows=count)
        for add, count in zip(unsure, counts, strict=True)
        if count
    ]
    plan = plan_of("", files)
    rows = "All rows" if plan.rows is None else count_noun(plan.rows, "row")
    summary = (
        f"{rows} in {len(files):,} of {count_noun(snapshot.file_count, 'file')} would be {verb}."
    )
    return replace(plan, summary=summary, is_counted=plan.rows is not None)


def table_at_hand(execution: Execution, source: Source) -> tuple[pa.Table, StructType] | None:
    """Read a source consisting of one small table; return None for any other source."""
    if not isinstance(source, TableSource) or source.columns or source.by_position:
        return None
    _, snapshot = execution.open_named(source.table, source.version)
    if snapshot.size_bytes > execution.options.count_bytes:
        return None
    return snapshot.to_arrow(condition=source.where), snapshot.schema


def _counts(
    execution: Execution,
    snapshot: Snapshot,
    condition: Expression | None,
    files: Sequence[AddFile],
) -> list[int] | None:
    """Count the matching rows of each file; return None if they are not countable."""
    if condition is None or not files:
        return [] if not files else None
    if is_asked_once(condition) or sum(add.size for add in files) > execution.options.count_bytes:
        return None
    execution.begin_stage("find rows")
    try:
        bitmaps = find_matching_positions(snapshot, condition, files)
    except FOR_SPARK:
        return None
    return [len(bitmaps.get(index, ())) for index in range(len(files))]
