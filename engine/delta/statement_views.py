"""Delta tables in a statement, replaced in its text by temporary views over native scans.

Spark's parser reports the position of each relation. The text at that position is checked before a
character is replaced. The query of a permanent view is resolved in its plan, under Spark's node for
the view: its text, its columns and its settings stay as the catalog has them.
"""

import re
import uuid
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from engine.delta.names import (
    NameUnknownError,
    NotADeltaTableError,
    find_delta,
    name_sql,
    parts_of,
    path_in,
)
from engine.delta.table_reads import (
    TIMESTAMP,
    VERSION,
    lower_options,
    read_frame,
    read_path,
    table_at,
)
from engine.errors import RequestError
from engine.expressions.lexer import Token, tokenize
from engine.snapshot.snapshot import Snapshot
from engine.spark.columns import quote_column
from engine.spark.jvm import analyze_as_view, column_of, frame_over, get_analyzed_plan, iter_seq
from engine.spark.session_catalog import SESSION_CATALOG, find_permanent_view, find_table
from engine.spark.statement_plan import (
    Java,
    NamedRelation,
    kind_of,
    name_plan,
    relations_read,
    replace_relations,
    span_of,
    texts_of,
)
from engine.storage.uri import real_place
from engine.table import DeltaTable

PREFIX = "__lake_"
_CHANGE_FUNCTIONS = frozenset({"table_changes", "table_changes_by_path"})
_BY_NAME_ALONE = re.compile(r"\bTABLE\s*\Z", re.IGNORECASE)
_BEFORE_ALIAS = re.compile(r"\s*(TABLESAMPLE|WATERMARK)\b", re.IGNORECASE)
_QUALIFIED = re.compile(r"\.\s*(?:`[^`]+`|\w+)\s*\.")
_IDENTIFIER = re.compile(r"\s*IDENTIFIER\s*\(", re.IGNORECASE)


class StatementNotRoutedError(RequestError, code="LAKE_STATEMENT_NOT_ROUTED"):
    """A statement names a Delta table in an unsupported way."""


class ViewCycleError(RequestError):
    """A permanent view reads itself."""

    code = "RECURSIVE_VIEW"

    def __init__(self, name: str) -> None:
        """Take the view's qualified name."""
        super().__init__(f"The view {name} reads itself.", "Create or replace it without that.")


