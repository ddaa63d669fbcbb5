"""Removal of the demo lake: its tables with all of their records, their files, and its accounts.

People's own data stays, also under a name of the demo's: a table is the demo's if one of its steps
created it, an account if nobody ever signed in with it.
"""

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet

from engine.errors import RequestError
from engine.storage.uri import local_path
from lakeui.catalog.access import may
from lakeui.catalog.models import LiveFile, Table
from lakeui.conflicts.unregistration import unregister_table
from lakeui.jobs.errors import NotPermittedError, ReadOnlyError
from lakeui.jobs.models import Job, Schedule
from lakeui.local_stack.demo import ACCOUNTS, STEPS
from lakeui.local_stack.demo_data import file_names
from lakeui.local_stack.models import DemoStep

REASON = "The demo lake was removed."
_CREATED = frozenset(step.key for step in STEPS if step.kind == "create")


@dataclass(frozen=True, slots=True)
class Demo:
    """The parts of the demo lake to be removed."""

    tables: list[Table]
    accounts: list[User]
    job_count: int
    active_count: int
    schedule_count: int
    files: list[Path]

    @property
    def is_there(self) -> bool:
        return bool(self.tables or self.accounts or self.files)


def demo_of_installation() -> Demo:
    """Return the present demo."""
    tables = list(demo_tables().order_by("name"))
    jobs = Job.objects.filter(table__in=tables)
    return Demo(
        tables=tables,
        accounts=list(_accounts(tables)),
        job_count=jobs.count(),
        active_count=jobs.filter(state__in=Job.ACTIVE).count(),
        schedule_count=Schedule.objects.filter(table__in=tables).count(),
        files=[path for name in file_names() if (path := settings.DEMO_HOME / name).is_file()],
    )


def demo_tables() -> QuerySet[Table]:
    """Return the tables created by steps of the demo, at their original locations."""
    made = DemoStep.objects.filter(key__in=_CREATED).values("job__table")
    return Table.objects.filter(pk__in=made, registered_by__username__in=ACCOUNTS)


def remove_demo(by: User | None) -> Demo:
    """Remove the demo; the next start does not recreate it. Return the removed parts.

    Raises:
        ReadOnlyError, NotPermittedError: as they say.
        RequestError: a job of the demo runs, from now on without successors; or a table outside the
            demo reads its files or lies among them.
    """
    if settings.READ_ONLY:
        raise ReadOnlyError
    if by is not None and not may(by, "admin"):
        what = "Removing the demo lake"
        raise NotPermittedError(what, "admin", "every table")
    DemoStep.objects.filter(state=DemoStep.State.WAITING).update(state=DemoStep.State.REMOVED)
    demo = demo_of_installation()
    _check(demo)
    with transaction.atomic():
        for table in demo.tables:
            unregister_table(table, None, REASON)
        User.objects.filter(pk__in=[account.pk for account in demo.accounts]).delete()
        DemoStep.objects.update(state=DemoStep.State.REMOVED)
    for table in demo.tables:
        _remove_files(table.uri)
    for path in demo.files:
        path.unlink(missing_ok=True)
    return demo


def _check(demo: Demo) -> None:
    if demo.active_count:
        jobs = "1 job" if demo.active_count == 1 else f"{demo.active_count} jobs"
        msg = f"{jobs} of the demo must end first. No new jobs start."
        raise RequestError(msg, "Wait until they end, or cancel them. Then remove the demo again.")
    for table in demo.tables:
        place = local_path(table.uri) or table.uri
        inside = Q(path__contains=f"{place}/") | Q(path__contains=quote(f"{place}/"))
        others = LiveFile.objects.exclude(table__in=demo.tables)
        reader = others.filter(inside).select_related("table").first()
        if reader is not None:
            msg = f"{reader.table.name} reads files of {table.name}, which is a demo table."
            raise RequestError(msg, "Make a deep clone of it, or unregister it first.")
        if (inner := _table_inside(table.uri)) is not None:
            msg = f"The table {inner} is inside {table.name}, which is a demo table."
            raise RequestError(msg, "First move it out of that directory, or delete it.")


def _table_inside(uri: str) -> Path | None:
    """Return the directory of a table, registered or not, that lies among another's files."""
    place = local_path(uri)
    logs = place.rglob("_delta_log") if place is not None else ()
    return next((log.parent for log in logs if log.parent != place), None)


def _accounts(tables: list[Table]) -> QuerySet[User]:
    """Return accounts of the demo that were never signed in and did nothing outside the demo."""
    unused = Q(last_login=None, password="", email="", is_superuser=False)
    elsewhere = Job.objects.exclude(table__in=tables).exclude(requested_by=None)
    owners = Schedule.objects.exclude(table__in=tables).values("owner")
    made = Table.objects.exclude(pk__in=[table.pk for table in tables]).exclude(registered_by=None)
    accounts = User.objects.filter(unused, username__in=ACCOUNTS, auth_token_set=None)
    return (
        accounts.exclude(pk__in=elsewhere.values("requested_by"))
        .exclude(pk__in=owners)
        .exclude(pk__in=made.values("registered_by"))
        .order_by("username")
    )


def _remove_files(uri: str) -> None:
    """Remove a table's directory from the embedded lake; a lake elsewhere keeps its files."""
    place, lake = local_path(uri), local_path(str(settings.LAKE_HOME))
    if place is None or lake is None or place == lake or not place.is_relative_to(lake):
        return
    shutil.rmtree(place, ignore_errors=True)
    for parent in place.parents:
        if parent == lake:
            break
        with suppress(OSError):  # it holds another table, or was never created
            parent.rmdir()
