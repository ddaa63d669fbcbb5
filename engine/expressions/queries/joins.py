"""The FROM of a query: tables, queries in brackets, joins."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.errors import ExpressionError
from engine.expressions import build
from engine.expressions.queries.binding import NOWHERE, Binder, QueryPlace, rename_columns
from engine.expressions.queries.plan import Join, Plan, Project
from engine.expressions.queries.scope import QueryScope, plan_column
from engine.expressions.queries.syntax import DerivedTable, FromSyntax, JoinSyntax, TableName
from engine.expressions.scope import Relation
from engine.expressions.traits import conjunction
from engine.expressions.tree import Column, Expression
from engine.schema.types import StructField, StructType


@dataclass(frozen=True)
class JoinedPlan:
    """A plan with the tables of its columns; `merged` are the sides of USING's columns."""

    plan: Plan
    relations: tuple[Relation, ...]
    merged: frozenset[str] = frozenset()

    def scope(self, place: QueryPlace) -> QueryScope:
        """Return the scope of expressions over it."""
        return QueryScope(self.relations, place.outer, merged=self.merged)


def bind_from(binder: Binder, source: FromSyntax, place: QueryPlace) -> JoinedPlan:
    """Bind a FROM clause.

    Raises:
        ExpressionError: a join is invalid.
        EngineError: a table does not exist.
    """
    match source:
        case TableName():
            return _table(binder, source, place)
        case DerivedTable():
            return _bind_derived_table(binder, source, place)
        case JoinSyntax():
            return _join(binder, source, place)


def _table(binder: Binder, source: TableName, place: QueryPlace) -> JoinedPlan:
    names = (source.alias or source.name.rpartition(".")[2].rpartition("/")[2],)
    common = place.common.get(source.name.lower())
    if common is None:
        if source.columns:
            what = f"The columns of {source.name} cannot be named here."
            raise ExpressionError(what, "Name them with AS.", position=source.position)
        scan, relation = binder.scan(source.name, source.version, names, source.position)
        return JoinedPlan(scan, (relation,))
    if source.version is not None:
        what = f"{source.name} is a query, which has no versions."
        raise ExpressionError(what, "Leave AS OF out.", position=source.position)
    table, seen = common
    query = binder.query(table.query, seen)
    schema, trees = binder.name_columns(query, source.columns or table.columns, source.position)
    relation = binder.relation(schema, names, source.position)
    return JoinedPlan(rename_columns(query.plan, relation, trees), (relation,))


def _bind_derived_table(binder: Binder, source: DerivedTable, place: QueryPlace) -> JoinedPlan:
    query = binder.query(source.query, place.detach_outer())
    schema, trees = binder.name_columns(query, source.columns, source.position)
    relation = binder.relation(schema, (source.alias,), source.position)
    return JoinedPlan(rename_columns(query.plan, relation, trees), (relation,))


def _join(binder: Binder, source: JoinSyntax, place: QueryPlace) -> JoinedPlan:
    left, right = bind_from(binder, source.left, place), bind_from(binder, source.right, place)
    _check_names(left.relations, right.relations, source.position)
    both = JoinedPlan(left.plan, (*left.relations, *right.relations), left.merged | right.merged)
    if source.using:
        return _bind_using(binder, source, left, right)
    on = None
    if source.on:
        inner = place.detach_outer()
        on = binder.condition(source.on, both.scope(inner), inner, "in ON")
    plan = Join(left.plan, right.plan, source.how, on)
    if source.how in {"left_semi", "left_anti"}:
        return JoinedPlan(plan, left.relations, left.merged)
    return JoinedPlan(plan, both.relations, both.merged)


def _bind_using(
    binder: Binder, source: JoinSyntax, left: JoinedPlan, right: JoinedPlan
) -> JoinedPlan:
    mine, theirs = left.scope(NOWHERE), right.scope(NOWHERE)
    pairs = [
        (name, mine.resolve([name], source.position), theirs.resolve([name], source.position))
        for name in source.using
    ]
    on = conjunction(build.call("=", (one, other), source.position) for _, one, other in pairs)
    plan: Plan = Join(left.plan, right.plan, source.how, on)
    if source.how in {"left_semi", "left_anti"}:
        return JoinedPlan(plan, left.relations, left.merged)
    items = [(name, _choose_column(source.how, one, other)) for name, one, other in pairs]
    fields = tuple(StructField(name, tree.type) for name, tree in items)
    merged = binder.relation(StructType(fields), (), source.position)
    relations = (*left.relations, *right.relations)
    columns = [
        plan_column(Column((f.name,), f.type, relation.side))
        for relation in relations
        for f in relation.schema
    ]
    kept: list[tuple[str, Expression]] = [(column.path[0], column) for column in columns]
    new = [(f"{merged.side}.{name}", tree) for name, tree in items]
    return JoinedPlan(
        Project(plan, (*kept, *new)),
        (*relations, merged),
        left.merged | right.merged | {merged.side},
    )


def _choose_column(how: str, one: Expression, other: Expression) -> Expression:
    if how == "full":
        return build.call("coalesce", (one, other))
    return other if how == "right" else one


def _check_names(left: Sequence[Relation], right: Sequence[Relation], position: int) -> None:
    mine = {name.lower() for relation in left for name in relation.names if name}
    for name in (name for relation in right for name in relation.names):
        if name.lower() in mine:
            what = f"Two tables are called {name}."
            raise ExpressionError(what, "Give one another name with AS.", position=position)
