"""MERGE: its clauses as a command, and their meaning as trees over a target and a source.

`Merge` holds texts. `Merge.analyze` checks them against the schemas and returns an `AnalyzedMerge`,
in which columns of the target have the relation "target" and those of the source "source".
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from engine.commands.column_sql import or_default
from engine.commands.command import PARSE, Command, check_source
from engine.commands.fields import parameter, to_json, values_from_json
from engine.commands.names import name_sql, options_sql, table_sql
from engine.commands.sources import RowsSource, Source, TableSource
from engine.commands.writes import OPTION, choice_option, compaction_choice
from engine.errors import ExpressionError, MultipleSourceRowsError, RequestError
from engine.expressions.parse import Given, row_condition, value_of
from engine.expressions.queries.binding import Tables
from engine.expressions.queries.subqueries import bind_subqueries
from engine.expressions.queries.tables import tables_in_condition
from engine.expressions.scope import Relation, Scope
from engine.expressions.traits import (
    conjunction,
    drop_relations,
    has_subquery,
    is_deterministic,
    relations_of,
    split_conjuncts,
)
from engine.expressions.tree import TRUE, Call, Column, Expression, Literal
from engine.schema.column_paths import column_path
from engine.schema.evolution import select_source_columns
from engine.schema.types import BOOLEAN, STRING, DataType, StructField, StructType
from engine.schema.write_errors import SetTwiceError

MATCHED, NOT_MATCHED, BY_SOURCE = "matched", "not_matched", "not_matched_by_source"
UPDATE, UPDATE_ALL, DELETE, INSERT, INSERT_ALL = (
    "update",
    "update_all",
    "delete",
    "insert",
    "insert_all",
)
WHEN_SQL = {
    MATCHED: "MATCHED",
    NOT_MATCHED: "NOT MATCHED",
    BY_SOURCE: "NOT MATCHED BY SOURCE",
}

_ACTIONS = {
    MATCHED: (UPDATE, UPDATE_ALL, DELETE),
    NOT_MATCHED: (INSERT, INSERT_ALL),
    BY_SOURCE: (UPDATE, DELETE),
}
_ACTION_SQL = {
    UPDATE: "UPDATE SET",
    UPDATE_ALL: "UPDATE SET *",
    DELETE: "DELETE",
    INSERT: "INSERT",
    INSERT_ALL: "INSERT *",
}
_FILLED_BY_TABLE = frozenset({"delta.generationExpression", "delta.identity.start"})


@dataclass(frozen=True)
class MergeClause:
    """One WHEN clause: its rows, condition and action."""

    when: str = parameter("When", "choice", choices=tuple(_ACTIONS))
    action: str = parameter(
        "Then", "choice", choices=(UPDATE, UPDATE_ALL, DELETE, INSERT, INSERT_ALL)
    )
    condition: Given | None = parameter("And", "condition", default=None)
    assignments: Mapping[str, Given] = parameter(
        "Set", "assignments", default={}, help="Columns and their values, for update and insert."
    )

    def as_json(self) -> dict[str, Any]:
        """Return the fields as JSON-ready values."""
        return {name: to_json(value) for name, value in vars(self).items()}

    def validate(self) -> None:
        """Refuse an action not allowed for its WHEN.

        Raises:
            RequestError: names the action.
        """
        if self.action not in _ACTIONS.get(self.when, ()):
            actions = [_ACTION_SQL[action] for action in _ACTIONS.get(self.when, ())]
            when = WHEN_SQL.get(self.when, self.when)
            what = f"WHEN {when} cannot {_ACTION_SQL.get(self.action, self.action)}."
            remedy = f"Use {', '.join(actions)}."
            raise RequestError(what, remedy, field="clauses")
        if bool(self.assignments) != (self.action in {UPDATE, INSERT}):
            what = (
                f"{self.action} {'sets nothing' if not self.assignments else 'takes no columns'}."
            )
            raise RequestError(what, "Give columns to update and insert only.", field="clauses")

    def sql(self) -> str:
        """Render the clause as SQL."""
        condition = f" AND {self.condition}" if self.condition else ""
        return f"WHEN {WHEN_SQL[self.when]}{condition} THEN {self._action_sql()}"

    def _action_sql(self) -> str:
        if self.action == UPDATE:
            pairs = ", ".join(f"{column} = {value}" for column, value in self.assignments.items())
            return f"UPDATE SET {pairs}"
        if self.action == INSERT:
            values = ", ".join(map(str, self.assignments.values()))
            return f"INSERT ({', '.join(self.assignments)}) VALUES ({values})"  # noqa: S608
        return _ACTION_SQL[self.action]


class NoClauseError(RequestError, code="DELTA_MERGE_MISSING_WHEN"):
    """A MERGE has no WHEN."""


@dataclass(frozen=True)
class Merge(Command):
    """Update, delete and insert in one commit, row by row of a source."""

    kind: ClassVar[str] = "merge"
    help: ClassVar[str] = "Update, delete and insert rows by matching them with a source."
    source: Source = parameter("Source", "source", help="Files, rows or another table.")
    on: Given = parameter(
        "On", "condition", help="The condition that matches source rows with target rows."
    )
    clauses: tuple[MergeClause, ...] = parameter("Clauses", "clauses")
    target_alias: str = parameter("Alias of the target", "text", default="target")
    source_alias: str = parameter("Alias of the source", "text", default="source")
    schema_evolution: bool = parameter("Add new columns", "boolean", default=False)
    auto_compact: str = compaction_choice()

    def validate(self, schema: StructType | None) -> None:  # noqa: ARG002
        """Refuse invalid parameters, and if a schema is given, those invalid for it."""
        check_source(self.source)
        if isinstance(self.source, RowsSource) and not self.source.columns:
            what = "The columns of the rows after VALUES have no names."
            remedy = f"Name them after the alias: AS {self.source_alias} (a, b)."
            raise RequestError(what, remedy, field="source.columns")
        if not self.clauses:
            what = "MERGE has no WHEN clause."
            raise NoClauseError(what, "Give at least one clause.", field="clauses")
        for clause in self.clauses:
            clause.validate()
        _check_order(self.clauses)
        if self.target_alias.lower() == self.source_alias.lower():
            what = f"The target and the source are both called {self.target_alias}."
            raise RequestError(what, "Give one of them another alias.", field="source_alias")

    def tables_read(self) -> tuple[str, ...]:
        """Return the tables named by its source, conditions and clauses, as written."""
        texts = (
            text
            for clause in self.clauses
            for text in (clause.condition, *clause.assignments.values())
            if text and isinstance(text, str)
        )
        inner = (name for text in texts for name in tables_in_condition(text))
        return tuple(dict.fromkeys((*super().tables_read(), *inner)))

    def analyze(
        self,
        target: StructType,
        source: StructType,
        *,
        now_ms: int | None = None,
        tables: Tables | None = None,
    ) -> "AnalyzedMerge":
        """Parse its conditions and assignments; subqueries in clauses read `tables`.

        Raises:
            ExpressionError: (`UnknownColumnError`) a part does not fit the schemas.
        """
        sides = _MergeSides(self, target, source, now_ms, tables)
        return AnalyzedMerge(
            row_condition(self.on, sides.scope(MATCHED), "ON", now_ms=now_ms),
            tuple(sides.clause(clause, i + 1) for i, clause in enumerate(self.clauses)),
        )

    def choose_new_columns(self, source: StructType) -> StructType:
        """Choose the source columns the target must have: those of `*`, and assigned ones."""
        names = {self.target_alias.lower(), self.table.rpartition(".")[2].lower()}
        keys = (column_path(key.lower()) for clause in self.clauses for key in clause.assignments)
        paths = {path[1:] if len(path) > 1 and path[0] in names else path for path in keys}
        takes_all = any(clause.action in {UPDATE_ALL, INSERT_ALL} for clause in self.clauses)
        return select_source_columns(source, paths, takes_all=takes_all)

    def statement(self) -> str:
        """Render the command as SQL; `parse_statement` returns an equal command.

        Spark requires the clauses in the order of their WHEN: they are written and read back in
        this order. The rows a clause reaches depend on the order within its own WHEN only.
        """
        evolution = " WITH SCHEMA EVOLUTION" if self.schema_evolution else ""
        clauses = " ".join(c.sql() for when in _ACTIONS for c in self.clauses if c.when == when)
        options = options_sql({OPTION: choice_option(self.auto_compact)})
        return (
            f"MERGE{evolution} INTO {table_sql(self.table)} AS {name_sql(self.target_alias)} "
            f"USING {self._source_sql()} AS {name_sql(self.source_alias)} "
            f"ON {self.on} {clauses}{options}"
        )

    def _source_sql(self) -> str:
        source = self.source
        if isinstance(source, TableSource) and source == TableSource(source.table):
            return table_sql(source.table)
        return f"({source.query() if isinstance(source, RowsSource) else source.sql()})"


class HiddenClauseError(RequestError, code="DELTA_NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION"):
    """A WHEN MATCHED before the last has no condition."""


class HiddenInsertError(RequestError, code="DELTA_NON_LAST_NOT_MATCHED_CLAUSE_OMIT_CONDITION"):
    """A WHEN NOT MATCHED before the last has no condition."""


class HiddenBySourceError(
    RequestError, code="DELTA_NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION"
):
    """A WHEN NOT MATCHED BY SOURCE before the last has no condition."""


_HIDDEN_CLAUSES = {
    MATCHED: HiddenClauseError,
    NOT_MATCHED: HiddenInsertError,
    BY_SOURCE: HiddenBySourceError,
}


def _check_order(clauses: tuple[MergeClause, ...]) -> None:
    for when in _ACTIONS:
        own = [clause for clause in clauses if clause.when == when]
        if any(earlier.condition is None for earlier in own[:-1]):
            what = f"A WHEN {WHEN_SQL[when]} clause without a condition hides the clauses after it."
            remedy = "Only the last clause of a kind can have no condition."
            raise _HIDDEN_CLAUSES[when](what, remedy, field="clauses")


def _clauses(given: Any) -> tuple[MergeClause, ...]:  # noqa: ANN401 - JSON
    if not isinstance(given, list | tuple) or len(given) > 100:
        what = "clauses are a list of at most 100"
        raise TypeError(what)
    return tuple(clause if isinstance(clause, MergeClause) else _clause(clause) for clause in given)


def _clause(given: Any) -> MergeClause:  # noqa: ANN401 - JSON
    if not isinstance(given, Mapping):
        what = "a clause is an object"
        raise TypeError(what)
    return MergeClause(**values_from_json(MergeClause, given, {}))


PARSE["clauses"] = _clauses


def clause_words(number: int, when: str) -> str:
    """Describe a clause by number and kind, for messages."""
    return f"clause {number} (WHEN {WHEN_SQL[when]})"


@dataclass(frozen=True)
class AnalyzedClause:
    """A clause as trees; `*` is written out. Paths are the target's, `number` counts from 1."""

    when: str
    action: str
    condition: Expression | None
    assignments: Mapping[tuple[str, ...], Expression]
    number: int = 1
    fills_fields: bool = False

    @property
    def words(self) -> str:
        """The clause's number and kind, for messages."""
        return clause_words(self.number, self.when)

    def rewrite(self, change: Callable[[Expression], Expression]) -> "AnalyzedClause":
        """Rewrite every tree of this clause."""
        condition = None if self.condition is None else change(self.condition)
        values = {path: change(value) for path, value in self.assignments.items()}
        return replace(self, condition=condition, assignments=values)


