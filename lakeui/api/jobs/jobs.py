"""Jobs: requested, read, cancelled, retried."""

from typing import Any

from django.db.models import Count, QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.generics import GenericAPIView, ListAPIView, get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from lakeui.api.caller import caller
from lakeui.api.filtering import parse_query, refuse_all, refuse_unknown
from lakeui.api.idempotency import answer_once
from lakeui.api.long_polling import IF_NONE_MATCH, WaitSerializer, hold
from lakeui.api.preconditions import digest_of, etag_of, has_state
from lakeui.api.schema import IDEMPOTENCY_KEY
from lakeui.api.serializers.jobs import (
    JobDetailSerializer,
    JobEventSerializer,
    JobRequestSerializer,
    JobSerializer,
)
from lakeui.api.serializers.runs import JobForecastRequestSerializer, JobForecastSerializer
from lakeui.api.streaming import ENDED, LAST_EVENT_ID, EventStreamRenderer, stream_of, tell
from lakeui.api.table_views import TableScopedView
from lakeui.catalog.command_tables import Reader
from lakeui.jobs.cancel_retry import cancel_job, retry_job
from lakeui.jobs.filters import JobFilter, visible_jobs
from lakeui.jobs.models import Job, JobEvent
from lakeui.jobs.requests import request_job
from lakeui.jobs.writers import jobs_changing
from lakeui.monitoring.outlook import forecast_of


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
        body = JobRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        return answer_once(
            request,
            lambda: accept_job(
                request,
                request_job(table=table, requested_by=caller(request), **body.validated_data),
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
