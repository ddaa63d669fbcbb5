"""Lists: filtered, paged, exported, and their texts when empty."""

import csv
import io
import json
import re
from datetime import timedelta
from operator import itemgetter

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from lakeui.catalog.models import Table
from lakeui.jobs.models import Schedule
from lakeui.pages.exports import export, spreadsheet_safe
from tests.lakeui.factories import make_commit, make_conflict, make_job, make_table


def text_of(response):
    return b"".join(response.streaming_content).decode()


def test_an_export_contains_every_matching_row_and_not_one_page(client_for, db):
    for number in range(60):
        make_table(f"sales.t{number}")
    make_table("crm.customers")
    rows = list(
        csv.DictReader(
            io.StringIO(text_of(client_for("viewer").get("/tables/?q=sales&export=csv")))
        )
    )
    assert len(rows) == 60
    assert {row["name"].partition(".")[0] for row in rows} == {"sales"}


def test_an_export_as_json_is_json(client_for, lake):
    rows = json.loads(
        text_of(client_for("viewer").get(f"/tables/{lake.table.pk}/history/?export=json"))
    )
    assert [row["version"] for row in rows] == [3, 2, 1, 0]


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("sales.orders", 'attachment; filename="sales.orders-history.csv"'),
        ('a"; filename="b.html', r'attachment; filename="a\"; filename=\"b.html-history.csv"'),
        ("受注", "attachment; filename*=utf-8''%E5%8F%97%E6%B3%A8-history.csv"),
    ],
)
def test_an_export_is_named_after_its_table_whatever_the_name(client_for, db, name, sent):
    table = make_table(name)
    answer = client_for("viewer").get(f"/tables/{table.pk}/history/?export=csv")
    assert answer["Content-Disposition"] == sent


def test_an_export_of_nothing_is_an_empty_list(client_for, db):
    assert json.loads(text_of(client_for("viewer").get("/jobs/?export=json"))) == []


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", " ="])
def test_text_that_a_spreadsheet_would_run_is_disarmed(start):
    assert spreadsheet_safe(f"{start}cmd()") == f"'{start}cmd()"


def test_numbers_and_plain_text_stay_as_they_are():
    assert [spreadsheet_safe(value) for value in (-3, "a=b", None)] == [-3, "a=b", None]
    numbers = ["-3", "-0.5", "-1e-07", "-inf"]  # as the rows of a table hold them
    assert [spreadsheet_safe(number) for number in numbers] == numbers
    assert spreadsheet_safe("-3+cmd()") == "'-3+cmd()"


def test_names_of_columns_run_no_formula_either():
    answer = export([("1",)], {"=cmd()": itemgetter(0)}, "csv", "rows")
    assert b"".join(answer) == b"'=cmd()\r\n1\r\n"


def test_a_hostile_predicate_is_disarmed_in_the_file(client_for, lake):
    make_commit(lake.table, 4, "DELETE", predicate='=HYPERLINK("http://evil")')
    body = text_of(client_for("viewer").get(f"/tables/{lake.table.pk}/history/?export=csv"))
    assert "'=HYPERLINK" in body


def test_markup_in_a_name_is_text(client_for, db):
    make_table("<script>alert(1)</script>", description='"><img src=x>')
    body = client_for("viewer").get("/tables/").content.decode()
    assert "<script>alert" not in body
    assert "&lt;script&gt;" in body


def test_a_list_shows_its_totals_and_the_next_page_keeps_the_filter(client_for, db):
    for number in range(60):
        make_table(f"sales.t{number}")
    body = client_for("viewer").get("/tables/?q=sales").content.decode()
    assert "1 to 50 of 60 tables" in body
    assert "?q=sales&amp;page=2" in body


def test_many_tables_are_grouped_by_the_first_part_of_their_names(client_for, db):
    for number in range(26):
        make_table(f"{'crm' if number % 3 else 'sales'}.table_{number}")
    make_table("alone")
    client = client_for("viewer")
    groups = (
        client.get("/tables/").text.partition('aria-label="Namespaces"')[2].partition("</nav>")[0]
    )
    assert re.findall(r"namespace=(\w+)", groups) == ["crm", "sales"]
    assert "17" in groups
    body = client.get("/tables/?namespace=sales&q=table").text
    assert "9 tables" in body
    assert "crm.table_1<" not in body
    Table.objects.filter(name__startswith="crm").delete()
    assert 'aria-label="Namespaces"' not in client.get("/tables/").text


