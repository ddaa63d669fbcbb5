"""An expression follows the caller's time zone and ANSI mode, whichever evaluator computes it.

Three evaluators are compared: this process, Spark through the engine, and the session's own
`selectExpr`. The calls are those of `edge_calls`, at least one of every allowed function, operator and
cast, alone and inside others.
"""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import chain, product
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from engine.errors import CannotEvaluateError, EngineError, ExpressionError
from engine.expressions.arrow_cast import arrow_type
from engine.expressions.evaluate import evaluate_arrow
from engine.expressions.functions import FOLDED, FUNCTIONS, OPERATORS, Function, gives
from engine.expressions.parse import parse_expression
from engine.expressions.scope import Relation, Scope
from engine.expressions.session_terms import is_alike_everywhere
from engine.expressions.traits import is_deterministic, spark_expressions
from engine.expressions.tree import Expression, Literal, walk
from engine.schema.types import STRING, TIMESTAMP
from engine.spark.column_trees import CallerFrames, GivenColumn
from engine.spark.columns import to_column, to_spark_schema
from engine.spark.own_columns import add_own_columns, move_to_session
from engine.spark.session import engine_session, has_engine_terms
from tests.engine.expressions.edge_calls import EDGES, SCHEMA, calls_of
from tests.shares import Run, share

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ZONES = ("UTC", "America/New_York", "Asia/Kathmandu")
SESSIONS = [(zone, ansi) for zone in ZONES for ansi in ("true", "false")]
PLACES = [
    pytest.param(place, marks=[pytest.mark.stress] * (place != SESSIONS[5]))
    for place in SESSIONS[1:]
]
_FAILS = "it fails"
CAST = Function("cast", ("any",), gives(STRING))
_ATOMS = ("i", "l", "f", "d", "n", "z", "s", "p", "day", "ts", "wall", "ok", "x")
_FORMS = (
    "coalesce({0}, {1}2)",
    "CASE WHEN ok THEN {0} WHEN ok2 THEN {1}2 END",
    "if(ok, {0}, {1}2)",
    "{0} = {1}2",
    "{0} < {1}2",
    "{0} <=> {1}2",
    "{0} IN ({1}2, NULL)",
    "concat({0}, {1}2)",
    "coalesce({0}, {1}2) = {0}",
    "length({0}) = length({1}2)",
    "struct({0} AS v).v = {1}2",
    "array({0})[0] = {1}2",
    "map('a', {0})['a'] = {1}2",
    "CASE WHEN {0} IS NULL THEN {1}2 ELSE {0} END IS NULL OR coalesce({0}, {1}2) >= {0}",
)
_WRITTEN = (
    *("at IN ('2024-07-04 00:00:00')".replace("at", "ts"), "ts > '2024-07-03 20:00:00'", "day = '2024-07-04'"),
    *("ts >= TIMESTAMP '2024-07-04 00:00:00'", "ts < DATE '2024-07-04'", "wall = TIMESTAMP_NTZ '2024-07-04 00:00:00'"),
    *("CAST(ts AS DATE) = DATE '2024-07-04'", "concat(ts, '') LIKE '2024-07-04 00%'", "ts = wall OR day = ts"),
    *("coalesce(day, ts) = ts", "s = 'a' AND to_date(ts) = day", "nullif(ts, day) IS NULL", "i = '5'", "s = 5"),
    *("length(concat(s, d)) > 3", "element_at(arr, 9) IS NULL", "arr[9] IS NULL", "i + 1 > i2", "n / 0 IS NULL"),
    *("TRY_CAST(p AS TIMESTAMP) > ts", "date_trunc('DAY', ts) = ts", "hour(ts) = 20", "f = i", "f = n"),
)  # fmt: skip


def _functions() -> list[Function]:
    known = [*OPERATORS.values(), *FUNCTIONS.values(), CAST]
    return [function for function in known if function.deterministic]


def _texts(every_call: int, every_form: int) -> list[str]:
    """Return some calls of each function, including the first, and some forms over two kinds of values."""
    forms = [form.format(*pair) for form in _FORMS for pair in product(_ATOMS, _ATOMS)]
    functions = share(3, _functions())
    calls = chain.from_iterable(calls_of(function)[::every_call] for function in functions)
    return list(dict.fromkeys([*_WRITTEN, *calls, *forms[::every_form]]))


