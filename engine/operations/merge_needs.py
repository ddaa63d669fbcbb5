"""What a MERGE's clauses need of its two sides: which columns, by name, or that nobody can say."""

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
from engine.spark.columns import quote_column
from engine.spark.reader import ROW_COMMIT_VERSION, ROW_ID
from engine.spark.table_rules import GENERATED

TARGET, SOURCE = "target", "source"


@dataclass(frozen=True)
class PairColumns:
    """What pairs hold of the rows that they join: all that new images are made of.

    Names of columns of either side, and whether the columns of row tracking are there.
    """

    target: tuple[str, ...]
    source: tuple[str, ...]
    row_ids: bool

    def columns(self, acts: Column) -> list[Column]:
        """Structs named as the sides, so that expressions find their columns; null unless it `acts`."""
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
    """What pairs are to hold, so that no second look at the target makes new images of its rows.

    None where that takes columns of the target that matching does not read, unless it `reads_all`;
    and where a value is to be computed once, or the source's columns are not all among `columns`.
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
    """The source's columns that finding pairs needs; None where only Spark knows."""
    asked = columns_read(_match_conditions(merge), SOURCE)
    return None if asked is None else asked.union(carried.source if carried else ())


def columns_read(trees: Iterable[Expression], side: str) -> set[str] | None:
    """The top-level columns of a side that expressions name; None where only Spark knows."""
    trees = list(trees)
    if any(map(is_asked_once, trees)):
        return None
    nodes = (node for tree in trees for node in walk(tree))
    return {
        node.path[0] for node in nodes if isinstance(node, ColumnOfRow) and node.relation == side
    }


def joins_by_equality(on: Expression) -> bool:
    """Whether ON asks that something of the target equal something of the source."""
    return any(equal_sides(part) for part in split_conjuncts(on))


def _match_conditions(merge: AnalysedMerge) -> list[Expression]:
    asked = [clause.condition for clause in merge.clauses if clause.when == MATCHED]
    return [merge.on, *(condition for condition in asked if condition is not None)]


def _find_unset_columns(updates: Iterable[AnalysedClause], schema: StructType) -> set[str]:
    """The columns that a clause does not set as a whole; those that are computed anew need no value."""
    updates = list(updates)
    touched = {path[0] for clause in updates for path in clause.assignments}
    return {
        field.name
        for field in schema
        if any((field.name,) not in clause.assignments for clause in updates)
        and (field.name in touched or GENERATED not in field.metadata)
    }
