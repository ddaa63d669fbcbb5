"""Conversion of a directory of Parquet files to a table: only a log is written.

Statistics come from the files' footers, partition values from the directory names.
"""

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq

from engine.actions.commit_info import CommitInfo
from engine.actions.files import AddFile
from engine.actions.table import Metadata
from engine.errors import DataFileError, MalformedLogError, RequestError
from engine.log.segment import list_log_files
from engine.operations.execution import Execution
from engine.operations.result import OperationResult
from engine.protocol.properties import TableProperties
from engine.schema.column_mapping import MODE_KEY, column_mapping_mode
from engine.schema.partition_values import NULL_DIRECTORY, parse_stored_value
from engine.schema.types import StructField, StructType, parse_schema
from engine.snapshot.new_table import first_actions
from engine.spark.columns import from_spark_schema
from engine.spark.failures import SPARK_ERRORS
from engine.spark.file_writer import PATH_SAFE
from engine.spark.footer_statistics import FooterStatistics
from engine.spark.object_stores import check_file_system, hadoop_options, spark_path
from engine.spark.table_files import TableFiles
from engine.storage.base import FileStatus, Store
from engine.transaction.optimistic_transaction import OptimisticTransaction

_THREADS = 8
_UNREADABLE_TYPE = re.compile(r"\[(?:PARQUET_TYPE_\w+|UNSUPPORTED_TIME_TYPE)\] .*?\.(?=\s|$)")
"""What Spark says of a type, also inside the failure of a job that reads footers."""


class PartitionCountError(
    RequestError, code="DELTA_UNEXPECTED_NUM_PARTITION_COLUMNS_FROM_FILE_NAME"
):
    """The directories name other partition columns than those given."""


class MappedConversionError(
    RequestError, code="DELTA_CONVERSION_UNSUPPORTED_COLUMN_MAPPING", sqlstate="0AKDC"
):
    """CONVERT TO DELTA with column mapping: its physical names would be in none of the files."""


@dataclass(frozen=True)
class Conversion:
    """The arguments of a conversion: partition columns of the directories, and properties."""

    partitions: StructType = field(default_factory=StructType)
    properties: Mapping[str, str] = field(default_factory=dict)


def convert(conversion: Conversion, execution: Execution) -> OperationResult:
    """Write version 0 of the table; leave an existing table unchanged.

    Raises:
        RequestError: there are no Parquet files, or a directory is not a partition.
        MappedConversionError: the properties request column mapping.
        DataFileError: a file is not Parquet.
        ProtocolChangedException: another writer created the table at the same time.
    """
    store = execution.table.store
    if list_log_files(store):
        return OperationResult(message="It is already a Delta table: nothing was done.")
    files = [status for status in store.list_all() if _is_data(status.path)]
    if not files:
        msg = f"There are no Parquet files at {store.root}."
        raise RequestError(msg, "Check the path.", field="identifier")
    schema = _schema(execution, files, conversion.partitions)
    names = conversion.partitions.names
    actions = first_actions(schema, names, (), conversion.properties, now_ms=execution.now_ms)
    metadata = next(action for action in actions if isinstance(action, Metadata))
    _check_unmapped(metadata)
    table = TableFiles(
        store.root,
        parse_schema(metadata.schema_string),
        tuple(metadata.partition_columns),
        TableProperties.parse(metadata.configuration),
    )
    with ThreadPoolExecutor(_THREADS) as pool:
        adds = list(pool.map(lambda file: _add(store, table, file, conversion.partitions), files))
    txn = OptimisticTransaction(
        execution.table,
        None,
        observer=execution.options.observer,
        clock=execution.table.clock,
    )
    txn.stage(*(action for action in actions if not isinstance(action, CommitInfo)), *adds)
    parameters = {
        "numFiles": len(adds),
        "partitionedBy": list(names),
        "collectStats": True,
        "sourceFormat": "parquet",
    }
    return execution.commit(txn, "CONVERT", parameters, {"numConvertedFiles": len(adds)})


