"""Advice on conflicts: verdicts only if the record proves them, with the number of earlier cases."""

from dataclasses import asdict
from datetime import timedelta

import pytest
from django.contrib.auth.models import User

from engine.commands.sql import parse_statement
from engine.expressions.parse import parse_condition
from engine.schema.types import parse_schema
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.roles import Role
from lakeui.conflicts.conflict_detail.advice import advice, find_narrowing
from lakeui.conflicts.conflict_detail.sides import (
    BothSides,
    both_sides,
    neighbors,
    similar_conflicts,
)
from lakeui.conflicts.models import Conflict
from lakeui.jobs.models import JobAttempt
from tests.lakeui.factories import make_commit, make_conflict, make_job, make_table, make_user
from tests.lakeui.story_decision import story_decision

pytestmark = pytest.mark.django_db


@pytest.fixture
def conflict():
    """Return the conflict of price-fixer's UPDATE, with the files of both sides and its second attempt."""
    table = make_table(version=4799)
    make_commit(table, 4797, "DELETE", predicate="customer_id IN (81204)", files_removed=7)
    job = make_job(
        table,
        "update",
        attempts=2,
        committed_version=4799,
        statement="UPDATE sales.orders SET discount = 0.15 WHERE status = 'open' OR channel = 'web'",
        parameters={
            "assignments": {"discount": "0.15"},
            "where": "status = 'open' OR channel = 'web'",
        },
    )
    made = make_conflict(table, job=job, **_bounds("2026-09-01", "2026-09-28"))
    made.facts |= {"decision": asdict(story_decision())}
    made.save()
    for number, outcome in ((1, "conflicted"), (2, "committed")):
        JobAttempt.objects.create(
            job=job, number=number, outcome=outcome, started_at=made.occurred_at
        )
    return made


def _bounds(low: str, high: str) -> dict[str, str]:
    return {"order_column": "order_date", "shared_low": low, "shared_high": high}


def _create_earlier(lost: Conflict, days: int, **fields) -> Conflict:
    at = lost.occurred_at - timedelta(days=days)
    return make_conflict(lost.table, occurred_at=at, facts={}, **fields)


def _sides(lost: Conflict) -> BothSides:
    reader = User.objects.filter(username="ann").first() or make_user("ann", Role.VIEWER)
    return both_sides(lost, Reader(reader))


def _collect_advice(lost: Conflict) -> dict[str, object]:
    like = similar_conflicts(Conflict.objects.all(), lost)
    return {item.kind: item for item in advice(lost, _sides(lost), like)}


def test_a_condition_beyond_the_shared_files_passes_and_is_ready_to_run(conflict):
    advised = _collect_advice(conflict)["narrow"]
    assert (advised.verdict, advised.condition) == ("passes", "order_date > '2026-09-28'")
    assert "not read: 20 of 46 are left." in advised.text
    command = parse_statement(advised.sql)
    assert command.where == "(status = 'open' OR channel = 'web') AND order_date > '2026-09-28'"
    rest = "(order_date <= '2026-09-28' OR order_date IS NULL)"
    assert parse_statement(advised.rest_sql).where == (
        f"(status = 'open' OR channel = 'web') AND {rest}"
    )
    assert "of 812,406 rows" in advised.text
    assert f"run a second statement for them, with `AND {rest}`." in advised.text


@pytest.mark.parametrize("name", ["-x", "a b", "a.b", "select", "q`'\"", "\u202edate", "😀"])
def test_a_condition_on_a_column_of_any_name_and_text_is_one(conflict, name):
    schema = {"type": "struct", "fields": [{"name": name, "type": "string"}]}
    conflict.table.schema, conflict.order_column = schema, name
    conflict.shared_high = "2026-09-28\\' OR '' = '"
    proposed = find_narrowing(conflict, story_decision())
    assert proposed is not None
    left, right = parse_condition(proposed.condition, parse_schema(schema)).arguments
    assert left.path == (name,)
    assert right.value == conflict.shared_high


def test_losses_before_are_judged_by_the_bounds_of_their_files(conflict):
    _create_earlier(conflict, 1, **_bounds("2026-01-01", "2026-02-01"))
    _create_earlier(conflict, 2, **_bounds("2026-10-01", "2026-11-01"))
    _create_earlier(conflict, 3)
    advised = _collect_advice(conflict)["narrow"]
    assert (advised.helped, advised.of, advised.undecidable) == (2, 3, 1)


