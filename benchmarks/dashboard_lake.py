"""A database as a large lake leaves it: many tables, each with a long mirrored history.

A few tables are written row by row; the others are copies of their rows, made by the database
itself, which is what makes ten million commits a matter of minutes.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from auditlog.models import LogEntry
from django.contrib.auth.models import Group, User
from django.contrib.contenttypes.models import ContentType
from django.db import connection, transaction
from django.db.models import F, Model

from lakeui.catalog import hours
from lakeui.catalog.models import Commit, LiveFile, Table
from lakeui.conflicts import costs as conflict_days
from lakeui.conflicts.models import Conflict
from lakeui.jobs.models import Job, JobAttempt, JobEvent, Schedule

MINUTES_BETWEEN = (5, 15, 30, 60, 60, 120, 240, 720, 1440, 1440)
"""How often a table is committed to: a tenth of them each."""
_WORDS = ("sales", "crm", "web", "stock", "finance", "ads", "hr", "ops")
_FIELDS = ("order_id", "customer_id", "order_date", "status", "amount", "updated_at")
_OPERATIONS = ("WRITE", "MERGE", "STREAMING UPDATE", "UPDATE", "DELETE", "OPTIMIZE", "WRITE")
_PEOPLE = ("etl-nightly", "stream-orders", "price-fixer", "gdpr-eraser", "ops-oncall")
_BATCH = 5_000
_LIVE_FILES = 40


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much there is of everything."""

    tables: int = 10_000
    versions: int = 1_000
    conflicts: int = 100_000
    jobs: int = 100_000


def fill(sizes: Sizes) -> None:
    """Write it all. The database is empty and migrated."""
    now, chance = datetime.now(UTC), random.Random(6)  # noqa: S311 - the same lake every time
    owner = User.objects.create_user("owner", password="correct horse battery")  # noqa: S106
    owner.groups.add(Group.objects.get(name="admin"))
    tables = Table.objects.bulk_create(_tables(sizes, now), batch_size=_BATCH)
    first = tables[: len(MINUTES_BETWEEN)]
    for place, table in enumerate(first):
        Commit.objects.bulk_create(_commits(table, place, sizes.versions, now), batch_size=_BATCH)
        LiveFile.objects.bulk_create(_live_files(table, chance), batch_size=_BATCH)
    for model in (Commit, LiveFile):
        _copy_to_the_others(model, first, len(tables))
    hours.recount()
    schedules = Schedule.objects.bulk_create(_schedules(tables, owner, now))
    made = _jobs(tables, owner, sizes, now, chance, schedules)
    jobs = Job.objects.bulk_create(made, batch_size=_BATCH)
    Job.objects.filter(started_at__isnull=False).update(created_at=F("started_at"))  # not just now
    JobAttempt.objects.bulk_create(_attempts(jobs, now), batch_size=_BATCH)
    JobEvent.objects.bulk_create(_events(jobs, now), batch_size=_BATCH)
    Conflict.objects.bulk_create(_conflicts(jobs, sizes, now, chance), batch_size=_BATCH)
    conflict_days.recount()
    LogEntry.objects.bulk_create(_entries(jobs, owner, now), batch_size=_BATCH)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def _tables(sizes: Sizes, now: datetime) -> Iterator[Table]:
    fields = [
        {"name": name, "type": "string", "nullable": True, "metadata": {}} for name in _FIELDS
    ]
    for number in range(sizes.tables):
        minutes = MINUTES_BETWEEN[number % len(MINUTES_BETWEEN)]
        name = f"{_WORDS[number % len(_WORDS)]}.table_{number:05d}"
        small = 30 if number % 97 == 0 else 2
        is_eligible = number % 3 > 0
        yield Table(
            name=name,
            uri=f"s3://lake/{name.replace('.', '/')}",
            version=sizes.versions - 1,
            earliest_version=0,
            last_commit_at=now - timedelta(minutes=minutes),
            last_operation="WRITE",
            table_uuid=f"00000000-0000-4000-8000-{number:012d}",
            min_reader_version=3,
            min_writer_version=7,
            reader_features=["deletionVectors"],
            writer_features=["deletionVectors", "rowTracking", "domainMetadata", "clustering"],
            schema={"type": "struct", "fields": fields},
            clustering_columns=["order_date"],
            properties={"delta.enableDeletionVectors": "true"},
            isolation_level="Serializable" if number % 10 == 0 else "WriteSerializable",
            deletion_vectors=is_eligible,
            row_tracking=is_eligible,
            row_level_eligible=is_eligible,
            row_level_reason="clustered, deletion vectors on" if is_eligible else "no vectors",
            file_count=_LIVE_FILES,
            size_bytes=(number % 1000 + 1) * 2**28,
            row_count=number * 1000,
            small_file_count=small,
            live_files_mirrored=_LIVE_FILES,
            mirrored_at=now - timedelta(seconds=number % 60),
            mirror_error_code="LAKE_STORAGE_UNREACHABLE" if number % 2003 == 7 else "",
            mirror_error="The storage did not answer." if number % 2003 == 7 else "",
        )


