"""The allow-list of functions over many rows: aggregates, and functions of a window."""

from collections.abc import Sequence

from engine.expressions.functions import Function, gives
from engine.expressions.types import FLOATS, INTEGRALS, common_type
from engine.schema.types import (
    BOOLEAN,
    DOUBLE,
    INTEGER,
    LONG,
    ArrayType,
    DataType,
    DecimalType,
)


def _first(types: Sequence[DataType]) -> DataType | None:
    return types[0]


def _sum(types: Sequence[DataType]) -> DataType | None:
    if isinstance(types[0], DecimalType):
        return DecimalType(min(38, types[0].precision + 10), types[0].scale)
    return LONG if types[0] in INTEGRALS else DOUBLE if types[0] in FLOATS else None


def _average(types: Sequence[DataType]) -> DataType | None:
    if isinstance(types[0], DecimalType):
        precision, scale = types[0].precision, types[0].scale
        return DecimalType(min(38, precision + 4), min(38, scale + 4))
    return DOUBLE


def _list(types: Sequence[DataType]) -> DataType | None:
    return ArrayType(types[0], contains_null=False)


def _shift_type(types: Sequence[DataType]) -> DataType | None:
    return common_type((types[0], *types[2:]))


AGGREGATES: dict[str, Function] = {
    function.name: function
    for function in (
        Function("count", ("any",), gives(LONG), repeats=True),
        Function("sum", ("number",), _sum),
        Function("avg", ("number",), _average),
        *(Function(name, ("any",), _first) for name in ("min", "max", "any_value")),
        *(Function(name, ("any", "boolean"), _first, optional=1) for name in ("first", "last")),
        *(Function(name, ("any", "any"), _first) for name in ("max_by", "min_by")),
        Function("count_if", ("boolean",), gives(LONG)),
        *(Function(name, ("boolean",), gives(BOOLEAN)) for name in ("bool_and", "bool_or")),
        *(
            Function(name, ("number",), gives(DOUBLE))
            for name in ("stddev", "stddev_pop", "variance", "var_pop", "median")
        ),
        *(Function(name, ("any",), _list) for name in ("collect_list", "collect_set")),
        Function("approx_count_distinct", ("any",), gives(LONG)),
    )
}
WINDOW_FUNCTIONS: dict[str, Function] = {
    function.name: function
    for function in (
        *(Function(name, (), gives(INTEGER)) for name in ("row_number", "rank", "dense_rank")),
        *(Function(name, (), gives(DOUBLE)) for name in ("percent_rank", "cume_dist")),
        Function("ntile", ("integer",), gives(INTEGER)),
        *(
            Function(name, ("any", "integer", "any"), _shift_type, optional=2)
            for name in ("lag", "lead")
        ),
        *(
            Function(name, ("any", "boolean"), _first, optional=1)
            for name in ("first_value", "last_value")
        ),
    )
}
ALIASES_OF_SEVERAL = {
    "mean": "avg",
    "std": "stddev",
    "stddev_samp": "stddev",
    "var_samp": "variance",
    "every": "bool_and",
    "some": "bool_or",
    "array_agg": "collect_list",
}
"""Aliases of aggregates."""


def find_aggregate(name: str) -> Function | None:
    """Return the aggregate function of a lower-case name."""
    return AGGREGATES.get(ALIASES_OF_SEVERAL.get(name, name))


def find_window_function(name: str) -> Function | None:
    """Return the function allowed before OVER: an aggregate or a window function."""
    return WINDOW_FUNCTIONS.get(name) or find_aggregate(name)
