"""`DeltaTable` and its builders, under the names of `delta.tables`.

For example:

    from engine.delta.tables import DeltaTable
    orders = DeltaTable.forPath(spark, "/lake/orders")
    orders.alias("t").merge(updates.alias("s"), "t.id = s.id").whenMatchedUpdateAll().execute()
"""

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import replace as changed
from typing import (  # noqa: UP035 - programs have these names from a star import
    TYPE_CHECKING,
    Any,
    Dict,
    Iterable,
    List,
    NoReturn,
    Optional,
    Tuple,
    Union,
    cast,
    overload,
)

from pyspark import since
from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.types import DataType, StructField, StructType
from pyspark.sql.utils import is_remote

from engine.commands.model import Clone, Delete, DropFeature, Restore, SetProperties, Update, Vacuum
from engine.delta.arguments import (
    ColumnMapping,
    ExpressionOrColumn,
    assignments,
    check_feature,
    check_flag,
    check_integer,
    check_properties,
    check_source,
    check_text,
)
from engine.delta.arguments import condition as given_condition
from engine.delta.conversion import convert_files
from engine.delta.exceptions import delta_errors
from engine.delta.handle import Handle
from engine.delta.merge_builder import DeltaMergeBuilder
from engine.delta.names import (
    find_table_above,
    locate,
    open_table,
    reachable_roots,
    storage_options,
    timestamp_text,
)
from engine.delta.optimize_builder import DeltaOptimizeBuilder
from engine.delta.result_frames import detail_frame, history_frame, nothing, restore_frame
from engine.delta.table_builder import DeltaTableBuilder, IdentityGenerator
from engine.delta.table_reads import frame_of
from engine.errors import EngineError
from engine.log.segment import list_log_files
from engine.operations.execution import Execution
from engine.operations.maintenance.manifest import generate as generate_manifest
from engine.operations.result import OperationResult
from engine.storage.uri import normalize_uri, open_store
from engine.table import DeltaTable as EngineTable
from engine.transaction.observer import TransactionObserver

__all__ = [  # what `from delta.tables import *` brings
    "TYPE_CHECKING",
    "Any",
    "Column",
    "ColumnMapping",
    "DataFrame",
    "DataType",
    "DeltaMergeBuilder",
    "DeltaOptimizeBuilder",
    "DeltaTable",
    "DeltaTableBuilder",
    "Dict",
    "ExpressionOrColumn",
    "IdentityGenerator",
    "Iterable",
    "List",
    "NoReturn",
    "Optional",
    "OptionalColumnMapping",
    "OptionalExpressionOrColumn",
    "SparkSession",
    "StructField",
    "StructType",
    "Tuple",
    "Union",
    "cast",
    "dataclass",
    "functions",
    "is_remote",
    "overload",
    "since",
]
OptionalColumnMapping = ColumnMapping | None
OptionalExpressionOrColumn = ExpressionOrColumn | None
_RETENTION_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The outcome of a write; delta-spark returns nothing here.

    Attributes:
        version: the committed version, None if nothing changed.
        metrics: `operationMetrics` under delta-spark's names.
        resolved: the conflicts resolved at row level, each with the winning commit.
        attempts: how many attempts the commit took.
        message: one sentence, if there is something to say.
    """

    version: int | None
    metrics: Mapping[str, int | str]
    resolved: tuple[Any, ...]
    attempts: int
    message: str

    @property
    def conflicts(self) -> tuple[Any, ...]:
        """The conflicts resolved at row level, each with the winning commit: `resolved`."""
        return self.resolved

    @classmethod
    def from_result(cls, result: OperationResult) -> "WriteResult":
        """Return the engine's result as a WriteResult."""
        return cls(result.version, result.metrics, result.resolved, result.attempts, result.message)


