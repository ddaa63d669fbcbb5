"""What needs a person, worst first, and the one next step for each."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.urls import reverse

from lakeui.catalog.health import FEW_FILES
from lakeui.catalog.models import Table
from lakeui.jobs.models import Job
from lakeui.monitoring.overview import Losses
from lakeui.pages.units import format_bytes, format_count, format_duration

QUIET_MIRROR = timedelta(minutes=15)
MANY_ESCAPED = 3


@dataclass(frozen=True, slots=True)
class Matter:
    """`mark` is a shape of the sprite; `since` when it began, where that is known."""

    mark: str
    mark_label: str
    headline: str
    table: Table
    text: str
    since: datetime | None
    step: str
    address: str


def matters(
    tables: Iterable[Table], losses: Mapping[int, Losses], failed: Iterable[Job], now: datetime
) -> list[Matter]:
    """Unreachable tables, then lost writes, failed jobs, small files, a mirror that stands still."""
    known = list(tables)
    return [
        *(_unreachable(table) for table in known if table.mirror_error_code),
        *_escaped(known, losses),
        *map(_failed, failed),
        *(_small_files(table) for table in known if _has_small_files(table)),
        *(_vacuum_due(table) for table in known if _is_vacuum_due(table, now)),
        *(_stale(table) for table in known if _is_stale(table, now)),
    ]


def is_storage_error(table: Table) -> bool:
    """Whether the storage failed, not what lies there."""
    return table.mirror_error_code.startswith("LAKE_STORAGE")


def _unreachable(table: Table) -> Matter:
    shown = (
        f"Pages show version {table.version} as it was mirrored."
        if table.version is not None
        else "Nothing of it was read yet."
    )
    return Matter(
        "off",
        "unreachable",
        "Its storage does not answer" if is_storage_error(table) else "Its log cannot be read",
        table,
        f"{table.mirror_error} {shown}",
        table.mirrored_at,
        "Look",
        reverse("table", args=[table.pk]),
    )


def _escaped(tables: Iterable[Table], losses: Mapping[int, Losses]) -> Iterator[Matter]:
    for table in sorted(tables, key=lambda t: -losses.get(t.pk, Losses()).escaped):
        cost = losses.get(table.pk, Losses())
        if cost.escaped >= MANY_ESCAPED:
            why = (
                f"{format_count(cost.absorbed) if cost.absorbed else 'No'} more were resolved by rows."
                if table.row_level_eligible
                else f"No row-level concurrency: {table.row_level_reason or 'not eligible'}."
            )
            yield Matter(
                "warn",
                "look",
                f"{format_count(cost.escaped)} conflicts escaped",
                table,
                f"{format_duration(cost.wasted_ms)} of work thrown away. {why}",
                None,
                "Conflicts",
                f"{reverse('conflict-list')}?table={table.pk}",
            )


def _failed(job: Job) -> Matter:
    return Matter(
        "x",
        "failed",
        f"{job.kind.replace('_', ' ').upper()} failed",
        job.table,
        job.error_message or "The worker left no reason.",
        job.finished_at,
        "Open job",
        reverse("job", args=[job.pk]),
    )


def _has_small_files(table: Table) -> bool:
    return table.small_file_count >= FEW_FILES and table.small_file_count * 2 > table.file_count


def _small_files(table: Table) -> Matter:
    percent = round(100 * table.small_file_count / table.file_count)
    return Matter(
        "warn",
        "look",
        f"{percent} % of its files are small",
        table,
        f"{format_count(table.small_file_count)} of {format_count(table.file_count)} files. "
        "OPTIMIZE packs them; a dry run says into how many.",
        None,
        "Dry run",
        f"{reverse('job-new')}?table={table.pk}&kind=optimize&dry_run=on",
    )


def _is_vacuum_due(table: Table, now: datetime) -> bool:
    due = table.vacuum_from is not None and table.vacuum_from <= now
    return due and table.dead_bytes * 2 > table.size_bytes


def _vacuum_due(table: Table) -> Matter:
    return Matter(
        "warn",
        "look",
        f"{format_bytes(table.dead_bytes)} lie in files it no longer names",
        table,
        f"{format_count(table.dead_file_count)} files that only older versions need. VACUUM "
        "deletes those past their retention; a dry run says which versions are lost.",
        table.vacuum_from,
        "Dry run",
        f"{reverse('job-new')}?table={table.pk}&kind=vacuum&dry_run=on",
    )


def _is_stale(table: Table, now: datetime) -> bool:
    return (
        not table.mirror_error_code
        and table.mirrored_at is not None
        and now - table.mirrored_at > QUIET_MIRROR
    )


def _stale(table: Table) -> Matter:
    return Matter(
        "ring",
        "not read lately",
        "The mirror has not looked lately",
        table,
        f"Pages show version {table.version}; newer ones may have landed.",
        table.mirrored_at,
        "Look",
        reverse("table", args=[table.pk]),
    )
