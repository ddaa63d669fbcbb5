"""What one request costs: how often its condition is parsed, the log listed, the database asked."""

import sys
from collections import Counter
from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from engine.expressions import parse
from engine.expressions.queries import tables
from engine.log import segment
from tests.workers.test_request_files import post_delete, run

pytestmark = pytest.mark.django_db(transaction=True)
COUNTED = {
    parse.parse_condition.__code__: "conditions parsed",
    tables.tables_in_condition.__wrapped__.__code__: "conditions searched for tables",
    segment.list_log_files.__code__: "listings of the log",
}


def count_costs(act: Callable[[], object]) -> Counter[str]:
    """Count calls of what is in COUNTED, and queries, while something is done."""
    costs: Counter[str] = Counter()

    def note(frame, event, _argument):
        if event == "call" and frame.f_code in COUNTED:
            costs[COUNTED[frame.f_code]] += 1

    tables.tables_in_condition.cache_clear()
    with CaptureQueriesContext(connection) as queries:
        sys.setprofile(note)
        try:
            act()
        finally:
            sys.setprofile(None)
    costs["queries"] = len(queries)
    return costs


def test_a_job_of_one_row_parses_its_condition_twice_and_lists_the_log_twice(orders, ada):
    """Once by the latest schema before it runs, once with the time and the tables of its run."""
    client = Client()
    client.force_login(ada)
    run(post_delete(client, orders))
    job = post_delete(client, orders)
    costs = count_costs(lambda: run(job))
    assert costs["conditions parsed"] == 2
    assert costs["conditions searched for tables"] == 1
    assert costs["listings of the log"] == 2
    assert costs["queries"] <= 32


def test_a_request_of_a_job_reads_its_condition_once_and_forecasts_with_it(orders, ada):
    client = Client()
    client.force_login(ada)
    post_delete(client, orders)
    costs = count_costs(lambda: post_delete(client, orders))
    assert costs["conditions searched for tables"] == 1
    assert costs["queries"] <= 32
