"""Live files of a table as a DataFrame: native Parquet scans, with each row's file and position.

The engine chooses the files; Spark neither lists directories nor guesses partitions.
"""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as spark_types

from engine.actions.files import AddFile
from engine.errors import DataFileError, RequestError
from engine.expressions.tree import Column as ColumnOfRow
from engine.schema.column_mapping import field_id
from engine.schema.partition_values import partition_array, partition_text
from engine.schema.types import ArrayType, MapType, StructField, StructType
from engine.snapshot.data_files import REMEDY, read_sizes
from engine.snapshot.snapshot import Snapshot
from engine.spark.columns import column, to_spark_type
from engine.spark.failures import translate_spark_errors
from engine.spark.object_stores import check_file_system, hadoop_options, spark_path
from engine.spark.scan.deletion_vectors import (
    MOST_LIVE_WORDS,
    build_deleted_constant,
    is_live,
    live_rows,
    read_deleted_words,
)
from engine.spark.scan.file_index import (
    ConstantColumn,
    IndexedFiles,
    LiveFiles,
    identity_of,
    read_indexed_rows,
)
from engine.spark.scan.live_tables import LiveTable
from engine.spark.scan.scan_columns import apply_declared_types, hide_from_pushdown, select_columns
from engine.spark.session import check_finds_columns_by_id, check_is_spark, is_remote
from engine.spark.table_files import TableFiles
from engine.storage.uri import ResolvedPath, open_store, resolve_log_path

FILE = "__lake_file"
ROW = "__lake_row"
ROW_ID = "__lake_row_id"
ROW_COMMIT_VERSION = "__lake_row_commit_version"
_URL = "__lake_url"
_BASE = "__lake_base_row_id"
_DEFAULT_VERSION = "__lake_default_version"
_POSITION = "_tmp_metadata_row_index"
"""Spark's name for each row's position in its file."""
_AS_DECLARED = {
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.fieldId.read.ignoreMissing": "false",
}
"""Options of every scan: a table has the rows in its log, whatever the session's settings."""
_MANY_FILES = 1_000_000
"""The assumed number of files of a table where it is unknown: too many for a listing."""
_ENCODED = re.compile(r"[^A-Za-z0-9_\-!.~'()*:@&=+$,;/\u0080-\U0010ffff]")


@dataclass(frozen=True)
class ScanRequest:
    """A scan: `positions` adds FILE (index in `files`) and ROW, `row_ids` row tracking's columns.

    `only` selects files by index; FILE still counts all. `marks` are options of the scan in its
    plan: the frame is then for the caller, with the nullability that the table declares. `of` is
    the version with exactly these live files: filters of a query then skip files. `live` is a table
    to read at its latest version instead of `of`.
    """

    files: Sequence[AddFile]
    positions: bool = False
    row_ids: bool = False
    columns: frozenset[str] | None = None
    marks: Mapping[str, str] | None = None
    only: frozenset[int] | None = None
    of: Snapshot | None = None
    live: LiveTable | None = None


def scan(spark: SparkSession, table: TableFiles, request: ScanRequest) -> DataFrame:
    """Return the live rows of files under the table's column names.

    Deletion vectors are applied, partition values typed, missing columns null.

    Raises:
        RequestError: Spark cannot read the files' location.
        PathOutsideRootError: a path leaves the table, by its name or by a symbolic link.
        DataFileMissingError: a file is missing or a directory; DataFileError if it is empty.
    """
    only = request.only
    indexed = [pair for pair in enumerate(request.files) if only is None or pair[0] in only]
    if not is_remote(spark):
        return _scan_indexed(spark, table, request, indexed)
    clean = [pair for pair in indexed if pair[1].deletion_vector is None]
    masked = [pair for pair in indexed if pair[1].deletion_vector is not None]
    frames = []
    if clean or not masked:
        frames.append(_scan_joined(spark, table, request, clean))
    if masked:
        positioned = replace(request, positions=True)
        located = _scan_joined(spark, table, positioned, masked)
        live = located.filter(live_rows(table, dict(masked))(column(FILE), column(ROW)))
        frames.append(live if request.positions else live.drop(FILE, ROW))
    return functools.reduce(DataFrame.unionByName, frames)


