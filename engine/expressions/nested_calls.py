"""Calls whose type depends on literals: structs by field names, JSON by its schema."""

from collections import Counter
from collections.abc import Sequence

from engine.errors import ExpressionError, StatementError
from engine.expressions.cursor import Cursor
from engine.expressions.lexer import tokenize
from engine.expressions.nested_types import struct_of
from engine.expressions.tree import Call, Expression, Literal, Variable, walk
from engine.expressions.type_grammar import read_type
from engine.expressions.types import sql_name
from engine.schema.types import STRING, ArrayType, DataType, MapType, StructType

NESTED = frozenset({"named_struct", "from_json", "field", "aggregate"})
MAX_LAMBDAS = 2
"""Limit of nested lambdas: each level multiplies the work by the length of its array."""
_CHOICES = frozenset({"case", "if", "coalesce", "nvl2", "nullif", "lambda"})


def build_nested_call(
    name: str, arguments: Sequence[Expression], position: int | None
) -> Expression:
    """Build the call of one of `NESTED`.

    Raises:
        ExpressionError: a name or schema is not a literal, or is invalid.
    """
    match name:
        case "named_struct":
            return _struct(arguments, position)
        case "from_json":
            return _json(arguments, position)
        case "field":
            return field(arguments[0], str(_literal(arguments[1], "a field", position)), position)
        case _:
            return _aggregate(arguments, position)


def _struct(arguments: Sequence[Expression], position: int | None) -> Expression:
    if len(arguments) % 2:
        what = "named_struct takes names and values in turn."
        raise ExpressionError(what, "Give each name a value.", position=position)
    names = [_literal(argument, "a name of named_struct", position) for argument in arguments[::2]]
    twice = [name for name, count in Counter(map(str.lower, names)).items() if count > 1]
    if twice or not all(names):
        what = (
            f"named_struct has the field {twice[0]!r} twice." if twice else "A field has no name."
        )
        raise ExpressionError(what, "Give each a name of its own.", position=position)
    made = struct_of(names, [argument.type for argument in arguments[1::2]])
    return Call("named_struct", tuple(arguments), made)


def _json(arguments: Sequence[Expression], position: int | None) -> Expression:
    text = _literal(arguments[1], "the schema of from_json", position)
    schema = schema_of(text, position)
    return Call("from_json", (arguments[0], Literal(sql_name(schema), STRING)), schema)


def schema_of(text: str, position: int | None) -> DataType:
    """Parse a schema: a type, or `name TYPE, …` for a struct.

    Raises:
        ExpressionError: it is invalid, or not a type of JSON values.
    """
    try:
        tokens = tokenize(text)
        listed = len(tokens) > 1 and tokens[1].value not in {"<", "("}
        shown = f"STRUCT<{text}>" if listed else text
        cursor = Cursor(tokenize(shown), shown)
        schema = read_type(cursor)
        if not cursor.at_end:
            cursor.refuse("the type should have ended")
    except StatementError as error:
        what = f"{text[:100]!r} is no schema: {error.what}"
        raise ExpressionError(what, "Write it as 'a INT, b STRING'.", position=position) from error
    if "${" in text:
        what = "A field of the schema has a name with ${, which Spark reads as a variable."
        raise ExpressionError(what, "Choose another name.", position=position)
    if not isinstance(schema, StructType | ArrayType | MapType):
        what = f"from_json makes structs, arrays and maps, and no {sql_name(schema)}."
        raise ExpressionError(what, "Write the schema as 'a INT, b STRING'.", position=position)
    return schema


def field(operand: Expression, name: str, position: int | None) -> Expression:
    """Build the access to a struct's field.

    Raises:
        ExpressionError: it has no field of this name.
    """
    inside = operand.type.get(name) if isinstance(operand.type, StructType) else None
    if inside is None:
        what = f"{sql_name(operand.type)[:200]} has no field {name[:100]}."
        raise ExpressionError(what, "Check its spelling.", position=position)
    return Call("field", (operand, Literal(inside.name, STRING)), inside.type)


def _aggregate(arguments: Sequence[Expression], position: int | None) -> Expression:
    start, merge = arguments[1], arguments[2]
    if start.type != merge.type:
        what = (
            f"aggregate starts with {sql_name(start.type)} and goes on with {sql_name(merge.type)}."
        )
        raise ExpressionError(what, "Cast the start to the type of the lambda.", position=position)
    if isinstance(merge, Call) and _grows(merge.arguments[0], merge.arguments[1]):
        what = "aggregate can grow without bound: what is gathered stands twice in one call."
        raise ExpressionError(what, "Use it once in each call.", position=position)
    return Call("aggregate", tuple(arguments), arguments[-1].type)


def _grows(body: Expression, gathered: Expression) -> bool:
    """Return whether a step may multiply the accumulated value, if it has no fixed size."""
    if not isinstance(gathered, Variable) or _is_fixed(gathered.type):
        return False
    for node in walk(body):
        if not isinstance(node, Call) or node.function in _CHOICES or _is_fixed(node.type):
            continue
        holding = sum(
            any(part == gathered for part in walk(argument)) for argument in node.arguments
        )
        if holding > 1 or (holding and node.function in {"replace", "regexp_replace", "transform"}):
            return True
    return False


def _is_fixed(data_type: DataType) -> bool:
    match data_type:
        case StructType(fields):
            return all(_is_fixed(inside.type) for inside in fields)
        case ArrayType() | MapType():
            return False
        case _:
            return sql_name(data_type) not in {"STRING", "BINARY"}


def lambda_depth(expression: Expression) -> int:
    """Return the nesting depth of lambdas."""
    deepest = max((lambda_depth(part) for part in getattr(expression, "arguments", ())), default=0)
    return deepest + (isinstance(expression, Call) and expression.function == "lambda")


def _literal(argument: Expression, what_it_is: str, position: int | None) -> str:
    if isinstance(argument, Literal) and isinstance(argument.value, str):
        return argument.value
    what = f"{what_it_is} is no literal text.".capitalize()
    raise ExpressionError(what, "Write it out.", position=position)
