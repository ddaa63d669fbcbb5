"""The one way to have a command done: `run`."""

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Unpack

from pyspark.sql import SparkSession

from engine.commands.alter import (
    AddColumns,
    AddConstraint,
    ChangeColumn,
    ClusterBy,
    DropColumns,
    DropConstraint,
    DropFeature,
    RenameColumn,
)
from engine.commands.command import Command
from engine.commands.common_tables import change_expressions
from engine.commands.merge import Merge
from engine.commands.model import (
    Append,
    AtomicScript,
    Clone,
    Create,
    Delete,
    Optimize,
    Overwrite,
    Reorg,
    Restore,
    Script,
    SetProperties,
    Stream,
    Truncate,
    UnsetProperties,
    Update,
    Vacuum,
)
from engine.commands.script import commits_by_step, step_table
from engine.commands.sql import parse_statement
from engine.errors import (
    ConflictError,
    EngineError,
    FileMissingError,
    MetadataChangedException,
    ProtocolChangedException,
    RequestError,
    TableNotFoundError,
)
from engine.expressions.parse import Given
from engine.log.commits import LogCommit
from engine.log.management import LOG_CLEANUP, check_permitted
from engine.operations.atomic import run_transaction
from engine.operations.caller_rows import bind_sources
from engine.operations.define.alter import (
    add_columns,
    add_constraint,
    change_column,
    cluster_by,
    drop_columns,
    drop_constraint,
    rename_column,
)
from engine.operations.define.clone import clone
from engine.operations.define.create import create
from engine.operations.define.set_properties import set_properties, unset_properties
from engine.operations.execution import AppliedBeforeError, Execution
from engine.operations.frame_sources import version_read_by
from engine.operations.maintenance.auto_compaction import follow_up
from engine.operations.maintenance.drop_feature import drop_feature
from engine.operations.maintenance.optimize import optimize
from engine.operations.maintenance.reorg import reorg
from engine.operations.maintenance.restore import restore
from engine.operations.maintenance.vacuum import vacuum
from engine.operations.merge.merge import merge
from engine.operations.result import OperationResult
from engine.operations.rows.delete import delete, truncate
from engine.operations.rows.insert import append, overwrite
from engine.operations.rows.stream import stream
from engine.operations.rows.update import update
from engine.operations.run_options import (
    FollowUpRunner,
    RunKeywords,
    RunOptions,
    list_active_writers,
    track_operation,
)
from engine.operations.script import (
    ScriptTables,
    resolve_in_script,
    run_steps,
    step_txn_id,
)
from engine.snapshot.snapshot import Snapshot
from engine.spark.collection import rows_given_up
from engine.spark.column_trees import StatementText
from engine.spark.session import engine_session
from engine.storage.base import Store
from engine.storage.uri import is_same_place
from engine.table import DeltaTable
from engine.transaction.log_tail import find_own_commit
from engine.transaction.observer import (
    NO_OBSERVER,
    ObservedTransaction,
    Observers,
    TransactionObserver,
)
from engine.vocabulary import name_in_log


def _run_atomically(command: AtomicScript, execution: Execution) -> OperationResult:
    """Run a transaction; each statement follows the settings of the caller's session."""
    spark = execution.caller_session or execution.session

    def run_statement(step: Command, table: DeltaTable, options: RunOptions) -> OperationResult:
        return run(step, table, spark, options)

    return run_transaction(command, execution, run_statement)


OPERATIONS: Mapping[type[Command], Callable[[Any, Execution], OperationResult]] = {
    AddColumns: add_columns,
    AddConstraint: add_constraint,
    Append: append,
    AtomicScript: _run_atomically,
    ChangeColumn: change_column,
    Clone: clone,
    ClusterBy: cluster_by,
    Create: create,
    Delete: delete,
    DropColumns: drop_columns,
    DropConstraint: drop_constraint,
    DropFeature: drop_feature,
    Merge: merge,
    Optimize: optimize,
    Overwrite: overwrite,
    RenameColumn: rename_column,
    Reorg: reorg,
    Restore: restore,
    SetProperties: set_properties,
    Stream: stream,
    Truncate: truncate,
    UnsetProperties: unset_properties,
    Update: update,
    Vacuum: vacuum,
}
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
"""Limits of the pause before a retry: writers of one row must not retry simultaneously."""
_SEVERAL_COMMITS = (Optimize, Reorg, Stream, Vacuum)


