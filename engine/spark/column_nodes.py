"""The nodes of a caller's `Column` that classic PySpark and Spark Connect share.

What neither says more of is `Unknown`: Spark alone can evaluate it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from pyspark.sql import Column

from engine.expressions.tree import Literal
from engine.schema.types import DataType

ToColumn: TypeAlias = Callable[[], Column]
_NAMES = {"!": "not", "==": "=", "isin": "in", "when": "case"}
_OTHERS = frozenset({"get", "case", "cast"})
"""Functions of Spark that are not what the engine calls so."""
_RANDOM = re.compile(
    r"\b(rand|randn|random|randstr|uniform|uuid|shuffle|monotonically_increasing_id"
    r"|spark_partition_id|input_file_\w+)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class _Part:
    """Every node can be had as a `Column` of its own."""

    column: ToColumn = field(compare=False, repr=False)


@dataclass(frozen=True)
class Name(_Part):
    """A column by its name."""

    parts: tuple[str, ...]


@dataclass(frozen=True)
class Attribute(_Part):
    """A column of one DataFrame, as `frame["name"]` gives it; `key` says which."""

    name: str
    key: object


@dataclass(frozen=True)
class Constant(_Part):
    """A literal."""

    literal: Literal


@dataclass(frozen=True)
class Applied(_Part):
    """An operator or a function by its lower-case name, the engine's where it has one."""

    function: str
    arguments: "tuple[Node, ...]"


@dataclass(frozen=True)
class Casted(_Part):
    """CAST, or TRY_CAST where it is lenient."""

    child: "Node"
    type: DataType
    lenient: bool


@dataclass(frozen=True)
class Text(_Part):
    """SQL text that nobody has parsed yet."""

    sql: str


@dataclass(frozen=True)
class Unknown(_Part):
    """Anything else; `random` where it may give another value each time."""

    random: bool = False


Node: TypeAlias = Name | Attribute | Constant | Applied | Casted | Text | Unknown


def function_call(column: ToColumn, name: str, arguments: tuple[Node, ...]) -> Node:
    """A call of one of Spark's functions by its name."""
    lower = name.lower()
    if may_be_random(lower) or any(map(is_random, arguments)):
        return Unknown(column, random=True)
    if lower in _OTHERS:
        return Unknown(column)
    if lower == "between" and len(arguments) == 3:
        value, low, high = arguments
        bounds = Applied(column, ">=", (value, low)), Applied(column, "<=", (value, high))
        return Applied(column, "and", bounds)
    return operator_call(column, _NAMES.get(lower, lower), arguments)


def operator_call(column: ToColumn, function: str, arguments: tuple[Node, ...]) -> Node:
    """A call by the engine's name; chains of AND and of OR become one of many arguments."""
    if function not in {"and", "or"}:
        return Applied(column, function, arguments)
    flat: list[Node] = []
    for argument in arguments:
        same = isinstance(argument, Applied) and argument.function == function
        flat.extend(argument.arguments if isinstance(argument, Applied) and same else (argument,))
    return Applied(column, function, tuple(flat))


def is_random(node: Node) -> bool:
    """Whether it may give another value each time it is asked."""
    match node:
        case Unknown(random=random):
            return random
        case Applied(arguments=arguments):
            return any(map(is_random, arguments))
        case Casted(child=child):
            return is_random(child)
        case Text(sql=sql):
            return may_be_random(sql)
        case _:
            return False


def may_be_random(text: str) -> bool:
    """Whether SQL text calls a function that gives another value each time."""
    return bool(_RANDOM.search(text))
