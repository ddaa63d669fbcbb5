"""INSERT INTO … SELECT * FROM STREAM: new rows of another table, in batches of one commit each.

The progress of the stream is in the target's own log: the version of a `txn` action under the
stream's id is the position in the source (`Position.to_number`). It is committed with the rows, so
no batch is written twice or skipped, and no separate file can disagree with it.
"""

from dataclasses import dataclass, field, replace

from engine.actions.table import Metadata, SetTransaction
from engine.commands.stream import Stream
from engine.errors import LogGapError, RequestError, VersionNotFoundError
from engine.log.commits import list_versions, read_commit
from engine.operations.execution import Execution
from engine.operations.result import OperationResult, PlannedFile, plan_of
from engine.operations.source_rows import other_files
from engine.operations.stream_batches import append_batch
from engine.snapshot.snapshot import Snapshot
from engine.snapshot.stream_log import (
    Position,
    SourceReplacedError,
    StreamLimits,
    StreamLog,
    StreamLogCleanedError,
    StreamTerms,
)
from engine.spark.columns import from_spark_schema
from engine.spark.jobs import Progress
from engine.spark.scan.reader import ScanRequest, scan
from engine.spark.sources import SourceRows
from engine.table import DeltaTable
from engine.words import count_noun

_REMEDY = (
    "Change this table so that it accepts the new schema, then run the stream again with "
    "accept_schema_version set to that version."
)


@dataclass
class _StreamSource:
    """The source table of a stream: read from the stream's position to the version at the start."""

    table: DeltaTable
    newest: Snapshot
    app_id: str
    command: Stream
    reached: Position | None = None
    log: StreamLog = field(init=False)
    read: Snapshot = field(init=False)

    def begin_at(self, start: Position) -> None:
        """Choose the schema for reading files: as of the position, or accepted since.

        Raises:
            StreamLogCleanedError: the log does not reach back to the position.
        """
        if start == self.reached:
            return
        command = self.command
        accepted = -1 if command.accept_schema_version is None else command.accept_schema_version
        self.read = self._snapshot_at_start(start)
        if self.read.version < min(accepted, self.newest.version):
            self.read = self.table.snapshot(min(accepted, self.newest.version))
        terms = StreamTerms(
            self.read.metadata,
            self.read.version,
            tip=self.newest.state.tip,
            accepted_version=accepted,
            ignore_deletes=command.ignore_deletes,
            ignore_changes=command.ignore_changes,
            skip_change_commits=command.skip_change_commits,
            remedy=_REMEDY,
        )
        self.log = StreamLog(self.table.store, terms)

    def start_position(self) -> Position:
        """Return the start position of a new stream."""
        version = self.command.starting_version
        if version is None:
            return Position(self.newest.version, initial=True)
        earliest = min(list_versions(self.table.store), default=0)
        if not earliest <= version <= self.newest.version + 1:
            raise VersionNotFoundError(self.table.uri, version, earliest, self.newest.version)
        return Position(version)

    def batch_end(self, start: Position) -> Position:
        """Return the end of the next batch."""
        limits = StreamLimits(self.command.max_files_per_batch)
        return self.log.batch_end(start, limits, self.newest.version)

    def _snapshot_at_start(self, start: Position) -> Snapshot:
        if start.initial or start.version == 0:
            return self._load_snapshot(start.version)
        try:
            return self.table.snapshot(start.version - 1)
        except (VersionNotFoundError, LogGapError):
            snapshot = self._load_snapshot(start.version)
        actions = read_commit(self.table.store, start.version).actions
        if any(isinstance(action, Metadata) for action in actions):
            raise StreamLogCleanedError(self.table.uri, start.version - 1, start.version)
        return snapshot

    def _load_snapshot(self, version: int) -> Snapshot:
        try:
            return self.table.snapshot(version)
        except (VersionNotFoundError, LogGapError) as error:
            earliest = min(list_versions(self.table.store), default=None)
            raise StreamLogCleanedError(self.table.uri, version, earliest) from error


def stream(command: Stream, execution: Execution) -> OperationResult:
    """Run a stream until it has read everything new.

    Raises:
        SourceSchemaChangedError: the source's schema changed; earlier batches are committed.
        StreamError: the stream may not continue for another reason.
        ConcurrentTransactionException: another run of this stream committed meanwhile.
    """
    source = _open_source(command, execution)
    if execution.options.dry_run:
        return _plan(source, execution)
    total = OperationResult(metrics=_counts(0, 0, 0, 0, source.newest.version))
    while True:
        done = _next_batch(source, execution, total)
        if done is None:
            return _summarize_result(total)
        total = done


