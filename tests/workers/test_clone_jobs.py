"""Clone jobs: a light worker clones a table, and a page shows the clone's rows."""

import shutil

import pyarrow as pa
import pytest

from engine.schema.types import LONG, StructField, StructType
from engine.storage.uri import open_store
from engine.table import DeltaTable
from lakeui.catalog.models import Table
from lakeui.catalog.previews import ask_for_preview
from lakeui.jobs import leases
from lakeui.jobs.models import Job
from lakeui.jobs.requests import request_create
from tests.engine.made_tables import write_commit, write_first, write_rows
from tests.services import wait_until
from workers.job_run import run_attempt
from workers.preview import preview_table

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(180)]


@pytest.fixture
def orders(lake):
    """Return a registered table of one file with three rows."""
    store = open_store(str(lake / "lake/orders"))
    write_first(store, StructType((StructField("n", LONG),)))
    rows = pa.table({"n": pa.array([1, 2, 3], pa.int64())})
    write_commit(store, 1, write_rows(store, "a.parquet", rows))
    return Table.objects.create(name="sales.orders", uri=store.root, version=1)


@pytest.mark.usefixtures("orders")
def test_a_clone_is_made_by_a_light_worker_and_its_rows_are_shown(start_worker):
    start_worker("light")
    job = request_create(
        name="sales.copy",
        kind="clone",
        parameters={"source_table": "sales.orders"},
        requested_by=None,
    )
    wait_until(lambda: Job.objects.get(pk=job.pk).state not in Job.ACTIVE, "the clone")
    job.refresh_from_db()
    assert (job.state, job.error_message) == (Job.State.SUCCEEDED, "")
    clone = Table.objects.get(name="sales.copy")
    assert (clone.version, clone.row_count, clone.last_operation) == (0, 3, "CLONE")
    preview = ask_for_preview(clone, 0)
    preview_table(preview.pk)
    preview.refresh_from_db()
    assert (preview.error_message, preview.rows) == ("", [["1"], ["2"], ["3"]])


def test_a_deep_clone_counts_its_copied_files_and_outlives_its_source(orders):
    job = request_create(
        name="sales.copy",
        kind="clone",
        parameters={"source_table": "sales.orders", "deep": True},
        requested_by=None,
    )
    lease = leases.claim(job.pk, "spark@here")
    run_attempt(lease)
    job.refresh_from_db()
    assert (job.state, job.error_message, job.queue) == (Job.State.SUCCEEDED, "", "spark")
    assert job.metrics["numCopiedFiles"] == 1
    steps = {stage.name: stage for stage in job.attempt_rows.get().stages.all()}
    assert (steps["copy files"].done, steps["copy files"].unit) == (1, "files")
    assert steps["copy files"].found == "1 of 1 files were left to copy"
    shutil.rmtree(orders.uri)
    assert DeltaTable.open(job.table.uri).snapshot().to_arrow()["n"].to_pylist() == [1, 2, 3]
