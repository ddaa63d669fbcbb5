"""The fixes of an aborted write, tried by a worker on a copy of the table."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from kombu.exceptions import OperationalError

from engine.errors import EngineError
from lakeui.catalog.command_tables import Reader
from lakeui.conflicts.conflict_detail.both_sides import both_sides
from lakeui.conflicts.conflict_detail.later_commit import find_later_commit
from lakeui.conflicts.conflict_detail.similar import similar_conflicts
from lakeui.conflicts.conflict_detail.trials import ask_for_trials
from lakeui.conflicts.filters import visible_conflicts
from lakeui.conflicts.models import Conflict
from lakeui.pages.conflicts.fixes import fixes_context
from lakeui.pages.jobs.jobs import STOP_POLLING
from lakeui.task_names import NO_WORKER_ASKED


@never_cache
@login_required
def conflict_trials(request: HttpRequest, pk: int) -> HttpResponse:
    """Have a worker try every fix on POST; for htmx, render the results so far."""
    visible = visible_conflicts(request.user)
    related = ("table", "job", "transaction__pipeline")
    conflict = get_object_or_404(visible.select_related(*related), pk=pk)
    place = f"{reverse('conflict', args=[pk])}#remedies"
    if request.method == "POST":
        _ask(request, conflict)
        return redirect(place)
    if not request.htmx:  # type: ignore[attr-defined]  # by its middleware
        return redirect(place)
    sides = both_sides(conflict, Reader(request.user))
    like = similar_conflicts(visible, conflict)
    context = fixes_context(request, conflict, sides, like, find_later_commit(conflict))
    context |= {"conflict": conflict, "sides": sides}
    status = 200 if context["trials"].waits else STOP_POLLING
    return render(request, "conflicts/_remedies.html", context, status=status)


def _ask(request: HttpRequest, conflict: Conflict) -> None:
    condition = request.POST.get("condition", "").strip()
    try:
        ask_for_trials(conflict, Reader(request.user), condition)
    except EngineError as error:
        messages.error(request, str(error))
    except (OperationalError, OSError):
        messages.error(request, NO_WORKER_ASKED)
