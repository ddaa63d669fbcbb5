"""`manage.py job`: a job without a browser, run by a real worker, with its outcome as the exit code."""

import json

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.core.management.base import CommandError

from lakeui.jobs.models import Job

pytestmark = pytest.mark.timeout(120)


def _job(*arguments):
    """Run the command and return its output as text; it must succeed."""
    call_command("job", *arguments)


def test_a_statement_is_done_by_the_table_that_it_names(start_worker, table, capsys):
    start_worker("light")
    _job("ALTER TABLE sales.orders SET TBLPROPERTIES (team = 'sales')", "--wait", "-o", "json")
    told = json.loads(capsys.readouterr().out)
    assert told["state"] == Job.State.SUCCEEDED
    assert told["table"] == "sales.orders"
    assert told["committed_version"] == 1
    assert Job.objects.get(pk=told["id"]).by_system


def test_a_job_that_fails_ends_the_command_with_1(start_worker, table, capsys):
    start_worker("light")
    with pytest.raises(CommandError, match=r"failed: .*99") as failure:
        _job("RESTORE sales.orders TO VERSION AS OF 99", "--wait")
    assert failure.value.returncode == 1
    assert "failed" in capsys.readouterr().out


def test_a_wait_that_expires_leaves_the_job_queued(table):
    with pytest.raises(CommandError, match=r"is still queued\. It continues") as failure:
        _job("OPTIMIZE sales.orders", "--wait", "0")
    assert failure.value.returncode == 5
    assert Job.objects.get().state == Job.State.QUEUED


def test_without_waiting_the_job_is_queued_once_for_a_key(table, capsys):
    admin = User.objects.create_superuser("ada")
    for _ in range(2):
        _job("VACUUM sales.orders", "--as", admin.username, "--idempotency-key", "tonight")
    assert Job.objects.count() == 1
    assert "queued" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("OPTIMIZE nowhere",), "No table is called nowhere"),
        (("UPDATE",), "Unexpected end of the text"),
        (("VACUUM sales.orders", "--idempotency-key", "k"), "Add --as"),
        (("VACUUM sales.orders", "--as", "nobody"), "There is no active user nobody"),
    ],
)
def test_an_impossible_request_is_explained_and_leaves_no_job(table, arguments, message):
    with pytest.raises(CommandError, match=message):
        _job(*arguments)
    assert not Job.objects.exists()


def test_a_person_has_the_same_rights_here_as_elsewhere(table):
    viewer = User.objects.create_user("vera")
    viewer.groups.add(Group.objects.get_or_create(name="viewer")[0])
    with pytest.raises(CommandError, match="requires the right to maintain"):
        _job("VACUUM sales.orders", "--as", "vera")
    assert not Job.objects.exists()
