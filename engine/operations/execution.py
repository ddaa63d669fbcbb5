"""One run of an operation on a table: its session, its transaction, its staged files.

A run that ends before its commit removes its known staged files; VACUUM finds the rest.

A long run is aborted as soon as its conflict is certain, with the conflict that its commit would
raise. Early checks run in a thread of their own and nothing waits for them: the commit checks every
winning commit again.
"""

import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from time import monotonic
from typing import Any

from pyspark.sql import SparkSession

from engine.actions.files import AddCDCFile, AddFile, DeletionVectorDescriptor
from engine.actions.table import SetTransaction
from engine.commands.command import Command
from engine.deletion_vectors.files import locate
from engine.errors import (
    CommitOutcomeUnknownError,
    ConflictError,
    EngineError,
    OperationCancelledError,
    StorageError,
    StorageOutcomeUnknownError,
    TableNotFoundError,
)
from engine.expressions.queries.binding import Tables
from engine.expressions.tree import Expression
from engine.log.commits import read_commit
from engine.operations.match_cache import FoundRows, KeptRows
from engine.operations.named_tables import NamedTables
from engine.operations.result import OperationResult
from engine.operations.run_options import NeedsSparkError, RunOptions
from engine.operations.vacuum_plan import paths_of
from engine.protocol.features import has_feature
from engine.snapshot.snapshot import Snapshot
from engine.spark.failures import SPARK_ERRORS, spark_failure
from engine.spark.jobs import Progress, ProgressCallback, job_group, no_progress
from engine.spark.row_positions import condition_tester
from engine.spark.table_files import TableFiles
from engine.storage.uri import resolve_log_path
from engine.table import DeltaTable
from engine.transaction.optimistic_transaction import OptimisticTransaction
from engine.words import count_noun

LOOK_SECONDS = 1.0

READ, READ_SOURCE, COMMIT = "read the table", "read the source", "commit"


class EarlyConflicts:
    """Looks for conflicts of one transaction while progress is reported."""

    def __init__(
        self, txn: OptimisticTransaction, operation: str, user_name: str | None = None
    ) -> None:
        self._txn, self._operation, self._user_name = txn, operation, user_name
        self._looked = monotonic()
        self._look: threading.Thread | None = None
        self._conflict: ConflictError | None = None

    def watch(self, progress: ProgressCallback) -> ProgressCallback:
        """Wrap a progress callback so it also checks for conflicts, and raises one once found.

        Raises (the callback):
            ConflictError: the transaction is certain to be aborted by it.
        """

        def tell(step: Progress) -> None:
            progress(step)
            if self._conflict is not None:
                raise self._conflict
            if monotonic() - self._looked >= LOOK_SECONDS and not self._is_looking:
                self._looked = monotonic()
                self._look = threading.Thread(target=self._find, daemon=True)
                self._look.start()

        return tell

    def tell_observer(self, conflict: ConflictError) -> None:
        """Notify the transaction's observer of the early end."""
        self._txn.end_early(self._operation, conflict)

    @property
    def _is_looking(self) -> bool:
        return self._look is not None and self._look.is_alive()

    def _find(self) -> None:
        try:
            self._conflict = self._txn.find_early_conflict(self._operation, self._user_name)
        except (EngineError, OSError, *SPARK_ERRORS):
            return  # the commit will report it
        finally:
            self._looked = monotonic()


class AppliedBeforeError(Exception):
    """The transaction's read version already contains the application's write."""


