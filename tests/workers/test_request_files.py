"""How many files of ours one request touches: what a newcomer reads to follow it.

`python -m tests.readability --requests` prints the counts.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from django.test import Client

from lakeui.jobs import leases
from lakeui.jobs.models import Job
from tests.lakeui.conflicts.aborted_jobs import create_aborted_job
from workers.job_run import run_attempt

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = f"{Path(__file__).parents[2]}/"
PRODUCT = ("engine/", "lakeui/", "workers/")
# About the counts of today: a way that gets longer is a decision, not an accident.
MOST = {"POST of a DELETE": 86, "from POST to commit": 172, "a conflict page": 73}


def count_files(label: str, act: Callable[[], object]) -> None:
    """Count the modules whose functions run while something is done, and print it."""
    act()  # what is done once in a process is no part of the way
    touched: set[str] = set()

    def note(frame, event, _argument):
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(ROOT) and frame.f_code.co_name != "<module>":
            touched.add(path.removeprefix(ROOT))

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    count = sum(path.startswith(PRODUCT) for path in touched)
    sys.stdout.write(f"\n{label}: {count} files\n")
    assert 0 < count <= MOST[label], f"{label}: {count} files"


def post_delete(client: Client, table) -> Job:
    body = {"kind": "delete", "parameters": {"where": "n = 2"}}
    answer = client.post(f"/api/v1/tables/{table.pk}/jobs/", body, content_type="application/json")
    assert answer.status_code == 202, answer.content
    return Job.objects.get(pk=answer.json()["id"])


def run(job: Job) -> None:
    lease = leases.claim(job.pk, "light@here")
    assert lease is not None
    run_attempt(lease)
    job.refresh_from_db()
    assert job.state == Job.State.SUCCEEDED, job.error_message


def test_a_request_touches_few_files(orders, ada, lake):
    client = Client()
    client.force_login(ada)
    conflict = create_aborted_job(str(lake / "lake/lost"), ada, name="sales.lost")

    count_files("POST of a DELETE", lambda: post_delete(client, orders))
    count_files("from POST to commit", lambda: run(post_delete(client, orders)))
    count_files("a conflict page", lambda: client.get(f"/conflicts/{conflict.pk}/"))
