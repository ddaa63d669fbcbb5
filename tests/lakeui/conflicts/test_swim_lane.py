"""The swim-lane: known times, estimated times, and no invented ones."""

from datetime import timedelta

import pytest

from lakeui.catalog.models import Commit
from lakeui.conflicts.isolation.pairs import list_observed_pairs
from lakeui.conflicts.lanes.swim_lane import MAX_VERSIONS, LaneSwap, swim_lane
from lakeui.jobs.models import Job, JobAttempt
from tests.lakeui.conflicts.histories import replayable
from tests.lakeui.people import NOON, make_conflict, make_job, make_table

pytestmark = pytest.mark.django_db


def commit(table, version, **fields):
    values = {"operation": "WRITE", "committed_at": NOON + timedelta(hours=version)}
    return Commit.objects.create(table=table, version=version, **(values | fields))


@pytest.fixture
def table():
    return make_table()


def bar_of(lane, version):
    return next(bar for bar in lane.bars if bar.version == version)


def test_a_start_that_no_log_records_is_the_read_versions_commit_and_estimated(table):
    Commit.objects.filter(version=2).update(read_version=0)
    bar = bar_of(swim_lane(table), 2)
    assert (bar.started_at, bar.started_is_estimated) == (NOON, True)
    assert bar.finished_at == NOON + timedelta(hours=2)


def test_without_a_read_version_a_bar_has_no_length(table):
    bar = bar_of(swim_lane(table), 2)
    assert bar.read_version is None
    assert bar.started_at == bar.finished_at


def test_a_start_that_a_job_of_ours_knows_is_exact(table):
    job = make_job(table, state=Job.State.SUCCEEDED, committed_version=2)
    began = NOON + timedelta(minutes=90)
    JobAttempt.objects.create(job=job, number=2, started_at=began, outcome="committed")
    bar = bar_of(swim_lane(table), 2)
    assert (bar.started_at, bar.started_is_estimated, bar.job_id) == (began, False, str(job.pk))


def test_losers_point_at_their_winner_and_resolved_ones_are_joints(table):
    job = make_job(table, committed_version=2)
    lost = make_conflict(table, job, occurred_at=NOON + timedelta(hours=3), read_version=1)
    joint = make_conflict(table, job, kind="resolved", rule="data_added")
    lane = swim_lane(table)
    [loser] = [bar for bar in lane.bars if bar.outcome == "aborted"]
    assert (loser.conflict_id, loser.winning_version, loser.version) == (lost.pk, 2, None)
    assert [(drawn.conflict_id, drawn.version) for drawn in lane.joints] == [(joint.pk, 2)]


def test_bars_come_in_the_order_in_which_they_ended(table):
    make_conflict(table, occurred_at=NOON + timedelta(minutes=90))
    assert [bar.version for bar in swim_lane(table).bars] == [0, 1, None, 2]


def test_a_range_is_limited_to_existing_versions_and_to_the_cap(table):
    assert (swim_lane(table, 1, 1).first, swim_lane(table, 1, 1).last) == (1, 1)
    assert swim_lane(table, 5, 9).bars == ()
    table.version = 10_000
    assert swim_lane(table, 0, 10**9).first == 10_000 - MAX_VERSIONS + 1
    table.version = None
    assert swim_lane(table).last == 0


def test_an_append_that_a_later_write_should_have_read_is_reported(table):
    replayable(table)
    assert swim_lane(table).reordered == (LaneSwap(1, 2),)


def test_a_lane_costs_the_same_however_long(table, django_assert_num_queries):
    for version in range(3, 40):
        commit(table, version, read_version=version - 2)
        make_conflict(table, make_job(table), winning_version=version)
    table.version = 39
    with django_assert_num_queries(10):
        swim_lane(table)


def test_pairs_are_counted_by_how_they_ended_with_their_cost(table):
    for kind in ("aborted", "aborted", "resolved", "reported"):
        last = make_conflict(table, kind=kind, wasted_ms=10, occurred_at=NOON)
    make_conflict(make_table("other"))
    [pair] = list_observed_pairs(table, days=36_500)
    assert (pair.current_operation, pair.winner_operation) == ("UPDATE", "DELETE")
    assert (pair.aborted, pair.resolved, pair.reported) == (2, 1, 1)
    assert (pair.wasted_ms, pair.example_id) == (40, last.pk)


def test_pairs_of_long_ago_are_left_out(table):
    make_conflict(table, occurred_at=NOON - timedelta(days=4000))
    assert list_observed_pairs(table) == ()
