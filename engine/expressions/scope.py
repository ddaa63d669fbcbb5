"""Scope of an expression: one table, or the two sides of a MERGE."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from heapq import nlargest

from engine.errors import ExpressionError, UnknownColumnError
from engine.expressions.tree import Column
from engine.schema.text_lengths import char_length
from engine.schema.types import DataType, StructField, StructType

_COMPARED = 300
"""Limit of names compared with an unknown one, since comparison is slow."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as a source of columns.

    `side` marks resolved columns ("" for the only table, "target", "source"), `names` are the
    qualifiers allowed before a column: the alias, or else the name, comes first. `database` has the
    names allowed before that first one: a catalog and a database.
    """

    schema: StructType
    side: str = ""
    names: tuple[str, ...] = ()
    database: tuple[str, ...] = ()

    @property
    def called(self) -> str:
        """Its name in the statement, in lower case; "" without a name."""
        return next((name.lower() for name in self.names if name), "")

    @property
    def other_names(self) -> set[str]:
        """Other qualifiers of its columns unless they mean something else, in lower case."""
        return {name.lower() for name in (*self.names, self.side) if name} - {self.called}

    def strip_database(self, path: Sequence[str]) -> Sequence[str]:
        """Return a dotted name without the relation's name and the database before it.

        It is empty for a name that does not begin so.
        """
        whole = (*self.database, self.called)
        return strip_table_name(path, whole) if self.called else ()


@dataclass(frozen=True, slots=True)
class Scope:
    """The relations of a statement; names are matched ignoring case.

    A qualifier is first a relation's name, with its database or without, then a struct column, as in Spark; then another name of
    a relation, unless a second one has it. Names unknown to all are looked up in the `outer` scope,
    around a subquery.

    `taken` is the name of a relation that must not be used here.
    """

    relations: tuple[Relation, ...]
    outer: "Scope | None" = None
    taken: str = ""

    @classmethod
    def from_schema(cls, schema: "StructType | Scope") -> "Scope":
        """Return the scope of one table, or the scope itself."""
        return schema if isinstance(schema, Scope) else cls((Relation(schema),))

    def resolve(self, path: Sequence[str], position: int | None = None) -> Column:
        """Resolve a dotted name to a column.

        Raises:
            UnknownColumnError: no relation has it.
            ExpressionError: several have it, or a field of an array or map is requested.
        """
        columns = self.own(path)
        if len(columns) == 1:
            return columns[0]
        if not columns and self.outer is not None:
            return self.outer.resolve(path, position)
        if not columns:
            raise self._column_error(path, position)
        what = f"The column {'.'.join(path)} is ambiguous: it is in {len(columns)} tables."
        raise ExpressionError(what, "Qualify it with the name of its table.", position=position)

    def own(self, path: Sequence[str]) -> list[Column]:
        """Return the columns a dotted name may mean in these relations, without the outer scope."""
        if len(path) < 2:
            return self._find_columns(path)
        stripped = [(relation, relation.strip_database(path)) for relation in self.relations]
        qualified = [
            column for relation, rest in stripped if rest for column in _columns([relation], rest)
        ]
        if qualified:
            return qualified
        first = path[0].lower()
        called = [relation for relation in self.relations if relation.called == first]
        named = [relation for relation in self.relations if first in relation.other_names]
        own = _columns(called, path[1:]) or self._find_columns(path)
        is_taken = bool(called) or first == self.taken
        return own or ([] if is_taken else _columns(named, path[1:]))

    def _find_columns(self, path: Sequence[str]) -> list[Column]:
        return _columns(self.relations, path)

    def _column_error(self, path: Sequence[str], position: int | None) -> UnknownColumnError:
        names = list(
            dict.fromkeys(
                name
                for relation in self._candidate_relations(path)
                for name in relation.schema.names
            )
        )
        close = get_close_matches(path[-1], _likely(path[-1], names), n=1, cutoff=0.6)
        shown = ", ".join(names[:20]) + (" …" if len(names) > 20 else "")
        hint = f"Did you mean {close[0]}?" if close else f"The columns are {shown}."
        if not names:
            hint = "Columns cannot be used here. Put a string in quotes."
        return UnknownColumnError(
            f"There is no column {'.'.join(path)[:200]}.", hint, position=position
        )

    def _candidate_relations(self, path: Sequence[str]) -> Sequence[Relation]:
        """Return the relations a dotted name may refer to: those of its qualifier, if any."""
        first = path[0].lower() if len(path) > 1 else ""
        named = [
            relation
            for relation in self.relations
            if first and first in {name.lower() for name in relation.names}
        ]
        return named or self.relations


def strip_table_name(path: Sequence[str], table: Sequence[str]) -> Sequence[str]:
    """Return a dotted name without the table's name and at least its database before it; else ()."""
    lowered = [name.lower() for name in path]
    for start in range(len(table) - 1):
        name = [part.lower() for part in table[start:]]
        if len(path) > len(name) and lowered[: len(name)] == name:
            return path[len(name) :]
    return ()


def _likely(name: str, names: list[str]) -> list[str]:
    """Return the names to compare in full: of very many, those with a similar start and end."""
    if len(names) <= _COMPARED:
        return names
    backwards = name[::-1]

    def likeness(other: str) -> int:
        alike = _alike(name, other) + _alike(backwards, other[::-1])
        return min(alike, len(name), len(other)) - abs(len(other) - len(name))

    return nlargest(_COMPARED, names, key=likeness)


def _alike(one: str, other: str) -> int:
    """Count the letters two names have in common at the start."""
    pairs = zip(one, other, strict=False)
    shorter = min(len(one), len(other))
    return next((place for place, (a, b) in enumerate(pairs) if a != b), shorter)


def _columns(relations: Sequence[Relation], path: Sequence[str]) -> list[Column]:
    columns = (_column(relation, path) for relation in relations)
    return [column for column in columns if column]


def _column(relation: Relation, path: Sequence[str]) -> Column | None:
    names: list[str] = []
    field: StructField | None = None
    current: DataType = relation.schema
    for name in path:
        if not isinstance(current, StructType):
            return None
        field = current.get(name)
        if field is None:
            return None
        names.append(field.name)
        current = field.type
    length = char_length(field) if field is not None and len(path) == 1 else 0
    return Column(tuple(names), current, relation.side, length)
