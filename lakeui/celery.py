"""The producer's side of the broker: lakeui sends names and ids, nothing else."""

import os

from celery import Celery
from celery.signals import setup_logging

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "lakeui.settings")

app = Celery("lakeui")
app.config_from_object("django.conf:settings", namespace="CELERY")


@setup_logging.connect
def keep_log_lines(**_: object) -> None:
    """Keep logging as `LOGGING` says: Celery leaves it alone if this signal has a receiver."""
