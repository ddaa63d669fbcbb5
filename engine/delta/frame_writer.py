"""`df.write`, `df.writeTo` and `df.writeStream` of an enabled session: Delta tables are written by the engine."""

from typing import Any

from pyspark.sql import Column, DataFrame, DataFrameWriter, DataFrameWriterV2
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from engine.delta.exceptions import delta_errors
from engine.delta.frame_reader import STREAM_SOURCE, is_delta, one_path
from engine.delta.frame_writes import (
    APPEND,
    ERROR,
    FrameWrite,
    append,
    by_position,
    existing,
    new_table,
    overwrite,
    overwrite_partitions,
    replaced_table,
    to_name,
    to_path,
)
from engine.delta.names import PROVIDERS, NameTakenError, NameUnknownError, find_delta
from engine.delta.table_reads import lowered
from engine.errors import RequestError
from engine.spark.plain_sql import as_spark_does
from engine.spark.statement_plan import name_parts

_MODES = {"errorifexists": ERROR, "default": ERROR}


def _columns(given: tuple[Any, ...]) -> tuple[str, ...]:
    names = given[0] if len(given) == 1 and isinstance(given[0], list | tuple) else given
    return tuple(map(str, names))


class DeltaFrameWriter(DataFrameWriter):
    """A writer that leaves every other format to Spark."""

    def __init__(self, df: DataFrame) -> None:
        """As `df.write` does."""
        super().__init__(df)
        self._source, self._mode = "", ERROR
        self._own_options: dict[str, Any] = {}
        self._partitions: tuple[str, ...] | None = None
        self._clusters: tuple[str, ...] = ()
        self._buckets = False

    def mode(self, saveMode: str | None) -> "DeltaFrameWriter":  # noqa: N803
        """As Spark's."""
        super().mode(saveMode)
        if saveMode:
            self._mode = _MODES.get(saveMode.lower(), saveMode.lower())
        return self

    def format(self, source: str) -> "DeltaFrameWriter":
        """As Spark's."""
        super().format(source)
        self._source = source
        return self

    def option(self, key: str, value: Any) -> "DeltaFrameWriter":  # noqa: ANN401
        """As Spark's."""
        super().option(key, value)
        self._own_options[key] = value
        return self

    def options(self, **options: Any) -> "DeltaFrameWriter":  # noqa: ANN401
        """As Spark's."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def partitionBy(self, *cols: Any) -> "DeltaFrameWriter":  # noqa: ANN401, N802
        """As Spark's."""
        super().partitionBy(*cols)
        self._partitions = _columns(cols)
        return self

    def clusterBy(self, *cols: Any) -> "DeltaFrameWriter":  # noqa: ANN401, N802
        """As Spark's."""
        super().clusterBy(*cols)
        self._clusters = _columns(cols)
        return self

    def bucketBy(self, numBuckets: int, col: Any, *cols: Any) -> "DeltaFrameWriter":  # noqa: ANN401, N802, N803
        """As Spark's; a Delta table has no buckets."""
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
        if not is_delta(self._spark, self._source):
            super().save(path)
            return
        with as_spark_does(), delta_errors():
            to_path(self._write(), one_path(path, self._own_options))

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
        with as_spark_does(), delta_errors():
            place = find_delta(self._spark, name_parts(self._spark, name))
            theirs = self._source and not is_delta(self._spark, self._source)
            if theirs or (place is None and not is_delta(self._spark, self._source)):
                super().saveAsTable(name)
                return
            to_name(self._write(), name, place)

    def insertInto(self, tableName: str, overwrite: bool | None = None) -> None:  # noqa: N802, N803
        """Write to the table of a name, columns by position."""
        with as_spark_does(), delta_errors():
            place = find_delta(self._spark, name_parts(self._spark, tableName))
            if place is None:
                super().insertInto(tableName, overwrite)
                return
            write = self._write()
            handle = existing(write, tableName, place)
            replaces = self._mode == "overwrite" if overwrite is None else overwrite
            (_overwrite if replaces else append)(by_position(write, handle), handle)

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

    def _write(self) -> FrameWrite:
        if self._buckets:
            what = "A Delta table has no buckets."
            raise RequestError(what, "Use clusterBy.", field="bucketBy")
        properties = {
            key: str(value) for key, value in self._own_options.items() if key.startswith("delta.")
        }
        return FrameWrite(
            self._df,
            self._mode,
            {k: v for k, v in lowered(self._own_options).items() if not k.startswith("delta.")},
            properties,
            self._partitions,
            self._clusters,
        )


