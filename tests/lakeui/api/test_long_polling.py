"""`wait` and `If-None-Match`: news at once, an empty answer after the time, both for permitted users only."""

import asyncio
from datetime import timedelta
from time import monotonic

import pytest
from django.contrib.sessions.models import Session
from django.db import InterfaceError, OperationalError
from django.test import AsyncClient
from django.utils import timezone
from knox.models import get_token_model

from lakeui import event_streams
from lakeui.catalog.models import Table, TableGrant
from lakeui.catalog.roles import Role
from lakeui.jobs.models import Job
from tests.lakeui.api.problem import problem
from tests.lakeui.people import make_job

LONG = 30  # seconds that no test takes


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(event_streams, "PAUSE_S", 0.01)


@pytest.fixture
def active_job(table, people):
    return make_job(table, people["maintainer"], state=Job.State.RUNNING)


@pytest.fixture
def viewer(client_for):
    return client_for("viewer")


def act_at_second_look(monkeypatch, act):
    """Call `act` at a waiting request's second look; return the list of looks."""
    looks, asked = [], event_streams._ask

    def look(is_news):
        looks.append(1)
        if len(looks) == 2:
            act()
        return asked(is_news)

    monkeypatch.setattr(event_streams, "_ask", look)
    return looks


def test_the_same_etag_is_answered_without_a_body(viewer, table, active_job):
    for path in ("tables/", f"tables/{table.pk}/", f"jobs/{active_job.pk}/", "schema/"):
        first = viewer.get(f"/api/v1/{path}")
        again = viewer.get(f"/api/v1/{path}", headers={"If-None-Match": first["ETag"]})
        assert (again.status_code, again.content) == (304, b""), path
        other = viewer.get(f"/api/v1/{path}", headers={"If-None-Match": '"another"'})
        assert other.status_code == 200


def test_an_etag_is_another_where_the_answer_is(viewer, table, active_job):
    """The answer may change without a new step or version; on 304 a browser would show its old copy."""
    changes = {
        f"tables/{table.pk}/": lambda: Table.objects.update(mirror_error_code="LAKE_STORAGE"),
        f"tables/{table.pk}/isolation/": lambda: Table.objects.update(deletion_vectors=True),
        f"jobs/{active_job.pk}/": lambda: Job.objects.update(reason="told later"),
    }
    for path, change in changes.items():
        first = viewer.get(f"/api/v1/{path}")
        change()
        again = viewer.get(f"/api/v1/{path}", headers={"If-None-Match": first["ETag"]})
        assert again.status_code == 200, path
        assert again.json() != first.json()


def test_a_person_who_may_not_read_a_job_gets_another_etag(client, people, guest, table):
    """Two people may share a browser: on 304 the second would see the first one's answer."""
    statement = {"parameters": {"source": "SELECT * FROM sales.secret"}, "kind": "insert"}
    job = make_job(table, people["maintainer"], state=Job.State.RUNNING, **statement)
    path = f"/api/v1/jobs/{job.pk}/"
    client.force_login(people["admin"])
    seen = client.get(path)
    client.force_login(guest)
    answer = client.get(path, headers={"If-None-Match": seen["ETag"]})
    assert answer.status_code == 200
    assert "secret" in seen.content.decode()
    assert "secret" not in answer.content.decode()


def test_a_jobs_etag_is_another_after_a_step(viewer, active_job):
    before = viewer.get(f"/api/v1/jobs/{active_job.pk}/")["ETag"]
    Job.objects.filter(pk=active_job.pk).update(progress_done=5)
    after = viewer.get(f"/api/v1/jobs/{active_job.pk}/", headers={"If-None-Match": before})
    assert after.status_code == 200
    assert after["ETag"] != before


def test_a_wait_for_a_job_ends_when_it_has_ended(viewer, active_job, monkeypatch):
    ended = Job.objects.filter(pk=active_job.pk)
    looks = act_at_second_look(monkeypatch, lambda: ended.update(state=Job.State.SUCCEEDED))
    answer = viewer.get(f"/api/v1/jobs/{active_job.pk}/?wait={LONG}")
    assert (answer.status_code, answer.json()["state"]) == (200, "succeeded")
    assert len(looks) == 2


def test_with_an_etag_the_wait_ends_at_the_next_step(viewer, active_job, monkeypatch):
    etag = viewer.get(f"/api/v1/jobs/{active_job.pk}/")["ETag"]
    step = Job.objects.filter(pk=active_job.pk)
    act_at_second_look(monkeypatch, lambda: step.update(progress_done=7))
    answer = viewer.get(
        f"/api/v1/jobs/{active_job.pk}/?wait={LONG}", headers={"If-None-Match": etag}
    )
    assert answer.json()["state"] == "running"
    assert answer["ETag"] != etag


def test_a_wait_for_a_version_ends_when_the_mirror_has_it(viewer, table, monkeypatch):
    act_at_second_look(monkeypatch, lambda: Table.objects.filter(pk=table.pk).update(version=3))
    answer = viewer.get(f"/api/v1/tables/{table.pk}/?wait={LONG}&after_version=2")
    assert answer.json()["version"] == 3