def _next_batch(
    source: _StreamSource, execution: Execution, before: OperationResult
) -> OperationResult | None:
    """Commit one more batch; None if nothing is new."""
    start = _position(source, execution.table.snapshot())
    txn = execution.begin(f"stream-{start.to_number()}")
    snapshot = execution.snapshot_of(txn)
    txn.read_application(source.app_id)
    start = _position(source, snapshot)
    source.begin_at(start)
    end = source.batch_end(start)
    if end == start:
        return None
    execution.progress(Progress("stream", end.version, source.newest.version + 1, "versions"))
    files = source.log.files(start, end)
    rows = None
    if files:
        table = other_files(execution, source.table, source.read)
        frame = scan(execution.spark, table, ScanRequest(files))
        rows = SourceRows(frame, from_spark_schema(frame.schema))
    mark = SetTransaction(
        app_id=source.app_id, version=end.to_number(), last_updated=execution.table.clock.now_ms()
    )
    parameters = {
        "outputMode": "Append",
        "queryId": source.app_id,
        "epochId": str(mark.version),
        "source": source.table.uri,
        "sourceVersions": f"{start.version} to {end.version - (0 if end.index else 1)}",
    }
    result = append_batch(
        execution, txn, mark, rows, parameters, merge_schema=source.command.merge_schema
    )
    source.reached = end
    return _add_results(before, result)


def _open_source(command: Stream, execution: Execution) -> _StreamSource:
    table = execution.named_tables.open(command.source_table)
    if execution.named_tables.is_target(table):
        msg = f"{table.uri} cannot be streamed into itself."
        raise RequestError(msg, "Name another table.", field="source_table")
    _check_memory(execution.table.snapshot())
    newest = table.snapshot()
    prefix = command.application(table.uri, "")
    app_id = command.application(table.uri, newest.metadata.id)
    source = _StreamSource(table, newest, app_id, command)
    transactions = execution.table.snapshot().set_transactions
    others = [
        app_id for app_id in transactions if app_id.startswith(prefix) and app_id != source.app_id
    ]
    if others and source.app_id not in transactions:
        raise SourceReplacedError(table.uri, others[0].removeprefix(prefix), newest.metadata.id)
    return source


def _check_memory(target: Snapshot) -> None:
    """Refuse a target with expiring application ids: the stream would start over."""
    if target.properties.set_transaction_retention_ms is not None:
        msg = (
            f"{target.table_uri} deletes the progress of streams after a time "
            "(delta.setTransactionRetentionDuration)."
        )
        raise RequestError(msg, "Unset the property first.", field="table")


def _position(source: _StreamSource, target: Snapshot) -> Position:
    transaction = target.set_transactions.get(source.app_id)
    return (
        source.start_position()
        if transaction is None
        else Position.from_number(transaction.version)
    )


def _add_results(before: OperationResult, batch: OperationResult) -> OperationResult:
    counts = {key: int(batch.metrics.get(key, 0)) for key in _COUNTED}
    metrics = {key: int(before.metrics[key]) + counts[key] for key in _COUNTED}
    metrics["numBatches"] = int(before.metrics["numBatches"]) + 1
    metrics["lastSourceVersion"] = int(before.metrics["lastSourceVersion"])
    return replace(
        batch,
        metrics=metrics,
        resolved=(*before.resolved, *batch.resolved),
        attempts=before.attempts + batch.attempts,
        versions=(*before.versions, *batch.versions),
    )


_COUNTED = ("numOutputRows", "numAddedFiles", "numOutputBytes")


def _counts(batches: int, rows: int, files: int, size: int, version: int) -> dict[str, int | str]:
    counted = dict(zip(_COUNTED, (rows, files, size), strict=True))
    return {**counted, "numBatches": batches, "lastSourceVersion": version}


def _summarize_result(total: OperationResult) -> OperationResult:
    metrics, version = total.metrics, total.metrics["lastSourceVersion"]
    rows, batches = int(metrics["numOutputRows"]), int(metrics["numBatches"])
    if not batches:
        return total.replace_message(f"The source has no new rows since its version {version}.")
    return total.replace_message(
        f"{count_noun(rows, 'row')} copied in {batches:,} "
        f"{'batch' if batches == 1 else 'batches'}, up to version {version} of the source."
    )


def _plan(source: _StreamSource, execution: Execution) -> OperationResult:
    """Plan the run: list the files it would copy rows from."""
    start = _position(source, execution.table.snapshot())
    source.begin_at(start)
    end = source.log.batch_end(start, StreamLimits(), source.newest.version)
    files = [
        PlannedFile(add.path, add.size, "its rows are new") for add in source.log.files(start, end)
    ]
    summary = f"The rows of {len(files)} files of {source.table.uri} would be copied."
    facts = {"from_version": start.version, "to_version": end.version - (0 if end.index else 1)}
    return OperationResult(plan=plan_of(summary, files, **facts))
