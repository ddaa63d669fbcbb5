"""The upgrades, backups and restores of docs/operations.md work as described."""

import sqlite3

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
from workers import jobs


@pytest.fixture
def orders(tmp_path, settings) -> Table:
    """Return a registered table of one version."""
    settings.TABLE_ROOTS = [str(tmp_path)]
    new_table(tmp_path / "orders")
    return register_table(str(tmp_path / "orders"), "sales.orders")


def _set_note(table: Table, note: str) -> Job:
    parameters = {"properties": {"note": note}}
    return request_job(table=table, kind="set_properties", parameters=parameters, requested_by=None)


def _read_mirror(table: Table) -> list[object]:
    """Return the mirror of the log, without generated keys and times."""
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
    """After a restore, the database's mirror and jobs catch up with the log."""
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
def test_a_lost_mirror_is_rebuilt_from_the_log(orders):
    for note in ("a", "b"):
        statement = parse_statement(f"ALTER TABLE t SET TBLPROPERTIES ('note' = '{note}')")
        run(statement, DeltaTable.open(orders.uri), None)
    refresh_table(orders)
    kept, uri = _read_mirror(orders), orders.uri
    assert len(kept[0]) == 3
    orders.delete()
    again = register_table(uri, "sales.orders")
    assert _read_mirror(again) == kept
