"""Every judgment of whether two statements conflict agrees with the engine's matrix.

The matrix is compared with real transactions in tests/engine/conflicts/test_forecast.py.
"""

from datetime import timedelta
from itertools import product

import pytest
from django.utils import timezone

from engine.conflict_facts import Verdict
from engine.conflicts.predict.forecast import (
    CHANGE,
    GROUPS,
    INSERT,
    OPTIMIZE,
    ZORDER,
    ForecastSide,
    conflict_matrix,
    forecast,
)
from engine.protocol.properties import SETTABLE_LEVELS, IsolationLevel
from engine.vocabulary import StatementKind
from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.assessment import build_setting, eligible_setting
from lakeui.conflicts.eligibility.row_verdicts import row_verdicts
from lakeui.conflicts.isolation.overlaps import overlaps_of
from lakeui.conflicts.isolation.pairs import compute_matrix, table_matrix
from lakeui.conflicts.isolation.settings import (
    LEVEL,
    ROW_TRACKING,
    VECTORS,
    Proposal,
    propose_setting,
)
from lakeui.conflicts.lanes.path import lane_path
from lakeui.conflicts.lanes.swim_lane import swim_lane
from lakeui.conflicts.replay.what_if import what_if
from lakeui.conflicts.statements.operations import JobSide
from lakeui.jobs.models import Job, JobAttempt
from lakeui.monitoring.outlook import forecast_of, outlook_of
from tests.engine.conflicts.real_pairs import LAYOUTS
from tests.lakeui.conflicts.histories import replayable
from tests.lakeui.factories import make_commit, make_conflict, make_table
from tests.lakeui.people import make_job
from tests.lakeui.people import make_table as small_table

SETTINGS = tuple(product(LAYOUTS, SETTABLE_LEVELS))
ROWS = {"kind": "rows", "columns": ["id"], "rows": [["1"]]}
ON = {
    "source": ROWS,
    "on": "target.id = source.id",
    "clauses": [{"when": "matched", "action": "delete"}],
}
JOBS = {
    INSERT: [("append", {"source": ROWS})],
    CHANGE: [("update", {"assignments": {"id": "1"}, "where": "id > 0"}), ("merge", ON),
             ("delete", {"where": "id > 0"})],
    OPTIMIZE: [("optimize", {})],
    ZORDER: [("optimize", {"zorder_by": ["id"]})],
}  # fmt: skip
KIND_OF_ROW = {
    "INSERT": StatementKind.INSERT, "UPDATE": StatementKind.UPDATE, "DELETE": StatementKind.DELETE,
    "MERGE": StatementKind.MERGE, "OPTIMIZE": StatementKind.OPTIMIZE, ZORDER: StatementKind.ZORDER,
}  # fmt: skip
COMMITS = {
    INSERT: [{"operation": "WRITE", "is_blind_append": True}],
    CHANGE: [{"operation": name} for name in ("UPDATE", "DELETE", "MERGE")],
    OPTIMIZE: [{"operation": "OPTIMIZE"}],
    ZORDER: [{"operation": "OPTIMIZE", "operation_parameters": {"zOrderBy": '["id"]'}}],
}
SCHEMA = {"type": "struct", "fields": [
    {"name": "id", "type": "integer", "nullable": True, "metadata": {}},
    {"name": "date", "type": "string", "nullable": True, "metadata": {}},
]}  # fmt: skip


def fields_of(layout: str, level: IsolationLevel) -> dict[str, object]:
    made = LAYOUTS[layout]
    return {
        "schema": SCHEMA,
        "isolation_level": str(level),
        "deletion_vectors": made["vectors"],
        "row_tracking": made.get("row_tracking", False),
        "partition_columns": ["date"] if made.get("partitioned") else [],
        "clustering_columns": ["id"] if made.get("clustered") else [],
    }


def cells_of(table: Table) -> dict[tuple[str, str], Verdict]:
    cells = conflict_matrix(build_setting(table))
    return {(cell.current, cell.winner): cell.verdict for cell in cells}


