"""Types of calls on arrays, maps, structs and JSON, some of which depend on literals.

A struct is built from the names of its fields, JSON is read by its schema: both are literals.
"""

from collections import Counter
from collections.abc import Sequence

from engine.errors import ExpressionError, StatementError
from engine.expressions.cursor import Cursor
from engine.expressions.lexer import tokenize
from engine.expressions.tree import VOID, Call, Expression, Literal, Variable, walk
from engine.expressions.type_grammar import read_type
from engine.expressions.types import common_type, sql_name
from engine.schema.types import (
    STRING,
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)

VARIANT = PrimitiveType("variant")

NESTED = frozenset({"named_struct", "from_json", "field", "aggregate"})
MAX_LAMBDAS = 2
"""Limit of nested lambdas: each level multiplies the work by the length of its array."""
_CHOICES = frozenset({"case", "if", "coalesce", "nvl2", "nullif", "lambda"})

LAMBDAS = {
    "transform": ((1, "element"), (1, 2)),
    "filter": ((1, "element"), (1, 2)),
    "exists": ((1, "element"), (1,)),
    "forall": ((1, "element"), (1,)),
    "zip_with": ((2, "elements"), (2,)),
    "aggregate": ((2, "merge"), (2,)),
    "map_filter": ((1, "entry"), (2,)),
    "transform_keys": ((1, "entry"), (2,)),
    "transform_values": ((1, "entry"), (2,)),
}
"""Functions with a lambda: the number of values before it, its arguments, and the allowed numbers of
variables.
"""


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
        what = "named_struct takes alternating names and values."
        raise ExpressionError(what, "Add a value for each name.", position=position)
    names = [_literal(argument, "a name of named_struct", position) for argument in arguments[::2]]
    twice = [name for name, count in Counter(map(str.lower, names)).items() if count > 1]
    if twice or not all(names):
        what = (
            f"named_struct has the field {twice[0]!r} twice." if twice else "A field has no name."
        )
        raise ExpressionError(what, "Give each a unique name.", position=position)
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
            cursor.refuse("the end of the type was expected")
    except StatementError as error:
        what = f"{text[:100]!r} is not a schema: {error.what}"
        raise ExpressionError(what, "Write it as 'a INT, b STRING'.", position=position) from error
    if "${" in text:
        what = "A field of the schema has a name with ${, which Spark reads as a variable."
        raise ExpressionError(what, "Choose another name.", position=position)
    if not isinstance(schema, StructType | ArrayType | MapType):
        what = f"from_json returns a struct, array or map, not {sql_name(schema)}."
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
            f"aggregate starts with the type {sql_name(start.type)}, but its lambda returns "
            f"{sql_name(merge.type)}."
        )
        raise ExpressionError(
            what, "Cast the start value to the type of the lambda.", position=position
        )
    if isinstance(merge, Call) and _grows(merge.arguments[0], merge.arguments[1]):
        what = (
            "aggregate can produce a result without a size limit, because its lambda uses "
            "the accumulator twice in one call."
        )
        raise ExpressionError(what, "Use the accumulator once in each call.", position=position)
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
    what = f"{what_it_is} is not a string literal.".capitalize()
    raise ExpressionError(what, "Write a literal.", position=position)


def variables(kind: str, types: Sequence[DataType], count: int) -> list[DataType] | None:
    """Return the types of a lambda's variables after values of these types; None if invalid."""
    from_integer = PrimitiveType("integer")
    match kind, types:
        case "element", [ArrayType(element), *_]:
            return [element, from_integer][:count]
        case "elements", [ArrayType(one), ArrayType(other)]:
            return [one, other]
        case "merge", [ArrayType(element), start]:
            return [start, element] if start != VOID else None
        case "entry", [MapType(key, value), *_]:
            return [key, value]
        case _:
            return None


def array_of(types: Sequence[DataType]) -> DataType | None:
    """Return the type of array(…)."""
    element = common_type(types)
    return None if element in {None, VOID} else ArrayType(element)


