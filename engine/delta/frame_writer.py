"""`df.write`, `df.writeStream` and `df.writeTo` of an enabled session.

The engine writes Delta tables; Spark's own writers do the rest.
"""

from collections.abc import Callable
from dataclasses import replace
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, DataFrameWriter, DataFrameWriterV2, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from engine.delta.creation import has_table, register_name
from engine.delta.exceptions import delta_errors
from engine.delta.frame_reader import STREAM_SOURCE, is_delta, one_path
from engine.delta.frame_writes import (
    APPEND,
    ERROR,
    FrameWrite,
    append,
    check_layout,
    new_table,
    open_existing,
    overwrite,
    overwrite_partitions,
    replace_table,
    save_to_name,
    save_to_path,
)
from engine.delta.handle import AUTO_MERGE, Handle
from engine.delta.names import (
    PROVIDERS,
    NameTakenError,
    NameUnknownError,
    find_delta,
    open_table,
    parts_in,
)
from engine.delta.row_statements import rename_by_position
from engine.delta.table_reads import lower_options
from engine.errors import RequestError, SchemaMismatchError
from engine.schema.write_errors import TypeNotStorableError
from engine.spark.columns import from_spark_schema
from engine.spark.session import bypass_routing, has_engine_terms
from engine.spark.statement_plan import name_parts
from engine.spark.write.shape import check_assignable, fit_to_table

_MERGE_SCHEMA = "mergeschema"
_MODES = {"errorifexists": ERROR, "default": ERROR}


def _columns(given: tuple[Any, ...]) -> tuple[str, ...]:
    names = given[0] if len(given) == 1 and isinstance(given[0], list | tuple) else given
    return tuple(map(str, names))


class StreamTypeError(SchemaMismatchError, code="DELTA_FAILED_TO_MERGE_FIELDS"):
    """A stream has a type with no cast to the column's."""


class BucketingError(RequestError, code="DELTA_OPERATION_NOT_ALLOWED_DETAIL"):
    """A Delta table cannot have buckets."""


if TYPE_CHECKING:
    _Writer = DataFrameWriter
else:
    _Writer = object  # a writer of either kind of session comes after it


