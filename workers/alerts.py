"""Tasks that evaluate the alert rules and deliver their messages."""

from functools import partial

from django.utils import timezone

from lakeui.celery import app
from lakeui.jobs.turns import take_turns
from lakeui.monitoring.alerting.channels import wake
from lakeui.monitoring.alerting.outbox import deliver, due_channels
from lakeui.monitoring.alerting.watch import watch
from lakeui.task_names import DELIVER_ALERTS, WATCH_FOR_ALERTS
from workers.senders import SENDERS


@app.task(name=WATCH_FOR_ALERTS)
@take_turns(WATCH_FOR_ALERTS, seconds=120)
def watch_for_alerts() -> None:
    """Evaluate every rule, then have each channel with due messages served in its own task.

    A webhook that hangs then delays no other channel and no rule.
    """
    now = timezone.now()
    try:
        watch(now)
    finally:
        for channel_id in due_channels(now):
            wake(channel_id)


@app.task(name=DELIVER_ALERTS)
def deliver_alerts(channel_id: int) -> None:
    """Send the due messages of one channel."""
    SENDERS.take(f"channel {channel_id}", partial(deliver, channel_id))
