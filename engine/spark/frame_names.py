"""The alias of a caller's DataFrame, as a prefix of its columns."""

from typing import Any

from pyspark.sql import DataFrame

from engine.spark.jvm import get_analysed_plan
from engine.spark.session import is_remote

_KEEP_NAMES = frozenset(
    [
        *("Filter", "Sort", "Limit", "GlobalLimit", "LocalLimit", "Offset", "Deduplicate"),
        *("Distinct", "Hint", "ResolvedHint", "Sample", "Repartition", "RepartitionByExpression"),
    ]
)
"""Plan nodes that keep the names of their child."""


def aliases_of(frame: DataFrame) -> tuple[str, ...]:
    """Return the alias; empty if there is none or the columns have several."""
    if is_remote(frame.sparkSession):
        inside: Any = frame
        return _read_remote_names(inside._plan)
    return _read_classic_names(get_analysed_plan(frame))


def _read_classic_names(plan: Any) -> tuple[str, ...]:  # noqa: ANN401 - the JVM's
    while str(plan.nodeName()) in _KEEP_NAMES:
        plan = plan.children().apply(0)
    return (str(plan.alias()),) if str(plan.nodeName()) == "SubqueryAlias" else ()


def _read_remote_names(plan: Any) -> tuple[str, ...]:  # noqa: ANN401 - Connect's plans
    while type(plan).__name__ in _KEEP_NAMES and plan._child is not None:
        plan = plan._child
    return (str(plan._alias),) if type(plan).__name__ == "SubqueryAlias" else ()