class WritesDelta(_Writer):
    """Mixin of writers: leaves every other format to Spark."""

    def __init__(self, frame: DataFrame, *arguments: Any) -> None:  # noqa: ANN401 - of its kind
        """Build the writer for `df.write`; `arguments` are those of its kind of writer."""
        super().__init__(*(arguments or (frame,)))
        self._frame, self._session = frame, frame.sparkSession
        self._source, self._mode = "", ERROR
        self._own_options: dict[str, Any] = {}
        self._partitions: tuple[str, ...] | None = None
        self._clusters: tuple[str, ...] = ()
        self._buckets = False

    def mode(self, saveMode: str | None) -> "WritesDelta":  # noqa: N803
        """Set the behavior if the table exists: append, overwrite, error, ignore."""
        super().mode(saveMode)
        if saveMode:
            self._mode = _MODES.get(saveMode.lower(), saveMode.lower())
        return self

    def format(self, source: str) -> "WritesDelta":
        """Name the format; `delta` is the engine's, every other one Spark's."""
        super().format(source)
        self._source = source
        return self

    def option(self, key: str, value: Any) -> "WritesDelta":  # noqa: ANN401
        """Set an option under Spark's name for it."""
        super().option(key, value)
        self._own_options[key] = value
        return self

    def options(self, **options: Any) -> "WritesDelta":  # noqa: ANN401
        """Set several options under Spark's names for them."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def partitionBy(self, *cols: Any) -> "WritesDelta":  # noqa: ANN401, N802
        """Set the partition columns of a new table."""
        super().partitionBy(*cols)
        self._partitions = _columns(cols)
        return self

    def clusterBy(self, *cols: Any) -> "WritesDelta":  # noqa: ANN401, N802
        """Set the clustering columns of a new table."""
        super().clusterBy(*cols)
        self._clusters = _columns(cols)
        return self

    def bucketBy(self, numBuckets: int, col: Any, *cols: Any) -> "WritesDelta":  # noqa: ANN401, N802, N803
        """Buckets, for formats of Spark's; a Delta table has none."""
        super().bucketBy(numBuckets, col, *cols)
        self._buckets = True
        return self

    def save(
        self,
        path: str | None = None,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: Any = None,  # noqa: ANN401, N803
        **options: Any,  # noqa: ANN401
    ) -> None:
        """Write to the table at a path."""
        self._take(format, mode, partitionBy, options)
        if not is_delta(self._session, self._source):
            super().save(path)
            return
        with bypass_routing(), delta_errors():
            save_to_path(self._build_write(), one_path(path, self._own_options))

    def saveAsTable(  # noqa: N802
        self,
        name: str,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: Any = None,  # noqa: ANN401, N803
        **options: Any,  # noqa: ANN401
    ) -> None:
        """Write to the table of a name."""
        self._take(format, mode, partitionBy, options)
        with bypass_routing(), delta_errors():
            place = find_delta(self._session, parts_in(self._session, name))
            theirs = self._source and not is_delta(self._session, self._source)
            if theirs or (place is None and not is_delta(self._session, self._source)):
                super().saveAsTable(name)
                return
            save_to_name(self._build_write(), name, place)

    def insertInto(self, tableName: str, overwrite: bool | None = None) -> None:  # noqa: N802, N803
        """Write to the table of a name, columns by position."""
        with bypass_routing(), delta_errors():
            place = find_delta(self._session, parts_in(self._session, tableName))
            if place is None:
                super().insertInto(tableName, overwrite)
                return
            write = self._build_write()
            handle = open_existing(write, tableName, place)
            snapshot = handle.table.snapshot()
            replaces = self._mode == "overwrite" if overwrite is None else overwrite
            placed = replace(
                write,
                frame=rename_by_position(write.frame, snapshot.schema.names),
                partition_columns=tuple(snapshot.partition_columns),
            )
            (_overwrite if replaces else append)(placed, handle)

    def _take(
        self,
        source: str | None,
        mode: str | None,
        partitions: object,
        options: dict[str, Any],
    ) -> None:
        self.mode(mode).options(**options)
        if partitions is not None:
            self.partitionBy(partitions)
        if source is not None:
            self.format(source)

    def _build_write(self) -> FrameWrite:
        if self._buckets:
            what = "Delta tables do not support buckets."
            raise BucketingError(what, "Use clusterBy.", field="bucketBy")
        properties = {
            key: str(value) for key, value in self._own_options.items() if key.startswith("delta.")
        }
        return FrameWrite(
            self._frame,
            self._mode,
            {
                k: v
                for k, v in lower_options(self._own_options).items()
                if not k.startswith("delta.")
            },
            properties,
            self._partitions,
            self._clusters,
        )


_overwrite = overwrite


class DeltaFrameWriter(WritesDelta, DataFrameWriter):
    """The writer of a frame in this process."""


class RoutedJavaSession:
    """The JVM's session of a batch, as older programs reach it: its `sql` is `spark.sql`."""

    def __init__(self, spark: SparkSession) -> None:
        """Take the session of the batch."""
        self._spark: Any = spark

    def sql(self, *arguments: Any) -> Any:  # noqa: ANN401 - the JVM's
        """Run a statement as `spark.sql` does, and return the JVM's frame."""
        return self._spark.sql(*arguments)._jdf

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """Return every other member of the JVM's session."""
        return getattr(self._spark._jsparkSession, name)


