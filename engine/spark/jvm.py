"""Plans and expressions in the JVM of classic PySpark, hidden by its Python API.

Sessions of Spark Connect have none of it.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.utils import is_remote

_kept: WeakKeyDictionary[Any, dict[Hashable, Any]] = WeakKeyDictionary()
"""Cached results of JVM calls, by gateway."""
_MOST_KEPT = 1024


def get_analyzed_plan(frame: DataFrame) -> Any:  # noqa: ANN401 - the JVM's
    """Return a frame's plan with every name resolved."""
    inside: Any = frame
    return inside._jdf.queryExecution().analyzed()


def frame_over(plan: Any, session: SparkSession) -> DataFrame:  # noqa: ANN401
    """Return an analyzed plan as a frame of a session; resolved names stay resolved."""
    inside: Any = session
    context: SparkContext = inside.sparkContext
    of_rows = keep_in_jvm(context, "Dataset", lambda: sql_package(session).classic.Dataset.ofRows)
    return DataFrame(of_rows(inside._jsparkSession, plan), session)


def analyze_as_view(plan: Any, view: Any, session: SparkSession) -> Any:  # noqa: ANN401
    """Return a plan analyzed under the settings at a permanent view's creation, as Spark does.

    A copy of the session has them: other threads use the session meanwhile.
    """
    inside: Any = session
    make_active(session)
    views = sql_package(session).catalyst.plans.logical.View
    created = views.effectiveSQLConf(view.viewSQLConfigs(), False, view.createVersion())
    settings = _expression_settings(created)
    copy = inside._jsparkSession.cloneSession()
    own = copy.sessionState().conf()
    for name in _expression_settings(own).keys() - settings.keys():
        if copy.conf().isModifiable(name):
            own.unsetConf(name)
    for name, value in settings.items():
        own.setConfString(name, value)
    of_rows = sql_package(session).classic.Dataset.ofRows
    return of_rows(copy, plan).queryExecution().analyzed()


def _expression_settings(conf: Any) -> dict[str, str]:  # noqa: ANN401
    """Return the settings of SQL without those that name catalogs: delta-spark's is not here."""
    entries = [(str(entry._1()), str(entry._2())) for entry in iter_seq(conf.getAllConfs().toSeq())]
    return {
        name: value
        for name, value in entries
        if name.startswith("spark.sql.") and not name.startswith("spark.sql.catalog")
    }


def empty_frame(session: SparkSession) -> DataFrame:
    """Return a frame without rows and columns, which needs no job."""
    inside: Any = session
    return DataFrame(inside._jsparkSession.emptyDataFrame(), session)


def expression_of(column: Column, session: SparkSession) -> Any:  # noqa: ANN401
    """Return a column's expression; its SQL text is parsed by the session's settings.

    Raises:
        ParseException: Spark cannot parse the text.
    """
    inside: Any = session
    of_column: Any = column
    return inside._jsparkSession.expression(of_column._jc)


def column_of(expression: Any, session: SparkSession) -> Column:  # noqa: ANN401
    """Return an expression as a column."""
    made: Any = Column
    return made(sql_package(session).classic.ExpressionUtils.column(expression))  # type: ignore[no-any-return]


def sql_package(session: SparkSession) -> Any:  # noqa: ANN401
    """Return `org.apache.spark.sql`."""
    inside: Any = session
    return keep_in_jvm(inside.sparkContext, "sql", lambda: inside._jvm.org.apache.spark.sql)


def expressions(session: SparkSession) -> Any:  # noqa: ANN401
    """Return `org.apache.spark.sql.catalyst.expressions`."""
    return keep_in_jvm(
        session.sparkContext, "expressions", lambda: sql_package(session).catalyst.expressions
    )


def keep_in_jvm(context: SparkContext, key: Hashable, make: Callable[[], Any]) -> Any:  # noqa: ANN401
    """Return the result of `make`, cached by key for each JVM: classes, columns, no state.

    A class lookup takes one JVM call per part of its name.
    """
    of_jvm = _kept.setdefault(context._gateway, {})
    if key not in of_jvm:
        if len(of_jvm) >= _MOST_KEPT:
            of_jvm.clear()
        of_jvm[key] = make()
    return of_jvm[key]


def column_named(text: str) -> Column:
    """Return `F.col(text)` in one JVM call instead of three."""
    context = SparkContext._active_spark_context
    if is_remote() or context is None:
        return F.col(text)
    jvm: Any = context._jvm
    made: Any = Column
    return made(keep_in_jvm(context, "col", lambda: jvm.functions.col)(text))  # type: ignore[no-any-return]


def make_active(session: SparkSession) -> None:
    """Make a session the thread's active one: Spark checks there which source names are taken."""
    inside: Any = session
    inside._jvm.SparkSession.setActiveSession(inside._jsparkSession)


def source_exists(session: SparkSession, name: str) -> bool:
    """Whether a data source of this name is registered in a session."""
    make_active(session)
    inside: Any = session
    return bool(inside._jsparkSession.sessionState().dataSourceManager().dataSourceExists(name))


def data_type(text: str, session: SparkSession) -> Any:  # noqa: ANN401
    """Parse a type from JSON text."""
    inside: Any = session
    return inside._jsparkSession.parseDataType(text)


def scala_seq(items: Sequence[object], session: SparkSession) -> Any:  # noqa: ANN401
    """Return a list as a Scala Seq."""
    inside: Any = session
    return inside._jvm.PythonUtils.toSeq(items)


def iter_seq(sequence: Any) -> Iterator[Any]:  # noqa: ANN401
    """Iterate over the items of a Scala Seq."""
    for index in range(sequence.size()):
        yield sequence.apply(index)
