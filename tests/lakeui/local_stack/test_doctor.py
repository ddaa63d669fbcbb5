"""`manage.py doctor` with services that really fail, and the remedies for each place."""

import json
import os
import socket
import subprocess
import sys
import threading
import zoneinfo
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from engine.clock import SystemClock
from lakeui.jobs.code_version import code_version, source_digest
from lakeui.jobs.models import WorkerReport
from lakeui.local_stack import checkup
from lakeui.local_stack.checkup import Installation, place_of
from tests.services import ROOT, run_redis

NAMES = [name for name, _, _ in checkup._CHECKS]


class OtherClock(SystemClock):
    """The machine's clock, a number of seconds ahead."""

    def __init__(self, ahead_s):
        self._ahead_ms = ahead_s * 1000

    def now_ms(self):
        return super().now_ms() + self._ahead_ms


def report(name, **fields):
    now = timezone.now()
    fields = {"queue": "light", "pid": 1, "started_at": now, "seen_at": now} | fields
    return WorkerReport.objects.create(name=name, **fields)


@pytest.mark.timeout(180)
def test_a_dead_broker_and_a_wrong_database_of_a_deployment_are_reported(tmp_path, dead):
    environment = os.environ | {
        "LAKEUI_HOME": str(tmp_path),
        "DATABASE_URL": f"postgres://nobody:hunter22@127.0.0.1:{dead}/lake",
        "BROKER_URL": f"redis://127.0.0.1:{dead}/0",
        "SPARK_MASTER": f"spark://127.0.0.1:{dead}",
        "JAVA_HOME": "/nowhere",
    }
    command = [sys.executable, "manage.py", "doctor", "--json"]
    done = subprocess.run(  # noqa: S603
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=150, check=False
    )
    assert (done.returncode, done.stderr.strip()) == (1, "CommandError: Something needs attention.")
    said = json.loads(done.stdout)
    assert (said["place"], said["ok"]) == ("deployed", False)
    checks = {row["check"]: row for row in said["checks"]}
    assert list(checks) == NAMES
    assert "unreachable" in checks["database"]["problem"]
    assert "DATABASE_URL" in checks["database"]["remedy"]
    assert "BROKER_URL" in checks["broker"]["remedy"]
    assert "unreachable" in checks["cluster"]["problem"]
    assert "Java" in checks["Java"]["problem"]
    assert checks["workers"]["problem"] == "Not checked, because broker failed."
    assert checks["versions"]["problem"] == "Not checked, because database failed."
    assert checks["time zone"]["problem"] == checks["time zone"]["remedy"] == ""
    assert "manage.py up" not in done.stdout
    assert "hunter22" not in done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_every_check_has_a_remedy_in_both_places(name):
    assert checkup._remedy(name, Installation.EMBEDDED)
    assert checkup._remedy(name, Installation.DEPLOYED)
    assert "manage.py up" not in checkup._remedy(name, Installation.DEPLOYED)


def test_it_is_deployed_where_a_database_or_a_broker_is_named():
    assert place_of({}) is Installation.EMBEDDED
    assert place_of({"LAKEUI_HOME": "/x"}) is Installation.EMBEDDED
    assert place_of({"DATABASE_URL": "postgres://x"}) is Installation.DEPLOYED
    assert place_of({"BROKER_URL": "redis://x"}) is Installation.DEPLOYED


