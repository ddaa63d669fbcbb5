"""A query's plan as a DataFrame: steps through the DataFrame API, expressions from their trees.

A subquery becomes a DataFrame of its own, so that Spark decides about nulls and correlation as it
does in SQL. Columns that the step's own input lacks belong to an outer query.
"""

from collections.abc import Callable, Iterable
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from engine.errors import ExpressionError
from engine.expressions.functions import FUNCTIONS
from engine.expressions.queries.binding import PLANNED
from engine.expressions.queries.plan import (
    Aggregate,
    AggregateCall,
    Distinct,
    Filter,
    Join,
    LimitRows,
    Plan,
    Project,
    Query,
    Rows,
    Scan,
    SetOperation,
    Sort,
    SortKey,
    WindowCall,
    Windows,
    columns_of_plan,
)
from engine.expressions.queries.pushdown import conditions_of_scans
from engine.expressions.queries.subquery_places import push_not_down, refuse_in
from engine.expressions.render import to_sql
from engine.expressions.spark_rewrites import FOR_SPARK, adapt_to_spark, call_for_spark
from engine.expressions.traits import has_subquery
from engine.expressions.tree import Call, Column, Expression, Subquery, walk
from engine.spark.columns import column, quote_column, to_column, to_spark_type

_OUTER = "__lake_outer"
OpenScan = Callable[[Scan, Expression | None, bool], DataFrame]
"""Opens the rows of a scan: at least those of a condition; the flag marks scans in a subquery."""


