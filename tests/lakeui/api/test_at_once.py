"""Concurrent requests: each is answered as if they had arrived one after the other."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.contrib.auth.models import Group
from django.db import connections
from rest_framework.test import APIClient

from lakeui.jobs.models import Job
from tests.lakeui.factories import make_conflict
from tests.lakeui.people import ROLES, make_table, person

AT_ONCE = 4

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _roles(transactional_db):
    """Restore the groups, which earlier tests may have removed from the database."""
    for name in ROLES:
        Group.objects.get_or_create(name=name)


def all_at_once(user, call):
    """Return the answers to `call(client, number)`, made by several threads at the same moment."""
    gate = Barrier(AT_ONCE)

    def one(number):
        client = APIClient()
        client.force_login(user)
        gate.wait()
        try:
            return call(client, number)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(one, range(AT_ONCE)))


def test_of_concurrent_changes_to_one_state_one_succeeds():
    user, path = person("ann", "maintainer"), f"/api/v1/tables/{make_table().pk}/"
    client = APIClient()
    client.force_login(user)
    seen = {"If-Match": client.get(path).headers["ETag"]}
    answers = all_at_once(
        user,
        lambda api, number: api.patch(
            path, {"description": f"by {number}"}, format="json", headers=seen
        ),
    )
    assert sorted(answer.status_code for answer in answers) == [200, 412, 412, 412]
    [taken] = [answer for answer in answers if answer.status_code == 200]
    assert client.get(path).json()["description"] == taken.json()["description"]


def test_concurrent_requests_with_one_key_make_one_job():
    user, path = person("ann", "maintainer"), f"/api/v1/tables/{make_table().pk}/jobs/"
    answers = all_at_once(
        user,
        lambda client, _: client.post(
            path, {"kind": "optimize"}, format="json", headers={"Idempotency-Key": "k"}
        ),
    )
    assert {answer.status_code for answer in answers} == {202}
    assert {answer.json()["id"] for answer in answers} == {str(Job.objects.get().pk)}


def test_an_aborted_write_repeated_concurrently_runs_once():
    user, table = person("ann", "maintainer"), make_table()
    given = {"where": "TRUE"}
    lost = Job.objects.create(
        table=table, kind="delete", parameters=given, state=Job.State.CONFLICTED, requested_by=user
    )
    conflict = make_conflict(table, job=lost)
    path = f"/api/v1/conflicts/{conflict.pk}/rerun/"
    body = {"confirm": table.name}
    answers = all_at_once(user, lambda client, _: client.post(path, body, format="json"))
    assert sorted(answer.status_code for answer in answers) == [202, 422, 422, 422]
    assert Job.objects.filter(retry_of=lost).count() == 1


def test_pages_miss_and_repeat_no_row_while_others_are_added():
    user, table = person("ann", "maintainer"), make_table()
    before = {Job.objects.create(table=table, kind="optimize").pk for _ in range(25)}
    client = APIClient()
    client.force_login(user)
    seen, token = [], ""
    while token is not None:
        page = client.get("/api/v1/jobs/", {"page_size": 4, "page_token": token}).json()
        seen += [row["id"] for row in page["items"]]
        token = page["next_page_token"]
        Job.objects.create(table=table, kind="vacuum")
    assert len(seen) == len(set(seen))
    assert set(seen) == {str(pk) for pk in before}