def test_no_condition_is_advised_where_bounds_are_not_recorded(conflict):
    conflict.shared_high = ""
    assert find_narrowing(conflict, story_decision()) is None
    conflict.shared_high, conflict.order_column = "2026-09-28", "no_such_column"
    assert find_narrowing(conflict, story_decision()) is None
    assert find_narrowing(conflict, None) is None


def test_a_retry_passes_only_where_one_has(conflict):
    assert (
        _collect_advice(conflict)["retry"].helped,
        _collect_advice(conflict)["retry"].verdict,
    ) == (1, "passes")
    conflict.job = None
    conflict.save()
    assert (_collect_advice(conflict)["retry"].of, _collect_advice(conflict)["retry"].verdict) == (
        None,
        "may pass",
    )
    conflict.can_retry = False
    assert not _collect_advice(conflict)["retry"].is_advised


def test_moving_in_time_would_have_avoided_the_losses_to_that_writer_alone(conflict):
    winner = make_job(conflict.table, "delete", committed_version=4797, attempts=1)
    JobAttempt.objects.create(
        job=winner, number=1, outcome="committed", started_at=conflict.occurred_at
    )
    _create_earlier(conflict, 1, winner_operation="MERGE", winner_user_name="cdc-merge")
    _create_earlier(conflict, 2)
    advised = _collect_advice(conflict)["apart_in_time"]
    assert (advised.helped, advised.of) == (2, 3)


def test_the_effect_of_deletion_vectors_equals_a_decision_by_rows(conflict):
    conflict.facts["remedies"] = [
        {"kind": "deletion_vectors", "action": "enable", "reason": "then"}
    ]
    conflict.subclass = "WITHOUT_HINT"
    conflict.table.deletion_vectors = False
    conflict.save()
    advised = _collect_advice(conflict)["deletion_vectors"]
    counts = (advised.helped, advised.of, advised.undecidable)
    assert (advised.act, *counts) == ("eligibility", 0, 1, 0)
    conflict.table.deletion_vectors = True
    assert "deletion_vectors" not in _collect_advice(conflict), "they were enabled since"


def test_an_enabled_setting_is_not_advised(conflict):
    advised = _collect_advice(conflict)
    assert (advised["vectors_on"].verdict, advised["vectors_on"].is_advised) == (
        "on already",
        False,
    )
    assert "46 files" in advised["vectors_on"].text
    order = [item.is_advised for item in advised.values()]
    assert order == sorted(order, reverse=True), "what is not advised comes last"


def test_other_writers_other_tables_and_older_losses_are_not_alike(conflict):
    _create_earlier(conflict, 31)
    _create_earlier(conflict, 1, current_user_name="somebody-else")
    _create_earlier(conflict, 1, kind=Conflict.Kind.RESOLVED)
    make_conflict(make_table("crm.customers"), occurred_at=conflict.occurred_at)
    assert [
        conflict.pk for conflict in similar_conflicts(Conflict.objects.all(), conflict).conflicts
    ] == [conflict.pk]


def test_similar_conflicts_are_of_the_same_kind_and_table(conflict):
    earlier, resolved = (
        _create_earlier(conflict, 2),
        _create_earlier(conflict, 1, kind=Conflict.Kind.RESOLVED),
    )
    around = neighbors(Conflict.objects.all(), conflict)
    assert (around.previous, around.next) == (earlier.pk, None)
    assert neighbors(Conflict.objects.all(), earlier).next == conflict.pk != resolved.pk


def test_the_winner_is_named_by_its_job_or_else_by_its_log_entry(conflict):
    by_log = _sides(conflict).winner
    assert (by_log.job, by_log.statement_is_whole) == (None, False)
    assert by_log.statement.startswith("DELETE FROM sales.orders\nWHERE customer_id IN")
    make_job(conflict.table, "delete", committed_version=4797, statement="DELETE FROM x")
    by_job = _sides(conflict).winner
    assert (by_job.statement, by_job.statement_is_whole) == ("DELETE FROM x", True)


def test_a_step_of_a_job_is_found_by_its_transaction_id(conflict):
    job = make_job(conflict.table, "optimize", attempts=3)
    conflict.facts["winner"]["txn_id"] = f"{job.txn_id}:9f"
    winner = _sides(conflict).winner
    assert winner.job is not None
    assert (winner.job.id, winner.job.attempts) == (job.pk, 3)


def test_facts_of_another_shape_are_not_recorded_rather_than_an_error(conflict):
    conflict.facts = {"decision": {"reads": 7}}
    sides = _sides(conflict)
    assert sides.decision is None
    assert sides.winner.changes.files_changed == 7, "from the mirrored commit"
