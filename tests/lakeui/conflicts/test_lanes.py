"""Swim-lanes: the label of each transaction, filters, links and sums."""

from dataclasses import asdict
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.utils import timezone

from engine.conflict_facts import Decision, SideChanges, SideReads
from lakeui.catalog.models import Commit, CommitFile
from lakeui.conflicts.lanes.bars import describe_resolution, did, engine_name, overlap_place, short
from lakeui.conflicts.lanes.narrowing import LaneFilter, filter_lane
from lakeui.conflicts.lanes.path import lane_path
from lakeui.conflicts.lanes.sums import OTHERS, lane_sums
from lakeui.conflicts.lanes.swim_lane import BUCKETS, DAY, navigator, other_settings, swim_lane
from lakeui.conflicts.models import Conflict
from lakeui.jobs.models import Job, JobAttempt
from tests.lakeui.conflicts.histories import replayable
from tests.lakeui.people import NOON, make_conflict, make_job, make_table

pytestmark = pytest.mark.django_db


@pytest.fixture
def table():
    return make_table()


def commit(table, version, **fields):
    at = NOON + timedelta(hours=version)
    given = {"operation": "WRITE", "user_name": "etl", "committed_at": at} | fields
    return Commit.objects.create(table=table, version=version, **given)


def bar(lane, key):
    return next(shown for shown in lane.all if shown.key == key)


@pytest.mark.parametrize(
    ("level", "exempt"), [("WriteSerializable", 1), ("SnapshotIsolation", 1), ("Serializable", 0)]
)
def test_overlapping_blind_appends_are_exempt_below_serializable(table, level, exempt):
    Commit.objects.filter(version=1).update(is_blind_append=True)
    Commit.objects.filter(version=2).update(read_version=0, isolation_level=level)
    drawn = bar(swim_lane(table), "v2")
    assert (drawn.overlap_count, drawn.exempt) == (1, exempt)


def test_an_aborted_write_overlapped_with_its_winning_commit(table):
    lost = make_conflict(table, read_version=0, winning_version=2)
    assert bar(swim_lane(table), f"c-{lost.pk}").overlap_count == 2


def test_an_unrecorded_engine_is_not_shown_as_null(table):
    make_conflict(table, read_version=0, winning_version=2, facts={"current": {"engine": None}})
    assert "null" not in {shown.engine for shown in swim_lane(table).all}


def test_overlaps_are_not_guessed_where_they_are_not_mirrored(table):
    Commit.objects.filter(version=2).update(read_version=0)
    Commit.objects.filter(version=1).delete()
    assert (bar(swim_lane(table), "v2").overlap_count, bar(swim_lane(table), "v2").exempt) == (
        1,
        None,
    )
    assert bar(swim_lane(table), "v0").overlap_count is None


def test_a_running_attempt_forecasts_its_outcome(table, django_user_model):
    etl = django_user_model.objects.create_user("etl-nightly")
    job = make_job(table, etl, kind="merge", state="running", progress_done=1, progress_total=4)
    job.attempt_rows.all().delete()
    JobAttempt.objects.create(job=job, number=2, started_at=NOON, read_version=1)
    [running] = swim_lane(table).running
    assert (running.lane, running.operation, running.percent) == ("etl-nightly", "MERGE", 25)
    assert running.ending == "1 version to check when it commits"
    Commit.objects.filter(version=2).update(is_blind_append=True)
    assert swim_lane(table).running[0].ending == "if it committed now: v3, nothing to resolve"
    assert swim_lane(table, 0, 1).running == ()


def test_the_filter_narrows_and_still_counts_the_other_outcomes(table):
    make_conflict(table, current_user_name="fixer", read_version=0)
    whole = swim_lane(table)
    only, counts = filter_lane(table, whole, LaneFilter(outcome="aborted"))
    assert [shown.lane for shown in only.all] == ["fixer"]
    assert (counts.all, counts.committed, counts.aborted) == (4, 3, 1)
    only, counts = filter_lane(table, whole, LaneFilter(writer="etl", operation="WRITE"))
    assert [shown.version for shown in only.bars] == [1]
    assert (counts.all, counts.aborted) == (1, 0)


