"""Possible values of an expression within bounds on its columns: a superset of the actual ones.

`TruthValues` says whether a condition may be true, false or null for some row within the bounds.
Unsupported expressions may have any value, so only the absence of `true` is proof.

A condition is compiled once and evaluated for many files: types, casts and literals are resolved
at compilation, and functions are evaluated over the files as a column.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import repeat
from typing import Any, TypeAlias

from engine.errors import CannotEvaluateError
from engine.expressions.ranges import (
    ANY,
    UNKNOWN,
    TruthValues,
    ValueRange,
    constant,
    prefix_upper_bound,
)
from engine.expressions.ranges_of_values import cast_ranges, evaluate_calls
from engine.expressions.tree import (
    Call,
    Column,
    Expression,
    Interval,
    Literal,
    SparkExpression,
    Subquery,
    Variable,
)
from engine.expressions.types import common_type, is_complex
from engine.schema.types import BOOLEAN, DataType

Files: TypeAlias = Sequence[Any]
"""The input of the columns' readers."""
Read: TypeAlias = Callable[[Files], Sequence[ValueRange]]
"""The range of an expression in each file."""
Test: TypeAlias = Callable[[Files], Sequence[TruthValues]]
Columns: TypeAlias = Callable[[Column], Read]
_ERRORS = (CannotEvaluateError, TypeError, ValueError, ArithmeticError)


def possible(condition: Expression, bounds: Callable[[Column], ValueRange]) -> TruthValues:
    """Return the possible truth values of a condition for rows within `bounds`."""

    def read(column: Column) -> Read:
        return _same(bounds(column))

    return compile_condition(condition, read)([None])[0]


def compile_condition(condition: Expression, columns: Columns) -> Test:
    """Compile a condition's test; `columns` returns the reader of each column."""
    match condition:
        case Call("and", arguments):
            return _all([compile_condition(operand, columns) for operand in arguments])
        case Call("or", arguments):
            return _inverse(
                _all([_inverse(compile_condition(operand, columns)) for operand in arguments])
            )
        case Call("not", (argument,)):
            return _inverse(compile_condition(argument, columns))
        case Call(function, arguments) if function in _TESTS:
            return _guard_test(_TESTS[function](arguments, columns))
        case _:
            value = compile_value(condition, columns)
            return lambda files: [_truth(range_) for range_ in value(files)]


def compile_value(expression: Expression, columns: Columns) -> Read:  # noqa: PLR0911
    """Compile the reader of an expression's possible values."""
    match expression:
        case Literal(Interval()) | Subquery() | SparkExpression() | Variable():
            return _same(UNKNOWN)
        case Literal(value):
            return _same(constant(value))
        case Column():
            return columns(expression)
        case Call(function, (argument,)) if function in {"cast", "to_date", "to_timestamp"}:
            return _cast(argument, expression.type, columns)
        case Call(function) if expression.type == BOOLEAN and function in _BOOLEAN_CALLS:
            test = compile_condition(expression, columns)
            return lambda files: [_outcomes_range(outcomes) for outcomes in test(files)]
        case Call():
            return _call(expression, columns)


def _same(range_: ValueRange) -> Read:
    return lambda files: [range_] * len(files)


def _any(files: Files) -> Sequence[TruthValues]:
    return [ANY] * len(files)


def _guard_test(test: Test) -> Test:
    """Wrap a test so that files it fails on count as possible, found one at a time."""

    def run(files: Files) -> Sequence[TruthValues]:
        try:
            return test(files)
        except _ERRORS:
            return [ANY] if len(files) == 1 else [run([file])[0] for file in files]

    return run


def _all(parts: Sequence[Test]) -> Test:
    def run(files: Files) -> Sequence[TruthValues]:
        rows = [part(files) for part in parts]
        return [reduce(_and, row) for row in zip(*rows, strict=True)]

    return run


def _and(left: TruthValues, right: TruthValues) -> TruthValues:
    null = (left.null and (right.true or right.null)) or (right.null and left.true)
    return TruthValues(left.true and right.true, left.false or right.false, null)


