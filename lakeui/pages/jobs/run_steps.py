"""A job's steps: durations and results, expected steps, and tasks as a field."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.utils import timezone

from lakeui.jobs.models import Job, JobAttempt, JobStage
from lakeui.jobs.timeline import HOLDING, WAITING, span_ms

READ, CHECK, COMMIT, SYNC = "read the table", "check", "commit", "sync"
MAX_CELLS = 400
_NAMES = {
    "sync": "Sync the mirror",
    "match rows": "Find matches",
    "find rows": "Find matches",
    "write new rows": "Write",
    "write files": "Write",
    "rewrite files": "Write",
    "order rows": "Write in order",
    "compact files": "Compact",
    HOLDING: "Hold for another job",
    WAITING: "Wait for another job",
    "read the source": "Read the source",
}
_SHOWN_MS = 50  # half of the displayed 0.1 s
_HIDDEN = frozenset({"batches"})  # how often the others come again
_ONCE = frozenset({HOLDING, WAITING})  # of a rehearsal: the next run has none


@dataclass(frozen=True, slots=True)
class RunStep:
    """`state` is done, now, stopped or waiting; `stage` is its row, if a worker wrote one."""

    name: str
    state: str
    took_ms: int | None = None
    words: str = ""
    done: int = 0
    total: int = 0
    stage: JobStage | None = None


@dataclass(frozen=True, slots=True)
class TaskCell:
    """One or more tasks, as the field defines. Positions in per cent and pixels."""

    x: float
    y: int
    state: str


@dataclass(frozen=True, slots=True)
class TaskField:
    """Tasks by state, the done ones first: single tasks are not recorded."""

    done: int
    running: int
    waiting: int
    per_cell: int
    width: float
    height: int
    cells: tuple[TaskCell, ...]
    stage: JobStage | None = None

    @property
    def total(self) -> int:
        return self.done + self.running + self.waiting


def steps_of(
    job: Job, attempt: JobAttempt | None, stages: Sequence[JobStage], expected: Sequence[str]
) -> list[RunStep]:
    """Return the queue, the recorded steps, then the usual steps of its kind."""
    if job.state == Job.State.QUEUED:
        return [_queue(job), *_iter_waiting_steps(job, expected, set())]
    if job.started_at is None:
        return [_queue(job)]
    shown = [stage for stage in stages if stage.name not in _HIDDEN]
    if attempt is None or not shown:
        return [_queue(job), *_iter_default_steps(job)]
    now = timezone.now()
    steps = [_build_step(job, attempt, stage, now) for stage in shown]
    seen = {stage.name for stage in shown}
    steps += _rest(attempt, steps)
    goes_on = job.is_active and job.state != Job.State.CANCELLING
    to_come = _iter_waiting_steps(job, expected, seen) if goes_on else []
    return [_queue(job), *steps, *to_come]


def task_field(done: int, running: int, total: int) -> TaskField | None:
    """Return at most `MAX_CELLS` cells; beyond, a cell is several tasks. None without tasks."""
    if total <= 0:
        return None
    done, running = min(done, total), min(running, max(total - done, 0))
    per_cell = -(-total // MAX_CELLS)
    count = -(-total // per_cell)
    rows = 1 if count <= 24 else 2 if count <= 80 else 5
    columns = -(-count // rows)
    step = min(100 / columns, 5.0)
    cells = (
        TaskCell(
            number // rows * step, number % rows * 12, _state(number * per_cell, done, running)
        )
        for number in range(count)
    )
    waiting = total - done - running
    return TaskField(
        done, running, waiting, per_cell, round(step * 0.8, 3), rows * 12 - 2, tuple(cells)
    )


def field_of(job: Job, steps: Iterable[RunStep]) -> TaskField | None:
    """Return the tasks of the running step."""
    for step in steps:
        if step.state == "now" and step.stage is not None and step.stage.unit == "tasks":
            field = task_field(step.stage.done, step.stage.running, step.stage.total)
            return replace(field, stage=step.stage) if field else None
    if job.is_active and job.progress_unit == "tasks":
        return task_field(job.progress_done, job.progress_running, job.progress_total)
    return None


def label_of(name: str, read_version: int | None = None) -> str:
    """Return a stage's name on pages."""
    if name == READ and read_version is not None:
        return f"Read v{read_version}" if read_version >= 0 else "Read"
    return _NAMES.get(name) or name.capitalize()


