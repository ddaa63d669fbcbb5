"""A table is dropped and another one created in its place: records of the former do not show its versions."""

import shutil
from datetime import UTC, datetime, timedelta

import pytest

from lakeui.catalog.command_tables import Reader
from lakeui.catalog.mirror import refresh_table
from lakeui.catalog.registration import register_table
from lakeui.catalog.roles import Role
from lakeui.conflicts.conflict_detail.sides import both_sides
from lakeui.conflicts.filters import VersionFilter
from lakeui.conflicts.lanes.swim_lane import swim_lane
from lakeui.conflicts.replay.what_if import load_recorded_conflicts
from lakeui.conflicts.version_effects import (
    count_aborted_by_version,
    count_resolved_by_version,
    effects_of,
)
from lakeui.jobs.models import Job, JobAttempt
from lakeui.jobs.version_jobs import job_of_version, makers_of
from tests.lakeui.catalog.log_writer import FULL_INFO, add, append_commit, new_table
from tests.lakeui.factories import make_conflict, make_user
from tests.lakeui.page_client import PageClient

pytestmark = pytest.mark.django_db

FORMERLY = datetime(2026, 11, 1, tzinfo=UTC)
SINCE = FORMERLY + timedelta(days=7)


def write(place, at, table_id):
    """Write three versions, a minute apart."""
    shutil.rmtree(place, ignore_errors=True)
    for version in range(3):
        moment = int((at + timedelta(minutes=version)).timestamp() * 1000)
        info = {key: value for key, value in FULL_INFO.items() if key != "txnId"}
        info |= {"timestamp": moment, "engineInfo": table_id}
        if version == 0:
            new_table(place, table_id)
            text = (place / "_delta_log" / f"{0:020}.json").read_text()
            text = text.replace(str(FULL_INFO["timestamp"]), str(moment))
            (place / "_delta_log" / f"{0:020}.json").write_text(text)
        else:
            append_commit(place, version, [add(f"{table_id}-{version}.parquet")], info)


@pytest.fixture
def table(tmp_path, settings):
    settings.TABLE_ROOTS = [str(tmp_path)]
    write(tmp_path / "orders", FORMERLY, "first")
    return register_table(str(tmp_path / "orders"), "sales.orders")


@pytest.fixture
def job(table):
    """Return the job that made version 1."""
    ended = FORMERLY + timedelta(minutes=1, seconds=2)
    job = Job.objects.create(
        table=table, kind="append", state=Job.State.SUCCEEDED, committed_version=1,
        finished_at=ended,
    )  # fmt: skip
    JobAttempt.objects.create(
        job=job, number=1, started_at=FORMERLY, finished_at=ended,
        outcome=JobAttempt.Outcome.COMMITTED,
    )  # fmt: skip
    return job


@pytest.fixture
def conflicts(table, job):
    """Return a conflict with version 1 whose transaction is not recorded, and one that version 1 passed."""
    told = {"winning_version": 1, "read_version": 0, "winner_operation": "WRITE", "facts": {}}
    at = FORMERLY + timedelta(minutes=1, seconds=5)
    aborted = make_conflict(table, occurred_at=at, **told)
    make_conflict(table, kind="resolved", attempted_version=2, occurred_at=at, **told)
    return aborted


def describe_history(table, conflict):
    """Return the descriptions of version 1 and of the conflict's other side."""
    table.refresh_from_db()
    conflict.refresh_from_db()
    reader = make_user("reader", Role.VIEWER)
    effects = effects_of(table, 1)
    lane = swim_lane(table)
    winner = both_sides(conflict, Reader(reader)).winner
    client = PageClient()
    client.force_login(reader)
    history = client.get(f"/tables/{table.pk}/history/").content.decode()
    narrowed = VersionFilter({"beat": "true"}, table.commits.all()).qs
    return {
        "effects": (effects.aborted_count, effects.passed_count),
        "counts": (
            len(count_aborted_by_version(table, 0, 2)),
            len(count_resolved_by_version(table, 0, 2)),
        ),
        "job": job_of_version(Job.objects.all(), table, 1) is not None,
        "makers": len(makers_of(table, 0, 2)),
        "bars": sum(bar.conflict_id is not None for bar in lane.bars),
        "beat": narrowed.count(),
        "history": f'"/conflicts/{conflict.pk}/"' in history,
        "what if": len(load_recorded_conflicts(table, 0, 2).conflicts),
        "winner": (winner.job is not None, winner.engine),
    }


def test_records_are_shown_with_the_versions_they_are_about(table, job, conflicts):
    assert describe_history(table, conflicts) == {
        "effects": (1, 1), "counts": (1, 1), "job": True, "makers": 1, "bars": 1, "beat": 1, "history": True, "what if": 2,
        "winner": (True, "first"),
    }  # fmt: skip


def test_records_from_before_are_not_shown_for_another_table_in_the_place(
    tmp_path, table, job, conflicts
):
    write(tmp_path / "orders", SINCE, "second")
    refresh_table(table)
    assert describe_history(table, conflicts) == {
        "effects": (0, 0), "counts": (0, 0), "job": False, "makers": 0, "bars": 0, "beat": 0, "history": False, "what if": 0,
        "winner": (False, ""),
    }  # fmt: skip


def test_the_page_of_a_conflict_says_that_another_table_is_there(tmp_path, table, job, conflicts):
    client = PageClient()
    client.force_login(make_user("ann", Role.VIEWER))
    page = f"/conflicts/{conflicts.pk}/"
    words = "Another table has since replaced this table"
    assert words not in client.get(page).content.decode()
    write(tmp_path / "orders", SINCE, "second")
    refresh_table(table)
    assert words in client.get(page).content.decode()
