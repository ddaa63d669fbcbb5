"""A Spark worker's start beside a bare Spark session's (B16), and small statements by REST (B12, B16).

Redis, the database and the worker are as in the embedded stack, in a place of their own.
"""

import os
import tempfile
from importlib import import_module
from pathlib import Path

import django
from django.core.management import call_command
from django.db import connections

from benchmarks.measuring import Comparison, show


def measure() -> list[Comparison]:
    """Measure starts in turns; then jobs by REST, and the same statements by the library."""
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch) / "home"
        home.mkdir(mode=0o700)
        os.environ.setdefault("SECRET_KEY", "measuring-only-never-used-to-sign-anything")
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "lakeui.settings",
            "LAKEUI_HOME": str(home),
            "TABLE_ROOTS": scratch,
            "ALLOWED_HOSTS": "testserver",
            "LOG_LEVEL": "ERROR",
        }
        django.setup()
        call_command("migrate", verbosity=0)
        try:  # it needs Django to be set up
            results: list[Comparison] = import_module("benchmarks.worker_turns").measured(
                Path(scratch)
            )
        finally:
            connections.close_all()
        return results


if __name__ == "__main__":
    show(measure())
