"""Pages of the embedded stack: the printed sign-in link, and the removal of the demo."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from engine.errors import EngineError
from lakeui.catalog.access import may
from lakeui.local_stack.demo_removal import demo_of_installation, remove_demo
from lakeui.local_stack.login_links import redeem
from lakeui.sign_on.models import Way
from lakeui.sign_on.sessions import begin


@never_cache
@require_GET
def login_link(request: HttpRequest, token: str) -> HttpResponse:
    user = redeem(token)
    if user is None:
        messages.error(
            request,
            "This link was already used or has expired. Run manage.py login_link for a new link.",
        )
        return redirect("login")
    begin(request, user, Way.LINK)
    return redirect("overview")


@never_cache
@login_required
def demo_remove(request: HttpRequest) -> HttpResponse:
    """Show the parts of the demo lake; POST removes it."""
    if not may(request.user, "admin"):
        msg = "You need the role admin on every table to remove the demo."
        raise PermissionDenied(msg)
    problem = ""
    if request.method == "POST":
        try:
            demo = remove_demo(request.user)  # type: ignore[arg-type]  # signed in
        except EngineError as error:
            problem = str(error)
        else:
            messages.success(request, f"The demo was removed with {len(demo.tables)} tables.")
            return redirect("overview")
    context = {"removal": demo_of_installation(), "problem": problem}
    return render(request, "overview/demo_remove.html", context, status=400 if problem else 200)
