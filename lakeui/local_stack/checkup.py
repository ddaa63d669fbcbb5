"""Checks of this installation, with the remedy for each problem in its kind of installation.

An installation is deployed if its environment names a database or a broker of its own; else it is
embedded, and `manage.py up` runs every part. The checks are the same, their remedies are not.
"""

import os
import shutil
import socket
import tempfile
import zoneinfo
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.db import connection
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from engine.clock import Clock, SystemClock
from engine.errors import EngineError
from engine.storage.connectors import CONNECTORS, has_connector
from engine.storage.uri import local_path, open_store
from lakeui.catalog.roots import storage_options
from lakeui.celery import app
from lakeui.jobs.code_version import code_version
from lakeui.jobs.models import WorkerReport
from lakeui.jobs.turns import BEAT_SILENCE, beat_seen_at
from lakeui.local_stack.database_state import (
    first_line,
    migration_problem,
    unreachable_problem,
)
from lakeui.local_stack.preflight import (
    MIN_FREE_BYTES,
    disk_problem,
    java_problem,
    storage_problem,
)
from lakeui.monitoring.alerting.mail import server_problem
from lakeui.monitoring.lineage.outbox import check_lineage, reach_problem
from lakeui.monitoring.worker_state import MISSED
from lakeui.sign_on import openid
from lakeui.sign_on.configuration import is_openid_enabled
from lakeui.sign_on.errors import SignOnError

MAX_SKEW_S = 5.0
_TIMEOUT_S = 3
_LONG_S = 8  # for mail servers, which delay unknown clients
_ZONES = ("UTC", "Europe/Berlin", "America/New_York")


class Installation(StrEnum):
    """The kind of this installation, which decides the remedies."""

    EMBEDDED = "embedded"
    DEPLOYED = "deployed"


@dataclass(frozen=True, slots=True)
class CheckupFinding:
    """A check; `problem` is empty if all is well, or if there is nothing to check."""

    check: str
    problem: str = ""
    remedy: str = ""
    is_set_up: bool = True


def place_of(environment: Mapping[str, str]) -> Installation:
    """Return deployed if the environment names a database or a broker, else embedded."""
    named = {"DATABASE_URL", "BROKER_URL"} & environment.keys()
    return Installation.DEPLOYED if named else Installation.EMBEDDED


def findings(place: Installation) -> Iterator[CheckupFinding]:
    """Run every check in order. A check that depends on a failed one says so."""
    works: dict[str, bool] = {}
    for name, needs, check in _CHECKS:
        missing = [need for need in needs if not works.get(need, True)]
        problem = f"Not checked, because {missing[0]} failed." if missing else check()
        works[name] = not problem
        is_set_up = bool(problem or _IS_SET_UP.get(name, lambda: True)())
        yield CheckupFinding(name, problem, _remedy(name, place) if problem else "", is_set_up)


def database_problem() -> str:
    """Return "" if the database answers and is migrated, else the problem."""
    return unreachable_problem() or migration_problem()


def broker_problem() -> str:
    """Return "" if the broker answers, else the problem."""
    try:
        with app.connection_for_write() as broker:
            broker.ensure_connection(max_retries=1, interval_start=0, timeout=_TIMEOUT_S)
    except (OSError, OperationalError) as error:
        return f"The broker is unreachable: {first_line(error)}."
    return ""


def worker_problem() -> str:
    """Return "" if every kind of worker answers, else the problem."""
    answers = app.control.ping(timeout=1.0)
    names = {name.partition("@")[0] for answer in answers or [] for name in answer}
    missing = sorted({"spark", "light", "reads"} - names)
    return f"No {' and no '.join(missing)} worker answers." if missing else ""


def beat_problem() -> str:
    """Return "" if beat has given a sign of life, else the problem."""
    seen_at = beat_seen_at()
    if seen_at is None:
        return "No beat has run here."
    silent = timezone.now() - seen_at
    return f"Beat has been silent for {silent.seconds} s." if silent > BEAT_SILENCE else ""


def version_problem(own: str) -> str:
    """Return "" if every worker with a recent report runs the code `own`, else the problem."""
    lately = timezone.now() - timedelta(seconds=MISSED * settings.WORKER_REPORT_SECONDS)
    others = [
        f"{report.name} runs {report.code_version}"
        for report in WorkerReport.objects.filter(seen_at__gte=lately).exclude(code_version=own)
    ]
    return f"This is {own}; {', '.join(others[:5])}." if others else ""


