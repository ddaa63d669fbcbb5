"""`spark.sql` of an enabled session: the engine runs statements about Delta tables, Spark the rest.

Spark's parser reads its own statements, the engine's grammar reads the maintenance of tables. A
statement that names a Delta table in a way supported by neither is refused by name: Spark itself
never reads or writes the directory of a Delta table as plain files.
"""

from collections.abc import Callable
from typing import Any, NoReturn

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from engine.commands.sql_refusals import opens_transaction, refuse_transaction
from engine.commands.statement_cursor import StatementCursor
from engine.delta.create_statements import (
    CREATE_STATEMENTS,
    LIKE_STATEMENT,
    VIEW_STATEMENTS,
    create,
    create_like,
    make_view,
    makes_delta,
)
from engine.delta.exceptions import delta_errors
from engine.delta.handle import Handle, session_retries
from engine.delta.names import (
    NotADeltaTableError,
    explain_missing,
    find_delta,
    name_sql,
    open_table,
)
from engine.delta.row_statements import (
    ROW_STATEMENTS,
    delete,
    insert,
    merge,
    query_in,
    replaces_matches,
    set_alias,
    target_of,
    update,
)
from engine.delta.statement_views import StatementNotRoutedError, StatementViews
from engine.delta.table_reads import expand_time_travel
from engine.delta.table_statements import TABLE_STATEMENTS, Statements, clone, is_clone, write_rows
from engine.errors import ConflictError, RequestError, StatementError
from engine.operations.frame_sources import OutdatedFrameError
from engine.spark.jvm import empty_frame
from engine.spark.scan.live_frames import live_reads_of
from engine.spark.session import bypass_routing
from engine.spark.session_catalog import find_permanent_view, find_table
from engine.spark.statement_plan import (
    Arguments,
    Java,
    bind_parameters,
    kind_of,
    literal_sql,
    parse,
    relations_read,
    substitute_variables,
)

_ATTEMPTS = 20
_SCRIPT = "CompoundBody"
"""The plan of `BEGIN … END`."""
_CACHES = frozenset(("CacheTable", "CacheTableAsSelect"))
_REFUSED = _CACHES | {_SCRIPT}
_READS = frozenset(
    (
        *("SELECT", "WITH", "FROM", "VALUES", "TABLE", "EXPLAIN", "INSERT", "DELETE", "UPDATE"),
        *("MERGE", "CREATE", "REPLACE", "CACHE", "UNCACHE", "COMMENT", "MAP", "REDUCE", "BEGIN"),
        *("DECLARE", "ALTER", "EXECUTE", "("),
    )
)
"""First words of statements that Spark's parser knows and that may name a Delta table."""
_CHANGES: dict[str, Callable[[Handle, Java], DataFrame]] = {
    "DeleteFromTable": delete,
    "UpdateTable": update,
    "MergeIntoTable": merge,
}


class ViewWriteError(RequestError, code="EXPECT_TABLE_NOT_VIEW", sqlstate="42809"):
    """A statement writes to a temporary view over a Delta table."""


Plain = Callable[[str], DataFrame]
"""Does a statement as Spark does it."""


def run_statement(spark: SparkSession, text: str, arguments: Arguments, plain: Plain) -> DataFrame:
    """Run a statement with its parameters.

    Args:
        spark: an enabled session.
        text: the statement.
        arguments: the values of its parameters, by name or in order.
        plain: runs a statement in Spark itself, with the parameters as given.

    Raises:
        StatementNotRoutedError: its effect on a Delta table is unknown.
        AnalysisException: (`ParseException`) as Spark.
        EngineError: as the engine, under the names of `engine.delta.exceptions`.
    """
    with bypass_routing(), delta_errors():
        statement = run_engine_statement(spark, text, arguments)
        if statement is not None:
            return statement
        if _first_word(text) not in _READS:
            return plain(text)
        return _run_spark_statement(spark, text, arguments, plain)


# --- the engine's grammar ---


