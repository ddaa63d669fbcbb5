"""The lake's operation: workers, queues, Spark, jobs, the mirror, reads for people, and alerts.

Health tells clients of REST alone whether the installation can work.
"""

from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import PermissionDenied
from rest_framework.generics import GenericAPIView, ListAPIView, get_object_or_404
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from lakeui.api.authentication import caller
from lakeui.api.fields import Int64Field, RecordedField
from lakeui.api.listing import parse_body, parse_query, refuse_all, refuse_unknown
from lakeui.api.serializers.monitoring import (
    AlertsSerializer,
    AttentionItemSerializer,
    ChannelChangeSerializer,
    ChannelRequestSerializer,
    ChannelSerializer,
    DeliverySerializer,
    NewChannelSerializer,
    RuleChangeSerializer,
    RuleRequestSerializer,
    RuleSerializer,
)
from lakeui.api.serializers.request import RangeRequestSerializer
from lakeui.api.table_views import require
from lakeui.catalog.access import may, visible_tables
from lakeui.catalog.hours import RANGES
from lakeui.catalog.models import RowRead
from lakeui.catalog.reads import cancel_read, filter_cancellable, list_reads
from lakeui.jobs.turns import beat_seen_at
from lakeui.monitoring.alerting.channels import (
    change_channel,
    change_rule,
    make_channel,
    make_rule,
    send_test,
)
from lakeui.monitoring.attention import CONDITIONS, attention
from lakeui.monitoring.deliveries import outboxes
from lakeui.monitoring.health import readiness
from lakeui.monitoring.models import AlertChannel, AlertDelivery, AlertRule
from lakeui.monitoring.mutes import group_mutes, mutes_now
from lakeui.monitoring.operations import queues
from lakeui.monitoring.recent_conflicts import day_of
from lakeui.monitoring.worker_state import spark_sum, throughput, worker_states

_LAGGING = 10
_ALERTS = 50  # of each check

_SHOWN = 20


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
    error = RecordedField(help_text="Why the latest attempt failed.")


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
        help_text="The URL of Spark's own pages. Only for admins of all tables, while Spark serves "
        "them.",
    )
    jobs = serializers.SerializerMethodField(
        help_text="The jobs that it runs, if you may see them."
    )

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
    """The time at which a table was last synced from its log."""

    table_id = serializers.IntegerField(source="pk")
    table = serializers.CharField(source="name")
    version = serializers.IntegerField(allow_null=True)
    mirrored_at = serializers.DateTimeField()
    mirror_error = RecordedField()


class MonitoringSerializer(serializers.Serializer[Any]):
    """The state of the installation, on the tables you may see."""

    alerts = AttentionItemSerializer(
        many=True,
        help_text="What needs attention, at most 50 items of each check. attention/ lists all.",
    )
    queues = QueueSerializer(many=True)
    outboxes = OutboxSerializer(many=True, help_text="Only for maintainers of all tables.")
    workers = WorkerSerializer(many=True)
    beat_seen_at = serializers.DateTimeField(
        allow_null=True, help_text="The last sign of life of beat, which starts periodic tasks."
    )
    spark = SparkSerializer(allow_null=True)
    hours = HourSerializer(
        many=True, help_text="The hours of 24h, or the days in UTC of 7d and 30d; now is the last."
    )
    mean_wait_ms = Int64Field(
        allow_null=True,
        help_text="Waiting time for a worker, of the latest 500 jobs of these hours.",
    )
    longest_wait_ms = Int64Field(allow_null=True)
    mirror = MirroredSerializer(many=True, help_text="The 10 tables whose last sync is oldest.")
    unread_tables = serializers.IntegerField()


class Monitoring(APIView):
    """Alerts, workers, queues, Spark, jobs by the hour and the mirror's lag, now."""

    @extend_schema(parameters=[RangeRequestSerializer], responses={200: MonitoringSerializer})
    def get(self, request: Request) -> Response:
        time_range = RANGES[parse_query(request, RangeRequestSerializer)["range"]]
        user, now = caller(request), timezone.now()
        muted = group_mutes(mutes_now(now))
        states = worker_states(user)
        jobs = throughput(user, now, time_range)
        tables = visible_tables(user)
        mirrored = tables.filter(mirrored_at__isnull=False).order_by("mirrored_at")
        body = {
            "alerts": attention(user, now, day_of(user, now), muted, _ALERTS).items,
            "queues": queues(),
            "outboxes": outboxes() if may(user, "maintain") else (),
            "workers": states,
            "beat_seen_at": beat_seen_at(),
            "spark": spark_sum(states),
            "hours": jobs.hours,
            "mean_wait_ms": jobs.mean_wait_ms,
            "longest_wait_ms": jobs.longest_wait_ms,
            "mirror": mirrored[:_LAGGING],
            "unread_tables": tables.filter(mirrored_at__isnull=True, mirror_error_code="").count(),
        }
        return Response(MonitoringSerializer(body).data)


