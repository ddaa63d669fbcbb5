"""The morning of `sales.orders` in its latest versions: reads and writes of each writer."""

import json
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User

from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.models import Conflict
from lakeui.jobs.models import Job, JobAttempt

SPARK = "Apache-Spark/4.0.1 Delta-Lake/4.0.0"
_MERGED = {4789: 47_065, 4793: 49_120, 4801: 46_011, 4803: 1_180_400, 4807: 50_310, 4812: 47_204}
_READ = {
    4789: 4787, 4793: 4790, 4795: 4790, 4797: 4794, 4799: 4797, 4801: 4798, 4803: 4799,
    4805: 4804, 4807: 4805, 4810: 4806, 4812: 4810,
}  # fmt: skip
_FILES = {4795: (12, 118), 4810: (17, 164)}
RESOLVED = ((4810, 4807), (4803, 4801), (4801, 4799), (4795, 4793))
"""Versions that met another one in the same files and landed: each with the one it met."""


def tell_lanes(table: Table) -> None:
    """Give versions from 4788 on the story's values; keep the factory's other values."""
    table.commits.filter(user_name="stream-orders").update(engine_info=SPARK)
    for commit in table.commits.filter(version__gte=4788):
        for name, value in _commit_fields(commit).items():
            setattr(commit, name, value)
        commit.raw = _raw(commit)
        commit.raw_bytes = len(commit.raw)
        commit.save()


def tell_losses(table: Table, lost: Conflict, running: Job, loader: User) -> None:
    """Date each loss at its winner's commit; both of this installation's losers were retried."""
    for conflict in table.conflicts.filter(kind=Conflict.Kind.ABORTED):
        winner = table.commits.get(version=conflict.winning_version)
        conflict.occurred_at = winner.committed_at + timedelta(seconds=2)
        conflict.winner_at = winner.committed_at
        conflict.save(update_fields=["occurred_at", "winner_at"])
    Job.objects.filter(pk=running.pk).update(requested_by=loader)
    lost.refresh_from_db()
    erased = JobAttempt.objects.filter(job__table=table, job__committed_version=4797)
    erased.update(
        started_at=_commit_time(table, 4794) + timedelta(seconds=4),
        finished_at=_commit_time(table, 4797),
    )
    ended = table.commits.get(version=4799).committed_at
    for number, began, finished, outcome in (
        (1, _commit_time(table, 4793), lost.occurred_at, JobAttempt.Outcome.CONFLICTED),
        (2, _commit_time(table, 4797), ended, JobAttempt.Outcome.COMMITTED),
    ):
        JobAttempt.objects.update_or_create(
            job=lost.job, number=number,
            defaults={"started_at": began + timedelta(seconds=4), "finished_at": finished,
                      "outcome": outcome, "read_version": 4793 if number == 1 else 4797},
        )  # fmt: skip


def _commit_time(table: Table, version: int) -> datetime:
    moment = table.commits.get(version=version).committed_at
    assert moment is not None
    return moment


def create_commit_job(commit: Commit, **fields: Any) -> Job:
    """Create the job of this installation that made a version, with its attempt."""
    read_at = commit.table.commits.get(version=commit.read_version).committed_at
    began = read_at + timedelta(seconds=4)
    job = Job.objects.create(
        table=commit.table, kind=commit.operation.lower(), state=Job.State.SUCCEEDED, attempts=1,
        committed_version=commit.version, started_at=began, finished_at=commit.committed_at, **fields,
    )  # fmt: skip
    Job.objects.filter(pk=job.pk).update(created_at=began)
    JobAttempt.objects.create(
        job=job, number=1, started_at=began, finished_at=commit.committed_at,
        outcome=JobAttempt.Outcome.COMMITTED, read_version=commit.read_version,
    )  # fmt: skip
    return job


def _commit_fields(commit: Commit) -> dict[str, Any]:
    version = commit.version
    if version == 4791:
        return _operation_fields("WRITE", "returns-loader", None, engine_info="delta-rs:py-1.6.0",
                   is_blind_append=None, isolation_level="", operation_metrics={"num_added_rows": "5120"},
                   operation_parameters={"mode": "Append"})  # fmt: skip
    if version in _MERGED:
        rows = _MERGED[version]
        writer = "etl-nightly" if version == 4803 else "cdc-merge"
        metrics = {
            "numTargetRowsInserted": str(rows // 4),
            "numTargetRowsUpdated": str(rows - rows // 4),
            "numTargetRowsDeleted": "0",
        }
        return _operation_fields(
            "MERGE", writer, _READ[version], operation_metrics=metrics, is_blind_append=False
        )
    if version in _FILES:
        added, removed = _FILES[version]
        return {"read_version": _READ[version], "files_added": added, "files_removed": removed}
    if version in _READ:
        return {"read_version": _READ[version]}
    return _operation_fields("STREAMING UPDATE", "stream-orders", version - 1, engine_info=SPARK,
               is_blind_append=True, operation_metrics={"numOutputRows": "41876"})  # fmt: skip


def _operation_fields(
    operation: str, writer: str, read_version: int | None, **fields: Any
) -> dict[str, Any]:
    said = {"operation": operation, "user_name": writer, "read_version": read_version}
    usual = {"isolation_level": "WriteSerializable", "engine_info": "lakeui/0.2"}
    return said | usual | fields


def _raw(commit: Commit) -> str:
    """Return the commit as the log has it: its own lines, with the mirror's present values."""
    info, *rest = commit.raw.splitlines()
    said = json.loads(info)["commitInfo"] | {
        "operation": commit.operation,
        "readVersion": commit.read_version,
        "isBlindAppend": commit.is_blind_append,
        "operationParameters": commit.operation_parameters,
    }
    recorded = {name: value for name, value in said.items() if value is not None}
    return "\n".join([json.dumps({"commitInfo": recorded}), *rest]) + "\n"
