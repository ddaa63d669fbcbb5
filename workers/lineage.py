"""Tasks that record the lineage of jobs and transactions, and send it to `OPENLINEAGE_URL`."""

from django.conf import settings
from django.utils import timezone

from lakeui.celery import app
from lakeui.jobs.turns import take_turns
from lakeui.task_names import DELIVER_LINEAGE, LIGHT_QUEUE, NOTE_LINEAGE
from workers.senders import SENDERS

AT_A_TIME = 4  # concurrent tries of one worker


@app.task(name=NOTE_LINEAGE)
@take_turns(NOTE_LINEAGE, seconds=120)
def note_lineage() -> None:
    """Record starts and ends; another task sends them, so that a hanging server delays no round."""
    if not settings.LINEAGE_URL:
        return
    from lakeui.monitoring.lineage.rounds import note  # noqa: PLC0415 - packages of an extra

    note(timezone.now())
    app.send_task(DELIVER_LINEAGE, queue=LIGHT_QUEUE, expires=60)


@app.task(name=DELIVER_LINEAGE)
def deliver_lineage() -> None:
    """Send the due events."""
    if settings.LINEAGE_URL:
        from lakeui.monitoring.lineage.outbox import deliver  # noqa: PLC0415 - as above

        any(SENDERS.take(f"lineage {place}", deliver) for place in range(AT_A_TIME))
