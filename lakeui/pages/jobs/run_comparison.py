"""A run beside the last runs of the same statement, in words and bars."""

from collections.abc import Iterator
from dataclasses import dataclass

from lakeui.catalog.units import MINUS, format_bytes, format_count, format_duration
from lakeui.jobs.models import Job
from lakeui.jobs.same_runs import (
    AS_USUAL,
    WASTED_ATTEMPTS,
    Measure,
    PartDifference,
    RunDifference,
    RunFacts,
    comparison_of,
)
from lakeui.jobs.timeline import JobTimeline, PartKind
from lakeui.pages.jobs.gantt import LABELS
from lakeui.pages.jobs.run_steps import label_of

_SHOWN_PARTS = 6
_SHOWN_MS = 50
_MUCH_MORE, _MUCH_LESS = 1.25, 0.8
_MEASURES = {
    "row_count": "Rows changed",
    "bytes_read": "Read",
    "bytes_written": "Written",
    "attempts": "Attempts",
}


@dataclass(frozen=True, slots=True)
class PartRow:
    """Widths in per cent of the longest bar of all."""

    label: str
    this_ms: int
    usual_ms: int
    more: str
    this_width: float
    usual_width: float


@dataclass(frozen=True, slots=True)
class MeasureRow:
    label: str
    this: str
    usual: str
    words: str


@dataclass(frozen=True, slots=True)
class RunRow:
    run: RunFacts
    is_this: bool
    width: float


@dataclass(frozen=True, slots=True)
class RunComparison:
    """A comparison; `headline` is the verdict with its figure, `because` a sentence on why."""

    comparison: RunDifference
    headline: str
    because: str
    parts: tuple[PartRow, ...]
    measures: tuple[MeasureRow, ...]
    runs: tuple[RunRow, ...]


def compare_runs(job: Job, timeline: JobTimeline) -> RunComparison | None:
    """Return the comparison; None without an earlier run."""
    comparison = comparison_of(job, timeline)
    if comparison is None:
        return None
    runs = (comparison.this, *comparison.runs)
    longest = max(max(run.total_ms for run in runs), 1)
    return RunComparison(
        comparison,
        _headline(comparison, is_active=job.is_active),
        _explain_difference(comparison),
        tuple(_part_rows(comparison)),
        tuple(_measure_row(measure) for measure in comparison.measures),
        tuple(RunRow(run, not n, 100 * run.total_ms / longest) for n, run in enumerate(runs)),
    )


def _headline(comparison: RunDifference, *, is_active: bool) -> str:
    if comparison.verdict == AS_USUAL:
        return "no longer than usual so far" if is_active else "as long as usual"
    by = format_duration(abs(comparison.more_ms))
    return f"{by} {comparison.verdict} than usual{' so far' if is_active else ''}"


def _explain_difference(comparison: RunDifference) -> str:
    """Describe the part with most of the difference, then unusual counts."""
    part = comparison.explains
    if part is None:
        return ""
    more = "longer" if part.more_ms > 0 else "less"
    usual = format_duration(part.usual_ms) if part.usual_ms else "nothing"
    by = f"{format_duration(abs(part.more_ms))} {more}: " if part.usual_ms else ""
    sentence = f"{_label(part.name)} took {by}{format_duration(part.this_ms)}, usually {usual}."
    counts = [_describe_measure(measure) for measure in comparison.measures]
    told = [text for text in counts if text]
    return f"{sentence} {' '.join(told)}".strip()


def _describe_measure(measure: Measure) -> str:
    times = measure.times
    if measure.unit == "attempts" or times is None or _MUCH_LESS < times < _MUCH_MORE:
        return ""
    return f"{_MEASURES[measure.name]}: {times:.1f} times the usual."


def _part_rows(comparison: RunDifference) -> Iterator[PartRow]:
    shown = [part for part in comparison.differences if max(part.this_ms, part.usual_ms)]
    shown = [part for part in shown if abs(part.more_ms) >= _SHOWN_MS][:_SHOWN_PARTS]
    longest = max((max(part.this_ms, part.usual_ms) for part in shown), default=1)
    for part in shown:
        yield PartRow(
            _label(part.name),
            part.this_ms,
            part.usual_ms,
            _format_difference(part),
            100 * part.this_ms / longest,
            100 * part.usual_ms / longest,
        )


def _format_difference(part: PartDifference) -> str:
    return f"{'+' if part.more_ms > 0 else MINUS}{format_duration(abs(part.more_ms))}"


def _measure_row(measure: Measure) -> MeasureRow:
    shown = format_bytes if measure.unit == "bytes" else format_count
    times = measure.times
    is_telling = times is not None and not _MUCH_LESS < times < _MUCH_MORE
    words = f"{times:.1f} times the usual" if is_telling else ""
    return MeasureRow(_MEASURES[measure.name], shown(measure.this), shown(measure.usual), words)


def _label(name: str) -> str:
    if name == WASTED_ATTEMPTS:
        return "Wasted attempts"
    return LABELS[PartKind(name)] if name in {*PartKind} else label_of(name)
