"""The one way to have a command done: `run`."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

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
from engine.commands.merge import Merge
from engine.commands.model import (
    Append,
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
from engine.commands.script import named
from engine.errors import ConflictError, FileMissingError, RequestError, TableNotFoundError
from engine.operations.active import running, running_writers
from engine.operations.alter_columns import (
    add_columns,
    change_column,
    drop_columns,
    rename_column,
)
from engine.operations.alter_table import (
    add_constraint,
    cluster_by,
    drop_constraint,
)
from engine.operations.append import append
from engine.operations.auto_compaction import FollowUpRunner, follow_up
from engine.operations.clone import clone
from engine.operations.create import create
from engine.operations.delete import delete
from engine.operations.drop_feature import drop_feature
from engine.operations.execution import Execution, Resolve
from engine.operations.merge import merge
from engine.operations.optimize import optimize
from engine.operations.overwrite import overwrite
from engine.operations.reorg import reorg
from engine.operations.restore import restore
from engine.operations.result import OperationResult
from engine.operations.script import ScriptTables, run_steps, step_txn_id
from engine.operations.set_properties import set_properties, unset_properties
from engine.operations.stream import stream
from engine.operations.truncate import truncate
from engine.operations.update import update
from engine.operations.vacuum import vacuum
from engine.spark.jobs import ProgressCallback, no_progress
from engine.spark.session import in_our_terms
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver
from engine.transaction.self_recognition import find_own_commit

OPERATIONS: Mapping[type[Command], Callable[[Any, Execution], OperationResult]] = {
    AddColumns: add_columns,
    AddConstraint: add_constraint,
    Append: append,
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
_SEVERAL_COMMITS = (Optimize, Reorg, Stream, Vacuum)


def run(  # noqa: PLR0913 - one door, everything else by name
    command: Command,
    table: DeltaTable,
    spark: SparkSession | None,
    *,
    txn_id: str | None = None,
    retries: int = 0,
    observer: TransactionObserver | None = None,
    progress: ProgressCallback | None = None,
    dry_run: bool = False,
    since_version: int | None = None,
    running_since_ms: int | None = None,
    resolve: Resolve | None = None,
    user_metadata: str | None = None,
    user_name: str | None = None,
    writers_elsewhere: Sequence[str] | None = None,
    open_changed: Resolve | None = None,
    since_versions: Mapping[str, int] | None = None,
    then: FollowUpRunner | None = None,
) -> OperationResult:
    """Do a command, and what its table asks to be done after a write (`engine.operations.auto_compaction`).

    Args:
        command: what to do, checked again here.
        table: at which table.
        spark: the session; None where the command needs none (VACUUM, properties, dry runs). One of
            another time zone, or without ANSI mode, gets another beside it for the while.
        txn_id: the id of the job: a run that finds its commit in the log does not write again.
        retries: how often to begin again after a conflict that a retry can resolve.
        observer: is told each phase of each transaction.
        progress: is told how far it is, from this thread and from a watching one; it may raise
            `OperationCancelledError`, which is heeded until the commit.
        dry_run: plan only.
        since_version: the table's version before the first run of this job.
        running_since_ms: since when other jobs on this table may have staged files (VACUUM).
        resolve: opens the tables that a source names; by default their locations.
        user_metadata: kept in the commit.
        user_name: who asked, kept in the commit.
        writers_elsewhere: what is running on the table, where the caller knows more than this process
            (a dry run tells it).
        open_changed: opens the tables that the steps of a script change; by default their locations.
        since_versions: as `since_version`, for the other tables of a script, by location.
        then: is given the compaction that a write asks for; by default it is done here, at once. What
            goes wrong with it is in the result's `follow_up`, and nowhere else.

    Raises:
        ScriptError: a step of a script failed; those before it have committed.
        RequestError: the command cannot be done, or not by this engine.
        ConflictError: a concurrent commit won, and retrying did not help.
        OperationCancelledError: it was cancelled; nothing was written.
        CommitOutcomeUnknownError: nobody can say whether it was committed.
    """
    spark = in_our_terms(spark)  # once for all steps of a script
    if isinstance(command, Script):
        step = partial(
            run,
            spark=spark,
            retries=retries,
            observer=observer,
            progress=progress,
            dry_run=dry_run,
            running_since_ms=running_since_ms,
            resolve=resolve,
            user_metadata=user_metadata,
            user_name=user_name,
            writers_elsewhere=writers_elsewhere,
            then=then,
        )
        since = {
            **(since_versions or {}),
            **({table.uri: since_version} if since_version is not None else {}),
        }
        command.validate(None)
        return _script(command, ScriptTables(table, open_changed), step, txn_id, since)
    operation = OPERATIONS.get(type(command))
    if operation is None:
        msg = f"{command.label or type(command).__name__} cannot be run by this engine yet."
        raise RequestError(msg, "Use another engine for it.", field="kind")
    if not dry_run and (landed := _landed_before(command, table, txn_id, since_version)):
        return landed  # before the command is checked: it may not fit the table it made
    command.validate(_schema_of(command, table))
    for left in range(retries, -1, -1):
        execution = Execution(
            table,
            spark,
            txn_id=txn_id,
            observer=observer,
            progress=progress or no_progress,
            dry_run=dry_run,
            running_since_ms=running_since_ms,
            user_metadata=user_metadata,
            user_name=user_name,
            resolve=resolve,
        )
        try:
            if dry_run:
                return _planned(operation(command, execution), table, writers_elsewhere)
            result = _once(operation, command, execution)
        except ConflictError as conflict:
            if not left or not conflict.conflict.can_retry:
                raise
            continue
        return follow_up(command, execution, result, then or _compacts_now(execution))
    msg = "A command cannot be retried a negative number of times."
    raise RequestError(msg, "Use 0 or more.", field="retries")


def _compacts_now(write: Execution) -> FollowUpRunner:
    """Does a compaction under the name of the write that asked for it, as a commit of its own."""

    def compact(command: Command) -> OperationResult:
        return run(
            command,
            write.table,
            write.session,
            txn_id=step_txn_id(write.txn_id, "compaction"),
            observer=write.observer,
            progress=write.progress,
            user_metadata=write.user_metadata,
            user_name=write.user_name,
        )

    return compact


def _script(
    script: Script,
    tables: ScriptTables,
    step: Callable[..., OperationResult],
    txn_id: str | None,
    since: Mapping[str, int | None],
) -> OperationResult:
    def perform(number: int, command: Command) -> OperationResult:
        table = tables.open(command)
        own = step_txn_id(txn_id, number)
        return step(command, table, txn_id=own, since_version=since.get(table.uri))

    return run_steps(script, perform, [named(each) or tables.own.uri for each in script.steps])


def _once(
    operation: Callable[[Any, Execution], OperationResult], command: Command, execution: Execution
) -> OperationResult:
    if isinstance(command, Vacuum):
        return operation(command, execution)
    started_ms = execution.now_ms
    with running(execution.table.uri, started_ms, command.label), execution.cleaning_up():
        return operation(command, execution)


def _planned(
    result: OperationResult, table: DeltaTable, writers: Sequence[str] | None
) -> OperationResult:
    """What a dry run found, and whom the operation would meet."""
    if result.plan is None:
        return result
    met = running_writers(table.uri) if writers is None else tuple(writers)
    return replace(result, plan=replace(result.plan, running_writers=met))


def _schema_of(command: Command, table: DeltaTable) -> Any:  # noqa: ANN401 - StructType or None
    return None if isinstance(command, Clone | Create) else table.snapshot().schema


def _landed_before(
    command: Command, table: DeltaTable, txn_id: str | None, since_version: int | None
) -> OperationResult | None:
    """The result of an earlier run of the same job, where its commit is in the log."""
    if txn_id is None or since_version is None or isinstance(command, _SEVERAL_COMMITS):
        return None
    with suppress(FileMissingError, TableNotFoundError):
        own = find_own_commit(table.store, txn_id, since_version, table.version())
        if own is not None:
            metrics = dict(own.commit_info.operation_metrics or {}) if own.commit_info else {}
            return OperationResult(
                own.version, metrics, recognised=True, versions=(own.version,), message=_LANDED
            )
    return None


_LANDED = "An earlier run of this job had committed it already."
