"""A server over a lake that tells a story, in a home that is gone afterwards."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import django
from django.core.management import call_command

from tests.e2e.server import serving


@contextmanager
def lake_of_its_own() -> Iterator[str]:
    """Its address. Django is set up here, over that home, so nothing may have set it up before."""
    with tempfile.TemporaryDirectory(prefix="lakeui-pictures-") as home:
        os.environ.update(
            DJANGO_SETTINGS_MODULE="lakeui.settings",
            LAKEUI_HOME=home,
            SECRET_KEY="for-pictures-only-for-pictures-only-for-pictures",
            BROKER_URL="memory://",
            DATABASE_URL=f"sqlite:///{home}/lakeui.sqlite3",
            LOG_LEVEL="ERROR",
            WORKER_REPORT_SECONDS="600",  # the workers of the story said something once
        )
        django.setup()
        call_command("migrate", verbosity=0)
        import_module("tests.lakeui.factories").Story()  # its models need Django
        with serving(Path(home, "server.log")) as url:
            yield url