def choose_worst(verdicts: set[Verdict]) -> Verdict:
    """Return the worst verdict of several pairs; an exempt append counts as no conflict."""
    order = (Verdict.ALWAYS, Verdict.SAME_FILES, Verdict.SAME_ROW)
    return next((verdict for verdict in order if verdict in verdicts), Verdict.NEVER)


@pytest.mark.parametrize(("layout", "level"), SETTINGS)
def test_the_verdict_on_a_job_equals_the_matrix(layout, level):
    """The outlook, the SQL box and a running transaction of the swim-lane ask the same `JobSide`."""
    table = Table(name="t", **fields_of(layout, level))
    cells = cells_of(table)
    for current, winner in product(GROUPS, GROUPS):
        sides = [
            JobSide(Job(table=table, kind=kind, parameters=parameters))
            for kind, parameters in JOBS[current]
        ]
        landed = {
            side.forecast_with_commit(Commit(engine_info="lakeui/1", **commit), None).verdict
            for side in sides
            for commit in COMMITS[winner]
        }
        coming = {
            side.forecast_with_job(kind, parameters, table.pk).verdict
            for side in sides
            for kind, parameters in JOBS[winner]
        }
        assert choose_worst(landed) == cells[current, winner], f"{current} after {winner}"
        assert choose_worst(coming) == cells[current, winner], f"{current} after {winner}"


DELETE_CLAUSES = {"matchedPredicates": '[{"actionType":"delete"}]', "notMatchedPredicates": "[]"}
UPDATE_CLAUSES = {"matchedPredicates": '[{"actionType":"update"}]', "notMatchedPredicates": "[]"}
UPDATE_ON = {**ON, "clauses": [{"when": "matched", "action": "update", "assignments": {"id": "1"}}]}
SHARE_ROWS = {
    "DELETE": (
        ForecastSide(kind=StatementKind.DELETE), ("delete", {"where": "id > 0"}), {"operation": "DELETE"},
    ),
    "MERGE that only deletes": (
        ForecastSide(kind=StatementKind.MERGE, deletes_only=True), ("merge", ON),
        {"operation": "MERGE", "operation_parameters": DELETE_CLAUSES},
    ),
    "MERGE that updates": (
        ForecastSide(kind=StatementKind.MERGE), ("merge", UPDATE_ON),
        {"operation": "MERGE", "operation_parameters": UPDATE_CLAUSES},
    ),
}  # fmt: skip
"""The commands of the engine's own test, as jobs and as commits: which of them may share rows."""


@pytest.mark.parametrize(("layout", "level"), SETTINGS)
def test_jobs_and_commits_that_only_delete_are_judged_by_their_conditions(layout, level):
    table = Table(name="t", **fields_of(layout, level))
    setting = build_setting(table)
    for (mine, current), (theirs, winner) in product(SHARE_ROWS.items(), SHARE_ROWS.items()):
        told = forecast(setting, current[0], winner[0]).verdict
        side = JobSide(Job(table=table, kind=current[1][0], parameters=current[1][1]))
        landed = side.forecast_with_commit(Commit(engine_info="lakeui/1", **winner[2]), None)
        coming = side.forecast_with_job(*winner[1], table.pk)
        assert (landed.verdict, coming.verdict) == (told, told), f"{mine} after {theirs}"


@pytest.mark.django_db
@pytest.mark.parametrize(("layout", "level"), SETTINGS)
def test_the_isolation_page_and_rest_show_the_matrix(layout, level):
    table = small_table(**fields_of(layout, level))
    cells = cells_of(table)
    assert {(c.current, c.winner): c.verdict for c in compute_matrix(table)} == cells
    stricter = {LEVEL: "Serializable", VECTORS: "true", ROW_TRACKING: "true"}
    under = propose_setting(table, Proposal(stricter))
    for cell in table_matrix(table, under, overlaps_of(table), ()):
        if cell.winner == "ALTER, SET":
            assert cell.verdict is Verdict.ALWAYS
            continue
        sides = [ForecastSide(kind=KIND_OF_ROW[name]) for name in (cell.current, cell.winner)]
        assert cell.verdict == choose_worst({forecast(build_setting(table), *sides).verdict})
        then = choose_worst({forecast(under, *sides).verdict})
        assert (cell.preview or cell.verdict) == then