def _short() -> list[str]:
    """Return a few calls, because the session analyzes each."""
    return [*_WRITTEN, *(form.format("day", "ts") for form in _FORMS), "b * b2", "i % i2", "-(b)"]


def _is_tame(value: Any) -> bool:
    return not isinstance(value, dt.date) or 1902 < value.year < 2100


def _rows() -> pa.Table:
    """Return combinations of all columns' values; the times include midnight of the three zones."""
    midnights = [
        dt.datetime.fromisoformat(f"2024-07-04 {clock}")
        for clock in ("00:00", "04:00", "20:00", "18:15")
    ]
    more: dict[str, list[Any]] = {
        "ts": [moment.replace(tzinfo=dt.UTC) for moment in midnights],
        "wall": list(midnights),
        "day": [dt.date(2024, 7, 4), dt.date(2024, 7, 5)],
        "p": ["2024-07-04", "2024-07-04 00:00:00", "\u00a02024-07-04", "5", "5.0", "\t5"],
        "s": ["2024-07-04", "5"],
        "i": [5], "l": [5], "f": [5.0, 16777216.0], "d": [5.0], "n": [Decimal("5.00")],
    }  # fmt: skip
    columns = {}
    for place, (name, (kind, values)) in enumerate(EDGES.items()):
        chosen = [*more.get(name.rstrip("23"), ()), *filter(_is_tame, values)]
        step = 1 + place % 5
        row_values = [chosen[(row * step + place) % len(chosen)] for row in range(40)]
        columns[name] = pa.array(row_values, arrow_type(kind))
    return pa.table(columns)


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    return _rows()


@pytest.fixture(scope="module")
def sessions(spark: SparkSession, rows: pa.Table) -> dict[tuple[str, str], DataFrame]:
    """Return the rows in a session of each zone and mode."""
    frames = {}
    schema = to_spark_schema(SCHEMA)
    for zone, ansi in SESSIONS:
        session = spark.newSession()
        session.conf.set("spark.sql.session.timeZone", zone)
        session.conf.set("spark.sql.ansi.enabled", ansi)
        session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")  # compiling takes longer
        session.conf.set("spark.sql.codegen.wholeStage", "false")
        frames[zone, ansi] = move_to_session(
            spark.createDataFrame(rows, schema).coalesce(1), session
        )
    return frames


def test_expressions_independent_of_the_session_have_one_value_in_every_session(
    rows: pa.Table, sessions: dict[tuple[str, str], DataFrame]
) -> None:
    trees = {
        text: tree
        for text, tree in _iter_parsed(_texts(1, 1) if Run.is_hunt else _texts(5, 17))
        if is_alike_everywhere(tree)
    }
    assert len(trees) > (100 if Run.is_hunt else 30)
    engine = _values(sessions["UTC", "true"], [to_column(tree) for tree in trees.values()])
    wrong: list[Any] = []
    for tree, mine in zip(trees.values(), engine, strict=True):
        here = _evaluate_in_process(tree, rows)
        if here is not None and here != mine:
            wrong.append(("in process", tree, _differences(here, mine)))
    for place, frame in sessions.items():
        theirs = _values(frame, list(trees))
        for text, mine, their in zip(trees, engine, theirs, strict=True):
            if mine != their:
                wrong.append((place, text, _differences(mine, their)))
    assert wrong == [], f"{len(wrong)}: " + "\n".join(map(str, wrong[:30]))


def test_the_engine_s_own_terms_are_a_session_s(
    rows: pa.Table, sessions: dict[tuple[str, str], DataFrame]
) -> None:
    frame = sessions["UTC", "true"]
    trees = dict(_iter_parsed(_texts(4, 5) if Run.is_hunt else _texts(9999, 97)))
    assert _wrong(rows, frame, frame, trees) == []


