"""The nodes of a caller's `Column`, shared by classic PySpark and Spark Connect.

Everything else is an `UnknownNode`: only Spark can evaluate it.
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
"""Spark functions with another meaning in the engine."""
_RANDOM = re.compile(
    r"\b(rand|randn|random|randstr|uniform|uuid|shuffle|monotonically_increasing_id"
    r"|spark_partition_id|input_file_\w+)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class _ColumnNode:
    """A node, which can also become a `Column` by itself."""

    column: ToColumn = field(compare=False, repr=False)


@dataclass(frozen=True)
class NameNode(_ColumnNode):
    """A column by its name."""

    parts: tuple[str, ...]


@dataclass(frozen=True)
class AttributeNode(_ColumnNode):
    """A column of a specific DataFrame, such as `frame["name"]`; `key` identifies the DataFrame."""

    name: str
    key: object


@dataclass(frozen=True)
class ConstantNode(_ColumnNode):
    """A literal."""

    literal: Literal


@dataclass(frozen=True)
class CallNode(_ColumnNode):
    """An operator or a function by its lower-case name, the engine's if it has one."""

    function: str
    arguments: "tuple[Node, ...]"


@dataclass(frozen=True)
class CastNode(_ColumnNode):
    """CAST, or TRY_CAST if it is lenient."""

    child: "Node"
    type: DataType
    lenient: bool


@dataclass(frozen=True)
class TextNode(_ColumnNode):
    """Unparsed SQL text."""

    sql: str


@dataclass(frozen=True)
class UnknownNode(_ColumnNode):
    """Anything else; `random` if it may be nondeterministic."""

    random: bool = False


Node: TypeAlias = (
    NameNode | AttributeNode | ConstantNode | CallNode | CastNode | TextNode | UnknownNode
)


def function_call(column: ToColumn, name: str, arguments: tuple[Node, ...]) -> Node:
    """Return a call of one of Spark's functions by its name."""
    lower = name.lower()
    if may_be_random(lower) or any(map(is_random, arguments)):
        return UnknownNode(column, random=True)
    if lower in _OTHERS:
        return UnknownNode(column)
    if lower == "between" and len(arguments) == 3:
        value, low, high = arguments
        bounds = CallNode(column, ">=", (value, low)), CallNode(column, "<=", (value, high))
        return CallNode(column, "and", bounds)
    return operator_call(column, _NAMES.get(lower, lower), arguments)


def operator_call(column: ToColumn, function: str, arguments: tuple[Node, ...]) -> Node:
    """Return a call by the engine's name; flatten chains of AND and of OR into one call."""
    if function not in {"and", "or"}:
        return CallNode(column, function, arguments)
    flat: list[Node] = []
    for argument in arguments:
        same = isinstance(argument, CallNode) and argument.function == function
        flat.extend(argument.arguments if isinstance(argument, CallNode) and same else (argument,))
    return CallNode(column, function, tuple(flat))


def is_random(node: Node) -> bool:
    """Whether a node may give another value at each evaluation."""
    match node:
        case UnknownNode(random=random):
            return random
        case CallNode(arguments=arguments):
            return any(map(is_random, arguments))
        case CastNode(child=child):
            return is_random(child)
        case TextNode(sql=sql):
            return may_be_random(sql)
        case _:
            return False


def may_be_random(text: str) -> bool:
    """Whether SQL text calls a nondeterministic function."""
    return bool(_RANDOM.search(text))
