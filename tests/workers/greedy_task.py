"""A task for tests that runs out of memory."""

from lakeui.celery import app
from workers.reads import BoundedTask


@app.task(name="tests.need_memory", base=BoundedTask)
def need_memory() -> None:
    raise MemoryError