_overwrite = overwrite


class DeltaFrameWriterV2(DataFrameWriterV2):
    """What `writeTo` gives: it leaves tables of other formats to Spark."""

    def __init__(self, df: DataFrame, table: str) -> None:
        """As `df.writeTo` does."""
        super().__init__(df, table)
        self._name, self._source = table, ""
        self._own_options: dict[str, Any] = {}
        self._properties: dict[str, str] = {}
        self._partitions: tuple[str, ...] | None = None
        self._clusters: tuple[str, ...] = ()

    def using(self, provider: str) -> "DeltaFrameWriterV2":
        """As Spark's."""
        super().using(provider)
        self._source = provider
        return self

    def option(self, key: str, value: Any) -> "DeltaFrameWriterV2":  # noqa: ANN401
        """As Spark's."""
        super().option(key, value)
        self._own_options[key] = value
        return self

    def options(self, **options: Any) -> "DeltaFrameWriterV2":  # noqa: ANN401
        """As Spark's."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def tableProperty(self, property: str, value: str) -> "DeltaFrameWriterV2":  # noqa: N802
        """As Spark's."""
        super().tableProperty(property, value)
        self._properties[property] = value
        return self

    def partitionedBy(self, col: Any, *cols: Any) -> "DeltaFrameWriterV2":  # noqa: ANN401, N802
        """As Spark's; a Delta table is partitioned by columns."""
        super().partitionedBy(col, *cols)
        self._partitions = tuple(map(_column_name, (col, *cols)))
        return self

    def clusterBy(self, col: str, *cols: str) -> "DeltaFrameWriterV2":  # noqa: N802
        """As Spark's."""
        super().clusterBy(col, *cols)
        self._clusters = (col, *cols)
        return self

    def create(self) -> None:
        """Make the table."""
        if not is_delta(self._spark, self._source):
            super().create()
            return
        with as_spark_does(), delta_errors():
            write = self._write()
            if find_delta(self._spark, name_parts(self._spark, self._name)) is not None:
                raise NameTakenError(self._name)
            new_table(write, self._name, write.options.get("path", ""))

    def replace(self) -> None:
        """Put the frame in the place of the table, which must be there."""
        if not is_delta(self._spark, self._source):
            super().replace()
            return
        with as_spark_does(), delta_errors():
            replaced_table(self._write(), self._name, must_exist=True)

    def createOrReplace(self) -> None:  # noqa: N802
        """Make the table, or put the frame in its place."""
        if not is_delta(self._spark, self._source):
            super().createOrReplace()
            return
        with as_spark_does(), delta_errors():
            replaced_table(self._write(), self._name, must_exist=False)

    def append(self) -> None:
        """Add the frame's rows, columns by name."""
        with as_spark_does(), delta_errors():
            place = find_delta(self._spark, name_parts(self._spark, self._name))
            if place is None:
                self._refuse_unknown()
                super().append()
                return
            write = self._write()
            append(write, existing(write, self._name, place))

    def overwrite(self, condition: Any) -> None:  # noqa: ANN401
        """Replace the rows of a condition."""
        with as_spark_does(), delta_errors():
            place = find_delta(self._spark, name_parts(self._spark, self._name))
            if place is None:
                self._refuse_unknown()
                super().overwrite(condition)
                return
            write = self._write(condition)
            overwrite(write, existing(write, self._name, place))

    def overwritePartitions(self) -> None:  # noqa: N802
        """Replace the partitions that the frame's rows are of."""
        with as_spark_does(), delta_errors():
            place = find_delta(self._spark, name_parts(self._spark, self._name))
            if place is None:
                self._refuse_unknown()
                super().overwritePartitions()
                return
            write = self._write()
            overwrite_partitions(write, existing(write, self._name, place))

    def _refuse_unknown(self) -> None:
        if self._source.lower() in PROVIDERS:
            raise NameUnknownError(self._name)

    def _write(self, condition: Any = None) -> FrameWrite:  # noqa: ANN401
        return FrameWrite(
            self._df,
            APPEND,
            lowered(self._own_options),
            self._properties,
            self._partitions,
            self._clusters,
            condition,
        )


