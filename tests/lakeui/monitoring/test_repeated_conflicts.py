"""Repeated conflicts of the same two statements: one item of attention, silenced by one mute."""

import json
from datetime import timedelta

import pytest
from auditlog.models import LogEntry
from django.utils import timezone

from lakeui.catalog.hours import RANGES
from lakeui.catalog.models import TableGrant
from lakeui.catalog.roles import Role
from lakeui.conflicts.models import Conflict, StatementPair
from lakeui.conflicts.statements.pairs import pair_older_conflicts
from lakeui.jobs.earlier_runs import statement_shape
from lakeui.monitoring.conditions import Condition
from lakeui.monitoring.models import Mute
from lakeui.monitoring.repeated_conflicts import describe_repeated, select_repeated
from tests.lakeui.factories import make_conflict, make_job, make_table, make_user
from tests.lakeui.monitoring.test_conditions import CASES, titles_by_reader

DAY = RANGES["24h"]


@pytest.fixture
def ann(db):
    return make_user("ann", Role.ADMIN)


def list_repeated(user, time_range=DAY):
    now = timezone.now()
    return describe_repeated(select_repeated(user, time_range, now), user, time_range, now)


def ago(**span):
    return timezone.now() - timedelta(**span)


def test_statements_share_a_shape_if_they_differ_in_literals_and_lists_of_them():
    same = {
        statement_shape(text)
        for text in (
            "UPDATE t SET a = 1 WHERE b IN (1, 2, 3) AND day = '2026-11-02'",
            "UPDATE t  SET a = -2.5e3 WHERE b IN (4)\n AND day = 'it''s'",
        )
    }
    assert same == {"UPDATE t SET a = ? WHERE b IN (?) AND day = ?"}
    rows = "INSERT INTO t VALUES (1, 'a'), (2, 'b')", "INSERT INTO t VALUES (3, 'c')"
    assert {statement_shape(text) for text in rows} == {"INSERT INTO t VALUES (?)"}
    assert statement_shape("DELETE FROM t2 WHERE a1 = 1") == "DELETE FROM t2 WHERE a1 = ?"


def test_conflicts_of_the_same_two_statements_are_one_pair(ann):
    table, other = make_table("sales.orders"), make_table("sales.items")
    for number in range(3):
        condition = f"id = {number} AND status = 'x{number}'"
        make_conflict(table, current_predicate=condition, wasted_ms=1_000, wasted_bytes=5)
    make_conflict(table, current_predicate="day = 1")
    make_conflict(other, current_predicate="id = 1 AND status = 'x'")
    job = make_job(table, "update", statement="UPDATE sales.orders SET a = 1 WHERE id = 7")
    make_conflict(table, job=job, current_predicate="id = 7")
    make_conflict(table, kind=Conflict.Kind.RESOLVED)
    make_conflict(table, current_predicate="id = 9 AND status = ''", occurred_at=ago(days=2))
    assert StatementPair.objects.count() == 4
    shapes = {
        (one.pair.table.name, one.current_statement): (one.times, one.wasted_ms)
        for one in list_repeated(ann)
    }
    assert len(shapes) == 4
    shape = "UPDATE sales.orders SET … WHERE id = ? AND status = ?"
    assert shapes["sales.orders", shape] == (3, 3_000)
    assert ("sales.orders", "UPDATE sales.orders SET a = ? WHERE id = ?") in shapes
    week = {one.current_statement: one.times for one in list_repeated(ann, RANGES["7d"])}
    assert week[shape] == 4


