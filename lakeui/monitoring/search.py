"""One text that finds tables, versions, jobs and conflicts, among what a person may see."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from uuid import UUID

from django.db.models import Q

from lakeui.catalog.access import Person, visible_tables
from lakeui.catalog.filters import MAX_ID_DIGITS
from lakeui.catalog.models import Commit, Table
from lakeui.catalog.named_tables import Reader
from lakeui.conflicts.filters import visible_conflicts
from lakeui.conflicts.models import Conflict
from lakeui.jobs.filters import visible_jobs
from lakeui.jobs.models import Job
from lakeui.jobs.redaction import shown_job

SHOWN = 12
MAX_TEXT = 200
_VERSION = re.compile(rf"^(?:(?P<table>[\w.-]+)[@\s]+)?v(?P<version>\d{{1,{MAX_ID_DIGITS}}})$")


@dataclass(frozen=True, slots=True)
class Found:
    """The first few of each kind."""

    tables: list[Table] = field(default_factory=list)
    versions: list[Commit] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.tables) + len(self.versions) + len(self.jobs) + len(self.conflicts)


def search(user: Person, text: str) -> Found:
    """What a name, a version (v7, orders v7), an id or a word of an error finds."""
    text = text.strip()[:MAX_TEXT]
    if not text:
        return Found()
    named = visible_tables(user).filter(
        Q(name__icontains=text) | Q(uri__icontains=text) | Q(description__icontains=text)
    )
    tables = list(named.order_by("name")[:SHOWN])
    if _VERSION.match(text):  # nobody looks for a word that reads like a version
        return Found(tables, _versions(user, text))
    said = Q(exception__icontains=text) | Q(code__icontains=text) | Q(message__icontains=text)
    conflicts = visible_conflicts(user).select_related("table").filter(said | _numbered(text))
    return Found(tables, _versions(user, text), _jobs(user, text), list(conflicts[:SHOWN]))


def uuid_in(text: str) -> UUID | None:
    """The UUID that a text is, if it is one."""
    try:
        return UUID(text)
    except ValueError:
        return None


def _jobs(user: Person, text: str) -> list[Job]:
    """None is found by words that its reader may not read."""
    jobs, reader = visible_jobs(user).select_related("table"), Reader(user)
    job_id = uuid_in(text)
    if job_id:
        return [shown_job(job, reader) for job in jobs.filter(pk=job_id)]
    asked = jobs.filter(Q(statement__icontains=text) | Q(error_message__icontains=text))
    if reader.sees_all:
        return list(asked[:SHOWN])
    readable: Iterator[Job] = (job for job in asked.iterator() if reader.may_read(job))
    return list(islice(readable, SHOWN))


def _versions(user: Person, text: str) -> list[Commit]:
    match = _VERSION.match(text)
    commits = Commit.objects.filter(table__in=visible_tables(user))
    commits = commits.select_related("table").defer("raw")
    if match is None:
        return list(commits.filter(txn_id=text)[:SHOWN])
    commits = commits.filter(version=int(match["version"]))
    if match["table"]:
        commits = commits.filter(table__name__icontains=match["table"])
    return list(commits.order_by("table__name")[:SHOWN])


def _numbered(text: str) -> Q:
    number = text.removeprefix("c-")
    is_number = number.isascii() and number.isdigit() and len(number) <= MAX_ID_DIGITS
    return Q(pk=int(number)) if is_number and text != number else Q(pk__in=())
