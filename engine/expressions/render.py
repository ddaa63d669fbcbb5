"""Rendering of trees to SQL: the only expressions Spark gets as text.

Every name is in backticks and every string is escaped, so nothing in a value or name can be read as
SQL, or as one of Spark's `${variables}`.
"""

from datetime import date, datetime
from decimal import Decimal
from typing import assert_never

from engine.errors import ExpressionError
from engine.expressions.tree import (
    Call,
    Column,
    Expression,
    Interval,
    Literal,
    SparkExpression,
    Subquery,
    Value,
    Variable,
)
from engine.expressions.types import is_complex, sql_name
from engine.schema.types import (
    BYTE,
    DOUBLE,
    FLOAT,
    LONG,
    SHORT,
    TIMESTAMP_NTZ,
    DataType,
)

_INFIX = frozenset({"=", "<=>", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%"})
_PLAIN = frozenset("\t\n\r")
_SUFFIXES: dict[DataType, str] = {LONG: "L", SHORT: "S", BYTE: "Y"}


def to_sql(expression: Expression) -> str:  # noqa: PLR0911 - one case per node
    """Render canonical Spark SQL. Parsing it over the same schema gives the same tree.

    Subqueries and Spark's own expressions are shown as written: Spark gets neither as text.

    Raises:
        ExpressionError: Spark could read a column's name as a variable.
    """
    match expression:
        case Column():
            return _column(expression)
        case Literal(value, data_type):
            return _literal(value, data_type)
        case Call():
            return _call(expression)
        case Subquery():
            return _subquery(expression)
        case Variable(name):
            return quote_name(name)
        case SparkExpression():
            return expression.text
        case _:
            assert_never(expression)


def quote_name(name: str) -> str:
    """Quote a name in backticks.

    Raises:
        ExpressionError: the name holds `${`, which Spark replaces even inside backticks.
    """
    if "${" in name:
        what = (
            f"The name {name[:100]!r} cannot be used in a statement: Spark reads ${{ as a variable."
        )
        raise ExpressionError(what, "Rename the column first.")
    return f"`{name.replace('`', '``')}`"


def quote_string(text: str) -> str:
    r"""Quote a string; quotes, backslashes, `$` and control characters are escaped as \uXXXX."""
    return "'" + "".join(_character(character) for character in text) + "'"


def _character(character: str) -> str:
    if (
        character in "'\\$\""
        or (ord(character) < 32 or 0x7F <= ord(character) <= 0x9F)
        or 0xD800 <= ord(character) < 0xE000
    ):
        return "\\\\" if character == "\\" else f"\\u{ord(character):04x}"
    return character


def _column(column: Column) -> str:
    parts = (column.relation, *column.path) if column.relation else column.path
    return ".".join(quote_name(part) for part in parts)


def _call(call: Call) -> str:
    name, arguments = call.function, call.arguments
    operands = [_operand(argument) for argument in arguments]
    if name in {"and", "or"}:
        return f" {name.upper()} ".join(operands)
    if name in _INFIX and len(operands) == 2:
        return f"{operands[0]} {name} {operands[1]}"
    special = _special(call, operands)
    if special is not None:
        return special
    return f"{name}({', '.join(to_sql(argument) for argument in arguments)})"


def _special(call: Call, operands: list[str]) -> str | None:  # noqa: C901, PLR0911, PLR0912
    match call.function:
        case "not":
            return f"NOT {operands[0]}"
        case "negative":
            return f"-({to_sql(call.arguments[0])})"
        case "div":
            return f"{operands[0]} DIV {operands[1]}"
        case "isnull":
            return f"{operands[0]} IS NULL"
        case "isnotnull":
            return f"{operands[0]} IS NOT NULL"
        case "in":
            return f"{operands[0]} IN {_render_in_list(call)}"
        case "like" | "ilike":
            escape = f" ESCAPE {operands[2]}" if len(operands) == 3 else ""
            return f"{operands[0]} {call.function.upper()} {operands[1]}{escape}"
        case "get":
            return f"{operands[0]}[{to_sql(call.arguments[1])}]"
        case "case":
            return _case(call)
        case "field":
            return f"{operands[0]}.{_field_name(call)}"
        case "lambda":
            body, *variables = map(to_sql, call.arguments)
            names = variables[0] if len(variables) == 1 else f"({', '.join(variables)})"
            return f"{names} -> {body}"
        case "cast" | "try_cast":
            return f"{call.function.upper()}({to_sql(call.arguments[0])} AS {_type(call.type)})"
        case _:
            return None


def _operand(expression: Expression) -> str:
    text = to_sql(expression)
    if isinstance(expression, Call | SparkExpression) or text.startswith("-"):
        return f"({text})"
    return text


def _type(data_type: DataType) -> str:
    text = sql_name(data_type)
    if "${" in text:
        what = "A field of a struct has a name with ${, which Spark reads as a variable."
        raise ExpressionError(what, "Rename the field first.")
    return text


def _field_name(call: Call) -> str:
    name = call.arguments[1]
    return quote_name(str(name.value) if isinstance(name, Literal) else "")


def _render_in_list(call: Call) -> str:
    first = call.arguments[1]
    if isinstance(first, Subquery):
        return to_sql(first)
    return f"({', '.join(to_sql(argument) for argument in call.arguments[1:])})"


def _case(call: Call) -> str:
    parts = [to_sql(argument) for argument in call.arguments]
    pairs = len(parts) // 2 * 2
    whens = [f"WHEN {parts[i]} THEN {parts[i + 1]}" for i in range(0, pairs, 2)]
    ending = [f"ELSE {parts[-1]}"] if len(parts) > pairs else []
    return " ".join(["CASE", *whens, *ending, "END"])


def _subquery(subquery: Subquery) -> str:
    """Render a subquery for users: Spark is given a DataFrame instead."""
    return f"{'EXISTS ' if subquery.kind == 'exists' else ''}({subquery.text})"


def _literal(value: Value, data_type: DataType) -> str:  # noqa: C901, PLR0911 - one case per type
    if value is None:
        return _null(data_type)
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return f"{value}{_SUFFIXES.get(data_type, '')}"
        case float():
            return _render_float(value, data_type)
        case Decimal():
            text = format(value, "f")
            return text if "." in text else f"{text}BD"
        case str():
            return quote_string(value)
        case bytes():
            return f"X'{value.hex().upper()}'"
        case datetime() | date():
            return _moment(value, data_type)
        case Interval():
            return _interval(value)
        case _:
            assert_never(value)


def _null(data_type: DataType) -> str:
    name = sql_name(data_type)
    return "NULL" if name == "VOID" or is_complex(data_type) else f"CAST(NULL AS {name})"


def _render_float(value: float, data_type: DataType) -> str:
    if value != value or value in {float("inf"), float("-inf")}:
        name = "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
        return f"CAST('{name}' AS {sql_name(data_type)})"
    return f"{value!r}{'F' if data_type == FLOAT else 'D' if data_type == DOUBLE else ''}"


def _moment(value: datetime | date, data_type: DataType) -> str:
    if not isinstance(value, datetime):
        return f"DATE '{value.isoformat()}'"
    if data_type == TIMESTAMP_NTZ:
        return f"TIMESTAMP_NTZ '{value.replace(tzinfo=None).isoformat(' ')}'"
    return f"TIMESTAMP '{value.isoformat(' ')}'"


def _interval(value: Interval) -> str:
    if value.unit == "MICROSECOND":
        whole, rest = divmod(abs(value.amount), 1_000_000)
        sign = "-" if value.amount < 0 else ""
        return f"INTERVAL '{sign}{whole}.{rest:06d}' SECOND"
    return f"INTERVAL '{value.amount}' {value.unit}"
