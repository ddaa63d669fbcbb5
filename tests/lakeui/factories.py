"""Rows as the mirror and the workers write them, and a sample lake with a story.

The story is of one morning: a stream, a merge, an erasure and a price fix share `sales.orders`.
"""

import json
import random
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import Group, User
from django.utils import timezone

from engine.commands.sql import parse_request
from engine.errors import ConflictFacts, ConflictFile, ConflictSide, Remedy
from lakeui.catalog import hours
from lakeui.catalog.models import Commit, CommitFile, LiveFile, Table, TableGrant
from lakeui.catalog.roles import Role
from lakeui.conflicts import costs as conflict_days
from lakeui.conflicts.costs import keep
from lakeui.conflicts.models import Conflict, ConflictRows, Erasure
from lakeui.jobs.models import Job, JobAttempt, JobEvent, JobStage, Schedule, WorkerReport
from lakeui.jobs.schedules import next_due
from lakeui.jobs.spark_stages import SparkStage
from tests.lakeui.story_decision import OTHER, build_resolved_decision, story_decision, story_rows
from tests.lakeui.story_items import tell_items
from tests.lakeui.story_lanes import RESOLVED, create_commit_job, tell_lanes, tell_losses
from tests.lakeui.story_tables import tell_tables
from tests.lakeui.story_tokens import tell_tokens

MIB, GIB = 1024**2, 1024**3
SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "order_id", "type": "long", "nullable": False, "metadata": {}},
        {"name": "customer_id", "type": "long", "nullable": False, "metadata": {}},
        {"name": "order_date", "type": "date", "nullable": True, "metadata": {}},
        {"name": "status", "type": "string", "nullable": True, "metadata": {}},
        {"name": "channel", "type": "string", "nullable": True, "metadata": {}},
        {
            "name": "discount",
            "type": "decimal(6,2)",
            "nullable": True,
            "metadata": {"comment": "as a fraction"},
        },
        {
            "name": "lines",
            "type": {
                "type": "array",
                "containsNull": False,
                "elementType": {
                    "type": "struct",
                    "fields": [
                        {"name": "sku", "type": "string", "nullable": False, "metadata": {}},
                        {"name": "amount", "type": "integer", "nullable": True, "metadata": {}},
                    ],
                },
            },
            "nullable": True,
            "metadata": {},
        },
        {"name": "updated_at", "type": "timestamp", "nullable": True, "metadata": {}},
    ],
}


def make_user(name: str, role: Role | None = None, **fields: object) -> User:
    """Create a person with a role on every table, or without any role."""
    user = User.objects.create_user(name, password="correct horse battery", **fields)
    if role is not None:
        user.groups.add(Group.objects.get_or_create(name=role.label)[0])
    return user


def grant(user: User, table: Table, role: Role) -> TableGrant:
    return TableGrant.objects.create(user=user, table=table, role=role)


def make_table(name: str = "sales.orders", **fields: object) -> Table:
    """Create a table; by default healthy and clustered, with deletion vectors."""
    now = timezone.now()
    return Table.objects.create(
        **{
            "name": name,
            "uri": f"s3://demo-lake/{name.replace('.', '/')}",
            "version": 12,
            "earliest_version": 0,
            "last_commit_at": now - timedelta(minutes=2),
            "last_operation": "WRITE",
            "table_uuid": "6f1c0b9e-4b53-4d41-9a77-0d4e5c9b1a20",
            "created_at_source": now - timedelta(days=210),
            "min_reader_version": 3,
            "min_writer_version": 7,
            "reader_features": ["deletionVectors"],
            "writer_features": ["clustering", "deletionVectors", "domainMetadata", "rowTracking"],
            "schema": SCHEMA,
            "clustering_columns": ["order_date", "customer_id"],
            "properties": {"delta.enableDeletionVectors": "true"},
            "isolation_level": "WriteSerializable",
            "deletion_vectors": True,
            "row_tracking": True,
            "row_level_eligible": True,
            "row_level_reason": "clustered, deletion vectors on",
            "file_count": 96,
            "size_bytes": 7 * GIB,
            "row_count": 41_000_000,
            "mirrored_at": now - timedelta(seconds=2),
        }
        | fields
    )


def make_commit(table: Table, version: int, operation: str = "WRITE", **fields: object) -> Commit:
    added = int(fields.get("files_added", 2))  # type: ignore[call-overload]
    parameters = fields.get("operation_parameters", {"mode": "Append", "partitionBy": "[]"})
    raw = _raw(version, operation, parameters, added, fields)
    return Commit.objects.create(
        **{
            "table": table,
            "version": version,
            "operation": operation,
            "operation_parameters": parameters,
            "committed_at": timezone.now() - timedelta(minutes=2 * (12 - version) + 2),
            "read_version": version - 1 if version else None,
            "isolation_level": "WriteSerializable",
            "is_blind_append": operation in {"WRITE", "STREAMING UPDATE"},
            "user_name": "etl-nightly",
            "engine_info": "lakeui/0.2",
            "txn_id": f"9b1e77c0-0000-4000-8000-{table.pk:04d}{version:08d}",
            "files_added": added,
            "bytes_added": 9 * MIB,
            "bytes_written": fields.get("bytes_added", 9 * MIB),
            "changes_data": operation not in {"OPTIMIZE", "SET TBLPROPERTIES"},
            "raw": raw,
            "raw_bytes": len(raw),
        }
        | fields
    )


