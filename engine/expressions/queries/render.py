"""Calls over many rows to SQL, as `engine.expressions.render` does for single rows."""

from engine.errors import ExpressionError
from engine.expressions.queries.plan import AggregateCall, SortKey, WindowCall
from engine.expressions.render import to_sql
from engine.expressions.traits import has_subquery
from engine.expressions.tree import Expression

FRAMES = {
    "": "",
    "rows_to_here": "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "all_rows": "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
}


def aggregate_sql(call: AggregateCall) -> str:
    """`function([DISTINCT] arguments) [FILTER (WHERE …)]`."""
    arguments = ", ".join(_sql(each) for each in call.arguments) or "*"
    distinct = "DISTINCT " if call.distinct else ""
    condition = f" FILTER (WHERE {_sql(call.condition)})" if call.condition is not None else ""
    return f"{call.function}({distinct}{arguments}){condition}"


def window_sql(call: WindowCall) -> str:
    """`function(arguments) OVER (PARTITION BY … ORDER BY …)`."""
    arguments = ", ".join(_sql(each) for each in call.arguments)
    if not arguments and call.function == "count":
        arguments = "*"
    parts = []
    if call.partition:
        parts.append(f"PARTITION BY {', '.join(_sql(each) for each in call.partition)}")
    if call.order:
        parts.append(f"ORDER BY {', '.join(sort_sql(each) for each in call.order)}")
    if call.frame:
        parts.append(FRAMES[call.frame])
    return f"{call.function}({arguments}) OVER ({' '.join(parts)})"


def sort_sql(key: SortKey) -> str:
    """`value ASC | DESC NULLS FIRST | LAST`."""
    direction = "DESC" if key.descending else "ASC"
    return f"{_sql(key.value)} {direction} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def _sql(tree: Expression) -> str:
    if has_subquery(tree):
        what = "A subquery cannot stand inside a function over several rows."
        raise ExpressionError(what, "Join its table, or use a subquery in FROM.")
    return to_sql(tree)
