"""A job's time on one axis: its queue, each attempt, and the steps of the latest ones.

Spark's stages of one attempt are rows on the axis of the attempt's time. A line of the log stands
under the step that wrote it, else under the one running then.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import nlargest

from lakeui.catalog.units import format_duration
from lakeui.jobs.models import JobAttempt, JobEvent
from lakeui.jobs.spark_stages import SparkStage, stages_in
from lakeui.jobs.timeline import AttemptSpan, JobTimeline, Part, PartKind, span_ms
from lakeui.monitoring.worker_state import SparkPages
from lakeui.pages.jobs.run_steps import label_of, tasks_in

_NARROWEST = 0.4  # of 100: keeps instant steps visible
_TICKS = 6
_LAST_LABEL = 93  # beyond, a label would be cut off
_SHOWN_MS = 50  # half of the displayed 0.1 s
_STEPS_OF = 5  # attempts; earlier ones are shown whole
_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_EVERY = (
    *(10, 20, 50, 100, 200, 500),
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 4, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 28, 91, 365)),
)
LABELS = {
    PartKind.QUEUE: "Queue",
    PartKind.SESSION: "Start Spark",
    PartKind.EARLIER: "Earlier attempts",
    PartKind.TAKE: "Take the job",
    PartKind.BETWEEN: "Between steps",
    PartKind.END: "Write the outcome",
    PartKind.UNRECORDED: "Steps not recorded",
    PartKind.WAIT: "Wait",
    PartKind.REQUEUE: "Queue, again",
}
_WORDS = {
    PartKind.SESSION: "in the worker that took the job",
    PartKind.TAKE: "before the first step",
    PartKind.BETWEEN: "in none of the steps",
    PartKind.END: "after the last step",
    PartKind.WAIT: "for the next attempt",
    PartKind.REQUEUE: "after its worker was lost",
}

_WASTED = frozenset(
    {
        JobAttempt.Outcome.CONFLICTED,
        JobAttempt.Outcome.FAILED,
        JobAttempt.Outcome.CANCELLED,
        JobAttempt.Outcome.LOST,
    }
)

_SHOWN = 60

Key = tuple[int, int | None]
_QUEUE: Key = (0, None)


@dataclass(frozen=True, slots=True)
class GanttRow:
    """One bar. `shape` is how it is drawn; `attempt` is set of the bar of a whole attempt."""

    label: str
    shape: str
    x: float
    width: float
    started_at: datetime
    took_ms: int
    is_open: bool = False
    words: str = ""
    attempt: JobAttempt | None = None
    is_step: bool = False
    anchor: str = ""
    spark: tuple[tuple[float, float], ...] = ()  # Spark's stages in it: place and width


@dataclass(frozen=True, slots=True)
class GanttTick:
    x: float
    label: str
    is_spare: bool


@dataclass(frozen=True, slots=True)
class Gantt:
    rows: tuple[GanttRow, ...]
    ticks: tuple[GanttTick, ...]
    total_ms: int
    excess_ms: int
    started_at: datetime


def draw_gantt(timeline: JobTimeline, picked: int | None = None) -> Gantt:
    """Draw the timeline; `picked` is an early attempt whose steps are shown too."""
    shown = {span.attempt.number for span in timeline.attempts[-_STEPS_OF:]} | {picked}
    rows = tuple(_GanttRows(timeline, shown).all())
    ticks = tuple(ticks_of(timeline.total_ms))
    return Gantt(rows, ticks, timeline.total_ms, timeline.excess_ms, timeline.started_at)


def label_of_part(part: Part, read_version: int | None = None) -> str:
    """Return the label of a part of a job's time."""
    return label_of(part.stage.name, read_version) if part.stage else LABELS[part.kind]


def anchor_of(attempt: int | None, place: int | None) -> str:
    """Return the log's anchor of a step."""
    return f"log-{attempt or 0}-{'x' if place is None else place}"


def place_of(
    axis: JobTimeline | AttemptSpan, start: datetime, end: datetime
) -> tuple[float, float]:
    """Return a bar's start and width on the axis, of 100."""
    whole = axis.ended_at - axis.started_at
    if not whole:
        return 0.0, 100.0
    first = min(max((start - axis.started_at) / whole * 100, 0), 100)
    last = min(max((end - axis.started_at) / whole * 100, first), 100)
    width = max(last - first, _NARROWEST)
    return min(first, 100 - width), width