@dataclass(frozen=True)
class AnalyzedMerge:
    """A MERGE as trees."""

    on: Expression
    clauses: tuple[AnalyzedClause, ...]

    @property
    def reads_whole_target(self) -> bool:
        """Whether NOT MATCHED BY SOURCE makes every target row count."""
        return any(clause.when == BY_SOURCE for clause in self.clauses)

    def collect_by_source_conditions(self) -> tuple[Expression, ...] | None:
        """Return the conditions of NOT MATCHED BY SOURCE; None if a clause reaches every row."""
        conditions = [clause.condition for clause in self.clauses if clause.when == BY_SOURCE]
        stated = tuple(condition for condition in conditions if condition is not None)
        return stated if len(stated) == len(conditions) else None

    @property
    def inserts_only(self) -> bool:
        """Whether no clause changes existing rows; the target is still read."""
        return all(clause.when == NOT_MATCHED for clause in self.clauses)

    @property
    def only_deletes_matches(self) -> bool:
        """Whether it does not matter how many source rows match a target row."""
        return all(clause.action == DELETE for clause in self.clauses if clause.when == MATCHED)

    def check_single(self, table: str) -> None:
        """Refuse several source rows for one target row, unless they can only delete it.

        Raises:
            MultipleSourceRowsError: they would change it.
        """
        if not self.only_deletes_matches:
            msg = f"Several source rows match the same row of {table} and would change it."
            remedy = "Make the source rows unique on the columns that ON compares."
            raise MultipleSourceRowsError(msg, remedy)

    def target_condition(self) -> Expression:
        """Return the condition on target rows to read, over the table's own columns.

        These are the conjuncts of ON with target columns only; TRUE if there are none, or if NOT
        MATCHED BY SOURCE reaches every row.
        """
        if self.reads_whole_target:
            return TRUE
        parts = split_conjuncts(self.on)
        return conjunction(drop_relations(part) for part in parts if _reads_only_target(part))

    def conditions(self) -> tuple[Expression, ...]:
        """Return ON and the conditions of its clauses."""
        asked = (clause.condition for clause in self.clauses)
        return (self.on, *(condition for condition in asked if condition is not None))

    def values(self) -> tuple[Expression, ...]:
        """Return the assigned values of its clauses."""
        return tuple(value for clause in self.clauses for value in clause.assignments.values())

    def rewrite(self, change: Callable[[Expression], Expression]) -> "AnalyzedMerge":
        """Rewrite every tree of this MERGE that may involve a source row."""
        clauses = (
            clause if clause.when == BY_SOURCE else clause.rewrite(change)
            for clause in self.clauses
        )
        return AnalyzedMerge(change(self.on), tuple(clauses))

    def expressions(self) -> tuple[Expression, ...]:
        """Return every tree of the merge."""
        return (*self.conditions(), *self.values())