def run(
    command: Command | str,
    table: DeltaTable,
    spark: SparkSession | None = None,
    options: RunOptions = RunOptions(),  # noqa: B008 - a frozen value
    **keywords: Unpack[RunKeywords],
) -> OperationResult:
    """Run a command and the compaction due after it (`engine.operations.maintenance.auto_compaction`).

    Args:
        command: the command, validated again here; text is parsed as a statement (docs/sql.md).
        table: the table to run it on.
        spark: the session; None if the command needs none (docs/library.md). A session with another
            time zone, or without ANSI mode, is replaced by a temporary one.
        options: how to run it.
        keywords: options by name; they override those in `options`.

    Raises:
        StatementError: the text does not parse as a statement.
        ScriptError: a step of a script failed; earlier steps have committed.
        RequestError: the command cannot be run, or not by this engine.
        CatalogOperationError: the catalog of a managed table does not permit it.
        ConflictError: a concurrent commit won, and retries did not help.
        OperationCancelledError: it was cancelled; nothing was written.
        CommitOutcomeUnknownError: it is unknown whether the commit landed.
    """
    options = _check_arguments(command, table, replace(options, **keywords))
    command = parse_statement(command) if isinstance(command, str) else command
    if commits_by_step(command):
        command.validate(None)
        return _script(command, table, spark, options)
    command = bind_sources(command, options.sources) if options.sources else command
    operation = _operation_of(command)
    _check_table(command, table)
    landed, options = _find_earlier_result(command, table, options)
    if landed is not None:
        return landed  # before validation: the command may not fit the table it created
    command.validate(_schema_of(command, table))
    command, session, caller = _mean_by_session(command, spark)
    read_version = version_read_by(command, table.uri)
    is_marked, kept_rows, source_snapshots = False, None, dict[str, Snapshot]()
    for lost in range(options.retries + 1):
        execution = Execution(
            table,
            session,
            options,
            read_version,
            caller_session=caller,
            is_marked=is_marked,
            kept_rows=kept_rows,
            is_own_name=command.is_own_name,
            source_snapshots=source_snapshots,
        )
        try:
            with execution.translate_spark_errors(), rows_given_up():
                execution.named_tables.open_all(command.tables_read())
                if options.dry_run:
                    return _add_active_writers(
                        operation(command, execution), table, options.writers_elsewhere
                    )
                result = _once(operation, command, execution)
        except ConflictError as conflict:
            if done := _result_if_done(operation, command, table, options, conflict):
                return done
            if (
                lost == options.retries
                or not conflict.conflict.can_retry
                or read_version is not None
            ):
                raise  # the source's version of the table cannot advance
            is_marked, kept_rows = execution.is_marked, execution.kept_rows
            table.clock.pause(_pause_s(lost))
            continue
        result = replace(result, attempts=result.attempts + lost)
        return follow_up(command, execution, result, options.then or _compacts_now(execution))
    msg = "A command cannot be retried a negative number of times."
    raise RequestError(msg, "Use 0 or more.", field="retries")


def _mean_by_session(
    command: Command, spark: SparkSession | None
) -> tuple[Command, SparkSession | None, SparkSession | None]:
    """Return a command that follows the settings of a session, and the sessions.

    The first session runs the command; the second is the caller's, if its settings differ.
    """
    session = engine_session(spark)
    if spark is None or session is spark:
        return command, session, None

    def change(given: Given) -> Given:
        return StatementText(given, spark) if isinstance(given, str) else given

    return change_expressions(command, change), session, spark


