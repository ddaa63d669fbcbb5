"""Live files of a table as a DataFrame: native Parquet scans, with each row's file and position.

The engine chooses the files; Spark neither lists directories nor guesses partitions.
"""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped] # it has no types
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as spark_types

from engine.actions.files import AddFile
from engine.errors import RequestError
from engine.schema.column_mapping import field_id
from engine.schema.partition_arrays import partition_array
from engine.schema.partition_values import partition_text
from engine.schema.types import ArrayType, MapType, StructField, StructType
from engine.snapshot.data_files import check_files
from engine.spark.columns import column, to_spark_type
from engine.spark.declared_types import with_declared_types
from engine.spark.failures import in_engine_words
from engine.spark.live_rows import live_rows
from engine.spark.partitioned_files import PartitionedFiles, partitioned_rows
from engine.spark.session import check_is_spark, is_remote
from engine.spark.table_files import TableFiles
from engine.storage.uri import ResolvedPath, resolve_log_path

FILE = "__lake_file"
ROW = "__lake_row"
ROW_ID = "__lake_row_id"
ROW_COMMIT_VERSION = "__lake_row_commit_version"
_FILE_SYSTEMS = {
    "s3": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    "gs": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
    "az": "org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem",
}
_URL = "__lake_url"
_BASE = "__lake_base_row_id"
_DEFAULT_VERSION = "__lake_default_version"
_ENCODED = re.compile(r"[^A-Za-z0-9_\-!.~'()*:@&=+$,;/\u0080-\U0010ffff]")


@dataclass(frozen=True)
class ScanRequest:
    """What to read: `positions` adds FILE (index in `files`) and ROW, `row_ids` row tracking's columns.

    `only` leaves out files by index; FILE still counts all. `marks` are options that the scan carries
    in its plan: such a frame is for the caller, with the nullability that the table declares.
    """

    files: Sequence[AddFile]
    positions: bool = False
    row_ids: bool = False
    columns: frozenset[str] | None = None
    marks: Mapping[str, str] | None = None
    only: frozenset[int] | None = None


def scan(spark: SparkSession, table: TableFiles, request: ScanRequest) -> DataFrame:
    """The live rows of files under the table's column names.

    Deletion vectors are applied, partition values typed, missing columns null.

    Raises:
        RequestError: the files are where Spark cannot read.
        PathOutsideRootError: a path that leaves the table, by its name or by a symbolic link.
        DataFileMissingError: a file that is not there, or is a directory.
    """
    only = request.only
    indexed = [pair for pair in enumerate(request.files) if only is None or pair[0] in only]
    clean = [pair for pair in indexed if pair[1].deletion_vector is None]
    masked = [pair for pair in indexed if pair[1].deletion_vector is not None]
    frames = []
    if clean or not masked:
        frames.append(_located(spark, table, request, clean))
    if masked:
        positioned = replace(request, positions=True)
        located = _located(spark, table, positioned, masked)
        live = located.filter(live_rows(table, dict(masked))(column(FILE), column(ROW)))
        frames.append(live if request.positions else live.drop(FILE, ROW))
    return functools.reduce(DataFrame.unionByName, frames)


def spark_path(root: str, path: str) -> str:
    """A decoded path below a root as Hadoop spells it.

    Raises:
        RequestError: no file system of Spark's serves the place.
    """
    scheme, separator, rest = root.partition("://")
    if not separator:
        return f"file:{root.rstrip('/')}/{path}"
    if scheme == "memory":
        msg = f"{root} is in this process's memory, where Spark cannot read."
        raise RequestError(msg, "Use a table on disk or in an object store.", field="table")
    return f"{'s3a' if scheme == 's3' else scheme}://{rest.rstrip('/')}/{path}"


def check_file_system(spark: SparkSession, root: str) -> None:
    """Make sure that Spark can read where a table is.

    Raises:
        RequestError: it lacks the connector, named.
    """
    needed = _FILE_SYSTEMS.get(root.partition("://")[0])
    if needed is None or "://" not in root or is_remote(spark):
        return
    try:
        spark.sparkContext._jvm.java.lang.Class.forName(needed)  # type: ignore[union-attr]
    except Py4JError as error:
        msg = f"Spark cannot read {root}: it has no {needed.rpartition('.')[2]}."
        remedy = "Name the Hadoop connector's jars in SPARK_JARS and start the worker again."
        raise RequestError(msg, remedy, field="table") from error


def _located(
    spark: SparkSession,
    table: TableFiles,
    request: ScanRequest,
    files: Sequence[tuple[int, AddFile]],
) -> DataFrame:
    """Data columns from the files, the others from a small table that is joined by the files' URLs."""
    paths = _paths(table, [add for _, add in files])
    partitioned = _partitioned(spark, table, request, files, paths)
    fields = [f for f in table.schema if request.columns is None or f.name in request.columns]
    partitions = [f for f in fields if f.name in table.partition_columns and partitioned is None]
    is_plain = not partitions and not request.positions and not request.row_ids
    if is_plain and is_remote(spark):
        paths = [_with_authority(path) for path in paths]
    raw = _native(spark, table, request, paths) if partitioned is None else partitioned
    if is_plain:
        return raw.select(*[_data_column(table, field) for field in fields])
    urls = [
        "file:" + _java_encoded(p[5:]) if p.startswith("file:") else _java_encoded(p) for p in paths
    ]
    beside = spark.createDataFrame(_beside(table, files, urls, partitions))
    joined = raw.join(F.broadcast(beside), F.col("_metadata.file_path") == F.col(_URL), "left")
    stranger = F.raise_error(
        F.concat(F.lit("a file that was not asked for: "), F.col("_metadata.file_path"))
    )
    of_files = joined.filter(
        F.when(F.col(FILE).isNotNull(), F.lit(True)).otherwise(stranger.cast("boolean"))
    )
    return of_files.select(
        *[
            _partition_column(field) if field in partitions else _data_column(table, field)
            for field in fields
        ],
        column(FILE),
        F.col("_metadata.row_index").alias(ROW),
        *(_row_tracking(table) if request.row_ids else ()),
    ).drop(*(() if request.positions else (FILE, ROW)))