def _commits(table: Table, place: int, versions: int, now: datetime) -> Iterator[Commit]:
    step = timedelta(minutes=MINUTES_BETWEEN[place])
    for version in range(versions):
        operation = _OPERATIONS[version % len(_OPERATIONS)]
        parameters = {"mode": "Append", "predicate": "[\"(order_date >= DATE '2026-11-01')\"]"}
        lines = (
            {"commitInfo": {"operation": operation, "operationParameters": parameters,
                            "readVersion": version - 1, "isBlindAppend": operation == "WRITE"}},
            {"add": {"path": f"part-{version:05d}.parquet", "partitionValues": {}, "size": 2**25,
                     "modificationTime": 0, "dataChange": True,
                     "stats": '{"numRecords":1000}'}},
        )  # fmt: skip
        raw = "\n".join(map(json.dumps, lines)) + "\n"
        yield Commit(
            table=table,
            version=version,
            committed_at=now - step * (versions - version),
            operation=operation,
            operation_parameters=parameters,
            operation_metrics={"numOutputRows": "1000", "numFiles": "1"},
            read_version=max(version - 1 - version % 4, 0) if version else None,
            isolation_level="WriteSerializable",
            is_blind_append=operation == "WRITE",
            user_name=_PEOPLE[version % len(_PEOPLE)],
            engine_info="Apache-Spark/4.0 Delta-Lake/4.0",
            txn_id=f"{version:08d}",
            files_added=1,
            bytes_added=2**25,
            rows_added=1000,
            changes_data=operation != "OPTIMIZE",
            raw=raw,
            raw_bytes=len(raw),
        )


def _live_files(table: Table, chance: random.Random) -> Iterator[LiveFile]:
    for number in range(_LIVE_FILES):
        yield LiveFile(
            table=table,
            path=f"part-{number:05d}.parquet",
            size_bytes=chance.randrange(2**20, 2**28),
            row_count=1000,
            deleted_row_count=number % 5,
        )


def _copy_to_the_others(model: type[Model], first: list[Table], count: int) -> None:
    """Copy rows to the n-th table from the table with as many commits, under its own key."""
    fields = [field.column for field in model._meta.concrete_fields if not field.primary_key]
    text = "CAST(t.id AS varchar(20)) || '-' || c.txn_id"
    taken = {"table_id": "t.id", "txn_id": text}
    quoted = connection.ops.quote_name
    columns = ", ".join(map(quoted, fields))
    values = ", ".join(taken.get(name, f"c.{quoted(name)}") for name in fields)
    lowest, alike = first[0].pk, len(first)
    rows = quoted(model._meta.db_table)
    statement = (  # names of our own models
        f"INSERT INTO {rows} ({columns}) SELECT {values} FROM {quoted(Table._meta.db_table)} t "
        f"JOIN {rows} c ON c.table_id = {lowest} + (t.id - {lowest}) %% {alike} "
        f"WHERE t.id >= %s AND t.id < %s ORDER BY t.id"
    )
    for begin in range(lowest + alike, lowest + count, 500):
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement, [begin, min(begin + 500, lowest + count)])


def _schedules(tables: list[Table], owner: User, now: datetime) -> Iterator[Schedule]:
    for number, table in enumerate(tables[:300]):
        yield Schedule(
            table=table,
            name=f"nightly {number:03}",
            cron=f"{number % 60} 3 * * *",
            kind="optimize",
            statement=f"OPTIMIZE {table.name}",
            owner=owner,
            next_due_at=now + timedelta(minutes=number),
        )


