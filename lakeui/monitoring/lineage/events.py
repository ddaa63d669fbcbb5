"""The contents of events: of a job, of a step of a script, of a reported transaction."""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from typing import Any

from django.conf import settings
from openlineage.client.event_v2 import InputDataset, OutputDataset, Run, RunEvent, RunState
from openlineage.client.event_v2 import Job as LineageJob
from openlineage.client.facet_v2 import (
    JobFacet,
    RunFacet,
    error_message_run,
    job_type_job,
    parent_run,
    processing_engine_run,
    sql_job,
)
from openlineage.client.serde import Serde

from engine.commands.model import Clone, Command, Script
from engine.commands.script import step_table
from engine.errors import EngineError
from engine.vocabulary import Reads, operation_named
from lakeui.catalog.command_tables import table_called
from lakeui.catalog.models import Table
from lakeui.conflicts.models import PipelineTransaction
from lakeui.jobs.command_rules import source_uris
from lakeui.jobs.models import Job, JobEvent
from lakeui.monitoring.lineage.datasets import (
    distinct,
    input_files,
    input_table,
    output_table,
)
from lakeui.monitoring.log_lines import redact_text
from lakeui.monitoring.models import LineageEvent


def _own_version() -> str:
    try:
        return version("lakeui")
    except PackageNotFoundError:  # run from its sources
        return "0"


Type = LineageEvent.Type
OWN_VERSION = _own_version()
PRODUCER = f"urn:lakeui:{OWN_VERSION}"
_MAX_SQL = 100_000
_MAX_ERROR = 2_000  # as over REST
_ENDS_OF_JOBS: Mapping[str, Type] = {
    Job.State.SUCCEEDED: Type.COMPLETE,
    Job.State.FAILED: Type.FAIL,
    Job.State.CONFLICTED: Type.FAIL,
    Job.State.CANCELLED: Type.ABORT,
}
_STATES = PipelineTransaction.State
_ENDS_OF_TRANSACTIONS: Mapping[str, Type] = {
    _STATES.COMMITTED: Type.COMPLETE,
    _STATES.ENDED: Type.COMPLETE,
    _STATES.ABORTED: Type.FAIL,
    _STATES.FAILED: Type.FAIL,
}


@dataclass(kw_only=True)
class RunEventDraft:
    """An event before it has the form of the specification."""

    type: Type
    at: datetime
    run_id: uuid.UUID
    name: str
    statement: str = ""
    error: str = ""
    engine: str = "lakeui"
    job_type: str = "JOB"
    parent: tuple[uuid.UUID, str] | None = None
    inputs: list[InputDataset] = field(default_factory=list)
    outputs: list[OutputDataset] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return the event in the specification's form."""
        event = RunEvent(
            eventType=RunState(self.type.value),
            eventTime=self.at.isoformat(),
            producer=PRODUCER,
            run=Run(str(self.run_id), self._run_facets()),
            job=LineageJob(settings.LINEAGE_NAMESPACE, self.name, self._job_facets()),
            inputs=distinct(self.inputs),
            outputs=distinct(self.outputs),
        )
        content: dict[str, Any] = _set_producer(Serde.to_dict(event))
        return content

    def _run_facets(self) -> dict[str, RunFacet]:
        facets: dict[str, RunFacet] = {
            "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
                version=OWN_VERSION if self.engine == "lakeui" else "unknown",
                name=self.engine,
                openlineageAdapterVersion=version("openlineage-python"),
            )
        }
        if self.error:
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
                message=redact_text(self.error)[:_MAX_ERROR], programmingLanguage="PYTHON"
            )
        if self.parent is not None:
            run_id, name = self.parent
            facets["parent"] = parent_run.ParentRunFacet(
                parent_run.Run(str(run_id)), parent_run.Job(settings.LINEAGE_NAMESPACE, name)
            )
        return facets

    def _job_facets(self) -> dict[str, JobFacet]:
        kind = job_type_job.JobTypeJobFacet(
            processingType="BATCH", integration="LAKEUI", jobType=self.job_type
        )
        facets: dict[str, JobFacet] = {"jobType": kind}
        if self.statement:
            text = redact_text(self.statement)[:_MAX_SQL]
            facets["sql"] = sql_job.SQLJobFacet(query=text, dialect="spark")
        return facets


def events_of_job(job: Job) -> list[RunEventDraft]:
    """Return START of a job that began or ended, then its steps and its end if it did."""
    changed = [] if job.dry_run else [job.table, *job.also_changes.all()]
    start = RunEventDraft(
        type=Type.START,
        at=job.started_at or job.created_at,
        run_id=job.pk,
        name=name_of_job(job),
        statement=job.statement,
        parent=_parent_of(job),
        inputs=list(_iter_inputs(job)),
        outputs=[output_table(table, None) for table in changed],
    )
    end = _ENDS_OF_JOBS.get(job.state)
    if end is None or job.finished_at is None:
        return [start]
    steps = list(_steps(job))
    made = [output_table(step.table, step.version) for step in reversed(steps) if step.was_made]
    if not steps and changed:
        made = [output_table(job.table, job.committed_version)]
    error = f"{job.error_code}: {job.error_message}" if job.error_code else ""
    ended = replace(start, type=end, at=job.finished_at, error=error, outputs=made)
    return [start, *chain.from_iterable(_events_of_step(step, job) for step in steps), ended]


