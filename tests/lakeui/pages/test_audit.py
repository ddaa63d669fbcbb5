"""The audit trail and its readers."""

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from lakeui.catalog.roles import Role
from lakeui.monitoring.filters import AuditFilter, trail
from tests.lakeui.factories import grant, make_job, make_user
from tests.lakeui.pages.conftest import SmallLake


@pytest.mark.parametrize(
    ("who", "status"), [("owner", 200), ("operator", 403), ("viewer", 403), ("stranger", 403)]
)
def test_the_trail_is_for_maintainers(client_for, who, status):
    assert client_for(who).get("/audit/").status_code == status


def test_maintainers_find_the_trail_in_the_sidebar_and_others_do_not(client_for, client):
    client.force_login(make_user("keeper", Role.MAINTAINER))
    assert 'href="/audit/"' in client.get("/").content.decode()
    assert 'href="/audit/"' not in client_for("viewer").get("/").content.decode()


def test_a_token_made_is_on_the_trail_with_its_maker(client_for):
    client_for("operator").post("/tokens/", {"name": "nightly", "role": 10, "expires_in_days": 7})
    body = client_for("owner").get("/audit/?user=operator&act=0&thing=apitoken").content.decode()
    assert "made a token" in body
    assert "nightly" in body


def test_a_role_is_shown_by_its_name_and_an_expiry_without_fractions(client_for):
    client_for("operator").post("/tokens/", {"name": "nightly", "role": 20, "expires_in_days": 7})
    rows = client_for("owner").get("/audit/?thing=apitoken&act=0").context["rows"]
    said = {change.field: change.new for change in rows[0].changes}
    assert said["role"] == "operator"
    assert said["expiry"].endswith(" UTC")
    assert "." not in said["expiry"]


def test_entries_of_one_table_are_found_by_its_name_or_id(client_for, lake, people):
    other = SmallLake("crm.customers")
    given = grant(people["stranger"], lake.table, Role.VIEWER)
    given.role = Role.OPERATOR
    given.save()
    client = client_for("owner")
    for text in ("sales.orders", lake.table.pk):
        rows = client.get(f"/audit/?table={text}").context["rows"]
        assert {row.table for row in rows} == {lake.table}
        assert {row.thing for row in rows} == {"table", "job", "role on a table"}
    assert {row.table for row in client.get("/audit/?table=crm.customers").context["rows"]} == {
        other.table
    }


def test_the_jobs_of_a_table_are_never_named_one_by_one(lake):
    def count_entries():
        with CaptureQueriesContext(connection) as queries:
            count = AuditFilter({"table": lake.table.name}, trail()).qs.count()
        return count, [query["sql"] for query in queries]

    count_entries()  # kinds of things are kept once they are known
    few, words = count_entries()
    make_job(lake.table)
    assert count_entries() == (few + 1, words)


def test_a_revoked_grant_is_still_found_under_its_table(client_for, lake, people):
    grant(people["stranger"], lake.table, Role.VIEWER).delete()
    rows = (
        client_for("owner").get(f"/audit/?table={lake.table.pk}&thing=tablegrant").context["rows"]
    )
    assert sorted(row.act for row in rows) == ["made", "removed"]


def test_people_are_named_and_not_numbered(client_for, lake, people):
    grant(people["stranger"], lake.table, Role.VIEWER)
    rows = client_for("owner").get("/audit/?thing=tablegrant").context["rows"]
    assert ("user", "stranger") in {(change.field, change.new) for change in rows[0].changes}


def test_deletions_are_left_out_and_creations_need_no_value(client_for, lake):
    make_job(lake.table, dry_run=True)
    rows = client_for("owner").get("/audit/?thing=job").context["rows"]
    flags = [change for row in rows for change in row.changes if change.field == "dry run"]
    assert [flag.is_flag for flag in flags] == [True]


def test_acts_are_chosen_by_a_link(client_for, lake):
    body = client_for("owner").get("/audit/?act=3&user=owner").content.decode()
    assert 'href="?act=0&amp;user=owner"' in body
    assert '<input type="hidden" name="act" value="3">' in body


def test_groups_given_to_a_person_say_which(client_for, people):
    body = client_for("owner").get("/audit/?thing=user").content.decode()
    assert "operator" in body
    assert "groups" in body


def test_a_refusal_names_its_code_and_address(client_for, lake):
    address = f"/api/v1/tables/{lake.table.pk}/jobs/"
    client_for("viewer").post(address, {"kind": "optimize"}, content_type="application/json")
    rows = client_for("owner").get("/audit/?act=3").context["rows"]
    assert [row.entry.actor.username for row in rows] == ["viewer"]
    assert rows[0].refused


def test_the_trail_downloads_whole(client_for, lake):
    response = client_for("owner").get("/audit/?export=json")
    entries = json.loads(response.getvalue())
    assert {"table", "job", "person"} <= {entry["thing"] for entry in entries}


def test_cancelling_or_retrying_a_job_is_on_the_trail(client_for, lake):
    client = client_for("owner")
    client.post(f"/jobs/{lake.job.pk}/cancel/")
    lost = make_job(lake.table, state="conflicted")
    client.post(f"/jobs/{lost.pk}/rerun/")
    body = client.get(f"/audit/?table={lake.table.pk}").content.decode()
    assert "cancellation requested" in body
    assert "retried" in body
    rows = client.get(f"/api/v1/audit/?table={lake.table.pk}").json()["items"]
    assert {(row["who"], row["did"]) for row in rows if row["did"]} == {
        ("owner", "cancellation requested"),
        ("owner", "retried"),
    }


def test_the_reason_that_was_given_has_a_column_of_its_own(client_for, lake):
    make_job(lake.table, "delete", reason="<gdpr> request 17")
    client = client_for("owner")
    page = " ".join(client.get("/audit/?thing=job").text.split())
    assert '<th scope="col">Why</th>' in page
    assert '<td class="wrap">&lt;gdpr&gt; request 17</td>' in page
    assert '<span class="muted">reason</span>' not in page
    csv_text = b"".join(client.get("/audit/?thing=job&export=csv").streaming_content).decode()
    assert "<gdpr> request 17" in csv_text
    assert ",why," in csv_text.splitlines()[0]