class DeltaStreamWriter(DataStreamWriter):
    """A writer of streams; leaves every other format to Spark."""

    def __init__(self, df: DataFrame) -> None:
        """Build the writer for `df.writeStream`."""
        super().__init__(df)
        self._frame, self._source = df, ""
        self._partitions: tuple[str, ...] = ()
        self._own_options: dict[str, Any] = {}
        self._calls: list[Callable[[DataStreamWriter], object]] = []

    def outputMode(self, outputMode: str) -> "DeltaStreamWriter":  # noqa: N802, N803
        """Set which rows of a result are written."""
        return self._call("outputMode", outputMode)

    def queryName(self, queryName: str) -> "DeltaStreamWriter":  # noqa: N802, N803
        """Name the query."""
        return self._call("queryName", queryName)

    def trigger(self, **when: Any) -> "DeltaStreamWriter":  # noqa: ANN401
        """Set when a batch begins."""
        return self._call("trigger", **when)

    def _call(self, name: str, *arguments: Any, **named: Any) -> "DeltaStreamWriter":  # noqa: ANN401
        """Call a method of Spark's writer, and later of the writer of the cast stream."""
        getattr(super(), name)(*arguments, **named)
        self._calls.append(methodcaller(name, *arguments, **named))
        return self

    def option(self, key: str, value: Any) -> "DeltaStreamWriter":  # noqa: ANN401
        """Set an option under Spark's name for it."""
        self._own_options[key.lower()] = value
        if key.lower() not in {_MERGE_SCHEMA, "path"}:  # `start` gives the path
            super().option(key, value)
        return self

    def options(self, **options: Any) -> "DeltaStreamWriter":  # noqa: ANN401
        """Set several options under Spark's names for them."""
        for key, value in options.items():
            if value is not None:
                self.option(key, value)
        return self

    def format(self, source: str) -> "DeltaStreamWriter":
        """Name the format; `delta` is the engine's, every other one Spark's."""
        super().format(STREAM_SOURCE if source.lower() in PROVIDERS else source)
        self._source = source
        return self

    def partitionBy(self, *cols: Any) -> "DeltaStreamWriter":  # noqa: ANN401, N802
        """Set the partition columns of a new table."""
        self._partitions = _columns(cols)
        if self._source.lower() not in PROVIDERS:
            super().partitionBy(*cols)
        return self

    def foreachBatch(  # noqa: N802
        self, func: Callable[[DataFrame, int], None]
    ) -> "DeltaStreamWriter":
        """Call a function for each batch, whose `_jdf.sparkSession()` is an enabled session too."""

        def call(batch: DataFrame, number: int) -> None:
            inside: Any = batch
            inside._jdf.sparkSession = lambda: RoutedJavaSession(batch.sparkSession)
            func(batch, number)

        super().foreachBatch(call)
        return self

    def start(
        self,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,  # noqa: N803
        partitionBy: Any = None,  # noqa: ANN401, N803
        queryName: str | None = None,  # noqa: N803
        **options: Any,  # noqa: ANN401
    ) -> StreamingQuery:
        """Write the stream to the table at a path; create the table if it does not exist."""
        if format is not None:
            self.format(format)
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        self.options(**options)
        own = self._own_options.get("path")
        if self._source.lower() not in PROVIDERS:
            if own is not None:
                super().option("path", own)
            return super().start(path, None, outputMode, None, queryName)
        where = path if path is not None else own
        if where is None:
            return super().start(None, None, outputMode, None, queryName)  # fails in Spark's words
        self._make(location=str(where))
        return self._start_in_table(str(where), outputMode, queryName)

    def toTable(  # noqa: N802
        self,
        tableName: str,  # noqa: N803
        format: str | None = None,
        outputMode: str | None = None,  # noqa: N803
        partitionBy: Any = None,  # noqa: ANN401, N803
        queryName: str | None = None,  # noqa: N803
        **options: Any,  # noqa: ANN401
    ) -> StreamingQuery:
        """Write the stream to a table by name; create the table if it does not exist."""
        spark = self._frame.sparkSession
        if format is not None:
            self.format(format)
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        self.options(**options)
        with bypass_routing(), delta_errors():
            place = find_delta(spark, name_parts(spark, tableName))
        if place is None and not is_delta(spark, self._source):
            if "path" in self._own_options:
                super().option("path", self._own_options["path"])
            return super().toTable(tableName, None, outputMode, None, queryName)
        if place is None:
            self._make(tableName, str(self._own_options.get("path", "")))
            with bypass_routing(), delta_errors():
                place = find_delta(spark, name_parts(spark, tableName))
        if place is None:
            raise NameUnknownError(tableName)
        return self._start_in_table(place.location, outputMode, queryName)

    def _start_in_table(
        self, location: str, mode: str | None, query_name: str | None
    ) -> StreamingQuery:
        """Cast the stream to the table's types, and add its new columns if it may; then start it.

        Raises:
            PartitioningError: the partition columns differ.
            SchemaMismatchError: the table cannot store a type of the stream, or lacks a column.
        """
        with bypass_routing(), delta_errors():
            write = replace(self._empty_write(), partition_columns=self._partitions or None)
            handle = Handle(write.spark, open_table(write.spark, location))
            check_layout(write, handle.table.snapshot())
            evolves = write.flag(_MERGE_SCHEMA) or handle.is_set(AUTO_MERGE)
            if evolves:
                append(write, handle)  # commits nothing if there are no new columns
            table, data = handle.table.snapshot().schema, from_spark_schema(self._frame.schema)
            try:
                check_assignable(table, data)
            except TypeNotStorableError as error:
                raise StreamTypeError(error.what, error.remedy, field="source") from error
            lax = not has_engine_terms(write.spark, any_zone=True)
            cast = fit_to_table(self._frame, data, table.fields, names_values=lax)
            writer = DataStreamWriter(cast)
        writer.format(STREAM_SOURCE)
        for key, value in self._own_options.items():
            if key not in {_MERGE_SCHEMA, "path"}:
                writer.option(key, value)
        for call in self._calls:
            call(writer)
        return writer.start(location, None, mode, None, query_name)

    def _empty_write(self) -> FrameWrite:
        """Return a write of the stream's columns without rows."""
        empty = self._frame.sparkSession.createDataFrame([], self._frame.schema)
        return FrameWrite(empty, "ignore", lower_options(self._own_options))

    def _make(self, name: str = "", location: str = "") -> None:
        """Create an empty table of the stream's columns if none exists."""
        with bypass_routing(), delta_errors():
            write = replace(self._empty_write(), partition_columns=self._partitions or None)
            if not name:
                save_to_path(write, location)
            elif location and has_table(write.spark, location):
                schema = open_table(write.spark, location).snapshot().schema
                register_name(write.spark, name, location, schema)
            else:
                new_table(write, name, location)


