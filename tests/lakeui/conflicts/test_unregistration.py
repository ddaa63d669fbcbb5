"""Unregistering a table removes every record of it, but none of its files."""

import json
from io import StringIO

import pytest
from auditlog.models import LogEntry
from django.core.management import CommandError, call_command
from django.test import override_settings
from django.utils import timezone

from engine.errors import RequestError
from lakeui.catalog.models import Commit, CommitHour, LiveFile, Table
from lakeui.catalog.registration import register_table
from lakeui.catalog.roles import Role
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.unregistration import count_records, unregister_table
from lakeui.jobs.errors import NotPermittedError, ReadOnlyError
from lakeui.jobs.models import Job, JobEvent
from tests.lakeui.catalog.log_writer import add, append_commit, new_table
from tests.lakeui.factories import grant, make_conflict, make_job, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def lake(tmp_path, settings):
    settings.TABLE_ROOTS = [str(tmp_path)]
    new_table(tmp_path / "orders")
    append_commit(tmp_path / "orders", 1, [add("a.parquet", rows=10)])
    return tmp_path


@pytest.fixture
def table(lake) -> Table:
    table = register_table(str(lake / "orders"), "sales.orders")
    job = make_job(table, state="succeeded")
    JobEvent.objects.create(job=job, message="Queued", at=timezone.now())
    make_conflict(table, job=job)
    grant(make_user("someone"), table, Role.VIEWER)
    return table


def test_all_records_of_a_table_are_deleted_and_its_files_stay(lake, table):
    admin = make_user("admin", Role.ADMIN)
    other = make_job(Table.objects.create(name="other", uri=str(lake / "other")))
    before = sorted(lake.rglob("*"))
    LogEntry.objects.all().delete()
    kept = unregister_table(table, admin, reason="registered by mistake")
    assert (kept.versions, kept.jobs, kept.conflicts, kept.roles) == (2, 1, 1, 1)
    for rows in (Commit, LiveFile, Conflict, JobEvent):
        assert not rows.objects.exists(), rows
    assert sum(CommitHour.objects.values_list("commits", flat=True)) == 0
    assert Job.objects.get() == other
    assert sorted(lake.rglob("*")) == before
    entry = LogEntry.objects.get()
    assert (entry.actor, entry.action, entry.object_repr) == (
        admin,
        LogEntry.Action.DELETE,
        "sales.orders",
    )
    assert entry.changes_dict["reason"][1] == "registered by mistake"
    assert register_table(str(lake / "orders"), "sales.orders").version == 1


def test_a_table_is_unregistered_by_its_admins_and_one_never_created_by_maintainers(lake, table):
    maintainer = make_user("maintainer", Role.MAINTAINER)
    with pytest.raises(NotPermittedError):
        unregister_table(table, maintainer)
    never = Table.objects.create(name="never", uri=str(lake / "never"))
    with pytest.raises(NotPermittedError):
        unregister_table(never, make_user("operator", Role.OPERATOR))
    unregister_table(never, maintainer)
    assert [*Table.objects.all()] == [table]


def test_a_table_with_a_job_that_did_not_end_stays(table):
    make_job(table, state="running")
    with pytest.raises(RequestError, match=r"1 job that changes .* must end first"):
        unregister_table(table, None)
    assert count_records(table).jobs == 2


@override_settings(READ_ONLY=True)
def test_a_read_only_installation_forgets_nothing(table):
    with pytest.raises(ReadOnlyError):
        unregister_table(table, None)
    assert Table.objects.exists()


def test_the_page_lists_the_records_that_go_and_asks_for_the_name(client, table):
    address = f"/tables/{table.pk}/unregister/"
    client.force_login(make_user("maintainer", Role.MAINTAINER))
    assert client.get(address).status_code == 403
    assert "Unregister…" not in client.get(f"/tables/{table.pk}/").content.decode()
    client.force_login(make_user("admin", Role.ADMIN))
    assert "Unregister…" in client.get(f"/tables/{table.pk}/").content.decode()
    assert "permanently deleted" in client.get(address).content.decode()
    assert client.post(address, {"confirm": "sales.order"}).status_code == 400
    assert Table.objects.exists()
    assert client.post(address, {"confirm": "sales.orders"}).headers["Location"] == "/tables/"
    assert not Table.objects.exists()


def _output(*arguments: str) -> str:
    out = StringIO()
    call_command("unregister", *arguments, stdout=out)
    return out.getvalue()


@pytest.mark.parametrize("by", ["name", "uri"])
def test_the_command_lists_the_forgotten_records_and_leaves_the_files(lake, table, by):
    before = sorted(lake.rglob("*"))
    said = _output(getattr(table, by))
    assert "sales.orders is no longer registered." in said
    assert "Forgotten: 2 versions, 1 job, 1 conflict, 1 role." in said
    assert f"unchanged at {lake / 'orders'}" in said
    assert not Table.objects.exists()
    assert sorted(lake.rglob("*")) == before


def test_the_command_lists_programs_and_the_audit_trail(table):
    LogEntry.objects.all().delete()
    answer = json.loads(_output("sales.orders", "--reason", "registered twice", "-ojson"))
    assert (answer["name"], answer["uri"]) == ("sales.orders", table.uri)
    assert (answer["forgotten"]["versions"], answer["forgotten"]["schedules"]) == (2, 0)
    assert LogEntry.objects.get().changes_dict["reason"][1] == "registered twice"


def test_the_command_says_in_one_line_why_a_table_stays(table):
    with pytest.raises(CommandError, match="No table is called sales"):
        _output("sales.order")
    make_job(table, state="running")
    with pytest.raises(CommandError, match="must end first"):
        _output("sales.orders")
    assert Table.objects.exists()
