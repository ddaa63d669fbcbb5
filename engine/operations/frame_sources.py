"""Rows of the caller's DataFrames, and the reads of the command's own table they imply.

A DataFrame over the table reads it at the transaction's read version, and later commits are checked
against the whole table. A Spark Connect DataFrame is fixed at one version: the transaction then
reads this version.
"""

from pyspark.sql import DataFrame

from engine.actions.files import AddFile
from engine.commands.command import Command
from engine.commands.sources import DataFrameSource
from engine.errors import EngineError, RequestError
from engine.log.commits import read_commit
from engine.operations.execution import Execution
from engine.schema.types import StructType
from engine.schema.write_errors import RepeatedColumnError
from engine.snapshot.snapshot import Snapshot
from engine.spark.columns import from_spark_schema
from engine.spark.own_columns import move_to_session
from engine.spark.scan.live_frames import TableRead, files_of, live_reads_of, pin_versions, reads_of
from engine.spark.scan.live_tables import LiveTable
from engine.spark.session import is_in_utc
from engine.spark.session_catalog import places_in
from engine.spark.sources import SourceRows
from engine.spark.write.shape import cast_in_session
from engine.storage.uri import real_place
from engine.transaction.optimistic_transaction import OptimisticTransaction


class OutdatedFrameError(RequestError, code="LAKE_DATAFRAME_OUTDATED"):
    """A DataFrame reads another version of the table than the transaction does."""


def version_read_by(command: Command, uri: str) -> int | None:
    """Return the version of the command's own table read by its source; None if it reads none."""
    source = getattr(command, "source", None)
    if not isinstance(source, DataFrameSource):
        return None
    reads = own_reads(source.frame, uri)
    return min((read.version for read in reads if read.version is not None), default=None)


def rows_of_frame(
    execution: Execution,
    source: DataFrameSource,
    txn: OptimisticTransaction | None,
    stored_in: StructType | None = None,
) -> SourceRows:
    """Return a DataFrame's rows under the column names of the source.

    `stored_in` are the target columns; casts dependent on a time zone use the zone of the
    DataFrame's session.

    Raises:
        RepeatedColumnError: two of its columns share a name.
    """
    if txn is not None:
        register_reads(execution, source.frame, txn, is_made_anew=source.is_made_anew)
    frame = pin_tables(execution, source.frame)
    if source.columns:
        frame = frame.toDF(*source.columns)
    lowered = [name.lower() for name in frame.columns]
    repeated = next((name for name in frame.columns if lowered.count(name.lower()) > 1), None)
    if repeated is not None:
        msg = f"Two columns of the DataFrame are called {repeated}."
        raise RepeatedColumnError(msg, "Rename one of them.", field="source")
    if stored_in is not None and not is_in_utc(frame.sparkSession):
        frame = cast_in_session(frame, stored_in)
    frame = move_to_session(frame, execution.spark)
    return SourceRows(frame, from_spark_schema(frame.schema))


def pin_tables(execution: Execution, frame: DataFrame) -> DataFrame:
    """Return the frame with every table pinned to the version read by this run.

    For the command's own table this is the transaction's version. A frame may be evaluated twice.
    """

    def choose(live: LiveTable) -> Snapshot:
        own = execution.last_read
        if own is not None and live.place == real_place(execution.table.uri):
            return own
        others = execution.source_snapshots
        if live.place not in others:
            others[live.place] = live.table.snapshot()
        return others[live.place]

    return pin_versions(frame, choose)


def register_reads(
    execution: Execution,
    frame: DataFrame,
    txn: OptimisticTransaction,
    *,
    is_made_anew: bool = True,
) -> None:
    """Register a frame's scans of the command's own table as reads.

    `is_made_anew` means a retry after a conflict builds the frame again, from a later version.

    Raises:
        RequestError: it scans another version than the transaction reads, or an unknown one.
    """
    if txn.snapshot is None:
        return
    reads = own_reads(frame, execution.table.uri)
    versions = {read.version for read in reads if read.version is not None} - {txn.read_version}
    if versions:
        raise _frame_version_error(execution.table.uri, *sorted((min(versions), txn.read_version)))
    if any(not read.is_pinned for read in reads):
        _check_moment(frame, execution.table.uri)
    if not is_made_anew and any(read.version is not None for read in reads):
        _check_appends(execution, txn)
        txn.read_earlier()
    elif reads:
        txn.read_whole_table()


def _check_appends(execution: Execution, txn: OptimisticTransaction) -> None:
    """Refuse a DataFrame that lacks rows appended before the write began.

    At WriteSerializable the write may be ordered before concurrent appends, but never before
    appends its own program saw committed: their rows would survive an overwrite and count as
    unmatched in a MERGE.

    Raises:
        OutdatedFrameError: there are such rows.
    """
    table = execution.table
    for version in range(txn.read_version + 1, table.version() + 1):
        commit = read_commit(table.store, version)
        is_append = commit.commit_info is not None and commit.commit_info.is_blind_append
        if is_append and any(isinstance(action, AddFile) for action in commit.actions):
            raise _frame_version_error(table.uri, txn.read_version, version)


def _frame_version_error(uri: str, version: int, later: int) -> OutdatedFrameError:
    """Return the error for a DataFrame of another version than the write must read.

    Rows added between the two versions are new to one and not to the other.
    """
    what = f"A DataFrame reads version {version} of {uri}, but this write needs version {later}."
    remedy = (
        "Create all DataFrames of the table again, or select the earlier version with versionAsOf."
    )
    return OutdatedFrameError(what, remedy, field="source")


def _check_moment(frame: DataFrame, uri: str) -> None:
    """Refuse a frame with possibly outdated rows: later updates would be lost.

    Rows read while the command runs are at least as new as the transaction's version.
    """
    own = real_place(uri)
    unpinned, live = (
        [read for read in scans if not read.is_pinned and _may_be(read, own, frame)]
        for scans in (reads_of(frame), live_reads_of(frame))
    )
    is_sure = len(live) == len(unpinned) and not any(read.is_fixed for read in unpinned)
    if not is_sure or any(_is_hidden(read, own, frame) for read in unpinned):
        msg = f"The DataFrame reads {uri}, but Spark does not report at which version."
        remedy = (
            "Create it from DeltaTable.toDF(), not from spark.read or, in Spark Connect, a "
            "temporary view. Unpersist a cached DataFrame, or select a version with "
            "versionAsOf."
        )
        raise RequestError(msg, remedy, field="source")


def _is_hidden(read: TableRead, own: str, frame: DataFrame) -> bool:
    """Return whether only the Spark Connect server knows the scan's files, perhaps outdated ones."""
    if not read.text or places_in(frame.sparkSession, read.text) is not None:
        return False
    files = files_of(frame)
    return files is None or any(_is_inside(file, own) for file in files)


def own_reads(frame: DataFrame, uri: str) -> list[TableRead]:
    """Return the frame's scans of a table, including possible ones."""
    own = real_place(uri)
    return [read for read in reads_of(frame) if _may_be(read, own, frame)]


def _may_be(read: TableRead, own: str, frame: DataFrame) -> bool:
    if not read.text:
        return _is_inside(read.place, own)
    places = places_in(frame.sparkSession, read.text)
    return places is None or any(_is_inside(place, own) for place in places)


def _is_inside(place: str, own: str) -> bool:
    try:
        real = real_place(place)
    except EngineError:  # a scheme without tables
        return False
    return real == own or real.startswith(f"{own}/")