def tasks_in(stage: JobStage) -> str:
    """Return the number of a stage's Spark tasks, in words; "" without Spark."""
    if stage.unit != "tasks":
        return ""
    return f"{stage.done:,} {'task' if stage.done == 1 else 'tasks'}"


def _queue(job: Job) -> RunStep:
    if job.started_at is None:
        ended = not job.is_active
        return RunStep("Queue", "stopped" if ended else "now", words=_why_queued(job))
    took = (job.started_at - job.created_at).total_seconds()
    return RunStep("Queue", "done", max(int(took * 1000), 0))


def _why_queued(job: Job) -> str:
    if not job.is_active:
        return "stopped here"
    return "waits for a worker" if job.sent_at else "waits for the broker"


def _rest(attempt: JobAttempt, steps: Sequence[RunStep]) -> list[RunStep]:
    """Return the attempt's time beside its steps, so that all add up to it."""
    if attempt.finished_at is None:
        return []
    took = span_ms(attempt.started_at, attempt.finished_at)
    rest = took - sum(step.took_ms or 0 for step in steps)
    return [RunStep("Other", "done", rest, "between the steps")] if rest >= _SHOWN_MS else []


def _build_step(job: Job, attempt: JobAttempt, stage: JobStage, now: datetime) -> RunStep:
    state = "done" if stage.finished_at else "now" if job.is_active else "stopped"
    is_last_of_lost = state == "done" and stage.name in {CHECK, COMMIT} and _has_failed(job)
    return RunStep(
        name=label_of(stage.name, attempt.read_version),
        state="stopped" if is_last_of_lost else state,
        took_ms=_took(stage, state, now),
        words=_describe_step(job, attempt, stage, state),
        done=stage.done,
        total=stage.total,
        stage=stage,
    )


def _has_failed(job: Job) -> bool:
    return job.state in {Job.State.CONFLICTED, Job.State.FAILED}


def _took(stage: JobStage, state: str, now: datetime) -> int:
    """Return the duration; a running step without Spark lasts until now."""
    if state == "now" and stage.unit != "tasks":
        return max(stage.took_ms, span_ms(stage.started_at, now))
    return stage.took_ms


def _describe_step(job: Job, attempt: JobAttempt, stage: JobStage, state: str) -> str:
    if stage.name == COMMIT and job.committed_version is not None and state == "done":
        return f"as v{job.committed_version}"
    if stage.name == CHECK and attempt.attempted_version:  # version 0 has none before it
        return f"up to v{attempt.attempted_version - 1}"
    if state == "now" and stage.total:
        return f"{stage.done:,} of {stage.total:,} {stage.unit}"
    return stage.found or tasks_in(stage)


def _iter_waiting_steps(job: Job, expected: Sequence[str], seen: set[str]) -> Iterator[RunStep]:
    names = [name for name in expected if name not in _HIDDEN | _ONCE] or [
        *([] if seen else [READ])
    ]
    if not job.dry_run:
        names = [
            *(step_name for step_name in names if step_name not in {CHECK, COMMIT, SYNC}),
            *(CHECK, COMMIT, SYNC),
        ]
    for name in names:
        if name not in seen:
            yield RunStep(label_of(name), "waiting", words=_describe_future_step(job, name))


def _describe_future_step(job: Job, name: str) -> str:
    latest = job.table.version
    if latest is None:
        return ""
    said = {CHECK: f"v{latest} so far", COMMIT: f"as v{latest + 1} or later"}
    return said.get(name, "")


def _iter_default_steps(job: Job) -> Iterator[RunStep]:
    """Yield the steps of a worker without recorded steps: work, then commit."""
    succeeded = job.state == Job.State.SUCCEEDED
    ended = not job.is_active and not succeeded
    committing = job.state == Job.State.COMMITTING
    state = "done" if succeeded or committing else "stopped" if ended else "now"
    words = (
        f"{job.progress_done:,} of {job.progress_total:,} {job.progress_unit}"
        if job.progress_total and job.is_active
        else "steps not recorded"
    )
    name = job.progress_stage.capitalize() or "Work"
    yield RunStep(name, state, words=words, done=job.progress_done, total=job.progress_total)
    if not job.dry_run and not ended:
        landed = f"as v{job.committed_version}" if job.committed_version is not None else ""
        later = "done" if succeeded else "now" if committing else "waiting"
        yield RunStep("Check and commit", later, words=landed or _describe_future_step(job, COMMIT))


def _state(number: int, done: int, running: int) -> str:
    return "done" if number < done else "run" if number < done + running else "wait"
