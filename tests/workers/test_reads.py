"""Reads for pages: ended by their time, memory or cancellation, without delaying other users."""

import shutil
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from celery.exceptions import TimeLimitExceeded, WorkerLostError
from django.db import DatabaseError
from django.urls import reverse
from django.utils import timezone

from engine.schema.types import STRING, StructField, StructType
from engine.storage.uri import open_store
from lakeui.catalog.models import Preview, RowRead, Table
from lakeui.catalog.previews import ask_for_preview
from lakeui.catalog.reads import TooManyReadsError, cancel_read, live_reads, note_read
from lakeui.catalog.roles import Role
from lakeui.celery import app
from lakeui.jobs.errors import TooManyJobsError
from lakeui.jobs.job_rows import send_overdue
from lakeui.jobs.models import Job
from lakeui.jobs.requests import request_job
from lakeui.monitoring.worker_state import worker_states
from lakeui.task_names import PREVIEW_TABLE
from tests.engine.made_tables import write_commit, write_first, write_rows
from tests.lakeui.factories import make_table, make_user
from tests.lakeui.page_client import PageClient
from tests.services import wait_until
from workers.preview import preview_table
from workers.reads import answer_for_ended_process

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(180)]

ENDLESS = " AND ".join(f"s LIKE '%a%{letter}%b%c%d%'" for letter in "efghijklmnopqrstuvwxyz")


@pytest.fixture(scope="module")
def long_files(tmp_path_factory) -> Path:
    """Return a table of one small file with so many rows that a condition over it takes minutes."""
    place = tmp_path_factory.mktemp("long") / "table"
    store = open_store(str(place))
    write_first(store, StructType((StructField("s", STRING),)))
    rows = pa.table({"s": pa.array(["abcd" * 200]).take(pa.array([0] * 2_000_000))})
    write_commit(store, 1, write_rows(store, "a.parquet", rows))
    return place


@pytest.fixture
def long_table(lake, long_files) -> Table:
    shutil.copytree(long_files, lake / "lake/long")
    return Table.objects.create(name="sales.long", uri=str(lake / "lake/long"), version=1)


@pytest.mark.django_db(transaction=True)
def test_a_read_beyond_its_time_is_ended_and_the_next_one_answered(
    start_worker, long_table, settings
):
    settings.READ_SECONDS = 4
    start_worker("reads")
    endless = ask_for_preview(long_table, 1, ENDLESS, by=make_user("ada", Role.VIEWER))
    wait_until(lambda: Preview.objects.get(pk=endless.pk).read_at is not None, "its end")
    endless.refresh_from_db()
    assert (endless.error_code, endless.rows) == ("LAKE_READ_STOPPED", [])
    assert "limit of 4 s" in endless.error_message
    short = ask_for_preview(long_table, 1)
    wait_until(lambda: Preview.objects.get(pk=short.pk).read_at is not None, "the rows")
    assert len(Preview.objects.get(pk=short.pk).rows) == 100
    wait_until(lambda: not RowRead.objects.exists(), "its place to be free")


@pytest.mark.django_db(transaction=True)
def test_a_read_that_takes_too_much_memory_says_so(start_worker, long_table, settings):
    settings.READ_BYTES = 700 * 1024**2
    start_worker("reads")
    asked = ask_for_preview(long_table, 1, older_version=0)
    wait_until(lambda: Preview.objects.get(pk=asked.pk).read_at is not None, "its end")
    asked.refresh_from_db()
    assert asked.error_code == "LAKE_READ_STOPPED"
    assert "700 MiB of memory" in asked.error_message


