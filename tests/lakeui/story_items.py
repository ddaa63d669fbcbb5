"""The month of `sales.order_items`, a partitioned table without deletion vectors and with many writers."""

import random
from datetime import date, datetime, timedelta

from lakeui.catalog.models import Commit, LiveFile, Table
from lakeui.conflicts.models import Conflict
from lakeui.jobs.models import Job, JobAttempt

GIB = 1024**3
ITEM_COLUMNS = {
    "item_id": "long", "order_id": "long", "customer_id": "long", "order_date": "date",
    "sku": "string", "amount": "integer", "price": "decimal(10,2)", "discount": "decimal(6,2)",
    "status": "string", "channel": "string", "warehouse": "string", "shipped_at": "timestamp",
    "returned_at": "timestamp", "updated_at": "timestamp",
}  # fmt: skip
OURS = "lakeui/1.4 Apache-Spark/4.1.1"
DATABRICKS = "Databricks-Runtime/15.4.x-scala2.12"
RUST = "delta-rs:0.15.3"
SPARK = "Apache-Spark/3.5.3 Delta-Lake/3.2.1"
WRITES = 212
DAY = date(2026, 11, 19)


def tell_items(table: Table, now: datetime) -> None:
    """Create a month of writes, losses and compactions."""
    drawn = random.Random(2207)  # noqa: S311 - the same month each time
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in ITEM_COLUMNS.items()
    ]
    Table.objects.filter(pk=table.pk).update(
        schema={"type": "struct", "fields": fields}, partition_columns=["order_date"],
        clustering_columns=[], properties={}, reader_features=[], writer_features=[],
        min_reader_version=1, min_writer_version=4, deletion_vectors=False, row_tracking=False,
        row_level_reason="the table is partitioned by order_date", live_files_mirrored=732,
        earliest_version=table.version - WRITES + 1, last_writer="etl-nightly",
    )  # fmt: skip
    table.refresh_from_db()
    LiveFile.objects.bulk_create(
        LiveFile(
            table=table, path=f"order_date={day}/part-00000.parquet", size_bytes=34 * 1024**2,
            partition_values={"order_date": str(day)}, row_count=310_000,
        )
        for day in (DAY - timedelta(days=n) for n in range(732))
    )  # fmt: skip
    _commits(table, drawn)
    _losses(table, now, drawn, _rewrites(table, now))


def _commits(table: Table, drawn: random.Random) -> None:
    table.commits.all().delete()
    engines = [OURS] * 118 + [DATABRICKS] * 36 + [SPARK] * 52 + [RUST] * 6
    drawn.shuffle(engines)
    at, rows = table.last_commit_at, []
    for n, engine in enumerate(engines):
        version = table.version - n
        operation, user, predicate = _write(engine, n)
        parameters = {"predicate": predicate} if predicate else {"mode": "Append"}
        rows.append(
            Commit(
                table=table, version=version, operation=operation, user_name=user,
                predicate=predicate, operation_parameters=parameters, engine_info=engine,
                committed_at=at, read_version=version - 1 - (n % 3), isolation_level="WriteSerializable",
                is_blind_append=False, files_added=14, files_removed=9, bytes_added=240 * 1024**2,
                operation_metrics={"numTargetRowsInserted": "18204"} if operation == "MERGE" else {},
                changes_data=operation != "OPTIMIZE", txn_id=_txn(version),
            )
        )  # fmt: skip
        at -= timedelta(hours=3, minutes=20)
    Commit.objects.bulk_create(rows)


def _txn(version: int) -> str:
    return "5d0c4be1-77f2-4a0e-9a8d-30c2c1f5e6aa" if version == 2207 else f"items-{version}"


