"""The allow-list: every function and operator allowed in an expression, with its signature.

All are pure: they read only their arguments. A name not listed here does not exist, regardless of
spelling, quotes or qualifiers. A signature has families of argument types, and the result type.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeAlias

from engine.expressions import nested_calls as nested
from engine.expressions.tree import INTERVAL, VOID
from engine.expressions.types import (
    FLOATS,
    INTEGRALS,
    common_type,
    decimal_for,
    is_complex,
    is_numeric,
    limit_decimal,
)
from engine.schema.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
)

Result: TypeAlias = Callable[[Sequence[DataType]], DataType | None]

_FAMILIES: dict[str, Callable[[DataType], bool]] = {
    "any": lambda _: True,
    "string": lambda t: t == STRING,
    "text": lambda t: t in {STRING, BINARY},
    "number": is_numeric,
    "integer": lambda t: t in INTEGRALS[:3],
    "long": lambda t: t in INTEGRALS,
    "float": lambda t: t in FLOATS,
    "long or float": lambda t: t in INTEGRALS or t in FLOATS,
    "boolean": lambda t: t == BOOLEAN,
    "time": lambda t: t in {DATE, TIMESTAMP, TIMESTAMP_NTZ},
    "timestamp": lambda t: t in {TIMESTAMP, TIMESTAMP_NTZ},
    "time or string": lambda t: t in {DATE, TIMESTAMP, TIMESTAMP_NTZ, STRING},
    "array": lambda t: isinstance(t, ArrayType),
    "map": lambda t: isinstance(t, MapType),
    "array or map": lambda t: isinstance(t, ArrayType | MapType),
    "struct, array or map": is_complex,
}

_MAX_PAD = 1000
COMPARISONS = frozenset({"=", "<=>", "<>", "<", "<=", ">", ">="})
ARITHMETIC = frozenset({"+", "-", "*", "/", "%", "pmod"})
PADDING = {"lpad": _MAX_PAD, "rpad": _MAX_PAD}
"""Functions whose second argument, a length, must be a literal up to this limit."""
GROWING = frozenset({"replace", "regexp_replace"})
"""Functions that may multiply a string's length: never nested, and with short literals only."""
MAX_REPLACEMENT = 100


@dataclass(frozen=True, slots=True)
class Function:
    """The signature of a function.

    `parameters` are families of types; the last `optional` ones may be omitted, and with `repeats`
    the last may occur any number of times. `result` returns None for incompatible types.
    """

    name: str
    parameters: tuple[str, ...]
    result: Result
    optional: int = 0
    repeats: bool = False
    deterministic: bool = True

    def accepts_count(self, count: int) -> bool:
        """Return whether it accepts this number of arguments."""
        least = len(self.parameters) - self.optional
        return least <= count and (self.repeats or count <= len(self.parameters))

    def mismatch(self, types: Sequence[DataType]) -> tuple[int, str] | None:
        """Return the index of the first argument of a wrong type, and the expected family."""
        for index, type_ in enumerate(types):
            family = self.parameters[min(index, len(self.parameters) - 1)]
            if type_ != VOID and not _FAMILIES[family](type_):
                return index, family
        return None


def gives(data_type: DataType) -> Result:
    """Return a constant result type."""
    return lambda _: data_type


def _first(types: Sequence[DataType]) -> DataType | None:
    return types[0]


def _comparable(types: Sequence[DataType]) -> DataType | None:
    common = common_type(types)
    unlike = common is None or common == INTERVAL or not nested.is_comparable(common)
    return None if unlike else BOOLEAN


def _arithmetic(types: Sequence[DataType]) -> DataType | None:
    common = common_type(types)
    if common is not None and is_numeric(common):
        return common
    return DOUBLE if common in FLOATS else None


def _plus(types: Sequence[DataType]) -> DataType | None:
    left, right = types
    if right == INTERVAL:
        return left if left in {DATE, TIMESTAMP, TIMESTAMP_NTZ} else None
    return _decimal(types, "+") or _arithmetic(types)


def _division_type(types: Sequence[DataType]) -> DataType | None:
    return _decimal(types, "/") or (DOUBLE if _arithmetic(types) else None)


def _decimal(types: Sequence[DataType], operator: str) -> DataType | None:
    """Return Spark's result type of decimal arithmetic; None for other types."""
    if not any(isinstance(type_, DecimalType) for type_ in types):
        return None
    one, other = decimal_for(types[0]), decimal_for(types[1])
    if one is None or other is None:
        return None
    return limit_decimal(*_exact_decimal(one, other, operator))