def _inverse(test: Test) -> Test:
    return lambda files: [
        TruthValues(outcomes.false, outcomes.true, outcomes.null) for outcomes in test(files)
    ]


def _truth(range_: ValueRange) -> TruthValues:
    if not range_.values:
        return TruthValues(true=False, false=False, null=range_.null)
    return TruthValues(range_.high is not False, range_.low is not True, range_.null)


def _outcomes_range(outcomes: TruthValues) -> ValueRange:
    return ValueRange(
        not outcomes.false, outcomes.true, outcomes.true or outcomes.false, outcomes.null, nan=False
    )


# --- tests ---


def _operands(arguments: Sequence[Expression], columns: Columns) -> list[Read] | None:
    """Return readers of the operands in their comparison type; None if it has no order."""
    target = common_type([argument.type for argument in arguments])
    if target is None or is_complex(target):
        return None
    return [_cast(argument, target, columns) for argument in arguments]


def _cast(argument: Expression, target: DataType, columns: Columns) -> Read:
    value, source = compile_value(argument, columns), argument.type
    if source == target:
        return value
    if isinstance(argument, Literal):
        try:
            return _same(cast_ranges(value([None]), source, target)[0])
        except _ERRORS:
            return _same(UNKNOWN)
    return lambda files: cast_ranges(value(files), source, target)


def _compare(
    holds: Callable[[ValueRange, ValueRange], tuple[bool, bool]],
) -> Callable[[Sequence[Expression], Columns], Test]:
    def build(arguments: Sequence[Expression], columns: Columns) -> Test:
        operands = _operands(arguments, columns)
        if operands is None:
            return _any
        read_left, read_right = operands

        def one(left: ValueRange, right: ValueRange) -> TruthValues:
            if not (left.values or left.nan) or not (right.values or right.nan):
                return TruthValues(true=False, false=False, null=True)
            true, false = holds(left, right)
            return TruthValues(true, false, left.null or right.null)

        return lambda files: list(map(one, read_left(files), read_right(files)))

    return build


def _reaches(low: Any, high: Any) -> bool:  # noqa: ANN401 - bounds of one type
    return low is None or high is None or bool(low <= high)


def _meets(left: ValueRange, right: ValueRange) -> bool:
    """Return whether two ranges can share a value."""
    if left.nan and right.nan:
        return True
    both = left.values and right.values
    return both and _reaches(left.low, right.high) and _reaches(right.low, left.high)


def _equal(left: ValueRange, right: ValueRange) -> tuple[bool, bool]:
    meets = _meets(left, right)
    return meets, not (meets and left.single and right.single)


def _less(left: ValueRange, right: ValueRange) -> tuple[bool, bool]:
    both = left.values and right.values
    below = both and (left.low is None or right.high is None or bool(left.low < right.high))
    at_least = both and _reaches(right.low, left.high)
    return below or (left.values and right.nan), at_least or left.nan


def _swap_sides(
    test: Callable[[ValueRange, ValueRange], tuple[bool, bool]],
) -> Callable[..., tuple[bool, bool]]:
    return lambda left, right: test(right, left)


def _negate_test(
    test: Callable[[ValueRange, ValueRange], tuple[bool, bool]],
) -> Callable[..., tuple[bool, bool]]:
    return lambda left, right: test(left, right)[::-1]


def _null_safe_equal(arguments: Sequence[Expression], columns: Columns) -> Test:
    operands = _operands(arguments, columns)
    if operands is None:
        return _any
    read_left, read_right = operands

    def one(left: ValueRange, right: ValueRange) -> TruthValues:
        left_value, right_value = left.values or left.nan, right.values or right.nan
        meets, differs = _equal(left, right) if left_value and right_value else (False, False)
        one_null = (left.null and right_value) or (right.null and left_value)
        return TruthValues(meets or (left.null and right.null), differs or one_null, null=False)

    return lambda files: list(map(one, read_left(files), read_right(files)))