@pytest.mark.parametrize("place", PLACES)
def test_an_expression_follows_the_session(
    place: tuple[str, str], rows: pa.Table, sessions: dict[tuple[str, str], DataFrame]
) -> None:
    frame = sessions[place]
    session = frame.sparkSession
    assert not has_engine_terms(session)
    caller = CallerFrames(session, has_engine_terms=False)
    trees = dict(_trees(_texts(50, 31) if Run.is_hunt else _short(), caller))
    beside = engine_session(session)
    assert beside is not None
    asked = add_own_columns(move_to_session(frame, beside), trees.values())
    assert _wrong(rows, frame, asked, trees) == []


def _wrong(
    rows: pa.Table, frame: DataFrame, asked: DataFrame, trees: Mapping[str, Expression]
) -> list[Any]:
    """Return the differences between the session and the engine, by Spark over `asked` or in this process."""
    known = {
        text: values
        for text, values in zip(trees, _values(frame, list(trees)), strict=True)
        if values != _FAILS
    }
    engine = _values(asked, [to_column(trees[text]) for text in known])
    assert len(known) > len(trees) / 2
    wrong = []
    for (text, their), mine in zip(known.items(), engine, strict=True):
        tree = trees[text]
        here = None if spark_expressions(tree) else _evaluate_in_process(tree, rows)
        if mine != their:
            wrong.append(("by Spark", text, _differences(mine, their)))
        if here is not None and here != their:
            wrong.append(("in process", text, _differences(here, their)))
    return wrong


def _iter_parsed(texts: Sequence[str]) -> Iterator[tuple[str, Expression]]:
    """Yield the trees of texts that do not read a time in the session's zone."""
    for text in texts:
        try:
            tree = parse_expression(text, SCHEMA, now_ms=0)
        except ExpressionError:
            continue
        if not _tells_time(tree, text):
            yield text, tree


def _trees(texts: Sequence[str], caller: CallerFrames) -> Iterator[tuple[str, Expression]]:
    scope = Scope((Relation(SCHEMA, "", ("t",)),))
    for text in texts:
        try:
            tree = GivenColumn(text, caller).tree(scope, now_ms=0)
        except (
            EngineError,
            PySparkException,
        ):  # the session refuses it too, or it fails on its own
            continue
        if is_deterministic(tree):
            yield text, tree


def _tells_time(tree: Expression, text: str) -> bool:
    times = (node for node in walk(tree) if isinstance(node, Literal) and node.type == TIMESTAMP)
    return any(times) or any(name in text for name in FOLDED)


def _values(frame: DataFrame, asked: Sequence[Any]) -> list[list[Any] | str]:
    """Return the values of each call; find failing rows by bisection."""
    if not asked:
        return []
    try:
        table = _select(frame, asked).toArrow()
    except PySparkException:
        if len(asked) == 1:
            return [_FAILS]
        half = len(asked) // 2
        return [*_values(frame, asked[:half]), *_values(frame, asked[half:])]
    return [_list_values(column) for column in table.columns]


def _select(frame: DataFrame, asked: Sequence[Any]) -> DataFrame:
    columns = [F.expr(one) if isinstance(one, str) else one for one in asked]
    return frame.select(*[one.alias(f"c{number}") for number, one in enumerate(columns)])


def _evaluate_in_process(tree: Expression, rows: pa.Table) -> list[Any] | None:
    try:
        return _list_values(evaluate_arrow(tree, rows))
    except CannotEvaluateError:
        return None


def _list_values(values: pa.ChunkedArray) -> list[Any]:
    """Return Python values; dates and times as numbers, because they may exceed Python's range."""
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    return [repr(_instant(value)) for value in values.to_pylist()]


def _instant(value: Any) -> Any:
    match value:
        case dt.datetime() if value.tzinfo is not None:
            return value.astimezone(dt.UTC)
        case dict():
            return {key: _instant(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_instant(inner) for inner in value]
        case _:
            return value


def _differences(mine: Any, their: Any) -> Any:
    if not (isinstance(mine, list) and isinstance(their, list)):
        return mine if isinstance(mine, str) else "values", their if isinstance(
            their, str
        ) else "values"
    return [pair for pair in zip(mine, their, strict=True) if pair[0] != pair[1]][:3]