def _exact_decimal(one: DecimalType, other: DecimalType, operator: str) -> tuple[int, int]:
    p1, s1, p2, s2 = one.precision, one.scale, other.precision, other.scale
    match operator:
        case "+":
            return max(p1 - s1, p2 - s2) + max(s1, s2) + 1, max(s1, s2)
        case "*":
            return p1 + p2 + 1, s1 + s2
        case "/":
            scale = max(6, s1 + p2 + 1)
            return p1 - s1 + s2 + scale, scale
        case _:
            return min(p1 - s1, p2 - s2) + max(s1, s2), max(s1, s2)


def _times(types: Sequence[DataType]) -> DataType | None:
    return _decimal(types, "*") or _arithmetic(types)


def _remainder(types: Sequence[DataType]) -> DataType | None:
    return _decimal(types, "%") or _arithmetic(types)


def _whole(types: Sequence[DataType]) -> DataType | None:
    return LONG if types[0] in INTEGRALS or types[0] in FLOATS else None


def _element(types: Sequence[DataType]) -> DataType | None:
    match types[0]:
        case ArrayType(element) if types[1] in INTEGRALS[:3]:
            return element
        case MapType(key, value) if common_type((key, types[1])) == key:
            return value
    return None


def _contains(types: Sequence[DataType]) -> DataType | None:
    held = types[0]
    if types[1] == VOID:  # as in Spark: an untyped null matches nothing
        return None
    inner = held.element if isinstance(held, ArrayType) else getattr(held, "key", None)
    return BOOLEAN if inner is not None and common_type((inner, types[1])) is not None else None


def _position(types: Sequence[DataType]) -> DataType | None:
    return LONG if types[1] != VOID and nested.same_array(types) is not None else None


def _overlap(types: Sequence[DataType]) -> DataType | None:
    return BOOLEAN if nested.same_array(types) is not None else None


def _branches(types: Sequence[DataType]) -> DataType | None:
    return common_type(types[1:])


def _case(types: Sequence[DataType]) -> DataType | None:
    pairs = len(types) // 2 * 2
    if any(type_ not in {BOOLEAN, VOID} for type_ in types[0:pairs:2]):
        return None
    return common_type([*types[1:pairs:2], *types[pairs:]])


def _nullable_first(types: Sequence[DataType]) -> DataType | None:
    return types[0] if common_type(types) is not None else None


