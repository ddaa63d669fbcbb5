"""Spark's stages of one attempt as rows, each on the axis of the attempt's time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest

from lakeui.jobs.spans import span_ms
from lakeui.jobs.spark_stages import SparkStage, stages_in
from lakeui.jobs.timeline import AttemptSpan, Part
from lakeui.monitoring.spark_ui import SparkPages
from lakeui.pages.jobs.gantt import GanttTick, label_of_part, place_of, ticks_of

_SHOWN = 60


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
