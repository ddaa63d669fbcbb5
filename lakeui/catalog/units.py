"""Format bytes, counts, times and spans of time for people, always with their unit."""

from datetime import datetime, timedelta

from django.utils import timezone

_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_HUGE = ("TiB", "PiB", "EiB")
MINUS = "\N{MINUS SIGN}"


def format_bytes(size_bytes: float) -> str:
    """Format bytes as 96.4 GiB: IEC units, three significant digits."""
    sign, size = (MINUS if size_bytes < 0 else ""), abs(float(size_bytes))
    for unit in _BYTE_UNITS:
        if size < 1024 or unit == _BYTE_UNITS[-1]:
            break
        size /= 1024
    digits = 0 if unit == "B" or size == int(size) or size >= 1000 else 2 if unit in _HUGE else 1
    return f"{sign}{size:,.{digits}f} {unit}"


def format_count(number: float) -> str:
    """Format a count as 1,204."""
    return f"{number:,}".replace("-", MINUS)


def format_position(per_cent: float) -> str:
    """Format a position in a chart, in per cent: short, with a point."""
    return f"{per_cent:.2f}".rstrip("0").rstrip(".") + "%"


def format_duration(milliseconds: float) -> str:
    """Format a duration as 7 min 42 s: two units at most."""
    whole_ms = round(abs(milliseconds))
    seconds = whole_ms / 1000
    if whole_ms < 1000:
        return f"{whole_ms} ms"
    if whole_ms < 9950:  # from there on it would read 10.0 s
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, unit, smaller, small_unit in (
        (86_400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit}" + (f" {rest} {small_unit}" if rest else "")
    return f"{whole} s"


def format_ago(moment: datetime, now: datetime) -> str:
    """Format a time as 12 min ago, in 4 s, just now."""
    elapsed = now - moment
    if abs(elapsed) < timedelta(seconds=2):
        return "just now"
    if elapsed > timedelta(0):
        return f"{_coarse(elapsed)} ago"
    since_it_was_set = timedelta(minutes=1) if elapsed < -timedelta(hours=1) else timedelta(0)
    return f"in {_coarse(since_it_was_set - elapsed)}"


def clock_text(moment: datetime) -> str:
    """Return 02:31:02 today, 19 Nov 02:31:02 this year, 19 Nov 2025 02:31 before that."""
    local, today = timezone.localtime(moment), timezone.localtime()
    if local.date() == today.date():
        return local.strftime("%H:%M:%S")
    if local.year == today.year:
        return f"{local.day} {local:%b %H:%M:%S}"
    return f"{local.day} {local:%b %Y %H:%M}"


def _coarse(span: timedelta) -> str:
    if span >= timedelta(days=2):
        return f"{span.days} d"
    if span >= timedelta(hours=3):
        return f"{span // timedelta(hours=1)} h"
    if timedelta(minutes=10) <= span < timedelta(hours=1):
        return f"{span // timedelta(minutes=1)} min"
    return format_duration(round(span.total_seconds()) * 1000).replace(".0 s", " s")
