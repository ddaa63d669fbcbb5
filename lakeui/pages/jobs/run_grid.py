"""The grid of scheduled runs."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone

from lakeui.catalog.filters import is_row_id
from lakeui.jobs.filters import ScheduleFilter, visible_schedules
from lakeui.jobs.models import Schedule
from lakeui.jobs.run_grid import MOST, grid_of_schedules, grid_of_steps
from lakeui.pages.listing import ListPage, range_of


@login_required
def show_run_grid(request: HttpRequest) -> HttpResponse:
    """Render a row for each schedule, or for each step of the one in the address."""
    time_range, schedule = range_of(request, "7d"), _find_schedule(request)
    since = time_range.start(timezone.now())
    schedules = visible_schedules(request.user).select_related("table").order_by("name")
    listing = ListPage(request, ScheduleFilter(request.GET, schedules))
    if schedule:
        rows = grid_of_steps(schedule, since)
    else:
        rows = grid_of_schedules(list(listing.page), since)
    context = {
        "listing": listing,
        "schedule": schedule,
        "rows": rows,
        "columns": max((len(row.cells) for row in rows), default=0),
        "most": MOST,
        "time_range": time_range,
        "twin": f"/api/v1/schedules/runs/?range={time_range.name}"
        + (f"&schedule={schedule.pk}" if schedule else ""),
    }
    return render(request, "jobs/run_grid.html", context, status=listing.status)


def _find_schedule(request: HttpRequest) -> Schedule | None:
    """Return the schedule in the address; None if it names none."""
    text = request.GET.get("schedule", "")
    if not text:
        return None
    is_id = is_row_id(text)
    schedules = visible_schedules(request.user).select_related("table")
    return get_object_or_404(schedules, pk=int(text) if is_id else 0)
