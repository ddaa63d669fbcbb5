"""Tasks that keep the mirror near the log."""

from lakeui.catalog.mirror import refresh_table
from lakeui.catalog.models import Table
from lakeui.celery import app
from lakeui.task_names import LIGHT_QUEUE, MIRROR_ALL, MIRROR_TABLE

_STALE_S = 60


@app.task(name=MIRROR_TABLE)
def mirror_table(table_id: int) -> None:
    """Mirror what one table's log has that its rows have not."""
    table = Table.objects.filter(pk=table_id).first()
    if table is not None:
        refresh_table(table)


@app.task(name=MIRROR_ALL)
def mirror_all() -> None:
    """Ask for every table; a request that waited too long is dropped, the next one follows."""
    for table_id in Table.objects.values_list("pk", flat=True):
        app.send_task(MIRROR_TABLE, [table_id], queue=LIGHT_QUEUE, expires=_STALE_S)
