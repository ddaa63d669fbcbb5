"""The users of the tests, one for each role, and a small lake for them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import Group, User

from lakeui.catalog.models import Commit, CommitFile, LiveFile, Table, TableGrant
from lakeui.catalog.roles import Role
from lakeui.conflicts.costs import keep
from lakeui.conflicts.models import Conflict
from lakeui.jobs.models import Job, JobAttempt, JobEvent

NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)
ROLES = ("viewer", "operator", "maintainer", "admin")


def person(name, role=None):
    """Create a person with a role on every table, or with none."""
    user = User.objects.create_user(name, password="correct horse")
    if role:
        user.groups.add(Group.objects.get(name=role))
    return user


def everybody():
    """Create a person for each role, a stranger without one, and a guest who may see one table."""
    return {name: person(name, name) for name in ROLES} | {"stranger": person("stranger")}


def grant(user, table, role):
    return TableGrant.objects.create(user=user, table=table, role=Role.from_label(role))


def make_table(name="sales.orders", **fields):
    """Create a mirrored table of three versions and two files; its last version aborted a job."""
    values = {
        "version": 2,
        "isolation_level": "WriteSerializable",
        "schema": {"type": "struct", "fields": []},
        "file_count": 2,
        "size_bytes": 3 * 2**53,
        "row_count": 30,
        "last_commit_at": NOON,
        "mirrored_at": NOON,
    }
    table = Table.objects.create(
        name=name, uri=str(Path(settings.LAKE_HOME) / name), **(values | fields)
    )
    for version, operation in enumerate(("CREATE TABLE", "WRITE", "DELETE")):
        commit = Commit.objects.create(
            table=table,
            version=version,
            operation=operation,
            user_name="etl",
            committed_at=NOON + timedelta(hours=version),
        )
        CommitFile.objects.create(commit=commit, action="add", path=f"f{version}", size_bytes=5)
    for number in (1, 2):
        LiveFile.objects.create(table=table, path=f"f{number}", size_bytes=number * 100)
    return table


def make_job(table, by=None, **fields):
    """Create a job aborted by version 2, with its attempt, its log and its conflict."""
    values = {"kind": "optimize", "statement": "OPTIMIZE", "state": Job.State.CONFLICTED}
    job = Job.objects.create(table=table, requested_by=by, **(values | fields))
    JobAttempt.objects.create(job=job, number=1, started_at=NOON, outcome="conflicted")
    JobEvent.objects.create(job=job, at=NOON, message="Queued")
    return job


def make_conflict(table, job=None, **fields):
    values = {
        "kind": Conflict.Kind.ABORTED,
        "occurred_at": NOON,
        "exception": "ConcurrentAppendException",
        "code": "DELTA_CONCURRENT_APPEND",
        "winning_version": 2,
        "current_operation": "UPDATE",
        "winner_operation": "DELETE",
        "facts": {"rule": "added_files"},
    }
    return keep(table=table, job=job, **(values | fields))