def clock_problem(clock: Clock) -> str:
    """Return "" if the clocks of database, broker and workers are within `MAX_SKEW_S` of this one, else the problem."""
    for name, now in _other_clocks():
        skew = now.timestamp() - clock.now_ms() / 1000
        if abs(skew) > MAX_SKEW_S:
            return f"The clock of {name} is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this one."
    newest = WorkerReport.objects.order_by("-seen_at").first()
    ahead = 0.0 if newest is None else newest.seen_at.timestamp() - clock.now_ms() / 1000
    if newest is not None and ahead > MAX_SKEW_S:
        return f"The clock of {newest.name} is {ahead:.0f} s ahead of this one."
    return ""


def full_disk_problem(needed: int = MIN_FREE_BYTES) -> str:
    """Return "" if home, Spark's scratch space and local table roots have enough bytes left, else the problem."""
    if problem := disk_problem(needed):
        return problem
    scratch = os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")
    roots = [str(path) for root in settings.TABLE_ROOTS if (path := local_path(root)) is not None]
    for place in (*scratch, *roots):
        if Path(place).is_dir() and (free := shutil.disk_usage(place).free) < needed:
            return f"The disk of {place} has {free // 1024**2} MiB left, less than {needed // 1024**2}."
    return ""


def zone_problem(zones: Collection[str]) -> str:
    """Return "" if this machine knows the usual time zones, else the problem."""
    missing = [name for name in _ZONES if name not in zones]
    return f"This machine does not have the time zone {missing[0]}." if missing else ""


def roots_problem() -> str:
    """Return "" if every root of tables can be listed, else the problem."""
    for root in settings.TABLE_ROOTS:
        path = local_path(root)
        if path is not None and not Path(path).is_dir():
            return f"{root} is not a directory."
        try:
            next(iter(open_store(root, storage_options(root)).list_from("", "")), None)
        except EngineError as error:
            return f"{root}: {error}"
    return ""


def jar_problem() -> str:
    """Return "" if Spark has the connector of every object store with tables, else the problem."""
    for root in settings.TABLE_ROOTS:
        scheme = {"s3a": "s3", "abfss": "az", "abfs": "az"}.get(*[urlsplit(root).scheme] * 2)
        connector = CONNECTORS.get(scheme)
        if connector is None or os.environ.get("SPARK_JARS"):  # compose sets it, mostly empty
            continue
        if not has_connector(settings.SPARK_CONNECTORS, connector):
            return f"Spark cannot read {root}, because the jars of {connector.name} are missing."
    return ""


def cluster_problem() -> str:
    """Return "" if a master of a standalone cluster or Kubernetes' API takes connections, else the problem.

    For YARN, only Hadoop's configuration is checked.
    """
    master = settings.SPARK_MASTER
    if master.startswith("yarn"):
        folders = [os.environ.get("HADOOP_CONF_DIR"), os.environ.get("YARN_CONF_DIR")]
        there = any(folder and (Path(folder) / "yarn-site.xml").is_file() for folder in folders)
        return "" if there else "The directory in HADOOP_CONF_DIR has no yarn-site.xml."
    if master.startswith("k8s://"):
        scheme, _, rest = master.removeprefix("k8s://").rpartition("://")
        address = rest.partition("/")[0]
        if ":" not in address:
            address += ":80" if scheme == "http" else ":443"
        return _first_reached("The API of Kubernetes", master, [address])
    if master.startswith("spark://"):
        addresses = master.removeprefix("spark://").split(",")
        return _first_reached("The cluster's master", master, addresses)
    return ""


def _first_reached(what: str, master: str, addresses: list[str]) -> str:
    problem = f"{master} has no host and port."
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=_TIMEOUT_S):
                return ""
        except (OSError, ValueError) as error:
            problem = f"{what} {address} is unreachable: {first_line(error)}."
    return problem


def provider_problem() -> str:
    """Return "" if the OpenID provider answers as one, or none is set up, else the problem."""
    try:
        if is_openid_enabled():
            openid.reach()
    except SignOnError as error:
        return error.text
    return ""


def mail_problem() -> str:
    """Return "" if the mail server accepts the sender or none is set. No message is sent."""
    return server_problem(_LONG_S) if settings.EMAIL_URL else ""


def lineage_problem() -> str:
    """Return "" if lineage events can be created and sent, or lineage is off, else the problem."""
    if faults := check_lineage():
        return f"{faults[0].msg.rstrip('.')}."
    problem = reach_problem(settings.LINEAGE_URL, _LONG_S) if settings.LINEAGE_URL else ""
    return f"Lineage events cannot be sent: {problem.rstrip('.')}." if problem else ""


