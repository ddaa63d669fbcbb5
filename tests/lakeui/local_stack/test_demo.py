"""The demo runs step by step, and continues where it stopped."""

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from engine.commands.model import Command
from lakeui.catalog.models import Table
from lakeui.conflicts.models import Conflict, ConflictTrials
from lakeui.jobs.models import Job, Schedule
from lakeui.local_stack.context import demo as demo_context
from lakeui.local_stack.demo import ACCOUNTS, SCHEDULES, STEPS, advance, prepare
from lakeui.local_stack.models import DemoStep
from tests.lakeui.page_client import PageClient
from tests.lakeui.people import person

pytestmark = pytest.mark.django_db

State = DemoStep.State
FIRST = [step for step in STEPS if not step.after]


@pytest.fixture
def lake(tmp_path, settings, monkeypatch):
    monkeypatch.setattr("lakeui.local_stack.demo_data.ORDERS_A_DAY", 20)
    settings.LAKE_HOME, settings.DEMO_HOME = tmp_path / "lake", tmp_path / "demo"
    settings.TABLE_ROOTS = [str(settings.LAKE_HOME)]
    settings.SOURCE_ROOTS = [str(settings.DEMO_HOME)]


def end_jobs(state: Job.State = Job.State.SUCCEEDED) -> None:
    Job.objects.filter(state__in=Job.ACTIVE).update(state=state)


def test_every_step_is_a_command_whose_predecessors_come_before_it():
    seen: set[str] = set()
    for step in STEPS:
        Command.from_parameters(step.kind, step.parameters)
        assert seen.issuperset(step.after), step.key
        assert step.commit_after in {*seen, ""}, step.key
        assert step.account in ACCOUNTS
        seen.add(step.key)
    assert len(seen) == len(STEPS)


def test_steps_are_requested_as_the_ones_before_them_end_until_all_are_done(lake):
    prepare()
    rounds = 0
    while advance():
        end_jobs()
        rounds += 1
        assert rounds < len(STEPS)
    assert [row.message for row in DemoStep.objects.exclude(state=State.DONE)] == []
    assert Job.objects.count() == len(STEPS)
    assert Table.objects.count() == len({step.table for step in STEPS})
    assert set(Job.objects.values_list("requested_by__username", flat=True)) == set(ACCOUNTS)


def test_a_finished_demo_is_not_done_again(lake):
    prepare()
    while advance():
        end_jobs()
    jobs = Job.objects.count()
    prepare()
    assert advance() is False
    assert (Job.objects.count(), User.objects.count()) == (jobs, len(ACCOUNTS))
    assert set(Schedule.objects.values_list("name", flat=True)) == {s.name for s in SCHEDULES}


def test_a_step_that_fails_holds_back_its_successors_and_is_tried_again_next_time(lake):
    prepare()
    advance()
    end_jobs(Job.State.FAILED)
    assert advance() is False
    assert DemoStep.objects.filter(state=State.FAILED).count() == len(FIRST)
    assert not DemoStep.objects.filter(state=State.RUNNING).exists()
    prepare()
    assert advance() is True
    assert Job.objects.filter(retry_of__isnull=False).count() == len(FIRST)


def test_a_step_whose_job_failed_unnoticed_is_tried_again_by_the_next_start(lake):
    prepare()
    advance()
    end_jobs(Job.State.FAILED)  # as the stack stopped
    prepare()
    assert not DemoStep.objects.filter(state=State.FAILED).exists()
    assert Job.objects.filter(retry_of__isnull=False).count() == len(FIRST)


def test_a_job_that_was_to_lose_may_lose(lake):
    prepare()
    while advance():
        losers = Job.objects.filter(commit_after__isnull=False, state__in=Job.ACTIVE)
        losers.update(state=Job.State.CONFLICTED)
        end_jobs()
    assert [row.message for row in DemoStep.objects.exclude(state=State.DONE)] == []


def test_the_overview_leads_to_a_resolved_and_an_aborted_conflict_and_the_fixes_tried(
    lake, settings
):
    settings.EMBEDDED = True
    prepare()
    while advance():
        end_jobs()
    client = PageClient()
    client.force_login(person("viewer", "viewer"))
    assert 'id="story"' in client.get("/").content.decode()
    conflicts = {}
    for key, kind, versions in (
        ("orders-erase-again", "resolved", (4, 5)),
        ("orders-erase-same", "aborted", (6, 7)),
    ):
        job = DemoStep.objects.get(key=key).job
        conflicts[kind] = Conflict.objects.create(
            table=job.table, job=job, kind=kind, occurred_at=timezone.now(),
            read_version=versions[0], winning_version=versions[1],
        )  # fmt: skip
    assert advance() is False
    trials = ConflictTrials.objects.get(conflict=conflicts["aborted"])
    addresses = [f"/conflicts/{conflict.pk}/" for conflict in conflicts.values()]
    links = [f'href="{address}"' for address in (*addresses, f"{addresses[1]}#trials")]
    page = client.get("/").content.decode()
    assert [link in page for link in links] == [True, True, False]
    ConflictTrials.objects.update(read_at=timezone.now())
    assert advance() is False
    page = client.get("/").content.decode()
    assert [link in page for link in links] == [True, True, True]
    assert ConflictTrials.objects.get().asked_at == trials.asked_at, "tried once"
    client.force_login(person("stranger"))
    assert 'id="story"' not in client.get("/").content.decode()


def test_pages_can_show_how_far_it_is(lake, rf, settings):
    request = rf.get("/")
    assert not demo_context(request)["demo"]
    prepare()
    advance()
    progress = demo_context(request)["demo"]
    assert (progress["done"], progress["total"]) == (0, len(STEPS))
    assert "Create sales.orders" in progress["current"]
    assert progress["current"].endswith(f", and {len(FIRST) - 2} more")
    settings.EMBEDDED = False
    assert demo_context(request)["demo"] is None
