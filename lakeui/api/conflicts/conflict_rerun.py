"""An aborted job run again, as it was or with a fix of its statement or its table."""

from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from lakeui.api.caller import caller
from lakeui.api.filtering import refuse_unknown
from lakeui.api.idempotency import answer_once
from lakeui.api.jobs.jobs import accept_job
from lakeui.api.schema import IDEMPOTENCY_KEY
from lakeui.api.serializers.jobs import JobDetailSerializer
from lakeui.api.serializers.request import RequestSerializer
from lakeui.api.serializers.runs import JobForecastSerializer
from lakeui.catalog.previews import PREVIEW_CONDITION
from lakeui.conflicts.conflict_detail.later_commit import find_later_commit
from lakeui.conflicts.conflict_detail.rerun import (
    AS_IT_WAS,
    FIXES,
    rerun_conflict,
    reruns_of,
)
from lakeui.conflicts.filters import visible_conflicts
from lakeui.conflicts.models import Conflict
from lakeui.monitoring.outlook import forecast_of

_FIXES = [str(fix) for fix in FIXES]


class RerunWaySerializer(serializers.Serializer[Any]):
    """One way to run it again. `cost` is its effect on the table itself, "" if there is none."""

    fix = serializers.ChoiceField(choices=_FIXES)
    statement = serializers.CharField()
    changes_table = serializers.BooleanField()
    asks_name = serializers.BooleanField(help_text="Whether `confirm` has to be the table's name.")
    cost = serializers.CharField(allow_blank=True)
    is_permitted = serializers.BooleanField(help_text="Whether your role allows it.")
    forecast = JobForecastSerializer()


class RerunsSerializer(serializers.Serializer[Any]):
    """The ways to run it again, and the latest jobs that did; `obstacle` says why there is none."""

    obstacle = serializers.CharField(allow_blank=True)
    ways = RerunWaySerializer(many=True)
    job_ids = serializers.ListField(child=serializers.UUIDField())


class RerunRequestSerializer(RequestSerializer):
    """The fix to run it with: `retry` is none. `condition` goes with the fix of that name."""

    fix = serializers.ChoiceField(choices=_FIXES, required=False, default=AS_IT_WAS)
    condition = serializers.CharField(
        required=False, allow_blank=True, default="", max_length=PREVIEW_CONDITION
    )
    confirm = serializers.CharField(
        required=False,
        allow_blank=True,
        default="",
        max_length=500,
        help_text="The table's name, where `asks_name`: rows may go, or the table's settings change.",
    )
    reason = serializers.CharField(required=False, allow_blank=True, default="", max_length=2000)


class ConflictRerunDetail(GenericAPIView[Any]):
    """An aborted job, run again from its conflict."""

    queryset = Conflict.objects.none()
    serializer_class = RerunsSerializer
    pagination_class = None

    def get(self, request: Request, conflict_id: int) -> Response:  # noqa: ARG002 - from the address
        """List the ways to run it again, each with its likely overlaps if it began now."""
        refuse_unknown(request, frozenset())
        conflict = self._conflict()
        reruns = reruns_of(conflict, request.user, find_later_commit(conflict))
        ways = [
            {
                "fix": way.fix,
                "statement": way.statement,
                "changes_table": way.changes_table,
                "asks_name": way.asks_name,
                "cost": way.cost,
                "is_permitted": way.is_permitted,
                "forecast": forecast_of(conflict.table, way.command.kind, way.parameters),
            }
            for way in reruns.ways
            if conflict.table is not None
        ]
        job_ids = [job.pk for job in reruns.jobs]
        body = {"obstacle": reruns.obstacle, "ways": ways, "job_ids": job_ids}
        return Response(RerunsSerializer(body).data)

    @extend_schema(
        request=RerunRequestSerializer,
        responses={202: JobDetailSerializer},
        parameters=[IDEMPOTENCY_KEY],
    )
    def post(self, request: Request, conflict_id: int) -> Response:  # noqa: ARG002
        """Run the job again, with a fix if one is given: a new job."""
        asked = RerunRequestSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        conflict, given = self._conflict(), asked.validated_data

        def run() -> Response:
            return accept_job(request, rerun_conflict(conflict, caller(request), **given))

        return answer_once(request, run)

    def _conflict(self) -> Conflict:
        visible = visible_conflicts(self.request.user).select_related("table", "job__table")
        return get_object_or_404(visible, pk=self.kwargs["conflict_id"])