def _jobs(
    tables: list[Table],
    owner: User,
    sizes: Sizes,
    now: datetime,
    chance: random.Random,
    schedules: list[Schedule],
) -> Iterator[Job]:
    """Iterate over jobs of thirty days: a few run or wait, a tenth conflicted, some failed.

    Every fifth is a schedule's.
    """
    states = [Job.State.SUCCEEDED] * 17 + [Job.State.CONFLICTED] * 2 + [Job.State.FAILED]
    for number in range(sizes.jobs):
        at = now - timedelta(days=30) * (number + 1) / sizes.jobs
        state = Job.State.RUNNING if number < 10 else chance.choice(states)
        if 10 <= number < 20:
            state = Job.State.QUEUED
        table = chance.choice(tables[:200]) if number % 2 else chance.choice(tables)
        kind = chance.choice(("optimize", "merge", "delete", "update", "vacuum"))
        schedule = chance.choice(schedules) if number % 5 == 0 else None
        if schedule is not None:
            table, kind = schedule.table, schedule.kind
        yield Job(
            schedule=schedule,
            table=table,
            kind=kind,
            statement=f"{kind.upper()} {table.name}",
            state=state,
            requested_by=owner,
            attempts=1,
            started_at=None if state == Job.State.QUEUED else at + timedelta(seconds=2),
            finished_at=None if state in Job.ACTIVE else at + timedelta(seconds=60),
            committed_version=sizes.versions // 2 if state == Job.State.SUCCEEDED else None,
            metrics={"numFilesAdded": 3},
        )


def _attempts(jobs: list[Job], now: datetime) -> Iterator[JobAttempt]:
    for job in jobs:
        outcome = "conflicted" if job.state == Job.State.CONFLICTED else "committed"
        yield JobAttempt(job=job, number=1, started_at=now, outcome=outcome, read_version=10)


def _events(jobs: list[Job], now: datetime) -> Iterator[JobEvent]:
    for job in jobs:
        yield JobEvent(job=job, at=now, message="Attempt 1 started")


def _conflicts(
    jobs: list[Job], sizes: Sizes, now: datetime, chance: random.Random
) -> Iterator[Conflict]:
    for number in range(sizes.conflicts):
        job = jobs[number * len(jobs) // sizes.conflicts]
        is_resolved = number % 5 > 0
        sides = chance.choice(_OPERATIONS), chance.choice(_OPERATIONS)
        files: list[dict[str, Any]] = [{"path": f"part-{n:05d}.parquet"} for n in range(12)]
        yield Conflict(
            table_id=job.table_id,
            job=job,
            kind=Conflict.Kind.RESOLVED if is_resolved else Conflict.Kind.ABORTED,
            occurred_at=now - timedelta(days=30) * number / sizes.conflicts,
            exception="" if is_resolved else "ConcurrentAppendException",
            code="" if is_resolved else "DELTA_CONCURRENT_APPEND",
            rule="data_added",
            read_version=sizes.versions // 2 - 3,
            attempted_version=sizes.versions // 2,
            winning_version=chance.randrange(sizes.versions),
            current_operation=sides[0],
            winner_operation=sides[1],
            current_user_name=chance.choice(_PEOPLE),
            winner_user_name=chance.choice(_PEOPLE),
            isolation_level="WriteSerializable",
            wasted_ms=0 if is_resolved else 40_000,
            wasted_bytes=0 if is_resolved else 2**25,
            facts={"rule": "data_added", "files": files, "remedies": []},
        )


def _entries(jobs: list[Job], owner: User, now: datetime) -> Iterator[LogEntry]:
    kind = ContentType.objects.get_for_model(Job)
    for number, job in enumerate(jobs):
        yield LogEntry(
            content_type=kind,
            object_pk=str(job.pk),
            object_repr=str(job.pk),
            action=LogEntry.Action.CREATE,
            changes={"kind": ["None", job.kind], "table": ["None", str(job.table_id)]},
            actor=owner,
            timestamp=now - timedelta(days=30) * number / len(jobs),
        )