def run_engine_statement(
    spark: SparkSession, text: str, arguments: Arguments, more: Statements = ()
) -> DataFrame | None:
    """Run a statement of the engine's grammar; return None for any other.

    `more` are statements of Spark's parser, for sessions without access to it.

    Raises:
        StatementNotRoutedError: it begins or ends a transaction.
        EngineError: as `run_statement`.
    """
    try:
        cursor = StatementCursor.from_text(text)
    except StatementError:
        return None
    while cursor.tokens and cursor.tokens[-1].value == ";":
        cursor = StatementCursor.from_text(text[: cursor.tokens[-1].position])
        text = cursor.text
    readers = (*TABLE_STATEMENTS, *more)
    reads = next((read for words, read in readers if cursor.take(*words)), None)
    if reads is None and is_clone(cursor):
        reads = clone
    if reads is None and opens_transaction(cursor):
        raise StatementNotRoutedError(*refuse_transaction(cursor.peek()), field="sql")
    if reads is None:
        return None
    if arguments:
        index = cursor.index
        cursor = StatementCursor.from_text(_substitute_parameters(spark, cursor, arguments))
        cursor.index = index
    return reads(spark, cursor)


def _substitute_parameters(
    spark: SparkSession, cursor: StatementCursor, arguments: Arguments
) -> str:
    """Replace parameters in the text by literals, each rendered by Spark."""
    parts, at, tokens, count = [], 0, cursor.tokens, 0
    for index, token in enumerate(tokens):
        if token.kind != "symbol" or token.value not in {":", "?"}:
            continue
        key: Any = count
        end = token.end
        if token.value == ":":
            key, end = tokens[index + 1].text, tokens[index + 1].end
        count += 1
        try:
            value = arguments[key] if arguments is not None else None
        except (KeyError, IndexError, TypeError) as error:
            what = f"The parameter {key} has no value."
            raise StatementNotRoutedError(what, "Give it in args.", field="args") from error
        parts += [cursor.text[at : token.position], literal_sql(spark, value)]
        at = end
    return "".join([*parts, cursor.text[at:]])


def _first_word(text: str) -> str:
    """Return the first word of a statement; "(" before a bracket."""
    try:
        cursor = StatementCursor.from_text(text)
    except StatementError:
        return "SELECT"  # Spark's parser will say
    return cursor.peek()


# --- Spark's parser ---


def _run_spark_statement(
    spark: SparkSession, text: str, arguments: Arguments, plain: Plain
) -> DataFrame:
    given = substitute_variables(spark, text)
    try:
        statement, plan = _parse_statement(spark, given, arguments)
    except PySparkException:
        return plain(text)  # Spark reports the error
    outdated, lost = _ATTEMPTS, session_retries(spark)
    while True:
        try:
            frame = _route_statement(spark, statement, plan)
        except OutdatedFrameError:
            outdated -= 1
            if not outdated:
                raise
        except ConflictError as error:
            if not lost or not error.conflict.can_retry:
                raise
            lost -= 1
        else:
            return plain(text) if frame is None else frame


def _parse_statement(spark: SparkSession, text: str, arguments: Arguments) -> tuple[str, Java]:
    """Return a statement with bound parameters, and its plan; rewrite `t@v1` for Spark's parser.

    Raises:
        AnalysisException: (`ParseException`) Spark cannot parse it.
    """
    try:
        statement = bind_parameters(spark, text, arguments)
        return statement, parse(spark, statement)
    except PySparkException:
        pointed = expand_time_travel(text) if "@" in text else text
        if pointed == text:
            raise
        statement = bind_parameters(spark, pointed, arguments)
        return statement, parse(spark, statement)


def _route_statement(spark: SparkSession, statement: str, plan: Java) -> DataFrame | None:
    """Run a statement that names Delta tables; return None for any other."""
    kind = kind_of(plan)
    if kind == "InsertIntoStatement" and replaces_matches(plan):
        cursor = StatementCursor.from_text(statement)
        return write_rows(spark, cursor)
    views = StatementViews(spark, statement)
    try:
        if kind in VIEW_STATEMENTS:
            resolved = views.resolve_relations(plan)
            return None if resolved is plan else make_view(spark, resolved)
        rewritten = views.rewrite_relations(relations_read(spark, plan))
        rewritten = views.shorten_qualifiers(rewritten, _target_name(spark, plan))
        if rewritten != statement:
            if kind in _REFUSED:
                raise _not_routed(statement, kind)
            if kind == "UncacheTable":  # never cached
                return empty_frame(spark)
            plan = parse(spark, rewritten)
        if kind == "UnresolvedWith" and kind_of(plan.child()) in _CHANGES:
            plan = parse(spark, views.rewrite_with(rewritten, plan))
        result = _run_write(spark, plan, reads_anew=not views.reads_views)
        if result is not None or rewritten == statement:
            return result
        return spark.sql(rewritten)
    finally:
        views.drop()