class QueryFrames:
    """Builds DataFrames of queries whose tables `open_scan` opens."""

    def __init__(self, spark: SparkSession, open_scan: OpenScan) -> None:
        self._spark, self._open = spark, open_scan
        self._depth = 0
        self._conditions: dict[str, Expression] = {}

    def frame(self, query: Query) -> DataFrame:
        """Return the rows of a query under its output names, which may repeat."""
        planned = self._build_plan(query.plan)
        return planned.select(*[to_column(tree).alias(name) for name, tree in query.columns])

    def condition(self, tree: Expression, columns: frozenset[str] | None) -> SparkColumn:
        """Return a condition to filter or join by: null may become false.

        Raises:
            ExpressionError: IN with a subquery where null is not equivalent to false.
        """
        return self.column(push_not_down(tree), columns)

    def column(  # noqa: PLR0911 - one form a node
        self, tree: Expression, columns: frozenset[str] | None = None
    ) -> SparkColumn:
        """Return an expression with or without subqueries as a column, over rows of these columns.

        Other columns are the outer query's; None stands for all columns.
        """
        if not has_subquery(tree) and not _is_outer(tree, columns):
            return to_column(tree)
        match tree:
            case Column():
                return F.col(to_sql(outer_column(tree))).outer()
            case Subquery():
                return self._subquery(tree)
            case Call("in", (value, Subquery() as subquery)):
                return self.column(value, columns).isin(self._build_subquery(subquery))
            case Call():
                call = call_for_spark(tree)
                return build_call_column(
                    call, [self.column(argument, columns) for argument in call.arguments]
                )
            case _:
                return to_column(tree)

    def _subquery(self, tree: Subquery) -> SparkColumn:
        frame = self._build_subquery(tree)
        return frame.exists() if tree.kind == "exists" else frame.scalar()

    def _build_subquery(self, tree: Subquery) -> DataFrame:
        if not isinstance(tree.query, Query):
            what = "The subquery reads an unknown table."
            raise ExpressionError(what, "Use registered tables.")
        self._depth += 1
        frame = self.frame(tree.query)
        self._depth -= 1
        return frame

    def _build_plan(self, plan: Plan) -> DataFrame:
        self._conditions |= conditions_of_scans(plan)
        return self._step(plan)

    def _step(self, plan: Plan) -> DataFrame:  # noqa: C901, PLR0911, PLR0912 - one line a step
        match plan:
            case Scan():
                return self._scan(plan)
            case Rows():
                return self._rows(plan)
            case Filter(below, condition):
                return self._step(below).filter(self.condition(condition, columns_of_plan(below)))
            case Project(below, items):
                names = columns_of_plan(below)
                return self._step(below).select(*self._columns(items, names))
            case Join():
                return self._join(plan)
            case Aggregate():
                return self._aggregate(plan)
            case Windows(below, calls):
                new = [F.expr(window_sql(call)).alias(name) for name, call in calls]
                return self._step(below).select(F.col("*"), *new)
            case Distinct(below):
                return self._step(below).distinct()
            case SetOperation():
                return self._combine_sets(plan)
            case Sort(below, keys):
                return self._step(below).orderBy(*[_sort_column(key) for key in keys])
            case LimitRows(below, count, offset):
                frame = self._step(below)
                frame = frame.offset(offset) if offset else frame
                return frame if count is None else frame.limit(count)

    def _columns(
        self, items: Iterable[tuple[str, Expression]], names: frozenset[str]
    ) -> list[SparkColumn]:
        items = list(items)
        for _, tree in items:
            refuse_in(tree)
        return [self.column(tree, names).alias(name) for name, tree in items]

    def _scan(self, plan: Scan) -> DataFrame:
        frame = self._open(plan, self._conditions.get(plan.side), self._depth > 0)
        return frame.select(*[column(n).alias(f"{plan.side}.{n}") for n in plan.schema.names])

    def _rows(self, plan: Rows) -> DataFrame:
        one = self._spark.range(1)
        if not plan.names:
            return one.select()
        columns = list(zip(plan.names, plan.types, strict=True))
        rows = [
            F.struct(
                *[
                    self.column(tree, frozenset()).cast(to_spark_type(kind)).alias(name)
                    for tree, (name, kind) in zip(row, columns, strict=True)
                ]
            )
            for row in plan.rows
        ]
        return one.select(F.inline(F.array(*rows)))

    def _join(self, plan: Join) -> DataFrame:
        left, right = self._step(plan.left), self._step(plan.right)
        if plan.on is None:
            return left.crossJoin(right)
        names = columns_of_plan(plan.left) | columns_of_plan(plan.right)
        return left.join(right, self.condition(plan.on, names), plan.how)

    def _aggregate(self, plan: Aggregate) -> DataFrame:
        below, names = self._step(plan.below), columns_of_plan(plan.below)
        keys = self._columns(plan.keys, names)
        calls = [F.expr(aggregate_sql(call)).alias(name) for name, call in plan.calls]
        if not calls:
            return below.select(*keys).distinct()
        if not keys:  # not `agg`: it resolves types of outer columns too early
            return below.select(*calls)
        return below.groupBy(*keys).agg(*calls)

    def _combine_sets(self, plan: SetOperation) -> DataFrame:
        left, right = self._step(plan.left), self._step(plan.right)
        match plan.operator, plan.every:
            case "union", _:
                return left.union(right)
            case "intersect", every:
                return left.intersectAll(right) if every else left.intersect(right)
            case _, every:
                return left.exceptAll(right) if every else left.subtract(right)


def add_outer_columns(rows: DataFrame, columns: Iterable[Column]) -> DataFrame:
    """Add copies of columns for subqueries, under names that no table's column has.

    Inside the subquery, Spark would otherwise resolve a name to the inner table's column.
    """
    new = [to_column(outer).alias(outer_column(outer).path[0]) for outer in columns]
    return rows.select(F.col("*"), *new)


def outer_column(tree: Column) -> Column:
    """Return an outer query's column under its name in subqueries."""
    if tree.path[0].startswith(PLANNED):
        return tree
    relation = f"{tree.relation}." if tree.relation else ""
    return Column((f"{_OUTER}.{relation}{tree.path[0]}", *tree.path[1:]), tree.type)


def _sort_column(key: SortKey) -> SparkColumn:
    value = to_column(key.value)
    if key.descending:
        return value.desc_nulls_first() if key.nulls_first else value.desc_nulls_last()
    return value.asc_nulls_first() if key.nulls_first else value.asc_nulls_last()