@dataclass
class Execution:
    """The state of one run of an operation.

    Attributes:
        table: the table.
        session: the Spark session; None if the caller has none.
        caller_session: the caller's own session, if its time zone or ANSI mode differ from
            those of `session`.
        options: the caller's options; a run with several commits appends a step to `txn_id`.
        run_id: part of the name of every data file written before the next commit.
        read_version: the version its transactions must read; None for the latest.
        last_read: the version read by its last transaction; None before the first.
        is_marked: whether a commit of this run recorded the application's version.
        kept_rows: rows found by the previous attempt, if it was aborted.
        found_rows: rows found by this attempt.
        source_snapshots: snapshots of other tables read by DataFrames, by table location; the
            same in every attempt.
        is_own_name: whether a name in a query is the command's name for its own table.
        lost: the conflict to raise instead of a commit; set if a command runs again only to check
            whether the table already has the requested state.
    """

    table: DeltaTable
    session: SparkSession | None = None
    options: RunOptions = field(default_factory=RunOptions)
    read_version: int | None = None
    _fresh: list[str] = field(default_factory=list)
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    last_read: Snapshot | None = None
    is_marked: bool = False
    kept_rows: KeptRows | None = None
    found_rows: FoundRows | None = None
    is_own_name: Callable[[str], bool] | None = None
    lost: ConflictError | None = None
    caller_session: SparkSession | None = None
    source_snapshots: dict[str, Snapshot] = field(default_factory=dict)
    _now_ms: int | None = None
    _committing: bool = False
    _is_torn: bool = False
    _early: EarlyConflicts | None = None
    _stage: str = READ

    @property
    def spark(self) -> SparkSession:
        """The session; raises `NeedsSparkError` if the caller has none."""
        if self.session is None:
            instead = (
                "Pass rows of the program as sources, or a few rows as VALUES. "
                if self._stage == READ_SOURCE
                else ""
            )
            msg = f"This needs Spark to {self._stage}, and there is no Spark session."
            raise NeedsSparkError(msg, instead + NeedsSparkError.REMEDY)
        return self.session

    @property
    def caller(self) -> SparkSession:
        """The session whose settings the statement's and the table's expressions follow.

        Raises:
            NeedsSparkError: the caller has none.
        """
        return self.caller_session or self.spark

    @property
    def has_engine_terms(self) -> bool:
        """Whether expressions follow UTC and ANSI mode."""
        return self.caller_session is None

    @property
    def progress(self) -> ProgressCallback:
        """The callback for progress."""
        return self.options.progress or no_progress

    @property
    def now_ms(self) -> int:
        """The time of the run, fixed when it began."""
        if self._now_ms is None:
            self._now_ms = self.table.clock.now_ms()
        return self._now_ms

    @cached_property
    def named_tables(self) -> NamedTables:
        """The tables named by the command; each is opened once and read at one version."""
        return NamedTables(self.table, self.options.resolve, self.is_own_name)

    def open_named(self, name: str, version: int | str | None) -> tuple[DeltaTable, Snapshot]:
        """Return a table named by the command, and its snapshot at a version, a time or the latest.

        The latest version of the command's own table is the transaction's read version.

        Raises:
            EngineError: there is no table of this name, or the user may not read it.
        """
        table = self.named_tables.open(name)
        if version is None and self.last_read is not None and self.named_tables.is_target(table):
            return table, self.last_read
        return table, self.named_tables.snapshot(table, version)

    def begin(self, step: str = "", *, operation: str = "") -> OptimisticTransaction:
        """Begin a transaction on the latest version, or on the version the command's source read.

        If `operation` names the operation to commit, early conflict checks are on.

        Raises:
            AppliedBeforeError: another run has already committed the application's version.
        """
        self._stage = READ
        self.progress(Progress(READ, 0, 0, "versions"))
        txn_id = (
            f"{self.options.txn_id}:{step}" if self.options.txn_id and step else self.options.txn_id
        )
        txn = self.table.start_transaction(
            txn_id=txn_id, observer=self.options.observer, version=self.read_version
        )
        if self.options.application is not None:
            app_id, version = self.options.application
            last = txn.read_application(app_id)
            if last is not None and last >= version and not self.is_marked:
                raise AppliedBeforeError
        self.last_read = txn.snapshot
        looks = operation and self.options.early_conflicts and not self.options.dry_run
        self._early = EarlyConflicts(txn, operation, self.options.user_name) if looks else None
        if self.session is not None:
            txn.test_rows_with(condition_tester(self.session))
        return txn

    def snapshot_of(self, txn: OptimisticTransaction) -> Snapshot:
        """Return the snapshot read by a transaction.

        Raises:
            TableNotFoundError: the table does not exist yet.
        """
        if txn.snapshot is None:
            msg = f"There is no Delta table at {self.table.uri}."
            raise TableNotFoundError(msg, "Create it first.")
        return txn.snapshot

    def files_of(self, snapshot: Snapshot) -> TableFiles:
        """Return the description of the table's files for readers and writers."""
        return TableFiles(
            uri=snapshot.table_uri,
            schema=snapshot.schema,
            partition_columns=tuple(snapshot.partition_columns),
            properties=snapshot.properties,
            storage_options=dict(self.table.storage_options),
            allowed_roots=snapshot.allowed_roots,
            run_id=self.run_id,
            max_rows=self.options.max_rows_per_file,
            clustering=snapshot.clustering_paths,
        )

    def condition(
        self, command: Command, snapshot: Snapshot, tables: Tables | None = None
    ) -> Expression | None:
        """Return the command's condition as a tree, with the current time fixed once.

        Its subqueries read from `tables`.

        Raises:
            NotDeterministicError: the condition may differ between evaluations of one row.
        """
        return command.condition(snapshot.schema, now_ms=self.now_ms, tables=tables)

    def begin_stage(self, stage: str) -> None:
        """Report the start of an in-process stage; the caller may cancel here."""
        self._stage = stage
        self.progress(Progress(stage, 0, 1, "steps"))

    @contextmanager
    def translate_spark_errors(self) -> Iterator[None]:
        """Translate Spark's exceptions into the engine's errors.

        During a commit they pass unchanged: only the log can tell whether it landed.

        Raises:
            EngineError: the translated error (`spark_failure`).
        """
        try:
            yield
        except SPARK_ERRORS as error:
            if self._committing:
                raise
            raise spark_failure(error, self.table.uri) from error

    @contextmanager
    def spark_stage(self, stage: str) -> Iterator[None]:
        """Run Spark actions as a reported stage with support for cancellation.

        Raises:
            EngineError: the error, translated if the engine knows it.
        """
        try:
            with self.watch_stage(stage):
                yield
        except SPARK_ERRORS as error:
            self._is_torn = True
            raise spark_failure(error, self.table.uri) from error

    @contextmanager
    def watch_stage(self, stage: str) -> Iterator[None]:
        """Run a stage like `spark_stage`, without translating Spark's exceptions."""
        self._stage = stage
        early = self._early
        progress = early.watch(self.progress) if early else self.progress
        try:
            counted = self.options.progress is not None
            with job_group(self.spark, stage, progress, counted=counted):
                yield
        except OperationCancelledError:
            self._is_torn = True
            raise
        except ConflictError as conflict:
            self._is_torn = True
            if early:
                early.tell_observer(conflict)
            raise

    def report_finding(self, words: str, stage: str = "") -> None:
        """Report a stage's finding ("71 files hold a match"), by default of the current stage."""
        self.progress(Progress(stage or self._stage, 0, 0, detail=words))

    def chose(self, files: int, snapshot: Snapshot) -> None:
        """Report the number of files left to read."""
        self.report_finding(f"{files:,} of {count_noun(snapshot.file_count, 'file')}", READ)

    def wrote_in_words(self, files: Sequence[AddFile]) -> None:
        """Report the number of files written by a stage."""
        self.report_finding(f"{count_noun(len(files), 'file')} written")

    def wrote(self, files: Iterable[AddFile | AddCDCFile]) -> None:
        """Register data files written by this run, to remove them if it fails."""
        root = self.table.store.root
        self._fresh.extend(resolve_log_path(root, file.path).path for file in files)

    def wrote_paths(self, paths: Iterable[str]) -> None:
        """Register files of this run by their paths below the table, to remove them if it fails."""
        self._fresh.extend(paths)

    def delete_files(self, paths: Iterable[str]) -> None:
        """Delete files of this run that its commit does not name; VACUUM finds any that remain."""
        with suppress(StorageError):
            for path in paths:
                self.table.store.delete(path)

    def wrote_vectors(self, vectors: Iterable[DeletionVectorDescriptor | None]) -> None:
        """Register deletion vectors written by this run, to remove their files if it fails."""
        root = self.table.store.root
        kept = {
            locate(root, vector).path for vector in vectors if vector and vector.storage_type == "u"
        }
        self._fresh.extend(sorted(kept))

    def commit(
        self,
        txn: OptimisticTransaction,
        operation: str,
        parameters: Mapping[str, Any],
        metrics: Mapping[str, int | str],
    ) -> OperationResult:
        """Commit the staged actions; the last point to cancel the run.

        Raises:
            OperationCancelledError: the caller cancelled.
            ConflictError: a concurrent commit won.
        """
        if self.lost is not None and txn.actions:
            raise self.lost
        self._stage = COMMIT
        self.progress(Progress(COMMIT, 0, 1, "commits"))
        self._stage_application(txn)
        self._committing = True
        version = txn.commit(
            operation,
            parameters,
            metrics,
            user_metadata=self.options.user_metadata,
            user_name=self.options.user_name,
        )
        outcome = txn.outcome
        if outcome is not None and outcome.recognized:
            self._drop_unnamed(outcome.version)
        committed = outcome is None or outcome.committed
        if not committed:
            self._remove_staged()
        self._fresh.clear()
        self.is_marked = self.options.application is not None
        self._committing, self.run_id = (
            False,
            str(uuid.uuid4()),
        )  # files named so far belong to the table
        return OperationResult(
            version=version if committed else None,
            metrics=dict((outcome and outcome.metrics) or metrics),
            resolved=tuple(outcome.resolved) if outcome else (),
            attempts=outcome.attempts if outcome else 1,
            recognized=outcome.recognized if outcome else False,
            versions=(version,) if committed else (),
        )

    def _stage_application(self, txn: OptimisticTransaction) -> None:
        if self.options.application is None:
            return
        app_id, version = self.options.application
        staged = (action for action in txn.actions if isinstance(action, SetTransaction))
        if not any(action.app_id == app_id for action in staged):  # a group commits again
            txn.stage(SetTransaction(app_id=app_id, version=version, last_updated=self.now_ms))

    def note(
        self,
        operation: str,
        step: str,
        parameters: Mapping[str, Any],
        metrics: Mapping[str, int | str],
        tries: int = 5,
    ) -> OperationResult:
        """Commit a record of the operation without changing data, on top of any concurrent commits.

        Raises:
            ConflictError: every attempt met a change of metadata or protocol.
        """
        txn = self.begin(step)
        try:
            version = txn.commit(
                operation, parameters, metrics, user_name=self.options.user_name, even_if_empty=True
            )
        except ConflictError:
            if tries == 1:
                raise
            return self.note(operation, step, parameters, metrics, tries - 1)
        attempts = txn.outcome.attempts if txn.outcome else 1
        return OperationResult(version, dict(metrics), attempts=attempts, versions=(version,))

    @contextmanager
    def clean_up_on_failure(self) -> Iterator[None]:
        """Remove staged files when the run fails, unless its commit may have landed.

        Only an engine error proves failure: an interrupt may follow the put directly.
        """
        try:
            yield
        except BaseException as error:
            if isinstance(error, ConflictError) and self.found_rows is not None:
                self.kept_rows = self.found_rows.keep_positions()  # its vectors are removed
            if not self._may_have_landed(error):
                self._remove_staged()
            raise

    def _may_have_landed(self, error: BaseException) -> bool:
        told_of = error.__context__  # an observer may raise its own error for it
        is_unknown = isinstance(told_of, CommitOutcomeUnknownError) or isinstance(
            error, CommitOutcomeUnknownError | StorageOutcomeUnknownError
        )
        return self._committing and (is_unknown or not isinstance(error, EngineError))

    def _drop_unnamed(self, version: int) -> None:
        """Remove this run's duplicate files after an earlier run's commit was recognized.

        If the commit is unreadable, the files stay: they may belong to this run's own commit.
        """
        try:
            actions = read_commit(self.table.store, version).actions
        except EngineError:
            return
        root = self.table.store.root
        named = {
            path
            for action in actions
            if isinstance(action, AddFile | AddCDCFile)
            for path in paths_of(root, action)
        }
        self._fresh = [path for path in self._fresh if path not in named]
        self._remove_staged()

    def _remove_staged(self) -> None:
        self.delete_files((*self._fresh, *self._find_unreported_files()))
        self._fresh.clear()

    def _find_unreported_files(self) -> list[str]:
        """Find unreported files of tasks completed before another task failed the job."""
        if not self._is_torn:
            return []
        return [status.path for status in self.table.store.list_all() if self.run_id in status.name]


def keeps_row_ids(snapshot: Snapshot) -> bool:
    """Return whether a rewrite must keep row ids (the property is on and their columns exist)."""
    properties = snapshot.properties
    return properties.row_tracking and properties.row_id_column is not None


def uses_deletion_vectors(snapshot: Snapshot) -> bool:
    """Return whether rows may be deleted by vectors."""
    supported = has_feature(snapshot.protocol, "deletionVectors")
    return supported and snapshot.properties.enable_deletion_vectors
