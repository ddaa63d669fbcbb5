"""Scope of an expression in a query."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.errors import ExpressionError
from engine.expressions.scope import Relation, Scope
from engine.expressions.tree import Column
from engine.schema.types import StructType


@dataclass(frozen=True, slots=True)
class QueryScope(Scope):
    """The tables of a FROM; resolved columns have the plan's own name, `side.name`.

    `merged` are the sides with the columns of USING: they replace the two joined ones.
    """

    merged: frozenset[str] = frozenset()

    def resolve(self, path: Sequence[str], position: int | None = None) -> Column:
        """Resolve a name, also in the directly enclosing query."""
        columns = self._prefer_merged(self.own(path))
        if len(columns) == 1:
            return plan_column(columns[0])
        if columns:
            tables = ", ".join(self._relation_label(column) for column in columns)
            what = f"The column {'.'.join(path)} is ambiguous: it is in {tables}."
            raise ExpressionError(what, "Qualify it with the name of its table.", position=position)
        around = self.outer
        if around is not None and around.own(path):
            return around.resolve(path, position)
        if around is not None and around.outer is not None and around.outer.own(path):
            what = f"The column {'.'.join(path)} belongs to a query two levels further out."
            remedy = "Join its table into the subquery, or use a join."
            raise ExpressionError(what, remedy, position=position)
        raise self._column_error(path, position)

    def has(self, path: Sequence[str]) -> bool:
        """Return whether a table of this FROM has the column."""
        return bool(self.own(path))

    def columns(self, qualifier: str = "") -> Iterator[tuple[str, Column]]:
        """Yield the columns of `*`, or of `qualifier.*`."""
        hidden = {
            n.lower()
            for merged_relation in self._list_merged_relations()
            for n in merged_relation.schema.names
        }
        own = [relation for relation in self.relations if self._is_called(relation, qualifier)]
        for source in [*self._list_merged_relations(), *own] if not qualifier else own:
            for field in source.schema:
                is_hidden = not qualifier and source.side not in self.merged
                if not (is_hidden and field.name.lower() in hidden):
                    yield field.name, plan_column(Column((field.name,), field.type, source.side))

    def _is_called(self, relation: Relation, qualifier: str) -> bool:
        if relation.side in self.merged:
            return False
        return not qualifier or qualifier.lower() in {name.lower() for name in relation.names}

    def _list_merged_relations(self) -> list[Relation]:
        """Return the relations of USING's columns, later joins first: they replace earlier ones."""
        relations: list[Relation] = []
        seen: set[str] = set()
        for relation in reversed(self.relations):
            fresh = [f for f in relation.schema if f.name.lower() not in seen]
            if relation.side in self.merged and fresh:
                seen |= {f.name.lower() for f in fresh}
                relations.append(Relation(StructType(tuple(fresh)), relation.side, relation.names))
        return relations[::-1]

    def _prefer_merged(self, columns: list[Column]) -> list[Column]:
        merged = [column for column in columns if column.relation in self.merged]
        return merged[-1:] or columns

    def _relation_label(self, column: Column) -> str:
        relation = next(
            candidate for candidate in self.relations if candidate.side == column.relation
        )
        return next((name for name in relation.names if name), "a subquery")


def plan_column(column: Column) -> Column:
    """Return the column under its name in the plan."""
    first = f"{column.relation}.{column.path[0]}"
    return Column((first, *column.path[1:]), column.type)


def display_name(name: str) -> str:
    """Return a plan's name as originally written."""
    return name.partition(".")[2] or name