_OPERATORS = (
    *(Function(name, ("any", "any"), _comparable) for name in sorted(COMPARISONS)),
    Function("+", ("any", "any"), _plus),
    Function("-", ("any", "any"), _plus),
    Function("*", ("number", "number"), _times),
    Function("/", ("number", "number"), _division_type),
    Function("%", ("number", "number"), _remainder),
    Function("div", ("long", "long"), gives(LONG)),
    Function("negative", ("number",), _first),
    Function("and", ("boolean", "boolean"), gives(BOOLEAN), repeats=True),
    Function("or", ("boolean", "boolean"), gives(BOOLEAN), repeats=True),
    Function("not", ("boolean",), gives(BOOLEAN)),
    Function("in", ("any", "any"), _comparable, repeats=True),
    Function("like", ("string", "string", "string"), gives(BOOLEAN), optional=1),
    Function("ilike", ("string", "string", "string"), gives(BOOLEAN), optional=1),
    Function("case", ("any", "any"), _case, repeats=True),
    Function("get", ("array or map", "any"), _element),
    Function("field", ("any", "string"), _first),
    Function("lambda", ("any",), _first, repeats=True),
)
_TEXT = (
    *(
        Function(n, ("string",), gives(STRING))
        for n in ("lower", "upper", "trim", "ltrim", "rtrim")
    ),
    *(Function(n, ("string",), gives(STRING)) for n in ("initcap", "reverse")),
    *(Function(n, ("text",), gives(INTEGER)) for n in ("length", "octet_length")),
    Function("ascii", ("string",), gives(INTEGER)),
    Function("substring", ("string", "integer", "integer"), gives(STRING), optional=1),
    *(Function(n, ("string", "integer"), gives(STRING)) for n in ("left", "right")),
    *(Function(n, ("string", "string"), gives(BOOLEAN)) for n in ("startswith", "endswith")),
    Function("contains", ("string", "string"), gives(BOOLEAN)),
    Function("instr", ("string", "string"), gives(INTEGER)),
    Function("concat", ("string",), gives(STRING), repeats=True),
    Function("concat_ws", ("string", "string"), gives(STRING), repeats=True),
    Function("btrim", ("string", "string"), gives(STRING), optional=1),
    Function("replace", ("string", "string", "string"), gives(STRING), optional=1),
    *(Function(n, ("string", "integer", "string"), gives(STRING), optional=1) for n in PADDING),
    *(Function(n, ("text",), gives(STRING)) for n in ("md5", "sha1")),
    Function("split_part", ("string", "string", "integer"), gives(STRING)),
    Function("translate", ("string", "string", "string"), gives(STRING)),
    Function("sha2", ("text", "integer"), gives(STRING)),
    Function("crc32", ("text",), gives(LONG)),
    Function("hash", ("any",), gives(INTEGER), repeats=True),
    Function("xxhash64", ("any",), gives(LONG), repeats=True),
    Function("regexp_like", ("string", "string"), gives(BOOLEAN)),
    Function("regexp_replace", ("string", "string", "string", "integer"), gives(STRING)),
    Function("regexp_extract", ("string", "string", "integer"), gives(STRING), optional=1),
    Function("regexp_substr", ("string", "string"), gives(STRING)),
    Function("regexp_count", ("string", "string"), gives(INTEGER)),
)
_NUMBERS = (
    Function("abs", ("number",), _first),
    *(Function(n, ("number",), _whole) for n in ("ceil", "floor")),
    *(
        Function(n, ("number",), gives(DOUBLE))
        for n in ("sqrt", "exp", "ln", "log10", "log2", "sign")
    ),
    Function("round", ("long or float", "integer"), _first, optional=1),
    Function("pow", ("number", "number"), gives(DOUBLE)),
    Function("pmod", ("number", "number"), _remainder),
    *(
        Function(n, ("long or float", "long or float"), _arithmetic)
        for n in ("try_add", "try_subtract", "try_multiply")
    ),
    Function("try_divide", ("long or float", "long or float"), gives(DOUBLE)),
    Function("isnan", ("float",), gives(BOOLEAN)),
    Function("nanvl", ("float", "float"), _arithmetic),
)
_DATE_PARTS = ["year", "month", "day", "quarter", "dayofweek", "weekday", "dayofyear", "weekofyear"]
_DATES = (
    *(Function(n, ("time",), gives(INTEGER)) for n in _DATE_PARTS),
    *(Function(n, ("timestamp",), gives(INTEGER)) for n in ("hour", "minute", "second")),
    Function("to_date", ("time or string",), gives(DATE)),
    Function("to_timestamp", ("time or string",), gives(TIMESTAMP)),
    *(
        Function(n, ("time", "integer"), gives(DATE))
        for n in ("date_add", "date_sub", "add_months")
    ),
    Function("datediff", ("time", "time"), gives(INTEGER)),
    Function("last_day", ("time",), gives(DATE)),
    Function("next_day", ("time", "string"), gives(DATE)),
    Function("months_between", ("time", "time"), gives(DOUBLE)),
    Function("trunc", ("time", "string"), gives(DATE)),
    Function("date_trunc", ("string", "time"), gives(TIMESTAMP)),
    Function("date_format", ("time", "string"), gives(STRING)),
    Function("unix_seconds", ("timestamp",), gives(LONG)),
    Function("unix_millis", ("timestamp",), gives(LONG)),
    Function("timestamp_seconds", ("long",), gives(TIMESTAMP)),
    Function("timestamp_millis", ("long",), gives(TIMESTAMP)),
    Function("make_date", ("integer", "integer", "integer"), gives(DATE)),
)
_NULLS = (
    *(Function(n, ("any",), gives(BOOLEAN)) for n in ("isnull", "isnotnull")),
    Function("coalesce", ("any",), common_type, repeats=True),
    *(Function(n, ("any", "any"), common_type, repeats=True) for n in ("greatest", "least")),
    Function("nullif", ("any", "any"), _nullable_first),
    Function("nvl2", ("any", "any", "any"), _branches),
    Function("if", ("boolean", "any", "any"), _branches),
)
_COLLECTIONS = (
    Function("size", ("array or map",), gives(INTEGER)),
    Function("array_contains", ("array", "any"), _contains),
    Function("map_contains_key", ("map", "any"), _contains),
    *(Function(n, ("array or map", "any"), _element) for n in ("element_at", "try_element_at")),
    *(Function(n, ("array", "any"), nested.same_array) for n in ("array_append", "array_prepend")),
    Function("array_compact", ("array",), nested.first_array_type),
    Function("array", ("any",), nested.array_of, repeats=True),
    Function("map", ("any", "any"), nested.map_of, repeats=True),
    Function("named_struct", ("string", "any"), _first, repeats=True),
    Function("map_keys", ("map",), nested.keys_of),
    Function("map_values", ("map",), nested.values_of),
    Function("map_from_arrays", ("array", "array"), nested.map_of_arrays),
    Function("array_distinct", ("array",), nested.same_array),
    *(Function(n, ("array",), nested.one_element) for n in ("array_max", "array_min")),
    Function("array_position", ("array", "any"), _position),
    Function("array_remove", ("array", "any"), nested.same_array),
    *(
        Function(n, ("array", "array"), nested.same_array)
        for n in ("array_union", "array_intersect", "array_except")
    ),
    Function("arrays_overlap", ("array", "array"), _overlap),
    Function("sort_array", ("array", "boolean"), nested.first_array_type, optional=1),
    Function("slice", ("array", "integer", "integer"), nested.first_array_type),
    Function("flatten", ("array",), nested.flatten_type),
    Function("array_join", ("array", "string"), nested.array_join_type),
    Function("to_json", ("struct, array or map",), gives(STRING)),
    Function("from_json", ("string", "string"), _first),
)
_LAMBDAS = (
    Function("transform", ("array", "any"), nested.transform_type),
    Function("filter", ("array", "boolean"), nested.first_array_type),
    *(Function(n, ("array", "boolean"), gives(BOOLEAN)) for n in ("exists", "forall")),
    Function("aggregate", ("array", "any", "any", "any"), nested.aggregate_type, optional=1),
    Function("zip_with", ("array", "array", "any"), nested.zip_with_type),
    Function("map_filter", ("map", "boolean"), nested.first_map_type),
    Function("transform_keys", ("map", "any"), nested.new_keys),
    Function("transform_values", ("map", "any"), nested.new_values),
)
_RANDOM = (
    Function("rand", (), gives(DOUBLE), deterministic=False),
    Function("uuid", (), gives(STRING), deterministic=False),
)
FOLDED = {
    "current_date": DATE,
    "curdate": DATE,
    "current_timestamp": TIMESTAMP,
    "now": TIMESTAMP,
    "localtimestamp": TIMESTAMP_NTZ,
}
"""Functions of the current time, replaced by their value on parsing."""

