"""Schedules: recurring jobs, each run as the schedule's owner."""

from typing import Any

from django.db.models import QuerySet
from django.utils.functional import cached_property
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.generics import GenericAPIView, ListAPIView, get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from lakeui.api.caller import caller
from lakeui.api.fields import ObjectField, RecordedField
from lakeui.api.filtering import refuse_all, refuse_unknown
from lakeui.api.idempotency import answer_once
from lakeui.api.jobs.jobs import accept_job
from lakeui.api.schema import IDEMPOTENCY_KEY
from lakeui.api.serializers.jobs import JobDetailSerializer
from lakeui.api.serializers.request import CommandRequestSerializer, RequestSerializer
from lakeui.api.table_views import TableScopedView, require
from lakeui.catalog.access import action_for_kind
from lakeui.catalog.command_tables import Reader
from lakeui.jobs.cron_words import cron_in_words
from lakeui.jobs.filters import ScheduleFilter, visible_schedules
from lakeui.jobs.models import Job, Schedule
from lakeui.jobs.redaction import redact_schedule
from lakeui.jobs.schedules import change_schedule, create_schedule, run_now, set_enabled

CRON_HELP = (
    "0 3 * * * is every night at three. Of a day of month and one of week both must hold: "
    "0 3 1-7 * 1 is the first Monday."
)


class ScheduleSerializer(serializers.ModelSerializer[Schedule]):
    """A schedule. `note` says why its last firing made no job, if so.

    If it names tables hidden from you, its statement, parameters and note are left out.
    """

    table = serializers.CharField(source="table.name", read_only=True)
    owner = serializers.CharField(source="owner.username", read_only=True)
    parameters = ObjectField()
    note = RecordedField(allow_null=True)
    last_job_id = serializers.UUIDField(allow_null=True, read_only=True)
    cron_words = serializers.SerializerMethodField(help_text="Null where the text is not plain.")

    class Meta:
        model = Schedule
        fields = [
            "id",
            "table_id",
            "table",
            "name",
            "cron",
            "cron_words",
            "kind",
            "parameters",
            "statement",
            "max_retries",
            "time_limit_s",
            "owner",
            "enabled",
            "created_at",
            "next_due_at",
            "last_fired_at",
            "last_job_id",
            "note",
        ]

    @cached_property
    def reader(self) -> Reader:
        """Hold the caller; one for all rows of a list."""
        return Reader(self.context["request"].user)

    def to_representation(self, instance: Schedule) -> dict[str, Any]:
        return dict(super().to_representation(redact_schedule(instance, self.reader)))

    def get_cron_words(self, schedule: Schedule) -> str | None:
        return cron_in_words(schedule.cron) or None


class ScheduleRequestSerializer(CommandRequestSerializer):
    """A command as for a job, and when: five cron fields, in UTC."""

    name = serializers.CharField(max_length=200)
    cron = serializers.CharField(max_length=100, help_text=CRON_HELP)


class ScheduleChangeSerializer(RequestSerializer):
    """The fields to change. A re-enabled schedule does not make up for missed firings."""

    enabled = serializers.BooleanField(required=False)
    name = serializers.CharField(max_length=200, required=False)
    cron = serializers.CharField(max_length=100, required=False, help_text=CRON_HELP)
    sql = serializers.CharField(max_length=100_000, required=False)
    retries = serializers.IntegerField(required=False, min_value=0, max_value=100)
    time_limit_s = serializers.IntegerField(required=False, min_value=0, max_value=2**31 - 1)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not attrs:
            fault = "Say what is to change."
            raise serializers.ValidationError({"enabled": [fault]})
        return attrs


def schedules_to_list(schedules: QuerySet[Schedule]) -> QuerySet[Schedule]:
    """Prepare schedules for a list, by name."""
    return schedules.select_related("table", "owner").order_by("name")


class ScheduleList(ListAPIView[Schedule]):
    """The schedules on tables you may see. Make one below its table."""

    queryset = Schedule.objects.none()
    serializer_class = ScheduleSerializer
    filterset_class = ScheduleFilter

    def get_queryset(self) -> QuerySet[Schedule]:
        return schedules_to_list(visible_schedules(self.request.user))


class TableScheduleList(TableScopedView, ListAPIView[Schedule]):
    """The schedules of one table; POST makes another."""

    queryset = Schedule.objects.none()
    serializer_class = ScheduleSerializer

    def get_queryset(self) -> QuerySet[Schedule]:
        return schedules_to_list(self.table.schedules.all())

    @extend_schema(
        request=ScheduleRequestSerializer,
        responses={201: ScheduleSerializer},
        parameters=[IDEMPOTENCY_KEY],
    )
    def post(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        """Create a schedule. The command is checked now, and again at each firing."""
        table = self.table
        body = ScheduleRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        return answer_once(
            request, lambda: self._create_response(request, table, body.validated_data)
        )

    def _create_response(self, request: Request, table: Any, values: dict[str, Any]) -> Response:
        schedule = create_schedule(table=table, owner=caller(request), **values)
        where = reverse("api:schedule", kwargs={"schedule_id": schedule.pk}, request=request)
        body = ScheduleSerializer(schedule, context={"request": request}).data
        return Response(body, status.HTTP_201_CREATED, headers={"Location": where})


class ScheduleDetail(GenericAPIView[Schedule]):
    """One schedule."""

    queryset = Schedule.objects.none()
    serializer_class = ScheduleSerializer

    def get(self, request: Request, schedule_id: int) -> Response:
        refuse_unknown(request, frozenset())
        schedule = _get_visible_schedule(request, schedule_id)
        return Response(ScheduleSerializer(schedule, context={"request": request}).data)

    @extend_schema(request=ScheduleChangeSerializer, responses={200: ScheduleSerializer})
    def patch(self, request: Request, schedule_id: int) -> Response:
        """Change its words, let it rest, or fire again."""
        schedule = _mine(request, schedule_id)
        body = ScheduleChangeSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        words = dict(body.validated_data)
        enabled = words.pop("enabled", None)
        if words:
            change_schedule(schedule, caller(request), **words)
        if enabled is not None:
            set_enabled(schedule, enabled=enabled)
        return Response(ScheduleSerializer(schedule, context={"request": request}).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, schedule_id: int) -> Response:
        """Remove the schedule; its jobs stay."""
        _mine(request, schedule_id).delete()
        return Response(status=status.HTTP_204_NO_CONTENT)


class ScheduleRun(GenericAPIView[Job]):
    """Run a schedule's command once now, as you; when it fires next stays as it is."""

    queryset = Job.objects.none()
    serializer_class = JobDetailSerializer

    @extend_schema(request=None, responses={202: JobDetailSerializer}, parameters=[IDEMPOTENCY_KEY])
    def post(self, request: Request, schedule_id: int) -> Response:
        schedule = _mine(request, schedule_id)
        refuse_all(request)
        return answer_once(request, lambda: accept_job(request, run_now(schedule, caller(request))))


def _get_visible_schedule(request: Request, schedule_id: int) -> Schedule:
    schedules = visible_schedules(request.user).select_related("table", "owner")
    return get_object_or_404(schedules, pk=schedule_id)


def _mine(request: Request, schedule_id: int) -> Schedule:
    """Return a schedule that the caller owns, or could have made."""
    schedule = _get_visible_schedule(request, schedule_id)
    if schedule.owner_id != caller(request).pk:
        require(request, action_for_kind(schedule.kind, schedule.parameters), schedule.table)
    return schedule
