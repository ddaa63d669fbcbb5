"""The lake's operation: alerts, workers, queues, Spark, jobs by the hour, the mirror."""

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from lakeui.api.caller import caller
from lakeui.api.fields import Int64Field, RecordedField
from lakeui.api.filtering import refuse_unknown
from lakeui.api.serializers.attention import AttentionItemSerializer
from lakeui.catalog.access import may, visible_tables
from lakeui.monitoring.attention import attention
from lakeui.monitoring.deliveries import outboxes
from lakeui.monitoring.mutes import group_mutes, mutes_now
from lakeui.monitoring.operations import queues
from lakeui.monitoring.recent_conflicts import day_of
from lakeui.monitoring.worker_state import spark_sum, throughput, worker_states

_LAGGING = 10
_ALERTS = 50  # of each check


class QueueSerializer(serializers.Serializer[Any]):
    """Waiting and running jobs of one kind of worker."""

    name = serializers.CharField()
    waiting = serializers.IntegerField()
    running = serializers.IntegerField()
    oldest_waiting_at = serializers.DateTimeField(allow_null=True)
    last_heartbeat_at = serializers.DateTimeField(allow_null=True)


class OutboxSerializer(serializers.Serializer[Any]):
    """Undelivered messages: alerts, and events of lineage."""

    name = serializers.CharField()
    waiting = serializers.IntegerField()
    oldest_at = serializers.DateTimeField(allow_null=True)
    error = RecordedField(help_text="Why the latest try failed.")


class WorkerSerializer(serializers.Serializer[Any]):
    """A worker's last report. Spark's numbers are null without Spark."""

    name = serializers.CharField(source="report.name")
    queue = serializers.CharField(source="report.queue")
    is_here = serializers.BooleanField()
    slots = serializers.IntegerField(source="report.slots")
    busy = serializers.IntegerField()
    started_at = serializers.DateTimeField(source="report.started_at")
    seen_at = serializers.DateTimeField(source="report.seen_at")
    spark_version = RecordedField(source="report.spark_version")
    spark_master = RecordedField(source="report.spark_master")
    executors = serializers.IntegerField(source="report.executors", allow_null=True)
    cores = serializers.IntegerField(source="report.cores", allow_null=True)
    busy_cores = serializers.IntegerField(source="report.busy_cores", allow_null=True)
    active_stages = serializers.IntegerField(source="report.active_stages", allow_null=True)
    spark_application = RecordedField(source="report.spark_application")
    spark_ui = serializers.CharField(
        source="pages.jobs",
        default=None,
        allow_null=True,
        help_text="Spark's own pages: of admins of all tables, while they are served.",
    )
    jobs = serializers.SerializerMethodField(help_text="The jobs it runs that you may see.")

    def get_jobs(self, state: Any) -> list[str]:
        return [str(job.pk) for job in state.jobs]


class SparkSerializer(serializers.Serializer[Any]):
    """All Spark workers together."""

    executors = serializers.IntegerField()
    cores = serializers.IntegerField()
    busy_cores = serializers.IntegerField()
    active_stages = serializers.IntegerField()


class HourSerializer(serializers.Serializer[Any]):
    """Jobs that ended in an hour, by outcome."""

    start = serializers.DateTimeField()
    succeeded = serializers.IntegerField()
    conflicted = serializers.IntegerField()
    failed = serializers.IntegerField()
    cancelled = serializers.IntegerField()


class MirroredSerializer(serializers.Serializer[Any]):
    """When a table was last synced from its log."""

    table_id = serializers.IntegerField(source="pk")
    table = serializers.CharField(source="name")
    version = serializers.IntegerField(allow_null=True)
    mirrored_at = serializers.DateTimeField()
    mirror_error = RecordedField()


class MonitoringSerializer(serializers.Serializer[Any]):
    """The state of the installation, on the tables you may see."""

    alerts = AttentionItemSerializer(
        many=True, help_text="What needs attention, the first 50 of each check: attention/."
    )
    queues = QueueSerializer(many=True)
    outboxes = OutboxSerializer(many=True, help_text="For maintainers of all tables.")
    workers = WorkerSerializer(many=True)
    spark = SparkSerializer(allow_null=True)
    hours = HourSerializer(many=True, help_text="The last 24, the one that runs last.")
    mean_wait_ms = Int64Field(
        allow_null=True, help_text="For a worker, of the latest 500 jobs of these hours."
    )
    longest_wait_ms = Int64Field(allow_null=True)
    mirror = MirroredSerializer(many=True, help_text="The 10 tables checked longest ago.")
    unread_tables = serializers.IntegerField()


class Monitoring(APIView):
    """Alerts, workers, queues, Spark, jobs by the hour and the mirror's lag, now."""

    @extend_schema(responses={200: MonitoringSerializer})
    def get(self, request: Request) -> Response:
        refuse_unknown(request, frozenset())
        user, now = caller(request), timezone.now()
        muted = group_mutes(mutes_now(now))
        states = worker_states(user)
        jobs = throughput(user, now)
        tables = visible_tables(user)
        mirrored = tables.filter(mirrored_at__isnull=False).order_by("mirrored_at")
        body = {
            "alerts": attention(user, now, day_of(user, now), muted, _ALERTS).items,
            "queues": queues(),
            "outboxes": outboxes() if may(user, "maintain") else (),
            "workers": states,
            "spark": spark_sum(states),
            "hours": jobs.hours,
            "mean_wait_ms": jobs.mean_wait_ms,
            "longest_wait_ms": jobs.longest_wait_ms,
            "mirror": mirrored[:_LAGGING],
            "unread_tables": tables.filter(mirrored_at__isnull=True, mirror_error_code="").count(),
        }
        return Response(MonitoringSerializer(body).data)
