"""Conditions as reads: their repeatable part; the rest counts as TRUE."""

from engine.actions.files import AddFile
from engine.actions.statistics import parse_stats
from engine.conflicts.transaction_info import ReadPredicate
from engine.expressions.render import to_sql
from engine.expressions.traits import (
    conjunction,
    has_subquery,
    is_deterministic,
    spark_expressions,
    split_conjuncts,
    uses_complex_types,
)
from engine.expressions.tree import TRUE, Expression
from engine.snapshot.data_skipping import Skipper

SUBQUERY = "its condition contains a subquery"
NOT_DETERMINISTIC = "its condition is not deterministic"
COMPLEX_VALUES = "its condition uses struct, array or map values"
READS_TARGET = "its source reads the target"
"""Why a MERGE with its own target as source is decided at file level."""


def read_predicate(
    condition: Expression | None, *, every_match_changes: bool = False
) -> ReadPredicate:
    """Build the read of the rows a condition selects.

    Deterministic top-level conjuncts are kept. The others count as TRUE: the read is then wider
    than the command's, never narrower.
    """
    if condition is None or condition == TRUE:
        return ReadPredicate("TRUE", None, every_match_changes)
    stable = [part for part in split_conjuncts(condition) if is_stable(part)]
    narrowed = conjunction(stable)
    obstacle = row_obstacle(condition)
    return ReadPredicate(
        text=to_sql(condition),
        condition=None if narrowed == TRUE else narrowed,
        every_match_changes=every_match_changes and obstacle is None,
        row_obstacle=obstacle,
    )


def row_obstacle(condition: Expression) -> str | None:
    """Explain why a condition is decided at file level; None if rows can decide it."""
    if own := spark_expressions(condition):
        return f"its condition holds what Spark alone can evaluate: {own[0].text[:200]}"
    return value_obstacle(condition)


def value_obstacle(condition: Expression) -> str | None:
    """Return why rows cannot be compared when a column is set to this value; None if they can."""
    if has_subquery(condition):
        return SUBQUERY
    if not is_deterministic(condition):
        return NOT_DETERMINISTIC
    if uses_complex_types(condition):
        return COMPLEX_VALUES
    return None


def is_stable(part: Expression) -> bool:
    """Return whether the same row always gives the same answer, on any engine."""
    return is_deterministic(part) and not has_subquery(part) and not spark_expressions(part)


def may_hold(skipper: Skipper | None, add: AddFile) -> bool:
    """Return whether a file may hold a row a condition selects; None selects every row.

    Partition values come first: statistics are parsed only if those do not decide.
    """
    if skipper is None:
        return True
    values = add.partition_values or {}
    if not skipper.may_match(values, None):
        return False
    stats = parse_stats(add.stats) if skipper.looks_at_data else None
    has_vector = add.deletion_vector is not None
    return stats is None or skipper.may_match(values, stats, has_vector=has_vector)
