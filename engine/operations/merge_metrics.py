"""The commit metrics and parameters of a MERGE, under delta-spark's names."""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.commands.analysed_merge import BY_SOURCE, DELETE, MATCHED, AnalysedClause, AnalysedMerge
from engine.expressions.render import to_sql
from engine.operations.row_deletion import RowDeletion
from engine.spark.writer import WriteOutput


@dataclass(frozen=True, slots=True)
class MergeCounts:
    """Row counts of a MERGE: source rows, inserted rows, and rows per clause."""

    clauses: tuple[AnalysedClause, ...]
    source_rows: int
    inserted_rows: int
    by_clause: Mapping[int, int]


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


def merge_parameters(merge: AnalysedMerge) -> dict[str, object]:
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
