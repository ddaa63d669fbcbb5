"""Server-sent events: they say only that something changed; the page fetches what.

A stream ends after a while, or soon after its reader signed out or lost the right to look, and the
browser opens the next. Where a proxy swallows it, the page still asks by itself, only less often.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import UUID

from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db.models import Count, Max, Sum
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse

from lakeui.catalog.access import role_of
from lakeui.jobs.filters import visible_jobs
from lakeui.jobs.models import Job

_LOOK_SECONDS = 1.0
_LOOKS = 300
_QUIET_LOOKS = 15  # a comment this often keeps proxies from closing the line
Fingerprint = Callable[[], Awaitable[tuple[object, bool]]]
MayStill = Callable[[], Awaitable[bool]]


async def job_stream(request: HttpRequest, pk: UUID) -> HttpResponse | StreamingHttpResponse:
    user = await request.auser()
    jobs = await sync_to_async(visible_jobs)(user)
    if not await jobs.filter(pk=pk).aexists():
        msg = "There is no such job."
        raise Http404(msg)

    async def may_still() -> bool:
        reader = await _reader(request)
        if reader is None:
            return False
        return await (await sync_to_async(visible_jobs)(reader)).filter(pk=pk).aexists()

    return _stream(lambda: _job_state(pk), may_still)


async def jobs_stream(request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
    """Of all jobs the reader may see."""
    user = await request.auser()
    if not user.is_authenticated:
        return HttpResponse(status=403)
    role = await sync_to_async(role_of)(user)
    jobs = await sync_to_async(visible_jobs)(user)
    active = jobs.filter(state__in=Job.ACTIVE).order_by()

    async def state() -> tuple[object, bool]:
        sums = await active.aaggregate(
            n=Count("pk"), done=Sum("progress_done"), newest=Max("created_at"), at=Max("started_at")
        )
        return tuple(sums.values()), False

    async def may_still() -> bool:
        reader = await _reader(request)
        return reader is not None and await sync_to_async(role_of)(reader) == role

    return _stream(state, may_still)


async def _reader(request: HttpRequest) -> User | None:
    """Who reads, as they are now; None once they signed out or were dismissed."""
    session = request.session
    if not (session.session_key and await session.aexists(session.session_key)):
        return None
    return await User.objects.filter(pk=request.user.pk or 0, is_active=True).afirst()


async def _job_state(pk: UUID) -> tuple[object, bool]:
    fields = ("state", "progress_stage", "progress_done", "attempts", "cancel_requested_at")
    row = (
        await Job.objects.filter(pk=pk)
        .annotate(lines=Count("events"))
        .values_list(*fields, "lines")
        .afirst()
    )
    return row, row is None or row[0] in Job.ENDED


def _stream(fingerprint: Fingerprint, may_still: MayStill) -> StreamingHttpResponse:
    return StreamingHttpResponse(
        events(fingerprint, may_still),
        content_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def events(
    fingerprint: Fingerprint, may_still: MayStill, look_seconds: float | None = None
) -> AsyncIterator[bytes]:
    """What a stream sends while the fingerprint changes, and once it says that it is over."""
    pause = _LOOK_SECONDS if look_seconds is None else look_seconds
    seen, has_ended = await fingerprint()
    yield b": open\n\n"
    for look in range(_LOOKS):
        if look % _QUIET_LOOKS == _QUIET_LOOKS - 1 and not await may_still():
            return
        now, has_ended = await fingerprint()
        if has_ended:
            yield b"event: changed\ndata: last\n\nevent: ended\ndata: last\n\n"
            return
        if now != seen:
            seen = now
            yield b"event: changed\ndata: now\n\n"
        elif look % _QUIET_LOOKS == 0:
            yield b": quiet\n\n"
        await asyncio.sleep(pause)