def _check_arguments(command: object, table: object, options: RunOptions) -> RunOptions:
    """Return the options if they, the command and the table are of their types."""
    if not isinstance(command, Command | str):
        msg = f"The command is given as {type(command).__name__}."
        raise RequestError(
            msg, "Give a statement, or a command of engine.commands.", field="command"
        )
    if not isinstance(table, DeltaTable):
        msg = f"The table is given as {type(table).__name__}, not as a DeltaTable."
        raise RequestError(msg, "Pass the table that DeltaTable.open returns.", field="table")
    retries: object = options.retries
    if not isinstance(retries, int):
        msg = f"The number of retries is given as {type(retries).__name__}."
        raise RequestError(msg, "Use a whole number.", field="retries")
    return options


def _result_if_done(
    operation: Callable[[Any, Execution], OperationResult],
    command: Command,
    table: DeltaTable,
    options: RunOptions,
    conflict: ConflictError,
) -> OperationResult | None:
    """Return the result of an ALTER or COMMENT already made true by the winning commit."""
    enables_ids = isinstance(command, SetProperties) and any(
        key.lower() == "delta.enablerowtracking" for key in command.properties
    )
    is_idempotent = isinstance(command, SetProperties | UnsetProperties | ChangeColumn)
    is_metadata = isinstance(conflict, MetadataChangedException | ProtocolChangedException)
    if not (is_idempotent and is_metadata) or enables_ids:
        return None
    try:
        unwatched = replace(options, observer=None)  # it already got the command's end
        return operation(command, Execution(table, None, unwatched, lost=conflict))
    except EngineError:  # it would change the table, or is no longer possible
        return None


def _operation_of(command: Command) -> Callable[[Any, Execution], OperationResult]:
    operation = OPERATIONS.get(type(command))
    if operation is None:
        msg = f"{command.label or type(command).__name__} cannot be run by this engine yet."
        raise RequestError(msg, "Use another engine for it.", field="kind")
    return operation


def _pause_s(lost: int) -> float:
    """Return the time to wait after this many conflicts, in seconds."""
    longest = min(_FIRST_PAUSE_S * 2 ** min(lost, 10), _LONGEST_PAUSE_S)
    return random.uniform(0, longest)  # noqa: S311 - not for cryptography


def _check_table(command: Command, table: DeltaTable) -> None:
    """Refuse a statement on another location, or without the permission of the table's catalog.

    Raises:
        RequestError: the statement's table is a location other than the opened table's.
        CatalogOperationError: the catalog of a managed table does not permit it.
    """
    permitted = LOG_CLEANUP if isinstance(command, DropFeature) else name_in_log(command.kind)
    check_permitted(table.store, permitted)
    name = step_table(command)
    if "/" not in name:
        return  # the caller's name for the table
    try:
        is_same = is_same_place(name, table.uri)
    except EngineError:  # undecidable: only one of the names has an account
        return
    if not is_same:
        msg = f"The statement changes {name}, but it is run on {table.uri}."
        raise RequestError(msg, "Open the table that the statement names.", field="table")


def _compacts_now(write: Execution) -> FollowUpRunner:
    """Return a runner for the compaction, with the write's name and a commit of its own."""

    def compact(command: Command) -> OperationResult:
        options = RunOptions(
            txn_id=step_txn_id(write.options.txn_id, "compaction"),
            observer=write.options.observer,
            progress=write.options.progress,
            user_metadata=write.options.user_metadata,
            user_name=write.options.user_name,
        )
        return run(command, write.table, write.session, options)

    return compact


def _script(
    script: Script, table: DeltaTable, spark: SparkSession | None, options: RunOptions
) -> OperationResult:
    tables = ScriptTables(table, options.open_changed)
    since = dict(options.since_versions)
    if options.since_version is not None:
        since[table.uri] = options.since_version

    def perform(number: int, command: Command) -> OperationResult:
        changed = tables.open(command)
        of_step = replace(
            options,
            txn_id=step_txn_id(options.txn_id, number),
            resolve=resolve_in_script(table, options.resolve),
            since_version=since.get(changed.uri),
        )
        return run(command, changed, spark, of_step)

    return run_steps(script, perform, [step_table(step) or tables.own.uri for step in script.steps])


