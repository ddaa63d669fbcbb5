"""Jobs: requested, read, cancelled, retried; and schedules, whose jobs run as their owner."""

from typing import Any

from django.db.models import Count, QuerySet
from django.utils import timezone
from django.utils.functional import cached_property
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.generics import GenericAPIView, ListAPIView, get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from lakeui.api.authentication import caller
from lakeui.api.fields import ObjectField, RecordedField
from lakeui.api.listing import SequencePaging, parse_body, parse_query, refuse_all, refuse_unknown
from lakeui.api.request_headers import answer_once, digest_of, etag_of, has_state
from lakeui.api.schema import IDEMPOTENCY_KEY
from lakeui.api.serializers.jobs import (
    JobDetailSerializer,
    JobEventSerializer,
    JobForecastRequestSerializer,
    JobForecastSerializer,
    JobRequestSerializer,
    JobSerializer,
)
from lakeui.api.serializers.request import (
    CommandRequestSerializer,
    PageRequestSerializer,
    RangeRequestSerializer,
    RequestSerializer,
)
from lakeui.api.streaming import (
    ENDED,
    IF_NONE_MATCH,
    LAST_EVENT_ID,
    EventStreamRenderer,
    WaitSerializer,
    hold,
    stream_of,
    tell,
)
from lakeui.api.table_views import TableScopedView, require
from lakeui.catalog.access import action_for_kind
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.hours import RANGES
from lakeui.jobs.cancel_retry import cancel_job, retry_job
from lakeui.jobs.filters import (
    JobFilter,
    ScheduleFilter,
    redact_schedule,
    visible_jobs,
    visible_schedules,
)
from lakeui.jobs.models import Job, JobEvent, Schedule
from lakeui.jobs.requests import request_job
from lakeui.jobs.run_grid import grid_of_schedules, grid_of_steps
from lakeui.jobs.schedules import (
    change_schedule,
    create_schedule,
    cron_in_words,
    run_now,
    set_enabled,
)
from lakeui.jobs.writers import jobs_changing
from lakeui.monitoring.outlook import forecast_of

CRON_HELP = (
    "0 3 * * * is every night at three. If both a day of the month and a day of the week are "
    "set, both must match: 0 3 1-7 * 1 is the first Monday."
)


def jobs_to_list(jobs: QuerySet[Job]) -> QuerySet[Job]:
    """Prepare jobs for a list, latest first."""
    related = ("requested_by", "attempt_rows")
    return jobs.select_related("table").prefetch_related(*related).order_by("-created_at")


def job_to_show(request: Request, job_id: Any) -> Job:
    """Return a job visible to the caller, with all parts of its answer; else 404."""
    jobs = visible_jobs(request.user).select_related("table", "requested_by", "schedule")
    related = ("attempt_rows__stages", "conflicts", "follow_ups", "also_changes")
    job: Job = get_object_or_404(jobs.prefetch_related(*related), pk=job_id)
    return job


def accept_job(request: Request, job: Job) -> Response:
    """Return 202 with the job and its address."""
    shown = job_to_show(request, job.pk)
    body = JobDetailSerializer(shown, context={"request": request}).data
    where = reverse("api:job", kwargs={"job_id": job.pk}, request=request)
    return Response(body, status.HTTP_202_ACCEPTED, headers={"Location": where})


class JobList(ListAPIView[Job]):
    """The jobs on tables you may see, latest first."""

    queryset = Job.objects.none()
    serializer_class = JobSerializer
    filterset_class = JobFilter

    def get_queryset(self) -> QuerySet[Job]:
        return jobs_to_list(visible_jobs(self.request.user))