def _scan_indexed(
    spark: SparkSession,
    table: TableFiles,
    request: ScanRequest,
    files: Sequence[tuple[int, AddFile]],
) -> DataFrame:
    """Return one Spark scan, with each file's own values as columns at no cost per row."""
    check_file_system(spark, table.uri)
    fields = [f for f in table.schema if request.columns is None or f.name in request.columns]
    partitions = [f for f in fields if f.name in table.partition_columns]
    is_masked = any(add.deletion_vector is not None for _, add in files)
    words = _words(table, request, files) if is_masked else None
    has_words = words is not None
    if request.live is not None:
        is_masked = has_words = request.live.may_have_vectors
    stored = list(_spark_schema(table)) + (_row_tracking_fields(table) if request.row_ids else [])
    if request.positions or request.row_ids or is_masked:
        stored.append(spark_types.StructField(_POSITION, spark_types.LongType()))
    listing = _FileListing(request, partitions, spark_types.StructType(stored), has_words)
    now = listing.list_files(table, request, files, words)
    live = request.live and LiveFiles(now, request.live, listing.list_at)
    with translate_spark_errors(table.uri):
        rows = read_indexed_rows(spark, live or now)
    if request.marks is not None:
        rows = apply_declared_types(rows, table.data_schema)
    if has_words:
        rows = rows.filter(is_live(spark, column(_POSITION)))
    elif is_masked:
        rows = rows.filter(live_rows(table, dict(files))(column(FILE), column(_POSITION)))
    form = (
        "scan",
        table.schema.to_json(),
        tuple(table.partition_columns),
        table.mapping_mode,
        (table.row_id_column, table.row_commit_version_column) if request.row_ids else None,
        request.columns,
        request.positions,
        request.marks is None,
    )

    def columns() -> list[Column]:
        return [
            *[
                column(_constant_name(table, field)).alias(field.name)
                if field in partitions
                else _hide_from_pushdown(spark, table, request, field)
                for field in fields
            ],
            *((column(FILE), column(_POSITION).alias(ROW)) if request.positions else ()),
            *(_row_tracking(table, column(_POSITION)) if request.row_ids else ()),
        ]

    return select_columns(rows, form, columns)


@dataclass(frozen=True)
class _FileListing:
    """Lists files for one relation: `stored` are the columns in the files."""

    request: ScanRequest
    partitions: Sequence[StructField]
    stored: spark_types.StructType
    has_words: bool

    def list_at(self, snapshot: Snapshot) -> IndexedFiles:
        """List the files of a version of a live table.

        Raises:
            SchemaChangedSinceAnalysisError: the version has other columns.
        """
        live = self.request.live
        if live is None:
            raise ValueError(snapshot.version)
        table = live.files_at(snapshot)
        request = replace(self.request, files=snapshot.add_files(), of=snapshot)
        files = list(enumerate(request.files))
        words = _words(table, request, files) if self.has_words else None
        return self.list_files(table, request, files, words)

    def list_files(
        self,
        table: TableFiles,
        request: ScanRequest,
        files: Sequence[tuple[int, AddFile]],
        words: Sequence[bytes | None] | None,
    ) -> IndexedFiles:
        """List files with their deleted rows."""
        adds = [add for _, add in files]
        neighbor_count = request.of.file_count if request.of else _MANY_FILES
        paths, sizes = locate_files(table, adds, neighbor_count)
        constants = list(_constants(table, request, files, self.partitions))
        if self.has_words:
            constants.append(build_deleted_constant(words or [None] * len(files)))
        return IndexedFiles(
            spark_path(table.uri, "", table.storage_options),
            adds,
            paths,
            sizes,
            constants,
            self.stored,
            {
                **_AS_DECLARED,
                **hadoop_options(table.uri, table.storage_options),
                **(request.marks or {}),
            },
            **_version_of(table, request),
        )