def _once(
    operation: Callable[[Any, Execution], OperationResult], command: Command, execution: Execution
) -> OperationResult:
    if isinstance(command, Vacuum):
        return operation(command, execution)
    started_ms = execution.now_ms
    with (
        track_operation(execution.table.uri, started_ms, command.label),
        execution.clean_up_on_failure(),
    ):
        try:
            return operation(command, execution)
        except AppliedBeforeError:
            return OperationResult(message=_APPLIED)
        except _LandedBeforeError as landed:
            return _result_of(landed.commit)


def _add_active_writers(
    result: OperationResult, table: DeltaTable, writers: Sequence[str] | None
) -> OperationResult:
    """Add to a dry run's plan the writers it would overlap with."""
    if result.plan is None:
        return result
    running = list_active_writers(table.uri) if writers is None else tuple(writers)
    return replace(result, plan=replace(result.plan, running_writers=running))


def _schema_of(command: Command, table: DeltaTable) -> Any:  # noqa: ANN401 - StructType or None
    return None if isinstance(command, Clone | Create) else table.snapshot().schema


def _was_applied(table: DeltaTable, app_id: str, version: int) -> bool:
    """Return whether an application's write is in the table."""
    with suppress(TableNotFoundError):
        last = table.snapshot().set_transactions.get(app_id)
        return last is not None and last.version >= version
    return False


class _LandedBeforeError(Exception):
    """Another run of the same job has committed."""

    def __init__(self, commit: LogCommit) -> None:
        super().__init__(commit.version)
        self.commit = commit


class _OwnCommit(TransactionObserver):
    """Looks for the commit of another run of the same job, also before each transaction.

    The other run may commit after the log was checked and before this run begins to read.
    """

    def __init__(self, store: Store, txn_id: str, since_version: int) -> None:
        self._store, self._txn_id, self._looked_at = store, txn_id, since_version

    def find(self, version: int) -> LogCommit | None:
        """Return the job's own commit among the unchecked ones up to a version."""
        own = find_own_commit(self._store, self._txn_id, self._looked_at, version)
        self._looked_at = max(self._looked_at, version)
        return own

    def started(self, txn: ObservedTransaction) -> None:
        """End before anything is written."""
        own = self.find(txn.read_version) if txn.txn_id == self._txn_id else None
        if own is not None:
            raise _LandedBeforeError(own)


def _find_earlier_result(
    command: Command, table: DeltaTable, options: RunOptions
) -> tuple[OperationResult | None, RunOptions]:
    """Return an earlier run's result, if its commit is in the log, and the options to run with."""
    if options.dry_run:
        return None, options
    application = None if isinstance(command, AtomicScript) else options.application
    if application is not None and _was_applied(table, *application):
        return OperationResult(message=_APPLIED), options
    txn_id, since_version = options.txn_id, options.since_version
    if txn_id is None or since_version is None or _has_several_commits(command):
        return None, options
    runs = _OwnCommit(table.store, txn_id, since_version)
    with suppress(FileMissingError, TableNotFoundError):
        own = runs.find(table.version())
        if own is not None:
            return _result_of(own), options
    return None, replace(options, observer=Observers([runs, options.observer or NO_OBSERVER]))


def _result_of(own: LogCommit) -> OperationResult:
    metrics = dict(own.commit_info.operation_metrics or {}) if own.commit_info else {}
    return OperationResult(
        own.version, metrics, recognized=True, versions=(own.version,), message=_LANDED
    )


def _has_several_commits(command: Command) -> bool:
    """Return whether a rerun resumes from the remaining work, instead of looking for one commit."""
    orders_all = isinstance(command, Optimize) and bool(command.zorder_by or command.full)
    return isinstance(command, _SEVERAL_COMMITS) and not orders_all


_APPLIED = "The application has already written this version."
_LANDED = "An earlier run of this job had already committed it."
