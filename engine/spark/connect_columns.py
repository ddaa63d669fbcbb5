"""Columns of Spark Connect: trees of Python objects, identified by the names of their classes.

Nothing of Connect is imported, because not every installation has it.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from pyspark.sql import Column
from pyspark.sql import types as spark_types

from engine.errors import InvalidSchemaError
from engine.expressions.literals import decimal_type_of
from engine.expressions.tree import VOID, Literal
from engine.expressions.types import NAMED_TYPES
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
    TextNode,
    ToColumn,
    UnknownNode,
    function_call,
    is_random,
    may_be_random,
    operator_call,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AS_IT_IS = frozenset({STRING, BOOLEAN, BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE, VOID})
_DECIMAL = re.compile(r"(?:DECIMAL|DEC|NUMERIC)\s*\(\s*([0-9]+)\s*(?:,\s*([0-9]+)\s*)?\)")
_NAME_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


def connect_nodes(column: Column) -> Node:
    """Return a column as a tree of nodes."""
    return _node(column, column._expr)


def _node(whole: Column, tree: Any) -> Node:  # noqa: ANN401 - Connect's expressions
    def column() -> Column:
        return type(whole)(tree)

    read = _NODES.get(type(tree).__name__)
    if read is None:
        return UnknownNode(column, may_be_random(str(tree)))
    children = getattr(tree, "children", ())
    return read(column, tree, tuple(_node(whole, child) for child in children))


def _name(column: ToColumn, tree: Any, _children: tuple[Node, ...]) -> Node:  # noqa: ANN401
    name_parts = _NAME_PART.findall(tree._unparsed_identifier)
    parts = tuple(quoted.replace("``", "`") or plain for quoted, plain in name_parts)
    if tree._plan_id is None:
        return NameNode(column, parts)
    return AttributeNode(column, parts[-1], tree._plan_id)


def _constant(column: ToColumn, tree: Any, _children: tuple[Node, ...]) -> Node:  # noqa: ANN401
    literal = _literal(tree._value, tree._dataType)
    return ConstantNode(column, literal) if literal else UnknownNode(column)


def _text(column: ToColumn, tree: Any, _children: tuple[Node, ...]) -> Node:  # noqa: ANN401
    return TextNode(column, tree._expr)


def _unwrap_child(_column: ToColumn, _tree: Any, children: tuple[Node, ...]) -> Node:  # noqa: ANN401
    return children[0]


def _cast(column: ToColumn, tree: Any, children: tuple[Node, ...]) -> Node:  # noqa: ANN401
    target = _type(tree._data_type)
    lenient = tree._eval_mode == "try"
    return CastNode(column, children[0], target, lenient) if target else UnknownNode(column)


def _case(column: ToColumn, _tree: Any, children: tuple[Node, ...]) -> Node:  # noqa: ANN401
    return operator_call(column, "case", children)


def _build_get(column: ToColumn, _tree: Any, children: tuple[Node, ...]) -> Node:  # noqa: ANN401
    return operator_call(column, "get", children)


def _function(column: ToColumn, tree: Any, children: tuple[Node, ...]) -> Node:  # noqa: ANN401
    if tree._is_distinct:
        return UnknownNode(column, any(map(is_random, children)))
    return function_call(column, tree._name, children)


def _udf(column: ToColumn, tree: Any, children: tuple[Node, ...]) -> Node:  # noqa: ANN401
    return UnknownNode(column, not tree._deterministic or any(map(is_random, children)))


_NODES: dict[str, Callable[[ToColumn, Any, tuple[Node, ...]], Node]] = {
    "ColumnReference": _name,
    "LiteralExpression": _constant,
    "SQLExpression": _text,
    "ColumnAlias": _unwrap_child,
    "CastExpression": _cast,
    "CaseWhen": _case,
    "UnresolvedExtractValue": _build_get,
    "UnresolvedFunction": _function,
    "CommonInlineUserDefinedFunction": _udf,
}


def _literal(value: Any, kind: spark_types.DataType) -> Literal | None:  # noqa: ANN401
    if isinstance(value, Decimal):
        exact = decimal_type_of(value)
        return Literal(value, exact) if exact else None
    data_type = _type(kind)
    if data_type is None:
        return None
    if value is None or data_type in _AS_IT_IS:
        return Literal(value, data_type)
    moments: dict[DataType, Callable[[Any], Any]] = {
        BINARY: bytes,
        DATE: lambda days: (_EPOCH + timedelta(days=days)).date(),
        TIMESTAMP: lambda micros: _EPOCH + timedelta(microseconds=micros),
    }
    read = moments.get(data_type)
    return None if read is None else Literal(read(value), data_type)


def _type(kind: spark_types.DataType | str) -> DataType | None:
    if isinstance(kind, str):
        text = kind.strip().upper()
        match = _DECIMAL.fullmatch(text)
        if match:
            return DecimalType(int(match[1]), int(match[2] or 0))
        return NAMED_TYPES.get(text)
    if isinstance(kind, spark_types.NullType):
        return VOID
    try:
        return type_from_json(kind.jsonValue())
    except InvalidSchemaError:
        return None
