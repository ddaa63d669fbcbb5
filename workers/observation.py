"""The phases of a job's transactions, recorded in its row, which may also stop them."""

from datetime import datetime

from django.utils import timezone

from engine.errors import ConflictError
from engine.log.commits import LogCommit
from engine.operations.execution import COMMIT
from engine.storage.base import Store
from engine.transaction.log_tail import find_own_commit
from engine.transaction.observer import (
    ObservedTransaction,
    TransactionObserver,
    count_staged_bytes,
    new_files,
)
from engine.transaction.pending_commit import ResolvedConflict
from lakeui.catalog.models import Table
from lakeui.conflicts.recording import AttemptOrigin, record_aborted, record_resolved
from lakeui.jobs import leases
from lakeui.jobs.events import log_event
from lakeui.jobs.models import Job, JobAttempt, JobEvent
from lakeui.jobs.timeline import span_ms
from workers.heartbeat import Heartbeat
from workers.rehearsal import Rehearsal

CHECK = "check"


class OwnCommitFoundError(Exception):
    """An earlier attempt of this job committed before its worker could say so."""

    def __init__(self, commit: LogCommit) -> None:
        super().__init__(f"version {commit.version} is this job's")
        self.commit = commit


class JobObserver(TransactionObserver):
    """Ties the transactions of one attempt to its lease.

    A transaction may not go on, once its read version is fixed, if the log up to there holds the
    job's own commit; later commits find it among the winning commits. It may not write the log unless the
    row could be set to committing, under the fence, with no cancellation before.
    """

    def __init__(self, job: Job, lease: leases.Lease, heartbeat: Heartbeat, store: Store) -> None:
        self._job, self._lease, self._heartbeat, self._store = job, lease, heartbeat, store
        self._rehearsal = Rehearsal(job, heartbeat)
        self._attempt = lease.attempt
        self._ended_attempt = False
        self._committing = False

    @property
    def attempt(self) -> int:
        """The number of the running attempt."""
        return self._attempt

    def started(self, txn: ObservedTransaction) -> None:
        """Note the reads; stop if an earlier attempt wrote already."""
        self._heartbeat.check()
        if self._committing:
            leases.resume_running(self._lease)
            self._committing = False
        if self._ended_attempt:
            self._begin_attempt()
        self._look_for_own_commit(txn)
        self._update_attempt(read_version=txn.read_version)

    def staged(self, txn: ObservedTransaction) -> None:
        """Enter the check against commits that landed meanwhile."""
        self._heartbeat.progress.enter(CHECK)
        self._update_attempt(
            bytes_written=count_staged_bytes(txn), files_written=len(new_files(txn))
        )

    def winner_found(self, txn: ObservedTransaction, winning_version: int) -> None:
        """Log the winning commit."""
        self._heartbeat.progress.enter(CHECK)
        log_event(
            self._job.pk,
            f"Version {winning_version} was committed first; checking against it",
            read_version=txn.read_version,
        )

    def conflict_resolved(
        self,
        txn: ObservedTransaction,  # noqa: ARG002 - the engine's facts name it
        conflict: ResolvedConflict,
    ) -> None:
        """Record the resolved conflict."""
        self.note_resolved(conflict, self._job.table)

    def before_commit(self, txn: ObservedTransaction, attempt_version: int) -> None:
        """Begin the commit: the last moment to stop."""
        if not self._committing:
            self._rehearsal.let_waiting_jobs_read()
            self._rehearsal.hold()
            leases.begin_commit(self._lease)
            self._committing = True
        self._heartbeat.progress.enter(COMMIT)
        self._update_attempt(read_version=txn.read_version, attempted_version=attempt_version)

    def committed(self, txn: ObservedTransaction, committed_version: int) -> None:  # noqa: ARG002
        """Record the version: a later failure of the job does not undo it."""
        self._heartbeat.progress.landed.append(committed_version)

    def failed(self, txn: ObservedTransaction, error: Exception) -> None:
        """Write an aborted commit down; the operation may try again with a new transaction."""
        if not isinstance(error, ConflictError):
            return
        now = timezone.now()
        record_aborted(
            error,
            table=_table_at(error.conflict.table, self._job),
            origin=self._origin,
            user_name=self._user_name,
            wasted_ms=span_ms(self._began(), now),
            wasted_bytes=count_staged_bytes(txn),
        )
        self._update_attempt(
            outcome=JobAttempt.Outcome.CONFLICTED, finished_at=now, message=str(error)
        )
        log_event(
            self._job.pk,
            str(error),
            JobEvent.Level.WARNING,
            at=now,
            exception=type(error).__name__,
            read_version=txn.read_version,
        )
        self._ended_attempt = True

    def observer_at(self, uri: str) -> TransactionObserver:
        """Return the observer of the transaction's part at another table."""
        return _BesideObserver(self, _table_at(uri, self._job))

    def note_resolved(self, conflict: ResolvedConflict, table: Table) -> None:
        """Record a conflict resolved at row level, at the job's table or another one."""
        record_resolved(conflict, table=table, origin=self._origin, user_name=self._user_name)
        log_event(
            self._job.pk,
            f"Version {conflict.winner.version} of {table.name} changed other rows of the same "
            "files: resolved at row level",
        )

    @property
    def _origin(self) -> AttemptOrigin:
        return AttemptOrigin(job_id=self._job.pk, attempt=self._attempt)

    @property
    def _user_name(self) -> str:
        return self._job.requested_by.get_username() if self._job.requested_by else ""

    def _look_for_own_commit(self, txn: ObservedTransaction) -> None:
        base_version = self._job.base_version
        if base_version is None:
            self._record_base(txn.read_version)
            self._job.base_version = txn.read_version
        elif txn.txn_id == str(self._job.txn_id):  # steps have ids of their own and no overlap
            own = find_own_commit(self._store, txn.txn_id, base_version, txn.read_version)
            if own is not None:
                raise OwnCommitFoundError(own)

    def _record_base(self, version: int) -> None:
        leases.record(self._lease, base_version=version)

    def _begin_attempt(self) -> None:
        self._attempt += 1
        self._ended_attempt = False
        self._heartbeat.progress.stages.next_attempt(self._attempt)
        leases.record(self._lease, attempts=self._attempt)
        JobAttempt.objects.create(
            job=self._job,
            number=self._attempt,
            worker=self._lease.worker,
            started_at=timezone.now(),
        )

    def _began(self) -> datetime:
        """Return the attempt's start from its row, the start of both durations."""
        rows = JobAttempt.objects.filter(job=self._job, number=self._attempt)
        return rows.values_list("started_at", flat=True).get()

    def _update_attempt(self, **fields: object) -> None:
        JobAttempt.objects.filter(job=self._job, number=self._attempt).update(**fields)


class _BesideObserver(TransactionObserver):
    """Records the resolved conflicts of a transaction at a table beside the job's."""

    def __init__(self, observer: JobObserver, table: Table) -> None:
        self._observer, self._table = observer, table

    def conflict_resolved(
        self,
        txn: ObservedTransaction,  # noqa: ARG002 - the engine's facts name it
        conflict: ResolvedConflict,
    ) -> None:
        """Record the resolved conflict."""
        self._observer.note_resolved(conflict, self._table)


def _table_at(uri: str, job: Job) -> Table:
    """Return the table of a location that a job changes; its own if none is known there."""
    return job.also_changes.filter(uri=uri).first() or job.table