@pytest.mark.parametrize("query", ["wait=30&after_version=1", "after_version=5", "wait=0"])
def test_existing_news_is_answered_at_once(viewer, table, query):
    answer = viewer.get(f"/api/v1/tables/{table.pk}/?{query}")
    assert answer.status_code == 200


def test_an_ended_job_is_not_waited_for(viewer, job):
    assert viewer.get(f"/api/v1/jobs/{job.pk}/?wait={LONG}").status_code == 200


def test_without_news_the_answer_is_sent_after_the_time(viewer, table, active_job):
    began = monotonic()
    assert viewer.get(f"/api/v1/jobs/{active_job.pk}/?wait=1").json()["state"] == "running"
    etag = viewer.get(f"/api/v1/tables/{table.pk}/")["ETag"]
    same = viewer.get(f"/api/v1/tables/{table.pk}/?wait=1", headers={"If-None-Match": etag})
    assert same.status_code == 304
    assert monotonic() - began >= 2


@pytest.mark.parametrize(
    "query", ["wait=61", "wait=-1", "wait=soon", "wait=5", "wait=5&after_version=x", "waits=5"]
)
def test_a_wait_that_means_nothing_is_refused(viewer, table, query):
    problem(viewer.get(f"/api/v1/tables/{table.pk}/?{query}"), 422)


def test_a_token_that_expires_during_a_wait_is_refused_at_its_end(
    client, people, active_job, monkeypatch
):
    token, secret = get_token_model().objects.create(
        user=people["viewer"], expiry=timedelta(hours=1), name="ci", role=Role.VIEWER
    )
    expired = get_token_model().objects.filter(pk=token.pk)
    ended = Job.objects.filter(pk=active_job.pk)

    def act():
        expired.update(expiry=timezone.now() - timedelta(seconds=1))
        ended.update(state=Job.State.SUCCEEDED)

    act_at_second_look(monkeypatch, act)
    headers = {"Authorization": f"Bearer {secret}"}
    problem(client.get(f"/api/v1/jobs/{active_job.pk}/?wait={LONG}", headers=headers), 401)


def test_a_person_who_loses_the_right_during_a_wait_learns_nothing(
    client, guest, table, monkeypatch
):
    client.force_login(guest)

    def act():
        TableGrant.objects.all().delete()
        Table.objects.update(version=3)

    act_at_second_look(monkeypatch, act)
    problem(client.get(f"/api/v1/tables/{table.pk}/?wait={LONG}&after_version=2"), 404)


@pytest.mark.parametrize("ends", ["signs out", "is disabled", "is admin no more"])
def test_a_person_who_signs_out_or_is_disabled_during_a_wait_learns_nothing(
    client, people, active_job, monkeypatch, ends
):
    person = people["admin"]
    client.force_login(person)
    row = type(person).objects.filter(pk=person.pk)
    acts = {
        "signs out": lambda: Session.objects.all().delete(),
        "is disabled": lambda: row.update(is_active=False),
        "is admin no more": lambda: (row.update(is_superuser=False), person.groups.clear()),
    }
    act_at_second_look(monkeypatch, lambda: (acts[ends](), Job.objects.update(state="succeeded")))
    answer = client.get(f"/api/v1/jobs/{active_job.pk}/?wait={LONG}")
    assert answer.status_code in (401, 404)


@pytest.mark.django_db  # a wait closes the connections that its thread has
@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_a_database_that_goes_away_during_a_wait_ends_it_and_the_view_reports_it(error):
    looks = []

    def is_away():
        looks.append(1)
        if len(looks) == 2:
            raise error
        return False

    slot = event_streams.StreamSlot(None)
    asyncio.run(event_streams.wait_for(is_away, LONG, slot))
    slot.leave()
    assert len(looks) == 2


def test_a_wait_counts_as_one_request(viewer, active_job, settings, monkeypatch):
    settings.API_RATE_PERSON = "1/min"
    act_at_second_look(monkeypatch, lambda: Job.objects.update(state=Job.State.SUCCEEDED))
    assert viewer.get(f"/api/v1/jobs/{active_job.pk}/?wait={LONG}").status_code == 200
    assert viewer.get(f"/api/v1/jobs/{active_job.pk}/").status_code == 429


def test_waits_beyond_the_limit_of_a_process_are_told_to_retry(viewer, active_job, monkeypatch):
    monkeypatch.setattr(event_streams, "MOST_WAITING", 0)
    answer = viewer.get(f"/api/v1/jobs/{active_job.pk}/?wait={LONG}")
    problem(answer, 503, "TOO_MANY_WAITS")
    assert answer["Retry-After"] == "5"


@pytest.mark.django_db(transaction=True)
def test_a_client_that_disconnects_waits_no_longer(people, active_job):
    """uvicorn cancels the request's task in the same way."""
    client = AsyncClient()
    client.force_login(people["viewer"])

    async def go_away():
        asked = asyncio.create_task(client.get(f"/api/v1/jobs/{active_job.pk}/?wait={LONG}"))
        while not event_streams._waiting:
            await asyncio.sleep(0.01)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        return event_streams._waiting.total()

    assert asyncio.run(go_away()) == 0