def _column_name(given: Any) -> str:  # noqa: ANN401
    """The name of a column to partition by.

    Raises:
        RequestError: it is a function of one.
    """
    text = (
        str(given).removeprefix("Column<'").removesuffix("'>")
        if isinstance(given, Column)
        else given
    )
    if isinstance(given, Column) and "(" in text:
        what = f"A Delta table cannot be partitioned by {text}."
        raise RequestError(what, "Use a column, such as a generated one.", field="partitionedBy")
    return str(text)


class DeltaStreamWriter(DataStreamWriter):
    """A writer of streams that leaves every other format to Spark."""

    def __init__(self, df: DataFrame) -> None:
        """As `df.writeStream` does."""
        super().__init__(df)
        self._frame, self._source = df, ""
        self._partitions: tuple[str, ...] = ()
        self._path: str | None = None

    def option(self, key: str, value: Any) -> "DeltaStreamWriter":  # noqa: ANN401
        """As Spark's."""
        super().option(key, value)
        if key.lower() == "path":
            self._path = str(value)
        return self

    def format(self, source: str) -> "DeltaStreamWriter":
        """As Spark's; Delta's streams end in the engine's data source."""
        super().format(STREAM_SOURCE if source.lower() in PROVIDERS else source)
        self._source = source
        return self

    def partitionBy(self, *cols: Any) -> "DeltaStreamWriter":  # noqa: ANN401, N802
        """As Spark's; the columns are those of a table that is made."""
        self._partitions = _columns(cols)
        if self._source.lower() not in PROVIDERS:
            super().partitionBy(*cols)
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
        """Write the stream to the table at a path; one is made where there is none."""
        if format is not None:
            self.format(format)
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        where = path if path is not None else self._path
        if self._source.lower() in PROVIDERS and where is not None:
            self._make(location=where)
        return super().start(path, None, outputMode, None, queryName, **options)

    def toTable(  # noqa: N802
        self,
        tableName: str,  # noqa: N803
        format: str | None = None,
        outputMode: str | None = None,  # noqa: N803
        partitionBy: Any = None,  # noqa: ANN401, N803
        queryName: str | None = None,  # noqa: N803
        **options: Any,  # noqa: ANN401
    ) -> StreamingQuery:
        """Write the stream to the table of a name; one is made where there is none."""
        spark = self._frame.sparkSession
        if format is not None:
            self.format(format)
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        with as_spark_does(), delta_errors():
            place = find_delta(spark, name_parts(spark, tableName))
        if place is None and not is_delta(spark, self._source):
            return super().toTable(tableName, None, outputMode, None, queryName, **options)
        if place is None:
            self._make(name=tableName)
            with as_spark_does(), delta_errors():
                place = find_delta(spark, name_parts(spark, tableName))
        if place is None:
            raise NameUnknownError(tableName)
        super().format(STREAM_SOURCE)
        return super().start(place.location, None, outputMode, None, queryName, **options)

    def _make(self, name: str = "", location: str = "") -> None:
        """An empty table of the stream's columns, where there is none."""
        with as_spark_does(), delta_errors():
            spark = self._frame.sparkSession
            empty = spark.createDataFrame([], self._frame.schema)
            write = FrameWrite(empty, "ignore", {}, {}, self._partitions or None)
            if location:
                to_path(write, location)
            else:
                new_table(write, name)