if TYPE_CHECKING:
    _WriterV2 = DataFrameWriterV2
else:
    _WriterV2 = object  # a writer of either kind of session comes after it


class WritesDeltaV2(_WriterV2):
    """Mixin of writers to a name: leaves tables of other formats to Spark."""

    def __init__(self, frame: DataFrame, table: str, *arguments: Any) -> None:  # noqa: ANN401 - of its kind
        """Build the writer for `df.writeTo`; `arguments` are those of its kind of writer."""
        super().__init__(*(arguments or (frame, table)))
        self._frame, self._session = frame, frame.sparkSession
        self._name, self._source = table, ""
        self._own_options: dict[str, Any] = {}
        self._properties: dict[str, str] = {}
        self._partitions: tuple[str, ...] | None = None
        self._clusters: tuple[str, ...] = ()

    def using(self, provider: str) -> "WritesDeltaV2":
        """Set the format of a new table."""
        super().using(provider)
        self._source = provider
        return self

    def option(self, key: str, value: Any) -> "WritesDeltaV2":  # noqa: ANN401
        """Set an option under Spark's name for it."""
        super().option(key, value)
        self._own_options[key] = value
        return self

    def options(self, **options: Any) -> "WritesDeltaV2":  # noqa: ANN401
        """Set several options under Spark's names for them."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def tableProperty(self, property: str, value: str) -> "WritesDeltaV2":  # noqa: N802
        """Set a property of a new table."""
        super().tableProperty(property, value)
        if property.lower() == "location":  # as Spark's catalogs take it
            self._own_options["path"] = value
        else:
            self._properties[property] = value
        return self

    def partitionedBy(self, col: Any, *cols: Any) -> "WritesDeltaV2":  # noqa: ANN401, N802
        """Set the partition columns of a new table; a Delta table has no transforms."""
        super().partitionedBy(col, *cols)
        self._partitions = tuple(map(_column_name, (col, *cols)))
        return self

    def clusterBy(self, col: str, *cols: str) -> "WritesDeltaV2":  # noqa: N802
        """Set the clustering columns of a new table."""
        super().clusterBy(col, *cols)
        self._clusters = (col, *cols)
        return self

    def create(self) -> None:
        """Make the table."""
        if not is_delta(self._session, self._source):
            super().create()
            return
        with bypass_routing(), delta_errors():
            write = self._build_write()
            if find_delta(self._session, parts_in(self._session, self._name)) is not None:
                raise NameTakenError(self._name)
            new_table(write, self._name, write.options.get("path", ""))

    def replace(self) -> None:
        """Replace the existing table by the frame."""
        if not is_delta(self._session, self._source):
            super().replace()
            return
        with bypass_routing(), delta_errors():
            replace_table(self._build_write(), self._name, must_exist=True)

    def createOrReplace(self) -> None:  # noqa: N802
        """Make the table, or put the frame in its place."""
        if not is_delta(self._session, self._source):
            super().createOrReplace()
            return
        with bypass_routing(), delta_errors():
            replace_table(self._build_write(), self._name, must_exist=False)

    def append(self) -> None:
        """Add the frame's rows, columns by name."""
        with bypass_routing(), delta_errors():
            place = find_delta(self._session, parts_in(self._session, self._name))
            if place is None:
                self._refuse_unknown()
                super().append()
                return
            write = self._build_write()
            append(write, open_existing(write, self._name, place))

    def overwrite(self, condition: Any) -> None:  # noqa: ANN401
        """Replace the rows of a condition."""
        with bypass_routing(), delta_errors():
            place = find_delta(self._session, parts_in(self._session, self._name))
            if place is None:
                self._refuse_unknown()
                super().overwrite(condition)
                return
            write = self._build_write(condition)
            overwrite(write, open_existing(write, self._name, place))

    def overwritePartitions(self) -> None:  # noqa: N802
        """Replace the partitions of the frame's rows."""
        with bypass_routing(), delta_errors():
            place = find_delta(self._session, parts_in(self._session, self._name))
            if place is None:
                self._refuse_unknown()
                super().overwritePartitions()
                return
            write = self._build_write()
            overwrite_partitions(write, open_existing(write, self._name, place))

    def _refuse_unknown(self) -> None:
        if self._source.lower() in PROVIDERS:
            raise NameUnknownError(self._name)

    def _build_write(self, condition: Any = None) -> FrameWrite:  # noqa: ANN401
        return FrameWrite(
            self._frame,
            APPEND,
            lower_options(self._own_options),
            self._properties,
            self._partitions,
            self._clusters,
            condition,
        )


def _column_name(given: Any) -> str:  # noqa: ANN401
    """Return the name of a column to partition by."""
    text = (
        str(given).removeprefix("Column<'").removesuffix("'>")
        if isinstance(given, Column)
        else given
    )
    if isinstance(given, Column) and "(" in text:
        what = f"A Delta table cannot be partitioned by {text}."
        raise RequestError(what, "Use a column, such as a generated column.", field="partitionedBy")
    return str(text)


class DeltaFrameWriterV2(WritesDeltaV2, DataFrameWriterV2):
    """The writer of a frame in this process."""