def _raw(
    version: int, operation: str, parameters: object, added: int, fields: dict[str, object]
) -> str:
    """Return the commit as a log holds it, its files with statistics."""
    is_blind = fields.get("is_blind_append", operation in {"WRITE", "STREAMING UPDATE"})
    info = {
        "operation": operation,
        "operationParameters": parameters,
        "readVersion": fields.get("read_version", version - 1 if version else None),
        "isBlindAppend": is_blind,
        "isolationLevel": fields.get("isolation_level", "WriteSerializable") or None,
    }
    adds = [
        {
            "path": f"part-{number:05d}-{version}.parquet",
            "partitionValues": {},
            "size": 9 * MIB,
            "modificationTime": 1_790_000_000_000 + version,
            "dataChange": operation != "OPTIMIZE",
            "stats": json.dumps({"numRecords": 5120}),
        }
        for number in range(min(added, 6))
    ]
    lines = [{"commitInfo": {k: v for k, v in info.items() if v is not None}}]
    return "".join(json.dumps(line) + "\n" for line in [*lines, *({"add": add} for add in adds)])


def make_job(table: Table, kind: str = "optimize", **fields: object) -> Job:
    created = fields.pop("created_at", None)
    job = Job.objects.create(
        **{
            "table": table,
            "kind": kind,
            "statement": f"OPTIMIZE {table.name}",
            "state": Job.State.SUCCEEDED,
        }
        | fields
    )
    if created is not None:
        Job.objects.filter(pk=job.pk).update(created_at=created)
        job.refresh_from_db()
    return job


def _error_text(table: str, fields: dict[str, object]) -> str:
    """Return the message of an aborted write, for conflicts other than price-fixer's."""
    said = {"winning_version": 4797, "winner_operation": "DELETE", "read_version": 4793} | fields
    rows = f"{said['row_count']} rows in " if said.get("row_count") else ""
    return (
        f"Version {said['winning_version']} ({said['winner_operation']}) changed {rows}a file of "
        f"{table} that this {said.get('current_operation', 'UPDATE')}, reading version "
        f"{said['read_version']}, changes too. Nothing was written. Retry it."
    )


def make_conflict(table: Table | None, **fields: object) -> Conflict:
    """Create the conflict of price-fixer's UPDATE, which lost three rows to gdpr-eraser's DELETE."""
    facts = ConflictFacts(
        table=table.name if table else "somewhere.else",
        read_version=4793,
        attempted_version=4797,
        rule="read_file_removed",
        subclass="ROW_LEVEL_CHANGES",
        current=ConflictSide(
            operation="UPDATE",
            read_version=4793,
            predicate="status = 'open' AND channel = 'web'",
            isolation_level="WriteSerializable",
            user="price-fixer",
            engine="lakeui/0.2",
        ),
        winner=ConflictSide(
            operation="DELETE",
            version=4797,
            read_version=4794,
            predicate="customer_id IN (81204, 90311, 117560)",
            isolation_level="WriteSerializable",
            txn_id="5f7a77c0-93b5-4a53-8f18-0a4f6f0d1c11",
            user="gdpr-eraser",
            engine="lakeui/0.2",
        ),
        files=(
            ConflictFile(
                path="part-00017-1f0c8a52-3f0e-4d0c-9a37-c3a1b6a2f0d4.c000.snappy.parquet",
                role="rewritten",
                rows=(227_904, 1_007_311, 1_007_318),
                row_count=3,
            ),
        ),
        file_count=1,
        remedies=(
            Remedy(
                "add `order_date >= '2026-11-01'` to its condition so that the two touch "
                "different rows",
                "The three rows are of September, and what the UPDATE is after is of November: "
                "files outside are not read.",
                kind="different_rows",
            ),
            Remedy(
                "give the two a time of their own",
                "price-fixer runs 00:45 to 01:10 and gdpr-eraser 00:49 to 01:09; started later, "
                "neither meets the other.",
                kind="apart_in_time",
            ),
        ),
        what="Version 4797 (DELETE) deleted 3 rows in 1 file of sales.orders that this UPDATE, "
        "reading version 4793, changes too.",
    )
    if {"winning_version", "winner_operation"} & fields.keys():
        fields.setdefault("message", _error_text(facts.table, fields))
    return keep(
        **{
            "table": table,
            "kind": Conflict.Kind.ABORTED,
            "occurred_at": timezone.now() - timedelta(hours=1),
            "exception": "ConcurrentDeleteReadException",
            "code": "DELTA_CONCURRENT_DELETE_READ",
            "subclass": "ROW_LEVEL_CHANGES",
            "rule": "read_file_removed",
            "message": f"{facts.what} Nothing was written. Retry it, or add order_date >= "
            "'2026-11-01' to its condition so that the two touch different rows.",
            "read_version": 4793,
            "attempted_version": 4797,
            "winning_version": 4797,
            "current_operation": "UPDATE",
            "current_predicate": "status = 'open' AND channel = 'web'",
            "current_user_name": "price-fixer",
            "isolation_level": "WriteSerializable",
            "winner_operation": "DELETE",
            "winner_user_name": "gdpr-eraser",
            "winner_at": timezone.now() - timedelta(hours=1, seconds=2),
            "file_count": 1,
            "row_count": 3,
            "wasted_ms": 1_393_000,
            "wasted_bytes": int(3.1 * GIB),
            "facts": asdict(facts),
        }
        | fields
    )


