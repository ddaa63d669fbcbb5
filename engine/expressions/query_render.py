"""Calls over many rows to SQL, as `engine.expressions.render` does for single rows."""

from engine.expressions.query_plan import AggregateCall, SortKey, WindowCall
from engine.expressions.render import to_sql

FRAMES = {
    "": "",
    "rows_to_here": "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "all_rows": "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
}


def aggregate_sql(call: AggregateCall) -> str:
    """`function([DISTINCT] arguments) [FILTER (WHERE …)]`."""
    arguments = ", ".join(to_sql(each) for each in call.arguments) or "*"
    distinct = "DISTINCT " if call.distinct else ""
    condition = f" FILTER (WHERE {to_sql(call.condition)})" if call.condition is not None else ""
    return f"{call.function}({distinct}{arguments}){condition}"


def window_sql(call: WindowCall) -> str:
    """`function(arguments) OVER (PARTITION BY … ORDER BY …)`."""
    arguments = ", ".join(to_sql(each) for each in call.arguments)
    if not arguments and call.function == "count":
        arguments = "*"
    parts = []
    if call.partition:
        parts.append(f"PARTITION BY {', '.join(to_sql(each) for each in call.partition)}")
    if call.order:
        parts.append(f"ORDER BY {', '.join(sort_sql(each) for each in call.order)}")
    if call.frame:
        parts.append(FRAMES[call.frame])
    return f"{call.function}({arguments}) OVER ({' '.join(parts)})"


def sort_sql(key: SortKey) -> str:
    """`value ASC | DESC NULLS FIRST | LAST`."""
    direction = "DESC" if key.descending else "ASC"
    return f"{to_sql(key.value)} {direction} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
