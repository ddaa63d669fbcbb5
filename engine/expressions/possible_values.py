"""Possible values of an expression within bounds on its columns: a superset of the actual ones.

`TruthValues` says whether a condition may be true, false or null for some row within the bounds.
Unsupported expressions may have any value, so only the absence of `true` is proof. A cast or
function over a range is exact for one value, and bounded if it preserves the order.

A condition is compiled once and evaluated for many files: types, casts and literals are resolved at
compilation, and functions are evaluated over the files as a column.

Upper bounds of texts in statistics are truncated, with the last character raised. Older writers
truncate after 32 UTF-16 units, which are 16 characters beyond U+FFFF, and append U+FFFD. This is no
bound in the order of UTF-8: such a character sorts above it, and half of one becomes `?`.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, time
from decimal import Decimal
from functools import cache, reduce
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from engine.errors import CannotEvaluateError
from engine.expressions.arrow_cast import arrow_type
from engine.expressions.evaluate import evaluate_arrow
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
from engine.expressions.types import FLOATS, INTEGRALS, common_type, is_complex
from engine.schema.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
)

_LAST = 0x10FFFF

_ORDER_KEEPING = {"year": 0, "trunc": 0, "date_trunc": 1, "date_add": 0, "date_sub": 0}
"""Functions that preserve the order of the argument at this index."""
_NO_ANSWER = -1

_KEPT_UNITS = 32
_TIE_BREAKER = "\ufffd"
_HALF = "?"

_MOMENTS: dict[tuple[DataType, DataType], Callable[[Any], Any]] = {
    (DATE, TIMESTAMP): lambda day: datetime.combine(day, time(), UTC),
    (DATE, TIMESTAMP_NTZ): lambda day: datetime.combine(day, time()),
    (TIMESTAMP, DATE): lambda moment: moment.date(),
    (TIMESTAMP_NTZ, DATE): lambda moment: moment.date(),
    (TIMESTAMP, TIMESTAMP_NTZ): lambda moment: moment.replace(tzinfo=None),
    (TIMESTAMP_NTZ, TIMESTAMP): lambda moment: moment.replace(tzinfo=UTC),
}


class TruthValues(NamedTuple):
    """Whether a condition may be true, false and null."""

    true: bool
    false: bool
    null: bool


ANY = TruthValues(true=True, false=True, null=True)


class ValueRange(NamedTuple):
    """The possible values of an expression: null, NaN, and those from `low` to `high`, inclusive.

    None as a bound is no bound. `values` is False if no value between the bounds is possible.
    """

    low: Any = None
    high: Any = None
    values: bool = True
    null: bool = True
    nan: bool = True

    @property
    def single(self) -> bool:
        """Whether there is one value it can take, null aside."""
        if not self.values:
            return self.nan
        return not self.nan and self.low is not None and bool(self.low == self.high)

    @property
    def known(self) -> bool:
        """Whether it is one value, null or NaN, and nothing else."""
        if not self.values:
            return self.null != self.nan
        return not self.null and self.single

    @property
    def value(self) -> Any:  # noqa: ANN401 - any value
        """The only value of a known range; its bounds do not apply if it is null."""
        return float("nan") if self.nan else self.low if self.values else None


UNKNOWN = ValueRange()
NULL = ValueRange(values=False, nan=False)


def constant(value: Any) -> ValueRange:  # noqa: ANN401 - any value of any type
    """Return the range of one value."""
    if value is None:
        return NULL
    if isinstance(value, float) and value != value:
        return ValueRange(values=False, null=False)
    return ValueRange(value, value, null=False, nan=False)


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


def cast_ranges(
    ranges: Sequence[ValueRange], source: DataType, target: DataType
) -> list[ValueRange]:
    """Cast ranges; a range of several values becomes UNKNOWN if the cast may change their order."""
    convert = _monotone(source, target)
    if convert is not None:
        return [_convert_range(range_, convert) for range_ in ranges]
    call = Call("cast", (Column(("",), source),), target)
    single = [[range_.low] for range_ in ranges if range_.values and range_.known]
    answers = iter(_evaluate_rows(call, single))
    return [
        _drop_nan(range_, target)
        if not range_.values
        else next(answers)
        if range_.known
        else UNKNOWN
        for range_ in ranges
    ]


def _drop_nan(range_: ValueRange, target: DataType) -> ValueRange:
    """Return UNKNOWN for NaN unless the target is floating point, which has it; null stays null."""
    return UNKNOWN if range_.nan and target not in FLOATS else range_


def _convert_range(range_: ValueRange, convert: Callable[[Any], Any]) -> ValueRange:
    if not range_.values:
        return range_
    low = None if range_.low is None else convert(range_.low)
    high = None if range_.high is None else convert(range_.high)
    return ValueRange(low, high, range_.values, range_.null, range_.nan)


def evaluate_calls(call: Call, rows: Sequence[Sequence[ValueRange | None]]) -> list[ValueRange]:
    """Evaluate a call for each row of argument ranges; None stands for a literal."""
    at = _ORDER_KEEPING.get(call.function)
    asked: list[list[Any]] = []
    places = [_ask(row, at, asked) for row in rows]
    answers = [*_evaluate_rows(call, asked), UNKNOWN]
    return [
        answers[low]
        if moving is None
        else ValueRange(answers[low].low, answers[high].high, moving.values, null=True, nan=False)
        for low, high, moving in places
    ]


def _ask(
    row: Sequence[ValueRange | None], at: int | None, asked: list[list[Any]]
) -> tuple[int, int, ValueRange | None]:
    """Queue the argument values for one row's range; return the indices of its results."""
    values = [range_.value if range_ is not None and range_.known else None for range_ in row]
    unknown = [index for index, range_ in enumerate(row) if range_ is not None and not range_.known]
    if not unknown:
        asked.append(values)
        return len(asked) - 1, -1, None
    moving = row[unknown[0]]
    if unknown != [at] or moving is None:
        return _NO_ANSWER, _NO_ANSWER, None
    ends = []
    for bound in (moving.low, moving.high):
        if bound is not None:
            asked.append([bound if index == at else value for index, value in enumerate(values)])
        ends.append(_NO_ANSWER if bound is None else len(asked) - 1)
    return ends[0], ends[1], moving


