"""Counts rows for a dry run of MERGE with Arrow, as `dry_run_counts` does; writes nothing."""

from collections.abc import Mapping
from dataclasses import replace

from engine.commands.analysed_merge import DELETE
from engine.operations.arrow_merge import ArrowMerge, MergeRowsByArrow
from engine.operations.arrow_rows import FOR_SPARK
from engine.operations.dry_run_counts import NOT_COUNTED
from engine.operations.execution import Execution
from engine.operations.result import OperationResult, PlannedFile, plan_of
from engine.snapshot.snapshot import Snapshot
from engine.words import count_noun

_ACTIONS = ("updated", "deleted", "inserted")


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