def _reads_only_target(part: Expression) -> bool:
    if not is_deterministic(part) or has_subquery(part):
        return False
    return relations_of(part) <= {"target"}


class _MergeSides:
    def __init__(
        self,
        merge: Merge,
        target: StructType,
        source: StructType,
        now_ms: int | None,
        tables: Tables | None,
    ) -> None:
        self._nested = None if tables is None else bind_subqueries(tables)
        names = tuple(n for n in (merge.target_alias, merge.table.rpartition(".")[2]) if n)
        named = merge.source.table if isinstance(merge.source, TableSource) else ""
        named = named.rpartition(".")[2]
        if named.lower() in {name.lower() for name in names}:
            named = ""  # in a merge of a table into itself the target has the name
        self._target = Relation(target, "target", names)
        self._source = Relation(source, "source", (merge.source_alias, named))
        self._evolves = merge.schema_evolution
        self._now_ms = now_ms

    def scope(self, when: str) -> Scope:
        """Return the sides a clause may use; the other side's name is reserved."""
        if when == NOT_MATCHED:
            return Scope((self._source,), taken=self._target.called)
        if when == BY_SOURCE:
            return Scope((self._target,), taken=self._source.called)
        return Scope((self._target, self._source))

    def clause(self, clause: MergeClause, number: int) -> AnalyzedClause:
        scope, words = self.scope(clause.when), clause_words(number, clause.when)
        condition = (
            row_condition(clause.condition, scope, words, now_ms=self._now_ms, nested=self._nested)
            if clause.condition
            else None
        )
        if clause.action in {UPDATE_ALL, INSERT_ALL}:
            assignments = self._star(keeps_fields=clause.action == UPDATE_ALL)
        else:
            own = Scope((self._target,))
            assignments = dict(
                value_of(
                    or_default(value, self._target.schema, column_path(key)),
                    scope,
                    own.resolve(column_path(key)),
                    now_ms=self._now_ms,
                    nested=self._nested,
                )
                for key, value in clause.assignments.items()
            )
        analyzed = AnalyzedClause(
            clause.when, clause.action, condition, assignments, number, self._evolves
        )
        if clause.assignments and len(assignments) < len(clause.assignments):
            what = f"{words} sets one column twice."
            raise SetTwiceError(what, "Set it once.", field="clauses")
        return analyzed

    def _star(self, *, keeps_fields: bool) -> dict[tuple[str, ...], Expression]:
        """Return the assignments of `*`.

        If the schema evolves and existing rows are updated, a struct keeps the target's fields it
        lacks.
        """
        assignments: dict[tuple[str, ...], Expression] = {}
        for field in self._target.schema:
            mine = self._source.schema.get(field.name)
            if mine is not None:
                value = Column((mine.name,), mine.type, "source")
                old = Column((field.name,), field.type, "target")
                keeps = self._evolves and keeps_fields
                assignments[(field.name,)] = keep_fields(old, value) if keeps else value
            elif not self._evolves and not _FILLED_BY_TABLE & field.metadata.keys():
                what = f"* needs the column {field.name}, which the source does not have."
                raise ExpressionError(what, "List the columns instead.", field="clauses")
        return assignments