class ReadSerializer(serializers.ModelSerializer[RowRead]):
    """A read of rows for a person: waiting, or running on a worker."""

    table = serializers.CharField(source="table.name", read_only=True)
    requested_by = serializers.CharField(
        source="requested_by.username", default=None, allow_null=True, read_only=True
    )

    class Meta:
        model = RowRead
        fields = [
            "id",
            "table_id",
            "table",
            "subject",
            "requested_by",
            "asked_at",
            "began_at",
            "worker",
        ]


class ReadList(ListAPIView[RowRead]):
    """The reads of tables you may see that wait or run."""

    queryset = RowRead.objects.none()
    serializer_class = ReadSerializer

    def get_queryset(self) -> QuerySet[RowRead]:
        return list_reads(self.request.user)


class ReadCancel(GenericAPIView[RowRead]):
    """Cancel a read: your own, or one of a table that you may maintain."""

    queryset = RowRead.objects.none()
    serializer_class = ReadSerializer
    lookup_url_kwarg = "read_id"

    def get_queryset(self) -> QuerySet[RowRead]:
        return list_reads(self.request.user)

    @extend_schema(request=None, responses={204: None})
    def post(self, request: Request, read_id: Any) -> Response:
        read = self.get_object()
        refuse_all(request)
        if not filter_cancellable(self.get_queryset(), request.user).filter(pk=read_id).exists():
            raise PermissionDenied
        cancel_read(read)
        return Response(status=status.HTTP_204_NO_CONTENT)


class HealthSerializer(serializers.Serializer[Any]):
    """The state of /readyz, and whether changes are allowed."""

    ready = serializers.BooleanField()
    read_only = serializers.BooleanField()  # type: ignore[assignment]
    checks = serializers.DictField(child=serializers.CharField())


class HealthView(APIView):
    """Whether database and broker answer. Always 200: `ready` is the answer. Open to everybody."""

    permission_classes = [AllowAny]

    @extend_schema(responses={200: HealthSerializer})
    def get(self, request: Request) -> Response:
        refuse_unknown(request, frozenset())
        checks = readiness()
        body = {
            "ready": all(check.ok for check in checks),
            "read_only": settings.READ_ONLY,
            "checks": {check.name: "ok" if check.ok else check.remedy for check in checks},
        }
        return Response(HealthSerializer(body).data)


class Alerts(GenericAPIView[Any]):
    """Channels, rules, the last messages, and the conditions for rules. For maintainers."""

    serializer_class = AlertsSerializer

    def get(self, request: Request) -> Response:
        refuse_unknown(request, frozenset())
        require(request, "maintain")
        conditions = [
            {
                "name": condition.value,
                "says": condition.label,
                "default_threshold": rule.threshold if rule.unit else None,
                "unit": rule.unit or None,
            }
            for condition, rule in CONDITIONS.items()
        ]
        body = {
            "conditions": conditions,
            "channels": AlertChannel.objects.all(),
            "rules": AlertRule.objects.select_related("channel"),
            "deliveries": AlertDelivery.objects.select_related("channel")[:_SHOWN],
        }
        return Response(AlertsSerializer(body).data)


class ChannelList(ListAPIView[AlertChannel]):
    """The destinations of alerts. Maintainers read them, admins create them."""

    queryset = AlertChannel.objects.none()
    serializer_class = ChannelSerializer

    def get_queryset(self) -> QuerySet[AlertChannel]:
        require(self.request, "maintain")
        return AlertChannel.objects.order_by("name")

    @extend_schema(request=ChannelRequestSerializer, responses={201: NewChannelSerializer})
    def post(self, request: Request) -> Response:
        """Create a channel. A JSON webhook gets a secret for signing; only this answer shows it."""
        require(request, "admin")
        channel, secret = make_channel(parse_body(request, ChannelRequestSerializer))
        return Response(_serialize_with_secret(channel, secret), status.HTTP_201_CREATED)


