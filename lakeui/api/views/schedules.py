"""Schedules: jobs that recur, each time as their owner."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.generics import GenericAPIView, ListAPIView, get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from lakeui.api.caller import caller
from lakeui.api.filtering import refuse_unknown
from lakeui.api.idempotency import answer_once
from lakeui.api.schema import IDEMPOTENCY_KEY
from lakeui.api.serializers.jobs import JobDetailSerializer
from lakeui.api.serializers.schedules import (
    ScheduleChangeSerializer,
    ScheduleRequestSerializer,
    ScheduleSerializer,
)
from lakeui.api.views.jobs import accepted
from lakeui.api.views.of_table import OfTable, require
from lakeui.catalog.access import action_for_kind
from lakeui.jobs.filters import ScheduleFilter, visible_schedules
from lakeui.jobs.models import Job, Schedule
from lakeui.jobs.schedules import change_schedule, create_schedule, run_now, set_enabled


def schedules_to_list(schedules: QuerySet[Schedule]) -> QuerySet[Schedule]:
    """By name, with what a row shows."""
    return schedules.select_related("table", "owner").order_by("name")


class ScheduleList(ListAPIView[Schedule]):
    """The schedules on tables you may see. Make one below its table."""

    queryset = Schedule.objects.none()
    serializer_class = ScheduleSerializer
    filterset_class = ScheduleFilter

    def get_queryset(self) -> QuerySet[Schedule]:
        return schedules_to_list(visible_schedules(self.request.user))


class TableScheduleList(OfTable, ListAPIView[Schedule]):
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
        """The command is checked now, and again each time it fires."""
        table = self.table
        wanted = ScheduleRequestSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        return answer_once(request, lambda: self._made(request, table, wanted.validated_data))

    def _made(self, request: Request, table: Any, wanted: dict[str, Any]) -> Response:
        schedule = create_schedule(table=table, owner=caller(request), **wanted)
        where = reverse("api:schedule", kwargs={"schedule_id": schedule.pk}, request=request)
        body = ScheduleSerializer(schedule, context={"request": request}).data
        return Response(body, status.HTTP_201_CREATED, headers={"Location": where})


class ScheduleDetail(GenericAPIView[Schedule]):
    """One schedule."""

    queryset = Schedule.objects.none()
    serializer_class = ScheduleSerializer

    def get(self, request: Request, schedule_id: int) -> Response:
        refuse_unknown(request, frozenset())
        found = _seen(request, schedule_id)
        return Response(ScheduleSerializer(found, context={"request": request}).data)

    @extend_schema(request=ScheduleChangeSerializer, responses={200: ScheduleSerializer})
    def patch(self, request: Request, schedule_id: int) -> Response:
        """Change its words, let it rest, or fire again."""
        schedule = _mine(request, schedule_id)
        wanted = ScheduleChangeSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        words = dict(wanted.validated_data)
        enabled = words.pop("enabled", None)
        if words:
            change_schedule(schedule, caller(request), **words)
        if enabled is not None:
            set_enabled(schedule, enabled=enabled)
        return Response(ScheduleSerializer(schedule, context={"request": request}).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, schedule_id: int) -> Response:
        """Remove it; jobs that it made stay."""
        _mine(request, schedule_id).delete()
        return Response(status=status.HTTP_204_NO_CONTENT)


class ScheduleRun(GenericAPIView[Job]):
    """Run a schedule's command once now, as you; when it fires next stays as it is."""

    queryset = Job.objects.none()
    serializer_class = JobDetailSerializer

    @extend_schema(request=None, responses={202: JobDetailSerializer}, parameters=[IDEMPOTENCY_KEY])
    def post(self, request: Request, schedule_id: int) -> Response:
        schedule = _mine(request, schedule_id)
        return answer_once(request, lambda: accepted(request, run_now(schedule, caller(request))))


def _seen(request: Request, schedule_id: int) -> Schedule:
    schedules = visible_schedules(request.user).select_related("table", "owner")
    return get_object_or_404(schedules, pk=schedule_id)


def _mine(request: Request, schedule_id: int) -> Schedule:
    """A schedule that the caller owns, or could have made."""
    schedule = _seen(request, schedule_id)
    if schedule.owner_id != caller(request).pk:
        require(request, action_for_kind(schedule.kind, schedule.parameters), schedule.table)
    return schedule
