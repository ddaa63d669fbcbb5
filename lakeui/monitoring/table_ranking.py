"""The tables of the first page: filtered by attention, in the requested order."""

from typing import Any

from django.db.models import F, Q, QuerySet

from lakeui.catalog.access import Person, visible_tables
from lakeui.catalog.health import Health
from lakeui.catalog.models import HEAVY
from lakeui.monitoring.attention_items import NONE
from lakeui.monitoring.overview import Lake
from lakeui.monitoring.recent_conflicts import ConflictsOfDay
from lakeui.monitoring.table_health import annotate_health, select_aborted_tables

SHOWS = ("attention", "aborted", "no_row_level")
_COLUMNS = {
    "name": "name",
    "version": "version",
    "last_commit": "last_commit_at",
    "size": "size_bytes",
    "files": "file_count",
    "small_files": "small_file_count",
}
SORTS = frozenset({*_COLUMNS, *(f"-{name}" for name in _COLUMNS), "-aborted"})
_FINE = (Health.HEALTHY, Health.PENDING)
_MOST_NAMED = 1_000  # tables by number, in one question


def list_leading_tables(
    user: Person, day: ConflictsOfDay, count: int, *, show: str = "", sort: str = "-aborted"
) -> list[Any]:
    """List tables with their health; by default those with most aborted writes in the day first."""
    tables = annotate_health(visible_tables(user)).defer(*HEAVY)
    narrowed = tables.filter(_matches(show, day)) if show else tables
    if sort == "-aborted":
        return _worst_first(narrowed, day, count)
    backwards, name = sort.startswith("-"), sort.removeprefix("-")
    column = F(_COLUMNS[name])
    order = column.desc(nulls_last=True) if backwards else column.asc(nulls_last=True)
    return list(narrowed.order_by(order, "name")[:count])


def table_counts(user: Person, day: ConflictsOfDay, whole: Lake) -> dict[str, int]:
    """Count the tables of each filter, using the sums of one pass over all."""
    aborted = sorted(many_aborted(day))[:_MOST_NAMED]
    fine = annotate_health(visible_tables(user)).filter(pk__in=aborted or NONE, health__in=_FINE)
    return {
        "attention": whole.ill_count + fine.count(),
        "aborted": len(_count_aborted_by_table(day)),
        "no_row_level": whole.no_row_level_count,
    }


def many_aborted(day: ConflictsOfDay) -> set[int]:
    """Return the tables with enough aborted writes in the day to need attention."""
    return select_aborted_tables(_count_aborted_by_table(day))


def _matches(show: str, day: ConflictsOfDay) -> Q:
    if show == "no_row_level":
        return Q(row_level_eligible=False, version__isnull=False)
    if show == "aborted":
        return Q(pk__in=_worst(day, _MOST_NAMED))
    return ~Q(health__in=_FINE) | Q(pk__in=sorted(many_aborted(day))[:_MOST_NAMED])


def _worst_first(tables: "QuerySet[Any]", day: ConflictsOfDay, count: int) -> list[Any]:
    aborted, worst = _count_aborted_by_table(day), _worst(day, count)
    leading = sorted(tables.filter(pk__in=worst), key=lambda t: (-aborted[t.pk], t.name))
    if len(leading) < count:
        leading += list(tables.exclude(pk__in=worst).order_by("name")[: count - len(leading)])
    return leading


def _worst(day: ConflictsOfDay, count: int) -> list[int]:
    aborted = _count_aborted_by_table(day)
    return sorted(aborted, key=lambda pk: (-aborted[pk], pk))[:count]


def _count_aborted_by_table(day: ConflictsOfDay) -> dict[int, int]:
    return {
        pk: conflicts.aborted for pk, conflicts in day.by_table.items() if pk and conflicts.aborted
    }