def _run_write(spark: SparkSession, plan: Java, *, reads_anew: bool) -> DataFrame | None:
    """Run a statement that changes or creates a Delta table; return None for any other.

    It is tried once: a retry must read its sources again.
    """
    kind, outer = kind_of(plan), None
    if kind == "UnresolvedWith":
        outer, plan = plan, plan.child()
        kind = kind_of(plan)
    if kind in CREATE_STATEMENTS:
        return _run_create(spark, plan, kind, reads_anew=reads_anew)
    if kind not in ROW_STATEMENTS:
        _refuse_inner(spark, plan)
        return None
    parts, alias = target_of(plan)
    place = find_delta(spark, parts) if parts else None
    if place is None:
        _refuse_view(spark, parts)
        return None
    shown = ".".join(parts) if place.name else place.location
    try:
        table = open_table(spark, place.location, name=shown)
    except NotADeltaTableError as error:
        if place.name:
            raise
        raise explain_missing(spark, place.location) from error
    handle = Handle(spark, table, name=place.name, retries=0, reads_anew=reads_anew)
    handle = set_alias(handle, alias)
    if kind == "InsertIntoStatement":
        return insert(handle, plan, query_in(spark, plan, outer))
    return _CHANGES[kind](handle, plan)


def _refuse_view(spark: SparkSession, parts: tuple[str, ...]) -> None:
    """Refuse to change a Delta table through a temporary view."""
    name = name_sql(parts)
    table = find_table(spark, name) if parts else None
    if table is None or not table.is_view or find_permanent_view(spark, name) is not None:
        return
    if live_reads_of(spark.table(name)):
        what = f"{name} is a view, and rows are written to tables only."
        raise ViewWriteError(what, "Name the table of the view.", field="sql")


def _target_name(spark: SparkSession, plan: Java) -> tuple[str, ...]:
    """Return the parts of the name of a Delta table that a statement changes without alias."""
    if kind_of(plan) == "UnresolvedWith":
        plan = plan.child()
    parts, alias = target_of(plan) if kind_of(plan) in ROW_STATEMENTS else ((), "")
    return parts if parts and not alias and find_delta(spark, parts) else ()


def _run_create(
    spark: SparkSession, plan: Java, kind: str, *, reads_anew: bool
) -> DataFrame | None:
    if kind == LIKE_STATEMENT:
        return create_like(spark, plan)
    return create(spark, plan, reads_anew=reads_anew) if makes_delta(spark, plan) else None


def _refuse_inner(spark: SparkSession, plan: Java) -> None:
    """Refuse a script, or an INSERT into several tables, that also changes a Delta table.

    Raises:
        StatementNotRoutedError: it does.
    """
    pending = [plan]
    while pending:
        node = pending.pop()
        if kind_of(node) == "SingleStatement":
            node = node.parsedPlan()
        if kind_of(node) in ROW_STATEMENTS:
            parts, _ = target_of(node)
            if parts and find_delta(spark, parts) is not None:
                raise _not_routed(".".join(parts), kind_of(plan))
        children = node.children()
        pending.extend(children.apply(index) for index in range(children.size()))


def refuse_cache(name: str) -> NoReturn:
    """Refuse to cache a Delta table, or a view over one, by its name.

    Raises:
        StatementNotRoutedError: always.
    """
    raise _not_routed(name, "CacheTable")


def _not_routed(shown: str, kind: str) -> StatementNotRoutedError:
    if kind == _SCRIPT:
        return StatementNotRoutedError(*refuse_transaction("BEGIN"), field="sql")
    if kind in _CACHES:
        what = f"Delta tables and views over them cannot be cached by name: {shown[:200]}"
        remedy = "Cache a DataFrame: spark.table('orders').cache(). Unpersist it after a write."
        return StatementNotRoutedError(what, remedy, field="sql")
    what = f"This statement is not supported for Delta tables: {shown[:200]}"
    remedy = "Send one statement for each table, or use engine.delta.DeltaTable."
    return StatementNotRoutedError(what, remedy, field="sql")
