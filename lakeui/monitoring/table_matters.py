"""Tables that cannot be read, or that need compacting, cleaning or a look of the mirror."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from django.db.models import Case, CharField, Count, Q, Value, When

from lakeui.catalog.access import visible_tables
from lakeui.catalog.health import MANY_SMALL, VACUUM_DUE
from lakeui.catalog.models import Table
from lakeui.monitoring.checks import ORDER, QUIET_MIRROR, Check
from lakeui.monitoring.matters import Asked, Found, Matter


def table_matters(asked: Asked) -> Iterator[Found]:
    """One trouble a table, the worst; small files, the most first."""
    here = visible_tables(asked.user).annotate(trouble=_trouble(asked)).exclude(trouble="")
    counted = here.order_by().values_list("trouble").annotate(n=Count("pk"))
    counts = dict(counted)
    rank = Case(*(When(trouble=check, then=Value(place)) for place, check in enumerate(ORDER)))
    listed = here.annotate(rank=rank).order_by("rank", "-small_file_count", "name")
    rows = list(listed.defer("schema", "row_level_conditions")[: asked.most])
    for check in _OF_TABLES:
        if counts.get(check):
            some = [_of_table(check, row) for row in rows if row.trouble == check]
            yield check, counts[check], some


_OF_TABLES: Mapping[Check, tuple[str, ...]] = {
    Check.UNREACHABLE: ("mirror_error_code", "mirror_error", "mirror_tries", "version"),
    Check.SMALL_FILES: ("small_file_count", "file_count", "last_optimize_at"),
    Check.VACUUM_DUE: ("dead_bytes", "dead_file_count", "last_vacuum_at"),
    Check.MIRROR_QUIET: ("version",),
}
_BEGAN = {
    Check.UNREACHABLE: "mirror_failed_at",
    Check.VACUUM_DUE: "vacuum_from",
    Check.MIRROR_QUIET: "mirrored_at",
}


def _of_table(check: Check, table: Table) -> Matter:
    facts = {name: getattr(table, name) for name in _OF_TABLES[check]}
    began: datetime | None = getattr(table, _BEGAN[check]) if check in _BEGAN else None
    return Matter(check=check, table=table, since=began, facts=facts)


def _trouble(asked: Asked) -> Case:
    quiet = Q(mirror_error_code="", mirrored_at__lt=asked.now - QUIET_MIRROR)
    of_each = (
        (Check.UNREACHABLE, ~Q(mirror_error_code="")),
        (Check.SMALL_FILES, MANY_SMALL),
        (Check.VACUUM_DUE, VACUUM_DUE),
        (Check.MIRROR_QUIET, quiet),
    )
    told = (
        When(wrong & ~Q(pk__in=asked.muted.of(check)), then=Value(check.value))
        for check, wrong in of_each
        if not asked.muted.hides(check)
    )
    return Case(*told, default=Value(""), output_field=CharField())