def map_of(types: Sequence[DataType]) -> DataType | None:
    """Return the type of map(key, value, …)."""
    if len(types) % 2:
        return None
    key, value = common_type(types[::2]), common_type(types[1::2])
    if key in {None, VOID} or value in {None, VOID} or _holds_map(key):
        return None
    return MapType(key, value)


def _holds_map(data_type: DataType | None) -> bool:
    match data_type:
        case MapType():
            return True
        case ArrayType(element):
            return _holds_map(element)
        case StructType(fields):
            return any(_holds_map(field.type) for field in fields)
        case _:
            return data_type == VARIANT


def is_comparable(data_type: DataType) -> bool:
    """Return whether values of a type can be compared: it contains no map."""
    return not _holds_map(data_type)


def keys_of(types: Sequence[DataType]) -> DataType | None:
    """Return the type of map_keys(m)."""
    return ArrayType(types[0].key) if isinstance(types[0], MapType) else None


def values_of(types: Sequence[DataType]) -> DataType | None:
    """Return the type of map_values(m)."""
    return ArrayType(types[0].value) if isinstance(types[0], MapType) else None


def map_of_arrays(types: Sequence[DataType]) -> DataType | None:
    """Return the type of map_from_arrays(keys, values)."""
    match types:
        case [ArrayType(key), ArrayType(value)] if not _holds_map(key):
            return MapType(key, value)
    return None


def same_array(types: Sequence[DataType]) -> DataType | None:
    """Return the first array's type if its elements are comparable with the other arguments."""
    first = types[0]
    if not isinstance(first, ArrayType) or not is_comparable(first.element):
        return None
    for other in types[1:]:
        inner = other.element if isinstance(other, ArrayType) else other
        if common_type((first.element, inner)) != first.element:
            return None
    return first


def first_array_type(types: Sequence[DataType]) -> DataType | None:
    """Return the array type of the first argument."""
    return types[0] if isinstance(types[0], ArrayType) else None


def one_element(types: Sequence[DataType]) -> DataType | None:
    """Return the array's element type if it is comparable."""
    first = types[0]
    return first.element if isinstance(first, ArrayType) and is_comparable(first.element) else None


def flatten_type(types: Sequence[DataType]) -> DataType | None:
    """Return the type of flatten(array of arrays)."""
    first = types[0]
    inner = first.element if isinstance(first, ArrayType) else None
    return inner if isinstance(inner, ArrayType) else None


def array_join_type(types: Sequence[DataType]) -> DataType | None:
    """Return the type of array_join(array of texts, delimiter)."""
    first = types[0]
    return STRING if isinstance(first, ArrayType) and first.element == STRING else None


def transform_type(types: Sequence[DataType]) -> DataType | None:
    """Return the type of transform(array, lambda)."""
    return ArrayType(types[1])


def zip_with_type(types: Sequence[DataType]) -> DataType | None:
    """Return the type of zip_with(array, array, lambda)."""
    return ArrayType(types[2])


def aggregate_type(types: Sequence[DataType]) -> DataType | None:
    """Return the type of aggregate(array, start, merge, finish); merge must return start's type."""
    if types[1] != types[2]:
        return None
    return types[-1]


def first_map_type(types: Sequence[DataType]) -> DataType | None:
    """Return the type of map_filter(map, lambda)."""
    return types[0]


def new_keys(types: Sequence[DataType]) -> DataType | None:
    """Return the type of transform_keys(map, lambda)."""
    first = types[0]
    return MapType(types[1], first.value) if isinstance(first, MapType) else None


def new_values(types: Sequence[DataType]) -> DataType | None:
    """Return the type of transform_values(map, lambda)."""
    first = types[0]
    return MapType(first.key, types[1]) if isinstance(first, MapType) else None


def struct_of(names: Sequence[str], types: Sequence[DataType]) -> StructType:
    """Return the type of named_struct(name, value, …)."""
    return StructType(tuple(map(StructField, names, types)))
