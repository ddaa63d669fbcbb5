"""OpenLineage events: of a job, of a step of a script, of a reported transaction.

Tables and files are datasets, named by location as the specification requires
(https://openlineage.io/docs/spec/naming): a table has the same name in every tool, so that events
of Spark or Airflow about the same location are about the same dataset. Its name here is a symlink
of it.
"""

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from typing import Any, TypeVar
from urllib.parse import urlsplit

from django.conf import settings
from openlineage.client.event_v2 import (
    Dataset,
    InputDataset,
    OutputDataset,
    Run,
    RunEvent,
    RunState,
)
from openlineage.client.event_v2 import Job as LineageJob
from openlineage.client.facet_v2 import (
    DatasetFacet,
    JobFacet,
    RunFacet,
    dataset_version_dataset,
    datasource_dataset,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    parent_run,
    processing_engine_run,
    schema_dataset,
    sql_job,
    symlinks_dataset,
)
from openlineage.client.serde import Serde

from engine.commands.model import Clone, Command, Script
from engine.commands.script import step_table
from engine.errors import EngineError
from engine.storage.uri import normalize_uri
from engine.vocabulary import Reads, operation_named
from lakeui.catalog.command_tables import table_called
from lakeui.catalog.definitions import read_definition_actions
from lakeui.catalog.models import Commit, Table
from lakeui.catalog.roots import storage_options
from lakeui.catalog.schema_rows import type_text
from lakeui.conflicts.models import PipelineTransaction
from lakeui.jobs.command_rules import source_uris
from lakeui.jobs.models import Job, JobEvent
from lakeui.monitoring.log_lines import redact_text
from lakeui.monitoring.models import LineageEvent

MAX_COLUMNS, MAX_DEPTH = 1_000, 8
_Dataset = TypeVar("_Dataset", bound=Dataset)

Type = LineageEvent.Type

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


def _own_version() -> str:
    try:
        return version("lakeui")
    except PackageNotFoundError:  # run from its sources
        return "0"


OWN_VERSION = _own_version()
PRODUCER = f"urn:lakeui:{OWN_VERSION}"


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


def input_table(table: Table, version: int | None) -> InputDataset:
    """Return a table that was read, at a version if known."""
    return InputDataset(*name_of(table.uri), facets=_facets(table, version))


def output_table(table: Table, version: int | None) -> OutputDataset:
    """Return a written table, with the contents of its committed version, if any."""
    output = OutputDataset(*name_of(table.uri), facets=_facets(table, version))
    commit = None if version is None else table.commits.filter(version=version).first()
    if commit is not None:
        output.outputFacets = {"outputStatistics": _statistics(commit)}
    return output


def input_files(uri: str) -> InputDataset:
    """Return files that were read, as the command names them."""
    return InputDataset(*name_of(uri))


def distinct(datasets: Sequence[_Dataset]) -> list[_Dataset]:
    """Return the first dataset of each name."""
    return list(
        {(dataset.namespace, dataset.name): dataset for dataset in reversed(datasets)}.values()
    )[::-1]


def name_of(uri: str) -> tuple[str, str]:
    """Return namespace and name of a location, without parts that only serve access."""
    try:
        place = normalize_uri(uri)
    except EngineError:
        place = uri
    if "://" not in place:
        return "file", place
    parts = urlsplit(place)
    namespace = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    if parts.scheme == "az":
        namespace = _azure(parts.netloc, storage_options(place).get("account_name", ""))
    return namespace, parts.path.strip("/") or "/"


def _azure(container: str, account: str) -> str:
    """Return a container of a storage account, if its URI or the settings name the account."""
    if "@" in container:
        return f"abfss://{container}"
    return f"abfss://{container}@{account}.dfs.core.windows.net" if account else f"az://{container}"


def _facets(table: Table, version: int | None) -> dict[str, DatasetFacet]:
    namespace, _ = name_of(table.uri)
    identifier = symlinks_dataset.Identifier(settings.LINEAGE_NAMESPACE, table.name, "TABLE")
    facets: dict[str, DatasetFacet] = {
        "dataSource": datasource_dataset.DatasourceDatasetFacet(
            name=namespace, uri=namespace if ":" in namespace else f"{namespace}:///"
        ),
        "symlinks": symlinks_dataset.SymlinksDatasetFacet([identifier]),
    }
    if columns := _columns(_schema_of(table, version)):
        facets["schema"] = schema_dataset.SchemaDatasetFacet(columns)
    if version is not None:
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(str(version))
    return facets


def _schema_of(table: Table, version: int | None) -> Any:  # noqa: ANN401 - JSON
    """Return the schema of the version if it is mirrored; else the table's current one."""
    changes = table.commits.filter(changes_metadata=True)
    if version is None or not changes.filter(version__gt=version).exists():
        return table.schema
    commit = changes.filter(version__lte=version).order_by("-version").first()
    metadata, _ = read_definition_actions(commit) if commit else (None, None)
    return json.loads(metadata.schema_string) if metadata else table.schema


def _columns(schema: Any, depth: int = 0) -> list[schema_dataset.SchemaDatasetFacetFields]:  # noqa: ANN401 - JSON
    fields = schema.get("fields") if isinstance(schema, dict) else None
    if not isinstance(fields, list) or depth > MAX_DEPTH:
        return []
    return [
        schema_dataset.SchemaDatasetFacetFields(
            name=str(field.get("name")),
            type=type_text(field.get("type")),
            description=(field.get("metadata") or {}).get("comment"),
            ordinal_position=place,
            fields=_columns(field.get("type"), depth + 1),
        )
        for place, field in enumerate(fields[:MAX_COLUMNS], 1)
        if isinstance(field, dict)
    ]


def _statistics(
    commit: Commit,
) -> output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet:
    """Return the commit's output: rows as its writer counted them, else those of its new files."""
    told = str((commit.operation_metrics or {}).get("numOutputRows", ""))
    rows = commit.rows_added if not commit.files_restated else None
    return output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=int(told) if told.isdecimal() else rows,
        size=commit.bytes_written,
        fileCount=commit.files_added - commit.files_restated,
    )