@pytest.mark.django_db(transaction=True)
def test_a_process_without_memory_leaves_the_worker_and_its_other_processes_alive(
    start_worker, long_table
):
    worker = start_worker("reads", include="tests.workers.greedy_task")
    app.send_task("tests.need_memory", queue="reads")
    wait_until(lambda: "ReadStoppedError" in worker.log.read_text(), "the end of the task")
    asked = ask_for_preview(long_table, 1)
    wait_until(lambda: Preview.objects.get(pk=asked.pk).read_at is not None, "the rows")
    assert worker.is_running()


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_starts_later_does_not_answer_a_cancelled_read(start_worker, long_table):
    cancelled = ask_for_preview(long_table, 1)
    cancel_read(RowRead.objects.get())
    start_worker("reads")
    for where in ("s = 'a'", "s = 'b'", "s = 'c'"):  # two processes, so the first has ended
        later = ask_for_preview(long_table, 1, where)
        wait_until(lambda: Preview.objects.get(pk=later.pk).read_at is not None, "the rows")  # noqa: B023
    cancelled.refresh_from_db()
    assert (cancelled.error_code, cancelled.rows) == ("LAKE_READ_CANCELLED", [])


@pytest.mark.django_db(transaction=True)
def test_a_read_that_no_worker_took_is_answered_and_frees_its_place(broker, long_table, settings):
    settings.READS_PER_PERSON = 1
    ada = make_user("ada", Role.VIEWER)
    lost = ask_for_preview(long_table, 1, by=ada)
    late = timezone.now() - timedelta(seconds=31)
    RowRead.objects.update(asked_at=late)
    Preview.objects.update(asked_at=late)
    assert not live_reads().exists()
    ask_for_preview(long_table, 1, "s = 'a'", by=ada)
    lost.refresh_from_db()
    assert lost.error_code == "LAKE_READ_LOST"
    assert [read.answer.where for read in RowRead.objects.all()] == ["s = 'a'"]


@pytest.mark.django_db(transaction=True)
def test_a_worker_answers_a_read_that_expired_before_it_arrived(start_worker, long_table):
    now = timezone.now()
    asked = Preview.objects.create(table=long_table, version=1, asked_at=now)
    read = note_read(asked, now, long_table, "rows of v1", None)
    app.send_task(PREVIEW_TABLE, [asked.pk], task_id=str(read.pk), queue="reads", expires=-1)
    start_worker("reads")
    wait_until(lambda: Preview.objects.get(pk=asked.pk).error_code == "LAKE_READ_LOST", "its end")
    assert not RowRead.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_read_under_way_is_named_on_monitoring_and_cancelled_there(
    start_worker, long_table, settings
):
    settings.READ_SECONDS = 300
    start_worker("reads")
    ada, ben = make_user("ada", Role.VIEWER), make_user("ben", Role.VIEWER)
    asked = ask_for_preview(long_table, 1, ENDLESS, by=ada)
    wait_until(RowRead.objects.filter(began_at__isnull=False).exists, "a worker")
    wait_until(lambda: [state.busy for state in worker_states(ada)] == [1], "its report")
    read = RowRead.objects.get()
    others, own = PageClient(), PageClient()
    others.force_login(ben)
    own.force_login(ada)
    assert "rows of v1" in others.get(reverse("monitoring")).content.decode()
    assert others.post(reverse("cancel-read", args=[read.pk])).status_code == 403
    assert own.post(reverse("cancel-read", args=[read.pk])).status_code == 302
    asked.refresh_from_db()
    assert asked.error_code == "LAKE_READ_CANCELLED"
    assert not RowRead.objects.exists()
    next_one = ask_for_preview(long_table, 1, by=ada)
    wait_until(lambda: Preview.objects.get(pk=next_one.pk).read_at is not None, "the rows")


