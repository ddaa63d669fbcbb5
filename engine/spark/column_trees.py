"""Conditions and values from a program, as SQL text or `Column`, parsed into the engine's trees.

A tree decides which files are read and, row by row, which concurrent writes conflict. The smallest
part without a tree stays Spark's own (`SparkExpression`): a part that reads nothing is evaluated at
once, a part that reads only the source is computed with the source, and every other part counts as
reading all rows left by the remaining parts.

SQL text that the engine cannot parse as a whole is split at ANDs and comparisons, by its words and
symbols alone: Spark Connect leaves text to its server.
"""

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from engine.clock import SystemClock
from engine.errors import ExpressionError, InvalidSchemaError, StatementError
from engine.expressions import build
from engine.expressions.functions import COMPARISONS, FOLDED
from engine.expressions.lexer import Token, tokenize
from engine.expressions.operands import Nested
from engine.expressions.parse import GivenExpression, moments, parse_expression
from engine.expressions.scope import Relation, Scope
from engine.expressions.session_terms import is_alike_everywhere
from engine.expressions.traits import has_subquery
from engine.expressions.tree import Column as ColumnOfRow
from engine.expressions.tree import Expression, Literal, SparkExpression, Subquery, walk
from engine.expressions.types import TIMES, cast_by_zone, is_complex, sql_name
from engine.schema.types import STRING, TIMESTAMP, DataType, StructType, type_from_json
from engine.spark.classic_columns import classic_nodes
from engine.spark.column_nodes import (
    AttributeNode,
    CallNode,
    CastNode,
    ConstantNode,
    NameNode,
    Node,
    TextNode,
    is_random,
)
from engine.spark.columns import to_column, to_spark_type
from engine.spark.connect_columns import connect_nodes
from engine.spark.jvm import get_analyzed_plan, iter_seq
from engine.spark.own_columns import OwnColumn, no_rows
from engine.spark.scan.live_frames import has_subqueries
from engine.spark.session import ENGINE_TERMS, has_engine_terms, is_in_utc, is_remote

PREFIX = "__lake_spark_"
_SPLIT = frozenset({"and", "or", "not", "in", *COMPARISONS})
"""Functions whose arguments are converted one by one if the whole has no tree."""

