"""A query as a tree of steps over tables; every column has a unique name.

Expressions in it are trees of `engine.expressions.tree`; functions come from the allow-lists. Every
such tree can be rendered and run.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from engine.expressions.tree import Column, Expression
from engine.schema.types import DataType, StructType


@dataclass(frozen=True, slots=True)
class Scan:
    """A table's rows, at a version or a time. Its columns are called `side.name`."""

    table: str
    version: int | str | None
    side: str
    schema: StructType


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows written out."""

    names: tuple[str, ...]
    types: tuple[DataType, ...]
    rows: tuple[tuple[Expression, ...], ...]


@dataclass(frozen=True, slots=True)
class Filter:
    """The rows for which a condition is true."""

    below: "Plan"
    condition: Expression


@dataclass(frozen=True, slots=True)
class Project:
    """New columns from old ones."""

    below: "Plan"
    items: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Join:
    """Two plans joined: inner, cross, left, right, full, left_semi or left_anti."""

    left: "Plan"
    right: "Plan"
    how: str
    on: Expression | None


@dataclass(frozen=True, slots=True)
class SortKey:
    """A key to sort by."""

    value: Expression
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate function: over all rows if it has no arguments."""

    function: str
    arguments: tuple[Expression, ...]
    type: DataType
    distinct: bool = False
    condition: Expression | None = None


@dataclass(frozen=True, slots=True)
class WindowCall:
    """A function over the rows of a window. `frame` is in words of the grammar, "" for the usual one."""

    function: str
    arguments: tuple[Expression, ...]
    type: DataType
    partition: tuple[Expression, ...] = ()
    order: tuple[SortKey, ...] = ()
    frame: str = ""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One row for each group of equal keys; one row in all without keys."""

    below: "Plan"
    keys: tuple[tuple[str, Expression], ...]
    calls: tuple[tuple[str, AggregateCall], ...]


@dataclass(frozen=True, slots=True)
class Windows:
    """Columns added by window functions."""

    below: "Plan"
    calls: tuple[tuple[str, WindowCall], ...]


@dataclass(frozen=True, slots=True)
class Distinct:
    """Each row once."""

    below: "Plan"


@dataclass(frozen=True, slots=True)
class SetOperation:
    """A union, intersect or except of plans with columns of equal types and names."""

    operator: str
    every: bool
    left: "Plan"
    right: "Plan"


@dataclass(frozen=True, slots=True)
class Sort:
    """Rows in an order."""

    below: "Plan"
    keys: tuple[SortKey, ...]


@dataclass(frozen=True, slots=True)
class LimitRows:
    """A range of the rows: `count` rows (None for all) after skipping `offset`."""

    below: "Plan"
    count: int | None
    offset: int


Plan: TypeAlias = (
    Scan
    | Rows
    | Filter
    | Project
    | Join
    | Aggregate
    | Windows
    | Distinct
    | SetOperation
    | Sort
    | LimitRows
)


@dataclass(frozen=True, slots=True)
class Query:
    """A plan, and its output columns with their names."""

    plan: Plan
    columns: tuple[tuple[str, Column], ...]

    @property
    def names(self) -> list[str]:
        """The output names."""
        return [name for name, _ in self.columns]

    def expressions(self) -> tuple[Expression, ...]:
        """Return every expression of the plan."""
        return tuple(expression for step in steps(self.plan) for expression in expressions_of(step))

    def scans(self) -> tuple[Scan, ...]:
        """Return the tables it reads outside of subqueries."""
        return tuple(step for step in steps(self.plan) if isinstance(step, Scan))


def inputs(plan: Plan) -> tuple[Plan, ...]:
    """Return the plans directly below."""
    match plan:
        case Scan() | Rows():
            return ()
        case Join(left, right) | SetOperation(_, _, left, right):
            return (left, right)
        case _:
            return (plan.below,)


def steps(plan: Plan) -> Iterator[Plan]:
    """Yield every step, upper ones first."""
    yield plan
    for input_ in inputs(plan):
        yield from steps(input_)


def columns_of_plan(plan: Plan) -> frozenset[str]:  # noqa: PLR0911 - one case per step
    """Return the column names of a plan."""
    match plan:
        case Scan(side=side, schema=schema):
            return frozenset(f"{side}.{name}" for name in schema.names)
        case Rows(names=names):
            return frozenset(names)
        case Project(items=items):
            return frozenset(name for name, _ in items)
        case Aggregate(keys=keys, calls=calls):
            return frozenset(name for name, _ in (*keys, *calls))
        case Windows(below, calls):
            return columns_of_plan(below) | {name for name, _ in calls}
        case Join(left, right, how):
            own = columns_of_plan(left)
            return own if how in {"left_semi", "left_anti"} else own | columns_of_plan(right)
        case SetOperation(left=left):
            return columns_of_plan(left)
        case _:
            return columns_of_plan(plan.below)


def expressions_of(plan: Plan) -> tuple[Expression, ...]:  # noqa: PLR0911 - one case per step
    """Return the expressions of a step itself."""
    match plan:
        case Rows(rows=rows):
            return tuple(tree for row in rows for tree in row)
        case Filter(condition=condition):
            return (condition,)
        case Project(items=items):
            return tuple(tree for _, tree in items)
        case Join(on=on):
            return () if on is None else (on,)
        case Aggregate(keys=keys, calls=calls):
            return (*(tree for _, tree in keys), *_aggregate_expressions(calls))
        case Windows(calls=calls):
            return tuple(tree for _, call in calls for tree in _window_expressions(call))
        case Sort(keys=order):
            return tuple(key.value for key in order)
        case _:
            return ()


def _aggregate_expressions(calls: tuple[tuple[str, AggregateCall], ...]) -> tuple[Expression, ...]:
    conditions = (call.condition for _, call in calls if call.condition is not None)
    return (*(argument for _, call in calls for argument in call.arguments), *conditions)


def _window_expressions(call: WindowCall) -> tuple[Expression, ...]:
    return (*call.arguments, *call.partition, *(key.value for key in call.order))