@pytest.mark.django_db
def test_the_words_of_an_embedded_installation_name_its_command(monkeypatch, unreachable_broker):
    for name in ("DATABASE_URL", "BROKER_URL"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    out = StringIO()
    with pytest.raises(CommandError, match="needs attention"):
        call_command("doctor", stdout=out)
    lines = out.getvalue().splitlines()
    assert lines[0] == "This installation is embedded."
    [broker] = [line for line in lines if line.startswith("broker")]
    assert "The broker is unreachable" in broker
    assert "Run manage.py up" in broker


@pytest.mark.django_db
def test_the_skew_from_the_databases_clock_is_reported_with_its_size():
    assert checkup.clock_problem(SystemClock()) == ""
    assert checkup.clock_problem(OtherClock(90)).startswith("The clock of the database is 9")
    assert "behind this one" in checkup.clock_problem(OtherClock(90))
    assert "ahead of this one" in checkup.clock_problem(OtherClock(-90))


@pytest.mark.django_db
def test_the_skew_from_the_brokers_clock_is_reported(monkeypatch):
    with run_redis() as url:
        # where a message goes is what `broker_url` says until it is said itself: it is taken back last
        monkeypatch.setattr(checkup.app.conf, "broker_write_url", url)
        monkeypatch.setattr(checkup.app.conf, "broker_url", url)
        monkeypatch.setattr(checkup.app, "_pool", None)
        assert [name for name, _ in checkup._other_clocks()] == ["the database", "the broker"]
        assert checkup.clock_problem(SystemClock()) == ""


@pytest.mark.django_db
def test_a_worker_that_reports_from_the_future_has_another_clock():
    report("light@there", seen_at=timezone.now() + timedelta(minutes=2))
    assert "The clock of light@there is 1" in checkup.clock_problem(SystemClock())


@pytest.mark.django_db
def test_a_worker_of_other_code_is_named():
    report("light@here", code_version=code_version())
    assert checkup.version_problem(code_version()) == ""
    report("spark@there", code_version="0.0+12345678")
    report("spark@gone", code_version="x", seen_at=timezone.now() - timedelta(hours=1))
    problem = checkup.version_problem(code_version())
    assert "spark@there runs 0.0+12345678." in problem
    assert "light@here" not in problem
    assert "gone" not in problem


def test_a_digest_differs_where_a_source_file_does(tmp_path):
    for name in ("engine", "lakeui", "workers"):
        (tmp_path / name).mkdir()
    before = source_digest(tmp_path)
    (tmp_path / "engine" / "new.py").write_text("x = 1\n")
    assert source_digest(tmp_path) != before
    assert code_version().endswith(f"+{source_digest(ROOT)}")


def test_a_disk_without_room_is_named(settings, tmp_path, monkeypatch):
    assert checkup.full_disk_problem(1) == ""
    assert "LAKEUI_HOME" in checkup.full_disk_problem(1 << 60)
    settings.LAKEUI_HOME = Path("/")
    settings.TABLE_ROOTS = [str(tmp_path)]
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    assert "MiB left" in checkup.full_disk_problem(1 << 60)


def test_a_machine_without_zones_is_reported():
    assert checkup.zone_problem(zoneinfo.available_timezones()) == ""
    assert checkup.zone_problem({"UTC"}).endswith("time zone Europe/Berlin.")


def test_a_missing_root_is_named(settings, tmp_path):
    settings.TABLE_ROOTS = [str(tmp_path)]
    assert checkup.roots_problem() == ""
    settings.TABLE_ROOTS = [str(tmp_path / "gone")]
    assert checkup.roots_problem() == f"{tmp_path / 'gone'} is not a directory."


@pytest.mark.parametrize(
    ("root", "name"), [("s3://lake", "s3"), ("abfss://c@a/", "azure"), ("gs://b", "gcs")]
)
def test_a_bucket_whose_jars_are_missing_is_named(settings, tmp_path, monkeypatch, root, name):
    monkeypatch.setenv("SPARK_JARS", "")
    settings.TABLE_ROOTS, settings.SPARK_CONNECTORS = [root], tmp_path
    assert (
        checkup.jar_problem()
        == f"Spark cannot read {root}, because the jars of {name} are missing."
    )
    monkeypatch.setenv("SPARK_JARS", "/opt/jars/a.jar")
    assert checkup.jar_problem() == ""


def test_a_cluster_is_reached_by_one_of_its_masters(settings, dead):
    nobody = f"127.0.0.1:{dead}"
    settings.SPARK_MASTER = f"spark://{nobody}"
    assert checkup.cluster_problem().startswith(f"The cluster's master {nobody} is unreachable")
    settings.SPARK_MASTER = "local[2]"
    assert checkup.cluster_problem() == ""
    with run_redis() as url:
        alive = url.removeprefix("redis://").removesuffix("/0")
        settings.SPARK_MASTER = f"spark://{nobody},{alive}"
        assert checkup.cluster_problem() == ""
    settings.SPARK_MASTER = "spark://nowhere"
    assert "unreachable" in checkup.cluster_problem()


def test_the_api_of_kubernetes_is_reached_with_and_without_a_scheme(settings, dead):
    nobody = f"127.0.0.1:{dead}"
    for master in (f"k8s://https://{nobody}", f"k8s://{nobody}"):
        settings.SPARK_MASTER = master
        assert checkup.cluster_problem().startswith(
            f"The API of Kubernetes {nobody} is unreachable"
        )
    settings.SPARK_MASTER = "k8s://https://no-such-host.invalid/below"
    assert "no-such-host.invalid:443" in checkup.cluster_problem()
    with run_redis() as url:
        settings.SPARK_MASTER = f"k8s://http://{url.removeprefix('redis://').removesuffix('/0')}"
        assert checkup.cluster_problem() == ""


def test_yarn_is_found_by_the_configuration_of_hadoop(settings, monkeypatch, tmp_path):
    settings.SPARK_MASTER = "yarn"
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert "HADOOP_CONF_DIR" in checkup.cluster_problem()
    (tmp_path / "yarn-site.xml").touch()
    assert checkup.cluster_problem() == ""


def test_an_unreachable_provider_is_reported(settings, dead):
    assert checkup.provider_problem() == ""
    settings.OIDC_ISSUER = f"http://127.0.0.1:{dead}"
    assert "provider is unreachable" in checkup.provider_problem()


def test_services_that_are_not_set_up_are_not_said_to_work(settings, monkeypatch, tmp_path):
    optional = [(name, (), str) for name in ("cluster", "sign-on", "mail", "lineage")]
    monkeypatch.setattr(checkup, "_CHECKS", (*optional, ("home", (), str)))
    settings.SPARK_MASTER, settings.OIDC_ISSUER = "local[2]", ""
    settings.EMAIL_URL = settings.LINEAGE_URL = ""
    written = StringIO()
    call_command("doctor", stdout=written)
    states = {row.split()[0]: row.split(maxsplit=1)[1] for row in written.getvalue().splitlines()}
    assert states.pop("home") == "works"
    assert {states[name] for name, *_ in optional} == {"not set up"}
    settings.LINEAGE_URL = (tmp_path / "lineage.ndjson").as_uri()
    set_up = {row.check: row.is_set_up for row in checkup.findings(checkup.Installation.EMBEDDED)}
    assert set_up["lineage"]
    assert not set_up["mail"]


# Lineage


@contextmanager
def run_server(status, seen):
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self):
            seen.append((self.path, self.headers.get("Authorization")))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *args):
            """Write no log."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "words"),
    [(204, ""), (405, ""), (401, "refuses the key (answered 401)"), (503, "answered 503")],
)
def test_a_lineage_server_is_tested_without_an_event(settings, status, words):
    settings.LINEAGE_API_KEY, seen = "lake-key", []
    with run_server(status, seen) as url:
        settings.LINEAGE_URL = url
        problem = checkup.lineage_problem()
    assert words in problem
    assert bool(problem) == bool(words)
    assert seen == [("/api/v1/lineage", "Bearer lake-key")]
    assert "lake-key" not in problem


def test_a_lineage_server_that_is_away_or_hangs_is_reported_in_time(settings, monkeypatch, dead):
    monkeypatch.setattr(checkup, "_LONG_S", 0.3)
    settings.LINEAGE_URL = f"http://127.0.0.1:{dead}"
    assert checkup.lineage_problem() == "Lineage events cannot be sent: Connection refused."
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings.LINEAGE_URL = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert checkup.lineage_problem() == "Lineage events cannot be sent: no answer within 0.3 s."


def test_a_file_of_lineage_is_checked_and_not_made(settings, tmp_path):
    file = tmp_path / "lineage.ndjson"
    settings.LINEAGE_URL = file.as_uri()
    assert checkup.lineage_problem() == ""
    assert not file.exists()
    file.write_text("{}\n")
    assert checkup.lineage_problem() == ""
    assert file.read_text() == "{}\n"
    settings.LINEAGE_URL = (tmp_path / "nowhere/lineage.ndjson").as_uri()
    assert "there is no directory" in checkup.lineage_problem()
    settings.LINEAGE_URL = tmp_path.as_uri()
    assert "Is a directory" in checkup.lineage_problem()
    os.mkfifo(tmp_path / "pipe")
    settings.LINEAGE_URL = (tmp_path / "pipe").as_uri()
    assert "not a regular file" in checkup.lineage_problem()
    settings.LINEAGE_URL = "ftp://elsewhere"
    assert "OPENLINEAGE_URL cannot be used" in checkup.lineage_problem()