class StatementViews:
    """The views of one statement. They are dropped when it has been analyzed."""

    def __init__(
        self, session: SparkSession, text: str = "", within: tuple[Java, ...] = ()
    ) -> None:
        """No view is made yet. `within` are the permanent views around the text, outermost first."""
        self._session, self._text, self._within = session, text, within
        self._names: list[str] = []
        self._snapshots: dict[str, Snapshot] = {}
        self._unaliased: list[tuple[str, ...]] = []
        self.reads_views = False  # whether the statement names a user's temporary view

    def rewrite_relations(self, relations: list[NamedRelation]) -> str:
        """Return the text with views in place of Delta tables; the relations come in order.

        Raises:
            StatementNotRoutedError: the position of a relation is unknown.
        """
        parts, at = [], 0
        for relation in relations:
            frame = self._frame(relation)
            if frame is None:
                continue
            if not relation.function:
                self._check_name(relation)
            end = self._end(relation)
            parts += [self._text[at : relation.start], self._view(relation, frame, end)]
            if not relation.alias:
                self._unaliased.append(relation.parts)
            at = end
        return "".join([*parts, self._text[at:]])

    def shorten_qualifiers(self, text: str, target: Sequence[str]) -> str:
        """Return the text with `t.` for `db.t.` and `catalog.db.t.` of Delta tables without alias.

        A view has no database, and the engine knows its target by one name. `target` are the parts
        of the changed table's name; empty if it has an alias.
        """
        if not _QUALIFIED.search(text):
            return text
        tokens, pieces, at, index = tokenize(text), list[str](), 0, 0
        alone = _names_alone(tokens)  # among them aliases, which come before databases
        qualifiers = set()
        for parts in filter(None, (*self._unaliased, tuple(target))):
            database = parts[-2] if len(parts) > 1 else self._session.catalog.currentDatabase()
            short = database.lower(), parts[-1].lower()
            if short[0] not in alone:
                catalog = parts[0].lower() if len(parts) == 3 else SESSION_CATALOG
                qualifiers |= {short, (catalog, *short)}
        while index < len(tokens):
            length = _qualifier_length(tokens, index, qualifiers)
            if length:
                pieces.append(text[at : tokens[index].position])
                at = tokens[index + 2 * length - 2].position  # the table's name
            index += 2 * length or 1
        return "".join([*pieces, text[at:]])

    def rewrite_with(self, text: str, plan: Java) -> str:
        """Return a DELETE, UPDATE or MERGE without the WITH before it: its queries become views."""
        span = span_of(plan.child())
        if span is None:
            what = "Where the statement after WITH begins cannot be told."
            raise StatementNotRoutedError(what, "Move the query into the statement.", field="sql")
        start = span[0]
        prefix, body = text[:start], text[start:]
        shift = len(prefix)
        names = {str(cte._1()).lower() for cte in iter_seq(plan.cteRelations())}
        parts, at = [], 0
        for relation in relations_read(self._session, plan.child()):
            if len(relation.parts) != 1 or relation.parts[0].lower() not in names:
                continue
            query = f"{prefix} SELECT * FROM {quote_column(relation.parts[0])}"  # noqa: S608
            self._text = body
            local = replace(relation, start=relation.start - shift, end=relation.end - shift)
            parts += [
                body[at : local.start],
                self._view(local, self._session.sql(query), local.end),
            ]
            at = local.end
        return "".join([*parts, body[at:]])

    def drop(self) -> None:
        """Drop the views; existing plans over them keep their rows.

        This bypasses `spark.catalog`, which would also drop the caller's cache of the same rows.
        """
        inside: Any = self._session
        for name in self._names:
            inside._jsparkSession.sessionState().catalog().dropTempView(name)
        self._names.clear()

    def resolve_relations(self, plan: Java) -> Java:
        """Return a parsed plan with its Delta tables, and views over such, resolved.

        In a view over such tables every relation is: Spark would look the others up in the
        session's database.
        """
        relations = relations_read(self._session, plan)
        frames = [self._frame(relation) for relation in relations]
        if all(frame is None for frame in frames):
            return plan
        resolved = {}
        for relation, frame in zip(relations, frames, strict=True):
            name = self._qualify(relation.parts)
            if frame is not None:
                rows = name_plan(self._session, get_analyzed_plan(frame), name)
            elif self._within and relation.is_plain:
                rows = get_analyzed_plan(self._session.table(name_sql(name)))
            else:
                continue
            resolved[relation.start, relation.end] = rows
        return replace_relations(self._session, plan, resolved)

    def read_view(self, parts: Sequence[str]) -> DataFrame | None:
        """Return the rows of a permanent view that reads Delta tables; None for any other name.

        Raises:
            ViewCycleError: it reads itself.
        """
        view = find_permanent_view(self._session, name_sql(parts))
        if view is None:
            return None
        name = str(view.qualifiedName())
        if any(name == str(around.qualifiedName()) for around in self._within):
            raise ViewCycleError(name)
        inner = StatementViews(self._session, within=(*self._within, view))
        inner._snapshots = self._snapshots
        inside: Any = self._session
        catalog = inside._jsparkSession.sessionState().catalog()
        options = getattr(catalog, "getRelation$default$2")()
        plan = catalog.getRelation(view, options)
        resolved = inner.resolve_relations(plan)
        if resolved is plan:
            return None
        return frame_over(analyze_as_view(resolved, view, self._session), self._session)

    def _qualify(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """Return the parts of a name; in a view, with the database in which it was created."""
        if not self._within or len(parts) != 1:
            return parts
        return (*texts_of(self._within[-1].viewCatalogAndNamespace()), *parts)

    def _frame(self, relation: NamedRelation) -> DataFrame | None:
        session = self._session
        if relation.function:
            return self._changes(relation) if relation.function in _CHANGE_FUNCTIONS else None
        parts = self._qualify(relation.parts)
        place = find_delta(session, parts)
        if place is None:
            return self._read_other(relation, parts)
        options = lower_options(dict(relation.options))
        if relation.version is not None:
            options[VERSION] = relation.version
        if relation.timestamp is not None:
            options[TIMESTAMP] = self._moment(relation.timestamp)
        name = ".".join(relation.parts) if place.name else place.location
        if place.name:
            table = table_at(session, place.location, relation.options, name)
            return read_frame(session, table, options, self._latest)
        return read_path(session, place.location, {**relation.options, **options}, self._latest)

    def _read_other(self, relation: NamedRelation, parts: Sequence[str]) -> DataFrame | None:
        """Return the rows of a permanent view over Delta tables; None for what Spark reads itself."""
        travels = relation.version is not None or relation.timestamp is not None
        frame = None if travels else self.read_view(parts)
        if frame is None and not self._within:
            relation_table = find_table(self._session, name_sql(parts))
            self.reads_views |= relation_table is not None and relation_table.is_view
        return frame

    def _latest(self, table: DeltaTable) -> Snapshot:
        """Return the version that all references to the table in the statement read."""
        place = real_place(table.uri)
        if place not in self._snapshots:
            self._snapshots[place] = table.snapshot()
        return self._snapshots[place]

    def _changes(self, relation: NamedRelation) -> DataFrame:
        """table_changes('table', start [, end]); numbers are versions, other values times."""
        values = [_constant(self._session, argument) for argument in relation.arguments]
        if len(values) not in {2, 3}:
            what = f"{relation.function} takes a table, a start and an optional end."
            raise StatementNotRoutedError(what, "Give two or three arguments.", field="sql")
        name = str(values[0])
        by_path = relation.function.endswith("_by_path")
        path = name if by_path else path_in(name)
        if path is None:
            place = find_delta(self._session, self._qualify(parts_of(name)))
            if place is None:
                unknown = find_table(self._session, name) is None
                raise NameUnknownError(name) if unknown else NotADeltaTableError(name)
            path = place.location
        options = {"readchangefeed": "true"}
        for which, value in zip(("starting", "ending"), values[1:], strict=False):
            kind = "version" if isinstance(value, int) else "timestamp"
            options[f"{which}{kind}"] = str(value)
        table = table_at(self._session, path, {}, name)
        return read_frame(self._session, table, options, self._latest)

    def _moment(self, expression: Java) -> str:
        """Return the time of TIMESTAMP AS OF, in the session's time zone."""
        column = column_of(expression, self._session).cast("timestamp").cast("string")
        first_row = self._session.range(1).select(column).first()
        if first_row is None or first_row[0] is None:
            what = "TIMESTAMP AS OF has no timestamp."
            raise StatementNotRoutedError(what, "Write a time.", field="sql")
        return str(first_row[0])

    def _check_name(self, relation: NamedRelation) -> None:
        """Check that the text has the relation at the parser's position."""
        text = self._text[relation.start : relation.name_end]
        if _IDENTIFIER.match(text):
            return
        names = [_name_of(token) for token in tokenize(text) if token.value != "."]
        if names != list(relation.parts):
            what = (
                f"The place where the statement names {'.'.join(relation.parts)} cannot be "
                "determined."
            )
            remedy = "Read the table with spark.read.table and register it as a temporary view."
            raise StatementNotRoutedError(what, remedy, field="sql")

    def _end(self, relation: NamedRelation) -> int:
        """Return the offset after the relation and its `WITH (…)`."""
        if not relation.options:
            return relation.end
        depth = 0
        for token in tokenize(self._text[relation.end :]):
            depth += (token.value == "(") - (token.value == ")")
            if token.value == ")" and depth == 0:
                return relation.end + token.end
        return relation.end

    def _view(self, relation: NamedRelation, frame: DataFrame, end: int) -> str:
        name = f"{PREFIX}{uuid.uuid4().hex}"
        frame.createOrReplaceTempView(name)
        self._names.append(name)
        before, after = self._text[: relation.start], self._text[end:]
        nameless = relation.alias or not relation.parts or "/" in relation.parts[-1]
        if nameless or _BY_NAME_ALONE.search(before) or _BEFORE_ALIAS.match(after):
            return quote_column(name)
        return f"{quote_column(name)} AS {quote_column(relation.parts[-1])}"


def _names_alone(tokens: Sequence[Token]) -> set[str]:
    """Return the names without a dot beside them, in lower case."""
    around = ["", *(token.value for token in tokens), ""]
    return {
        _name_of(token).lower()
        for at, token in enumerate(tokens, 1)
        if around[at - 1] != "." and around[at + 1] != "."
    }


def _name_of(token: Token) -> str:
    return token.value if token.kind == "name" else token.text


def _qualifier_length(
    tokens: Sequence[Token], index: int, qualifiers: Collection[tuple[str, ...]]
) -> int:
    """Return how many names of a qualifier begin at a token; 0 if none does."""
    if index and tokens[index - 1].value == ".":
        return 0
    for length in (3, 2):
        part = tokens[index : index + 2 * length]
        if len(part) < 2 * length or any(token.value != "." for token in part[1::2]):
            continue
        if tuple(_name_of(token).lower() for token in part[::2]) in qualifiers:
            return length
    return 0


def _constant(session: SparkSession, expression: Java) -> object:
    """Return the value of an argument without columns."""
    if kind_of(expression) == "NamedArgumentExpression":
        expression = expression.value()
    first_row = (
        session.range(1).select(F.lit(column_of(expression, session)).alias("value")).first()
    )
    return None if first_row is None else first_row[0]
