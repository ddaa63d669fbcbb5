"""The file objects of Spark's scans, made in the JVM from one pickled list, not file by file."""

import pickle
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

from engine.spark.jvm import data_type, expressions, keep_in_jvm, scala_seq, sql_package

_SOURCES = "org.apache.spark.sql.execution.datasources."
_FILE = spark_types.StructType().add("path", "string").add("size", "long").add("time", "long")


def directories(
    spark: SparkSession,
    schema: spark_types.StructType,
    values: pa.Table,
    files: Sequence[tuple[str, int, int]],
) -> Any:  # noqa: ANN401 - the JVM's
    """Return each file as a partition of its own."""
    kind = spark_types.ArrayType(
        spark_types.StructType()
        .add("values", _nullable(schema))
        .add("files", spark_types.ArrayType(_FILE))
    )
    columns = [
        _convert_to_spark_storage(values.column(i)).to_pylist() for i in range(values.num_columns)
    ]
    constants = zip(*columns, strict=True) if columns else [()] * len(files)
    rows = [(of_file, [file]) for of_file, file in zip(constants, files, strict=True)]
    inside: Any = spark
    jvm: Any = inside._jvm
    unpickler = keep_in_jvm(
        spark.sparkContext, "Unpickler", lambda: jvm.net.razorvine.pickle.Unpickler
    )
    unpickled = unpickler().loads(bytearray(pickle.dumps(rows, 4)))
    from_python, make = _maker(spark, kind)
    fields = jvm.PythonUtils.toArray([from_python.apply(unpickled)])
    row = expressions(spark).GenericInternalRow(fields)
    return make.freshCopyIfContainsStatefulExpression().eval(row)


_makers: WeakKeyDictionary[Any, dict[str, tuple[Any, Any]]] = WeakKeyDictionary()
"""By gateway and type: to make one takes some sixty calls of the JVM."""
_MOST_MAKERS = 256


def _maker(spark: SparkSession, kind: spark_types.ArrayType) -> tuple[Any, Any]:
    """Return a converter of Python values to Spark rows, and an expression for objects of them.

    The expression holds the arguments of one object at a time: evaluate a fresh copy of it, or
    queries in several threads get each other's files.
    """
    inside: Any = spark
    of_kind = _makers.setdefault(inside.sparkContext._gateway, {})
    name = kind.json()
    if name not in of_kind:
        if len(of_kind) >= _MOST_MAKERS:
            of_kind.clear()
        evaluation = getattr(sql_package(spark).execution.python, "EvaluatePython$")
        from_python = getattr(evaluation, "MODULE$").makeFromJava(data_type(name, spark))
        of_kind[name] = from_python, _Objects(spark).build_mapping(kind)
    return of_kind[name]


def _convert_to_spark_storage(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Days and microseconds since 1970 for dates and times: Python's own end with the year 9999."""
    if pa.types.is_date(values.type):
        return values.cast(pa.date32()).cast(pa.int32())
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
    return values


def _nullable(schema: spark_types.StructType) -> spark_types.StructType:
    """Return the schema with every field nullable: nullability is declared beside the files."""
    return spark_types.StructType(
        [spark_types.StructField(field.name, field.dataType) for field in schema]
    )


class _Objects:
    """Spark expressions that construct JVM objects."""

    def __init__(self, spark: SparkSession) -> None:
        inside: Any = spark
        self._spark, self._jvm = spark, inside._jvm
        self._expressions = expressions(spark)
        self._none = self._jvm.scala.Option.apply(None)
        self._nothing = scala_seq([], spark)

    def build_mapping(self, kind: spark_types.ArrayType) -> Any:  # noqa: ANN401
        """Return the expression that turns the first field of a row into directories."""
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