class TableJobList(TableScopedView, ListAPIView[Job]):
    """The jobs that change one table, latest first; POST requests another."""

    queryset = Job.objects.none()
    serializer_class = JobSerializer
    filterset_class = JobFilter

    def get_queryset(self) -> QuerySet[Job]:
        jobs = visible_jobs(self.request.user)  # a script's own table may be another, out of sight
        return jobs_to_list(jobs.filter(jobs_changing([self.table.pk])))

    @extend_schema(
        request=JobRequestSerializer,
        responses={202: JobDetailSerializer},
        parameters=[IDEMPOTENCY_KEY],
    )
    def post(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        """Give `kind` with `parameters`, or `sql`. 202 with `Location`: the job is queued."""
        table = self.table
        values = parse_body(request, JobRequestSerializer)
        return answer_once(
            request,
            lambda: accept_job(
                request,
                request_job(table=table, requested_by=caller(request), **values),
            ),
        )


class JobForecastDetail(TableScopedView):
    """The likely overlaps of a job on a table if it began now; a dry run is more precise."""

    serializer_class = JobForecastSerializer

    @extend_schema(
        parameters=[JobForecastRequestSerializer], responses={200: JobForecastSerializer}
    )
    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        table = self.table
        parameters = parse_query(request, JobForecastRequestSerializer)
        forecast = forecast_of(table, parameters["kind"], {})
        return Response(JobForecastSerializer(forecast).data)


class JobDetail(GenericAPIView[Job]):
    """One job with its attempts, metrics, plan and error."""

    queryset = Job.objects.none()
    serializer_class = JobDetailSerializer

    @extend_schema(parameters=[WaitSerializer, IF_NONE_MATCH])
    def get(self, request: Request, job_id: Any) -> Response:
        """Return the job; `wait` waits for its end, or with `If-None-Match` for its next step."""
        seconds = parse_query(request, WaitSerializer)["wait"]
        job = job_to_show(request, job_id)
        step = step_of(job.pk)
        state = digest_of((job.pk, step))
        body = JobDetailSerializer(job, context={"request": request}).data
        response = Response(body, headers={"ETag": etag_of(state, body)})
        has_it = has_state(request, state)
        if job.state in Job.ENDED or ("If-None-Match" in request.headers and not has_it):
            return response
        return hold(request, response, seconds, lambda: _is_news(job.pk, step if has_it else None))


def step_of(job_id: Any) -> tuple[Any, ...] | None:
    """Return the values that change with each step of a job, from its row and related rows."""
    fields = (
        "state", "attempts", "fence", "worker", "progress_stage", "progress_done", "progress_total",
        "progress_running", "cancel_requested_at", "sent_at", "finished_at", "committed_version",
    )  # fmt: skip
    hanging = {
        "n_conflicts": Count("conflicts", distinct=True),
        "n_follow": Count("follow_ups", distinct=True),
    }
    return Job.objects.filter(pk=job_id).annotate(**hanging).values_list(*fields, *hanging).first()


def _is_news(job_id: Any, step: tuple[Any, ...] | None) -> bool:
    """Whether the job has left the given step or, without one, has ended or is gone."""
    now = step_of(job_id)
    return now != step if step is not None else now is None or now[0] in Job.ENDED


class JobStream(GenericAPIView[Job]):
    """A job as in `jobs/`, now and after each of its steps, as server-sent events `job`."""

    queryset = Job.objects.none()
    renderer_classes = (EventStreamRenderer,)

    @extend_schema(parameters=[LAST_EVENT_ID], responses=stream_of("Job") | ENDED)
    def get(self, request: Request, job_id: Any) -> Response:
        """Stream the job until it ends, you may no longer see it, or five minutes have passed."""
        refuse_unknown(request, frozenset())
        step = step_of(job_id)
        job = get_object_or_404(jobs_to_list(visible_jobs(request.user)), pk=job_id)
        return tell(
            "job",
            digest_of((job.pk, step)),
            JobSerializer(job, context={"request": request}).data,
            lambda: step_of(job.pk) != step,
            is_over=job.state in Job.ENDED,
        )


class JobEventList(ListAPIView[JobEvent]):
    """A job's log in recorded order; empty if the job names tables hidden from you.

    `at` is the time of the event.
    """

    queryset = JobEvent.objects.none()
    serializer_class = JobEventSerializer

    def get_queryset(self) -> QuerySet[JobEvent]:
        job = get_object_or_404(visible_jobs(self.request.user), pk=self.kwargs["job_id"])
        events = JobEvent.objects.filter(job=job).order_by("id")
        return events if Reader(self.request.user).may_read(job) else events.none()


class JobCancel(GenericAPIView[Job]):
    """Ask a job to stop: it is `cancelling` until its tasks have ended, then `cancelled`.

    Once its commit began it is too late, and it will say so.
    """

    queryset = Job.objects.none()
    serializer_class = JobDetailSerializer

    @extend_schema(request=None, responses={202: JobDetailSerializer})
    def post(self, request: Request, job_id: Any) -> Response:
        job = get_object_or_404(visible_jobs(request.user), pk=job_id)
        refuse_all(request)
        return accept_job(request, cancel_job(job, caller(request)))


class JobRetry(GenericAPIView[Job]):
    """Run a failed, conflicted or cancelled job again, as a new job."""

    queryset = Job.objects.none()
    serializer_class = JobDetailSerializer

    @extend_schema(request=None, responses={202: JobDetailSerializer}, parameters=[IDEMPOTENCY_KEY])
    def post(self, request: Request, job_id: Any) -> Response:
        job = get_object_or_404(visible_jobs(request.user).select_related("table"), pk=job_id)
        refuse_all(request)
        return answer_once(request, lambda: accept_job(request, retry_job(job, caller(request))))


class ScheduleSerializer(serializers.ModelSerializer[Schedule]):
    """A schedule. `note` says why its last firing made no job, if so.

    If it names tables hidden from you, its statement, parameters and note are left out.
    """

    table = serializers.CharField(source="table.name", read_only=True)
    owner = serializers.CharField(source="owner.username", read_only=True)
    parameters = ObjectField()
    note = RecordedField(allow_null=True)
    last_job_id = serializers.UUIDField(allow_null=True, read_only=True)
    cron_words = serializers.SerializerMethodField(
        help_text="null: the schedule has no short description."
    )

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
            fault = "Send at least one field to change."
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
        values = parse_body(request, ScheduleRequestSerializer)
        return answer_once(request, lambda: self._create_response(request, table, values))

    def _create_response(self, request: Request, table: Any, values: dict[str, Any]) -> Response:
        schedule = create_schedule(table=table, owner=caller(request), **values)
        where = reverse("api:schedule", kwargs={"schedule_id": schedule.pk}, request=request)
        body = ScheduleSerializer(schedule, context={"request": request}).data
        return Response(body, status.HTTP_201_CREATED, headers={"Location": where})


class RunCellSerializer(serializers.Serializer[Any]):
    """A run, or its step. `took_ms` is null if it has not ended."""

    job_id = serializers.UUIDField()
    state = serializers.ChoiceField(choices=Job.State.choices)
    created_at = serializers.DateTimeField()
    took_ms = serializers.IntegerField(allow_null=True)


class RunRowSerializer(serializers.Serializer[Any]):
    """A schedule or a step of one. `runs` has null for a run without the step; the latest is last."""

    name = serializers.CharField()
    schedule_id = serializers.IntegerField(source="schedule.pk", allow_null=True, default=None)
    runs = RunCellSerializer(many=True, source="cells", allow_null=True)


class RunGridRequestSerializer(PageRequestSerializer, RangeRequestSerializer):
    """The range, and the schedule whose steps are the rows."""

    range = serializers.ChoiceField(choices=list(RANGES), default="7d")
    schedule = serializers.IntegerField(required=False, min_value=1, max_value=2**63 - 1)


class RunGrid(GenericAPIView[Schedule]):
    """The latest 30 runs in the range: a row for each schedule, or for each step of one."""

    queryset = Schedule.objects.none()
    serializer_class = RunRowSerializer
    pagination_class = SequencePaging

    @extend_schema(
        parameters=[RunGridRequestSerializer], responses={200: RunRowSerializer(many=True)}
    )
    def get(self, request: Request) -> Response:
        query = parse_query(request, RunGridRequestSerializer)
        since = RANGES[query["range"]].start(timezone.now())
        schedules = schedules_to_list(visible_schedules(request.user))
        if "schedule" in query:
            steps = grid_of_steps(get_object_or_404(schedules, pk=query["schedule"]), since)
            rows = self.paginate_queryset(steps) or []
        else:
            rows = grid_of_schedules(self.paginate_queryset(schedules) or [], since)
        return self.get_paginated_response(RunRowSerializer(rows, many=True).data)


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
        words = parse_body(request, ScheduleChangeSerializer)
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