def test_resolved_are_the_overlaps_that_a_committed_version_passed(table):
    job = make_job(table, committed_version=2, state=Job.State.SUCCEEDED)
    make_conflict(table, job, kind="resolved", winning_version=1, row_count=7,
                  facts={"how": "row map"})  # fmt: skip
    only, counts = filter_lane(table, swim_lane(table), LaneFilter(outcome="resolved"))
    assert [(shown.version, shown.resolved) for shown in only.bars] == [(2, (1,))]
    assert counts.resolved == 1
    assert only.bars[0].ending == "v1: row map, 7 rows"
    [step] = [s for s in lane_path(table, swim_lane(table), "v2").steps if s.version == 1] or [None]
    assert step is None  # what it read is not recorded


def test_a_partition_holds_versions_by_their_files_and_losers_by_their_conflict(table):
    table.partition_columns = ["day"]
    physical = {"delta.columnMapping.physicalName": "col-1"}
    files = CommitFile.objects
    files.filter(commit__version=1).update(partition_values={"col-1": "2026-11-02"})
    files.filter(commit__version=2).update(partition_values={"col-1": None})
    table.schema = {"fields": [{"name": "day", "metadata": physical}]}
    lost = make_conflict(table, partitions=["day=2026-11-02"])
    make_conflict(table, partitions=["day=2026-11-09"])
    whole = swim_lane(table)

    def keys(partition):
        return {
            shown.key for shown in filter_lane(table, whole, LaneFilter(partition=partition))[0].all
        }

    assert keys("day=2026-11-02") == {"v1", f"c-{lost.pk}"}
    assert keys("day=null") == {"v2"}
    assert keys("other=1") == set()


def test_the_strip_is_a_day_where_that_contains_the_selection(table):
    now = NOON + timedelta(hours=3)
    Commit.objects.filter(version=0).update(committed_at=NOON - timedelta(days=2))
    make_conflict(table, occurred_at=NOON + timedelta(hours=2, minutes=1))
    strip = navigator(table, NOON, now)
    assert strip.is_day
    assert strip.end - strip.start == DAY
    assert [(passage.first, passage.commits) for passage in strip.passages] == [(1, 1), (2, 1)]
    assert [passage.aborted for passage in strip.passages] == [0, 1]


def test_the_strip_of_a_table_younger_than_a_day_begins_with_its_first_version(table):
    strip = navigator(table, NOON, NOON + timedelta(hours=3))
    assert (strip.start, strip.end) == (NOON, NOON + timedelta(hours=3))
    assert [passage.first for passage in strip.passages] == [0, 1, 2]


def test_the_strip_is_the_whole_record_where_it_is_older(table):
    strip = navigator(table, NOON, NOON + timedelta(days=9))
    assert not strip.is_day
    assert (strip.start, strip.end) == (NOON, NOON + timedelta(hours=2))
    assert strip.passages[-1].start == strip.start + (BUCKETS - 1) * strip.width
    Commit.objects.update(committed_at=None)
    assert navigator(table, None, NOON) is None


def test_other_settings_count_the_writes_that_would_lose(table):
    replayable(table)
    level, rows = other_settings(table, swim_lane(table))
    assert (level.name, level.aborted, level.spared) == ("Serializable", 1, 0)
    assert (rows.name, rows.row_level, rows.aborted) == ("Row level", True, 0)
    Commit.objects.filter(version=1).update(raw_bytes=10**6)
    level, _ = other_settings(table, swim_lane(table))
    assert (level.aborted, level.undecidable, level.not_replayed) == (0, 1, 1)


def test_the_bar_of_a_loser_ends_with_its_winner_and_later_commits(table):
    Commit.objects.filter(version=1).update(is_blind_append=True)
    job = make_job(table, state=Job.State.SUCCEEDED, committed_version=3, attempts=2)
    lost = make_conflict(table, job, read_version=0, rule="data_added", row_count=17)
    after = NOON + timedelta(hours=5)
    JobAttempt.objects.create(
        job=job, number=2, started_at=NOON, finished_at=after, outcome="committed"
    )
    path = lane_path(table, swim_lane(table), f"c-{lost.pk}")
    assert [(s.version, s.verdict, s.why) for s in path.steps] == [
        (1, "exempt", "blind append, exempt"),
        (2, "conflict", "DELETE, 17 new rows match"),
    ]
    assert (path.after.version, path.after.number, path.after.finished_at) == (3, 2, after)
    assert lane_path(table, swim_lane(table), "c-999999") is None