def _words(
    table: TableFiles, request: ScanRequest, files: Sequence[tuple[int, AddFile]]
) -> list[bytes | None] | None:
    """Return the deleted rows of each file, None if they are too many to send with the files."""
    most = None if request.live is None else MOST_LIVE_WORDS
    words = read_deleted_words(table, [add for _, add in files], most)
    if words is None and request.live is not None:
        what = f"The deletion vectors of {table.uri} are too large for a DataFrame."
        remedy = "Rewrite the files: REORG TABLE … APPLY (PURGE)."
        raise RequestError(what, remedy, field="source")
    return words


def _constants(
    table: TableFiles,
    request: ScanRequest,
    files: Sequence[tuple[int, AddFile]],
    partitions: Sequence[StructField],
) -> Iterator[ConstantColumn]:
    numbers = pa.array([number for number, _ in files], pa.int32())
    yield ConstantColumn(FILE, numbers, spark_types.IntegerType(), nullable=False)
    adds = [add for _, add in files]
    for partition in partitions:
        texts = [
            partition_text(add.partition_values, table.physical_name(partition)) for add in adds
        ]
        name, kind = _constant_name(table, partition), to_spark_type(partition.type)
        yield ConstantColumn(name, partition_array(texts, partition.type), kind)
    if request.row_ids:
        first_ids = pa.array([add.base_row_id for add in adds], pa.int64())
        yield ConstantColumn(_BASE, first_ids, spark_types.LongType())
        versions = pa.array([add.default_row_commit_version for add in adds], pa.int64())
        yield ConstantColumn(_DEFAULT_VERSION, versions, spark_types.LongType())


def _version_of(table: TableFiles, request: ScanRequest) -> dict[str, Any]:
    """Return the extra arguments of an index over all live files of a version."""
    snapshot = request.of
    if snapshot is None:
        return {}
    names = {
        _constant_name(table, field)
        if field.name in table.partition_columns
        else table.physical_name(field): ColumnOfRow((field.name,), field.type)
        for field in table.schema
    }
    return {"identity": identity_of(snapshot), "choose": snapshot.add_files, "names": names}


def _constant_name(table: TableFiles, field: StructField) -> str:
    """Return a partition column's name in files, or a substitute if a data column has the name."""
    name = table.physical_name(field)
    taken = {stored.name.lower() for stored in table.data_schema}
    return f"__lake_partition_{name}" if name.lower() in taken else name


def _row_tracking_fields(table: TableFiles) -> list[spark_types.StructField]:
    names = [n for n in (table.row_id_column, table.row_commit_version_column) if n]
    return [spark_types.StructField(name, spark_types.LongType()) for name in names]


def _scan_joined(
    spark: SparkSession,
    table: TableFiles,
    request: ScanRequest,
    files: Sequence[tuple[int, AddFile]],
) -> DataFrame:
    """Return data columns from the files, joined by URL with a small table of the other columns."""
    paths, _ = locate_files(table, [add for _, add in files])
    fields = [f for f in table.schema if request.columns is None or f.name in request.columns]
    partitions = [f for f in fields if f.name in table.partition_columns]
    is_plain = not partitions and not request.positions and not request.row_ids
    if is_plain:
        paths = [_add_authority(path) for path in paths]
    raw = _native(spark, table, request, paths)
    if is_plain:
        return raw.select(*[_hide_from_pushdown(spark, table, request, field) for field in fields])
    urls = [
        "file:" + _java_encoded(p[5:]) if p.startswith("file:") else _java_encoded(p) for p in paths
    ]
    beside = spark.createDataFrame(_build_file_table(table, files, urls, partitions))
    joined = raw.join(F.broadcast(beside), F.col("_metadata.file_path") == F.col(_URL), "left")
    stranger = F.raise_error(
        F.concat(F.lit("a file that was not requested: "), F.col("_metadata.file_path"))
    )
    of_files = joined.filter(
        F.when(F.col(FILE).isNotNull(), F.lit(True)).otherwise(stranger.cast("boolean"))
    )
    return of_files.select(
        *[
            _partition_column(field)
            if field in partitions
            else _hide_from_pushdown(spark, table, request, field)
            for field in fields
        ],
        column(FILE),
        F.col("_metadata.row_index").alias(ROW),
        *(_row_tracking(table, F.col("_metadata.row_index")) if request.row_ids else ()),
    ).drop(*(() if request.positions else (FILE, ROW)))


