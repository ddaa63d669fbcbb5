"""A MERGE as trees: conditions and assignments of its clauses over a target and a source.

Columns of the target have the relation "target", those of the source "source".
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from engine.errors import MultipleSourceRowsError
from engine.expressions.traits import (
    conjunction,
    drop_relations,
    has_subquery,
    is_deterministic,
    relations_of,
    split_conjuncts,
)
from engine.expressions.tree import TRUE, Call, Expression

MATCHED, NOT_MATCHED, BY_SOURCE = "matched", "not_matched", "not_matched_by_source"
UPDATE, UPDATE_ALL, DELETE, INSERT, INSERT_ALL = (
    "update",
    "update_all",
    "delete",
    "insert",
    "insert_all",
)
WHEN_SQL = {
    MATCHED: "MATCHED",
    NOT_MATCHED: "NOT MATCHED",
    BY_SOURCE: "NOT MATCHED BY SOURCE",
}


def clause_words(number: int, when: str) -> str:
    """Describe a clause by number and kind, for messages."""
    return f"clause {number} (WHEN {WHEN_SQL[when]})"


def equal_sides(part: Expression) -> tuple[Expression, Expression] | None:
    """Return both sides of `=` or `<=>` between target and source, the target's first; else None."""
    if not (isinstance(part, Call) and part.function in {"=", "<=>"}):
        return None
    mine, theirs = part.arguments
    if relations_of(mine) == {"source"}:
        mine, theirs = theirs, mine
    is_between = relations_of(mine) == {"target"} and relations_of(theirs) == {"source"}
    return (mine, theirs) if is_between else None


def plain_equal_sides(part: Expression) -> tuple[Expression, Expression] | None:
    """Return the sides of an `=`, like `equal_sides`, where null matches nothing."""
    return equal_sides(part) if isinstance(part, Call) and part.function == "=" else None


@dataclass(frozen=True)
class AnalysedClause:
    """A clause as trees; `*` is written out. Paths are the target's, `number` counts from 1."""

    when: str
    action: str
    condition: Expression | None
    assignments: Mapping[tuple[str, ...], Expression]
    number: int = 1
    fills_fields: bool = False

    @property
    def words(self) -> str:
        """The clause's number and kind, for messages."""
        return clause_words(self.number, self.when)

    def rewrite(self, change: Callable[[Expression], Expression]) -> "AnalysedClause":
        """Rewrite every tree of this clause."""
        condition = None if self.condition is None else change(self.condition)
        values = {path: change(value) for path, value in self.assignments.items()}
        return replace(self, condition=condition, assignments=values)


@dataclass(frozen=True)
class AnalysedMerge:
    """A MERGE as trees."""

    on: Expression
    clauses: tuple[AnalysedClause, ...]

    @property
    def reads_whole_target(self) -> bool:
        """Whether NOT MATCHED BY SOURCE makes every target row count."""
        return any(clause.when == BY_SOURCE for clause in self.clauses)

    def collect_by_source_conditions(self) -> tuple[Expression, ...] | None:
        """Return the conditions of NOT MATCHED BY SOURCE; None if a clause reaches every row."""
        conditions = [clause.condition for clause in self.clauses if clause.when == BY_SOURCE]
        stated = tuple(condition for condition in conditions if condition is not None)
        return stated if len(stated) == len(conditions) else None

    @property
    def inserts_only(self) -> bool:
        """Whether no clause changes existing rows; the target is still read."""
        return all(clause.when == NOT_MATCHED for clause in self.clauses)

    @property
    def only_deletes_matches(self) -> bool:
        """Whether it does not matter how many source rows match a target row."""
        return all(clause.action == DELETE for clause in self.clauses if clause.when == MATCHED)

    def check_single(self, table: str) -> None:
        """Refuse several source rows for one target row, unless they can only delete it.

        Raises:
            MultipleSourceRowsError: they would change it.
        """
        if not self.only_deletes_matches:
            msg = f"Several source rows match one row of {table} and would change it."
            remedy = "Make the source's rows unique by the columns of ON."
            raise MultipleSourceRowsError(msg, remedy)

    def target_condition(self) -> Expression:
        """Return the condition on target rows to read, over the table's own columns.

        These are the conjuncts of ON with target columns only; TRUE if there are none, or if NOT
        MATCHED BY SOURCE reaches every row.
        """
        if self.reads_whole_target:
            return TRUE
        parts = split_conjuncts(self.on)
        return conjunction(drop_relations(part) for part in parts if _reads_only_target(part))

    def conditions(self) -> tuple[Expression, ...]:
        """Return ON and the conditions of its clauses."""
        asked = (clause.condition for clause in self.clauses)
        return (self.on, *(condition for condition in asked if condition is not None))

    def values(self) -> tuple[Expression, ...]:
        """Return the assigned values of its clauses."""
        return tuple(value for clause in self.clauses for value in clause.assignments.values())

    def rewrite(self, change: Callable[[Expression], Expression]) -> "AnalysedMerge":
        """Rewrite every tree of this MERGE that may involve a source row."""
        clauses = (
            clause if clause.when == BY_SOURCE else clause.rewrite(change)
            for clause in self.clauses
        )
        return AnalysedMerge(change(self.on), tuple(clauses))

    def expressions(self) -> tuple[Expression, ...]:
        """Return every tree of the merge."""
        return (*self.conditions(), *self.values())


def _reads_only_target(part: Expression) -> bool:
    if not is_deterministic(part) or has_subquery(part):
        return False
    return relations_of(part) <= {"target"}
