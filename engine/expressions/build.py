"""Checked construction of calls: the only way from text to a `Call`."""

from collections.abc import Sequence
from decimal import Decimal

from engine.errors import ExpressionError
from engine.expressions.functions import (
    ARITHMETIC,
    GROWING,
    MAX_REPLACEMENT,
    PADDING,
    Function,
    find,
    remedy_for,
)
from engine.expressions.like import LIKE, check_like
from engine.expressions.literals import decimal_type_of
from engine.expressions.nested_calls import NESTED, build_nested_call
from engine.expressions.regex import REGEX, check_regex
from engine.expressions.traits import conjunction, disjunction
from engine.expressions.tree import INTERVAL, Call, Column, Expression, Interval, Literal, walk
from engine.expressions.types import INTEGRALS, TIMES, is_numeric, may_be_cast, sql_name
from engine.schema.types import (
    BOOLEAN,
    DATE,
    INTEGER,
    STRING,
    TIMESTAMP,
    DataType,
    DecimalType,
)

_COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">=", "<=>", "in"})

_EMPTY = {
    "array": "An empty one has a type: from_json('[]', 'ARRAY<INT>').",
    "map": "An empty one has types: from_json('{}', 'MAP<STRING, INT>').",
}


def call(name: str, arguments: Sequence[Expression], position: int | None = None) -> Expression:
    """Build a typed call of a function or operator.

    Raises:
        ExpressionError: it is unknown, has a wrong number of arguments, or incompatible types.
    """
    function = find(name)
    if function is None:
        what = f"The function {name[:100]} is not supported in an expression."
        raise ExpressionError(what, remedy_for(name), position=position)
    if function.name in {"and", "or"} and all(_is_boolean(argument) for argument in arguments):
        return conjunction(arguments) if function.name == "and" else disjunction(arguments)
    if function.name in {"+", "-"} and _moves_a_date(arguments):
        return call("date_add" if function.name == "+" else "date_sub", arguments, position)
    if not _takes(function, len(arguments)):
        what = f"{function.name} does not take {len(arguments)} arguments."
        remedy = _EMPTY.get(name.lower(), "") if not arguments else ""
        raise ExpressionError(what, remedy or "Check its arguments.", position=position)
    return _build_typed_call(function, _arrange_arguments(function.name, arguments), position)


def _takes(function: Function, count: int) -> bool:
    return function.accepts_count(4 if function.name == "regexp_replace" and count == 3 else count)


def _arrange_arguments(name: str, arguments: Sequence[Expression]) -> Sequence[Expression]:
    """Arrange the arguments as Spark expects them."""
    if name in {"+", "-"}:
        return _promote_date(name, arguments)
    if name == "regexp_replace" and len(arguments) == 3:
        return (*arguments, Literal(1, INTEGER))
    if name == "concat":
        return [_cast_to_text(argument) for argument in arguments]
    return _pad_char_arguments(arguments) if name in _COMPARISONS else arguments


def _cast_to_text(argument: Expression) -> Expression:
    """Cast a number, boolean or time to text, as Spark does next to texts."""
    plain = is_numeric(argument.type) or argument.type in {BOOLEAN, *TIMES}
    return Call("cast", (argument,), STRING) if plain else argument


def _build_typed_call(
    function: Function, arguments: Sequence[Expression], position: int | None
) -> Expression:
    types = [argument.type for argument in arguments]
    mismatch = function.mismatch(types)
    if mismatch:
        raise _type_error(function.name, types[mismatch[0]], mismatch[1], position)
    _check_cost(function.name, arguments, position)
    if function.name in NESTED:
        return build_nested_call(function.name, arguments, position)
    result = function.result(_narrow_types(function.name, arguments, types))
    if result is None:
        shown = ", ".join(sql_name(type_) for type_ in types[:5])
        what = f"{function.name} cannot combine the types {shown}."
        remedy = "Cast one value to the type of the other."
        if function.name == "-" and all(type_ in TIMES for type_ in types):
            remedy = "Use datediff(end, start) for days, or unix_seconds for seconds."
        raise ExpressionError(what, remedy, position=position)
    return Call(function.name, tuple(arguments), result)


