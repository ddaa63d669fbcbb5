"""Cron texts in words, where they say something that people say too."""

import re

_EVERY = re.compile(r"^\*/(\d+)$")
_DAYS = ("Sundays", "Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays")
_SPANS = {
    "1-5": "Mondays to Fridays",
    "mon-fri": "Mondays to Fridays",
    "0,6": "Saturdays and Sundays",
    "6,0": "Saturdays and Sundays",
}
_FIELDS = 5


def cron_in_words(cron: str) -> str:
    """Every day at 02:00 UTC; "" where the text is not so plain."""
    fields = cron.lower().split()
    if len(fields) != _FIELDS or fields[3] != "*":
        return ""
    minute, hour, day, _, weekday = fields
    if (day, weekday) == ("*", "*"):
        return _within_a_day(minute, hour)
    at, days = _time(minute, hour), _days(day, weekday)
    return f"{days} at {at}" if at and days else ""


def _days(day: str, weekday: str) -> str:
    if day == "*" and weekday in _SPANS:
        return _SPANS[weekday]
    if day == "*" and weekday.isdecimal() and int(weekday) <= len(_DAYS):
        return _DAYS[int(weekday) % len(_DAYS)]
    return f"on day {int(day)} of each month" if weekday == "*" and day.isdecimal() else ""


def _within_a_day(minute: str, hour: str) -> str:
    if at := _time(minute, hour):
        return f"every day at {at}"
    if (minute, hour) == ("*", "*"):
        return "every minute"
    if hour == "*" and (steps := _EVERY.match(minute)):
        return f"every {int(steps[1])} min"
    hours = _EVERY.match(hour)
    if not minute.isdecimal() or not (hours or hour == "*"):
        return ""
    often = f"every {int(hours[1])} h" if hours else "every hour"
    return f"{often} at :{int(minute):02d}"


def _time(minute: str, hour: str) -> str:
    is_plain = minute.isdecimal() and hour.isdecimal()
    return f"{int(hour):02d}:{int(minute):02d} UTC" if is_plain else ""