def _is_outer(tree: Expression, columns: frozenset[str] | None) -> bool:
    if columns is None:
        return False
    return any(
        isinstance(node, Column) and (node.relation or node.path[0] not in columns)
        for node in walk(tree)
    )


def build_call_column(call: Call, arguments: list[SparkColumn]) -> SparkColumn:
    """Return a call whose arguments have no SQL text."""
    if call.function in {"cast", "try_cast"}:
        target = to_spark_type(call.type)
        lenient = call.function == "try_cast"
        return arguments[0].try_cast(target) if lenient else arguments[0].cast(target)
    made = _OPERATORS.get(call.function)
    if made is not None:
        return made(*arguments)
    if call.function in FUNCTIONS or call.function in FOR_SPARK:
        return F.call_function(quote_column(call.function), *arguments)
    what = f"{call.function} cannot be used on a subquery or on a column of the outer query."
    raise ExpressionError(what, "Use a join.")


def _case(*arguments: SparkColumn) -> SparkColumn:
    pairs = len(arguments) // 2 * 2
    branches = F.when(arguments[0], arguments[1])
    for index in range(2, pairs, 2):
        branches = branches.when(arguments[index], arguments[index + 1])
    return branches.otherwise(arguments[-1]) if len(arguments) > pairs else branches


def _one_of(value: SparkColumn, *options: SparkColumn) -> SparkColumn:
    return reduce(SparkColumn.__or__, [value == option for option in options])


_OPERATORS: dict[str, Callable[..., SparkColumn]] = {
    "and": lambda *parts: reduce(SparkColumn.__and__, parts),
    "or": lambda *parts: reduce(SparkColumn.__or__, parts),
    "case": _case,
    "in": _one_of,
    "get": lambda one, other: one[other],
    "not": lambda one: ~one,
    "=": lambda one, other: one == other,
    "<=>": lambda one, other: one.eqNullSafe(other),
    "<>": lambda one, other: one != other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
    "+": lambda one, other: one + other,
    "-": lambda one, other: one - other,
    "*": lambda one, other: one * other,
    "/": lambda one, other: one / other,
    "%": lambda one, other: one % other,
    "negative": lambda one: -one,
    "isnull": lambda one: one.isNull(),
    "isnotnull": lambda one: one.isNotNull(),
    "like": F.like,
    "ilike": F.ilike,
}


def aggregate_sql(call: AggregateCall) -> str:
    """Render `function([DISTINCT] arguments) [FILTER (WHERE …)]`."""
    arguments = ", ".join(_sql(argument) for argument in call.arguments) or "*"
    distinct = "DISTINCT " if call.distinct else ""
    condition = f" FILTER (WHERE {_sql(call.condition)})" if call.condition is not None else ""
    return f"{call.function}({distinct}{arguments}){condition}"


def window_sql(call: WindowCall) -> str:
    """Render `function(arguments) OVER (PARTITION BY … ORDER BY …)`."""
    arguments = ", ".join(_sql(argument) for argument in call.arguments)
    if not arguments and call.function == "count":
        arguments = "*"
    parts = []
    if call.partition:
        parts.append(f"PARTITION BY {', '.join(_sql(tree) for tree in call.partition)}")
    if call.order:
        parts.append(f"ORDER BY {', '.join(sort_sql(key) for key in call.order)}")
    if call.frame:
        parts.append(call.frame)
    return f"{call.function}({arguments}) OVER ({' '.join(parts)})"


def sort_sql(key: SortKey) -> str:
    """Render `value ASC | DESC NULLS FIRST | LAST`."""
    direction = "DESC" if key.descending else "ASC"
    return f"{_sql(key.value)} {direction} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def _sql(tree: Expression) -> str:
    if has_subquery(tree):
        what = "An aggregate or window function cannot contain a subquery."
        raise ExpressionError(what, "Join its table, or use a subquery in FROM.")
    return to_sql(adapt_to_spark(tree))
