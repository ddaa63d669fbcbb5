"""The lake at a glance, since a moment."""

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from lakeui.api.caller import caller
from lakeui.api.filtering import asked
from lakeui.api.serializers.overview import OverviewRequestSerializer, OverviewSerializer
from lakeui.catalog.commit_hours import commits_since
from lakeui.monitoring import overview as lake
from lakeui.monitoring.attention import attention
from lakeui.monitoring.leading import table_counts
from lakeui.monitoring.losses import day_of
from lakeui.monitoring.mutes import muted, mutes_now
from lakeui.monitoring.news import news
from lakeui.monitoring.partition_costs import partition_costs
from lakeui.monitoring.running import running_now

_NEWS, _OF_A_CHECK, _PARTITIONS = 50, 3, 200


class Overview(GenericAPIView[Any]):
    """The lake at a glance: sums, and what is new since a moment, table by table."""

    serializer_class = OverviewSerializer

    @extend_schema(parameters=[OverviewRequestSerializer])
    def get(self, request: Request) -> Response:
        user = caller(request)
        since = asked(request, OverviewRequestSerializer).get("since")
        now = timezone.now()
        day, at_work = day_of(user, now), running_now(user)
        since = since or day.since
        whole, happened = lake.lake_of(user), lake.activity(user, since, day)
        new = news(user, since, _NEWS)
        met = happened.conflicts
        told = attention(user, now, day, muted(mutes_now(now)), _OF_A_CHECK)
        body = {
            "since": since,
            "table_count": whole.table_count,
            "unhealthy_count": whole.unhealthy_count,
            "eligible_count": whole.eligible_count,
            "file_count": whole.file_count,
            "size_bytes": whole.size_bytes,
            "commit_count": happened.commit_count,
            "growth_bytes": happened.growth_bytes,
            "job_count": happened.job_count,
            "failed_job_count": happened.failed_job_count,
            "escaped": met.escaped,
            "absorbed": met.absorbed,
            "wasted_ms": met.wasted_ms,
            "wasted_bytes": met.wasted_bytes,
            "pairs": met.pairs,
            "changed_table_count": new.table_count,
            "news": new.first,
            "table_counts": table_counts(user, day, whole),
            "attention_count": told.count,
            "attention": told.matters,
            "running_count": at_work.running_count,
            "running": at_work.running,
            "queued_count": at_work.queued_count,
            "queued": at_work.queued,
            "due": at_work.due,
            "commit_count_24_hours": happened.commit_count
            if since == day.since
            else commits_since(user, day.since),
            "cost_by_hour": [
                {"pair": pair, "hour": hour, "wasted_ms": cost}
                for (pair, hour), cost in day.cost_by_hour.items()
            ],
            "cost_by_partition": partition_costs(user, now).rows[:_PARTITIONS],
        }
        return Response(OverviewSerializer(body).data)
