"""Other records of `sales.orders`: past sizes, a stopped stream, rows read, dead files."""

import random
from datetime import date, datetime, timedelta

from django.db.models import F

from lakeui.catalog.models import Commit, CommitFile, Preview, Table
from lakeui.jobs.models import Job

MIB, GIB = 1024**2, 1024**3
_JOIN = "t.order_id = s.order_id AND t.order_date >= '2026-11-13'"
_STATUS = ("open", "paid", "shipped", "returned")


def tell_tables(table: Table, target: Table, now: datetime) -> None:
    """Add the records; `target` is the table that the stream from `table` fills."""
    _tell_writes(table)
    silent = table.commits.filter(files_removed__gt=0, bytes_removed=0)
    silent.update(bytes_removed=F("bytes_added") * 9 / 10)
    table.commits.filter(version=4805).update(user_metadata="keep 14 days for the audit")
    Table.objects.filter(pk=table.pk).update(
        dead_file_count=1_866, dead_bytes=int(31.2 * GIB), vacuum_from=now + timedelta(days=3)
    )
    table.refresh_from_db()
    _stop_stream(table, target)
    _read_rows(table, now)


def _tell_writes(table: Table) -> None:
    """Make streams append and merges rewrite, so that every version's metrics fit its operation."""
    drawn = random.Random(4806)  # noqa: S311 - the same versions each time
    written = table.commits.filter(version__gte=4788, operation__in=("STREAMING UPDATE", "MERGE"))
    for commit in written:
        appends = commit.operation == "STREAMING UPDATE"
        commit.files_added, commit.files_removed = (8, 0) if appends else (14, 6)
        commit.bytes_added = commit.bytes_written = drawn.randint(92, 101) * MIB // 10
        commit.bytes_removed = 0 if appends else commit.bytes_added * 4 // 10
        commit.predicate = "" if appends else _JOIN
        commit.vectors_added = commit.rows_deleted_by_vectors = 0
        commit.operation_parameters = {"matchedPredicates": "[]"}
        if appends:
            rows = drawn.randint(39_700, 43_500)
            commit.operation_metrics = {"numOutputRows": str(rows), "numAddedFiles": "8"}
            commit.rows_added = rows
            commit.operation_parameters = {
                "epochId": str(15_830 + commit.version), "queryId": "6f1c0b9e-55", "outputMode": "Append",
            }  # fmt: skip
        commit.files_mirrored = commit.files_added + commit.files_removed
        commit.save()
        _tell_files(commit, drawn)


def _tell_files(commit: Commit, drawn: random.Random) -> None:
    commit.files.all().delete()
    CommitFile.objects.bulk_create(
        CommitFile(
            commit=commit, action=action, row_count=drawn.randint(2_000, 9_000),
            path=f"part-{number:05d}-{action}-1f0c8a52-{commit.version}-c3a1b6a2f0d4.snappy.parquet",
            size_bytes=commit.bytes_added // commit.files_added,
        )
        for action, count in (("add", commit.files_added), ("remove", commit.files_removed))
        for number in range(count)
    )  # fmt: skip


def _stop_stream(table: Table, target: Table) -> None:
    landed = table.commits.get(version=4805).committed_at or table.registered_at
    message = (
        f"Version 4805 of {table.name} changed its metadata: delta.deletedFileRetentionDuration. "
        "Run the stream again with accept_schema_version set."
    )
    job = Job.objects.create(
        table=target,
        kind="stream",
        statement="INSERT INTO web.visits SELECT * FROM STREAM sales.orders",
        parameters={"source_table": table.name, "stream_name": "orders-to-search"},
        state=Job.State.FAILED,
        attempts=1,
        started_at=landed + timedelta(seconds=38),
        finished_at=landed + timedelta(seconds=41),
        error_code="DELTA_SCHEMA_CHANGED_WITH_VERSION",
        error_message=message,
        error_facts={"version": 4805, "table": table.uri},
    )
    Job.objects.filter(pk=job.pk).update(created_at=landed + timedelta(seconds=37))


def _read_rows(table: Table, now: datetime) -> None:
    types = {
        "order_id": "long", "customer_id": "long", "order_date": "date", "status": "string",
        "channel": "string", "discount": "decimal(6,2)",
        "lines": "array<struct<sku: string, amount: integer>>", "updated_at": "timestamp",
    }  # fmt: skip
    rows = [
        [
            str(880_214 + 7 * n),
            str(81_204 + 31 * n % 977),
            str(date(2026, 11, 1) + timedelta(days=n % 20)),
            _STATUS[n % 4],
            None if n % 9 == 0 else ("web", "store", "phone")[n % 3],
            "0.15" if n % 5 == 0 else "0.00",
            f'[{{"sku": "A-{100 + n}", "amount": {n % 6 + 1}}}, {{"sku": "B-{300 + n}", "amount": 2}}]',
            f"2026-11-20T0{n % 3}:1{n % 10}:07.{n:03d}Z",
        ]
        for n in range(40)
    ]
    columns = [{"name": name, "type": kind} for name, kind in types.items()]
    read_at = now - timedelta(minutes=2)
    Preview.objects.create(
        table=table, version=4813, asked_at=read_at, read_at=read_at, columns=columns, rows=rows,
        row_count=812_406_112, file_count=1204, marked_rows=41_220,
    )  # fmt: skip
