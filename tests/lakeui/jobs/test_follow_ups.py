"""Follow-up jobs of a table after a write: owned by the system, named after the write, and run once."""

import pytest

from engine.commands.model import Optimize
from engine.operations.result import FollowUp, OperationResult
from lakeui.catalog.models import Table
from lakeui.jobs.models import Job
from lakeui.jobs.requests import request_job
from tests.lakeui.people import person
from workers.job_tables import asks_for_follow_ups, note_unasked

pytestmark = pytest.mark.django_db

COMPACTION = Optimize("d <=> 1", auto=True, min_files=50, target_size_bytes=128)


@pytest.fixture
def table(tmp_path, settings) -> Table:
    settings.TABLE_ROOTS = [str(tmp_path)]
    return Table.objects.create(name="sales.orders", uri=str(tmp_path / "orders"))


@pytest.fixture
def write(table) -> Job:
    return request_job(
        table=table, sql="INSERT INTO t VALUES (1)", requested_by=person("oda", "operator")
    )


def test_an_operators_write_has_the_table_compacted_by_a_job_of_the_system(write, table):
    assert asks_for_follow_ups(write, table)(COMPACTION) is None
    job = write.follow_ups.get()
    assert (job.kind, job.queue, job.requested_by) == ("optimize", "spark", None)
    assert job.statement == (
        "OPTIMIZE sales.orders WHERE d <=> 1"
        " WITH ('targetSizeBytes' = '128', 'auto' = 'true', 'minNumFiles' = '50')"
    )
    assert write.events.filter(data__follow_up=str(job.pk)).exists()


def test_one_waiting_follow_up_is_enough_but_a_running_one_is_not(write, table):
    ask = asks_for_follow_ups(write, table)
    ask(COMPACTION)
    ask(COMPACTION)
    assert write.follow_ups.count() == 1
    assert "already waits" in write.events.last().message
    ask(Optimize("d <=> 2", auto=True))
    assert write.follow_ups.count() == 2
    write.follow_ups.update(state=Job.State.RUNNING)
    ask(COMPACTION)
    assert write.follow_ups.count() == 3


def test_a_follow_up_that_could_not_be_requested_is_in_the_log_of_the_write(write):
    failed = FollowUp(COMPACTION, None, "LAKE_READ_ONLY", "Nothing may be written.")
    note_unasked(write, OperationResult(1, follow_up=failed))
    event = write.events.get(level="warning")
    assert event.message == "Small files were not compacted: Nothing may be written."
    assert event.data == {"error_code": "LAKE_READ_ONLY"}