def _spark_schema(table: TableFiles) -> spark_types.StructType:
    """Return the data columns under their physical names."""
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
    fields = list(_spark_schema(table)) + (_row_tracking_fields(table) if request.row_ids else [])
    check_file_system(spark, table.uri)
    if request.marks is None:
        check_is_spark(spark)
    if table.mapping_mode == "id":
        check_finds_columns_by_id(spark)
    options = {**_AS_DECLARED, **hadoop_options(table.uri, table.storage_options)}
    reader = spark.read.options(**options)
    reader = reader.schema(spark_types.StructType(fields)).option("__globPaths__", "false")
    if not paths and request.marks is None:
        return _no_rows(spark, spark_types.StructType(fields))
    reader = reader.options(**(request.marks or {})).option("recursiveFileLookup", "true")
    with translate_spark_errors(table.uri):  # Spark looks up each file here
        return reader.parquet(*paths)


def _add_authority(path: str) -> str:
    """Return a path that every server reads: others than Spark find nothing at file:/, silently."""
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
    """Return the column under its own name; structs in it are renamed by position."""
    data = column(table.physical_name(field))
    if table.is_mapped and isinstance(field.type, StructType | ArrayType | MapType):
        data = data.cast(to_spark_type(field.type))
    return data.alias(field.name)


def _hide_from_pushdown(
    spark: SparkSession, table: TableFiles, request: ScanRequest, field: StructField
) -> Column:
    return hide_from_pushdown(
        _data_column(table, field),
        field,
        spark,
        declared=request.marks is not None,
        by_id=table.mapping_mode == "id",
    )


def _partition_column(field: StructField) -> Column:
    """Cast timestamps without zone to wall clocks: Spark takes Arrow's for points in time."""
    return column(field.name).cast(to_spark_type(field.type)).alias(field.name)


def _build_file_table(
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


def _row_tracking(table: TableFiles, position: Column) -> Iterator[Column]:
    derived_id = column(_BASE) + position
    stored_id = column(table.row_id_column) if table.row_id_column else F.lit(None).cast("long")
    yield F.coalesce(stored_id, derived_id).alias(ROW_ID)
    name = table.row_commit_version_column
    stored_version = column(name) if name else F.lit(None).cast("long")
    yield F.coalesce(stored_version, column(_DEFAULT_VERSION)).alias(ROW_COMMIT_VERSION)


def locate_files(
    table: TableFiles, adds: Sequence[AddFile], neighbor_count: int = _MANY_FILES
) -> tuple[list[str], list[int]]:
    """Return the files as Spark spells them, and their sizes in bytes.

    Spark follows links, so each file is checked. It reads no row group beyond the size it is given.
    """
    places = [resolve_log_path(table.uri, add.path, table.allowed_roots) for add in adds]
    paths = [_visible(table, place) for place in places]
    store = open_store(table.uri, table.storage_options)
    sizes = read_sizes(store, places, neighbor_count)
    empty = next((add.path for add, size in zip(adds, sizes, strict=True) if size <= 0), None)
    if empty is not None:  # Spark would silently read no rows
        msg = f"The data file {empty} of {table.uri} has no bytes."
        raise DataFileError(msg, REMEDY)
    return paths, sizes


def _visible(table: TableFiles, place: ResolvedPath) -> str:
    name = place.path.rpartition("/")[2]
    if name.startswith(("_", ".")):
        msg = f"Spark treats {name} as a hidden file and would read no rows from it."
        raise RequestError(
            msg, "Rewrite the file under another name with the engine that wrote it."
        )
    return spark_path(place.root, place.path, table.storage_options)


def _java_encoded(path: str) -> str:
    """Encode a path as `java.net.URI` does: `_metadata.file_path` shows it so."""
    return _ENCODED.sub(lambda match: quote(match[0], safe=""), path)