def _compile_in(arguments: Sequence[Expression], columns: Columns) -> Test:
    """Compile IN as a series of equalities, provided each compares in the common type of all."""
    operand, *options = arguments
    together = common_type([argument.type for argument in arguments])
    pairwise = all(common_type([operand.type, option.type]) == together for option in options)
    if (
        together is None
        or not pairwise
        or not options
        or any(isinstance(option, Subquery) for option in options)
    ):
        return _any
    if all(isinstance(option, Literal) for option in options):
        constants = [_cast(option, together, columns)([None])[0] for option in options]
        if all(range_.known and not range_.nan for range_ in constants):
            return _compile_in_constants(_cast(operand, together, columns), constants)
    return _inverse(_all([_inverse(_TESTS["="]((operand, option), columns)) for option in options]))


def _compile_in_constants(value: Read, constants: Sequence[ValueRange]) -> Test:
    """Compile IN over many constants as a binary search."""
    values = sorted(constant.low for constant in constants if constant.values)
    null = len(values) < len(constants)

    def one(range_: ValueRange) -> TruthValues:
        if not (range_.values or range_.nan):
            return TruthValues(true=False, false=False, null=True)
        at = 0 if range_.low is None else bisect_left(values, range_.low)
        true = range_.values and at < len(values) and _reaches(values[at], range_.high)
        certain = true and range_.single
        return TruthValues(true, not certain and not null, range_.null or (null and not certain))

    return lambda files: list(map(one, value(files)))


def _is_null(arguments: Sequence[Expression], columns: Columns) -> Test:
    value = compile_value(arguments[0], columns)
    return lambda files: [
        TruthValues(range_.null, range_.values or range_.nan, null=False) for range_ in value(files)
    ]


def _is_not_null(arguments: Sequence[Expression], columns: Columns) -> Test:
    return _inverse(_is_null(arguments, columns))


def _compile_like(arguments: Sequence[Expression], columns: Columns) -> Test:
    """Compile LIKE as a prefix test; the pattern after the first wildcard may always match."""
    pattern = arguments[1]
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str) or len(arguments) > 2:
        return _any
    end = min((at for at in map(pattern.value.find, "%_\\") if at >= 0), default=None)
    return _begins(arguments[0], pattern.value[:end], columns)


def _starts_with(arguments: Sequence[Expression], columns: Columns) -> Test:
    prefix = arguments[1]
    if not isinstance(prefix, Literal) or not isinstance(prefix.value, str):
        return _any
    return _begins(arguments[0], prefix.value, columns)


def _begins(operand: Expression, prefix: str, columns: Columns) -> Test:
    value = compile_value(operand, columns)
    prefixed = ValueRange(prefix, prefix_upper_bound(prefix), null=False, nan=False)
    return lambda files: [
        TruthValues(range_.values and _meets(range_, prefixed), range_.values, range_.null)
        for range_ in value(files)
    ]


_TESTS: dict[str, Callable[[Sequence[Expression], Columns], Test]] = {
    "=": _compare(_equal),
    "<>": _compare(_negate_test(_equal)),
    "<": _compare(_less),
    ">": _compare(_swap_sides(_less)),
    ">=": _compare(_negate_test(_less)),
    "<=": _compare(_negate_test(_swap_sides(_less))),
    "<=>": _null_safe_equal,
    "in": _compile_in,
    "isnull": _is_null,
    "isnotnull": _is_not_null,
    "like": _compile_like,
    "startswith": _starts_with,
}
_BOOLEAN_CALLS = frozenset({*_TESTS, "and", "or", "not"})


def _call(call: Call, columns: Columns) -> Read:
    readers = [
        None if isinstance(argument, Literal) else compile_value(argument, columns)
        for argument in call.arguments
    ]

    def run(files: Files) -> Sequence[ValueRange]:
        columns_of_ranges = [
            repeat(None) if reader is None else reader(files) for reader in readers
        ]
        rows = [row for _, *row in zip(files, *columns_of_ranges, strict=False)]
        return evaluate_calls(call, rows)

    return run
