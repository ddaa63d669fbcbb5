"""Files of a partitioned table as Spark's own partitioned relation: it prunes partitions by filters.

Spark knows a partition by its directory. Where directories do not tell a table's partitions apart, as
random ones do not, the values must come from elsewhere.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import types as spark_types

from engine.actions.files import AddFile
from engine.schema.partition_arrays import partition_array
from engine.schema.partition_values import partition_text
from engine.schema.types import StructField
from engine.spark.columns import column, to_spark_type
from engine.spark.jvm import data_type, scala_seq, sql_package
from engine.spark.session import is_remote
from engine.spark.table_files import TableFiles


@dataclass(frozen=True)
class PartitionedFiles:
    """Files, and the partition that each of their directories is.

    Attributes:
        paths: the files, as Spark spells them.
        schema: of their data columns.
        options: what the scan carries in its plan.
    """

    table: TableFiles
    files: Sequence[AddFile]
    paths: Sequence[str]
    schema: spark_types.StructType
    options: Mapping[str, str]

    @property
    def columns(self) -> list[StructField]:
        """The partition columns."""
        names = self.table.partition_columns
        return [field for name in names if (field := self.table.schema.get(name)) is not None]


def partitioned_rows(spark: SparkSession, given: PartitionedFiles) -> DataFrame | None:
    """The rows under physical names; None where directories do not say the partitions."""
    if is_remote(spark) or not given.columns or not given.files:
        return None
    directories = _partitions_of(given)
    data = {name.lower() for name in given.schema.fieldNames()}
    physical = [given.table.physical_name(field) for field in given.columns]
    if directories is None or any(name.lower() in data for name in physical):
        return None
    partitions = spark_types.StructType(
        [
            spark_types.StructField(name, to_spark_type(field.type))
            for name, field in zip(physical, given.columns, strict=True)
        ]
    )
    relation = _relation(spark, given, partitions, directories)
    inside: Any = spark
    return DataFrame(inside._jsparkSession.baseRelationToDataFrame(relation), spark)


def _partitions_of(given: PartitionedFiles) -> dict[str, AddFile] | None:
    """A file of each directory; None where a directory has files of two partitions."""
    first_adds: dict[str, AddFile] = {}
    for add, path in zip(given.files, given.paths, strict=True):
        directory = path.rpartition("/")[0]
        first_add = first_adds.setdefault(directory, add)
        if first_add is not add and _texts(given, first_add) != _texts(given, add):
            return None
    return first_adds


def _texts(given: PartitionedFiles, add: AddFile) -> list[str | None]:
    return [
        partition_text(add.partition_values, given.table.physical_name(field))
        for field in given.columns
    ]


def _relation(
    spark: SparkSession,
    given: PartitionedFiles,
    partitions: spark_types.StructType,
    directories: Mapping[str, AddFile],
) -> Any:  # noqa: ANN401 - the JVM's
    inside: Any = spark
    session, jvm = inside._jsparkSession, inside._jvm
    sources = sql_package(spark).execution.datasources
    none = jvm.scala.Option.apply(None)
    partition_type = data_type(partitions.json(), spark)
    rows = _value_rows(spark, given, list(directories.values()))
    places = _hadoop_paths(spark, list(directories))
    paths = [sources.PartitionPath(row, place) for row, place in zip(rows, places, strict=True)]
    spec = sources.PartitionSpec(partition_type, scala_seq(paths, spark))
    options = jvm.PythonUtils.toScalaMap(dict(given.options))
    cache = getattr(getattr(sources, "NoopCache$"), "MODULE$")
    index = sources.InMemoryFileIndex(
        session,
        scala_seq(_hadoop_paths(spark, given.paths), spark),
        options,
        none,
        cache,
        jvm.scala.Option.apply(spec),
        none,
    )
    schema = data_type(json.dumps(given.schema.jsonValue()), spark)
    parquet = sources.parquet.ParquetFileFormat()
    return sources.HadoopFsRelation(index, partition_type, schema, none, parquet, options, session)


def _hadoop_paths(spark: SparkSession, paths: Sequence[str]) -> list[Any]:
    inside: Any = spark
    path = inside._jvm.org.apache.hadoop.fs.Path
    return [path(text) for text in paths]


def _value_rows(
    spark: SparkSession, given: PartitionedFiles, files: Sequence[AddFile]
) -> list[Any]:
    """The partition values of files as Spark's internal rows."""
    arrays = {}
    columns: list[Column] = []
    for position, field in enumerate(given.columns):
        texts = [_texts(given, add)[position] for add in files]
        arrays[f"p{position}"] = partition_array(texts, field.type)
        columns.append(column(f"p{position}").cast(to_spark_type(field.type)))
    inside: Any = spark.createDataFrame(pa.table(arrays)).coalesce(1).select(*columns)
    return list(inside._jdf.queryExecution().executedPlan().executeCollect())