def _other_clocks() -> Iterator[tuple[str, datetime]]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT CURRENT_TIMESTAMP")
        now = cursor.fetchone()[0]
    moment = parse_datetime(now) if isinstance(now, str) else now
    if moment is not None:
        yield "the database", moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if app.conf.broker_url.startswith("redis"):
        try:
            with app.connection_for_write() as broker:
                seconds, micros = broker.default_channel.client.time()  # type: ignore[attr-defined]  # Redis's
                yield "the broker", datetime.fromtimestamp(seconds + micros / 1e6, tz=UTC)
        except (OSError, OperationalError, RedisError):
            return  # the broker's check reports that


_CHECKS: tuple[tuple[str, tuple[str, ...], Callable[[], str]], ...] = (
    ("Java", (), java_problem),
    ("cluster", (), cluster_problem),
    ("jars", (), jar_problem),
    ("database", (), database_problem),
    ("broker", (), broker_problem),
    ("workers", ("broker",), worker_problem),
    ("beat", ("database",), beat_problem),
    ("versions", ("database",), lambda: version_problem(code_version())),
    ("clocks", ("database",), lambda: clock_problem(SystemClock())),
    ("time zone", (), lambda: zone_problem(zoneinfo.available_timezones())),
    ("home", (), storage_problem),
    ("disk", (), full_disk_problem),
    ("storage", (), roots_problem),
    ("sign-on", (), provider_problem),
    ("mail", (), mail_problem),
    ("lineage", (), lineage_problem),
)

_IS_SET_UP: Mapping[str, Callable[[], bool]] = {
    "cluster": lambda: not settings.SPARK_MASTER.startswith("local"),
    "sign-on": lambda: bool(settings.OIDC_ISSUER),
    "mail": lambda: bool(settings.EMAIL_URL),
    "lineage": lambda: bool(settings.LINEAGE_URL),
}
"""Optional parts of an installation."""
_EMBEDDED_REMEDIES: Mapping[str, str] = {
    "database": "Run manage.py migrate or manage.py up, and check the disk for errors.",
    "broker": "Run manage.py up: it starts the broker.",
    "workers": "Run manage.py up: it starts the workers.",
    "beat": "Run manage.py up: it starts beat.",
    "versions": "Stop manage.py up and start it again.",
    "clocks": "Set this machine's clock, and synchronize it with NTP.",
    "disk": "Free space, or set LAKEUI_HOME to another disk.",
    "storage": "Create the directory, or start manage.py up with other TABLE_ROOTS.",
}
_DEPLOYED_REMEDIES: Mapping[str, str] = {
    "database": "Check DATABASE_URL and that the database is running. Run manage.py migrate.",
    "broker": "Check BROKER_URL and that Redis is running. Until then, jobs wait in the database.",
    "workers": "Start them: celery -A workers.celery worker -Q light (and -Q reads, -Q spark), or "
    "docker compose up -d. See their logs.",
    "beat": "Start it, once: celery -A workers.celery beat, or docker compose up -d. See its log.",
    "versions": "Stop these workers, install this release there, and start them again.",
    "clocks": "Synchronize the clocks of all machines with NTP. Leases and schedules depend on "
    "them.",
    "disk": "Free space on this volume, or enlarge it. SPARK_LOCAL_DIRS sets the place of "
    "Spark's temporary files.",
    "storage": "Check TABLE_ROOTS, TABLE_STORAGE_OPTIONS and the mounts in every process.",
}
_REMEDIES: Mapping[str, str] = {
    "Java": "Install Java 17 or later on the machines of Spark workers, or set JAVA_HOME.",
    "cluster": "Check SPARK_MASTER (on YARN, HADOOP_CONF_DIR), the cluster and the network.",
    "jars": "Run manage.py connectors NAME --fetch on the machines of Spark workers, and restart "
    "the workers.",
    "time zone": "Install the system's tzdata, or pip install tzdata.",
    "home": "Make it writable, or set LAKEUI_HOME to a writable directory.",
    "mail": "Check EMAIL_URL (host, port, smtp+tls:// or smtp+ssl://, user and password) and "
    "EMAIL_FROM, and that this machine can reach the server.",
    "lineage": "Check OPENLINEAGE_URL, OPENLINEAGE_ENDPOINT and OPENLINEAGE_API_KEY, that this "
    "machine can reach the server or write the file, and that lakeui[server,lineage] is "
    "installed.",
    "sign-on": "Check OIDC_ISSUER, and that this machine can reach it.",
}


def _remedy(check: str, place: Installation) -> str:
    of_place = _EMBEDDED_REMEDIES if place is Installation.EMBEDDED else _DEPLOYED_REMEDIES
    return of_place.get(check) or _REMEDIES.get(check, "")