class _GanttRows:
    """All bars of one job, each placed on the same axis."""

    def __init__(self, timeline: JobTimeline, shown: set[int | None]) -> None:
        self._timeline, self._shown = timeline, shown
        self._spans = {span.attempt.number: span for span in timeline.attempts}

    def all(self) -> Iterator[GanttRow]:
        begun: set[int] = set()
        for part in self._timeline.parts:
            span = self._spans.get(part.attempt) if part.attempt is not None else None
            if span is None:
                if part.took_ms >= _SHOWN_MS or part.kind == PartKind.QUEUE:
                    yield self._row(part, "wait")
                continue
            if span.attempt.number not in begun:
                begun.add(span.attempt.number)
                yield self._whole(span)
            if self._has_row(part):
                yield self._row(part, self._shape(part, span.attempt), span.attempt)

    def _has_row(self, part: Part) -> bool:
        """Return whether a part has a row; rests too short to display are only in the JSON."""
        if part.attempt not in self._shown or part.kind == PartKind.UNRECORDED:
            return False
        return part.kind == PartKind.STEP or part.took_ms >= _SHOWN_MS

    def _shape(self, part: Part, attempt: JobAttempt) -> str:
        if part.kind != PartKind.STEP:
            return "rest"
        return "wasted" if attempt.outcome in _WASTED else "step"

    def _row(self, part: Part, shape: str, attempt: JobAttempt | None = None) -> GanttRow:
        x, width = place_of(self._timeline, part.started_at, part.ended_at)
        stage = part.stage
        return GanttRow(
            label=label_of_part(part, attempt.read_version if attempt else None),
            shape=shape,
            x=x,
            width=width,
            started_at=part.started_at,
            took_ms=part.took_ms,
            is_open=part.is_open,
            words=_words(part),
            is_step=attempt is not None,
            anchor=anchor_of(part.attempt, stage.place) if stage else "",
            spark=tuple(self._spark(part)),
        )

    def _spark(self, part: Part) -> Iterator[tuple[float, float]]:
        for stage in stages_in(part.stage) if part.stage else ():
            if stage.started_at is not None:
                end = stage.ended_at or part.ended_at
                yield place_of(self._timeline, stage.started_at, end)

    def _whole(self, span: AttemptSpan) -> GanttRow:
        x, width = place_of(self._timeline, span.started_at, span.ended_at)
        return GanttRow(
            label=f"Attempt {span.attempt.number}",
            shape="attempt",
            x=x,
            width=width,
            started_at=span.started_at,
            took_ms=span.took_ms,
            is_open=any(part.is_open for part in span.parts),
            words=_words_of_attempt(span),
            attempt=span.attempt,
        )


def _words(part: Part) -> str:
    stage = part.stage
    if stage is None:
        return _WORDS.get(part.kind, "")
    if part.is_open and stage.total:
        return f"{stage.done:,} of {stage.total:,} {stage.unit}"
    return ", ".join(text for text in (stage.found, tasks_in(stage)) if text)


def _words_of_attempt(span: AttemptSpan) -> str:
    has_steps = any(part.kind == PartKind.STEP for part in span.parts)
    said = [] if has_steps else ["steps not recorded"]
    if not (span.is_ended or any(part.is_open for part in span.parts)):
        said.append("its end was not recorded")
    return ", ".join(said)


def ticks_of(total_ms: int) -> Sequence[GanttTick]:
    """Return the labels of the axis."""
    if total_ms <= 0:
        return []
    every = next((step for step in _EVERY if total_ms / step <= _TICKS), total_ms)
    moments = range(0, total_ms + 1, every)
    places = [(100 * moment / total_ms, moment) for moment in moments]
    return [
        GanttTick(x, _label(moment), number % 2 == 1)
        for number, (x, moment) in enumerate(places)
        if x <= _LAST_LABEL
    ]


def _label(elapsed_ms: int) -> str:
    return format_duration(elapsed_ms).replace(".0 s", " s") if elapsed_ms else "0"