def test_older_conflicts_are_paired_in_parts_the_latest_first(ann, django_assert_num_queries):
    table = make_table("sales.orders")
    facts = {"remedies": [{"kind": "one_writer"}, {"kind": "retry"}], "winner": "no object"}
    for hours in range(5):
        make_conflict(table, occurred_at=ago(hours=hours + 1), facts=facts)
    make_conflict(table, kind=Conflict.Kind.RESOLVED)
    make_conflict(None, kind=Conflict.Kind.REPORTED)
    recorded = list_repeated(ann)
    StatementPair.objects.all().delete()
    Conflict.objects.update(fixes="", statement_pair=None)
    assert list_repeated(ann) == []
    assert [pair_older_conflicts(3), list_repeated(ann)[0].last_at] == [3, recorded[0].last_at]
    assert [pair_older_conflicts(3), pair_older_conflicts(3)] == [2, 0]
    sums = [
        [(one.pair.fingerprint, one.times, one.fix) for one in rows]
        for rows in (recorded, list_repeated(ann))
    ]
    assert sums[0] == sums[1]
    with django_assert_num_queries(1):
        pair_older_conflicts()


def test_a_pair_shows_its_trend_and_the_most_frequent_fix(ann):
    table = make_table()
    for hours, kinds in ((1, ["retry", "deletion_vectors"]), (2, ["deletion_vectors", "layout"])):
        facts = {"remedies": [{"kind": kind} for kind in kinds]}
        make_conflict(table, facts=facts, occurred_at=ago(hours=hours))
    facts = {"remedies": [{"kind": "retry"}, {"kind": "layout"}, {"kind": "deletion_vectors"}]}
    make_conflict(table, facts=facts, occurred_at=ago(hours=20))
    (one,) = list_repeated(ann)
    assert (one.fix, one.fixed, one.times) == ("deletion_vectors", 3, 3)
    assert "enable deletion vectors" in one.fix_text
    assert one.trend == "rising"
    assert (sum(one.counts), one.counts[-2], len(one.counts)) == (3, 1, 25)
    (month,) = list_repeated(ann, RANGES["30d"])
    assert sum(month.counts) == 3


def test_the_sums_of_all_pairs_take_one_query_that_an_index_covers(ann, django_assert_num_queries):
    tables = [make_table(f"sales.t{number}") for number in range(3)]
    for table in tables:
        for number in range(4):
            make_conflict(table, winner_operation=("DELETE", "MERGE")[number % 2])
    rows = select_repeated(ann, DAY, timezone.now())
    with django_assert_num_queries(1):
        assert sorted(row["times"] for row in rows) == [2] * 6
    with django_assert_num_queries(3):
        describe_repeated(rows, ann, DAY, timezone.now())
    assert "SEARCH conflicts_conflict USING COVERING INDEX" in rows.explain()


@pytest.mark.parametrize(
    "condition", [Condition.ABORTED, Condition.WASTED, Condition.METADATA_COST]
)
def test_a_muted_pair_counts_in_no_condition(condition, client, ann):
    CASES[condition](timezone.now())
    client.force_login(ann)
    assert titles_by_reader(client, condition)["attention"]
    for pair in StatementPair.objects.all():
        address, posted = f"/conflicts/repeated/{pair.pk}/", {"days": "7", "reason": "known"}
        assert client.post(address, posted).status_code == 302
    assert titles_by_reader(client, condition) == {
        reader: set() for reader in titles_by_reader(client, condition)
    }
    assert {one.state for one in list_repeated(ann, RANGES["30d"])} == {"muted"}
    assert LogEntry.objects.filter(content_type__model="mute", actor=ann).exists()


def test_a_muted_pair_leaves_the_other_conflicts_of_its_table_counted(client, ann, settings):
    settings.ATTENTION_ABORTED = 3
    table = make_table()
    for number in range(4):
        make_conflict(table, winner_operation="DELETE", current_predicate=f"id = {number}")
        make_conflict(table, winner_operation="MERGE", wasted_ms=1_000)
    pair = StatementPair.objects.filter(winner_operation="DELETE").get()
    client.force_login(ann)
    client.post(f"/conflicts/repeated/{pair.pk}/", {"days": "1"})
    assert titles_by_reader(client, Condition.ABORTED)["attention"] == {
        "4 writes aborted in 24 h on sales.orders"
    }
    page = client.get("/attention/").content.decode()
    assert "Repeated conflicts" in page
    client.post(f"/attention/mutes/{Mute.objects.get().pk}/end/")
    assert titles_by_reader(client, Condition.ABORTED)["attention"] == {
        "8 writes aborted in 24 h on sales.orders"
    }