class ChannelDetail(GenericAPIView[AlertChannel]):
    """One channel."""

    queryset = AlertChannel.objects.none()
    serializer_class = ChannelSerializer

    def get(self, request: Request, channel_id: int) -> Response:
        refuse_unknown(request, frozenset())
        require(request, "maintain")
        return Response(ChannelSerializer(get_object_or_404(AlertChannel, pk=channel_id)).data)

    @extend_schema(request=ChannelChangeSerializer, responses={200: NewChannelSerializer})
    def patch(self, request: Request, channel_id: int) -> Response:
        """Change it. `secret` is null unless `new_secret` is set."""
        require(request, "admin")
        channel = get_object_or_404(AlertChannel, pk=channel_id)
        values = parse_body(request, ChannelChangeSerializer)
        return Response(_serialize_with_secret(channel, change_channel(channel, values)))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, channel_id: int) -> Response:
        """Remove the channel, with its rules and its undelivered messages."""
        require(request, "admin")
        get_object_or_404(AlertChannel, pk=channel_id).delete()
        return Response(status=status.HTTP_204_NO_CONTENT)


class ChannelTest(GenericAPIView[AlertDelivery]):
    """Send a test message to a channel, at any hour."""

    queryset = AlertDelivery.objects.none()
    serializer_class = DeliverySerializer

    @extend_schema(request=None, responses={202: DeliverySerializer})
    def post(self, request: Request, channel_id: int) -> Response:
        """Put a test into the outbox (202). `alerts/deliveries/` reports whether it arrived."""
        require(request, "admin")
        channel = get_object_or_404(AlertChannel, pk=channel_id)
        refuse_all(request)
        delivery = send_test(channel, caller(request).get_username(), timezone.now())
        return Response(DeliverySerializer(delivery).data, status.HTTP_202_ACCEPTED)


class RuleList(ListAPIView[AlertRule]):
    """The conditions reported to each channel. Maintainers read, admins create."""

    queryset = AlertRule.objects.none()
    serializer_class = RuleSerializer

    def get_queryset(self) -> QuerySet[AlertRule]:
        require(self.request, "maintain")
        return AlertRule.objects.select_related("channel").order_by("name")

    @extend_schema(request=RuleRequestSerializer, responses={201: RuleSerializer})
    def post(self, request: Request) -> Response:
        """Create a rule. A condition that already holds is reported in the next round."""
        require(request, "admin")
        rule = make_rule(parse_body(request, RuleRequestSerializer))
        return Response(RuleSerializer(rule).data, status.HTTP_201_CREATED)


class RuleDetail(GenericAPIView[AlertRule]):
    """One rule."""

    queryset = AlertRule.objects.none()
    serializer_class = RuleSerializer

    def get(self, request: Request, rule_id: int) -> Response:
        refuse_unknown(request, frozenset())
        require(request, "maintain")
        return Response(RuleSerializer(_rule(rule_id)).data)

    @extend_schema(request=RuleChangeSerializer, responses={200: RuleSerializer})
    def patch(self, request: Request, rule_id: int) -> Response:
        """Change the rule; after a change of condition, threshold or pattern, it reports its findings again."""
        require(request, "admin")
        rule = _rule(rule_id)
        change_rule(rule, parse_body(request, RuleChangeSerializer))
        return Response(RuleSerializer(rule).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, rule_id: int) -> Response:
        """Remove it; messages it wrote are delivered all the same."""
        require(request, "admin")
        _rule(rule_id).delete()
        return Response(status=status.HTTP_204_NO_CONTENT)


class DeliveryList(ListAPIView[AlertDelivery]):
    """The outbox, latest first."""

    queryset = AlertDelivery.objects.none()
    serializer_class = DeliverySerializer

    def get_queryset(self) -> QuerySet[AlertDelivery]:
        require(self.request, "maintain")
        return AlertDelivery.objects.select_related("channel").order_by("-created_at", "-id")


def _rule(rule_id: int) -> AlertRule:
    return get_object_or_404(AlertRule.objects.select_related("channel"), pk=rule_id)


def _serialize_with_secret(channel: AlertChannel, secret: str) -> dict[str, Any]:
    channel.secret = secret or None  # type: ignore[attr-defined]
    return dict(NewChannelSerializer(channel).data)
