"""Results of commands as the DataFrames of delta-spark: the same columns, in the same order."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.catalog import Column as CatalogColumn

from engine.actions.commit_info import CommitInfo
from engine.clock import utc_from_ms
from engine.commands.column_sql import COMMENT
from engine.delta.names import parts_of
from engine.operations.result import OperationResult
from engine.protocol.features import list_supported_features
from engine.snapshot.snapshot import Snapshot
from engine.spark.columns import to_spark_type
from engine.spark.jvm import empty_frame
from engine.spark.session import is_remote
from engine.spark.session_catalog import SessionTable
from engine.spark.statement_plan import parse_expression
from engine.table import DeltaTable

_MAP = "map<string,string>"
_HISTORY = (
    "version long, timestamp timestamp, userId string, userName string, operation string,"
    f" operationParameters {_MAP}, job struct<jobId:string,jobName:string,jobRunId:string,"
    "runId:string,jobOwnerId:string,triggerType:string>, notebook struct<notebookId:string>,"
    " clusterId string, readVersion long, isolationLevel string, isBlindAppend boolean,"
    f" operationMetrics {_MAP}, userMetadata string, engineInfo string"
)
_DETAIL = (
    "format string, id string, name string, description string, location string,"
    " createdAt timestamp, lastModified timestamp, partitionColumns array<string>,"
    " clusteringColumns array<string>, numFiles long, sizeInBytes long,"
    f" properties {_MAP}, minReaderVersion int, minWriterVersion int, tableFeatures array<string>"
)
_MERGE = {
    "num_affected_rows": "",
    "num_updated_rows": "numTargetRowsUpdated",
    "num_deleted_rows": "numTargetRowsDeleted",
    "num_inserted_rows": "numTargetRowsInserted",
}
_RESTORE = {
    "table_size_after_restore": "tableSizeAfterRestore",
    "num_of_files_after_restore": "numOfFilesAfterRestore",
    "num_removed_files": "numRemovedFiles",
    "num_restored_files": "numRestoredFiles",
    "removed_files_size": "removedFilesSize",
    "restored_files_size": "restoredFilesSize",
}
_CLONE = {
    "source_table_size": "sourceTableSize",
    "source_num_of_files": "sourceNumOfFiles",
    "num_removed_files": "numRemovedFiles",
    "num_copied_files": "numCopiedFiles",
    "removed_files_size": "removedFilesSize",
    "copied_files_size": "copiedFilesSize",
}
_SIZES = "struct<min:long,max:long,avg:double,totalFiles:long,totalSize:long>"
_COUNTED, _NUMBERED = "struct<num:long,size:long>", "struct<numFiles:long,size:long>"
_OPTIMIZE = (
    f"path string, metrics struct<numFilesAdded:long,numFilesRemoved:long,filesAdded:{_SIZES},"
    f"filesRemoved:{_SIZES},partitionsOptimized:long,zOrderStats:struct<strategyName:string,"
    f"inputCubeFiles:{_COUNTED},inputOtherFiles:{_COUNTED},inputNumCubes:long,"
    f"mergedFiles:{_COUNTED},numOutputCubes:long,mergedNumCubes:long>,"
    f"clusteringStats:struct<inputZCubeFiles:{_NUMBERED},inputOtherFiles:{_NUMBERED},"
    f"inputNumZCubes:long,mergedFiles:{_NUMBERED},numOutputZCubes:long>,numBins:long,"
    "numBatches:long,totalConsideredFiles:long,totalFilesSkipped:long,"
    "preserveInsertionOrder:boolean,numFilesSkippedToReduceWriteAmplification:long,"
    "numBytesSkippedToReduceWriteAmplification:long,startTimeMs:long,endTimeMs:long,"
    "totalClusterParallelism:long,totalScheduledTasks:long,"
    "autoCompactParallelismStats:struct<maxClusterActiveParallelism:long,"
    "minClusterActiveParallelism:long,maxSessionActiveParallelism:long,"
    "minSessionActiveParallelism:long>,deletionVectorStats:struct<numDeletionVectorsRemoved:long,"
    "numDeletionVectorRowsRemoved:long>,numTableColumns:long,numTableColumnsWithStats:long>"
)


def history_frame(spark: SparkSession, table: DeltaTable, limit: int | None) -> DataFrame:
    """Return the commits still in the log, latest first."""
    rows = [
        (
            info.version,
            _moment(info.timestamp),
            info.user_id,
            info.user_name,
            info.operation,
            _texts(_spell_parameters(spark, info)),
            None,
            None,
            None,
            info.read_version,
            info.isolation_level,
            info.is_blind_append,
            _texts(info.operation_metrics),
            info.user_metadata,
            info.engine_info,
        )
        for info in table.iter_history(limit)
    ]
    return spark.createDataFrame(rows, _HISTORY)


def _spell_parameters(spark: SparkSession, info: CommitInfo) -> Mapping[str, Any]:
    """Return a commit's parameters as delta-spark spells them.

    JSON has no spaces, and the condition of an OPTIMIZE is unresolved, as Spark prints it.
    """
    parameters = {key: _compact(value) for key, value in (info.operation_parameters or {}).items()}
    if info.operation == "DELETE" and parameters.get("predicate") == "[]":
        return {**parameters, "predicate": '["true"]'}
    if info.operation != "OPTIMIZE" or is_remote(spark):
        return parameters
    try:
        conditions = json.loads(str(parameters.get("predicate") or "[]"))
        spelled = [str(parse_expression(spark, text).toString()) for text in conditions]
    except (ValueError, ParseException):  # delta-spark wrote it, as Spark prints it
        return parameters
    return {**parameters, "predicate": _json(spelled)}


def _compact(value: object) -> object:
    """Return JSON text without spaces between its parts; any other value unchanged."""
    if not isinstance(value, str) or not value.startswith(("[", "{")):
        return value
    try:
        return _json(json.loads(value))
    except ValueError:
        return value


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def detail_frame(spark: SparkSession, snapshot: Snapshot, name: str) -> DataFrame:
    """Return one row about the latest version."""
    metadata, protocol = snapshot.metadata, snapshot.protocol
    row = (
        "delta",
        metadata.id,
        name or metadata.name,
        metadata.description,
        hadoop_uri(snapshot.table_uri),
        _moment(metadata.created_time),
        snapshot.timestamp,
        list(snapshot.partition_columns),
        list(snapshot.clustering_columns),
        snapshot.file_count,
        snapshot.size_bytes,
        dict(metadata.configuration),
        protocol.min_reader_version,
        protocol.min_writer_version,
        sorted(list_supported_features(protocol)),
    )
    return spark.createDataFrame([row], _DETAIL)


def description_frame(
    spark: SparkSession, snapshot: Snapshot, table: SessionTable, *, extended: bool
) -> DataFrame:
    """Return a row for each column, each partition column, and then for further details."""
    rows: list[tuple[str, str, str | None]] = [
        (column.name, to_spark_type(column.type).simpleString(), column.metadata.get("comment"))
        for column in snapshot.schema
    ]
    types = {column_name: kind for column_name, kind, _ in rows}
    if snapshot.partition_columns:
        rows += [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
        rows += [(column, types[column], None) for column in snapshot.partition_columns]
    if extended:
        properties = ",".join(f"{k}={v}" for k, v in sorted(table_properties(snapshot).items()))
        details = {
            **_name_details(table),
            "Comment": snapshot.metadata.description,
            "Location": hadoop_uri(snapshot.table_uri),
            "Provider": "delta",
            "Owner": table.owner,
            "Is_managed_location": "true" if table.kind == "MANAGED" else "",
            "Table Properties": f"[{properties}]",
        }
        rows += [("", "", ""), ("# Detailed Table Information", "", "")]
        rows += [(key, value, "") for key, value in details.items() if value]
    return spark.createDataFrame(rows, "col_name string, data_type string, comment string")


def _name_details(table: SessionTable) -> dict[str, str]:
    """Return the parts of a table's name and its kind; without a name, its path."""
    *catalog, database, name = parts_of(table.name) if table.name else ("", "")
    if not name:
        return {"Name": f"delta.`{table.location}`"}
    return {
        "Catalog": "".join(catalog),
        "Namespace": database,
        "Database": database,
        "Table": name,
        "Type": table.kind,
    }


