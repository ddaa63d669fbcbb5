"""Makes a database as of a release, fills it, migrates it, and prints what it then says.

`python -m … RELEASE` over the database that DATABASE_URL names; `first` is the first schema there was.
`upgrades.upgraded` runs it.
"""

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import django

django.setup()

from django.contrib.auth.models import User  # noqa: E402 - after the set-up
from django.db import connection  # noqa: E402
from django.db.migrations.executor import MigrationExecutor  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import setup_test_environment  # noqa: E402

from tests.lakeui.filled_rows import fill_models  # noqa: E402
from tests.lakeui.local_stack.upgrades import list_releases  # noqa: E402

OF_DJANGO = [
    ("auth", "0012_alter_user_first_name_max_length"),
    ("contenttypes", "0002_remove_content_type_name"),
]
FIRST = dict.fromkeys(("catalog", "jobs", "conflicts"), "0001_initial")
OTHERS = {"auth.user", "auth.group", "contenttypes.contenttype", "auditlog.logentry"}
ROWS = 3  # of each model
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


def fill_all(apps, names) -> dict[str, list[dict[str, Any]]]:
    """Rows of every model, with a value of its own in each field, by the model's name."""
    models = [model for model in apps.get_models() if _is_ours(model, names)]
    fill_models(models, ROWS)
    return {model._meta.label_lower: list(model._default_manager.values()) for model in models}


def _is_ours(model, names) -> bool:
    of_ours = model._meta.app_label in names or model._meta.label_lower in OTHERS
    return of_ours and not model._meta.auto_created and not model._meta.proxy


def differences(apps, before: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """What became of the rows: which are gone, and which fields have another value."""
    for label, rows in before.items():
        try:
            model = apps.get_model(label)
        except LookupError:
            yield f"{label} is gone"
            continue
        kept = {field.attname for field in model._meta.concrete_fields}
        by_key = {row[model._meta.pk.attname]: row for row in model._default_manager.values()}
        for row in rows:
            now = by_key.get(row[model._meta.pk.attname])
            if now is None:
                yield f"{label}: a row is gone"
                continue
            for name in sorted(row.keys() - kept):
                yield f"{label}.{name} is gone"
            for name in sorted(row.keys() & kept):
                if row[name] != now[name]:
                    yield f"{label}.{name}: {row[name]!r} is {now[name]!r}"


def main(release: str) -> dict[str, object]:
    names = FIRST if release == "first" else list_releases()[release]
    start = OF_DJANGO + sorted(names.items())
    executor = MigrationExecutor(connection)
    executor.migrate(start)
    apps = executor.loader.project_state(start).apps
    before = fill_all(apps, names) if release != "first" else {}
    made = fill(apps)
    executor = MigrationExecutor(connection)
    leaves = executor.loader.graph.leaf_nodes()
    executor.migrate(leaves)
    changed = sorted({*differences(executor.loader.project_state(leaves).apps, before)})
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
        "people": sorted(User.objects.values_list("username", flat=True)),
        "rows": {label: len(rows) for label, rows in before.items()},
        "changed": changed,
    }


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(main(sys.argv[1]), default=str) + "\n")
