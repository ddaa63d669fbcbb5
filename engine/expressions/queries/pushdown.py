"""Pushdown: conditions of a query on the rows of each table, used to skip files.

A condition is pushed down if no row failing it can reach a result: through filters, through plain
renaming, to both sides of an inner join, and to the preserved side of an outer join.
"""

from collections.abc import Mapping, Sequence

from engine.expressions.queries.plan import (
    Filter,
    Join,
    Plan,
    Project,
    Scan,
    Sort,
    columns_of_plan,
    inputs,
)
from engine.expressions.traits import (
    conjunction,
    has_subquery,
    is_deterministic,
    split_conjuncts,
)
from engine.expressions.tree import Call, Column, Expression, walk

_LEFT = frozenset({"inner", "cross", "left", "left_semi", "left_anti"})
_RIGHT = frozenset({"inner", "cross", "right"})


def conditions_of_scans(plan: Plan) -> dict[str, Expression]:
    """Return, by side of a scan, a condition true for all its relevant rows.

    The conditions are over the table's own columns.
    """
    conditions: dict[str, Expression] = {}
    _sink(plan, (), conditions)
    return conditions


def _sink(plan: Plan, parts: Sequence[Expression], conditions: dict[str, Expression]) -> None:
    match plan:
        case Scan(side=side):
            own = [_strip_side(part, side) for part in parts]
            if own:
                conditions[side] = conjunction(own)
        case Filter(below, condition):
            names = columns_of_plan(below)  # others belong to the outer query
            fresh = [
                part
                for part in split_conjuncts(condition)
                if _sinks(part) and _has_only(part, names)
            ]
            _sink(below, [*parts, *fresh], conditions)
        case Sort(below):
            _sink(below, parts, conditions)
        case Project(below, items):
            plain = {name: tree for name, tree in items if isinstance(tree, Column)}
            pushable = [part for part in parts if all(c.path[0] in plain for c in _columns(part))]
            _sink(below, [_substitute_columns(pushed, plain) for pushed in pushable], conditions)
        case Join():
            _sink_into_join(plan, parts, conditions)
        case _:
            for input_ in inputs(plan):
                _sink(input_, (), conditions)


def _sink_into_join(
    plan: Join, parts: Sequence[Expression], conditions: dict[str, Expression]
) -> None:
    on = [] if plan.on is None else [part for part in split_conjuncts(plan.on) if _sinks(part)]
    left, right = columns_of_plan(plan.left), columns_of_plan(plan.right)
    on_left = on if plan.how in {"inner", "right", "left_semi"} else []
    on_right = on if plan.how in {"inner", "left", "left_semi", "left_anti"} else []
    mine = [*(parts if plan.how in _LEFT else ()), *on_left]
    theirs = [*(parts if plan.how in _RIGHT else ()), *on_right]
    _sink(plan.left, [part for part in mine if _is_over(part, left)], conditions)
    _sink(plan.right, [part for part in theirs if _is_over(part, right)], conditions)


def _sinks(part: Expression) -> bool:
    return is_deterministic(part) and not has_subquery(part)


def _columns(tree: Expression) -> list[Column]:
    return [node for node in walk(tree) if isinstance(node, Column)]


def _is_over(part: Expression, names: frozenset[str]) -> bool:
    return bool(_columns(part)) and _has_only(part, names)


def _has_only(part: Expression, names: frozenset[str]) -> bool:
    return all(not column.relation and column.path[0] in names for column in _columns(part))


def _substitute_columns(tree: Expression, plain: Mapping[str, Column]) -> Expression:
    match tree:
        case Column(path, data_type):
            return Column((*plain[path[0]].path, *path[1:]), data_type)
        case Call(function, arguments, data_type):
            return Call(
                function,
                tuple(_substitute_columns(argument, plain) for argument in arguments),
                data_type,
            )
        case _:
            return tree


def _strip_side(tree: Expression, side: str) -> Expression:
    match tree:
        case Column(path, data_type):
            return Column((path[0].removeprefix(f"{side}."), *path[1:]), data_type)
        case Call(function, arguments, data_type):
            return Call(
                function, tuple(_strip_side(argument, side) for argument in arguments), data_type
            )
        case _:
            return tree
