"""When something happened, as pages say it: absolute with its zone, and relative."""

from datetime import UTC, datetime

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from lakeui.catalog import units
from lakeui.catalog.models import Table
from lakeui.catalog.syncs import next_sync_at
from lakeui.jobs.timeline import span_ms

NOT_RECORDED = format_html('<span class="none">{}</span>', "not recorded")


def when(moment: datetime | None, nothing: str = "not recorded") -> SafeString:
    """Absolute with its zone, relative beside it."""
    if moment is None:
        return format_html('<span class="none">{}</span>', nothing)
    return format_html(
        '<span class="when"><time datetime="{}" title="{}">{} {}</time><small>{}</small></span>',
        _rfc3339(moment),
        _rfc3339(moment),
        units.clock_text(moment),
        timezone.localtime(moment).tzname(),
        units.format_ago(moment, timezone.now()),
    )


def clock(moment: datetime | None) -> SafeString:
    """Render the absolute time for a column with a zone in its head; relative in its title."""
    if moment is None:
        return NOT_RECORDED
    return format_html(
        '<time class="mono" datetime="{}" title="{}, {}">{}</time>',
        _rfc3339(moment),
        _rfc3339(moment),
        units.format_ago(moment, timezone.now()),
        units.clock_text(moment),
    )


def clock_short(moment: datetime | None) -> SafeString:
    """Format a moment to the minute, for narrow columns; the title has it whole."""
    if moment is None:
        return NOT_RECORDED
    local, today = timezone.localtime(moment), timezone.localtime()
    if local.date() == today.date():
        text = f"{local:%H:%M}"
    elif local.year == today.year:
        text = f"{local.day} {local:%b %H:%M}"
    else:
        text = f"{local.day} {local:%b %Y}"
    return format_html(
        '<time class="mono" datetime="{}" title="{} {}, {}">{}</time>',
        _rfc3339(moment),
        units.clock_text(moment),
        local.tzname(),
        units.format_ago(moment, timezone.now()),
        text,
    )


def next_try(table: Table) -> str:
    """Say when the mirror tries again to read a table."""
    at = next_sync_at(table)
    return f", next {units.format_ago(at, timezone.now())}" if at else ", the next is due"


def format_time_left(expected_at: datetime, runs: int) -> str:
    """Format the time left, coarsely: it is an estimate from earlier runs."""
    seconds = (expected_at - timezone.now()).total_seconds()
    if seconds < 0:
        return f"longer than {runs} before"
    if seconds < 10:
        return "a few seconds"
    if seconds < 100:
        return f"about {round(seconds / 10) * 10} s"
    return f"about {units.format_duration(round(seconds / 60) * 60_000)}"


def stamp(moment: datetime) -> SafeString:
    """Render the time of day of a log line, to the millisecond."""
    local = timezone.localtime(moment)
    text = f"{local:%H:%M:%S}.{local.microsecond // 1000:03d}"
    return format_html('<time datetime="{}">{}</time>', _rfc3339(moment), text)


def ago(moment: datetime | None, nothing: str = "never") -> SafeString:
    """Relative, the absolute time in its title."""
    if moment is None:
        return format_html('<span class="none">{}</span>', nothing)
    return format_html(
        '<time datetime="{}" title="{} {}">{}</time>',
        _rfc3339(moment),
        units.clock_text(moment),
        timezone.localtime(moment).tzname(),
        units.format_ago(moment, timezone.now()),
    )


def old(moment: datetime) -> SafeString:
    """Render the age, with the absolute time in its title: 2 s old."""
    text = units.format_ago(moment, timezone.now()).removesuffix(" ago")
    title = f"{units.clock_text(moment)} {timezone.localtime(moment).tzname()}"
    said = text if text == "just now" else f"{text} old"
    return format_html('<time datetime="{}" title="{}">{}</time>', _rfc3339(moment), title, said)


def format_span(later: datetime | None, earlier: datetime | None) -> str:
    """Format the span between two times; to now if the later is missing."""
    if earlier is None:
        return ""
    return units.format_duration(span_ms(earlier, later or timezone.now()))


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
