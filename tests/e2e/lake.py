"""A server over a lake with a sample history, in a temporary home."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import django
from django.core.management import call_command

from tests.e2e.server import run_server


@contextmanager
def lake_of_its_own() -> Iterator[str]:
    """Yield the server's address. Django is set up here, over that home, so it must not be set up before."""
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
        with run_server(Path(home, "server.log")) as url:
            yield url


_FIRST = """
from django.contrib.auth.models import Group, User
from lakeui.local_stack import demo, demo_data
demo_data.ORDERS_A_DAY = 20
User.objects.create_superuser("first", password=PASSWORD)
demo.prepare()
demo.advance()
from lakeui.jobs.models import Job
Job.objects.update(state="succeeded")
from lakeui.local_stack.models import DemoStep
DemoStep.objects.update(state="done")
"""


@contextmanager
def empty_installation(home: Path, password: str) -> Iterator[str]:
    """Yield the address of an installation with the initial demo lake and one user: "first"."""
    more = {
        "LAKEUI_HOME": str(home),
        "LAKEUI_EMBEDDED": "1",
        "DATABASE_URL": f"sqlite:///{home}/lakeui.sqlite3",
        "TABLE_ROOTS": str(home / "lake"),
        "SECRET_KEY": "for-journeys-only-for-journeys-only-for-journeys",
        "DJANGO_SETTINGS_MODULE": "lakeui.settings",
        "BROKER_URL": "memory://",
        "LOG_LEVEL": "ERROR",
    }
    said = f"PASSWORD = {password!r}\n{_FIRST}"
    for command in (["migrate", "--verbosity", "0"], ["shell", "--no-imports", "-c", said]):
        subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "manage.py", *command], env=os.environ | more, check=True
        )
    with run_server(home / "server.log", more) as url:
        yield url
