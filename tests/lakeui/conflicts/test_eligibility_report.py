"""Losses for lack of row-level concurrency, remedies and their costs, from the record."""

from datetime import timedelta

import pytest
from django.utils import timezone

from engine.commands.sql import parse_statement
from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.eligibility.report import eligibility_report
from lakeui.conflicts.eligibility.row_verdicts import row_verdicts
from lakeui.jobs.earlier_runs import throughput_of
from lakeui.jobs.models import Job, JobAttempt
from tests.lakeui.factories import make_commit, make_conflict, make_job, make_table

pytestmark = pytest.mark.django_db
OLD = {
    "partition_columns": ["order_date"], "clustering_columns": [], "properties": {}, "version": 9,
    "reader_features": [], "writer_features": [], "min_reader_version": 1, "min_writer_version": 4,
    "deletion_vectors": False, "row_tracking": False, "row_level_eligible": False,
}  # fmt: skip
FILES = {"row_count": None, "subclass": "WITHOUT_HINT", "rule": "read_file_removed"}
DAY_19 = "order_date = DATE '2026-11-19'"


@pytest.fixture
def table():
    return make_table(**OLD)


def verdict(table, winner="DELETE", theirs="order_date = '2026-11-18'", **loss):
    """Return the report's verdict on one loss to version 5."""
    parameters, engine = loss.pop("winner_parameters", {}), loss.pop("engine", "lakeui/1.4")
    make_commit(
        table, 5, winner, predicate=theirs, operation_parameters=parameters, engine_info=engine
    )
    fields = FILES | {"current_predicate": DAY_19, "current_operation": "UPDATE"} | loss
    make_conflict(table, winning_version=5, winner_operation=winner, **fields)
    [judged] = row_verdicts(table).conflicts
    return str(judged.verdict)


@pytest.mark.parametrize(
    ("expected", "loss"),
    [
        ("passes", {}),
        ("passes", {"winner": "OPTIMIZE", "theirs": ""}),
        ("passes", {"rule": "", "exception": "ConcurrentDeleteReadException"}),
        ("conflict", {"rule": "metadata_changed"}),
        ("conflict", {"rule": "", "exception": "ProtocolChangedException"}),
        ("conflict", {"subclass": "ROW_LEVEL_CHANGES"}),
        ("conflict", {"row_count": 3}),
        ("conflict", {"subclass": "WHOLE_TABLE_READ"}),
        ("conflict", {"current_predicate": "order_id IN (SELECT 1)"}),
        ("conflict", {"current_predicate": "size(lines) > 1"}),
        ("undecidable", {"theirs": "order_date = '2026-11-19'"}),
        ("undecidable", {"theirs": ""}),
        ("undecidable", {"current_predicate": ""}),
        ("undecidable", {"winner": "UPDATE"}),
        ("undecidable", {"winner": "MERGE"}),
        ("undecidable", {"current_operation": "MERGE"}),
        ("undecidable", {"current_operation": "OPTIMIZE", "current_predicate": ""}),
        ("undecidable", {"winner": "OPTIMIZE", "theirs": "", "engine": "Delta-Lake/3.2.0"}),
        ("undecidable", {"winner": "OPTIMIZE", "theirs": "",
                         "winner_parameters": {"zOrderBy": '["order_id"]'}}),
    ],
)  # fmt: skip
def test_rows_are_said_to_decide_only_where_the_record_proves_it(table, expected, loss):
    assert verdict(table, **loss) == expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [("OPTIMIZE t", "passes"), ("OPTIMIZE t ZORDER BY (a)", "undecidable")],
)
def test_a_compaction_that_may_reorder_rows_is_not_said_to_pass(table, statement, expected):
    job = make_job(table, "optimize", statement=statement)
    result = verdict(table, current_operation="OPTIMIZE", current_predicate="", job=job)
    assert result == expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [("MERGE … WHEN MATCHED", "passes"), ("… NOT MATCHED BY SOURCE", "undecidable")],
)
def test_a_merge_reads_beyond_its_condition_only_by_source(table, statement, expected):
    job = make_job(table, "merge", statement=statement)
    assert verdict(table, current_operation="MERGE", job=job) == expected


