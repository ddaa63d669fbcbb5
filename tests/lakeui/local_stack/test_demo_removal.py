"""Removal of the demo: everything that belongs to it, and nothing else."""

import shutil
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from engine.errors import RequestError
from lakeui.catalog.models import LiveFile, Table
from lakeui.catalog.roles import Role
from lakeui.jobs.errors import NotPermittedError, ReadOnlyError
from lakeui.jobs.models import Job, Schedule
from lakeui.local_stack.context import demo as demo_context
from lakeui.local_stack.demo import ACCOUNTS, STEPS, advance, prepare
from lakeui.local_stack.demo_data import file_names
from lakeui.local_stack.demo_removal import demo_of_installation, remove_demo
from lakeui.local_stack.models import DemoStep
from tests.lakeui.factories import make_job, make_table, make_user
from tests.lakeui.page_client import PageClient

pytestmark = pytest.mark.django_db
NAMES = {step.table for step in STEPS}


@pytest.fixture
def demo(tmp_path, settings, monkeypatch):
    """Create a finished demo whose tables have one file each."""
    monkeypatch.setattr("lakeui.local_stack.demo_data.ORDERS_A_DAY", 20)
    settings.LAKE_HOME, settings.DEMO_HOME = tmp_path / "lake", tmp_path / "demo"
    settings.TABLE_ROOTS = [str(settings.LAKE_HOME)]
    settings.SOURCE_ROOTS = [str(settings.DEMO_HOME)]
    settings.EMBEDDED = True
    prepare()
    while advance():
        Job.objects.filter(state__in=Job.ACTIVE).update(state=Job.State.SUCCEEDED)
    for table in Table.objects.all():
        Path(table.uri).mkdir(parents=True)
        (Path(table.uri) / "part-0.parquet").write_bytes(b"x")


@pytest.fixture
def admin(db):
    return make_user("me", Role.ADMIN)


def test_the_whole_demo_is_removed(demo, admin, settings):
    shutil.rmtree(Path(Table.objects.get(name="ops.events").uri).parent)  # no job ever made it
    gone = remove_demo(admin)
    assert {table.name for table in gone.tables} == NAMES
    assert {account.username for account in gone.accounts} == set(ACCOUNTS)
    for model in (Table, Job, Schedule):
        assert not model.objects.exists()
    assert set(User.objects.values_list("username", flat=True)) == {"me"}
    assert not list(Path(settings.LAKE_HOME).iterdir())
    assert not any((Path(settings.DEMO_HOME) / name).exists() for name in file_names())
    assert not demo_of_installation().is_there
    assert demo_context(None)["demo"] is None or not demo_context(None)["demo"]


def test_objects_that_people_made_stay(demo, admin, settings):
    own = make_table("own.orders", uri=f"{settings.LAKE_HOME}/own/orders", registered_by=admin)
    place = Path(own.uri)
    place.mkdir(parents=True)
    (Path(settings.DEMO_HOME) / "mine.csv").write_text("id\n")
    job = make_job(own, requested_by=User.objects.get(username="etl-nightly"))
    User.objects.filter(username="price-fixer").update(password="!")
    taken = Table.objects.get(name="sales.orders")
    taken.registered_by = admin
    taken.save()
    remove_demo(admin)
    assert set(Table.objects.values_list("name", flat=True)) == {"own.orders", "sales.orders"}
    assert Path(taken.uri).is_dir()
    assert place.is_dir()
    assert (Path(settings.DEMO_HOME) / "mine.csv").is_file()
    assert Job.objects.filter(pk=job.pk).exists()
    assert {"etl-nightly", "price-fixer"} <= set(User.objects.values_list("username", flat=True))


def test_a_table_that_reads_files_of_the_demo_holds_it(demo, admin):
    source = Table.objects.get(name="sales.orders")
    clone = make_table("own.clone", registered_by=admin)
    LiveFile.objects.create(table=clone, path=f"file://{source.uri}/part-0.parquet", size_bytes=1)
    with pytest.raises(RequestError, match="reads files of"):
        remove_demo(admin)
    assert Path(source.uri).is_dir()
    assert Table.objects.filter(pk=source.pk).exists()


def test_a_table_inside_one_of_the_demo_protects_it(demo, admin):
    outer = Path(Table.objects.get(name="sales.orders").uri)
    (outer / "_delta_log").mkdir()
    inner = outer / "mine"
    (inner / "_delta_log").mkdir(parents=True)
    with pytest.raises(RequestError, match="mine is inside"):
        remove_demo(admin)
    assert inner.is_dir()
    assert Table.objects.filter(name="sales.orders").exists()
    (inner / "_delta_log").rmdir()
    remove_demo(admin)
    assert not outer.exists()


def test_an_unfinished_demo_stops_and_is_removed_when_its_jobs_have_ended(demo, admin):
    DemoStep.objects.filter(position__gt=5).update(state=DemoStep.State.WAITING)
    Job.objects.filter(pk=Job.objects.first().pk).update(state=Job.State.RUNNING)
    with pytest.raises(RequestError, match="1 job of the demo must end first"):
        remove_demo(admin)
    jobs = Job.objects.count()
    assert not advance()
    assert Job.objects.count() == jobs
    Job.objects.update(state=Job.State.SUCCEEDED)
    remove_demo(admin)
    assert not Table.objects.exists()


def test_the_next_start_does_not_make_it_again(demo, admin, capsys):
    remove_demo(admin)
    call_command("demo")
    assert "was removed" in capsys.readouterr().out
    assert not Job.objects.exists()
    assert not advance()


def test_the_command_lists_the_removed_objects_and_removes_them_when_confirmed(demo, capsys):
    call_command("demo", "--remove")
    said = capsys.readouterr().out
    assert "table sales.orders" in said
    assert "Nothing was removed" in said
    assert Table.objects.exists()
    call_command("demo", "--remove", "--yes")
    assert not Table.objects.exists()


def test_a_refusal_is_the_commands_error(demo):
    Job.objects.filter(pk=Job.objects.first().pk).update(state=Job.State.RUNNING)
    with pytest.raises(CommandError, match="must end first"):
        call_command("demo", "--remove", "--yes")


def test_only_an_admin_removes_it_and_never_read_only(demo, admin, settings):
    with pytest.raises(NotPermittedError):
        remove_demo(make_user("other", Role.MAINTAINER))
    settings.READ_ONLY = True
    with pytest.raises(ReadOnlyError):
        remove_demo(admin)
    assert Table.objects.count() == len(NAMES)


def test_the_page_lists_the_removed_objects_and_one_click_removes_them(demo, admin):
    client = PageClient()
    client.force_login(admin)
    assert "/demo/remove/" in client.get("/").content.decode()
    body = client.get("/demo/remove/").content.decode()
    assert all(name in body for name in NAMES)
    assert "price-fixer" in body
    assert client.post("/demo/remove/")["Location"] == "/"
    assert not Table.objects.exists()
    body = client.get("/").content.decode()
    assert "First steps" in body
    assert "/demo/remove/" not in body
    assert "There is no demo here" in client.get("/demo/remove/").content.decode()


def test_the_page_is_for_admins(demo):
    client = PageClient()
    client.force_login(make_user("other", Role.MAINTAINER))
    assert client.get("/demo/remove/").status_code == 403
    assert client.post("/demo/remove/").status_code == 403
    assert Table.objects.exists()
