"""Server-sent events of pages: they only announce a change; the page fetches it.

If a proxy swallows them, the page still polls by itself, only less often.
"""

from collections.abc import Callable
from http import HTTPStatus
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Count, Max, Sum
from django.http import Http404, HttpRequest, HttpResponse

from lakeui.event_streams import StreamState, stream_view
from lakeui.jobs.filters import visible_jobs
from lakeui.jobs.models import Job


def _show_job(request: HttpRequest, pk: UUID) -> HttpResponse:
    if not visible_jobs(request.user).filter(pk=pk).exists():
        msg = "This job does not exist."
        raise Http404(msg)
    return _stream_state(lambda: _job_state(pk))


def _show_jobs(request: HttpRequest) -> HttpResponse:
    """Stream all active jobs visible to the reader."""
    user = request.user
    if not isinstance(user, User):
        return HttpResponse(status=HTTPStatus.FORBIDDEN)
    return _stream_state(lambda: _jobs_state(user))


def _stream_state(read_state: Callable[[], tuple[str, bool]]) -> HttpResponse:
    state, is_over = read_state()
    response = HttpResponse()
    response.news = StreamState(  # type: ignore[attr-defined]  # read by `stream_view`
        event="changed",
        state=state,
        data="now",
        is_over=is_over,
        differs=lambda: read_state()[0] != state,
        last_event="ended",
    )
    return response


def _jobs_state(user: User) -> tuple[str, bool]:
    active = visible_jobs(user).filter(state__in=Job.ACTIVE).order_by()
    sums = active.aggregate(
        n=Count("pk"), done=Sum("progress_done"), newest=Max("created_at"), at=Max("started_at")
    )
    return " ".join(map(str, sums.values())), False


def _job_state(pk: UUID) -> tuple[str, bool]:
    fields = ("state", "progress_stage", "progress_done", "attempts", "cancel_requested_at")
    row = (
        Job.objects.filter(pk=pk)
        .annotate(lines=Count("events"))
        .values_list(*fields, "lines")
        .first()
    )
    return " ".join(map(str, row or ())), row is None or row[0] in Job.ENDED


def _refuse(_request: HttpRequest) -> HttpResponse:
    return HttpResponse(
        "Too many streams are open. The page retries automatically.",
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        headers={"Retry-After": "5"},
    )


def _end_quietly(_response: HttpResponse) -> bytes:
    return b": closed\n\n"


job_stream = stream_view(_show_job, _refuse, _end_quietly, begins_silent=True)
jobs_stream = stream_view(_show_jobs, _refuse, _end_quietly, begins_silent=True)