def test_losses_that_would_pass_are_summed_and_old_ones_left_out(table):
    make_commit(table, 5, "DELETE", predicate="order_date = '2026-11-18'")
    common = {"current_predicate": DAY_19, "winning_version": 5, "winner_operation": "DELETE"}
    for _ in range(2):
        make_conflict(table, **FILES, **common, wasted_ms=1_000, wasted_bytes=2**30)
    make_conflict(table, **(FILES | common | {"rule": "metadata_changed"}))
    make_conflict(table, **FILES, **common, occurred_at=timezone.now() - timedelta(days=31))
    make_conflict(table, kind="resolved")
    aborted = eligibility_report(table).aborted_writes
    assert (aborted.aborted, aborted.passes, aborted.still_aborted, aborted.undecidable) == (
        3,
        2,
        1,
        0,
    )
    assert (aborted.saved_ms, aborted.saved_bytes) == (2_000, 2**31)


def line(lines, name):
    return next(condition for condition in lines if name in condition.name)


def test_a_layout_that_fails_comes_with_the_statement_that_fixes_it(table):
    layout = line(eligibility_report(table).of_table, "clustered")
    assert (layout.state, layout.raw) == ("fails", 'partitionColumns = ["order_date"]')
    command = parse_statement(layout.statement)
    assert (command.clustering_columns, command.replace) == (("order_date",), True)
    assert command.properties["delta.enableDeletionVectors"] == "true"
    assert layout.cost.rewrites_bytes == table.size_bytes


def test_properties_that_a_rewrite_loses_are_named(table):
    table.properties = {"delta.constraints.positive": "order_id > 0", "delta.appendOnly": "true"}
    layout = line(eligibility_report(table).of_table, "clustered")
    assert layout.fix.endswith("Set its 1 constraint again.")
    kept = parse_statement(layout.statement).properties
    assert kept == {"delta.appendOnly": "true", "delta.enableDeletionVectors": "true"}


def attempt(job, size, seconds):
    now = timezone.now()
    JobAttempt.objects.create(
        job=job, number=1, started_at=now, finished_at=now + timedelta(seconds=seconds),
        outcome="committed", bytes_written=size,
    )  # fmt: skip


def test_the_time_of_a_rewrite_is_estimated_from_runs_on_the_table_before_others(table):
    assert throughput_of(table) is None
    assert line(eligibility_report(table).of_table, "clustered").cost.duration_ms is None
    attempt(make_job(make_table("other"), "optimize"), 10 * 2**20, 1)
    assert throughput_of(table).is_own is False
    for seconds in (1, 2, 4):
        attempt(make_job(table, "optimize"), 2**20, seconds)
    speed = throughput_of(table)
    assert (speed.bytes_per_second, speed.runs, speed.is_own) == (2**19, 3, True)
    cost = line(eligibility_report(table, speed).of_table, "clustered").cost
    assert cost.duration_ms == table.size_bytes / 2**19 * 1000
    assert (cost.runs, cost.runs_are_own) == (3, True)


def test_a_run_that_is_too_small_is_not_counted(table):
    attempt(make_job(table, "optimize"), 900, 1)
    assert throughput_of(table) is None


def test_vectors_name_the_protocol_after_and_the_writers_they_lock_out(table):
    now = timezone.now()
    for version, engine in ((7, "delta-rs:0.15.3"), (8, "delta-rs:0.15.3"), (9, "delta-rs:1.6")):
        make_commit(table, version, engine_info=engine, committed_at=now)
    old = now - timedelta(days=40)
    make_commit(table, 6, engine_info="delta-rs:0.1", committed_at=old)
    report = eligibility_report(table, readers=("to-kafka",))
    supported = line(report.of_table, "supported")
    assert supported.cost.protocol == (3, 7)
    assert supported.cost.locked_out == ("delta-rs 0.15.3 (2 commits)",)
    enabled = line(report.of_table, "enabled")
    assert enabled.job["parameters"] == {"properties": {"delta.enableDeletionVectors": "true"}}
    assert enabled.cost.streams == 1


def test_open_writes_are_part_of_the_cost_of_a_fix(table):
    make_job(table, "merge", state=Job.State.RUNNING)
    assert line(eligibility_report(table).of_table, "enabled").cost.aborted_jobs == 1


def test_a_table_that_has_all_needs_no_fix():
    report = eligibility_report(make_table())
    assert {condition.state for condition in report.of_table} == {"holds"}
    assert all(condition.fix == "" and condition.job is None for condition in report.of_table)


def writes(table, *rows):
    now = timezone.now()
    for version, (operation, predicate, behind) in enumerate(rows, start=20):
        make_commit(
            table, version, operation, predicate=predicate, read_version=version - 1 - behind,
            committed_at=now, user_name="dbt", operation_parameters={},
        )  # fmt: skip


