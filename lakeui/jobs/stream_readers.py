"""Streams that read a table and ran as jobs here. Streams elsewhere leave no trace."""

from datetime import timedelta

from django.utils import timezone

from lakeui.catalog.access import Person
from lakeui.catalog.models import Table
from lakeui.jobs.filters import reads_from, visible_jobs

DAYS = 7
_LOOKED_AT = 200


def streams_reading(table: Table, user: Person) -> tuple[str, ...]:
    """Return the names of the streams of the last days whose jobs are visible to this person."""
    since = timezone.now() - timedelta(days=DAYS)
    lately = visible_jobs(user).filter(reads_from(table), kind="stream", created_at__gte=since)
    rows = lately.order_by("-created_at").values_list("parameters", "table__name")[:_LOOKED_AT]
    names = (parameters.get("stream_name") or f"into {target}" for parameters, target in rows)
    return tuple(dict.fromkeys(names))
