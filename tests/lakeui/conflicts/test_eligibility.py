"""Row-level concurrency of a mirrored table, and the effect of changing its settings."""

from datetime import timedelta

import pytest
from django.utils import timezone

from engine.commands.model import Command
from lakeui.catalog.models import Commit
from lakeui.conflicts.assessment import eligibility_of
from lakeui.conflicts.isolation.effect import (
    LEVEL,
    ROW_TRACKING,
    VECTORS,
    impact_of,
    impact_of_command,
)
from lakeui.jobs.models import Job
from tests.lakeui.people import make_conflict, make_job, make_table

pytestmark = pytest.mark.django_db
ELIGIBLE = {
    "min_reader_version": 3,
    "min_writer_version": 7,
    "reader_features": ["deletionVectors"],
    "writer_features": ["deletionVectors"],
    "properties": {VECTORS: "true"},
    "deletion_vectors": True,
    "row_level_eligible": True,
}
OLD = {"min_reader_version": 1, "min_writer_version": 2}


def test_an_eligible_table_needs_nothing():
    eligibility = eligibility_of(make_table(**ELIGIBLE))
    assert (eligibility.eligible, eligibility.obstacle) == (True, "")
    assert all(step.holds and step.job is None for step in eligibility.conditions)
    assert "delta-spark before 2.3" in eligibility.locked_out[0]


def test_a_fix_by_one_click_comes_with_its_job_and_its_cost():
    eligibility = eligibility_of(make_table(**OLD))
    assert eligibility.eligible is False
    broken = [step for step in eligibility.conditions if not step.holds]
    assert all("lose access" in step.cost for step in broken)
    for step in broken:
        assert Command.from_parameters(step.job["kind"], step.job["parameters"])


def test_a_fix_that_needs_a_rewrite_has_its_size_and_no_click():
    eligibility = eligibility_of(make_table(**ELIGIBLE, partition_columns=["date"]))
    [step] = [step for step in eligibility.conditions if not step.holds]
    assert (step.job, "is partitioned by date" in step.evidence) == (None, True)
    assert str(3 * 2**53) in step.cost


def test_a_table_that_was_never_read_is_not_judged():
    eligibility = eligibility_of(make_table(version=None, schema={}))
    assert (eligibility.eligible, eligibility.conditions) == (None, ())


@pytest.mark.parametrize(
    ("fields", "takes_part"),
    [
        (ELIGIBLE, [True, True, True, True, False, False]),
        (ELIGIBLE | {"clustering_columns": ["a"]}, [True, True, True, True, True, False]),
        (ELIGIBLE | {"partition_columns": ["a"]}, [False] * 6),
        (OLD, [False] * 6),
    ],
)
def test_each_runtime_is_described_as_published(fields, takes_part):
    runtimes = eligibility_of(make_table(**fields)).runtimes
    assert [runtime.takes_part for runtime in runtimes] == takes_part
    assert all(runtime.reason for runtime in runtimes)


def test_conflicts_that_rows_resolved_are_counted():
    table = make_table(**ELIGIBLE)
    make_conflict(table, kind="resolved", occurred_at=timezone.now())
    make_conflict(table, kind="resolved", occurred_at=timezone.now() - timedelta(days=99))
    make_conflict(table, kind="aborted", occurred_at=timezone.now())
    eligibility = eligibility_of(table)
    assert (eligibility.avoided, eligibility.avoided_lately) == (2, 1)


def test_requesting_the_present_state_changes_nothing():
    impact = impact_of(make_table(**ELIGIBLE), {VECTORS: "true"})
    assert (impact.changes, impact.aborted_jobs, impact.warnings) == ({}, (), ())


def test_running_writes_would_lose_and_waiting_ones_and_dry_runs_would_not():
    table = make_table(**OLD)
    running = make_job(table, state=Job.State.RUNNING)
    make_job(table, state=Job.State.QUEUED)
    make_job(table, state=Job.State.RUNNING, dry_run=True)
    impact = impact_of(table, {LEVEL: "Serializable"})
    assert [job.id for job in impact.aborted_jobs] == [str(running.pk)]


def test_an_upgrade_names_its_features_the_readers_it_locks_out_and_the_rest():
    impact = impact_of(make_table(**OLD), {VECTORS: "true", ROW_TRACKING: "true"})
    assert impact.new_features == ("deletionVectors", "domainMetadata", "rowTracking")
    assert impact.locked_out[0].startswith("readers and writers")
    assert impact.locked_out[1].startswith("writers")
    assert "DROP FEATURE" in impact.irreversible[0]


MAPPING, CLOCK = "delta.columnMapping.mode", "delta.enableInCommitTimestamps"


@pytest.mark.parametrize(
    ("properties", "feature", "locked_out"),
    [
        (
            {MAPPING: "name"},
            "columnMapping",
            "readers below version 2 and writers below version 5 of the protocol",
        ),
        (
            {"delta.enableChangeDataFeed": "true"},
            "changeDataFeed",
            "writers below version 4 of the protocol",
        ),
        ({CLOCK: "true"}, "inCommitTimestamp", "writers that do not support"),
        (
            {"delta.checkpointPolicy": "v2"},
            "v2Checkpoint",
            "readers and writers that do not support",
        ),
    ],
)
def test_any_property_that_needs_a_feature_upgrades_the_protocol(properties, feature, locked_out):
    impact = impact_of(make_table(**OLD), properties)
    assert impact.new_features == (feature,)
    [clients] = impact.locked_out
    assert clients.startswith(locked_out)
    assert any("DROP FEATURE" in text for text in impact.irreversible)


def test_column_mapping_is_said_to_be_irreversible():
    impact = impact_of(make_table(**OLD), {MAPPING: "name", LEVEL: "Serializable"})
    [statement] = impact.undone_by
    assert MAPPING not in statement
    mapped = make_table(
        "other", min_reader_version=2, min_writer_version=5, properties={MAPPING: "name"}
    )
    unset = impact_of_command(mapped, "unset_properties", {"keys": [MAPPING]})
    assert (unset.undone_by, unset.locked_out) == ((), ())
    assert "cannot disable" in unset.irreversible[0]


def test_serializable_is_said_to_add_conflicts():
    [_, warning] = impact_of(make_table(**OLD), {LEVEL: "Serializable"}).warnings
    assert "only adds conflicts" in warning


def test_streams_that_wrote_lately_are_named():
    table = make_table(**OLD)
    Commit.objects.filter(version=2).update(
        operation="STREAMING UPDATE", committed_at=timezone.now(), user_name="clicks"
    )
    [stream] = impact_of(table, {LEVEL: "Serializable"}).streams
    assert (stream.by, stream.reads) == ("clicks", False)


def test_the_way_back_to_the_former_settings_is_shown_as_statements():
    table = make_table(**ELIGIBLE | {"clustering_columns": ["a"]})
    impact = impact_of(table, {LEVEL: "Serializable", VECTORS: "false"}, clustering=("b",))
    assert impact.undone_by == (
        f"ALTER TABLE sales.orders SET TBLPROPERTIES ('{VECTORS}' = 'true')",
        f"ALTER TABLE sales.orders UNSET TBLPROPERTIES ('{LEVEL}')",
        "ALTER TABLE sales.orders CLUSTER BY (a)",
    )
