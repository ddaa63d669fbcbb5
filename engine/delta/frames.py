"""A table as a DataFrame for programs: native scans of its files."""

from collections.abc import Callable
from typing import TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession

from engine.operations.execution import Execution
from engine.snapshot.snapshot import Snapshot
from engine.spark.declared_types import declare_column
from engine.spark.frame_reads import TABLE_MARK, VERSION_MARK
from engine.spark.live_tables import LiveTable
from engine.spark.own_columns import move_to_session
from engine.spark.projections import select_columns
from engine.spark.reader import ScanRequest, scan
from engine.spark.session import engine_session, is_remote
from engine.table import DeltaTable

Latest: TypeAlias = Callable[[DeltaTable], Snapshot]
"""Returns the latest version of a table, the same for all references in one statement."""


def frame_of(
    spark: SparkSession,
    table: DeltaTable,
    snapshot: Snapshot | None = None,
    *,
    latest: Latest = DeltaTable.snapshot,
) -> DataFrame:
    """Return the rows of a version; without one, of the latest version at each query.

    The plan names its table: a write of these rows into the table reads them at the version that
    its transaction reads. A requested version stays: rows of an earlier version are brought back on
    purpose. A frame of Spark Connect stays at the version of its creation, and the plan holds its
    number: a write of its rows into the table is checked against every later one.

    Raises:
        RequestError: Spark cannot read the files' location.
    """
    seen = latest(table) if snapshot is None else snapshot
    session = engine_session(spark) or spark
    execution = Execution(table, session)
    files = execution.files_of(seen)
    marks, live = {TABLE_MARK: seen.table_uri}, None
    if snapshot is None and is_remote(session):
        marks[VERSION_MARK] = str(seen.version)
    elif snapshot is None:
        live = LiveTable(table, execution.files_of, seen)
    rows = scan(session, files, ScanRequest(seen.add_files(), marks=marks, of=seen, live=live))
    partitions = set(files.partition_columns)

    def columns() -> list[Column]:
        return [
            declare_column(field, session, certain=field.name in partitions)
            for field in seen.schema
        ]

    form = "frame", seen.schema.to_json(), tuple(files.partition_columns)
    return move_to_session(select_columns(rows, form, columns), spark)