def test_an_empty_lake_names_the_next_step(client_for, db):
    assert "Register a table" in client_for("owner").get("/tables/").content.decode()
    body = client_for("viewer").get("/tables/").content.decode()
    assert "Register a table" not in body
    assert "You need the role maintainer" in body


def test_a_stranger_learns_that_a_role_is_missing(client_for, db):
    assert "without a role" in client_for("stranger").get("/").content.decode()


def test_filtered_away_reads_unlike_nothing_yet(client_for, lake):
    client = client_for("viewer")
    assert "Nothing matches 1 filter" in client.get("/conflicts/?exception=Nope").content.decode()
    lake.table.conflicts.all().delete()
    assert "No conflicts yet" in client.get("/conflicts/").content.decode()


def test_a_removed_filter_leaves_the_others(client_for, lake):
    body = client_for("viewer").get("/jobs/?state=failed&kind=vacuum").content.decode()
    assert "?kind=vacuum" in body
    assert "?state=failed" in body


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("/conflicts/?kind=aborted", ["How it ended <b>aborted</b>"]),
        (
            "/conflicts/?kind=resolved&user=etl",
            ["How it ended <b>resolved</b>", "Writer <b>etl</b>"],
        ),
        ("/tables/{table}/history/?resolved=true", ["Resolved a conflict <b>yes</b>"]),
        ("/tables/{table}/history/?beat=false", ["Aborted other writes <b>no</b>"]),
        ("/tables/{table}/files/?min_size=7", ["Bytes, at least <b>7</b>"]),
        ("/tables/?row_level=true", ["Row-level concurrency <b>yes</b>"]),
        ("/audit/?thing=tablegrant&act=0", ["Thing <b>role on a table</b>", "Act <b>made</b>"]),
    ],
)
def test_a_person_reads_the_filters_in_words_and_no_parameters(client_for, lake, address, said):
    body = client_for("owner").get(address.format(table=lake.table.pk)).content.decode()
    shown = " ".join(body.partition("Narrowed by")[2].partition("Clear")[0].split())
    assert all(f"{text}<" in shown for text in said), shown


def test_the_history_puts_a_lost_attempt_above_the_version_it_lost_to(client_for, lake):
    body = client_for("viewer").get(f"/tables/{lake.table.pk}/history/").content.decode()
    rows = body.partition("data-rows")[2]
    assert rows.index("is-lost") < rows.index(">v3</a>") < rows.index(">v2</a>")


def test_lost_attempts_can_be_left_out(client_for, lake):
    body = (
        client_for("viewer").get(f"/tables/{lake.table.pk}/history/?aborted=off").content.decode()
    )
    assert "is-lost" not in body


def test_a_table_that_does_not_answer_says_how_old_it_is(client_for, lake):
    Table.objects.update(mirror_error_code="LAKE_STORAGE_ERROR", mirror_error="403 Forbidden.")
    body = client_for("viewer").get(f"/tables/{lake.table.pk}/").content.decode()
    assert f"{lake.table.name} cannot be read. " in body.replace("</b>", "")
    assert "This page shows version 3 as mirrored" in body
    assert "Try now" not in body
    assert "Try now" in client_for("owner").get(f"/tables/{lake.table.pk}/").content.decode()


def test_a_table_that_was_never_read_says_so(client_for, db):
    table = Table.objects.create(name="new.one", uri="memory://new")
    for path in ("", "history/"):
        body = client_for("viewer").get(f"/tables/{table.pk}/{path}").content.decode()
        assert "Not created yet" in body


def test_values_that_a_writer_left_out_are_not_guessed(client_for, lake):
    make_commit(
        lake.table, 4, "WRITE", user_name="", read_version=None, isolation_level="",
        is_blind_append=None, txn_id="", committed_at=None,
    )  # fmt: skip
    body = client_for("viewer").get(f"/tables/{lake.table.pk}/history/4/").content.decode()
    assert body.count("not recorded") >= 6


def test_a_conflict_of_no_known_table_has_a_page(client_for, db):
    conflict = make_conflict(None, kind="reported", facts={})
    assert client_for("viewer").get(f"/conflicts/{conflict.pk}/").status_code == 200


