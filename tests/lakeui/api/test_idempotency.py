"""Idempotency-Key: the first answer again, for a day."""

from datetime import timedelta

import pytest
from django.utils import timezone

from lakeui.api.models import IdempotentAnswer
from lakeui.jobs.models import Job
from tests.lakeui.api.problem import problem

KEY = {"Idempotency-Key": "nightly-1"}
OPTIMIZE = {"kind": "optimize", "parameters": {}}


@pytest.fixture
def ask(client_for, table):
    caller = client_for("maintainer")

    def post(body=OPTIMIZE, headers=KEY):
        path = f"/api/v1/tables/{table.pk}/jobs/"
        return caller.post(path, body, format="json", headers=headers)

    return post


def test_the_same_request_gets_the_first_answer_and_makes_no_second_job(ask):
    first = ask()
    Job.objects.update(state=Job.State.SUCCEEDED)
    again = ask()
    assert (again.status_code, again.json()) == (202, first.json())
    assert again.headers["Location"] == first.headers["Location"]
    assert again.headers["Idempotency-Replayed"] == "true"
    assert Job.objects.count() == 1


def test_another_body_with_the_same_key_is_refused(ask):
    ask()
    problem(ask({"kind": "vacuum", "parameters": {}}), 422, "IDEMPOTENCY_KEY_REUSED")
    assert Job.objects.count() == 1


def test_without_a_key_every_request_counts(ask):
    ask(headers={})
    ask(headers={})
    assert Job.objects.count() == 2


def test_a_key_is_one_persons_own(ask, client_for, table):
    ask()
    other = client_for("admin").post(
        f"/api/v1/tables/{table.pk}/jobs/", OPTIMIZE, format="json", headers=KEY
    )
    assert other.status_code == 202
    assert Job.objects.count() == 2


def test_a_failure_leaves_the_key_free(ask):
    problem(ask({"kind": "nonsense", "parameters": {}}), 422)
    assert ask().status_code == 202


def test_after_a_day_the_key_may_be_used_again(ask):
    ask()
    yesterday = timezone.now() - timedelta(hours=25)
    IdempotentAnswer.objects.update(created_at=yesterday)
    Job.objects.update(created_at=yesterday)
    assert ask({"kind": "vacuum", "parameters": {}}).status_code == 202


@pytest.mark.parametrize("key", ["", "x" * 256, "ü"])
def test_a_key_must_be_short_ascii(ask, key):
    problem(ask(headers={"Idempotency-Key": key}), 422, "INVALID_REQUEST")


def test_a_retry_is_made_once(client_for, job):
    for _ in range(2):
        client_for("maintainer").post(f"/api/v1/jobs/{job.pk}:retry", headers=KEY)
    assert Job.objects.filter(retry_of=job).count() == 1
