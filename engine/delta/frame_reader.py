"""`spark.read` and `spark.readStream` of an enabled session: Delta tables are read by the engine.

A batch read is a native scan of the files of one version; a stream is the engine's data source.
"""

from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.streaming.readwriter import DataStreamReader

from engine.delta.exceptions import delta_errors
from engine.delta.merge_builder import name_frame
from engine.delta.names import PROVIDERS, find_delta, open_table, parts_in
from engine.delta.statement_views import StatementViews
from engine.delta.table_reads import (
    TIMESTAMP,
    VERSION,
    lower_options,
    read_frame,
    read_path,
    split_point,
    table_at,
)
from engine.errors import RequestError
from engine.spark.session import bypass_routing, is_remote
from engine.spark.statement_plan import name_parts

DEFAULT_SOURCE = "spark.sql.sources.default"
STREAM_SOURCE = "lake"


def is_delta(spark: SparkSession, source: str) -> bool:
    """Whether a format is Delta's; "" is the session's own."""
    return (source or spark.conf.get(DEFAULT_SOURCE, "") or "").lower() in PROVIDERS


def one_path(path: object, options: dict[str, Any]) -> str:
    """Return the one path, given as an argument or as an option.

    Raises:
        RequestError: there is none, or there are several.
    """
    paths = list(path) if isinstance(path, list | tuple) else [path]
    places = [str(given) for given in paths if given is not None]
    if not places:
        places = [str(value) for key, value in options.items() if key.lower() == "path"]
    if len(places) != 1:
        what = f"{len(places)} paths are given, but a Delta table has only one."
        raise RequestError(what, "Pass one path.", field="path")
    return places[0]


if TYPE_CHECKING:
    _Reader = DataFrameReader
else:
    _Reader = object  # a reader of either kind of session comes after it


class ReadsDelta(_Reader):
    """Mixin of readers: leaves every other format to Spark."""

    def __init__(self, spark: SparkSession) -> None:
        """Build the reader for `spark.read`."""
        super().__init__(spark)
        self._session = spark
        self._source, self._own_options = "", dict[str, Any]()
        self._own_schema: Any = None

    def format(self, source: str) -> "ReadsDelta":
        """Name the format; `delta` is the engine's, every other one Spark's."""
        super().format(source)
        self._source = source
        return self

    def schema(self, schema: T.StructType | str) -> "ReadsDelta":
        """Set the schema to read by."""
        super().schema(schema)
        self._own_schema = schema
        return self

    def option(self, key: str, value: Any) -> "ReadsDelta":  # noqa: ANN401 - Spark's
        """Set an option under Spark's name for it."""
        super().option(key, value)
        self._own_options[key] = value
        return self

    def options(self, **options: Any) -> "ReadsDelta":  # noqa: ANN401
        """Set several options under Spark's names for them."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def load(
        self,
        path: Any = None,  # noqa: ANN401
        format: str | None = None,
        schema: T.StructType | str | None = None,
        **options: Any,  # noqa: ANN401
    ) -> DataFrame:
        """Return the rows of a table at a path.

        Raises:
            AnalysisException: there is no Delta table, or no such version.
        """
        if format is not None:
            self.format(format)
        if schema is not None:
            self.schema(schema)
        self.options(**options)
        if not is_delta(self._session, self._source):
            return super().load(path)
        with bypass_routing(), delta_errors():
            where = one_path(path, self._own_options)
            return self._check_schema(read_path(self._session, where, self._own_options))

    def table(self, tableName: str) -> DataFrame:  # noqa: N803
        """Return the rows of a table by name."""
        with bypass_routing(), delta_errors():
            name, version, moment = split_point(tableName)
            parts = parts_in(self._session, name)
            place = find_delta(self._session, parts)
            if place is None:
                rows = (
                    None
                    if is_remote(self._session)
                    else StatementViews(self._session).read_view(parts)
                )
                return super().table(tableName) if rows is None else self._check_schema(rows)
            table = table_at(self._session, place.location, self._own_options, name)
            points = {VERSION: version, TIMESTAMP: moment}
            given = {key: value for key, value in points.items() if value is not None}
            frame = read_frame(self._session, table, {**lower_options(self._own_options), **given})
            checked = self._check_schema(frame)
            return name_frame(checked, place.name) if place.name else checked.alias(name)

    def _check_schema(self, frame: DataFrame) -> DataFrame:
        """Return the frame if no schema or the same schema was given."""
        given = self._own_schema
        if given is None:
            return frame
        declared = T._parse_datatype_string(given) if isinstance(given, str) else given
        if declared.simpleString() != frame.schema.simpleString():
            what = (
                f"The table has the schema {frame.schema.simpleString()[:500]}, but a "
                "different schema is given."
            )
            raise RequestError(
                what, "Leave the schema out: the table's log has it.", field="schema"
            )
        return frame


class DeltaFrameReader(ReadsDelta, DataFrameReader):
    """The reader of a session in this process."""


class DeltaStreamReader(DataStreamReader):
    """A reader of streams; leaves every other format to Spark."""

    def __init__(self, spark: SparkSession) -> None:
        """Build the reader for `spark.readStream`."""
        super().__init__(spark)
        self._source = ""

    def format(self, source: str) -> "DeltaStreamReader":
        """Name the format; `delta` is the engine's, every other one Spark's."""
        super().format(STREAM_SOURCE if source.lower() in PROVIDERS else source)
        self._source = source
        return self

    def load(
        self,
        path: str | None = None,
        format: str | None = None,
        schema: T.StructType | str | None = None,
        **options: Any,  # noqa: ANN401
    ) -> DataFrame:
        """Return the stream of a table at a path.

        Raises:
            AnalysisException: there is no Delta table.
        """
        if format is not None:
            self.format(format)
        if not is_delta(self._spark, self._source):
            return super().load(path, None, schema, **options)
        super().format(STREAM_SOURCE)
        try:
            return super().load(path, None, schema, **options)
        except AnalysisException:  # Spark wraps a source's error in a traceback of Python
            if path is not None:
                with bypass_routing(), delta_errors():
                    open_table(self._spark, path)
            raise

    def table(self, tableName: str) -> DataFrame:  # noqa: N803
        """Return the stream of a table by name."""
        with bypass_routing(), delta_errors():
            place = find_delta(self._spark, name_parts(self._spark, tableName))
            if place is None:
                return super().table(tableName)
            open_table(self._spark, place.location, name=tableName)
        super().format(STREAM_SOURCE)
        return super().load(place.location)
