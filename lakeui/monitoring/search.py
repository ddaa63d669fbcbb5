"""Search for tables, columns, versions, jobs, conflicts and writers visible to a person."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from uuid import UUID

from django.db.models import Q, QuerySet

from lakeui.catalog.access import Person, role_of, visible_tables
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.filters import MAX_ID_DIGITS, TABLE_TEXTS, is_row_id, match_words
from lakeui.catalog.models import Commit, Table
from lakeui.catalog.schema_rows import SchemaRows
from lakeui.conflicts.filters import visible_conflicts
from lakeui.conflicts.models import Conflict
from lakeui.jobs.filters import redact_job, visible_jobs
from lakeui.jobs.models import Job

SHOWN = 12
MAX_TEXT = 200
_SHORTEST_PART = 2
_TABLES_LOOKED_THROUGH = 4
_TRANSACTIONS_LOOKED_THROUGH = 200
_COMMITS_LOOKED_THROUGH = 2_000
_COMMITS_OF_ALL_LOOKED_THROUGH = 20_000
_UUID_START = re.compile(r"[0-9a-f]{4}[0-9a-f-]{0,32}")
_NEXT_DIGIT = dict(zip("0123456789abcdef", "123456789abcdefg", strict=True))
_CODE = re.compile(r"\b(DELTA_[A-Z_]+)\.([A-Z_]+)")  # and its sub-class
_VERSION = re.compile(rf"^(?:(?P<table>[\w.-]+)[@\s]+)?v(?P<version>\d{{1,{MAX_ID_DIGITS}}})$")


@dataclass(frozen=True, slots=True)
class FoundColumn:
    """A column of a table by its dotted name."""

    table: Table
    path: str
    type: str


@dataclass(frozen=True, slots=True)
class FoundWriter:
    """A writer of a table, and their latest version among the searched ones."""

    name: str
    table: Table
    version: int


@dataclass(frozen=True, slots=True)
class SearchResults:
    """The first few of each kind."""

    tables: list[Table] = field(default_factory=list)
    columns: list[FoundColumn] = field(default_factory=list)
    versions: list[Commit] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    writers: list[FoundWriter] = field(default_factory=list)

    @property
    def count(self) -> int:
        named = len(self.tables) + len(self.columns) + len(self.writers)
        return named + len(self.versions) + len(self.jobs) + len(self.conflicts)


def search(user: Person, text: str) -> SearchResults:
    """Return the results for words of a name or an error, a version (v7, orders v7) or an id."""
    text = text.strip()[:MAX_TEXT]
    if not text:
        return SearchResults()
    named = visible_tables(user).filter(match_words(text, *TABLE_TEXTS))
    tables = list(named.order_by("name")[:SHOWN])
    if _VERSION.match(text):  # nobody looks for a word that reads like a version
        return SearchResults(tables, versions=_versions(user, text))
    said = match_words(_CODE.sub(r"\1 \2", text), "exception", "code", "subclass", "message")
    conflicts = visible_conflicts(user).select_related("table").filter(said | _match_number(text))
    return SearchResults(
        tables,
        _columns(user, text),
        _versions(user, text),
        _jobs(user, text),
        list(conflicts[:SHOWN]),
        _writers(user, text),
    )


def uuid_in(text: str) -> UUID | None:
    """Parse a text as a UUID; None if it is not a UUID."""
    try:
        return UUID(text)
    except ValueError:
        return None


def _jobs(user: Person, text: str) -> list[Job]:
    """Return the jobs with this id, its first digits or these words; hidden words find none."""
    jobs, reader = visible_jobs(user).select_related("table"), Reader(user)
    if by_id := _match_job_id(text):
        redacted = [redact_job(job, reader) for job in jobs.filter(by_id)[:SHOWN]]
        if redacted or uuid_in(text):
            return redacted
    asked = jobs.filter(match_words(text, "statement", "error_code", "error_message"))
    if reader.sees_all:
        return list(asked[:SHOWN])
    readable: Iterator[Job] = (job for job in asked.iterator() if reader.may_read(job))
    return list(islice(readable, SHOWN))


def _match_job_id(text: str) -> Q | None:
    """Match ids that begin with these digits, at least four: a range, which the key finds."""
    if not _UUID_START.fullmatch(text.lower()):
        return Q(pk=uuid) if (uuid := uuid_in(text)) else None
    digits = text.replace("-", "")[:32]
    return Q(pk__range=(UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))))


def _versions(user: Person, text: str) -> list[Commit]:
    match = _VERSION.match(text)
    commits = Commit.objects.filter(table__in=visible_tables(user))
    commits = commits.select_related("table").defer("raw")
    if match is None:
        # by number: an index has the transactions of all tables, and few are of one id
        pks = (
            Commit.objects.filter(_match_transaction(text)).order_by().values_list("pk", flat=True)
        )
        return list(commits.filter(pk__in=list(pks[:_TRANSACTIONS_LOOKED_THROUGH]))[:SHOWN])
    commits = commits.filter(version=int(match["version"]))
    if match["table"]:
        commits = commits.filter(table__name__icontains=match["table"])
    return list(commits.order_by("table__name")[:SHOWN])


def _match_transaction(text: str) -> Q:
    """Match a transaction id, or the first digits of a UUID: a range, which an index finds."""
    digits = text.lower()
    if not _UUID_START.fullmatch(digits):
        return Q(txn_id=text)
    start = digits.rstrip("-")
    after = start[:-1] + _NEXT_DIGIT[start[-1]]
    return Q(txn_id__gte=start, txn_id__lt=after, txn_id__startswith=digits) | Q(txn_id=text)


def _columns(user: Person, text: str) -> list[FoundColumn]:
    """Return matching columns of the first tables whose schema contains the text."""
    if len(text) < _SHORTEST_PART:
        return []
    spelled = Q(schema__icontains=text) | Q(schema__icontains=json.dumps(text)[1:-1])
    tables = visible_tables(user).filter(spelled).order_by("-last_commit_at", "name")
    columns: list[FoundColumn] = []
    for table in tables[:_TABLES_LOOKED_THROUGH]:
        rows = SchemaRows(table, text)[: SHOWN - len(columns)]
        columns += [FoundColumn(table, row.path, row.type) for row in rows]
        if len(columns) >= SHOWN:
            break
    return columns


def _writers(user: Person, text: str) -> list[FoundWriter]:
    """Among the writers of the latest commits and the last writer of each table."""
    if len(text) < _SHORTEST_PART:
        return []
    tables = visible_tables(user).only("name", "version", "last_writer")
    last = tables.filter(last_writer__icontains=text, version__isnull=False).order_by("name")
    writers = {
        (table.pk, table.last_writer): FoundWriter(table.last_writer, table, table.version)
        for table in last[:SHOWN]
        if table.version is not None
    }
    commits = _latest_commits(user)
    recent = commits.values_list("table_id", "user_name", "version")[:_COMMITS_LOOKED_THROUGH]
    part = text.casefold()
    others = [row for row in recent if part in row[1].casefold()]
    by_id = tables.in_bulk({table for table, _, _ in others})
    for table_id, name, version in others:
        writers.setdefault((table_id, name), FoundWriter(name, by_id[table_id], version))
    return list(writers.values())[:SHOWN]


def _latest_commits(user: Person) -> QuerySet[Commit]:
    """Return the latest commits on visible tables, among the latest of all if some are hidden.

    A condition on tables alone would have the database sort every commit of theirs.
    """
    commits = Commit.objects.order_by("-pk")
    if role_of(user) is not None:
        return commits
    newest = commits.values_list("pk", flat=True).first() or 0
    return commits.filter(
        pk__gt=newest - _COMMITS_OF_ALL_LOOKED_THROUGH, table__in=visible_tables(user)
    )


def _match_number(text: str) -> Q:
    number = text.removeprefix("c-")
    is_number = is_row_id(number)
    return Q(pk=int(number)) if is_number and text != number else Q(pk__in=())