def test_a_recorded_verdict_is_shown_before_a_guess(table):
    decision = asdict(Decision(SideReads(), SideChanges(), SideChanges()))
    verdicts = {"data_added": "resolved"}
    decision["winners"] = [{"version": 1, "operation": "OPTIMIZE", "verdicts": verdicts}]
    lost = make_conflict(table, read_version=0, facts={"decision": decision})
    steps = lane_path(table, swim_lane(table), f"c-{lost.pk}").steps
    assert (steps[0].verdict, steps[0].why) == ("resolved", "WRITE, resolved")


def test_sums_are_of_the_requested_writer(table):
    for version in range(3, 60):
        commit(table, version, user_name=f"w{version % 25}")
    table.version = 59
    make_conflict(table, winning_version=40, current_user_name="w3", wasted_ms=9)
    sums = lane_sums(table, 0, 59)
    assert sums.lanes[-1].name == OTHERS
    assert (sums.all.commits, sums.all.aborted, sums.wasted_ms) == (60, 1, 9)
    assert sums.all.buckets[0].began_at == NOON
    [one] = lane_sums(table, 0, 59, only=LaneFilter(writer="w3")).lanes
    assert (one.name, one.commits, one.aborted, one.operation) == ("w3", 3, 1, "WRITE")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"operation": "DELETE", "operation_metrics": {"numDeletedRows": "1871"}}, "1,871 rows"),
        ({"operation": "UPDATE", "operation_metrics": {"numUpdatedRows": "812906"}}, "813 k rows"),
        ({"operation": "OPTIMIZE", "files_added": 12, "files_removed": 118}, "118 → 12 files"),
        ({"operation": "DELETE", "files_added": 1, "files_removed": 1}, ""),
        (
            {
                "operation": "SET TBLPROPERTIES",
                "operation_parameters": {
                    "properties": '{"delta.deletedFileRetentionDuration":"interval 14 days"}'
                },
            },
            "retention 7 → 14 days",
        ),
        ({"operation": "SET TBLPROPERTIES", "operation_parameters": {"properties": "{"}}, ""),
    ],
)
def test_a_bar_shows_only_recorded_facts(fields, said):
    before = {"delta.deletedFileRetentionDuration": "interval 7 days"}
    assert did(Commit(**fields), before) == said


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        ("lakeui/0.2", "this engine"),
        ("Apache-Spark/4.0.1 Delta-Lake/4.0.0", "delta-spark 4.0"),
        ("delta-rs:py-1.6.0", "delta-rs 1.6"),
        ("Databricks-Runtime/16.4.x-scala2.12", "Databricks 16.4"),
        ("trino-468", "trino-468"),
    ],
)
def test_engines_are_called_as_people_call_them(engine, name):
    assert engine_name(engine) == name


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"rule": "metadata_changed"}, "metadata changed"),
        ({"rule": "data_added", "row_count": 1}, "1 new row matches"),
        ({"rule": "read_file_removed", "row_count": 3, "file_count": 1}, "3 rows in 1 file"),
        ({"rule": "data_added", "file_count": 2}, "2 new files"),
        ({"rule": "domain_written"}, ""),
    ],
)
def test_the_overlap_of_two_writes_is_described_in_few_words(fields, words):
    given = {"row_count": None, "file_count": 0} | fields
    assert overlap_place(Conflict(**given)) == words


def test_a_resolution_names_its_rows_once():
    conflict = SimpleNamespace(row_count=2377, winning_version=4)
    assert (
        describe_resolution(conflict, "2,377 deleted rows carried over")
        == "v4: 2,377 deleted rows carried over"
    )
    assert describe_resolution(conflict, "row map") == "v4: row map, 2,377 rows"


@pytest.mark.parametrize(
    ("number", "words"), [(9_999, "9,999"), (47_065, "47 k"), (1_180_400, "1.18 M")]
)
def test_counts_of_rows_are_shortened_beside_a_bar(number, words):
    assert short(number) == words


def test_a_strip_ends_now(table):
    now = timezone.now()
    Commit.objects.filter(version=2).update(committed_at=now - timedelta(minutes=1))
    assert navigator(table, now - timedelta(minutes=1), now).end == now