def test_a_conflict_shows_both_sides_the_rule_and_ranked_remedies(client_for, lake):
    body = client_for("viewer").get(f"/conflicts/{lake.conflict.pk}/").content.decode()
    for said in (
        "price-fixer was aborted", "gdpr-eraser won", "Check 6 of 7",
        "&#x27;open&#x27;", "(81204, 90311, 117560)", "How to avoid it",
        "<code>order_date &gt;= &#x27;2026-11-01&#x27;</code>",
    ):  # fmt: skip
        assert said in body, said


def test_a_resolved_conflict_says_that_both_writes_committed(client_for, lake):
    facts = {"how": "by row map", "files": ["p", "q"], "rows": {"p": [3, 1204]}}
    resolved = make_conflict(lake.table, kind="resolved", facts=facts)
    body = client_for("viewer").get(f"/conflicts/{resolved.pk}/").content.decode()
    assert "both committed" in body
    assert "by row map" in body
    assert re.findall(r'<span class="mono">([\d,]+)</span>', body) == ["3", "1,204"]


@pytest.mark.parametrize(
    ("text", "place"),
    [("sales.orders", "/tables/{table}/"), ("orders v2", "/tables/{table}/history/2/"), ("{job}", "/jobs/{job}/")],
)  # fmt: skip
def test_a_search_with_one_result_opens_it(client_for, lake, text, place):
    named = {"table": lake.table.pk, "job": lake.job.pk}
    response = client_for("viewer").get("/search/", {"q": text.format(**named)})
    assert response.status_code == 302
    assert response["Location"] == place.format(**named)


def test_a_search_that_finds_nothing_says_so(client_for, lake):
    assert "Nothing found" in client_for("viewer").get("/search/?q=zzzz").content.decode()


def test_the_overview_names_the_items_that_need_attention(client_for, lake):
    failed = {"state": "failed", "finished_at": timezone.now()}
    make_job(lake.table, "append", error_message="4 rows do not fit.", **failed)
    make_table("web.events", file_count=100, small_file_count=80)
    make_table("web.visits", size_bytes=100, vacuum_bytes=2**30)
    body = client_for("viewer").get("/").content.decode()
    assert "APPEND on " in body
    assert "4 rows do not fit." in body
    assert "80 % of the files of " in body
    assert "VACUUM can delete 1 GiB of " in body


def test_a_schedule_says_its_words_and_its_next_five_runs(client_for, lake):
    client = client_for("owner")
    form = client.get(f"/schedules/new/?table={lake.table.pk}").text
    assert "Every day at 03:00 UTC" in form
    assert form.count("<time") >= 5
    htmx = {"HX-Request": "true"}
    typed = client.get("/schedules/new/?cron=0+2+*+*+1-5", headers=htmx).text
    assert "Mondays to Fridays at 02:00 UTC" in typed
    assert (
        "This is not a complete schedule"
        in client.get("/schedules/new/?cron=0+2", headers=htmx).text
    )
    assert client.get("/schedules/new/?cron=", headers=htmx).status_code == 200
    assert client_for("viewer").get("/schedules/new/?cron=0+2", headers=htmx).status_code == 403
    owner = User.objects.get(username="owner")
    Schedule.objects.create(
        name="n", cron="0 3 * * *", kind="optimize", owner=owner, table=lake.table,
        next_due_at=timezone.now(),
    )  # fmt: skip
    listed = client.get("/schedules/").text
    assert "next five" in listed
    assert listed.split("next five")[1].split("</details>")[0].count("<time") == 5


def test_the_runs_of_a_schedule_are_drawn_by_their_outcome_and_the_time_they_took(client_for, lake):
    owner, now = User.objects.get(username="owner"), timezone.now()
    made = Schedule.objects.create(
        name="n", cron="0 3 * * *", kind="optimize", owner=owner, table=lake.table
    )
    for minutes in (1, 2, 4, None):
        ended = None if minutes is None else now + timedelta(minutes=minutes)
        make_job(lake.table, schedule=made, started_at=now, finished_at=ended)
    row = client_for("owner").get("/schedules/").text.partition('class="outcomes')[2]
    runs = row.partition('class="sub"')[0].split("<a ")[1:]
    drawn = [re.findall(r'class="fill" width="([\d.]+%)"', run) for run in runs]
    assert drawn == [["25%"], ["50%"], ["100%"], []]
