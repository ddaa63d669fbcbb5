"""Rounds of periodic tasks: one at a time of each, on any worker.

Otherwise a round longer than its period would overlap the next, and more and more of them. The turn
is a lease: a worker killed in a round delays the next no longer than that.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import wraps
from uuid import uuid4

from django.db.models import Q
from django.db.models.functions import Now

from lakeui.jobs.models import PeriodicTurn

BEAT = "beat"
"""The turn that beat holds as long as it lives."""
BEAT_SILENCE = timedelta(seconds=60)
"""The silence after which beat counts as dead."""


def take_turns(name: str, seconds: int) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Decorate a round: it returns at once while another one of this name runs.

    Args:
        name: the task's.
        seconds: the longest turn of a round. A longer round runs on beside the next.
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


def renew_beat() -> None:
    """Record that beat lives."""
    until = Now() + BEAT_SILENCE
    PeriodicTurn.objects.update_or_create(name=BEAT, defaults={"expires_at": until})


def beat_seen_at() -> datetime | None:
    """Return when beat last said that it lives; None if no beat has run here."""
    until = PeriodicTurn.objects.filter(name=BEAT).values_list("expires_at", flat=True).first()
    return until and until - BEAT_SILENCE
