"""The producer's side of the broker: lakeui sends names and ids, nothing else."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "lakeui.settings")

app = Celery("lakeui")
app.config_from_object("django.conf:settings", namespace="CELERY")
