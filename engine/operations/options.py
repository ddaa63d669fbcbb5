"""How a command is run, beside what it does."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from engine.commands.model import Optimize
from engine.operations.active_writers import RunningSince, nobody_runs
from engine.operations.result import OperationResult
from engine.spark.jobs import ProgressCallback
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver

Resolve = Callable[[str], DeltaTable]
"""Opens the table that a statement names."""
FollowUpRunner = Callable[[Optimize], OperationResult | None]
"""Has a compaction done, at once, or later by another: then it returns None."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of one run of a command.

    Attributes:
        txn_id: the id of the job: a run that finds its commit in the log does not write again.
        retries: how often to begin again after a conflict that a retry can resolve.
        observer: is told each phase of each transaction.
        progress: is told how far the run is, from its thread and from a watching one; it may raise
            `OperationCancelledError`, which is heeded until the commit.
        dry_run: plan only, write nothing.
        sources: rows of the program by the names under which statements read them: tables of Arrow,
            DataFrames of pandas or polars, lists of dictionaries.
        resolve: opens the tables that a source names; by default their locations.
        open_changed: opens the tables that the steps of a script change; by default their locations.
        since_version: the table's version before the first run of this job.
        since_versions: the same for the other tables of a script, by location.
        running_since: tells since when other jobs on this table may have staged files that no log
            names yet, None for never. VACUUM spares them; it asks once it has listed the files, so
            that whoever begins later needs no sparing.
        writers_elsewhere: what else is running on the table, where the caller knows more than this
            process; a dry run reports it.
        application: an application's id and the version of what it writes now: kept in the commit,
            and nothing is done where the log has that version or a later one.
        user_metadata: kept in the commit.
        user_name: who requested the run, kept in the commit.
        in_process_bytes: DELETE, UPDATE and MERGE of files of at most so many bytes, and small INSERT
            VALUES, are done by Arrow in this process, where it does exactly what Spark would, and rows
            that are known to be few are written here once Spark has computed them; 0 leaves everything
            to Spark.
        max_rows_per_file: a file of data that is written gets no more rows than this; 0 for no limit.
            Compactions heed it not.
        count_bytes: a dry run of DELETE, UPDATE or MERGE reads files of at most so many bytes to count
            the rows that would change; 0 counts none.
        early_conflicts: look at new commits while Spark works, and end with a conflict as soon as the
            commit is bound to end with it.
        then: is given the compaction that a write asks for; by default it is done in this thread,
            at once. Its failure is in the result's `follow_up` and fails nothing else.
    """

    txn_id: str | None = None
    retries: int = 0
    observer: TransactionObserver | None = None
    progress: ProgressCallback | None = None
    dry_run: bool = False
    sources: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    resolve: Resolve | None = None
    open_changed: Resolve | None = None
    since_version: int | None = None
    since_versions: Mapping[str, int] = field(default_factory=dict)
    running_since: RunningSince = nobody_runs
    writers_elsewhere: Sequence[str] | None = None
    application: tuple[str, int] | None = None
    user_metadata: str | None = None
    user_name: str | None = None
    in_process_bytes: int = 64 * 1024 * 1024
    max_rows_per_file: int = 0
    count_bytes: int = 256 * 1024 * 1024
    early_conflicts: bool = True
    then: FollowUpRunner | None = None


class RunKeywords(TypedDict, total=False):
    """The options that `run` also takes by keyword."""

    txn_id: str | None
    retries: int
    observer: TransactionObserver | None
    progress: ProgressCallback | None
    dry_run: bool
    sources: Mapping[str, Any]
    resolve: Resolve | None
