"""What classic PySpark keeps in its JVM: plans and expressions that its Python API does not show.

Sessions of Spark Connect have none of it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession


def analysed_plan(frame: DataFrame) -> Any:  # noqa: ANN401 - the JVM's
    """A frame's plan with every name in it resolved."""
    inside: Any = frame
    return inside._jdf.queryExecution().analyzed()


def frame_over(plan: Any, session: SparkSession) -> DataFrame:  # noqa: ANN401
    """The rows of an analysed plan as a frame of a session; what was resolved stays as it is."""
    inside: Any = session
    rows = sql_package(session).classic.Dataset
    return DataFrame(rows.ofRows(inside._jsparkSession, plan), session)


def expression_of(column: Column, session: SparkSession) -> Any:  # noqa: ANN401
    """A column's expression; SQL text in it is parsed.

    Raises:
        ParseException: Spark does not understand the text.
    """
    inside: Any = column
    package = sql_package(session).classic
    converter = getattr(getattr(package, "ColumnNodeToExpressionConverter$"), "MODULE$")
    return converter.apply(inside._jc.node())


def column_of(expression: Any, session: SparkSession) -> Column:  # noqa: ANN401
    """An expression as a column."""
    made: Any = Column
    return made(sql_package(session).classic.ExpressionUtils.column(expression))  # type: ignore[no-any-return]


def sql_package(session: SparkSession) -> Any:  # noqa: ANN401
    """`org.apache.spark.sql`."""
    inside: Any = session
    return inside._jvm.org.apache.spark.sql


def source_exists(session: SparkSession, name: str) -> bool:
    """Whether a session has a data source of a name that was registered in it.

    The session becomes the thread's active one: Spark looks there for names that are taken.
    """
    inside: Any = session
    inside._jvm.SparkSession.setActiveSession(inside._jsparkSession)
    return bool(inside._jsparkSession.sessionState().dataSourceManager().dataSourceExists(name))


def data_type(text: str, session: SparkSession) -> Any:  # noqa: ANN401
    """The type that a JSON text describes."""
    inside: Any = session
    return inside._jsparkSession.parseDataType(text)


def scala_seq(items: Sequence[object], session: SparkSession) -> Any:  # noqa: ANN401
    """A list as one of Scala's."""
    inside: Any = session
    return inside._jvm.PythonUtils.toSeq(items)


def iter_seq(sequence: Any) -> Iterator[Any]:  # noqa: ANN401
    """The items of one of Scala's lists."""
    for index in range(sequence.size()):
        yield sequence.apply(index)