def _partitioned(
    spark: SparkSession,
    table: TableFiles,
    request: ScanRequest,
    files: Sequence[tuple[int, AddFile]],
    paths: Sequence[str],
) -> DataFrame | None:
    """What programs filter by partitions is read by Spark's own partitions, where they can be told."""
    if request.marks is None or request.row_ids or not table.partition_columns:
        return None
    check_file_system(spark, table.uri)
    schema = _spark_schema(table)
    given = PartitionedFiles(table, [add for _, add in files], paths, schema, request.marks)
    with in_engine_words(table.uri):
        rows = partitioned_rows(spark, given)
    return None if rows is None else with_declared_types(rows, table.data_schema)


def _spark_schema(table: TableFiles) -> spark_types.StructType:
    """The data columns under their physical names."""
    return spark_types.StructType(
        [
            spark_types.StructField(
                field.name, to_spark_type(field.type), True, _field_id(table, field)
            )
            for field in table.data_schema
        ]
    )


def _native(
    spark: SparkSession, table: TableFiles, request: ScanRequest, paths: Sequence[str]
) -> DataFrame:
    fields = list(_spark_schema(table))
    if request.row_ids:
        names = [n for n in (table.row_id_column, table.row_commit_version_column) if n]
        fields += [spark_types.StructField(name, spark_types.LongType()) for name in names]
    check_file_system(spark, table.uri)
    if request.marks is None:
        check_is_spark(spark)
    reader = spark.read.schema(spark_types.StructType(fields)).option("__globPaths__", "false")
    if not paths and request.marks is None:
        return _no_rows(spark, spark_types.StructType(fields))
    reader = reader.options(**(request.marks or {})).option("recursiveFileLookup", "true")
    with in_engine_words(table.uri):  # each file is looked for here
        raw = reader.parquet(*paths)
    return raw if request.marks is None else with_declared_types(raw, table.data_schema)


def _with_authority(path: str) -> str:
    """A path as every server reads it: others than Spark find nothing at file:/ and say nothing."""
    return f"file://{path.removeprefix('file:')}" if path.startswith("file:/") else path


def _no_rows(spark: SparkSession, schema: spark_types.StructType) -> DataFrame:
    metadata = spark_types.StructType().add("file_path", "string").add("row_index", "long")
    return spark.createDataFrame([], schema.add("_metadata", metadata))


def _field_id(table: TableFiles, field: StructField) -> dict[str, int] | None:
    number = field_id(field)
    return (
        {"parquet.field.id": number} if table.mapping_mode == "id" and number is not None else None
    )


def _data_column(table: TableFiles, field: StructField) -> Column:
    """The column under its own name; structs in it are renamed by position."""
    data = column(table.physical_name(field))
    if table.is_mapped and isinstance(field.type, StructType | ArrayType | MapType):
        data = data.cast(to_spark_type(field.type))
    return data.alias(field.name)


def _partition_column(field: StructField) -> Column:
    """Spark takes Arrow's timestamps without zone for moments: the cast makes wall clocks of them."""
    return column(field.name).cast(to_spark_type(field.type)).alias(field.name)


def _beside(
    table: TableFiles,
    files: Sequence[tuple[int, AddFile]],
    urls: Sequence[str],
    partitions: Sequence[StructField],
) -> pa.Table:
    columns: dict[str, pa.Array] = {
        _URL: pa.array(urls, pa.string()),
        FILE: pa.array([index for index, _ in files], pa.int32()),
        _BASE: pa.array([add.base_row_id for _, add in files], pa.int64()),
        _DEFAULT_VERSION: pa.array(
            [add.default_row_commit_version for _, add in files], pa.int64()
        ),
    }
    for partition in partitions:
        name = table.physical_name(partition)
        texts = [partition_text(add.partition_values, name) for _, add in files]
        columns[partition.name] = partition_array(texts, partition.type)
    return pa.table(columns)


def _row_tracking(table: TableFiles) -> Iterator[Column]:
    derived_id = column(_BASE) + F.col("_metadata.row_index")
    stored_id = column(table.row_id_column) if table.row_id_column else F.lit(None).cast("long")
    yield F.coalesce(stored_id, derived_id).alias(ROW_ID)
    name = table.row_commit_version_column
    stored_version = column(name) if name else F.lit(None).cast("long")
    yield F.coalesce(stored_version, column(_DEFAULT_VERSION)).alias(ROW_COMMIT_VERSION)


def _paths(table: TableFiles, adds: Sequence[AddFile]) -> list[str]:
    """The files as Spark is given them. It follows every link, so each is looked at first."""
    places = [resolve_log_path(table.uri, add.path, table.allowed_roots) for add in adds]
    check_files(places)
    return [_visible(place) for place in places]


def _visible(place: ResolvedPath) -> str:
    name = place.path.rpartition("/")[2]
    if name.startswith(("_", ".")):
        msg = f"Spark takes {name} for a hidden file and would read no rows from it."
        raise RequestError(
            msg, "Rewrite the file under another name with the engine that wrote it."
        )
    return spark_path(place.root, place.path)


def _java_encoded(path: str) -> str:
    """A path as `java.net.URI` spells it: what `_metadata.file_path` shows."""
    return _ENCODED.sub(lambda match: quote(match[0], safe=""), path)