class DeltaTable:
    """A table in a session: its rows as a DataFrame, and the commands that change it."""

    def __init__(self, handle: Handle) -> None:
        """Wrap a handle; use `forPath` or `forName` instead."""
        self._handle = handle

    @classmethod
    def forPath(  # noqa: N802 - delta-spark's names
        cls,
        sparkSession: SparkSession,  # noqa: N803
        path: str,
        hadoopConf: dict[str, str] = {},  # noqa: N803, B006 - its default; nobody changes it
    ) -> "DeltaTable":
        """Open the table at a path; `hadoopConf` are options of its store.

        Raises:
            AnalysisException: there is no Delta table.
        """
        with delta_errors():
            return cls(Handle(sparkSession, open_table(sparkSession, path, hadoopConf)))

    @classmethod
    def forName(cls, sparkSession: SparkSession, tableOrViewName: str) -> "DeltaTable":  # noqa: N802, N803
        """Open a table by its name in the session's catalog, or by the path of delta.`/path`.

        Raises:
            AnalysisException: there is no Delta table, or it is a view.
        """
        with delta_errors():
            located = locate(sparkSession, tableOrViewName)
            table = open_table(sparkSession, located.location, name=tableOrViewName)
            return cls(Handle(sparkSession, table, name=located.name))

    @classmethod
    def isDeltaTable(cls, sparkSession: SparkSession, identifier: str) -> bool:  # noqa: N802, N803
        """Whether a Delta table is at a path, or around it, as at the directory of a partition."""
        try:
            uri = normalize_uri(identifier)
            store = open_store(uri, storage_options(sparkSession, uri, {}))
            return bool(list_log_files(store) or find_table_above(sparkSession, identifier))
        except EngineError:
            return False

    @classmethod
    def create(cls, sparkSession: SparkSession | None = None) -> "DeltaTableBuilder[DeltaTable]":  # noqa: N803
        """Return a builder of a new table; the table must not exist."""
        return DeltaTableBuilder(_session(sparkSession), cls)

    @classmethod
    def createIfNotExists(  # noqa: N802
        cls,
        sparkSession: SparkSession | None = None,  # noqa: N803
    ) -> "DeltaTableBuilder[DeltaTable]":
        """Return a builder of a table; an existing table stays as it is."""
        return DeltaTableBuilder(_session(sparkSession), cls, if_not_exists=True)

    @classmethod
    def replace(cls, sparkSession: SparkSession | None = None) -> "DeltaTableBuilder[DeltaTable]":  # noqa: N803
        """Return a builder of a table that replaces an existing one."""
        return DeltaTableBuilder(_session(sparkSession), cls, replace_it=True, must_exist=True)

    @classmethod
    def createOrReplace(  # noqa: N802
        cls,
        sparkSession: SparkSession | None = None,  # noqa: N803
    ) -> "DeltaTableBuilder[DeltaTable]":
        """Builder of a table, whether there is one or not."""
        return DeltaTableBuilder(_session(sparkSession), cls, replace_it=True)

    @classmethod
    def convertToDelta(  # noqa: N802
        cls,
        sparkSession: SparkSession,  # noqa: N803
        identifier: str,
        partitionSchema: str | StructType | None = None,  # noqa: N803
    ) -> "DeltaTable":
        """Convert the Parquet files of parquet.`/path` to a table in place.

        Raises:
            AnalysisException: there are no such files, or their partition columns differ.
        """
        with delta_errors():
            return cls(convert_files(sparkSession, identifier, partitionSchema))

    # --- how writes are made; beyond delta-spark ---

    def option(self, key: str, value: object) -> "DeltaTable":
        """Return this table with an option for its writes: txnAppId, txnVersion or userMetadata.

        With the first two a delete, update or merge runs once: if the table has that version of
        that application, or a later one, nothing happens.
        """
        with delta_errors():
            return DeltaTable(self._handle.set_option(key, value))

    def retries(self, count: int) -> "DeltaTable":
        """Return this table with up to `count` retries after a retryable conflict."""
        return DeltaTable(changed(self._handle, retries=count))

    def commitInfo(self, userMetadata: str) -> "DeltaTable":  # noqa: N802, N803
        """Return this table with a user metadata text for its commits."""
        return self.option("userMetadata", userMetadata)

    def observed(self, observer: TransactionObserver) -> "DeltaTable":
        """Return this table with an observer of each phase of its transactions."""
        return DeltaTable(changed(self._handle, observer=observer))

    # --- rows ---

    def toDF(self) -> DataFrame:  # noqa: N802
        """Return the rows of the table, at the latest version whenever a query runs."""
        handle = self._handle
        with delta_errors():
            frame = frame_of(handle.spark, handle.table)
        handle.frames.append(frame)
        return frame.alias(handle.alias) if handle.alias else frame

    def alias(self, aliasName: str) -> "DeltaTable":  # noqa: N803
        """Return this table under a name for conditions and values."""
        return DeltaTable(changed(self._handle, alias=aliasName))

    def delete(self, condition: ExpressionOrColumn | None = None) -> WriteResult:
        """Delete the rows whose condition is true, or all rows without a condition."""
        where = given_condition(condition, self._handle.caller())
        return self._write(Delete(where=where, alias=self._handle.qualifier))

    def update(
        self,
        condition: ExpressionOrColumn | None = None,
        set: ColumnMapping | None = None,
    ) -> WriteResult:
        """Set columns of the rows whose condition is true, or of all rows without a condition."""
        caller = self._handle.caller()
        values = assignments(set, caller, "'set'")
        where = given_condition(condition, caller)
        if not values:
            return WriteResult(None, {}, (), 0, "There was nothing to set.")
        alias = self._handle.qualifier
        return self._write(Update(assignments=values, where=where, alias=alias))

    def merge(self, source: DataFrame, condition: ExpressionOrColumn) -> DeltaMergeBuilder:
        """Builder of a MERGE of a DataFrame's rows into the table."""
        check_source(source, condition)
        given_condition(condition, self._handle.caller(source))
        return DeltaMergeBuilder(self._handle, source, condition)

    # --- maintenance ---

    def vacuum(self, retentionHours: float | None = None) -> DataFrame:  # noqa: N803
        """Delete files unneeded by any version inside the retention."""
        unchecked = (self._handle.setting(_RETENTION_CHECK) or "").lower() == "false"
        hours = None if retentionHours is None else float(retentionHours)
        self._handle.run(Vacuum(retention_hours=hours, override_retention=unchecked))
        return nothing(self._handle.spark)

    def optimize(self) -> DeltaOptimizeBuilder:
        """Builder of an OPTIMIZE."""
        return DeltaOptimizeBuilder(self._handle)

    def generate(self, mode: str) -> None:
        """Write manifests of the table's files: mode symlink_format_manifest."""
        with delta_errors():
            generate_manifest(mode, Execution(self._handle.table, self._handle.spark))

    def restoreToVersion(self, version: int) -> DataFrame:  # noqa: N802
        """Make an earlier version the latest, as a new one."""
        check_integer(version, "version")
        return restore_frame(self._handle.spark, self._handle.run(Restore(version=version)))

    def restoreToTimestamp(self, timestamp: str) -> DataFrame:  # noqa: N802
        """Make the version of a time the latest, as a new one."""
        check_text(timestamp, "timestamp")
        with delta_errors():
            moment = timestamp_text(self._handle.spark, timestamp)
        return restore_frame(self._handle.spark, self._handle.run(Restore(timestamp=moment)))

    # --- what is known of it ---

    def history(self, limit: int | None = None) -> DataFrame:
        """Return its commits, latest first."""
        with delta_errors():
            return history_frame(self._handle.spark, self._handle.table, limit)

    def detail(self) -> DataFrame:
        """Return one row about the latest version."""
        with delta_errors():
            snapshot = self._handle.table.snapshot()
            return detail_frame(self._handle.spark, snapshot, self._handle.name)

    # --- protocol ---

    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:  # noqa: N802, N803
        """Raise the table's protocol to these versions at least; it is never lowered."""
        check_integer(readerVersion, "The readerVersion", "integer")
        check_integer(writerVersion, "The writerVersion", "integer")
        with delta_errors():
            protocol = self._handle.table.snapshot().protocol
        asked = {
            "delta.minReaderVersion": (readerVersion, protocol.min_reader_version),
            "delta.minWriterVersion": (writerVersion, protocol.min_writer_version),
        }
        higher = {
            key: str(requested)
            for key, (requested, current) in asked.items()
            if requested > current
        }
        if higher:
            self._handle.run(SetProperties(properties=higher))

    def addFeatureSupport(self, featureName: str) -> None:  # noqa: N802, N803
        """Add support for a feature to the table.

        Raises:
            AnalysisException: the feature is unknown here.
        """
        check_text(featureName, "featureName")
        with delta_errors():
            check_feature(featureName)
        properties = {f"delta.feature.{featureName}": "supported"}
        self._handle.run(SetProperties(properties=properties))

    def dropFeatureSupport(  # noqa: N802
        self,
        featureName: str,  # noqa: N803
        truncateHistory: bool | None = None,  # noqa: N803
    ) -> None:
        """Remove a feature from the table's protocol."""
        check_text(featureName, "featureName")
        if truncateHistory is not None:
            check_flag(truncateHistory, "truncateHistory")
        cut = bool(truncateHistory)
        self._handle.run(DropFeature(feature=featureName, truncate_history=cut))

    # --- clones ---

    def clone(
        self,
        target: str,
        isShallow: bool = False,  # noqa: N803
        replace: bool = False,
        properties: dict[str, str] | None = None,
    ) -> "DeltaTable":
        """Clone the table to a path, with its files shared or copied."""
        return self._clone(target, isShallow, replace, properties)

    def cloneAtVersion(  # noqa: N802
        self,
        version: int,
        target: str,
        isShallow: bool = False,  # noqa: N803
        replace: bool = False,
        properties: dict[str, str] | None = None,
    ) -> "DeltaTable":
        """Clone an earlier version of this table to a place."""
        check_integer(version, "version")
        return self._clone(target, isShallow, replace, properties, version=version)

    def cloneAtTimestamp(  # noqa: N802
        self,
        timestamp: str,
        target: str,
        isShallow: bool = False,  # noqa: N803
        replace: bool = False,
        properties: dict[str, str] | None = None,
    ) -> "DeltaTable":
        """Clone the version current at a time to a path."""
        check_text(timestamp, "timestamp")
        with delta_errors():
            moment = timestamp_text(self._handle.spark, timestamp)
        return self._clone(target, isShallow, replace, properties, timestamp=moment)

    def _clone(
        self,
        target: object,
        shallow: object,
        replace: object,
        properties: object,
        **point: Any,  # noqa: ANN401
    ) -> "DeltaTable":
        check_text(target, "target")
        check_flag(shallow, "isShallow")
        check_flag(replace, "replace")
        check_properties(properties)
        spark, source = self._handle.spark, self._handle.table
        with delta_errors():
            uri = normalize_uri(str(target))
            stores, roots = storage_options(spark, uri, {}), reachable_roots(uri)
            store = open_store(uri, stores)
            table = EngineTable(store, allowed_roots=roots, storage_options=stores)
        handle = Handle(spark, table)
        handle.run(Clone(source_table=source.uri, deep=not shallow, replace=bool(replace), **point))
        if isinstance(properties, dict) and properties:
            handle.run(SetProperties(properties=properties))
        return DeltaTable(handle)

    def _write(self, command: Delete | Update) -> WriteResult:
        return WriteResult.from_result(self._handle.run(command))


def _session(given: SparkSession | None) -> SparkSession:
    session = given if given is not None else SparkSession.getActiveSession()
    if session is None:
        msg = "There is no active SparkSession. Pass one."
        raise ValueError(msg)
    return session
