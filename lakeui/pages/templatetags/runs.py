"""Tags and filters of job pages: SQL with its words marked, the field of tasks, costs."""

import re
from collections.abc import Sequence
from datetime import datetime

from django import template
from django.urls import reverse_lazy
from django.utils import timezone
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString

from lakeui.catalog import units
from lakeui.jobs.models import Job
from lakeui.jobs.run_grid import GridRow, RunCell
from lakeui.jobs.schedules import cron_in_words
from lakeui.jobs.timeline import span_ms
from lakeui.pages.jobs.run_steps import TaskField, label_of
from lakeui.pages.moments import NOT_RECORDED
from lakeui.pages.operations import family_of
from lakeui.pages.templatetags.lake import sign

register = template.Library()

_SQL = re.compile(r"('(?:[^']|'')*')|(\b[A-Z]{2,}\b)")
_JOBS = reverse_lazy("job-list")
_PLAIN_WORDS = frozenset({"NULL", "TRUE", "FALSE", "UTC"})


@register.filter
def sql(statement: str) -> SafeString:
    """Mark the keywords and texts of a statement, as our own rendering spells them."""
    parts, end = [], 0
    for match in _SQL.finditer(statement):
        parts.append(escape(statement[end : match.start()]))
        kind = "s" if match[1] else "k"
        plain = match[0] in _PLAIN_WORDS
        parts.append(
            escape(match[0]) if plain else format_html('<span class="{}">{}</span>', kind, match[0])
        )
        end = match.end()
    parts.append(escape(statement[end:]))
    return format_html_join("", "{}", ((part,) for part in parts))


@register.filter
def share_of_longest(job: Job, jobs: Sequence[Job]) -> float | None:
    """Return a run's duration in per cent of the longest of some; None if it has not ended."""
    spans = {
        run.pk: span_ms(run.started_at, run.finished_at)
        for run in jobs
        if run.started_at and run.finished_at
    }
    longest = max(spans.values(), default=0)
    return 100 * spans[job.pk] / longest if longest and job.pk in spans else None


@register.simple_tag
def run_cells(row: GridRow, columns: int) -> SafeString:
    """Render the runs of a row of the grid, after so many empty cells that all rows end alike."""
    family = family_of(row.kind)
    empty = "<td></td>" * (columns - len(row.cells))
    cells = (_run_cell(cell, family) if cell else "<td></td>" for cell in row.cells)
    return SafeString(empty + "".join(cells))


def _run_cell(cell: RunCell, family: str) -> str:
    """Render a run; a page has a thousand of them."""
    title = f"{clock_words(cell.created_at)}: {outcome_word(cell.state)}"
    if cell.took_ms is not None:
        title += f", {units.format_duration(cell.took_ms)}"
    return (
        f'<td><a href="{_JOBS}{cell.job_id}/" class="outcome outcome-{cell.state} op-{family}" '
        f'title="{escape(title)}">{sign(cell.state, cell.state)}<svg class="chart" width="100%" '
        f'height="4" aria-hidden="true"><rect class="fill" width="{cell.share:.1f}%" height="4"/>'
        "</svg></a></td>"
    )


@register.simple_tag
def task_cells(field: TaskField) -> SafeString:
    """Render the rectangles of a field of tasks."""
    return format_html_join(
        "",
        '<rect class="task-{}" x="{}%" y="{}" width="{}%" height="10"/>',
        ((cell.state, f"{cell.x:.2f}", cell.y, field.width) for cell in field.cells),
    )


@register.simple_tag
def amount(value: int | None, unit: str) -> SafeString | str:
    """Format a cost in its unit, "ms" or "bytes"."""
    if value is None:
        return NOT_RECORDED
    if unit == "ms":
        return units.format_duration(value)
    exact = f"{units.format_count(value)} bytes"
    return format_html('<span title="{}">{}</span>', exact, units.format_bytes(value))


@register.filter
def time_until(moment: datetime | None) -> str:
    """Format the span from now to a time: 4 min."""
    if moment is None:
        return ""
    left = (moment - timezone.now()).total_seconds()
    return units.format_duration(round(abs(left)) * 1000).replace(".0 s", " s")


@register.filter
def outcome_word(state: str) -> str:
    """Return the end of a job or an attempt, or its state: a conflict aborts."""
    return "aborted" if state == Job.State.CONFLICTED else str(state)


@register.filter
def is_over(moment: datetime | None) -> bool:
    """Whether the time has passed."""
    return moment is not None and moment < timezone.now()


@register.filter
def stage_label(name: str, read_version: int | None = None) -> str:
    return label_of(name, read_version)


@register.filter
def cron_words(cron: str) -> str:
    """Describe a schedule's cron text in words, if there is a common phrase."""
    return cron_in_words(cron)


@register.filter
def clock_words(moment: datetime) -> str:
    """Format a time as text, for a title."""
    return f"{units.clock_text(moment)} {timezone.localtime(moment).tzname()}"


@register.simple_tag
def clock_of(moment: datetime) -> str:
    """Format an hour's beginning under a chart: 02:00."""
    return f"{timezone.localtime(moment):%H:%M}"
