"""The tables that the first page lists: narrowed to what needs a look, in the order asked for."""

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import Count, F, Q, QuerySet

from lakeui.catalog.access import Person, visible_tables
from lakeui.catalog.health import Health, with_health
from lakeui.monitoring.overview import Day

SHOWS = ("attention", "escaped", "no_row_level")
_COLUMNS = {
    "name": "name",
    "version": "version",
    "last_commit": "last_commit_at",
    "size": "size_bytes",
    "files": "file_count",
    "small_files": "small_file_count",
}
SORTS = frozenset({*_COLUMNS, *(f"-{name}" for name in _COLUMNS), "-escaped"})
_FINE = (Health.HEALTHY, Health.PENDING)
_MOST_NAMED = 1_000  # tables by number, in one question


@dataclass(frozen=True, slots=True)
class Leading:
    """The first tables of those that match, and how many match each way of narrowing."""

    tables: list[Any]
    counts: dict[str, int]


def leading_tables(
    user: Person, day: Day, count: int, *, show: str = "", sort: str = "-escaped"
) -> Leading:
    """At first the tables that lost most in the day, then the others by name; with their health."""
    tables = with_health(visible_tables(user))
    narrowed = tables.filter(_matches(show, day)) if show else tables
    counts = table_counts(user, day)
    if sort == "-escaped":
        return Leading(_worst_first(narrowed, day, count), counts)
    backwards, name = sort.startswith("-"), sort.removeprefix("-")
    column = F(_COLUMNS[name])
    order = column.desc(nulls_last=True) if backwards else column.asc(nulls_last=True)
    return Leading(list(narrowed.order_by(order, "name")[:count]), counts)


def table_counts(user: Person, day: Day) -> dict[str, int]:
    """How many tables match each way of narrowing."""
    tables = with_health(visible_tables(user)).order_by()
    matching = {each: Count("pk", _matches(each, day)) for each in SHOWS if each != "escaped"}
    return {**tables.aggregate(**matching), "escaped": len(_lost(day))}


def many_lost(day: Day) -> set[int]:
    """The tables that lost so many writes in the day that somebody should look."""
    return {pk for pk, lost in _lost(day).items() if lost >= settings.ATTENTION_ESCAPED}


def _matches(show: str, day: Day) -> Q:
    if show == "no_row_level":
        return Q(row_level_eligible=False, version__isnull=False)
    if show == "escaped":
        return Q(pk__in=_worst(day, _MOST_NAMED))
    return ~Q(health__in=_FINE) | Q(pk__in=sorted(many_lost(day))[:_MOST_NAMED])


def _worst_first(tables: "QuerySet[Any]", day: Day, count: int) -> list[Any]:
    lost, worst = _lost(day), _worst(day, count)
    found = sorted(tables.filter(pk__in=worst), key=lambda t: (-lost[t.pk], t.name))
    if len(found) < count:
        found += list(tables.exclude(pk__in=worst).order_by("name")[: count - len(found)])
    return found


def _worst(day: Day, count: int) -> list[int]:
    lost = _lost(day)
    return sorted(lost, key=lambda pk: (-lost[pk], pk))[:count]


def _lost(day: Day) -> dict[int, int]:
    return {pk: each.escaped for pk, each in day.by_table.items() if pk and each.escaped}
