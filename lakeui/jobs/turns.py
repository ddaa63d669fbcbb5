"""Rounds of periodic tasks: one at a time of each, whichever worker has it.

A round that takes longer than its period would otherwise meet the next, and more and more of them. The
turn is a lease: a worker that is killed in a round holds it up no longer than that.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from uuid import uuid4

from django.db.models import Q
from django.db.models.functions import Now

from lakeui.jobs.models import PeriodicTurn


def take_turns(name: str, seconds: int) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Decorate a round: it returns at once while another one of this name runs.

    Args:
        name: the task's.
        seconds: how long a round holds its turn at most. One that takes longer runs on beside the next.
    """

    def decorate(run_round: Callable[[], None]) -> Callable[[], None]:
        @wraps(run_round)
        def run_alone() -> None:
            holder = uuid4()
            PeriodicTurn.objects.get_or_create(name=name)
            free = Q(expires_at=None) | Q(expires_at__lt=Now())
            until = Now() + timedelta(seconds=seconds)
            if not PeriodicTurn.objects.filter(free, name=name).update(
                holder=holder, expires_at=until
            ):
                return
            try:
                run_round()
            finally:
                mine = PeriodicTurn.objects.filter(name=name, holder=holder)
                mine.update(holder=None, expires_at=None)

        return run_alone

    return decorate
