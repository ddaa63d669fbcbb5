"""What docs/operations.md says of upgrades, backups and restores holds."""

import re
import sqlite3
import tomllib
from typing import Any

import pytest
from django.db import connection

from engine.commands.sql import parse_statement
from engine.operations.run import run
from engine.table import DeltaTable
from lakeui.catalog.mirror import refresh_table
from lakeui.catalog.models import Commit, CommitFile, Table
from lakeui.catalog.registration import register_table
from lakeui.jobs.models import Job
from lakeui.jobs.requests import request_job
from tests.lakeui.catalog.log_writer import new_table
from tests.lakeui.local_stack.upgrades import latest, list_releases, upgrade_database
from tests.services import ROOT
from workers import jobs

WORDS_OF_TODAY = [
    f"{model}.kind: {before!r} is {now!r}"
    for model in ("conflicts.conflict", "conflicts.conflictday")
    for before, now in (("absorbed", "resolved"), ("escaped", "aborted"))
]
CHANGED = {"0.1": ["catalog.preview: a row is gone", *WORDS_OF_TODAY]}
"""What migrations do to rows of a release on purpose: previews are read anew when they are wanted."""


def check_upgraded(told: dict[str, Any], release: str) -> None:
    """Every row is there, with what it held, and the pages show it."""
    assert set(told["statuses"].values()) == {200}, told
    assert told["conflict"] == ["aborted", True, True]
    assert "ada" in told["people"]
    assert told["changed"] == CHANGED.get(release, [])
    assert all(count >= 3 for count in told["rows"].values()), told["rows"]


@pytest.mark.parametrize(  # test_postgres.py takes what is first, which has them all
    "release", [*list_releases(), pytest.param("first", marks=pytest.mark.stress)]
)
def test_a_database_of_an_earlier_release_is_brought_up_to_date(tmp_path, release):
    told = upgrade_database(f"sqlite:///{tmp_path / 'old.sqlite3'}", tmp_path, release)
    check_upgraded(told, release)
    assert {"jobs.job", "catalog.commit", "api.apitoken"} <= told[
        "rows"
    ].keys() or release == "first"


def test_every_release_has_its_migrations_written_down_and_none_of_them_is_gone():
    headings = re.findall(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text("utf-8"), flags=re.M)
    assert sorted(headings) == sorted(list_releases())
    missing = [
        f"{app} {name}"
        for migrations in (*list_releases().values(), latest())
        for app, name in migrations.items()
        if not (ROOT / "lakeui" / app / "migrations" / f"{name}.py").is_file()
    ]
    assert not missing
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert version in headings, "a release has its section and its migrations"


@pytest.fixture
def orders(tmp_path, settings) -> Table:
    """A registered table of one version."""
    settings.TABLE_ROOTS = [str(tmp_path)]
    new_table(tmp_path / "orders")
    return register_table(str(tmp_path / "orders"), "sales.orders")


def _set_note(table: Table, note: str) -> Job:
    parameters = {"properties": {"note": note}}
    return request_job(table=table, kind="set_properties", parameters=parameters, requested_by=None)


def _read_mirror(table: Table) -> list[object]:
    """What the mirror has of the log, without its own keys and times."""
    commits = [
        field.attname
        for field in Commit._meta.concrete_fields
        if field.attname not in {"id", "table_id"}
    ]
    files = ["commit__version", "action", "path", "size_bytes", "row_count"]
    of_table = CommitFile.objects.filter(commit__table=table).order_by(*files)
    return [
        list(Commit.objects.filter(table=table).order_by("version").values(*commits)),
        list(of_table.values(*files)),
    ]


@pytest.mark.django_db(transaction=True)
def test_a_job_that_committed_after_the_backup_is_not_done_twice(orders, tmp_path):
    """The mirror of a database that was put back catches up with the log, and so do its jobs."""
    if connection.vendor != "sqlite":
        pytest.skip("pg_dump makes the backup there")
    before, late = _set_note(orders, "before"), _set_note(orders, "late")
    jobs.run_job.apply(args=[str(before.pk)])
    backup = sqlite3.connect(tmp_path / "backup.sqlite3")
    connection.connection.backup(backup)
    jobs.run_job.apply(args=[str(late.pk)])
    late.refresh_from_db()
    assert (late.state, late.committed_version) == (Job.State.SUCCEEDED, 2)
    run(
        parse_statement("ALTER TABLE t SET TBLPROPERTIES ('note' = 'last')"),
        DeltaTable.open(orders.uri),
        None,
    )

    backup.backup(connection.connection)
    backup.close()
    late.refresh_from_db()
    assert (late.state, Job.objects.get(pk=before.pk).committed_version) == (Job.State.QUEUED, 1)
    refresh_table(orders)
    jobs.run_job.apply(args=[str(late.pk)])
    late.refresh_from_db()
    assert (late.state, late.committed_version) == (Job.State.SUCCEEDED, 2)
    assert DeltaTable.open(orders.uri).snapshot().version == 3
    assert DeltaTable.open(orders.uri).snapshot().metadata.configuration["note"] == "last"


@pytest.mark.django_db
def test_a_mirror_that_is_lost_is_made_again_from_the_log(orders):
    for note in ("a", "b"):
        statement = parse_statement(f"ALTER TABLE t SET TBLPROPERTIES ('note' = '{note}')")
        run(statement, DeltaTable.open(orders.uri), None)
    refresh_table(orders)
    kept, uri = _read_mirror(orders), orders.uri
    assert len(kept[0]) == 3
    orders.delete()
    again = register_table(uri, "sales.orders")
    assert _read_mirror(again) == kept