class Story:
    """The whole lake: twelve tables, one of them busy, with jobs and conflicts."""

    def __init__(self, now: datetime | None = None) -> None:
        self.now = now or timezone.now()
        self.random = random.Random(4813)  # noqa: S311 - the same lake each time
        self.owner = make_user("ops-oncall", Role.ADMIN, is_staff=True, is_superuser=True)
        self.viewer = make_user("auditor", Role.VIEWER)
        self.orders = self._orders()
        tell_lanes(self.orders)
        self.others = self._others()
        self.running = self._jobs()
        self.conflict = self._conflicts()
        tell_items(next(other for other in self.others if other.name.endswith("items")), self.now)
        loader = make_user("etl-nightly", Role.OPERATOR)
        tell_losses(self.orders, self.conflict, self.running, loader)
        tell_tokens(self.owner)
        self._schedules()
        self._create_erasure()
        self._workers()
        by_name = {table.name: table for table in self.others}
        tell_tables(self.orders, by_name["web.visits"], self.now)
        hours.recount()
        conflict_days.recount()

    def ago(self, **span: float) -> datetime:
        return self.now - timedelta(**span)

    def _orders(self) -> Table:
        table = make_table(
            version=4813,
            earliest_version=4600,
            description="Every order of the shop, one row each.",
            last_commit_at=self.ago(minutes=1),
            last_operation="STREAMING UPDATE",
            last_writer="stream-orders",
            last_optimize_at=self.ago(minutes=18),
            file_count=1204,
            size_bytes=int(96.4 * GIB),
            row_count=812_406_112,
            small_file_count=72,
            deleted_row_count=41_220,
            vectored_file_count=118,
            properties={
                "delta.enableDeletionVectors": "true",
                "delta.enableRowTracking": "true",
                "delta.deletedFileRetentionDuration": "interval 14 days",
                "delta.constraints.has_customer": "customer_id > 0",
                "delta.checkpointInterval": "20",
            },
            reader_features=["deletionVectors"],
            writer_features=[
                "checkConstraints", "clustering", "deletionVectors", "domainMetadata", "rowTracking",
            ],
        )  # fmt: skip
        at = self.ago(minutes=1)
        for version in range(4813, 4599, -1):
            self._order_commit(table, version, at)
            at -= timedelta(seconds=self.random.randint(150, 520))
        LiveFile.objects.bulk_create(self._live_files(table))
        Table.objects.filter(pk=table.pk).update(live_files_mirrored=1204)
        table.refresh_from_db()
        return table

    def _order_commit(self, table: Table, version: int, at: datetime) -> None:
        special = {
            4805: ("SET TBLPROPERTIES", "schema-bot", {"properties": {"delta.deletedFileRetentionDuration": "interval 14 days"}}),
            4797: ("DELETE", "gdpr-eraser", {"predicate": '["customer_id IN (81204, 90311)"]'}),
            4799: ("UPDATE", "price-fixer", {"predicate": "status = 'open'"}),
            4795: ("OPTIMIZE", "opt-scheduler", {"clusterBy": ["order_date", "customer_id"]}),
            4810: ("OPTIMIZE", "opt-scheduler", {"clusterBy": ["order_date", "customer_id"]}),
            4640: ("SET TBLPROPERTIES", "schema-bot", {"properties": {"delta.deletedFileRetentionDuration": "interval 7 days"}}),
            4690: ("VACUUM END", "opt-scheduler", {"status": "COMPLETED"}),
            4612: ("WRITE", "", {"mode": "Append"}),
        }  # fmt: skip
        drawn = ("MERGE", "cdc-merge", {"matchedPredicates": "[]"}) if version % 3 == 1 else (
            "STREAMING UPDATE", "stream-orders", {"epochId": str(15830 + version), "queryId": "6f1c0b9e-55", "outputMode": "Append"},
        )  # fmt: skip
        if version % 23 == 0:
            drawn = ("UPDATE", "price-fixer", {"predicate": "status = 'open'"})
        operation, writer, parameters = special.get(version, drawn)
        is_blind = operation in {"STREAMING UPDATE", "WRITE"}
        commit = make_commit(
            table,
            version,
            operation,
            committed_at=at,
            operation_parameters=parameters,
            predicate=self._predicate(operation),
            operation_metrics=self._metrics(operation),
            user_name=writer,
            engine_info="delta-rs:1.6" if not writer else "lakeui/0.2",
            read_version=None if not writer else version - {"OPTIMIZE": 4, "DELETE": 3, "MERGE": 2}.get(operation, 1),
            isolation_level="" if not writer else "SnapshotIsolation" if operation == "OPTIMIZE" else "WriteSerializable",
            is_blind_append=None if not writer else is_blind,
            files_added={"OPTIMIZE": 17, "MERGE": 14, "SET TBLPROPERTIES": 0, "VACUUM END": 0}.get(operation, 8),
            files_removed={"OPTIMIZE": 164, "MERGE": 6, "DELETE": 7, "UPDATE": 46}.get(operation, 0),
            bytes_added={"OPTIMIZE": 3 * GIB, "SET TBLPROPERTIES": 0, "VACUUM END": 0}.get(operation, int(9.4 * MIB)),
            bytes_removed={"OPTIMIZE": 3 * GIB + 64 * MIB}.get(operation, 0),
            rows_added={"STREAMING UPDATE": 41_876, "MERGE": 12_204}.get(operation),
            vectors_added=7 if operation in {"DELETE", "MERGE"} else 0,
            rows_deleted_by_vectors=1871 if operation in {"DELETE", "MERGE"} else 0,
            changes_metadata=operation == "SET TBLPROPERTIES",
        )  # fmt: skip
        if operation == "SET TBLPROPERTIES":
            self._define(commit)
        if version > 4790:
            self._commit_files(commit)

    @staticmethod
    def _define(commit: Commit) -> None:
        """Add the table's definition to the commit's text."""
        configuration = commit.table.properties | commit.operation_parameters["properties"]
        metadata = {
            "id": commit.table.table_uuid,
            "schemaString": json.dumps(SCHEMA),
            "configuration": configuration,
        }
        commit.raw += json.dumps({"metaData": metadata}) + "\n"
        commit.save(update_fields=["raw"])

    @staticmethod
    def _predicate(operation: str) -> str:
        return {
            "MERGE": "t.order_id = s.order_id AND t.order_date >= '2026-11-13'",
            "DELETE": "customer_id IN (81204, 90311, 117560)",
            "UPDATE": "status = 'open' AND channel = 'web'",
        }.get(operation, "")

    @staticmethod
    def _metrics(operation: str) -> dict[str, str]:
        return {
            "MERGE": {
                "numTargetRowsInserted": "12204",
                "numTargetRowsUpdated": "34861",
                "numTargetRowsDeleted": "0",
                "numSourceRows": "47065",
                "executionTimeMs": "539000",
            },
            "STREAMING UPDATE": {"numOutputRows": "41876", "numAddedFiles": "8"},
            "DELETE": {"numDeletedRows": "1871", "numDeletionVectorsAdded": "7"},
            "UPDATE": {"numUpdatedRows": "812406"},
            "OPTIMIZE": {"numAddedFiles": "17", "numRemovedFiles": "164"},
            "WRITE": {"num_added_rows": "5120", "num_added_files": "1"},
        }.get(operation, {})

    def _commit_files(self, commit: Commit) -> None:
        files = [
            CommitFile(
                commit=commit,
                action=action,
                path=f"part-{n:05d}-1f0c8a52-{commit.version}-4d0c-9a37-c3a1b6a2f0d4.snappy.parquet",
                size_bytes=self.random.randint(MIB, 90 * MIB),
                row_count=self.random.randint(10_000, 1_700_000),
                deleted_row_count=267 if commit.vectors_added and action == "add" else 0,
                data_change=commit.operation != "OPTIMIZE",
            )
            for action, count in (("add", commit.files_added), ("remove", commit.files_removed))
            for n in range(count)
        ]
        CommitFile.objects.bulk_create(files)
        Commit.objects.filter(pk=commit.pk).update(files_mirrored=len(files))

    def _live_files(self, table: Table) -> list[LiveFile]:
        sizes = [int(self.random.lognormvariate(4.15, 0.75) * MIB) for _ in range(1132)]
        sizes += [self.random.randint(200_000, 31 * MIB) for _ in range(72)]
        return [
            LiveFile(
                table=table,
                path=f"part-{n:05d}.parquet",
                size_bytes=size,
                row_count=size // 110,
                deleted_row_count=self.random.randint(100, 600) if n % 10 == 0 else 0,
                modified_at=self.ago(hours=n),
            )
            for n, size in enumerate(sizes)
        ]

    def _others(self) -> list[Table]:
        rows = [
            ("crm.consents", 312, 1.4, 22, 0, True, "clustered, deletion vectors on"),
            ("crm.customers", 977, 12.6, 164, 3, False, "identity columns"),
            ("finance.fx_rates", 5102, 0.086, 31, 0, False, "deletion vectors off"),
            ("finance.ledger", 1377, 41.9, 402, 4, True, "deletion vectors on"),
            ("inventory.stock_levels", 20418, 7.8, 96, 5, True, "deletion vectors on"),
            ("ml.features_daily", 204, 228.4, 1710, 34, True, "deletion vectors on"),
            ("ops.device_telemetry", 15230, 611.0, 12903, 7677, False, "partitioned"),
            ("sales.order_items", 2207, 318.2, 9412, 3576, False, "partitioned"),
            ("sales.returns", 618, 2.1, 188, 8, False, "deletion vectors off"),
            ("web.events", 91340, 2365.4, 41870, 9211, False, "partitioned"),
            ("web.visits", 8121, 184.7, 2266, 68, True, "deletion vectors on"),
        ]
        tables = []
        for i, (name, version, gib, files, small, eligible, reason) in enumerate(rows):
            table = make_table(
                name,
                version=version,
                earliest_version=max(0, version - 40),
                size_bytes=int(gib * GIB),
                file_count=files,
                small_file_count=small,
                row_level_eligible=eligible,
                row_level_reason=reason,
                deletion_vectors=eligible,
                partition_columns=["event_date"] if reason == "partitioned" else [],
                clustering_columns=["customer_id"] if "clustered" in reason else [],
                isolation_level="Serializable"
                if name.startswith("finance")
                else "WriteSerializable",
                isolation_level_is_set=name.startswith("finance"),
                last_commit_at=self.ago(minutes=3 + 7 * i),
                last_writer=f"writer-{i}",
                last_optimize_at=self.ago(days=11) if small > 5000 else self.ago(hours=5),
            )
            at = table.last_commit_at
            for number in range(version, max(version - 40, 0), -1):
                operation = ("WRITE", "MERGE", "STREAMING UPDATE", "OPTIMIZE")[number % 4]
                make_commit(table, number, operation, committed_at=at, user_name=f"writer-{i}")
                at -= timedelta(minutes=self.random.randint(10, 60))
            tables.append(table)
        Table.objects.filter(name="ml.features_daily").update(
            mirror_error_code="LAKE_STORAGE_ERROR",
            mirror_error="403 Forbidden from gs://demo-ml.",
            mirror_failed_at=self.ago(hours=3, minutes=12),
            mirror_tried_at=self.ago(seconds=4),
            mirror_tries=38,
            mirrored_at=self.ago(hours=3, minutes=12),
        )
        Table.objects.create(name="staging.orders_delta", uri="s3://demo-lake/staging/orders_delta")
        return tables

    def _jobs(self) -> Job:
        by_name = {table.name: table for table in self.others}
        merge = (
            "MERGE INTO sales.orders t\nUSING staging.orders_delta s\nON t.order_id = s.order_id\n"
            "  AND t.order_date >= '2026-10-01'\nWHEN MATCHED AND s.updated_at > t.updated_at\n"
            "  THEN UPDATE SET *\nWHEN NOT MATCHED THEN INSERT *"
        )
        running = make_job(
            self.orders, "merge", statement=merge, state=Job.State.RUNNING,
            parameters=parse_request(merge)[0].parameters(),
            requested_by=self.owner, reason="nightly load", worker="spark@lake-2/4117", attempts=2,
            max_retries=4, base_version=4808, progress_stage="write", progress_done=252,
            progress_total=400, progress_unit="tasks", started_at=self.ago(minutes=25, seconds=29),
            sent_at=self.ago(minutes=25, seconds=29), heartbeat_at=self.ago(seconds=2),
            created_at=self.ago(minutes=25, seconds=30), idempotency_key="orders-2026-11-20",
            metrics={"numSourceRows": "1310787", "numTargetRowsUpdated": "694502"},
            progress_running=16,
        )  # fmt: skip
        JobAttempt.objects.create(
            job=running, number=1, worker="spark-2", outcome="conflicted", read_version=4808,
            attempted_version=4812, started_at=self.ago(minutes=25, seconds=26),
            finished_at=self.ago(minutes=7, seconds=45), bytes_written=int(2.6 * GIB),
            files_written=71, core_ms=16_260_000, bytes_read=int(41.2 * GIB),
            bytes_shuffled=int(9.4 * GIB),
            message="ConcurrentAppendException: cdc-merge inserted 17 rows that join the source",
        )  # fmt: skip
        second = JobAttempt.objects.create(
            job=running, number=2, worker="spark@lake-2", read_version=4812,
            started_at=self.ago(minutes=7, seconds=42), bytes_written=int(1.7 * GIB),
            core_ms=7_080_000, bytes_read=int(18.9 * GIB), bytes_shuffled=int(6.1 * GIB),
            spark_application="app-20261120001700-0002",
        )  # fmt: skip
        self._stages(second)
        self._earlier_merges(merge)
        for seconds, level, message in (
            (463, "info", "attempt 2 of 5, lease 7, worker spark-2"),
            (461, "info", "snapshot v4812: 1,204 files, 212 left by t.order_date >= '2026-10-01'"),
            (280, "info", "71 files hold 1,102,336 matches; 208,451 rows to insert"),
            (279, "info", "writing 400 tasks, deletion vectors on the executors"),
            (
                176,
                "warning",
                "task 118 reads 9.4 times the median: one day holds 31 % of the source",
            ),
            (125, "info", "200 of 400 tasks, 1.3 GiB written"),
            (64, "info", "v4813 landed: STREAMING UPDATE by stream-orders, blind append"),
            (27, "warning", "heartbeat to the database took 1.9 s"),
            (1, "info", "252 of 400 tasks, 1.7 GiB written"),
        ):
            JobEvent.objects.create(
                job=running, at=self.ago(seconds=seconds), level=level, message=message
            )
        for name, kind, stage, done, total, unit in (
            ("inventory.stock_levels", "merge", "check and commit", 22, 25, "tasks"),
            ("web.visits", "optimize", "rewrite", 34, 83, "bins"),
            ("finance.ledger", "vacuum", "delete", 1811, 1866, "files"),
        ):
            make_job(
                by_name[name], kind, state=Job.State.RUNNING, progress_stage=stage,
                progress_done=done, progress_total=total, progress_unit=unit, attempts=1,
                statement=f"{kind.upper()} {name}", started_at=self.ago(minutes=done % 13 + 1),
                created_at=self.ago(minutes=done % 13 + 2), worker="spark-1",
                sent_at=self.ago(minutes=done % 13 + 2),
            )  # fmt: skip
        for name, kind in (("crm.customers", "optimize"), ("web.events", "vacuum")):
            make_job(by_name[name], kind, state=Job.State.QUEUED, statement=f"{kind.upper()} {name}",
                     created_at=self.ago(seconds=14), sent_at=self.ago(seconds=14))  # fmt: skip
        self._create_ended_jobs(by_name)
        return running

    def _stages(self, attempt: JobAttempt) -> None:
        """Create the steps that a worker records of a running MERGE, up to the third."""
        rows = (
            ("read the table", 462, 0.9, "212 of 1,204 files", 0, 0, {}),
            ("read the source", 461, 19.1, "1,310,787 rows", 40, 40, {}),
            ("match rows", 442, 162.9, "71 files hold a match", 212, 212,
             {"median_ms": 4300, "slowest_ms": 11_200, "slowest_task": 31, "core_ms": 2_600_000,
              "bytes_read": int(16.8 * GIB), "bytes_shuffled": int(2.2 * GIB)}),
            ("write new rows", 278, 278.0, "", 252, 400,
             {"median_ms": 8100, "slowest_ms": 41_000, "slowest_task": 118, "core_ms": 4_480_000,
              "bytes_read": int(2.1 * GIB), "bytes_shuffled": int(3.9 * GIB), "running": 16}),
        )  # fmt: skip
        ran = {
            "read the source": [self._spark_stage(41, 461, 442, 40, rows_read=1_310_787, bytes_read=96 * MIB)],
            "match rows": [
                self._spark_stage(44, 441, 437, 40, bytes_read=96 * MIB, shuffle_written=210 * MIB),
                self._spark_stage(45, 441, 318, 212, failed=3, rows_read=41_208_331, attempt=1,
                                  bytes_read=int(16.7 * GIB), shuffle_written=int(2.0 * GIB)),
                self._spark_stage(46, 317, 280, 200, shuffle_read=int(2.2 * GIB), spilled=740 * MIB),
            ],
            "write new rows": [
                self._spark_stage(49, 278, 251, 71, rows_read=5_106_112, bytes_read=int(2.1 * GIB),
                                  shuffle_written=int(3.9 * GIB)),
                self._spark_stage(50, 251, None, 400, done=252, shuffle_read=int(3.9 * GIB)),
            ],
        }  # fmt: skip
        for place, (name, began, took, detail, done, total, more) in enumerate(rows):
            ended = None if done < total else self.ago(seconds=began - took)
            JobStage.objects.create(
                attempt=attempt, place=place, name=name, found=detail, took_ms=int(took * 1000),
                started_at=self.ago(seconds=began), finished_at=ended, done=done, total=total,
                unit="tasks" if total else "versions", spark_stages=ran.get(name, []),
                spark_stage_count=len(ran.get(name, [])), **more,
            )  # fmt: skip

    def _spark_stage(
        self, number: int, began: int, ended: int | None, tasks: int, **more: int
    ) -> dict[str, Any]:
        """Return a stage as a worker records it; the times are in seconds ago."""
        stage = SparkStage(
            number,
            status="complete" if ended else "active",
            started_ms=int(self.ago(seconds=began).timestamp() * 1000),
            ended_ms=int(self.ago(seconds=ended).timestamp() * 1000) if ended else None,
            tasks=tasks,
            core_ms=(began - (ended or 0)) * 15_700,
            **{"done": tasks} | more,
        )
        return stage.to_row()

    def _earlier_merges(self, statement: str) -> None:
        """Create the runs of earlier nights, from which this run's duration and steps are estimated."""
        steps = (
            ("read the table", 1), ("read the source", 3), ("match rows", 22), ("write new rows", 66),
            ("check", 2), ("commit", 1), ("sync", 5),
        )  # fmt: skip
        for night in range(1, 15):
            began = self.ago(days=night, minutes=25)
            took = timedelta(seconds=690 + (night * 37) % 90)
            job = make_job(
                self.orders, "merge", statement=statement, attempts=1,
                parameters=parse_request(statement)[0].parameters(),
                requested_by=self.owner, created_at=began, started_at=began,
                finished_at=began + took, committed_version=4600 - 14 * night,
                metrics={"numTargetRowsUpdated": 580_000 + 9_000 * night},
            )  # fmt: skip
            attempt = JobAttempt.objects.create(
                job=job, number=1, started_at=began, finished_at=began + took,
                outcome=JobAttempt.Outcome.COMMITTED, bytes_written=int(2.4 * GIB), files_written=68,
                core_ms=15_100_000, bytes_read=int(38 * GIB), bytes_shuffled=int(9 * GIB),
            )  # fmt: skip
            at = began
            for place, (name, per_cent) in enumerate(steps):
                ended = at + took * per_cent / 100
                JobStage.objects.create(
                    attempt=attempt, place=place, name=name, started_at=at, finished_at=ended,
                    took_ms=int((ended - at).total_seconds() * 1000),
                )  # fmt: skip
                at = ended

    def _workers(self) -> None:
        for name, queue, slots, busy, stages in (
            ("light@lake-1", "light", 4, None, None),
            ("light@lake-2", "light", 4, None, None),
            ("spark@lake-1", "spark", 4, 11, 3),
            ("spark@lake-2", "spark", 4, 16, 1),
        ):
            spark = {"spark_version": "4.3.0", "spark_master": "spark://lake:7077", "executors": 4,
                     "cores": 16, "busy_cores": busy, "active_stages": stages,
                     "spark_application": f"app-20261120001700-000{name[-1]}",
                     "spark_ui": f"http://lake-{name[-1]}:4040"} if busy else {}  # fmt: skip
            WorkerReport.objects.create(
                name=name, queue=queue, slots=slots, pid=4117, started_at=self.ago(days=3),
                seen_at=self.ago(seconds=2), **spark,
            )  # fmt: skip

    def _create_ended_jobs(self, by_name: dict[str, Table]) -> None:
        self._runs_like_those_at_work(by_name)
        for i in range(38):
            table = self.random.choice([self.orders, *by_name.values()])
            kind = ("append", "update", "delete", "optimize", "vacuum")[i % 5]
            state = Job.State.SUCCEEDED if i % 9 else Job.State.CONFLICTED
            made = self.ago(minutes=40 + 31 * i)
            text = {
                "update": "UPDATE {} SET discount = 0.15 WHERE status = 'open'",
                "delete": "DELETE FROM {} WHERE customer_id = 81204",
            }.get(kind, kind.upper() + " {}")
            make_job(
                table, kind, state=state, requested_by=self.owner if i % 3 else None, attempts=1,
                statement=text.format(table.name),
                created_at=made, started_at=made + timedelta(seconds=2),
                finished_at=made + timedelta(seconds=40 + 37 * i),
                committed_version=(table.version or 0) - i if state == Job.State.SUCCEEDED else None,
                error_code="" if i % 9 else "DELTA_CONCURRENT_APPEND",
                error_message="" if i % 9 else "Version 2201 (MERGE) added 3 files. Nothing was written.",
            )  # fmt: skip
        make_job(
            by_name["crm.customers"], "append", state=Job.State.FAILED, attempts=1,
            statement="INSERT INTO crm.customers SELECT * FROM read_files('customers.csv')",
            created_at=self.ago(hours=2), started_at=self.ago(hours=2),
            finished_at=self.ago(hours=1, minutes=59), error_code="LAKE_BAD_ROWS",
            error_message="customers.csv holds 4 rows that do not fit: line 118 has 'n/a' for a long. "
            "Correct them, or load with bad_rows = drop.", requested_by=self.owner,
        )  # fmt: skip
        make_job(
            by_name["finance.ledger"], "vacuum", dry_run=True, statement="VACUUM finance.ledger",
            state=Job.State.SUCCEEDED, created_at=self.ago(minutes=6), attempts=1,
            started_at=self.ago(minutes=6), finished_at=self.ago(minutes=5), requested_by=self.owner,
            plan={"summary": "1866 files would be deleted, and 197 versions would no longer be readable.",
                  "file_count": 1866, "size_bytes": int(12.4 * GIB), "retention_hours": 168.0,
                  "versions_lost": [[1102, 1298]], "running_writers": [],
                  "files": [{"path": f"part-{n:05}-7c41.snappy.parquet", "size_bytes": 6_900_000 + 811 * n,
                             "reason": "no kept version refers to it"} for n in range(40)]},
        )  # fmt: skip

    def _runs_like_those_at_work(self, by_name: dict[str, Table]) -> None:
        for table, kind, minutes in (
            (self.orders, "merge", (11, 12, 13, 11)),
            (by_name["web.visits"], "optimize", (25, 27, 29)),
            (by_name["finance.ledger"], "vacuum", (5, 6, 7, 6, 6)),
        ):
            for nights, took in enumerate(minutes, 1):
                at = self.ago(days=nights, hours=2)
                make_job(
                    table, kind, statement=f"{kind.upper()} {table.name}", created_at=at, attempts=1,
                    started_at=at, finished_at=at + timedelta(minutes=took),
                )  # fmt: skip

    def _create_erasure(self) -> None:
        Erasure.objects.create(
            table=self.orders, append_version=4796, delete_version=4797, rows_at_most=5120,
            predicate="customer_id IN (81204, 90311)", append_writer="stream-orders",
            delete_writer="gdpr-eraser", at=self.ago(hours=1, minutes=23),
        )  # fmt: skip

    def _schedules(self) -> None:
        nightly, soon = self.ago(minutes=25, seconds=30), self.ago(minutes=-3)
        for name, cron, statement in (
            ("orders nightly", f"{nightly.minute} {nightly.hour} * * *",
             "MERGE INTO sales.orders t USING staging.orders_delta s …"),
            ("orders compaction", f"{soon.minute} * * * *", "OPTIMIZE sales.orders"),
            ("cdc merge", f"{soon.minute} * * * *", "MERGE INTO sales.orders t USING staging.cdc s …"),
            ("orders weekly purge", "0 4 * * 0", "REORG TABLE sales.orders APPLY (PURGE)"),
        ):  # fmt: skip
            schedule = Schedule.objects.create(
                name=name, table=self.orders, cron=cron, kind=statement.split()[0].lower(),
                statement=statement, owner=self.owner, next_due_at=next_due(cron, self.now),
            )  # fmt: skip
            made = Job.objects.filter(table=self.orders, kind=schedule.kind, dry_run=False)
            made = made.filter(schedule=None, created_at__gte=self.ago(days=20))
            made = Job.objects.filter(pk__in=list(made.values_list("pk", flat=True)))
            made.update(schedule=schedule)
            latest = made.order_by("-created_at").first()
            Schedule.objects.filter(pk=schedule.pk).update(
                last_job=latest, last_fired_at=latest.created_at if latest else None
            )

    def _conflicts(self) -> Conflict:
        lost = make_job(
            self.orders, "update", state=Job.State.SUCCEEDED, attempts=2, committed_version=4799,
            statement="UPDATE sales.orders\nSET discount = 0.15\nWHERE status = 'open' AND channel = 'web'",
            created_at=self.ago(hours=1, minutes=47), started_at=self.ago(hours=1, minutes=47),
            finished_at=self.ago(hours=1, minutes=13), requested_by=self.owner,
        )  # fmt: skip
        story = make_conflict(self.orders, job=lost, occurred_at=self.ago(hours=1, minutes=23))
        CommitFile.objects.create(
            commit=self.orders.commits.get(version=4797), action="add", row_count=1_630_208,
            path=story.facts["files"][0]["path"], size_bytes=70 * MIB,
        )  # fmt: skip
        self._tell_whole(story, lost)
        make_conflict(
            self.orders, job=self.running, occurred_at=self.ago(minutes=8),
            exception="ConcurrentAppendException", code="DELTA_CONCURRENT_APPEND", rule="data_added",
            current_operation="MERGE", current_user_name="etl-nightly", winner_operation="MERGE",
            winner_user_name="cdc-merge", read_version=4808, winning_version=4812, row_count=17,
            wasted_ms=1_061_000, wasted_bytes=int(2.6 * GIB),
        )  # fmt: skip
        for who, operation, wasted in (("cdc-merge", "MERGE", 586_000), ("opt-scheduler", "OPTIMIZE", 943_000)):  # fmt: skip
            make_conflict(
                self.orders, occurred_at=self.ago(minutes=47), exception="MetadataChangedException",
                code="DELTA_METADATA_CHANGED", subclass="", rule="metadata_changed",
                current_operation=operation, current_user_name=who, winner_operation="SET TBLPROPERTIES",
                winner_user_name="schema-bot", read_version=4802, winning_version=4805, row_count=None,
                file_count=0, wasted_ms=wasted, facts={}, message="Version 4805 (SET TBLPROPERTIES) "
                "changed the metadata of sales.orders. Nothing was written. Retry it.",
            )  # fmt: skip
        by_name = {table.name: table for table in self.others}
        pairs = [("MERGE", "MERGE"), ("MERGE", "DELETE"), ("UPDATE", "MERGE"), ("UPDATE", "DELETE")]
        for i in range(26):
            current, winner = pairs[i % 4]
            table = by_name[
                ("sales.order_items", "inventory.stock_levels", "finance.ledger")[i % 3]
            ]
            make_conflict(
                table, occurred_at=self.ago(minutes=20 + 57 * i), current_operation=current,
                winner_operation=winner, wasted_ms=self.random.randint(200, 1700) * 1000,
                winning_version=(table.version or 0) - i, read_version=(table.version or 0) - i - 2,
                rule="data_added" if i % 3 == 0 else "read_file_removed",
                subclass="WITH_PARTITION_HINT" if i % 3 == 0 else "ROW_LEVEL_CHANGES",
                partitions=["event_date=2026-11-19"] if i % 3 == 0 else [],
                exception="ConcurrentAppendException" if i % 3 == 0 else "ConcurrentDeleteReadException",
            )  # fmt: skip
        for version, winner in RESOLVED:
            commit = self.orders.commits.get(version=version)
            landed = create_commit_job(commit, statement=f"{commit.operation} {self.orders.name}")
            make_conflict(
                self.orders, job=landed, kind=Conflict.Kind.RESOLVED, exception="", code="", subclass="",
                message="", occurred_at=commit.committed_at, rule="read_file_removed", row_count=2377,
                read_version=winner - 1, winning_version=winner, wasted_ms=0, wasted_bytes=0,
                attempted_version=None, current_operation=commit.operation, winner_operation="MERGE",
                current_user_name="", winner_user_name="cdc-merge",
                facts={"how": "2,377 deleted rows were carried over by a row map", "duration_ms": 812,
                       "files": ["part-00017.parquet"], "winner": {"operation": "MERGE"}},
            )  # fmt: skip
        for i in range(60):
            make_conflict(
                self.orders if i % 2 else by_name["inventory.stock_levels"],
                kind=Conflict.Kind.RESOLVED, occurred_at=self.ago(minutes=9 + 23 * i), exception="",
                code="", subclass="", message="", rule="read_file_removed", row_count=1871 + i,
                attempted_version=4810 - i, winning_version=4807 - i, wasted_ms=0, wasted_bytes=0,
                current_operation=("OPTIMIZE", "MERGE")[i % 2], winner_operation=("MERGE", "DELETE")[i % 2],
                current_user_name=("opt-scheduler", "cdc-merge")[i % 2], winner_user_name="gdpr-eraser",
                facts={"how": "2,377 deleted rows were carried over by a row map", "duration_ms": 812,
                       "files": [f"part-{i:05d}.parquet"], "winner": {"operation": "MERGE"}},
            )  # fmt: skip
        return story

    def _tell_whole(self, story: Conflict, lost: Job) -> None:
        """Record the decision, both sides' attempts, what the winning commit resolved, and similar losses."""
        story.facts |= {"decision": asdict(story_decision())}
        story.order_column, story.shared_low, story.shared_high = (
            "order_date",
            "2026-09-01",
            "2026-09-28",
        )
        story.message = story.message.replace(
            "add order_date >= '2026-11-01' to its condition so that the two touch different rows",
            "add order_date > '2026-09-28' to its condition so that the two touch different files",
        )
        story.save()
        lost.parameters = {
            "assignments": {"discount": "0.15"},
            "where": "status = 'open' AND channel = 'web'",
        }
        lost.save()
        ConflictRows.objects.create(
            conflict=story, asked_at=self.now, read_at=self.now, **story_rows()
        )
        erasure = make_job(
            self.orders, "delete", committed_version=4797, attempts=1, requested_by=self.owner,
            statement="DELETE FROM sales.orders\nWHERE customer_id IN (81204, 90311, 117560)",
            created_at=self.ago(hours=1, minutes=43),
        )  # fmt: skip
        began, lost_at = self.ago(hours=1, minutes=46, seconds=13), story.occurred_at
        for job, number, outcome, start, end, read in (
            (lost, 1, "conflicted", began, lost_at, 4793),
            (lost, 2, "committed", lost_at + timedelta(seconds=3), self.ago(hours=1, minutes=2), 4797),
            (erasure, 1, "committed", self.ago(hours=1, minutes=42), story.winner_at, 4794),
        ):  # fmt: skip
            JobAttempt.objects.create(job=job, number=number, worker="spark-1", outcome=outcome,
                                      started_at=start, finished_at=end, read_version=read)  # fmt: skip
        make_conflict(
            self.orders, job=erasure, kind=Conflict.Kind.RESOLVED, exception="", code="", subclass="",
            message="", occurred_at=self.ago(hours=1, minutes=25), rule="read_file_removed",
            read_version=4794, winning_version=4795, attempted_version=None, row_count=88, wasted_ms=0,
            wasted_bytes=0, current_operation="DELETE", winner_operation="OPTIMIZE", file_count=1,
            current_user_name="gdpr-eraser", winner_user_name="opt-scheduler",
            facts={"how": "row map", "duration_ms": 233, "files": [OTHER],
                   "decision": asdict(build_resolved_decision())},
        )  # fmt: skip
        for days, winner, rows, wasted in ((2, "MERGE", 41, 1_070_000), (4, "MERGE", 12, 1_564_000), (8, "DELETE", 1, 1_351_000)):  # fmt: skip
            again = make_job(
                self.orders, "update", attempts=2, committed_version=4700 - days,
                statement="UPDATE sales.orders\nSET discount = 0.15\nWHERE status = 'open' AND channel = 'web'",
                created_at=self.ago(minutes=(asked := {2: 385, 4: 616, 8: 1064}[days])),
                started_at=self.ago(minutes=asked), finished_at=self.ago(minutes=asked - 40),
                requested_by=self.owner,
            )  # fmt: skip
            make_conflict(
                self.orders, job=again, occurred_at=lost_at - timedelta(days=days), row_count=rows,
                winner_operation=winner, wasted_ms=wasted, winning_version=4790 - 20 * days,
                winner_user_name="cdc-merge" if winner == "MERGE" else "gdpr-eraser", facts={},
                read_version=4786 - 20 * days, order_column="order_date" if days != 4 else "",
                shared_low="2026-08-01" if days != 4 else "", shared_high="2026-09-30" if days != 4 else "",
            )  # fmt: skip
            JobAttempt.objects.create(job=again, number=2, outcome="committed" if days != 8 else "conflicted",
                                      started_at=lost_at, finished_at=lost_at)  # fmt: skip