def cast(
    operand: Expression, target: DataType, *, lenient: bool, position: int | None = None
) -> Expression:
    """CAST, or with `lenient` TRY_CAST, between atomic types, or collections of like shape."""
    if not may_be_cast(operand.type, target):
        what = f"{sql_name(operand.type)} cannot be cast to {sql_name(target)} here."
        remedy = (
            "Cast atomic values, or values of the same structure: a struct to a struct, an "
            "array to an array."
        )
        raise ExpressionError(what, remedy, position=position)
    return Call("try_cast" if lenient else "cast", (operand,), target)


def _pad_char_arguments(arguments: Sequence[Expression]) -> Sequence[Expression]:
    """Pad literals and shorter CHAR columns next to a CHAR column with spaces, as in Spark."""
    lengths = [argument.char_length for argument in arguments if isinstance(argument, Column)]
    length = max(lengths, default=0)
    return [_pad_argument(argument, length) for argument in arguments] if length else arguments


def _pad_argument(argument: Expression, length: int) -> Expression:
    match argument:
        case Literal(str(text), data_type) if data_type == STRING:
            return Literal(text[:length].ljust(length) + text[length:].rstrip(" "), STRING)
        case Column(char_length=shorter) if 0 < shorter < length:
            return call("rpad", (argument, Literal(length, INTEGER), Literal(" ", STRING)))
        case _:
            return argument


def _is_boolean(expression: Expression) -> bool:
    function = find("not")
    return function is not None and function.mismatch([expression.type]) is None


def _promote_date(operator: str, arguments: Sequence[Expression]) -> Sequence[Expression]:
    """Put the date before its interval, and cast it to a timestamp for a time interval."""
    if len(arguments) == 2 and operator == "+" and arguments[0].type == INTERVAL:
        arguments = (arguments[1], arguments[0])
    if len(arguments) != 2 or arguments[0].type != DATE:
        return arguments
    span = arguments[1].value if isinstance(arguments[1], Literal) else None
    if isinstance(span, Interval) and span.unit == "MICROSECOND":
        return (Call("cast", (arguments[0],), TIMESTAMP), arguments[1])
    return arguments


def _moves_a_date(arguments: Sequence[Expression]) -> bool:
    return len(arguments) == 2 and arguments[0].type == DATE and arguments[1].type in INTEGRALS[:3]


def _narrow_types(
    name: str, arguments: Sequence[Expression], types: Sequence[DataType]
) -> Sequence[DataType]:
    """Narrow integer literals next to a decimal to their written digits, as in Spark."""
    if name not in ARITHMETIC or not any(isinstance(type_, DecimalType) for type_ in types):
        return types
    return [_digits(argument) for argument in arguments]


def _digits(argument: Expression) -> DataType:
    if isinstance(argument, Literal) and argument.type in INTEGRALS:
        return decimal_type_of(Decimal(str(argument.value))) or argument.type
    return argument.type


def _check_cost(name: str, arguments: Sequence[Expression], position: int | None) -> None:
    if name in LIKE:
        check_like(name, tuple(arguments), position)
    if name in REGEX:
        check_regex(name, arguments, position)
    _check_growth(name, arguments, position)


def _check_growth(name: str, arguments: Sequence[Expression], position: int | None) -> None:
    remedy = "Use a smaller number."
    if name in PADDING:
        length = arguments[1]
        if not isinstance(length, Literal) or not isinstance(length.value, int):
            what = f"The length of {name} must be a number."
            raise ExpressionError(what, "Write a literal.", position=position)
        if length.value > PADDING[name]:
            what = f"{name} to {length.value} characters is too long: {PADDING[name]} is the limit."
            raise ExpressionError(what, remedy, position=position)
    if name in GROWING and any(
        isinstance(node, Call) and node.function in GROWING
        for argument in arguments
        for node in walk(argument)
    ):
        what = f"{name} inside {name} can produce a result without a size limit."
        raise ExpressionError(what, "Use it once.", position=position)
    if name == "replace" and any(_is_long(argument) for argument in arguments):
        what = f"A string in {name} is longer than {MAX_REPLACEMENT} characters."
        raise ExpressionError(what, "Use a shorter string.", position=position)


def _is_long(argument: Expression) -> bool:
    text = argument.value if isinstance(argument, Literal) else None
    return isinstance(text, str) and len(text) > MAX_REPLACEMENT


def _type_error(
    name: str, data_type: DataType, family: str, position: int | None
) -> ExpressionError:
    remedy = "Cast it first." if data_type != STRING else "Cast the string to the intended type."
    what = f"{name} takes a {family}, not {sql_name(data_type)}."
    return ExpressionError(what, remedy, position=position)