def equal_sides(part: Expression) -> tuple[Expression, Expression] | None:
    """Return both sides of `=` or `<=>` between target and source, the target's first; else None."""
    if not (isinstance(part, Call) and part.function in {"=", "<=>"}):
        return None
    mine, theirs = part.arguments
    if relations_of(mine) == {"source"}:
        mine, theirs = theirs, mine
    is_between = relations_of(mine) == {"target"} and relations_of(theirs) == {"source"}
    return (mine, theirs) if is_between else None


def plain_equal_sides(part: Expression) -> tuple[Expression, Expression] | None:
    """Return the sides of an `=`, like `equal_sides`, where null matches nothing."""
    return equal_sides(part) if isinstance(part, Call) and part.function == "=" else None


def keep_fields(old: Column, new: Column) -> Expression:
    """Return the new value of a column, completed by missing fields from the old one.

    A struct null in both stays null.
    """
    if not isinstance(old.type, StructType) or not _lacks_fields(old.type, new.type):
        return new
    fields, arguments = list[StructField](), list[Expression]()
    for name, value in _iter_fields(old, old.type, new):
        fields.append(StructField(name, value.type))
        arguments += [Literal(name, STRING), value]
    made = StructType(tuple(fields))
    absent = (Call("isnull", (side,), BOOLEAN) for side in (old, new))
    both_absent = Call("and", tuple(absent), BOOLEAN)
    struct = Call("named_struct", tuple(arguments), made)
    return Call("if", (both_absent, Literal(None, made), struct), made)


def _iter_fields(old: Column, kind: StructType, new: Column) -> Iterator[tuple[str, Expression]]:
    for field in kind:
        kept = Column((*old.path, field.name), field.type, old.relation)
        mine = new.type.get(field.name) if isinstance(new.type, StructType) else None
        if mine is None:
            yield field.name, kept
        else:
            inner = Column((*new.path, mine.name), mine.type, new.relation)
            yield field.name, keep_fields(kept, inner)


def _lacks_fields(target: DataType, source: DataType) -> bool:
    """Return whether a struct has fewer fields than its target column, at any depth."""
    if not isinstance(target, StructType) or not isinstance(source, StructType):
        return False
    pairs = ((field, source.get(field.name)) for field in target)
    return any(mine is None or _lacks_fields(field.type, mine.type) for field, mine in pairs)
