"""Expressions that only Spark can evaluate, computed into columns beside the rows.

The caller wrote them in a session whose names, functions, time zone and ANSI mode may differ from
the engine's. They are resolved there, once, and the rows carry the values.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from engine.errors import RequestError
from engine.expressions.scope import Relation
from engine.expressions.traits import spark_expressions
from engine.expressions.tree import Expression, SparkExpression
from engine.spark.columns import column, quote_column, to_spark_type
from engine.spark.jvm import frame_over, get_analyzed_plan
from engine.spark.session import is_remote

_SIDES = {"target", "source"}
"""The names of joined frames."""


@dataclass(frozen=True)
class OwnColumn:
    """A caller's column, its session, and the relations whose columns it may name."""

    column: Column
    session: SparkSession
    relations: tuple[Relation, ...]
    asks_others: bool = False


def add_own_columns(
    rows: DataFrame, trees: Iterable[Expression], only: Column | None = None
) -> DataFrame:
    """Add a column for every part of the trees that only Spark can evaluate.

    Columns of a relation with a side stand in a frame of that alias. Rows outside `only` get null.
    """
    groups: dict[tuple[Relation, ...], dict[str, OwnColumn]] = {}
    for node in (node for tree in trees for node in spark_expressions(tree)):
        owner = _owner(node)
        groups.setdefault(owner.relations, {})[node.name] = owner
    for relations, owners in groups.items():
        rows = _compute_columns(rows, relations, owners, only)
    return rows


def _compute_columns(
    rows: DataFrame,
    relations: tuple[Relation, ...],
    owners: Mapping[str, OwnColumn],
    only: Column | None,
) -> DataFrame:
    columns = frozenset(rows.columns)
    new = [
        (own.column if only is None else F.when(only, own.column)).alias(name)
        for name, own in owners.items()
        if name not in columns
    ]
    if not new:
        return rows
    session = next(iter(owners.values())).session
    named, helpers = _add_relation_structs(move_to_session(rows, session), relations)
    frame = named.select(F.col("*"), *new).drop(*helpers)
    return move_to_session(frame, rows.sparkSession)


def add_source_columns(source: DataFrame, nodes: Iterable[SparkExpression]) -> DataFrame:
    """Add a column for each expression to the source of a MERGE, in the caller's frame."""
    owners = {node.name: _owner(node) for node in nodes}
    if not owners:
        return source
    session = next(iter(owners.values())).session
    new = [own.column.alias(name) for name, own in owners.items()]
    frame = move_to_session(source, session).select(F.col("*"), *new)
    return move_to_session(frame, source.sparkSession)


def subqueries_of(node: SparkExpression) -> DataFrame | None:
    """Return a frame with the scans of the expression's subqueries; None if it has none."""
    owner = _owner(node)
    if not owner.asks_others:
        return None
    return no_rows(owner.session, owner.relations).select(owner.column)


def no_rows(session: SparkSession, relations: Sequence[Relation]) -> DataFrame:
    """Return an empty frame with the columns that `add_own_columns` offers to a caller's column."""
    frames = [_empty(session, relation) for relation in relations]
    if not frames:
        return session.range(0).select()
    joined = frames[0]
    for frame in frames[1:]:
        joined = joined.crossJoin(frame)
    return _add_relation_structs(joined, relations)[0]


def move_to_session(frame: DataFrame, session: SparkSession) -> DataFrame:
    """Return the rows as a frame of another session of this application, with names resolved."""
    if is_remote(session) or frame.sparkSession is session:
        return frame
    return frame_over(get_analyzed_plan(frame), session)


def resolve_in_session(
    frame: DataFrame, session: SparkSession, change: Callable[[DataFrame], DataFrame]
) -> DataFrame:
    """Return the changed frame, whose new expressions mean what `session`'s settings say."""
    home = frame.sparkSession
    return move_to_session(change(move_to_session(frame, session)), home)


def _owner(node: SparkExpression) -> OwnColumn:
    if not isinstance(node.value, OwnColumn):
        msg = f"{node.text} was not made from a column"
        raise TypeError(msg)
    return node.value


def _empty(session: SparkSession, relation: Relation) -> DataFrame:
    nothing = session.range(0).select(
        *[F.lit(None).cast(to_spark_type(f.type)).alias(f.name) for f in relation.schema]
    )
    return nothing.alias(relation.side) if relation.side else nothing


def _add_relation_structs(
    frame: DataFrame, relations: Sequence[Relation]
) -> tuple[DataFrame, list[str]]:
    """Add a struct of each relation's columns under each of its names; return the structs' names too.

    `t.id` then finds the field of a column `t`, whatever the engine calls the relation, and `db.t.id`
    that of a struct in a column `db`. A name of a column stays the column's.
    """
    taken = {name.lower() for table in relations for name in table.schema.names}
    tables: dict[tuple[str, ...], tuple[Relation, Sequence[str]]] = {}
    for path, relation in (*_iter_names(relations), *_iter_whole_names(relations)):
        if path[0].lower() not in taken:
            tables.setdefault(tuple(map(str.lower, path)), (relation, path))
    new = _nest_tables({tuple(path): relation for relation, path in tables.values()})
    return (frame.select(F.col("*"), *new.values()), list(new)) if new else (frame, [])


def _nest_tables(tables: Mapping[tuple[str, ...], Relation]) -> dict[str, Column]:
    """Return a struct for the first part of every path, with the columns of the table at its end."""
    inner: dict[str, dict[tuple[str, ...], Relation]] = {}
    for path, relation in tables.items():
        inner.setdefault(path[0], {})[path[1:]] = relation
    structs: dict[str, Column] = {}
    for first, below in inner.items():
        own = below.pop((), None)
        fields = (
            {}
            if own is None
            else {name.lower(): _column_of(own)(name) for name in own.schema.names}
        )
        structs[first] = F.struct(*(_nest_tables(below) | fields).values()).alias(first)
    return structs


def _iter_whole_names(
    relations: Sequence[Relation],
) -> Iterator[tuple[tuple[str, ...], Relation]]:
    """Iterate over the names of relations with a database, and a catalog, before them."""
    for relation in relations:
        whole = (*relation.database, *relation.names[:1])
        for start in range(len(whole) - 1):
            if whole[start].lower() not in _SIDES and relation.schema.names:
                yield whole[start:], relation


def _iter_names(relations: Sequence[Relation]) -> Iterator[tuple[tuple[str, ...], Relation]]:
    for relation in relations:
        for name in relation.names:
            if relation.side and name.lower() in _SIDES - {relation.side}:
                what = f"{name} is the name of the other table in an expression for Spark."
                raise RequestError(what, "Give this table another alias.", field="alias")
            if name and name.lower() != relation.side and relation.schema.names:
                yield (name,), relation


def _column_of(relation: Relation) -> Callable[[str], Column]:
    if not relation.side:
        return lambda name: column(name).alias(name)
    return lambda name: F.col(f"{relation.side}.{quote_column(name)}").alias(name)
