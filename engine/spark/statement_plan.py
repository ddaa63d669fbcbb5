"""A statement as Spark's own parser understands it: its plan, its parameters, the relations it names.

Classic PySpark alone: the parser is in the JVM.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from engine.spark.jvm import expression_of, iter_seq, scala_seq, sql_package

Java: TypeAlias = Any
"""An object of the JVM's."""
Arguments = Mapping[str, object] | Sequence[object] | None
_PRIVILEGES = "__required_write_privileges__"
TABLE_VALUED = "UnresolvedTableValuedFunction"
_RELATIONS = frozenset({"UnresolvedRelation", "RelationTimeTravel", TABLE_VALUED})


@dataclass(frozen=True)
class NamedRelation:
    """A relation that a statement reads, not yet looked up.

    Attributes:
        parts: of its name; empty if the text does not state it plainly.
        start: the offset of its first character in the statement.
        end: the offset after the last, its point in time included.
        name_end: the offset after its name.
        alias: whether the statement gives it one.
        options: those of `WITH (…)` behind it.
        version: after VERSION AS OF.
        timestamp: Catalyst's expression after TIMESTAMP AS OF.
        function: the function of a call, such as table_changes.
        arguments: Catalyst's expressions of that call.
    """

    parts: tuple[str, ...]
    start: int
    end: int
    name_end: int
    alias: bool
    options: Mapping[str, str]
    version: str | None = None
    timestamp: Java = None
    function: str = ""
    arguments: tuple[Java, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether it is a name alone, without options and point in time."""
        points = self.version, self.timestamp
        return bool(self.parts) and not self.options and points == (None, None)


def parse(session: SparkSession, text: str) -> Java:
    """Return the plan of a statement; raise `ParseException` if Spark cannot parse it."""
    inside: Any = session
    return inside._jsparkSession.sessionState().sqlParser().parsePlan(text)


def parse_expression(session: SparkSession, text: str) -> Java:
    """Return an expression as Spark's parser reads it, with its columns unresolved.

    Raises:
        ParseException: Spark cannot parse it.
    """
    inside: Any = session
    return inside._jsparkSession.sessionState().sqlParser().parseExpression(text)


def kind_of(node: Java) -> str:
    """Return the name of a node's class."""
    return str(node.getClass().getSimpleName())


def optional(option: Java) -> Java:
    """Return the value of an Option, or None."""
    return option.get() if option.isDefined() else None


def texts_of(sequence: Java) -> tuple[str, ...]:
    """Return a Seq of texts as a tuple."""
    return tuple(str(part) for part in iter_seq(sequence))


def map_of(session: SparkSession, scala_map: Java) -> dict[str, Any]:
    """Return a Scala Map as a dict."""
    if scala_map.isEmpty():
        return {}  # Java's iterator ends by an exception, which takes a hundred calls
    inside: Any = session
    return dict(inside._jvm.scala.jdk.javaapi.CollectionConverters.asJava(scala_map))


# --- parameters ---


def bind_parameters(session: SparkSession, text: str, arguments: Arguments) -> str:
    """Return a statement with its parameters as literals, substituted by Spark.

    Raises:
        AnalysisException: (`ParseException`) a parameter without a value, or no statement of
            Spark's.
    """
    if not arguments:
        return text
    inside: Any = session
    handler = inside._jvm.org.apache.spark.sql.catalyst.parser.ParameterHandler
    if isinstance(arguments, Mapping):
        values = {str(name): _literal(value, session) for name, value in arguments.items()}
        named = inside._jvm.PythonUtils.toScalaMap(values)
        return str(handler.substituteNamedParameters(text, named)._1())
    listed = scala_seq([_literal(value, session) for value in arguments], session)
    return str(handler.substitutePositionalParameters(text, listed)._1())


def literal_sql(session: SparkSession, value: object) -> str:
    """Return a value as SQL text that Spark reads back unchanged."""
    return bind_parameters(session, "SELECT ?", [value]).removeprefix("SELECT ")


def _literal(value: object, session: SparkSession) -> Java:
    column: Column = F.lit(value)
    expression = expression_of(column, session)
    if kind_of(expression) == "Literal":
        return expression
    inside: Any = session.range(1).select(column.alias("value"))  # an array, a map or a struct
    return inside._jdf.queryExecution().optimizedPlan().expressions().apply(0).child()


def substitute_variables(session: SparkSession, text: str) -> str:
    """Substitute `${variable}` in a statement, as the session's parser does first."""
    if "${" not in text:
        return text
    inside: Any = session
    return str(inside._jvm.org.apache.spark.sql.internal.VariableSubstitution().substitute(text))


# --- relations ---


def relations_read(session: SparkSession, plan: Java) -> list[NamedRelation]:
    """Return the relations that a plan reads, in subqueries too, without names of its own WITH."""
    relations: dict[tuple[int, int], NamedRelation] = {}
    pending: list[tuple[Java, frozenset[str], bool]] = [(plan, frozenset(), False)]
    while pending:
        node, own, alias = pending.pop()
        kind = kind_of(node)
        if kind == "UnresolvedWith":
            pending.extend(_iter_cte_queries(node, own))
            continue
        relation = _relation(session, node, kind, alias=alias)
        if relation is not None and not _is_own(relation, own):
            relations[relation.start, relation.end] = relation
        pending.extend(
            (child, own, kind == "SubqueryAlias") for child in _iter_children(node, kind)
        )
    return sorted(relations.values(), key=lambda named: named.start)


def _is_own(relation: NamedRelation, own: frozenset[str]) -> bool:
    return len(relation.parts) == 1 and relation.parts[0].lower() in own


def _iter_cte_queries(
    node: Java, own: frozenset[str]
) -> Iterator[tuple[Java, frozenset[str], bool]]:
    """Yield each query of a WITH with the names before it, and the main query with all."""
    recursive = bool(node.allowRecursion())
    for cte in iter_seq(node.cteRelations()):
        name = str(cte._1()).lower()
        yield cte._2(), own | {name} if recursive else own, False
        own = own | {name}
    yield node.child(), own, False


def _iter_children(node: Java, kind: str) -> Iterator[Java]:
    if kind == "ExplainCommand":
        yield node.logicalPlan()
        return
    yield from iter_seq(node.children())
    yield from iter_seq(node.subqueries())


def _relation(session: SparkSession, node: Java, kind: str, *, alias: bool) -> NamedRelation | None:
    if kind == "RelationTimeTravel":
        return _read_time_travel(session, node, alias=alias)
    span = span_of(node) if kind in {"UnresolvedRelation", TABLE_VALUED} else None
    if span is None:
        return None
    start, end = span
    if kind == TABLE_VALUED:
        name = ".".join(texts_of(node.name())).lower()
        arguments = tuple(iter_seq(node.functionArgs()))
        return NamedRelation((), start, end, end, alias, {}, function=name, arguments=arguments)
    options = {str(k): str(v) for k, v in dict(node.options().asCaseSensitiveMap()).items()}
    if _PRIVILEGES in options:  # it is written
        return None
    return NamedRelation(texts_of(node.multipartIdentifier()), start, end, end, alias, options)


def _read_time_travel(session: SparkSession, node: Java, *, alias: bool) -> NamedRelation | None:
    relation = node.relation()
    inner, span = _relation(session, relation, kind_of(relation), alias=alias), span_of(node)
    if inner is None or span is None:
        return None
    version, timestamp = optional(node.version()), optional(node.timestamp())
    shown = None if version is None else str(version)
    return replace(inner, end=span[1], version=shown, timestamp=timestamp)


def span_of(node: Java) -> tuple[int, int] | None:
    """Return the offsets of a node's text; None if the parser does not report them."""
    start, stop = optional(node.origin().startIndex()), optional(node.origin().stopIndex())
    return None if start is None or stop is None else (int(start), int(stop) + 1)


def replace_relations(
    session: SparkSession, plan: Java, resolved: Mapping[tuple[int, int], Java]
) -> Java:
    """Replace the relations at these offsets of a parsed plan by resolved plans."""
    ensure_callback_server_started(session.sparkContext._gateway)  # type: ignore[no-untyped-call]
    return plan.transformUpWithSubqueries(_Replacement(session, resolved))


def name_plan(session: SparkSession, plan: Java, name: Sequence[str]) -> Java:
    """Return a resolved plan under a qualified name; without parts, under none."""
    if not name:
        return plan
    catalyst = sql_package(session).catalyst
    alias = catalyst.AliasIdentifier(name[-1], scala_seq(list(name[:-1]), session))
    return catalyst.plans.logical.SubqueryAlias(alias, plan)


class _Replacement:
    """A Scala function that replaces relations of a parsed plan, also in its WITH."""

    class Java:
        """Py4J's declaration of the implemented interface."""

        implements = ("scala.PartialFunction",)

    def __init__(self, session: SparkSession, resolved: Mapping[tuple[int, int], Any]) -> None:
        self._session, self._resolved = session, resolved

    def isDefinedAt(self, node: Any) -> bool:  # noqa: ANN401, N802 - Scala's
        """Whether the node can be one of them."""
        return kind_of(node) in {"UnresolvedWith", *_RELATIONS}

    def apply(self, node: Any) -> Any:  # noqa: ANN401 - the JVM's
        """Return the plan to put in the node's place."""
        kind = kind_of(node)
        if kind == "UnresolvedWith":
            return node.copy(node.child(), self._replace_queries(node), node.allowRecursion())
        span = span_of(node) if kind in _RELATIONS else None
        if span is None:
            return node
        named = span_of(node.relation()) if kind == "RelationTimeTravel" else None
        return self._resolved.get((named[0], span[1]) if named else span, node)

    def applyOrElse(self, node: Any, default: Any) -> Any:  # noqa: ANN401, ARG002, N802
        """Replace a relation; leave every other node as it is."""
        return self.apply(node)

    def _replace_queries(self, node: Any) -> Any:  # noqa: ANN401
        inside: Any = self._session
        queries = [
            inside._jvm.scala.Tuple3(cte._1(), cte._2().transformUpWithSubqueries(self), cte._3())
            for cte in iter_seq(node.cteRelations())
        ]
        return scala_seq(queries, self._session)


def name_parts(session: SparkSession, name: str) -> tuple[str, ...]:
    """Return the parts of a table's name as SQL writes it.

    Raises:
        ParseException: it is not a name.
    """
    inside: Any = session
    return texts_of(inside._jsparkSession.sessionState().sqlParser().parseMultipartIdentifier(name))
