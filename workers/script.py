"""A script's steps, each run as a job at its own table.

The job's log records the version of a step's table before its first attempt, and its committed
version: a rerun, or a retry that continues a failed job, does no step twice.
"""

import uuid
from dataclasses import dataclass, replace
from datetime import datetime

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.utils import timezone
from pyspark.sql import SparkSession

from engine.commands.command import Command
from engine.commands.names import ANY_TABLE
from engine.commands.script import Script
from engine.operations.result import OperationResult
from engine.operations.run import run
from engine.operations.run_options import RunOptions
from engine.operations.script import resolve_in_script, run_steps, step_txn_id
from engine.storage.base import Store
from lakeui.catalog.mirror import refresh_table
from lakeui.catalog.models import Table
from lakeui.jobs import leases
from lakeui.jobs.command_rules import (
    check_command,
    check_rights,
    check_sources,
    resolve_step_table,
)
from lakeui.jobs.events import log_event
from lakeui.jobs.models import Job, JobEvent
from lakeui.jobs.writers import note_changed_tables
from workers.heartbeat import Heartbeat
from workers.job_tables import note_unasked, open_table, options_of, stop_if_committed
from workers.observation import JobObserver, OwnCommitFoundError


@dataclass(frozen=True)
class ScriptWork:
    """The shared state of an attempt's steps."""

    lease: leases.Lease
    heartbeat: Heartbeat
    spark: SparkSession | None


class StepObserver(JobObserver):
    """Observes one step after the other; a step's first read version goes into the job's log."""

    def move_to(self, step: Job, number: int, store: Store) -> None:
        """Continue with another step."""
        self._job, self._number, self._store = step, number, store

    def _record_base(self, version: int) -> None:
        name = self._job.table.name
        message = f"Step {self._number} reads version {version} of {name}"
        log_event(
            self._job.pk, message, base_of_step=self._number, base_version=version, table=name
        )


def run_script(script: Script, job: Job, work: ScriptWork) -> OperationResult:
    """Do the steps of a job.

    Raises:
        ScriptError: a step failed; those before it have committed.
    """
    person = job.requested_by
    tables = _tables(script, job)
    observer = StepObserver(job, work.lease, work.heartbeat, open_table(job.table.uri).store)

    own: list[int] = []

    def perform(index: int, command: Command) -> OperationResult:
        result = _perform(index, command)
        if tables[index].pk == job.table.pk and result.version is not None:
            own.append(result.version)
        return result

    def _perform(index: int, command: Command) -> OperationResult:
        number, table = index + 1, tables[index]
        earlier = _find_earlier_end(job, number)
        if earlier is not None and not job.dry_run:
            return earlier
        _check(command, table, person)
        step = _build_step_job(job, command, number, table)
        handle, began = open_table(table.uri), timezone.now()
        observer.move_to(step, number, handle.store)
        try:
            stop_if_committed(step, handle)
            work.heartbeat.check()
            options = options_of(step, job, observer, work.heartbeat.progress)
            result = run(command, handle, work.spark, _resolve_tables(options, job))
            note_unasked(job, result)
        except OwnCommitFoundError as error:
            version = error.commit.version
            result = OperationResult(version, recognized=True, versions=(version,))
        if not job.dry_run:
            _note_end(job, number, table.name, result, began)
            refresh_table(table)
        return result

    end = run_steps(script, perform, [involved.name for involved in tables])
    return replace(end, version=own[-1] if own else None)  # the version in the job's own table


def _resolve_tables(options: RunOptions, job: Job) -> RunOptions:
    """Return the options of a step, whose queries may name the job's table as "t"."""
    resolve = resolve_in_script(open_table(job.table.uri), options.resolve)
    return replace(options, resolve=resolve)


def _tables(script: Script, job: Job) -> list[Table]:
    """Return the tables of the steps; update the job's list, as a name may have moved."""
    note_changed_tables(job, script)
    return [resolve_step_table(step, job.table, job.requested_by) for step in script.steps]


def _check(command: Command, table: Table, by: User | None) -> None:
    """Check the command on the present table: earlier steps may have changed its columns."""
    table.refresh_from_db()
    check_rights(command, table, by)
    check_command(command, table)
    check_sources(command, by, checked_names={ANY_TABLE})


def _build_step_job(job: Job, command: Command, number: int, table: Table) -> Job:
    """Return the step as a job that is never saved: the same row, its own table, command and id."""
    base = _events(job).filter(data__base_of_step=number).first()
    return Job(
        pk=job.pk,
        table=table,
        kind=command.kind,
        parameters=command.parameters(),
        requested_by=job.requested_by,
        dry_run=job.dry_run,
        max_retries=job.max_retries,
        txn_id=uuid.UUID(step_txn_id(str(job.txn_id), number - 1)),
        base_version=base.data["base_version"] if base else None,
    )


def _find_earlier_end(job: Job, number: int) -> OperationResult | None:
    """Return the end of a step in an earlier attempt, or in the job that this one continues."""
    event = _events(job).filter(data__ended_step=number).first()
    if event is None:
        return None
    version = event.data["version"]
    versions = () if version is None else (version,)
    return OperationResult(version, recognized=True, versions=versions)


def _note_end(job: Job, number: int, name: str, result: OperationResult, began: datetime) -> None:
    done = "changed nothing" if result.version is None else f"committed version {result.version}"
    log_event(
        job.pk,
        f"Step {number} {done} of {name}",
        ended_step=number,
        version=result.version,
        table=name,
        began_at=began.isoformat(),
    )


def _events(job: Job) -> QuerySet[JobEvent]:
    return JobEvent.objects.filter(job__txn_id=job.txn_id).order_by("at", "pk")