def test_a_team_works_the_list_by_pages_and_rest_and_the_audit_log_names_it(client, ann):
    table = make_table()
    ben, _, stranger = make_user("ben", Role.OPERATOR), make_conflict(table), make_user("eve")
    (one,) = list_repeated(ann)
    client.force_login(ben)
    address, rest = f"/conflicts/repeated/{one.pair.pk}/", "/api/v1/conflicts/repeated/"
    posted = {"is_known": "on", "assignee": "ben", "note": "see ticket 42"}
    assert client.post(address, posted).status_code == 302
    (listed,) = client.get(rest, {"assignee": "BEN", "state": "known"}).json()["items"]
    assert (listed["assignee"], listed["note"], listed["state"]) == (
        "ben",
        "see ticket 42",
        "known",
    )
    assert client.get(rest, {"state": "open"}).json()["items"] == []
    entry = LogEntry.objects.get(content_type__model="statementpair")
    assert (entry.actor, entry.changes["note"]) == (ben, ["", "see ticket 42"])
    assert "see ticket 42" in client.get("/conflicts/repeated/").content.decode()
    client.force_login(ann)
    until = (timezone.now() + timedelta(days=3)).isoformat()
    body = json.dumps({"assignee": "", "muted_until": until, "reason": "rewritten on Monday"})
    changed = client.patch(f"{rest}{one.pair.pk}/", body, content_type="application/json").json()
    assert (changed["assignee"], changed["state"], changed["note"]) == (
        None,
        "muted",
        "see ticket 42",
    )
    unknown = json.dumps({"assignee": "eve"})
    refused = client.patch(f"{rest}{one.pair.pk}/", unknown, content_type="application/json")
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "assignee"
    client.force_login(stranger)
    assert client.get(rest).json()["items"] == []
    assert client.post(address, posted).status_code == 404


def test_muting_needs_a_maintainer_and_changing_an_operator(client, ann, settings):
    make_conflict(make_table())
    address = f"/conflicts/repeated/{list_repeated(ann)[0].pair.pk}/"
    for name, role, statuses in (
        ("viewer", Role.VIEWER, (403, 403)),
        ("operator", Role.OPERATOR, (302, 403)),
        ("maintainer", Role.MAINTAINER, (302, 302)),
    ):
        client.force_login(make_user(name, role))
        answered = [client.post(address, posted).status_code for posted in ({}, {"days": "7"})]
        assert tuple(answered) == statuses, name
    assert client.post(address, {"days": "9999"}).status_code == 404
    settings.READ_ONLY = True
    assert client.post(address, {}).status_code == 403


def test_a_statement_that_names_hidden_tables_is_hidden(client, ann):
    table, hidden = make_table("sales.orders"), make_table("secret.salaries")
    guest = make_user("guest")
    TableGrant.objects.create(user=guest, table=table, role=Role.VIEWER)
    text = (
        f"MERGE INTO sales.orders t USING {hidden.name} s ON t.id = s.id WHEN MATCHED THEN DELETE"
    )
    job = make_job(table, "merge", statement=text)
    make_conflict(table, job=job, current_operation="MERGE", current_predicate="t.id = s.id")
    make_conflict(table, current_operation="DELETE", current_predicate="id = 5")
    shown = {one.pair.current_operation: one.current_statement for one in list_repeated(guest)}
    assert shown == {"MERGE": "", "DELETE": "DELETE FROM sales.orders WHERE id = ?"}
    client.force_login(guest)
    for path in ("/conflicts/repeated/", "/conflicts/repeated/?export=csv"):
        answer = client.get(path)
        body = b"".join(answer.streaming_content) if answer.streaming else answer.content
        assert b"secret" not in body
    assert (
        "secret"
        in list_repeated(ann)[0].current_statement + list_repeated(ann)[1].current_statement
    )