_KEEP_NAMES = frozenset(
    [
        *("Filter", "Sort", "Limit", "GlobalLimit", "LocalLimit", "Offset", "Deduplicate"),
        *("Distinct", "Hint", "ResolvedHint", "Sample", "Repartition", "RepartitionByExpression"),
    ]
)
"""Plan nodes that keep the names of their child."""
_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")
_BINDS_LESS = frozenset(
    ["OR", "NOT", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "IS", "BETWEEN", "EXISTS", "SELECT"]
)
_COMPARISONS = {"=": "=", "==": "=", "<=>": "<=>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


class _SparkAloneError(Exception):
    """A part has no tree."""


@dataclass(frozen=True)
class CallerFrames:
    """The DataFrames of a caller's columns: the source of a MERGE, and the target's.

    `has_engine_terms` is true if the session evaluates expressions as the engine does. `target_name`
    is the target's whole name in the catalog; empty if it has an alias, or no name.
    """

    session: SparkSession
    source: DataFrame | None = None
    of_target: Sequence[DataFrame] = ()
    has_engine_terms: bool = True
    target_name: tuple[str, ...] = ()

    @cached_property
    def source_name(self) -> tuple[str, ...]:
        """The source's alias, or its name in the catalog; empty if its columns have several."""
        if self.source is None:
            return ()
        if is_remote(self.session):
            inside: Any = self.source
            return _read_remote_name(inside._plan)
        return _read_classic_name(get_analyzed_plan(self.source))

    def add_databases(self, scope: Scope) -> Scope:
        """Return the scope with the databases before the names of its relations."""
        names = {"": self.target_name, "target": self.target_name}
        if any(relation.side == "source" for relation in scope.relations):
            names["source"] = self.source_name
        relations = (
            replace(relation, database=names.get(relation.side, ())[:-1])
            for relation in scope.relations
        )
        return replace(scope, relations=tuple(relations))


class GivenColumn(GivenExpression):
    """A condition or a value of a program in its own session: SQL text, or a `Column`."""

    def __init__(self, given: str | Column, frames: CallerFrames) -> None:
        """Take SQL text, with any function of the session, or a `Column`."""
        self._given, self._frames = given, frames

    @property
    def text(self) -> str:
        """The expression as people are shown it."""
        if isinstance(self._given, str):
            return self._given
        return str(self._given).removeprefix("Column<'").removesuffix("'>")

    def tree(
        self,
        scope: Scope,
        *,
        now_ms: int | None = None,
        nested: Nested | None = None,  # noqa: ARG002 - subqueries are Spark's own
    ) -> Expression:
        """Return the tree over the columns of a scope.

        Raises:
            AnalysisException: (`ParseException`) Spark cannot parse it either.
        """
        now = SystemClock().now_ms() if now_ms is None else now_ms
        trees = _Trees(self._frames, scope, now)
        if isinstance(self._given, str):
            return trees.parse_text(self._given)
        return trees.convert_column(self._given)

    def value(
        self,
        scope: Scope,
        kind: DataType,
        *,
        now_ms: int | None = None,
        nested: Nested | None = None,
    ) -> Expression:
        """Return the tree, with times cast to the column's type in the session's time zone.

        Raises:
            ExpressionError: the session has no ANSI mode, so that an invalid time would become
                null.
        """
        tree, session = self.tree(scope, now_ms=now_ms, nested=nested), self._frames.session
        if is_in_utc(session) or (zoned := cast_by_zone(tree.type, kind)) == tree.type:
            return tree
        if not has_engine_terms(session, any_zone=True):
            what = (
                f"{self.text[:200]} would be stored in the time zone of a session without "
                "ANSI mode."
            )
            raise ExpressionError(what, f"Cast it: CAST(… AS {sql_name(kind)}).")
        cast = GivenColumn(self._column(scope, now_ms).cast(to_spark_type(zoned)), self._frames)
        return cast.tree(scope, now_ms=now_ms)

    def _column(self, scope: Scope, now_ms: int | None) -> Column:  # noqa: ARG002 - for statements
        return F.expr(self._given) if isinstance(self._given, str) else self._given


class StatementText(GivenColumn):
    """A condition or a value in the text of a statement, with the meaning of the caller's session.

    Spark gets SQL rendered from the engine's tree, never the text.
    """

    def __init__(self, text: str, session: SparkSession) -> None:
        """Take text of the engine's grammar."""
        super().__init__(text, CallerFrames(session, has_engine_terms=False))

    @property
    def statement_text(self) -> str:
        """The text."""
        return self.text

    def restate(self, text: str) -> "StatementText":
        """Return another text with the meaning of the same session."""
        return StatementText(text, self._frames.session)

    def tree(
        self, scope: Scope, *, now_ms: int | None = None, nested: Nested | None = None
    ) -> Expression:
        """Return the tree over the columns of a scope.

        Raises:
            ExpressionError: it does not parse, or has a subquery and depends on the session.
        """
        tree = parse_expression(self.text, scope, now_ms=now_ms, nested=nested, by_session=True)
        if is_alike_everywhere(tree) or _has_unbound_subquery(tree):
            return tree
        if has_subquery(tree):
            what = (
                f"{self.text[:200]} has a subquery, and depends on the session's time zone or ANSI"
                " mode."
            )
            raise ExpressionError(what, ENGINE_TERMS)
        return GivenColumn(to_column(tree), self._frames).tree(scope, now_ms=now_ms)

    def _column(self, scope: Scope, now_ms: int | None) -> Column:
        return to_column(parse_expression(self.text, scope, now_ms=now_ms, by_session=True))


class _Trees:
    def __init__(self, frames: CallerFrames, scope: Scope, now_ms: int) -> None:
        self._frames, self._scope, self._now_ms = frames, frames.add_databases(scope), now_ms
        self._moments = moments(now_ms, by_session=not frames.has_engine_terms).values
        self._hopeless: set[int] = set()
        self._ambiguous = any(
            ", " in name for relation in scope.relations for name in relation.schema.names
        )

    def parse_text(self, text: str) -> Expression:
        try:
            return self._parse_engine_text(text)
        except (ExpressionError, _SparkAloneError):
            pass
        return self.convert_column(F.expr(text))

    def convert_column(self, column: Column) -> Expression:
        session = self._frames.session
        remote = is_remote(session)
        return self._tree(connect_nodes(column) if remote else classic_nodes(column, session))

    def _tree(self, node: Node) -> Expression:
        """Return the tree; leave the smallest parts without one to Spark."""
        if id(node) not in self._hopeless:
            try:
                return self._strict(node)
            except (ExpressionError, _SparkAloneError):
                pass
        if isinstance(node, TextNode):
            node = split_text(node)
        if isinstance(node, CallNode) and node.function in _SPLIT:
            parts = [self._tree(argument) for argument in node.arguments]
            parts = self._read_date_texts(node, parts)
            try:
                return self._check_meaning(build.call(node.function, parts))
            except (ExpressionError, _SparkAloneError):
                pass
        return self._own(node)

    def _read_date_texts(self, node: CallNode, parts: list[Expression]) -> list[Expression]:
        """Read texts compared with dates and timestamps as the session does."""
        kinds = {operand.type for operand in parts} & set(TIMES)
        if self._frames.has_engine_terms or node.function not in COMPARISONS or len(kinds) != 1:
            return parts
        kind = to_spark_type(kinds.pop())
        for index, part in enumerate(parts):
            if isinstance(part, Literal) and part.type == STRING:
                column = node.arguments[index].column().cast(kind)
                parts[index] = _evaluate_column(self._frames.session, column) or part
        return parts

    def _strict(self, node: Node) -> Expression:
        try:
            return self._whole(node)
        except (ExpressionError, _SparkAloneError):
            self._hopeless.add(id(node))
            raise

    def _whole(self, node: Node) -> Expression:  # noqa: PLR0911 - one line a kind
        match node:
            case NameNode(parts=parts) if not self._ambiguous:
                return self._scope.resolve(parts)
            case AttributeNode():
                return self._resolve_attribute(node)
            case ConstantNode(literal=literal):
                return self._constant(literal)
            case CastNode(child=child, type=target, lenient=lenient):
                return self._check_meaning(build.cast(self._strict(child), target, lenient=lenient))
            case CallNode():
                return self._call(node)
            case TextNode(sql=sql):
                return self._parse_engine_text(sql)
            case _:
                raise _SparkAloneError

    def _call(self, node: CallNode) -> Expression:
        if not node.arguments and node.function in FOLDED:
            return self._moment(node.function)
        arguments = [self._strict(argument) for argument in node.arguments]
        if node.function == "get" and isinstance(arguments[1], Literal):
            return self._build_get(arguments[0], arguments[1])
        return self._check_meaning(build.call(node.function, arguments))

    def _parse_engine_text(self, text: str) -> Expression:
        by_session = not self._frames.has_engine_terms
        return self._check_meaning(
            parse_expression(text, self._scope, now_ms=self._now_ms, by_session=by_session)
        )

    def _moment(self, function: str) -> Expression:
        return self._check_meaning(self._moments[function])

    def _constant(self, literal: Literal) -> Expression:
        if literal.type == TIMESTAMP and not self._frames.has_engine_terms:
            raise _SparkAloneError  # its text is in the session's time zone
        return literal

    def _build_get(self, child: Expression, key: Literal) -> Expression:
        if isinstance(child, ColumnOfRow) and isinstance(child.type, StructType):
            field = child.type.get(str(key.value))
            if field is None:
                raise _SparkAloneError
            return ColumnOfRow((*child.path, field.name), field.type, child.relation)
        return self._check_meaning(build.call("get", [child, key]))

    def _check_meaning(self, tree: Expression) -> Expression:
        if not (self._frames.has_engine_terms or is_alike_everywhere(tree)):
            raise _SparkAloneError
        return tree

    def _resolve_attribute(self, node: AttributeNode) -> Expression:
        sides = {relation.side: relation for relation in self._scope.relations}
        source, target = self._frames.source, self._frames.of_target
        if source is not None and "source" in sides and _has(source, node):
            return Scope((sides["source"],)).resolve([node.name])
        own = sides.get("target", sides.get(""))
        if own is not None and any(_has(frame, node) for frame in target):
            return Scope((own,)).resolve([node.name])
        raise _SparkAloneError

    # --- Spark's own ---

    def _own(self, node: Node) -> Expression:
        """Return a part that only Spark can evaluate; evaluate it now if it reads no rows."""
        column, random = node.column(), is_random(node)
        sides, frame = self._resolve_sides(column)
        relations = tuple(r for r in self._scope.relations if r.side in sides)
        asks_others = has_subqueries(frame)
        if not sides and not random and not asks_others:
            constant = _evaluate_column(self._frames.session, column)
            if constant is not None:
                return constant
        owner = OwnColumn(column, self._frames.session, relations, asks_others)
        name = f"{PREFIX}{uuid.uuid4().hex[:12]}"
        text = GivenColumn(column, self._frames).text
        return SparkExpression(name, text, _type_of(frame, text), sides, not random, owner)

    def _resolve_sides(self, column: Column) -> tuple[frozenset[str], DataFrame]:
        """Return the sides that the column reads, and a frame with only this column.

        Raises:
            AnalysisException: it names a column that no side has.
        """
        relations = self._scope.relations
        try:
            whole = self._select_over_relations(column, relations)
        except AnalysisException as error:
            ambiguous = (error.getCondition() or "").startswith("AMBIGUOUS")
            frame = None if ambiguous else self._select_over_source(column)
            if frame is None:
                raise
            return frozenset({"source"}), frame
        for some in ((), *((relation,) for relation in relations if len(relations) > 1)):
            try:
                return frozenset(source.side for source in some), self._select_over_relations(
                    column, some
                )
            except AnalysisException:
                continue
        return frozenset(relation.side for relation in relations), whole

    def _select_over_relations(self, column: Column, relations: Sequence[Relation]) -> DataFrame:
        return _select_column(no_rows(self._frames.session, relations), column)

    def _select_over_source(self, column: Column) -> DataFrame | None:
        """Return the column over the source's own frame; None if that frame lacks it."""
        has_source = any(relation.side == "source" for relation in self._scope.relations)
        if self._frames.source is None or not has_source:
            return None
        try:
            return _select_column(self._frames.source, column)
        except AnalysisException:
            return None


def _has_unbound_subquery(tree: Expression) -> bool:
    return any(isinstance(node, Subquery) and node.query is None for node in walk(tree))


def _select_column(frame: DataFrame, column: Column) -> DataFrame:
    """Connect resolves a frame when its schema is requested."""
    selected = frame.select(column.alias("value"))
    _ = selected.schema
    return selected


def _type_of(frame: DataFrame, text: str) -> DataType:
    kind = frame.schema.fields[0].dataType
    try:
        return type_from_json(json.loads(kind.json()))
    except InvalidSchemaError as error:
        what = f"{text[:200]} returns a {kind.simpleString()}, which is not a column type."
        raise ExpressionError(what, "Cast it.") from error


def _evaluate_column(session: SparkSession, column: Column) -> Literal | None:
    """Evaluate a column that reads nothing; None if a literal cannot hold the value."""
    table = session.range(1).select(column.alias("value")).toArrow()
    field = session.range(0).select(column.alias("value")).schema.fields[0]
    try:
        data_type = type_from_json(json.loads(field.dataType.json()))
    except InvalidSchemaError:
        return None
    if is_complex(data_type) or pa.types.is_duration(table.column(0).type):
        return None
    value: Any = table.column(0)[0].as_py()
    if isinstance(value, datetime) and data_type == TIMESTAMP:
        value = value.astimezone(UTC)
    return Literal(value, data_type)


def _has(frame: DataFrame, node: AttributeNode) -> bool:
    """Whether `frame["name"]` gave the column."""
    if is_remote(frame.sparkSession):
        inside: Any = frame
        return node.key in _plan_ids(inside._plan)
    output = get_analyzed_plan(frame).output()
    return any(attribute.exprId().id() == node.key for attribute in iter_seq(output))


def _read_classic_name(plan: Any) -> tuple[str, ...]:  # noqa: ANN401 - the JVM's
    while str(plan.nodeName()) in _KEEP_NAMES:
        plan = plan.children().apply(0)
    if str(plan.nodeName()) != "SubqueryAlias":
        return ()
    return (*map(str, iter_seq(plan.identifier().qualifier())), str(plan.alias()))


def _read_remote_name(plan: Any) -> tuple[str, ...]:  # noqa: ANN401 - Connect's plans
    while type(plan).__name__ in _KEEP_NAMES and plan._child is not None:
        plan = plan._child
    return (str(plan._alias),) if type(plan).__name__ == "SubqueryAlias" else ()


def _plan_ids(plan: Any) -> set[object]:  # noqa: ANN401 - Connect's plans
    plan_ids: set[object] = set()
    pending = [plan]
    while pending:
        here = pending.pop()
        if here is not None:
            plan_ids.add(here._plan_id)
            pending.append(getattr(here, "_child", None))
    return plan_ids


def split_text(node: TextNode) -> TextNode | CallNode:
    """Split the text at its top-level ANDs, else at its one comparison."""
    try:
        tokens = tokenize(node.sql)
    except StatementError:
        return node
    tokens = _strip_brackets(tokens)
    top = list(_top_level(tokens))
    words = {token.value for token in top if token.kind == "word"}
    if "OR" in words or "SELECT" in words:
        return node
    cuts = list(_conjunctions(top))
    if cuts:
        return CallNode(node.column, "and", tuple(_pieces(node.sql, tokens, cuts)))
    compared = [token for token in top if token.kind == "symbol" and token.value in _COMPARISONS]
    if len(compared) != 1 or words & _BINDS_LESS:
        return node
    sides = tuple(_pieces(node.sql, tokens, compared))
    return CallNode(node.column, _COMPARISONS[compared[0].value], sides)


def _strip_brackets(tokens: list[Token]) -> list[Token]:
    """Strip brackets around all tokens."""
    while (
        len(tokens) > 2
        and tokens[0].value == "("
        and _find_closing_bracket(tokens) == len(tokens) - 1
    ):
        tokens = tokens[1:-1]
    return tokens


def _find_closing_bracket(tokens: Sequence[Token]) -> int:
    depth = 0
    for index, token in enumerate(tokens):
        depth += _step(token)
        if depth == 0:
            return index
    return -1


def _step(token: Token) -> int:
    if token.kind == "symbol":
        return (token.value in _OPEN) - (token.value in _CLOSE)
    return (token.value == "CASE") - (token.value == "END") if token.kind == "word" else 0


def _top_level(tokens: Sequence[Token]) -> Iterator[Token]:
    depth = 0
    for token in tokens:
        step = _step(token)
        if depth == 0 and step == 0:
            yield token
        depth += step


def _conjunctions(top: Sequence[Token]) -> Iterator[Token]:
    """Iterate over the ANDs between conditions, without those of BETWEEN."""
    between = 0
    for token in top:
        if token.kind != "word":
            continue
        if token.value == "BETWEEN":
            between += 1
        elif token.value == "AND" and between:
            between -= 1
        elif token.value == "AND":
            yield token


def _pieces(sql: str, tokens: Sequence[Token], cuts: Sequence[Token]) -> Iterator[TextNode]:
    start = tokens[0].position
    for end, after in [*((cut.position, cut.end) for cut in cuts), (tokens[-1].end, 0)]:
        text = sql[start:end].strip()
        yield TextNode(lambda text=text: F.expr(text), text)  # type: ignore[misc]
        start = after
