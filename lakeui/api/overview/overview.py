"""The lake at a glance, since a moment."""

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from lakeui.api.caller import caller
from lakeui.api.fields import Int64Field, RecordedField
from lakeui.api.filtering import parse_query
from lakeui.api.serializers.attention import AttentionItemSerializer
from lakeui.api.serializers.conflict_costs import HourCostSerializer
from lakeui.catalog.commit_hours import commits_since
from lakeui.monitoring import overview as lake
from lakeui.monitoring.attention import attention
from lakeui.monitoring.first_steps import FirstStepKind, first_steps
from lakeui.monitoring.mutes import group_mutes, mutes_now
from lakeui.monitoring.news import news
from lakeui.monitoring.partition_costs import partition_costs
from lakeui.monitoring.recent_conflicts import day_of
from lakeui.monitoring.running_jobs import list_running_jobs
from lakeui.monitoring.table_ranking import table_counts


class OverviewRequestSerializer(serializers.Serializer[Any]):
    """From when on."""

    since = serializers.DateTimeField(required=False, help_text="24 hours ago, if not given.")


class AbortedPairSerializer(serializers.Serializer[Any]):
    """The operations of a conflict, the aborted one first."""

    current = RecordedField()
    winner = RecordedField()
    times = serializers.IntegerField()
    wasted_ms = Int64Field()


class NewsSerializer(serializers.Serializer[Any]):
    """The news of one table. `first` and `last` are its new versions."""

    table_id = serializers.IntegerField(source="table.pk")
    table = serializers.CharField(source="table.name")
    commits = serializers.IntegerField()
    first = serializers.IntegerField(allow_null=True)
    last = serializers.IntegerField(allow_null=True)
    aborted = serializers.IntegerField()
    resolved = serializers.IntegerField()
    failed_jobs = serializers.IntegerField()


class RunningSerializer(serializers.Serializer[Any]):
    """A job at work. `expected_at`: the median of earlier runs of its kind on its table; null: fewer than 3."""

    job_id = serializers.UUIDField(source="job.pk")
    kind = serializers.CharField(source="job.kind")
    table = serializers.CharField(source="job.table.name")
    state = serializers.CharField(source="job.state")
    started_at = serializers.DateTimeField(source="job.started_at", allow_null=True)
    attempts = serializers.IntegerField(source="job.attempts")
    stage = serializers.CharField(source="job.progress_stage")
    done = Int64Field(source="job.progress_done")
    total = Int64Field(source="job.progress_total")
    unit = serializers.CharField(source="job.progress_unit")
    expected_at = serializers.DateTimeField(allow_null=True)
    expected_from_runs = serializers.IntegerField(source="usual.runs", default=0)


class WaitingSerializer(serializers.Serializer[Any]):
    """A job in the queue."""

    job_id = serializers.UUIDField(source="pk")
    kind = serializers.CharField()
    table = serializers.CharField(source="table.name")
    created_at = serializers.DateTimeField()


class DueSerializer(serializers.Serializer[Any]):
    """A schedule and when it fires next."""

    schedule_id = serializers.IntegerField(source="pk")
    name = serializers.CharField()
    kind = serializers.CharField()
    table = serializers.CharField(source="table.name")
    owner = serializers.CharField(source="owner.username")
    next_due_at = serializers.DateTimeField()


class PartitionCostSerializer(serializers.Serializer[Any]):
    """The cost of one pair of operations in a partition; null: the conflict names none."""

    table_id = serializers.IntegerField(allow_null=True)
    table = RecordedField(allow_null=True)
    partition = RecordedField(allow_null=True)
    current = RecordedField()
    winner = RecordedField()
    times = serializers.IntegerField()
    wasted_ms = Int64Field()


class TableCountsSerializer(serializers.Serializer[Any]):
    """How many tables need attention, had an aborted write in 24 hours, or have no row-level concurrency."""

    attention = serializers.IntegerField()
    aborted = serializers.IntegerField()
    no_row_level = serializers.IntegerField()


class FirstStepSerializer(serializers.Serializer[Any]):
    """A first step on this installation, and whether it is done."""

    step = serializers.ChoiceField(choices=list(FirstStepKind))
    done = serializers.BooleanField()


class OverviewSerializer(serializers.Serializer[Any]):
    """Sums over the tables visible to you, and their news since a time."""

    since = serializers.DateTimeField()
    table_count = serializers.IntegerField()
    unhealthy_count = serializers.IntegerField()
    eligible_count = serializers.IntegerField()
    file_count = serializers.IntegerField()
    size_bytes = Int64Field()
    commit_count = serializers.IntegerField()
    growth_bytes = Int64Field(
        allow_null=True,
        help_text="Bytes that commits added less those they removed, in whole hours; null: you see a part.",
    )
    job_count = serializers.IntegerField()
    failed_job_count = serializers.IntegerField()
    aborted = serializers.IntegerField()
    resolved = serializers.IntegerField()
    wasted_ms = Int64Field()
    wasted_bytes = Int64Field()
    pairs = AbortedPairSerializer(many=True)
    changed_table_count = serializers.IntegerField()
    news = NewsSerializer(many=True, help_text="The first 50 tables, what went wrong first.")
    table_counts = TableCountsSerializer()
    attention_count = serializers.IntegerField()
    attention = AttentionItemSerializer(
        many=True, help_text="The first 3 of each check; all: attention/."
    )
    running_count = serializers.IntegerField()
    running = RunningSerializer(many=True, help_text="The 12 that began first.")
    queued_count = serializers.IntegerField()
    queued = WaitingSerializer(many=True, help_text="The 4 that are next.")
    due = DueSerializer(many=True, help_text="The 4 schedules that are due next.")
    commit_count_24_hours = serializers.IntegerField()
    cost_by_hour = HourCostSerializer(many=True, help_text="Of the last 24 hours.")
    cost_by_partition = PartitionCostSerializer(
        many=True,
        help_text="Of the latest 1,000 writes that were aborted in 24 hours, the costliest 200.",
    )
    first_steps = FirstStepSerializer(
        many=True, help_text="For maintainers and admins, while one is left."
    )


_NEWS, _OF_A_CHECK, _PARTITIONS = 50, 3, 200


class Overview(GenericAPIView[Any]):
    """The lake at a glance: sums, and the news since a time, table by table."""

    serializer_class = OverviewSerializer

    @extend_schema(parameters=[OverviewRequestSerializer])
    def get(self, request: Request) -> Response:
        user = caller(request)
        since = parse_query(request, OverviewRequestSerializer).get("since")
        now = timezone.now()
        day, at_work = day_of(user, now), list_running_jobs(user)
        since = since or day.since
        whole, happened = lake.lake_of(user), lake.activity(user, since, day)
        new = news(user, since, _NEWS)
        conflicts = happened.conflicts
        told = attention(user, now, day, group_mutes(mutes_now(now)), _OF_A_CHECK)
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
            "aborted": conflicts.aborted,
            "resolved": conflicts.resolved,
            "wasted_ms": conflicts.wasted_ms,
            "wasted_bytes": conflicts.wasted_bytes,
            "pairs": conflicts.pairs,
            "changed_table_count": new.table_count,
            "news": new.first,
            "table_counts": table_counts(user, day, whole),
            "attention_count": told.count,
            "attention": told.items,
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
            "first_steps": first_steps(user),
        }
        return Response(OverviewSerializer(body).data)
