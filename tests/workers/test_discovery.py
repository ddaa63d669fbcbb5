"""Discovery: a light worker, as a separate process, searches for tables on a message."""

import pytest
from django.db import transaction

from lakeui.catalog.discovery import request_discovery
from lakeui.catalog.models import Discovery
from lakeui.task_names import LIGHT_QUEUE
from tests.lakeui.catalog.log_writer import new_table
from tests.services import wait_until

pytestmark = pytest.mark.timeout(180)


def test_a_light_worker_finds_the_tables_below_a_root(start_worker, lake):
    for place in ("sales/orders", "sales/returns", "crm"):
        new_table(lake / "lake" / place)
    start_worker(LIGHT_QUEUE)
    with transaction.atomic():
        made = request_discovery(str(lake / "lake"), "sales/*", "{name}", None)
    ended = Discovery.objects.filter(pk=made.pk, finished_at__isnull=False, is_complete=True)
    wait_until(ended.exists, "the search")
    assert list(made.tables.values_list("name", flat=True)) == ["orders", "returns"]