def _check_unmapped(metadata: Metadata) -> None:
    mode = column_mapping_mode(metadata.configuration)
    if mode != "none":
        what = f"{MODE_KEY} cannot be set to `{mode}` when using CONVERT TO DELTA."
        remedy = (
            "Convert without it, then set it with ALTER TABLE … SET TBLPROPERTIES, which "
            "keeps the column names in the files."
        )
        raise MappedConversionError(what, remedy, field="properties")


def _is_data(path: str) -> bool:
    """Return whether Spark counts a file as data; a directory `_x=1` is a partition."""
    *directories, name = path.split("/")
    hidden = any(part.startswith((".", "_")) and "=" not in part for part in directories)
    return not hidden and not name.startswith((".", "_"))


def _schema(
    execution: Execution, files: Sequence[FileStatus], partitions: StructType
) -> StructType:
    """Return the columns of all files and the partition columns."""
    spark, root = execution.spark, execution.table.store.root
    options = execution.table.storage_options
    check_file_system(spark, root)
    reader = spark.read.options(**hadoop_options(root, options))
    reader = reader.option("mergeSchema", "true").option("recursiveFileLookup", "true")
    try:
        frame = reader.option("__globPaths__", "false").parquet(
            *[spark_path(root, file.path, options) for file in files]
        )
    except SPARK_ERRORS as error:
        if (refused := _UNREADABLE_TYPE.search(str(error))) is None:
            raise
        what = f"Spark cannot read a type in the Parquet files at {root}: {refused[0]}"
        remedy = (
            "Rewrite these files with another type: times in microseconds"
            " (coerce_timestamps='us' of pyarrow and pandas), other columns as text or numbers."
        )
        raise RequestError(what, remedy, field="identifier") from None  # else Spark's is raised
    own = {name.lower() for name in partitions.names}
    columns = from_spark_schema(frame.schema)
    return StructType(
        (*(column for column in columns if column.name.lower() not in own), *partitions)
    )


def _add(store: Store, table: TableFiles, file: FileStatus, partitions: StructType) -> AddFile:
    values = _values(file.path, partitions, store.root)
    try:
        with store.open_input(file.path) as source:
            footer = pq.read_metadata(source)
    except (pa.ArrowException, OSError) as error:
        msg = f"{store.root}/{file.path} is not a Parquet file: {error}"
        raise DataFileError(msg[:500], "Move it out of the directory.") from error
    statistics = FooterStatistics(table.data_schema, table.indexed)
    return AddFile(
        path=quote(file.path, safe=PATH_SAFE),
        partition_values=values,
        size=file.size_bytes,
        modification_time=file.modified_ms,
        data_change=True,
        stats=statistics.to_json(footer, with_nan=None),
    )


def _values(path: str, partitions: StructType, root: str) -> dict[str, str | None]:
    """Parse the partition values in a file's directories.

    Raises:
        PartitionCountError: they name other columns.
        RequestError: a value is not valid for its column's type.
    """
    pairs = [part.partition("=") for part in path.split("/")[:-1]]
    texts = {unquote(name): unquote(value) for name, sign, value in pairs if sign}
    if [name.lower() for name in texts] != [name.lower() for name in partitions.names]:
        shown = ", ".join(f"`{name}`" for name in texts)
        expected = ", ".join(f"`{name}`" for name in partitions.names)
        what = (
            f"Expecting {len(partitions)} partition column(s): [{expected}], but found {len(texts)}"
            f" partition column(s): [{shown}] from parsing the file name: {root}/{path}."
        )
        columns = ", ".join(f"`{name}` STRING" for name in texts)
        remedy = (
            f"Give the partition columns with their types, such as {columns}."
            if columns
            else "Give no partition columns."
        )
        raise PartitionCountError(what, remedy, field="partitionSchema")
    values: dict[str, str | None] = {}
    for column, text in zip(partitions, texts.values(), strict=True):
        values[column.name] = None if text == NULL_DIRECTORY else text
        _check_value(column, values[column.name])
    return values


def _check_value(column: StructField, text: str | None) -> None:
    try:
        parse_stored_value(text, column.type)
    except MalformedLogError as error:
        msg = f"The directory {column.name}={text} does not match the type of {column.name}."
        raise RequestError(msg, "Give the column another type.", field="partitionSchema") from error