@dataclass(frozen=True, slots=True)
class StageRow:
    """A stage; `took_ms` is None before it begins, and until now while it runs."""

    stage: SparkStage
    step: str
    x: float
    width: float
    took_ms: int | None
    is_open: bool
    address: str


@dataclass(frozen=True, slots=True)
class StageTable:
    """The longest stages of an attempt in order of their start; `total` counts all."""

    rows: tuple[StageRow, ...]
    total: int
    ticks: Sequence[GanttTick]
    pages: SparkPages | None

    @property
    def is_spilled(self) -> bool:
        return any(row.stage.spilled for row in self.rows)


def stage_table(span: AttemptSpan | None, pages: SparkPages | None) -> StageTable | None:
    """Return the table; None if Spark ran no stage, or none was recorded."""
    if span is None:
        return None
    rows = [row for part in span.parts for row in _rows(span, part, pages)]
    if not rows:
        return None
    longest = nlargest(_SHOWN, rows, key=lambda row: row.took_ms or 0)
    longest.sort(key=_began)
    total = sum(part.stage.spark_stage_count for part in span.parts if part.stage is not None)
    return StageTable(tuple(longest), max(total, len(rows)), ticks_of(span.took_ms), pages)


def _rows(span: AttemptSpan, part: Part, pages: SparkPages | None) -> Iterator[StageRow]:
    for stage in stages_in(part.stage) if part.stage else ():
        start, end = stage.started_at, stage.ended_at or part.ended_at
        x, width = place_of(span, start, end) if start else (0.0, 0.0)
        yield StageRow(
            stage=stage,
            step=label_of_part(part, span.attempt.read_version),
            x=x,
            width=width,
            took_ms=span_ms(start, end) if start else None,
            is_open=part.is_open and stage.ended_ms is None and start is not None,
            address=pages.stage(stage.stage_id, stage.attempt) if pages else "",
        )


def _began(row: StageRow) -> tuple[bool, int, int]:
    started_ms = row.stage.started_ms
    return started_ms is None, started_ms or 0, row.stage.stage_id


@dataclass(frozen=True, slots=True)
class LogGroup:
    """Consecutive lines. `anchor` is empty except in the first group of a step."""

    title: str
    anchor: str
    events: list[JobEvent] = field(default_factory=list)


def log_groups(events: Sequence[JobEvent], timeline: JobTimeline) -> list[LogGroup]:
    """Group the lines in order."""
    steps = _Steps(timeline)
    groups: list[LogGroup] = []
    last: Key | None = None
    seen: set[Key] = set()
    for event in events:
        key = steps.key_of(event)
        if key != last:
            anchor = "" if key in seen else anchor_of(*key)
            groups.append(LogGroup(steps.title_of(key), anchor))
            seen.add(key)
            last = key
        groups[-1].events.append(event)
    return groups


class _Steps:
    """The steps of a job by when they began."""

    def __init__(self, timeline: JobTimeline) -> None:
        self._titles: dict[Key, str] = {_QUEUE: "Queue"}
        starts: list[tuple[datetime, Key]] = []
        several = len(timeline.attempts) > 1
        for span in timeline.attempts:
            number = span.attempt.number
            head = f"Attempt {number}"
            self._titles[number, None] = head
            starts.append((span.started_at, (number, None)))
            for part in span.parts:
                if part.kind != PartKind.STEP or part.stage is None:
                    continue
                label = label_of_part(part, span.attempt.read_version)
                self._titles[number, part.stage.place] = f"{head}: {label}" if several else label
                starts.append((part.started_at, (number, part.stage.place)))
        starts.sort(key=lambda start: start[0])
        self._moments = [moment for moment, _ in starts]
        self._keys = [key for _, key in starts]

    def key_of(self, event: JobEvent) -> Key:
        """Return the line's own step, else the latest step that had begun."""
        data = event.data if isinstance(event.data, dict) else {}
        attempt, step = data.get("attempt"), data.get("step")
        if isinstance(attempt, int) and isinstance(step, int) and (attempt, step) in self._titles:
            return attempt, step
        place = bisect_right(self._moments, event.at)
        return self._keys[place - 1] if place else _QUEUE

    def title_of(self, key: Key) -> str:
        return self._titles[key]
