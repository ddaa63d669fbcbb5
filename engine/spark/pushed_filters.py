"""Filters pushed to a scan by Spark, as a condition of the engine for skipping files.

An untranslated filter skips nothing: Spark evaluates every filter again.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import SparkSession

from engine.errors import ExpressionError
from engine.expressions import build
from engine.expressions.traits import conjunction
from engine.expressions.tree import Expression, Literal
from engine.schema.types import TIMESTAMP
from engine.spark.classic_columns import classic_nodes
from engine.spark.column_nodes import AttributeNode, CallNode, ConstantNode, Node
from engine.spark.jvm import column_of, iter_seq

_COMPARISONS = frozenset({"=", "<=>", "<", "<=", ">", ">=", "in"})
_LOGIC = frozenset({"and", "or", "not", "isnull", "isnotnull"})


class _NotTranslatedError(Exception):
    """A part with a possibly different meaning in the engine."""


def translate_filters(
    spark: SparkSession,
    filters: Any,  # noqa: ANN401 - the JVM's
    names: Mapping[str, Expression],
) -> Expression | None:
    """Translate the filters as far as possible; None if none can be translated.

    `names` maps the columns' names in the files to columns.
    """
    if filters.isEmpty():
        return None
    return conjunction(trees) if (trees := list(_trees(spark, filters, names))) else None


def _trees(
    spark: SparkSession,
    filters: Any,  # noqa: ANN401
    names: Mapping[str, Expression],
) -> Iterator[Expression]:
    inside: Any = spark
    zone = inside._jvm.org.apache.spark.sql.internal.SQLConf.get().sessionLocalTimeZone()
    for condition in iter_seq(filters):
        references = iter_seq(condition.references().toSeq())
        if not all(str(reference.name()) in names for reference in references):
            continue
        try:
            nodes = classic_nodes(column_of(condition, spark), spark)
            yield _tree(nodes, names, is_utc=str(zone) in {"UTC", "Etc/UTC"})
        except (ExpressionError, _NotTranslatedError):
            continue


def _tree(node: Node, names: Mapping[str, Expression], *, is_utc: bool) -> Expression:
    """Comparisons of columns and constants of one type: no cast, so no setting decides about them."""
    match node:
        case AttributeNode(name=name):
            return names[name]
        case ConstantNode(literal=literal) if literal.type != TIMESTAMP or is_utc:
            return literal
        case CallNode(function=function, arguments=arguments) if function in _COMPARISONS | _LOGIC:
            parts = [_tree(argument, names, is_utc=is_utc) for argument in arguments]
            if function in _COMPARISONS and not _are_alike(parts):
                raise _NotTranslatedError
            return build.call(function, parts)
        case _:
            raise _NotTranslatedError


def _are_alike(parts: list[Expression]) -> bool:
    types = {part.type for part in parts if not (isinstance(part, Literal) and part.value is None)}
    return len(types) <= 1
