"""The first read of a table by a light worker, after its registration by a request."""

import pytest

from lakeui.catalog.models import TableSync
from lakeui.catalog.registration import request_registration
from tests.lakeui.catalog.log_writer import new_table
from tests.services import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(120)]


def test_a_light_worker_reads_the_log_of_a_table_that_was_registered(start_worker, lake):
    start_worker("light")
    new_table(lake / "lake/orders")
    table = request_registration(str(lake / "lake/orders"), "sales.orders")
    wait_until(lambda: not TableSync.objects.exists(), "the first reading")
    table.refresh_from_db()
    assert (table.version, table.mirror_error_code) == (0, "")
