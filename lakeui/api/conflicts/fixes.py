"""Fixes of an aborted write: tried by a worker on a copy, or applied by running the job again."""

from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, extend_schema_field
from kombu.exceptions import OperationalError
from rest_framework import serializers, status
from rest_framework.exceptions import NotFound
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from engine.conflict_facts import Verdict
from engine.errors import StorageError
from lakeui.api.authentication import caller
from lakeui.api.fields import Int64Field, OptionalTextField, RowsStateField
from lakeui.api.jobs import accept_job
from lakeui.api.listing import parse_body, refuse_unknown
from lakeui.api.request_headers import answer_once
from lakeui.api.schema import IDEMPOTENCY_KEY
from lakeui.api.serializers.jobs import JobDetailSerializer, JobForecastSerializer
from lakeui.api.serializers.request import RequestSerializer
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.previews import PREVIEW_CONDITION
from lakeui.conflicts.conflict_detail.rerun import (
    AS_IT_WAS,
    FIXES,
    find_later_commit,
    rerun_conflict,
    reruns_of,
)
from lakeui.conflicts.conflict_detail.trials import ask_for_trials, trials_view
from lakeui.conflicts.filters import visible_conflicts
from lakeui.conflicts.models import Conflict, ConflictTrials
from lakeui.monitoring.outlook import forecast_of
from lakeui.task_names import NO_WORKER_ASKED

_VERDICTS = (Verdict.PASSES, Verdict.RESOLVED, Verdict.CONFLICT, Verdict.UNDECIDABLE)

_FIXES = [str(fix) for fix in FIXES]


class TrialAnswerSerializer(serializers.Serializer[Any]):
    """The result of one fix: `as_it_was` is no fix, and must conflict for the others to count.

    `undecidable`: it could not be tried; `why` gives the reason. `rows` are the rows changed on the
    copy. `needs_spark`: trials run without Spark, so that no other trial is more precise.
    """

    fix = serializers.CharField()
    verdict = serializers.ChoiceField(choices=[str(verdict) for verdict in _VERDICTS])
    why = serializers.CharField(allow_blank=True)
    winning_version = serializers.IntegerField(allow_null=True)
    rows = Int64Field(allow_null=True)
    duration_ms = serializers.IntegerField()
    needs_spark = serializers.BooleanField(default=False)


class ConflictTrialsSerializer(serializers.ModelSerializer[ConflictTrials]):
    """The trials. `state`: waiting, read, failed, or lost if no worker answered in time."""

    state = RowsStateField()
    answers = serializers.SerializerMethodField()

    class Meta:
        model = ConflictTrials
        fields = [
            "state",
            "asked_at",
            "read_at",
            "condition",
            "duration_ms",
            "answers",
            "error_code",
            "error_message",
        ]

    @extend_schema_field(TrialAnswerSerializer(many=True))
    def get_answers(self, trials: ConflictTrials) -> list[dict[str, Any]]:
        given = trials.answers if isinstance(trials.answers, dict) else {}
        rows = [{"fix": fix, **answer} for fix, answer in given.items()]
        return [dict(TrialAnswerSerializer(row).data) for row in rows]


class TrialRequestSerializer(RequestSerializer):
    """A condition to try beside the fixes, joined to the write's own by AND."""

    condition = OptionalTextField(max_length=PREVIEW_CONDITION)


class ConflictTrialAnswers(GenericAPIView[ConflictTrials]):
    """Whether an aborted write would have landed with each fix, as a worker tried it on a copy in memory."""

    queryset = ConflictTrials.objects.none()
    serializer_class = ConflictTrialsSerializer
    pagination_class = None
    changes_nothing = True

    def get(self, request: Request, conflict_id: int) -> Response:  # noqa: ARG002 - from the address
        """Return the trials; 404 without any: POST has a worker try the fixes."""
        view = trials_view(self._conflict(), Reader(request.user))
        if view.trials is None:
            raise NotFound(
                view.obstacle
                or "These fixes have not been tried. Send a POST request to this URL to try them."
            )
        return Response(ConflictTrialsSerializer(view.trials).data)

    @extend_schema(request=TrialRequestSerializer, responses={202: ConflictTrialsSerializer})
    def post(self, request: Request, conflict_id: int) -> Response:  # noqa: ARG002
        """Has a worker try every fix, and a condition if one is given; nothing of the table is touched."""
        condition = parse_body(request, TrialRequestSerializer)["condition"].strip()
        try:
            trials = ask_for_trials(self._conflict(), Reader(request.user), condition)
        except (OperationalError, OSError) as error:
            raise StorageError(NO_WORKER_ASKED, "Try again later.") from error
        return Response(ConflictTrialsSerializer(trials).data, status.HTTP_202_ACCEPTED)

    def _conflict(self) -> Conflict:
        visible = visible_conflicts(self.request.user)
        related = visible.select_related("table", "job", "transaction")
        return get_object_or_404(related, pk=self.kwargs["conflict_id"])


class RerunWaySerializer(serializers.Serializer[Any]):
    """One way to run it again. `cost` is its effect on the table itself, "" if there is none."""

    fix = serializers.ChoiceField(choices=_FIXES)
    statement = serializers.CharField()
    changes_table = serializers.BooleanField()
    asks_name = serializers.BooleanField(help_text="Whether `confirm` must be the table's name.")
    cost = serializers.CharField(allow_blank=True)
    is_permitted = serializers.BooleanField(help_text="Whether your role allows this.")
    forecast = JobForecastSerializer()


class RerunsSerializer(serializers.Serializer[Any]):
    """The ways to run it again, and the latest jobs that did; `obstacle` says why there is none."""

    obstacle = serializers.CharField(allow_blank=True)
    ways = RerunWaySerializer(many=True)
    job_ids = serializers.ListField(child=serializers.UUIDField())


class RerunRequestSerializer(RequestSerializer):
    """The fix to run it with; `retry` changes nothing. `condition` belongs to the fix of that name."""

    fix = serializers.ChoiceField(choices=_FIXES, required=False, default=AS_IT_WAS)
    condition = OptionalTextField(max_length=PREVIEW_CONDITION)
    confirm = OptionalTextField(
        max_length=500,
        help_text="The table's name. Required if `asks_name` is true: the statement can remove "
        "rows or changes the table's settings.",
    )
    reason = OptionalTextField(max_length=2000)


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
        given = parse_body(request, RerunRequestSerializer)
        conflict = self._conflict()

        def run() -> Response:
            return accept_job(request, rerun_conflict(conflict, caller(request), **given))

        return answer_once(request, run)

    def _conflict(self) -> Conflict:
        visible = visible_conflicts(self.request.user).select_related("table", "job__table")
        return get_object_or_404(visible, pk=self.kwargs["conflict_id"])
