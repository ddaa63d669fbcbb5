"""The columns a MERGE's clauses read on each side, by name, or None if they are unknown."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from engine.commands.analysed_merge import (
    DELETE,
    MATCHED,
    AnalysedClause,
    AnalysedMerge,
    equal_sides,
)
from engine.expressions.traits import is_asked_once, split_conjuncts
from engine.expressions.tree import Column as ColumnOfRow
from engine.expressions.tree import Expression, walk
from engine.schema.types import StructType
from engine.snapshot.row_rules import GENERATED
from engine.spark.columns import quote_column
from engine.spark.reader import ROW_COMMIT_VERSION, ROW_ID

TARGET, SOURCE = "target", "source"


@dataclass(frozen=True)
class PairColumns:
    """The columns carried by pairs, sufficient for all new images.

    Names of columns of either side, and whether row tracking columns are included.
    """

    target: tuple[str, ...]
    source: tuple[str, ...]
    row_ids: bool

    def columns(self, acts: Column) -> list[Column]:
        """Return structs named after the sides, for expressions to resolve; null unless `acts`."""
        sides = [
            F.when(
                acts, F.struct(*[F.col(f"{side}.{quote_column(name)}") for name in names])
            ).alias(side)
            for side, names in ((TARGET, self.target), (SOURCE, self.source))
            if names
        ]
        tracking = (ROW_ID, ROW_COMMIT_VERSION) if self.row_ids else ()
        return [*sides, *[F.col(f"{TARGET}.{quote_column(name)}") for name in tracking]]


def choose_pair_columns(
    merge: AnalysedMerge,
    schema: StructType,
    columns: Collection[str],
    *,
    reads_all: bool,
    row_ids: bool,
) -> PairColumns | None:
    """Choose the columns pairs must carry to build new images without a second read of the target.

    None if this takes target columns not read for matching (unless `reads_all`), if a value is
    evaluated only once, or if a source column is not among `columns`.
    """
    updates = [c for c in merge.clauses if c.when == MATCHED and c.action != DELETE]
    values = [value for clause in updates for value in clause.assignments.values()]
    if not updates or merge.reads_whole_target or any(map(is_asked_once, values)):
        return None
    theirs = columns_read(values, SOURCE)
    mine = columns_read(values, TARGET)
    read = columns_read(_match_conditions(merge), TARGET)
    if mine is None or theirs is None or (read is None and not reads_all):
        return None
    mine |= _find_unset_columns(updates, schema)
    if not (reads_all or mine <= (read or set())) or not theirs <= set(columns):
        return None
    in_order = tuple(name for name in schema.names if name in mine)
    return PairColumns(in_order, tuple(sorted(theirs)), row_ids)


def source_columns(merge: AnalysedMerge, carried: PairColumns | None) -> set[str] | None:
    """Return the source columns needed to find pairs; None if only Spark knows them."""
    asked = columns_read(_match_conditions(merge), SOURCE)
    return None if asked is None else asked.union(carried.source if carried else ())


def columns_read(trees: Iterable[Expression], side: str) -> set[str] | None:
    """Return the top-level columns of a side in expressions; None if only Spark knows them."""
    trees = list(trees)
    if any(map(is_asked_once, trees)):
        return None
    nodes = (node for tree in trees for node in walk(tree))
    return {
        node.path[0] for node in nodes if isinstance(node, ColumnOfRow) and node.relation == side
    }


def joins_by_equality(on: Expression) -> bool:
    """Return whether ON equates an expression of the target with one of the source."""
    return any(equal_sides(part) for part in split_conjuncts(on))


def _match_conditions(merge: AnalysedMerge) -> list[Expression]:
    asked = [clause.condition for clause in merge.clauses if clause.when == MATCHED]
    return [merge.on, *(condition for condition in asked if condition is not None)]


def _find_unset_columns(updates: Iterable[AnalysedClause], schema: StructType) -> set[str]:
    """Return the columns not set by every clause, except generated ones to recompute."""
    updates = list(updates)
    touched = {path[0] for clause in updates for path in clause.assignments}
    return {
        field.name
        for field in schema
        if any((field.name,) not in clause.assignments for clause in updates)
        and (field.name in touched or GENERATED not in field.metadata)
    }