def table_properties(snapshot: Snapshot) -> dict[str, str]:
    """Return the table's properties and its protocol, as statements show them."""
    return {
        **snapshot.metadata.configuration,
        "delta.minReaderVersion": str(snapshot.protocol.min_reader_version),
        "delta.minWriterVersion": str(snapshot.protocol.min_writer_version),
    }


def merge_frame(spark: SparkSession, result: OperationResult) -> DataFrame:
    """Return one row: the numbers of rows changed by a MERGE."""
    counts = {name: _count(result, key) for name, key in _MERGE.items() if key}
    counts = {"num_affected_rows": sum(counts.values()), **counts}
    return _numbers(spark, counts, result)


def count_frame(spark: SparkSession, result: OperationResult, metric: str) -> DataFrame:
    """Return one row: the number of rows that a DELETE or UPDATE changed, -1 if not in the log."""
    unknown = 0 if result.version is None else -1
    count = int(result.metrics.get(metric, unknown))
    return _numbers(spark, {"num_affected_rows": count}, result)


def clone_frame(spark: SparkSession, result: OperationResult) -> DataFrame:
    """Return one row: the files shared or copied by a CLONE."""
    return _numbers(spark, {name: _count(result, key) for name, key in _CLONE.items()}, result)


def pairs_frame(spark: SparkSession, properties: Mapping[str, str]) -> DataFrame:
    """Return a row for each property: key and value."""
    return spark.createDataFrame(sorted(properties.items()), "key string, value string")