def events_of_transaction(row: PipelineTransaction) -> list[RunEventDraft]:
    """Return START of a reported transaction, and its end if it has one."""
    has_version = row.read_version is not None and row.read_version >= 0
    reads = has_version and operation_named(row.operation).reads is not Reads.NOTHING
    start = RunEventDraft(
        type=Type.START,
        at=row.started_at or row.ended_at or row.reported_at,
        run_id=run_of_transaction(row),
        name=f"{row.table.name}.{row.pipeline.name}",
        statement=row.statement,
        engine=row.engine or "unknown",
        job_type="TRANSACTION",
        inputs=[input_table(row.table, row.read_version)] if reads else [],
        outputs=[output_table(row.table, None)],
    )
    end = _ENDS_OF_TRANSACTIONS.get(row.state)
    if end is None:
        return [start]
    ended = replace(
        start,
        type=end,
        at=row.ended_at or row.reported_at,
        error=_error_of(row) if end == Type.FAIL else "",
        outputs=[output_table(row.table, row.committed_version)],
    )
    return [start, ended]


def run_of_transaction(row: PipelineTransaction) -> uuid.UUID:
    """Return one run for all attempts at a command, if the program identifies them."""
    return uuid.uuid5(
        uuid.NAMESPACE_OID, f"lakeui:{row.pipeline_id}:{row.table_id}:{row.run_id or row.txn_id}"
    )


def name_of_job(job: Job) -> str:
    """Return one name for all runs of a schedule, else of a kind of job on the table."""
    return f"{job.table.name}.{job.schedule.name if job.schedule else job.kind}"


@dataclass(frozen=True)
class _ScriptStep:
    number: int
    table: Table
    version: int | None
    began_at: str
    ended_at: datetime

    @property
    def was_made(self) -> bool:
        """Whether it committed a version."""
        return self.version is not None


def _steps(job: Job) -> Iterable[_ScriptStep]:
    """Return the steps of an ended script, from its log."""
    if job.kind != Script.kind:
        return
    tables = {table.name: table for table in (job.table, *job.also_changes.all())}
    for event in JobEvent.objects.filter(job=job, data__has_key="ended_step").order_by("at", "pk"):
        table = tables.get(event.data.get("table", ""))
        if table is not None:
            began = event.data.get("began_at", "")
            number, made = event.data["ended_step"], event.data["version"]
            yield _ScriptStep(number, table, made, began, event.at)


def _events_of_step(step: _ScriptStep, job: Job) -> list[RunEventDraft]:
    start = RunEventDraft(
        type=Type.START,
        at=datetime.fromisoformat(step.began_at) if step.began_at else step.ended_at,
        run_id=uuid.uuid5(job.pk, f"step {step.number}"),
        name=f"{name_of_job(job)}.step-{step.number}",
        job_type="STEP",
        parent=(job.pk, name_of_job(job)),
        outputs=[output_table(step.table, step.version)],
    )
    return [start, replace(start, type=Type.COMPLETE, at=step.ended_at)]


def _parent_of(job: Job) -> tuple[uuid.UUID, str] | None:
    """Return the write behind a follow-up; for a rerun, its original job."""
    parent = job.caused_by or job.retry_of
    return (parent.pk, name_of_job(parent)) if parent else None


def _version_read(job: Job) -> int | None:
    """Return the version read by the last attempt; none for an empty table."""
    read = job.attempt_rows.exclude(read_version=None).order_by("-number").first()
    version = read.read_version if read else None
    return version if version is None or version >= 0 else None


def _iter_inputs(job: Job) -> Iterator[InputDataset]:
    """Yield the tables that the job reads rows of, its own first, and the files that it loads."""
    try:
        command = Command.from_parameters(job.kind, dict(job.parameters))
        steps = command.steps if isinstance(command, Script) else (command,)
        names = command.other_tables_read()
        reading = {
            "" if step is command else step_table(step).lower()
            for step in steps
            if step.reads_itself
        }
    except (EngineError, TypeError, ValueError):
        if operation_named(job.kind).reads is not Reads.NOTHING:
            yield input_table(job.table, _version_read(job))
        return
    for table in (job.table, *job.also_changes.all()):
        own = ("",) if table == job.table else ()
        if not reading.isdisjoint((table.name.lower(), table.uri.lower(), *own)):
            yield input_table(table, _version_read(job) if table == job.table else None)
    yield from (_input_dataset(name, None) for name in names)
    for step in steps:
        if isinstance(step, Clone):
            yield _input_dataset(step.source_table, step.version)
        yield from map(input_files, source_uris(step))


def _input_dataset(name: str, at: int | None) -> InputDataset:
    """Return a table by its name in a command; an unregistered one by its location."""
    table = table_called(name)
    return input_table(table, at) if table else input_files(name)


def _error_of(row: PipelineTransaction) -> str:
    conflict = row.conflicts.exclude(code="").order_by("-occurred_at").first()
    if conflict is None:
        return f"The transaction ended as {row.state}."
    return f"{conflict.code}: {conflict.message}"


def _set_producer(content: Any) -> Any:  # noqa: ANN401 - JSON
    """Facets name who made them as the event does; the library would name itself."""
    match content:
        case dict():
            named = {key: _set_producer(value) for key, value in content.items()}
            return named | {"_producer": PRODUCER} if "_producer" in named else named
        case list():
            return [_set_producer(value) for value in content]
        case _:
            return content