def _write(engine: str, n: int) -> tuple[str, str, str]:
    """Return an operation, its requester and its condition."""
    day = DAY - timedelta(days=n % 9)
    of_others = {
        SPARK: ("UPDATE", "dbt-items", "item_id IN (SELECT item_id FROM staging.returns)"),
        RUST: ("WRITE", "items-export", ""),
        DATABRICKS: ("MERGE", "items-upsert", "(t.item_id = s.item_id)"),
    }
    ours = (
        ("OPTIMIZE", "opt-scheduler", ""),
        ("DELETE", "gdpr-eraser", f"order_date = DATE '{day}' AND customer_id = {81204 + n}"),
        ("UPDATE", "price-fixer", f"order_date = DATE '{day}' AND status = 'open'"),
        ("MERGE", "etl-nightly", f"t.order_date = '{day}' AND t.item_id = s.item_id"),
    )
    latest = ("MERGE", "etl-nightly", "t.item_id = s.item_id")
    return latest if n == 0 else of_others.get(engine, ours[n % 4])


def _losses(table: Table, now: datetime, drawn: random.Random, compaction: Job) -> None:
    """Create 79 further losses: most would have passed by rows, and five are undecided."""
    deletes = list(table.commits.filter(operation="DELETE").values_list("version", flat=True))
    merges = list(table.commits.filter(operation="MERGE").values_list("version", flat=True))
    kinds = ["compaction"] * 34 + ["apart"] * 27 + ["metadata"] * 13 + ["unclear"] * 5
    drawn.shuffle(kinds)
    Conflict.objects.bulk_create(
        _loss(table, kind, now - timedelta(hours=2 + 8 * n), deletes, merges, n, compaction)
        for n, kind in enumerate(kinds)
    )


def _loss(
    table: Table, kind: str, at: datetime, deletes: list[int], merges: list[int], n: int, job: Job
) -> Conflict:
    current, predicate, winner, version, rule = {
        "compaction": ("OPTIMIZE", "", "MERGE", merges[n % len(merges)], "removed_file_removed"),
        "apart": (
            "UPDATE", "order_date = DATE '2026-10-01' AND status = 'open'", "DELETE",
            deletes[n % len(deletes)], "read_file_removed",
        ),
        "metadata": ("MERGE", "t.item_id = s.item_id", "SET TBLPROPERTIES", None, "metadata_changed"),
        "unclear": ("MERGE", "t.item_id = s.item_id", "MERGE", merges[n % len(merges)], "data_added"),
    }[kind]  # fmt: skip
    error = {
        "removed_file_removed": (
            "ConcurrentDeleteDeleteException",
            "DELTA_CONCURRENT_DELETE_DELETE",
        ),
        "read_file_removed": ("ConcurrentDeleteReadException", "DELTA_CONCURRENT_DELETE_READ"),
        "metadata_changed": ("MetadataChangedException", "DELTA_METADATA_CHANGED"),
        "data_added": ("ConcurrentAppendException", "DELTA_CONCURRENT_APPEND"),
    }[rule]
    return Conflict(
        table=table, kind=Conflict.Kind.ABORTED, occurred_at=at, job=job if kind == "compaction" else None, rule=rule, exception=error[0],
        code=error[1], subclass="WITH_PARTITION_HINT" if kind in {"apart", "unclear"} else "WITHOUT_HINT",
        current_operation=current, current_predicate=predicate, current_user_name="price-fixer",
        winner_operation=winner, winning_version=version, read_version=(version or 2207) - 2,
        isolation_level="WriteSerializable", partitions=[f"order_date={DAY}"], file_count=4,
        winner_user_name="gdpr-eraser", wasted_ms=543_000, wasted_bytes=int(6.72 * GIB),
        message=f"{winner} won.", winner_at=at - timedelta(seconds=3),
    )  # fmt: skip


def _rewrites(table: Table, now: datetime) -> Job:
    """Create compactions, from which the time of a rewrite is estimated; return the latest."""
    for n in range(12):
        began = now - timedelta(days=2 * n + 1)
        ended = began + timedelta(seconds=108 + n)
        job = Job.objects.create(
            table=table, kind="optimize", statement=f"OPTIMIZE {table.name}", attempts=1,
            state=Job.State.SUCCEEDED, started_at=began, finished_at=ended,
        )  # fmt: skip
        Job.objects.filter(pk=job.pk).update(created_at=began)
        JobAttempt.objects.create(
            job=job, number=1, started_at=began, finished_at=ended,
            outcome=JobAttempt.Outcome.COMMITTED, bytes_written=int(5.4 * GIB),
        )  # fmt: skip
    return job