@cache
def _monotone(source: DataType, target: DataType) -> Callable[[Any], Any] | None:
    """Return an order-preserving conversion of single values; None if the cast is not."""
    if source == target:
        return lambda value: value
    if target == DOUBLE and (
        source in INTEGRALS or source in FLOATS or isinstance(source, DecimalType)
    ):
        return float
    if isinstance(target, DecimalType):
        widens = isinstance(source, DecimalType) and source.scale <= target.scale
        return Decimal if source in INTEGRALS or widens else None
    if source in INTEGRALS and target in INTEGRALS:
        return int
    return _MOMENTS.get((source, target))


def _evaluate_rows(call: Call, rows: Sequence[Sequence[Any]]) -> list[ValueRange]:
    """Evaluate a call for each row of arguments: as columns, or row by row after an error."""
    ranges = _evaluate_columns(call, rows) if len(rows) > 1 else None
    return [_evaluate_row(call, row) for row in rows] if ranges is None else ranges


def _evaluate_columns(call: Call, rows: Sequence[Sequence[Any]]) -> list[ValueRange] | None:
    arguments: list[Expression] = []
    columns: dict[str, pa.Array] = {"": pa.nulls(len(rows))}
    try:
        for index, argument in enumerate(call.arguments):
            name = f"a{index}"
            if isinstance(argument, Literal):
                arguments.append(argument)
            else:
                columns[name] = pa.array([row[index] for row in rows], arrow_type(argument.type))
                arguments.append(Column((name,), argument.type))
        results = evaluate_arrow(
            Call(call.function, tuple(arguments), call.type), pa.table(columns)
        )
    except (CannotEvaluateError, ValueError, TypeError, OverflowError, pa.ArrowException):
        return None
    return [constant(value) for value in results.to_pylist()]


def _evaluate_row(call: Call, values: Sequence[Any]) -> ValueRange:
    arguments = tuple(
        argument if isinstance(argument, Literal) else Literal(value, argument.type)
        for argument, value in zip(call.arguments, values, strict=True)
    )
    return _evaluate_constant(Call(call.function, arguments, call.type))


def _evaluate_constant(expression: Expression) -> ValueRange:
    try:
        return constant(evaluate_arrow(expression, pa.table({"": pa.nulls(1)}))[0].as_py())
    except (CannotEvaluateError, ValueError, OverflowError):
        return UNKNOWN


def prefix_upper_bound(prefix: str) -> str | None:
    """Return a text at or above every text with a prefix; None if there is none."""
    for index in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[index])
        if code < _LAST:
            return prefix[:index] + chr(0xE000 if code == 0xD7FF else code + 1)
    return None


def may_be_cut(maximum: str) -> bool:
    """Return whether a maximum may be a truncated text."""
    long = 2 * len(maximum) >= _KEPT_UNITS and len(_units(maximum)) >= 2 * _KEPT_UNITS
    return long or maximum.endswith(_TIE_BREAKER)


def upper_bound(maximum: str) -> str | None:
    """Return a text at or above all values behind a maximum; None if there is no bound."""
    if not may_be_cut(maximum):
        return maximum
    kept = _units(maximum)[: 2 * _KEPT_UNITS].decode("utf-16-le", "ignore")
    return prefix_upper_bound(kept.rstrip(_TIE_BREAKER).removesuffix(_HALF))


def _units(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")
