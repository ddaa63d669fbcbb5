"""Makes a database of the first schema, fills it, migrates it, and prints what pages then say of it.

Run by `test_keeping.py` as a process of its own, over the database that DATABASE_URL names.
"""

import json
import sys
from datetime import UTC, datetime

import django

django.setup()

from django.contrib.auth.models import User  # noqa: E402 - after the set-up
from django.db import connection  # noqa: E402
from django.db.migrations.executor import MigrationExecutor  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import setup_test_environment  # noqa: E402

FIRST = [
    ("auth", "0012_alter_user_first_name_max_length"),
    ("contenttypes", "0002_remove_content_type_name"),
]
FIRST += [(app, "0001_initial") for app in ("catalog", "jobs", "conflicts")]
AT = datetime(2026, 11, 20, 12, tzinfo=UTC)


def fill(apps) -> dict[str, object]:
    """A table with a commit, a job that was aborted, the conflict, and somebody who was in one of the groups."""
    person = apps.get_model("auth", "User").objects.create(username="ada", is_superuser=True)
    table = apps.get_model("catalog", "Table").objects.create(
        name="sales.orders", uri="/lake/sales/orders", version=1, earliest_version=0
    )
    commits = apps.get_model("catalog", "Commit").objects
    for version, operation in enumerate(("CREATE TABLE", "DELETE")):
        commit = commits.create(
            table=table, version=version, operation=operation, committed_at=AT, user_name="ada"
        )
        commit.files.create(action="add", path=f"{version}.parquet", size_bytes=10, row_count=2)
    job = apps.get_model("jobs", "Job").objects.create(
        table=table,
        kind="delete",
        state="conflicted",
        statement="DELETE FROM sales.orders WHERE id = 1",
        requested_by=person,
        attempts=1,
        started_at=AT,
        finished_at=AT,
        error_code="DELTA_CONCURRENT_APPEND",
    )
    job.attempt_rows.create(number=1, started_at=AT, finished_at=AT, outcome="conflicted")
    job.events.create(at=AT, message="It began.")
    conflict = apps.get_model("conflicts", "Conflict").objects.create(
        table=table, job=job, kind="escaped", occurred_at=AT, winning_version=1, row_count=100
    )
    return {"table": table.pk, "job": str(job.pk), "conflict": conflict.pk}


def main() -> dict[str, object]:
    executor = MigrationExecutor(connection)
    executor.migrate(FIRST)
    made = fill(executor.loader.project_state(FIRST).apps)
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())
    setup_test_environment()
    client = Client()
    client.force_login(User.objects.get(username="ada"))
    table, job, conflict = made["table"], made["job"], made["conflict"]
    places = (
        "/",
        "/tables/",
        f"/tables/{table}/",
        f"/tables/{table}/history/",
        f"/tables/{table}/history/1/",
        f"/jobs/{job}/",
        f"/conflicts/{conflict}/",
        "/monitoring/",
        "/audit/",
        f"/api/v1/jobs/{job}/",
        f"/api/v1/tables/{table}/versions/",
    )
    told = client.get(f"/api/v1/conflicts/{conflict}/").json()
    return {
        "statuses": {place: client.get(place).status_code for place in places},
        "conflict": [told["kind"], told["row_count_is_minimum"], told["job_id"] == job],
        "person": User.objects.get().username,
    }


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(main()) + "\n")