@pytest.mark.django_db
@pytest.mark.parametrize("level", SETTABLE_LEVELS)
@pytest.mark.parametrize("operation", ["DELETE", "UPDATE", "MERGE"])
def test_what_if_says_conflict_only_where_the_matrix_has_one(level, operation):
    """Version 2 did not see version 1, a blind append."""
    table = replayable(small_table(deletion_vectors=False), operation=operation)
    answer = what_if(table, level, row_level=False)
    said = {commit.verdict for commit in answer.commits}
    setting = build_setting(table, level)
    [cell] = [c for c in conflict_matrix(setting) if (c.current, c.winner) == (CHANGE, INSERT)]
    assert (said == {Verdict.PASSES}) == (cell.verdict is Verdict.NEVER)


@pytest.mark.django_db
@pytest.mark.parametrize("tracking", [True, False])
@pytest.mark.parametrize("clustered", [True, False])
def test_losses_are_said_to_pass_by_rows_only_where_the_matrix_does(clustered, tracking):
    table = make_table(
        partition_columns=[], clustering_columns=["order_id"] if clustered else [],
        deletion_vectors=False, row_level_eligible=False, row_tracking=tracking, version=9,
    )  # fmt: skip
    make_commit(table, 5, "OPTIMIZE", engine_info="lakeui/1")
    make_conflict(
        table, winning_version=5, winner_operation="OPTIMIZE", current_operation="DELETE",
        current_predicate="order_id = 1", rule="read_file_removed", subclass="", row_count=None,
    )  # fmt: skip
    [loss] = row_verdicts(table).conflicts
    eligible = conflict_matrix(eligible_setting(table))
    [cell] = [c for c in eligible if (c.current, c.winner) == (CHANGE, OPTIMIZE)]
    assert (loss.verdict is Verdict.PASSES) == (cell.verdict is Verdict.NEVER)


@pytest.mark.django_db
@pytest.mark.parametrize(("blind", "verdict"), [(True, "passes"), (None, "undecidable")])
def test_a_winner_that_the_mirror_does_not_keep_is_known_by_its_name(blind, verdict):
    """A write that is not known to be blind may have overwritten any row."""
    table = make_table(deletion_vectors=False, row_level_eligible=False)
    make_conflict(
        table, winning_version=4000, winner_operation="WRITE", current_operation="DELETE",
        rule="data_added", subclass="", row_count=None, isolation_level="",
        facts={"winner": {"is_blind_append": blind}},
    )  # fmt: skip
    [loss] = row_verdicts(table).conflicts
    assert loss.verdict == verdict


@pytest.mark.django_db
def test_the_outlook_the_sql_box_and_the_swim_lane_say_the_same_of_one_version():
    fields = fields_of("clustered", IsolationLevel.WRITE_SERIALIZABLE)
    table = make_table(version=5, **fields)
    make_commit(table, 5, "OPTIMIZE", engine_info="lakeui/1", committed_at=timezone.now())
    job = make_job(
        table, kind="delete", parameters={"where": "id = 1"}, state=Job.State.RUNNING,
        started_at=timezone.now(),
    )  # fmt: skip
    job.attempt_rows.all().delete()
    attempt = JobAttempt.objects.create(
        job=job, number=1, started_at=timezone.now(), read_version=4
    )
    cell = cells_of(table)[CHANGE, OPTIMIZE]
    outlook = outlook_of(job, attempt)
    path = lane_path(table, swim_lane(table), f"j-{job.pk}")
    assert outlook is not None
    assert path is not None
    assert outlook.verdict == path.steps[-1].verdict == cell == Verdict.SAME_FILES
    make_job(
        table, kind="optimize", parameters={}, state=Job.State.QUEUED,
        created_at=timezone.now() - timedelta(minutes=1),
    )  # fmt: skip
    coming = forecast_of(table, "delete", {"where": "id = 1"}).coming
    assert cell in {writer.verdict for writer in coming if writer.operation == "OPTIMIZE"}
