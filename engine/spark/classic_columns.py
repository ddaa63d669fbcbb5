"""Columns of classic PySpark: the JVM writes a whole expression down as JSON in one call.

It parses SQL text on the way, with the session's own parser.
"""

import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from pyspark.sql import Column, SparkSession

from engine.errors import InvalidSchemaError
from engine.expressions.tree import VOID, Literal, Value
from engine.schema.types import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    DataType,
    DecimalType,
    type_from_json,
)
from engine.spark.column_nodes import (
    AttributeNode,
    CastNode,
    ConstantNode,
    NameNode,
    Node,
    ToColumn,
    UnknownNode,
    function_call,
    is_random,
    operator_call,
)
from engine.spark.jvm import column_of, expression_of

_LIST = re.compile(r"\[(.*)\]\Z", re.DOTALL)
_OPERATORS = {
    "And": "and",
    "Or": "or",
    "Not": "not",
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "In": "in",
    "IsNull": "isnull",
    "IsNotNull": "isnotnull",
    "Like": "like",
    "ILike": "ilike",
    "Add": "+",
    "Subtract": "-",
    "Multiply": "*",
    "Divide": "/",
    "Remainder": "%",
    "IntegralDivide": "div",
    "UnaryMinus": "negative",
    "CaseWhen": "case",
    "Concat": "concat",
    "UnresolvedExtractValue": "get",
}
"""Catalyst's operator classes, by the engine's names."""
_READ: dict[DataType, Callable[[str], Value]] = {
    STRING: str,
    BOOLEAN: lambda text: text == "true",
    **dict.fromkeys((BYTE, SHORT, INTEGER, LONG), int),
    **dict.fromkeys((FLOAT, DOUBLE), float),
    DATE: date.fromisoformat,
    TIMESTAMP: lambda text: datetime.fromisoformat(text).replace(tzinfo=UTC),
}


def classic_nodes(column: Column, session: SparkSession) -> Node:
    """Return a column as a tree of nodes.

    Raises:
        ParseException: Spark cannot parse SQL text in it.
    """
    return _Expression(column, session).root()


class _Expression:
    """The JSON of one expression: its nodes in their order, each with the number of its children."""

    def __init__(self, column: Column, session: SparkSession) -> None:
        self._session = session
        self._root = expression_of(column, session)
        self._nodes: list[dict[str, Any]] = json.loads(self._root.toJSON())

    def root(self) -> Node:
        """Build the tree from its last node backwards: long chains of OR overflow the stack."""
        built: list[Node] = []
        for node, path in zip(reversed(self._nodes), reversed(self._paths()), strict=True):
            children = tuple(built.pop() for _ in range(int(node["num-children"])))
            built.append(self._node(node, children, path))
        return built[0]

    def _paths(self) -> list[tuple[int, ...]]:
        """Return the path of each node: the child indexes from the root."""
        pending: list[tuple[int, ...]] = [()]
        paths = []
        for node in self._nodes:
            path = pending.pop()
            paths.append(path)
            pending.extend((*path, i) for i in reversed(range(int(node["num-children"]))))
        return paths

    def _node(
        self, node: dict[str, Any], children: tuple[Node, ...], path: tuple[int, ...]
    ) -> Node:
        def column() -> Column:
            return column_of(self._node_at(path), self._session)

        kind = str(node["class"]).rpartition(".")[2]
        if kind == "Cast":
            lenient = str(self._node_at(path).evalMode().toString()).upper() == "TRY"
            target = _type(node["dataType"])
            return CastNode(column, children[0], target, lenient) if target else UnknownNode(column)
        read = _NODES.get(kind)
        return read(column, node, children) if read else _operator(column, kind, node, children)

    def _node_at(self, path: Sequence[int]) -> Any:  # noqa: ANN401 - the JVM's
        node = self._root
        for index in path:
            node = node.children().apply(index)
        return node


def _name(column: ToColumn, node: dict[str, Any], _children: tuple[Node, ...]) -> Node:
    return NameNode(column, tuple(_parse_name_list(node["nameParts"])))


def _attribute(column: ToColumn, node: dict[str, Any], _children: tuple[Node, ...]) -> Node:
    return AttributeNode(column, str(node["name"]), int(node["exprId"]["id"]))


def _constant(column: ToColumn, node: dict[str, Any], _children: tuple[Node, ...]) -> Node:
    literal = _literal(node["value"], _type(node["dataType"]))
    return ConstantNode(column, literal) if literal else UnknownNode(column)


def _function(column: ToColumn, node: dict[str, Any], arguments: tuple[Node, ...]) -> Node:
    names = _parse_name_list(node["nameParts"])
    if len(names) != 1 or node.get("isDistinct"):
        return UnknownNode(column, any(map(is_random, arguments)))
    return function_call(column, names[0], arguments)


def _unwrap_child(column: ToColumn, _found: dict[str, Any], children: tuple[Node, ...]) -> Node:
    return children[0] if children else UnknownNode(column)


_NODES: dict[str, Callable[[ToColumn, dict[str, Any], tuple[Node, ...]], Node]] = {
    "UnresolvedAttribute": _name,
    "AttributeReference": _attribute,
    "Literal": _constant,
    "UnresolvedFunction": _function,
    "Alias": _unwrap_child,
    "ColumnNodeExpression": _unwrap_child,
    "KnownNotNull": _unwrap_child,
    "KnownNullable": _unwrap_child,
}


def _operator(
    column: ToColumn, kind: str, node: dict[str, Any], children: tuple[Node, ...]
) -> Node:
    function = _OPERATORS.get(kind)
    if kind in {"Like", "ILike"} and node.get("escapeChar") not in {None, "\\"}:
        function = None
    random = node.get("udfDeterministic") is False or any(map(is_random, children))
    if function is None or random:
        return UnknownNode(column, random)
    return operator_call(column, function, children)


def _parse_name_list(text: object) -> list[str]:
    """Parse Scala's rendering of a list of names; a name with a comma looks like two."""
    match = _LIST.match(str(text))
    return match[1].split(", ") if match else [str(text)]


def _literal(value: object, data_type: DataType | None) -> Literal | None:
    """Parse a literal from its text; None if the text is not its whole value (bytes)."""
    if data_type is None or data_type == BINARY:
        return None
    if value is None:
        return Literal(None, data_type)
    if isinstance(data_type, DecimalType):
        return Literal(Decimal(str(value)), data_type)
    read = _READ.get(data_type)
    try:
        return None if read is None else Literal(read(str(value)), data_type)
    except ValueError:  # a year beyond Python's dates
        return None


def _type(type_json: object) -> DataType | None:
    if type_json == "void":
        return VOID
    try:
        return type_from_json(type_json)
    except (InvalidSchemaError, TypeError, ValueError, KeyError):
        return None