def test_a_person_may_have_few_concurrent_reads_and_others_keep_theirs(
    broker, long_table, settings
):
    settings.READS_PER_PERSON = 2
    ada, ben = make_user("ada", Role.VIEWER), make_user("ben", Role.VIEWER)
    for where in ("s = 'a'", "s = 'b'"):
        ask_for_preview(long_table, 1, where, by=ada)
    with pytest.raises(TooManyReadsError, match="already have 2 reads"):
        ask_for_preview(long_table, 1, "s = 'c'", by=ada)
    assert not Preview.objects.filter(where="s = 'c'").exists()
    ask_for_preview(long_table, 1, "s = 'a'", by=ada)  # the same again is the same read
    ask_for_preview(long_table, 1, "s = 'c'", by=ben)
    page, api = PageClient(), PageClient()
    page.force_login(ada)
    answer = page.post(
        reverse("table-preview", args=[long_table.pk]),
        {"where": "s = 'd'", "ask": "rows"},
        follow=True,
    )
    assert "already have 2 reads in progress" in answer.content.decode()
    api.force_login(ada)
    url = f"/api/v1/tables/{long_table.pk}/preview/?where=s%20%3D%20'd'"
    refused = api.post(url, content_type="application/json")
    assert (refused.status_code, refused.json()["code"]) == (429, "LAKE_TOO_MANY_READS")


def test_a_person_has_few_dry_runs_and_a_bounded_number_of_jobs_at_once(
    broker, long_table, settings
):
    settings.DRY_RUNS_PER_PERSON, settings.JOBS_PER_PERSON = 1, 2
    ada, ben = make_user("ada", Role.OPERATOR), make_user("ben", Role.OPERATOR)
    dry = "DELETE FROM sales.long WHERE s = 'a' DRY RUN"
    job = request_job(table=long_table, sql=dry, requested_by=ada)
    assert (job.queue, job.time_limit_s) == ("reads", settings.DRY_RUN_SECONDS)
    with pytest.raises(TooManyJobsError, match="1 unfinished dry run,"):
        request_job(table=long_table, sql=dry, requested_by=ada)
    request_job(table=long_table, sql="DELETE FROM sales.long WHERE s = 'a'", requested_by=ada)
    with pytest.raises(TooManyJobsError, match="2 unfinished jobs,"):
        request_job(table=long_table, sql="DELETE FROM sales.long WHERE s = 'b'", requested_by=ada)
    request_job(table=long_table, sql=dry, requested_by=ben)


@pytest.mark.django_db(transaction=True)
def test_only_a_process_that_was_ended_answers_by_a_limit(broker):
    table = make_table()
    for ended, code in (
        (TimeLimitExceeded(30), "LAKE_READ_STOPPED"),
        (WorkerLostError("signal 9"), "LAKE_READ_STOPPED"),
        (DatabaseError("the server closed the connection"), ""),
    ):
        preview = ask_for_preview(table, 1, f"s = '{code}{type(ended).__name__}'")
        read = RowRead.objects.get(object_id=preview.pk)
        answer_for_ended_process(
            sender=preview_table, task_id=str(read.pk), exception=ended, args=[preview.pk]
        )
        preview.refresh_from_db()
        assert (preview.error_code, preview.read_at is None) == (code, not code)


@pytest.mark.django_db(transaction=True)
def test_dry_runs_leave_a_process_free_and_are_killed_with_theirs_if_they_ignore_the_limit(
    start_worker, long_table, settings
):
    settings.DRY_RUN_SECONDS = 2
    start_worker("reads")  # of two processes
    first, second = (
        request_job(
            table=long_table,
            kind="delete",
            parameters={"where": ENDLESS},
            dry_run=True,
            requested_by=make_user(name, Role.OPERATOR),
        )
        for name in ("ada", "ben")
    )

    def have_ended() -> bool:
        send_overdue()  # as the sweeper does
        return not Job.objects.filter(state__in=Job.ACTIVE).exists()

    wait_until(have_ended, "their ends", seconds=120)
    for job in (first, second):
        job.refresh_from_db()
        assert (job.state, job.error_code) == (Job.State.FAILED, "LAKE_TIME_LIMIT")
    earlier, later = sorted((first, second), key=lambda job: job.started_at)
    assert later.started_at >= earlier.finished_at, "the other process was free"