def test_conditions_are_requested_for_writes_that_overlapped(table):
    writes(
        table,
        ("UPDATE", "order_id IN (SELECT id FROM b)", 1),
        ("DELETE", "order_id IN (SELECT id FROM b)", 2),
        ("UPDATE", "order_id = 5", 1),
        ("UPDATE", "rand() > 0.5", 0),
        ("WRITE", "", 3),
    )
    report = eligibility_report(table)
    assert (report.writes, report.overlapping_writes) == (5, 3)
    subquery = line(report.of_writes, "subquery")
    assert (subquery.state, subquery.affected, subquery.asked) == ("some fall back", 2, 3)
    assert subquery.evidence == "dbt, UPDATE"
    assert "USING (SELECT DISTINCT id FROM b) s\nON t.order_id = s.id" in subquery.rewrite
    assert line(report.of_writes, "deterministic").state == "holds"


def test_aborted_writes_count_as_overlapping(table):
    writes(table, ("UPDATE", "order_id = 5", 0))
    now = {"occurred_at": timezone.now(), "current_predicate": "order_id IN (SELECT id FROM b)"}
    make_conflict(table, **now)
    make_conflict(table, **now, kind="resolved")
    report = eligibility_report(table)
    assert (report.writes, report.overlapping_writes) == (2, 1)
    assert line(report.of_writes, "subquery").state == "some fall back"


def test_compactions_are_traced_by_this_engines_tags_or_by_row_ids(table):
    writes(table, ("OPTIMIZE", "", 0), ("OPTIMIZE", "", 0))
    Commit.objects.filter(version=21).update(engine_info="Apache-Spark/3.5.1 Delta-Lake/3.2.0")
    traced = line(eligibility_report(table).of_writes, "traced")
    assert (traced.state, traced.affected, traced.asked) == ("some fall back", 1, 2)
    table.row_tracking = True
    assert line(eligibility_report(table).of_writes, "traced").state == "holds"


def test_runtimes_are_listed_for_the_table_as_it_is_and_after_the_fix(table):
    writes(table, ("MERGE", "t.order_id = s.order_id", 2), ("UPDATE", "order_id IN (SELECT 1)", 2))
    report = eligibility_report(table)
    assert [column.takes_part for column in report.runtimes] == [False] * 6
    assert [column.takes_part for column in report.mended] == [True] * 5 + [False]
    ours, _, fourteen_two, *_, open_source = report.runtimes
    assert [cell.state for cell in ours.cells] == ["fails", "fails", "holds", "some", "holds"]
    assert fourteen_two.cells[4].text == "1 join only"
    assert {cell.state for cell in open_source.cells} == {"not offered"}
    assert (ours.writes, open_source.writes) == (2, 0)
    assert report.mended[4].by_rows == "UPDATE, DELETE, MERGE with Photon"
    assert [cell.state for cell in report.mended[4].cells][:3] == ["holds"] * 3


def test_a_table_never_read_has_no_report():
    assert eligibility_report(make_table(version=None, schema={})) is None


def test_the_number_of_queries_does_not_grow(table, django_assert_max_num_queries):
    writes(table, *[("UPDATE", f"order_id = {n}", 2) for n in range(40)])
    for n in range(30):
        make_conflict(table, **FILES, winning_version=20 + n, current_predicate=f"order_id = {n}")
    with django_assert_max_num_queries(14):
        eligibility_report(table)


def test_optimize_of_a_clustered_table_is_said_to_need_row_tracking(table):
    Table.objects.filter(pk=table.pk).update(
        partition_columns=[], clustering_columns=["order_id"], row_tracking=False
    )
    table.refresh_from_db()
    tracking = line(eligibility_report(table).of_table, "row tracking")
    assert "conflicts with UPDATE, DELETE, MERGE and OPTIMIZE" in tracking.evidence
    assert tracking.job["parameters"] == {"properties": {"delta.enableRowTracking": "true"}}


def test_a_clustered_table_needs_deletion_vectors_as_every_other_does(table):
    Table.objects.filter(pk=table.pk).update(
        partition_columns=[], clustering_columns=["order_id"], reader_features=[]
    )
    table.refresh_from_db()
    report = eligibility_report(table)
    assert line(report.of_table, "vectors enabled").state == "fails"
    assert (report.eligibility.eligible, report.eligibility.traces_moves) == (False, False)


def test_a_subquery_over_the_table_itself_is_no_source_of_a_merge(table):
    """A MERGE whose source reads its target is also decided by files."""
    Table.objects.filter(pk=table.pk).update(name="sales.b")
    table.refresh_from_db()
    writes(table, ("DELETE", "order_id IN (SELECT order_id FROM sales.b)", 2))
    subquery = line(eligibility_report(table).of_writes, "subquery")
    assert subquery.rewrite == ""
    assert subquery.fix.startswith("First write the subquery's result to a separate table")