OPERATORS: dict[str, Function] = {operator.name: operator for operator in _OPERATORS}
GROUPS: dict[str, tuple[Function, ...]] = {
    "Text": _TEXT,
    "Numbers": _NUMBERS,
    "Dates and times": _DATES,
    "Null and choice": _NULLS,
    "Collections": _COLLECTIONS,
    "With lambdas": _LAMBDAS,
    "Random": _RANDOM,
}
FUNCTIONS: dict[str, Function] = {
    function.name: function for group in GROUPS.values() for function in group
}
ALIASES = {
    "lcase": "lower",
    "ucase": "upper",
    "substr": "substring",
    "char_length": "length",
    "character_length": "length",
    "len": "length",
    "ifnull": "coalesce",
    "nvl": "coalesce",
    "dayofmonth": "day",
    "ceiling": "ceil",
    "power": "pow",
    "signum": "sign",
    "mod": "%",
    "cardinality": "size",
    "random": "rand",
    "sha": "sha1",
    "date_diff": "datediff",
    "dateadd": "date_add",
    "reduce": "aggregate",
    "regexp": "regexp_like",
    "rlike": "regexp_like",
    "struct": "named_struct",
}
"""Aliases of functions."""


SEVERAL_ROWS = frozenset(
    (
        *("explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer"),
        *("stack", "json_tuple", "variant_explode", "unnest"),
    )
)
"""Spark's functions that return several rows for one."""


def find(name: str) -> Function | None:
    """Return the function or operator of a lower-case name."""
    canonical = ALIASES.get(name, name)
    return FUNCTIONS.get(canonical) or OPERATORS.get(canonical)


def find_callable(name: str) -> Function | None:
    """Return the function callable as `name(` in text, including the named operator `mod`."""
    return OPERATORS["%"] if name == "mod" else FUNCTIONS.get(ALIASES.get(name, name))


def remedy_for(name: str) -> str:
    """Return the remedy for a call of an unknown function."""
    if name.lower() in SEVERAL_ROWS:
        return (
            "It returns several rows for one row. Prepare the rows in a separate table, in "
            "Python or in Spark."
        )
    near = get_close_matches(name.lower(), (*FUNCTIONS, *ALIASES, *FOLDED), n=3)
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    return f"{hint}docs/sql.md lists the functions."
