"""What Spark's scans take for files, made in the JVM from one Arrow table: a call a file takes too long."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

from engine.spark.columns import column
from engine.spark.jvm import data_type, scala_seq, sql_package

_SOURCES = "org.apache.spark.sql.execution.datasources."
_FILE = pa.struct([("path", pa.string()), ("size", pa.int64()), ("time", pa.int64())])
_SPARK_FILE = spark_types.StructType().add("path", "string").add("size", "long").add("time", "long")


def directories(
    spark: SparkSession,
    schema: spark_types.StructType,
    values: pa.Table,
    files: Sequence[tuple[str, int, int]],
) -> Any:  # noqa: ANN401 - the JVM's
    """Each file as a partition of its own.

    Args:
        spark: any session.
        schema: of the constants of the files.
        values: these, a row a file.
        files: path, bytes, and time of the last change in milliseconds.

    Returns:
        A `Seq[PartitionDirectory]`.
    """
    paths, sizes, times = ([file[i] for file in files] for i in range(3))
    listed = pa.StructArray.from_arrays(
        [pa.array(paths, pa.string()), pa.array(sizes, pa.int64()), pa.array(times, pa.int64())],
        fields=list(_FILE),
    )
    single = pa.ListArray.from_arrays(pa.array(range(len(files) + 1), pa.int32()), listed)
    columns = [values.column(i).combine_chunks() for i in range(values.num_columns)]
    constants = pa.StructArray.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])
    both = pa.StructArray.from_arrays([constants, single], names=["values", "files"])
    whole = pa.ListArray.from_arrays(pa.array([0, len(files)], pa.int32()), both)
    kind = spark_types.ArrayType(
        spark_types.StructType()
        .add("values", _nullable(schema))
        .add("files", spark_types.ArrayType(_SPARK_FILE))
    )
    frame: Any = spark.createDataFrame(pa.table({"directories": whole}))
    frame = frame.select(column("directories").cast(kind))
    row = frame._jdf.queryExecution().executedPlan().executeCollect()[0]
    return _Objects(spark).of(kind).eval(row)


def _nullable(schema: spark_types.StructType) -> spark_types.StructType:
    """Arrow's columns are nullable, and Spark casts none to a stricter one."""
    return spark_types.StructType(
        [spark_types.StructField(field.name, field.dataType) for field in schema]
    )


class _Objects:
    """Expressions of Spark's that make objects of the JVM."""

    def __init__(self, spark: SparkSession) -> None:
        inside: Any = spark
        self._spark, self._jvm = spark, inside._jvm
        self._expressions = sql_package(spark).catalyst.expressions
        self._none = self._jvm.scala.Option.apply(None)
        self._nothing = scala_seq([], spark)

    def of(self, kind: spark_types.ArrayType) -> Any:  # noqa: ANN401
        """The expression that turns the first field of a row into directories."""
        make = self._expressions.objects
        whole = data_type(kind.json(), self._spark)
        directory_type = whole.elementType()
        file_type = directory_type.apply(1).dataType().elementType()
        file = make.LambdaVariable("file", file_type, False, 1)
        text = self._field(file, 0)
        name = make.Invoke(
            text,
            "toString",
            self._type("java.lang.String"),
            self._nothing,
            self._nothing,
            True,
            True,
            True,
        )
        size, time = self._field(file, 1), self._field(file, 2)
        status = self._new(
            "org.apache.hadoop.fs.FileStatus",
            size,
            self._constant(False, "boolean"),
            self._constant(1, "integer"),
            size,
            time,
            self._new("org.apache.hadoop.fs.Path", name),
        )
        no_metadata = self._expressions.Literal(
            self._jvm.PythonUtils.toScalaMap({}), self._type("scala.collection.immutable.Map")
        )
        listed = self._new(_SOURCES + "FileStatusWithMetadata", status, no_metadata)
        directory = make.LambdaVariable("directory", directory_type, False, 0)
        as_seq = self._jvm.scala.Option.apply(self._class("scala.collection.immutable.Seq"))
        files = make.MapObjects(file, listed, self._field(directory, 1), as_seq)
        made = self._new(_SOURCES + "PartitionDirectory", self._field(directory, 0), files)
        first = self._expressions.BoundReference(0, whole, False)
        return make.MapObjects(directory, made, first, as_seq)

    def _field(self, row: Any, place: int) -> Any:  # noqa: ANN401
        return self._expressions.GetStructField(row, place, self._none)

    def _new(self, name: str, *arguments: Any) -> Any:  # noqa: ANN401
        return self._expressions.objects.NewInstance(
            self._class(name),
            scala_seq(arguments, self._spark),
            self._nothing,
            False,
            self._type(name),
            self._none,
        )

    def _constant(self, value: object, kind: str) -> Any:  # noqa: ANN401
        return self._expressions.Literal(value, data_type(f'"{kind}"', self._spark))

    def _type(self, name: str) -> Any:  # noqa: ANN401
        return self._jvm.org.apache.spark.sql.types.ObjectType(self._class(name))

    def _class(self, name: str) -> Any:  # noqa: ANN401
        return self._jvm.java.lang.Class.forName(name)
