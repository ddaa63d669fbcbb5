"""Cron texts in words, if there is a common phrase for them."""

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
_IN_EVERY_MONTH = 28


def cron_in_words(cron: str) -> str:
    """Return words such as "Every day at 02:00 UTC"; "" if there is no common phrase."""
    fields = cron.lower().split()
    if len(fields) != _FIELDS or fields[3] != "*":
        return ""
    minute, hour, day, _, weekday = fields
    if (day, weekday) == ("*", "*"):
        return _describe_time_of_day(minute, hour)
    at, days = _time(minute, hour), _days(day, weekday)
    return f"{days} at {at}" if at and days else ""


def _days(day: str, weekday: str) -> str:
    if day == "*" and weekday in _SPANS:
        return _SPANS[weekday]
    if day == "*" and weekday.isdecimal() and int(weekday) <= len(_DAYS):
        return _DAYS[int(weekday) % len(_DAYS)]
    if weekday != "*" or not day.isdecimal():
        return ""
    some = " that has one" if int(day) > _IN_EVERY_MONTH else ""
    return f"on day {int(day)} of each month{some}"


def _describe_time_of_day(minute: str, hour: str) -> str:
    if at := _time(minute, hour):
        return f"every day at {at}"
    if (minute, hour) == ("*", "*"):
        return "every minute"
    if hour == "*" and (minutes := _even_step(minute, 60)):
        return "every minute" if minutes == 1 else f"every {minutes} min"
    hours = 1 if hour == "*" else _even_step(hour, 24)
    if not minute.isdecimal() or not hours:
        return ""
    often = "every hour" if hours == 1 else f"every {hours} h"
    return f"{often} at :{int(minute):02d}"


def _even_step(text: str, whole: int) -> int:
    """Return the step of `*/15`; 0 for none, or if it is uneven: `*/40` fires at :00 and :40."""
    step = int(stepped[1]) if (stepped := _EVERY.match(text)) else 0
    return step if step and whole % step == 0 else 0


def _time(minute: str, hour: str) -> str:
    is_plain = minute.isdecimal() and hour.isdecimal()
    return f"{int(hour):02d}:{int(minute):02d} UTC" if is_plain else ""
