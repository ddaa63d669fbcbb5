"""The cost of one request: project files, queries, listings of the log and parsed conditions.

A newcomer reads the files to follow the request. `python -m tests.readability --requests` prints the
counts.
"""

import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from engine.expressions import parse
from engine.log import segment
from lakeui.jobs import leases
from lakeui.jobs.models import Job
from tests.lakeui.conflicts.aborted_jobs import create_aborted_job
from workers.job_run import run_attempt

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = f"{Path(__file__).parents[2]}/"
PRODUCT = ("engine/", "lakeui/", "workers/")
COUNTED = {
    parse.parse_expression.__code__: "conditions parsed",
    segment.list_log_files.__code__: "listings of the log",
}
# About the costs of today: a request that costs more is a decision, not an accident.
MOST = {
    "POST of a DELETE": {"files": 65, "queries": 24, "conditions parsed": 4},
    "from POST to commit": {
        "files": 151,
        "queries": 66,
        "conditions parsed": 4,
        "listings of the log": 2,
    },
    "a conflict page": {"files": 60, "queries": 29},
}


@contextmanager
def count_costs() -> Iterator[Counter[str]]:
    """Count files whose functions run inside the block, the calls in COUNTED, and queries."""
    costs: Counter[str] = Counter()
    touched: set[str] = set()

    def note(frame, event, _argument):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ROOT) and code.co_name != "<module>":
            touched.add(code.co_filename.removeprefix(ROOT))
            if code in COUNTED:
                costs[COUNTED[code]] += 1

    with CaptureQueriesContext(connection) as queries:
        logging.disable()  # lines of the log, which another test may have turned on
        sys.setprofile(note)
        try:
            yield costs
        finally:
            sys.setprofile(None)
            logging.disable(logging.NOTSET)
    costs["queries"] = len(queries)
    files = sorted(path for path in touched if path.startswith(PRODUCT))
    costs["files"] = len(files)
    sys.stdout.write("\n".join(files))


def check_costs(label: str, act: Callable[[int], object]) -> None:
    """Check and print the costs of an act that was done twice before.

    Imports and caches are no part of a request's way.
    """
    act(1), act(2)
    with count_costs() as costs:
        act(3)
    sys.stdout.write(f"\n{label}: {costs['files']} files, {dict(costs)}\n")
    assert costs["files"] > 0
    assert {name: n for name, n in costs.items() if n > MOST[label].get(name, 0)} == {}


def post_delete(client: Client, table, n: int) -> Job:
    body = {"kind": "delete", "parameters": {"where": f"n = {n}"}}
    answer = client.post(f"/api/v1/tables/{table.pk}/jobs/", body, content_type="application/json")
    assert answer.status_code == 202, answer.content
    return Job.objects.get(pk=answer.json()["id"])


def run(job: Job) -> None:
    lease = leases.claim(job.pk, "light@here")
    assert lease is not None
    run_attempt(lease)
    job.refresh_from_db()
    assert job.committed_version is not None, job.error_message


def test_a_post_of_a_delete_costs_little(orders, ada):
    client = Client()
    client.force_login(ada)
    check_costs("POST of a DELETE", lambda n: post_delete(client, orders, n))


def test_a_job_of_one_row_costs_little(orders, ada):
    client = Client()
    client.force_login(ada)
    check_costs("from POST to commit", lambda n: run(post_delete(client, orders, n)))


def test_a_conflict_page_costs_little(ada, lake):
    client = Client()
    client.force_login(ada)
    conflict = create_aborted_job(str(lake / "lake/lost"), ada, name="sales.lost")
    check_costs("a conflict page", lambda _: client.get(f"/conflicts/{conflict.pk}/"))