def paths_frame(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return a row for each path."""
    return spark.createDataFrame([(path,) for path in paths], "path string")


def restore_frame(spark: SparkSession, result: OperationResult) -> DataFrame:
    """Return one row: the files changed by a RESTORE."""
    return _numbers(spark, {name: _count(result, key) for name, key in _RESTORE.items()}, result)


def optimize_frame(
    spark: SparkSession, uri: str, metrics: Mapping[str, Any], result: OperationResult
) -> DataFrame:
    """Return one row: the table's location and the metrics of an OPTIMIZE."""
    schema: Any = T._parse_datatype_string(_OPTIMIZE)
    row = (hadoop_uri(uri), _struct(schema["metrics"].dataType, metrics))
    return attach_conflicts(spark.createDataFrame([row], schema), result)


def nothing(spark: SparkSession) -> DataFrame:
    """Return no rows and no columns, the result of VACUUM."""
    if is_remote(spark):
        return spark.createDataFrame([], T.StructType())
    return empty_frame(spark)


def attach_conflicts(frame: DataFrame, result: OperationResult) -> DataFrame:
    """Attach the conflicts resolved at row level to the frame, as `resolved` and as `conflicts`."""
    frame.resolved = list(result.resolved)  # type: ignore[attr-defined] # beyond delta-spark's API
    frame.conflicts = frame.resolved  # type: ignore[attr-defined] # the same, under both names
    return frame


def hadoop_uri(uri: str) -> str:
    """Return a table's location in Hadoop's spelling."""
    return uri if "://" in uri else f"file:{uri}"


def _numbers(spark: SparkSession, counts: dict[str, int], result: OperationResult) -> DataFrame:
    schema = ", ".join(f"{name} long" for name in counts)
    return attach_conflicts(spark.createDataFrame([tuple(counts.values())], schema), result)


def _struct(kind: T.DataType, values: Mapping[str, Any] | None) -> tuple[Any, ...] | None:
    """Return a row of a struct type; missing values are null."""
    if values is None or not isinstance(kind, T.StructType):
        return None
    return tuple(
        _struct(field.dataType, values.get(field.name))
        if isinstance(field.dataType, T.StructType)
        else values.get(field.name)
        for field in kind
    )


def _count(result: OperationResult, key: str) -> int:
    return int(result.metrics.get(key) or 0)


def _moment(ms: int | None) -> datetime | None:
    return None if ms is None else utc_from_ms(ms)


def _texts(values: Mapping[str, Any] | None) -> dict[str, str | None]:
    """Return values as texts, in JSON's spelling of true and false."""
    return {
        key: _json(value) if isinstance(value, bool) else None if value is None else str(value)
        for key, value in (values or {}).items()
    }


def catalog_columns(snapshot: Snapshot) -> list[CatalogColumn]:
    """Return a table's columns as `spark.catalog.listColumns` does, from its log."""
    return [
        CatalogColumn(
            name=field.name,
            description=field.metadata.get(COMMENT),
            dataType=to_spark_type(field.type).simpleString(),
            nullable=field.nullable,
            isPartition=field.name in snapshot.partition_columns,
            isBucket=False,
            isCluster=False,
        )
        for field in snapshot.schema
    ]
