"""Judge the health of tables in the database, by their rows and their stopped streams."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Case, CharField, Exists, OuterRef, Q, QuerySet, Value, When
from django.utils import timezone

from lakeui.catalog.health import Health, has_many_small_files, is_vacuum_due
from lakeui.catalog.models import Table
from lakeui.jobs.models import Job
from lakeui.jobs.streams import select_stopped_streams
from lakeui.monitoring.attention_items import exclude_muted_pairs
from lakeui.monitoring.conditions import Condition
from lakeui.monitoring.models import Mute
from lakeui.monitoring.mutes import group_mutes, mutes_now
from lakeui.monitoring.recent_conflicts import TableSums


def annotate_health(tables: QuerySet[Table]) -> QuerySet[Any]:
    """Add `health`, a value of `Health`, to each table. A muted condition does not count."""
    now = timezone.now()
    since = now - timedelta(days=settings.ATTENTION_STREAM_DAYS)
    stopped = select_stopped_streams(Job.objects.all(), since)
    small = has_many_small_files(settings.ATTENTION_SMALL_FILES)
    judged = (
        (Condition.STREAM_STOPPED, Q(pk__in=stopped.values("table")), Health.STREAM_STOPPED),
        (Condition.SMALL_FILES, small, Health.SMALL_FILES),
        (Condition.VACUUM_DUE, is_vacuum_due(), Health.VACUUM_DUE),
    )
    mutes = Mute.objects.filter(Q(table=None) | Q(table=OuterRef("pk")), until__gt=now)
    health = Case(
        When(~Q(mirror_error_code=""), then=Value(Health.UNREACHABLE)),
        When(version__isnull=True, then=Value(Health.PENDING)),
        *(
            When(holds & ~Q(Exists(mutes.filter(about=condition))), then=Value(health))
            for condition, holds, health in judged
        ),
        default=Value(Health.HEALTHY),
        output_field=CharField(),
    )
    return tables.annotate(health=health)


def select_aborted_tables(aborted_by_table: Mapping[int, int]) -> set[int]:
    """Return the tables with enough aborted writes in a day to need attention."""
    now = timezone.now()
    muted = group_mutes(mutes_now(now))
    if muted.hides(Condition.ABORTED):
        return set()
    hidden = muted.list_muted_tables(Condition.ABORTED)
    sums = {pk: TableSums(aborted=count) for pk, count in aborted_by_table.items()}
    told = exclude_muted_pairs(sums, muted, now)
    many = settings.ATTENTION_ABORTED
    return {pk for pk, cost in told.items() if cost.aborted >= many and pk not in hidden}
