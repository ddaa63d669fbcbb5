"""Template variables about the embedded stack."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from lakeui.local_stack.demo import find_story
from lakeui.local_stack.models import DemoStep

_STEPS_NAMED = 2


def demo(request: HttpRequest) -> dict[str, Any]:
    """Provide `demo`, the progress of the demo lake, queried only if used; None without one."""
    del request
    return {"demo": SimpleLazyObject(_progress) if settings.EMBEDDED else None}


def _progress() -> dict[str, Any] | None:
    steps = list(DemoStep.objects.all())
    if all(step.state == DemoStep.State.REMOVED for step in steps):
        return None
    done = sum(step.state == DemoStep.State.DONE for step in steps)
    failed = next((step for step in steps if step.state == DemoStep.State.FAILED), None)
    running = [step.title for step in steps if step.state == DemoStep.State.RUNNING]
    finished = done == len(steps) or any(s.state == DemoStep.State.REMOVED for s in steps)
    return {
        "story": find_story() if finished else {},
        "done": done,
        "total": len(steps),
        "current": _join_titles(running),
        "failed": f"{failed.title}: {failed.message}" if failed else "",
        "finished": finished,
    }


def _join_titles(titles: list[str]) -> str:
    named = ", ".join(titles[:_STEPS_NAMED])
    more = len(titles) - _STEPS_NAMED
    return f"{named}, and {more} more" if more > 0 else named
