"""The swim-lane's page: labels that never overlap, filters, the strip, the table and its files."""

import csv
import html
import itertools
import json
import re
from datetime import timedelta

import pytest
from django.utils import timezone

from lakeui.catalog.models import Commit, CommitFile
from lakeui.conflicts.lanes.bars import BarEnd, LaneBar
from lakeui.conflicts.lanes.swim_lane import Navigator, NavigatorBucket
from lakeui.jobs.models import JobAttempt
from lakeui.pages.charts.lanes import draw_strip
from lakeui.pages.charts.swim_shapes import labels_for
from tests.lakeui.factories import make_commit, make_conflict

NARROW = 900


@pytest.fixture
def path(lake):
    return f"/tables/{lake.table.pk}/concurrency/"


def _body(client, path, **query):
    return client.get(path, query).content.decode()


def _rows(body):
    return re.findall(r"<tr.*?</tr>", body.partition('aria-labelledby="twin"')[2], re.DOTALL)[1:]


def _extent(label, width):
    length = len(label.text) * 6.1 * 100 / width
    begin = {"above": label.x, "before": label.x - length, "beside": label.x + 1}[label.place]
    return begin, begin + length


@pytest.mark.parametrize("width", [NARROW, 2_200])
def test_labels_of_a_track_never_overlap(width):
    words = ("47 k rows", "3 rows in 1 file", "retention 7 → 14 days", "1,871 rows")
    bars = [(n * 3.4, n * 3.4 + 3.4 * (n % 3 + 1) / 3, words[n % 4]) for n in range(28)]
    shown = [label for label in labels_for(bars, width) if label and not label.is_spare]
    assert shown
    extents = [_extent(label, width) for label in shown]
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(extents))
    assert all(begin >= 0 and end <= 100 for begin, end in extents)


def test_a_label_without_room_is_left_to_the_wide_screen_or_out():
    [tight, _] = labels_for([(0, 5, "47 k rows"), (5, 9, "")], NARROW)
    [never, _] = labels_for([(0, 1, "a very long label indeed"), (1, 2, "")], NARROW)
    assert tight.is_spare
    assert never is None


def test_the_window_on_the_strip_is_at_the_times_of_its_versions():
    start = timezone.now()
    drawn = Navigator(
        start=start,
        end=start + timedelta(hours=24),
        is_day=True,
        is_capped=False,
        passages=(NavigatorBucket(start + timedelta(hours=12), 5, 9, 5, 2),),
    )
    strip = draw_strip(drawn, start + timedelta(hours=12), start + timedelta(hours=18))
    assert (strip.window_x, strip.window_width) == (50, 25)
    [tick] = strip.ticks
    assert (tick.last, tick.height) == (9, 21)
    assert strip.window_x < tick.cross_x < strip.window_x + 2


def test_chart_and_table_use_the_same_filters_and_the_counts_stay(client_for, lake, path):
    body = _body(client_for("viewer"), path, outcome="aborted")
    assert len(_rows(body)) == 1
    assert body.count("aborted by v3") >= 1
    assert "Aborted <small>1</small></a>" in body
    assert "All <small>6</small></a>" in body
    assert "outcome <b>aborted</b>" in body
    assert body.count('class="bar-lost"') == 2  # the bar, and the legend's


@pytest.mark.parametrize("outcome", ["aborted", "resolved"])
def test_page_and_rest_are_narrowed_to_one_outcome(client_for, lake, path, outcome):
    client = client_for("viewer")
    assert f"outcome <b>{outcome}</b>" in _body(client, path, outcome=outcome)
    answer = client.get(f"/api/v1{path}", {"outcome": outcome}).json()
    assert len(answer["bars"]) == answer["counts"][outcome]


@pytest.mark.parametrize("across", ["", "time"])
def test_a_narrowed_chart_keeps_the_times_of_all_versions(client_for, lake, path, across):
    client = client_for("viewer")
    times = [
        re.findall(r'<text class="t-mono mid[^>]*>([^<]*\d\d:\d\d)<', _body(client, path, **query))
        for query in ({"x": across}, {"outcome": "aborted", "x": across})
    ]
    assert times[0]
    assert times[0] == times[1]


def test_a_filter_that_nothing_matches_leads_back(client_for, path):
    body = _body(client_for("viewer"), path, writer="nobody")
    assert "None of these transactions matches" in body
    assert 'class="pager"' in body


@pytest.mark.parametrize("query", [{"outcome": "splendid"}, {"page": "99"}, {"export": "xlsx"}])
def test_an_absent_selection_is_not_found(client_for, path, query):
    assert client_for("viewer").get(path, query).status_code == 404


def test_each_filter_of_the_lanes_can_be_removed(client_for, lake, path):
    client = client_for("viewer")
    answer = client.get(path, {"export": "csv", "outcome": "aborted"})
    [row] = csv.DictReader(b"".join(answer.streaming_content).decode().splitlines())
    assert (row["outcome"], row["winning_version"]) == ("aborted", "3")
    answer = client.get(path, {"export": "json"})
    rows = json.loads(b"".join(answer.streaming_content))
    assert [line["outcome"] for line in rows][:2] == ["running", "aborted"]


def test_running_transactions_stand_on_top_with_their_forecast(client_for, lake, path):
    first = _rows(_body(client_for("viewer"), path))[0]
    assert "running, 44 %" in first
    assert "1 version to check when it commits" in first


def test_a_long_window_is_paged(client_for, lake, path):
    for version in range(4, 100):
        make_commit(lake.table, version)
    lake.table.version = 99
    lake.table.save()
    client = client_for("viewer")
    body = _body(client, path, span=120)
    assert "1 to 60 of 102 in this window" in body
    assert len(_rows(_body(client, path, span=120, page=2))) == 42


def test_a_link_to_an_old_transaction_opens_the_versions_around_it(client_for, lake, path):
    for version in range(4, 100):
        make_commit(lake.table, version)
    lake.table.version = 99
    lake.table.save()
    client, key = client_for("viewer"), f"c-{lake.conflict.pk}"
    answer = client.get(path, {"pick": key}, follow=True)
    assert answer.redirect_chain == [(f"{path}?pick={key}&last=13", 302)]
    body = answer.content.decode()
    assert "v0 to v13" in body  # its winning commit, v3, and a third of the usual span
    assert '<h2 id="picked">price-fixer' in body
    assert client.get(path, {"pick": "v50"})["Location"] == f"{path}?pick=v50&last=60"
    assert client.get(path, {"pick": "v80"}).status_code == 200
    assert f"{key} is not a transaction" in _body(client, path, pick=key, last=99)


def test_a_bucket_of_the_strip_moves_the_window(client_for, lake, path):
    body = _body(client_for("viewer"), path, by="operation")
    assert 'href="?by=operation&amp;last=2"' in body


def test_a_fragment_is_sent_only_when_something_changed(client_for, lake, path):
    client = client_for("viewer")
    panel = _body(client, path).partition('id="lanes-now"')[2]
    assert f'hx-get="{path}"' in panel
    seen = json.loads(re.search(r"hx-headers='([^']+)'", panel)[1])
    asks = {"HX-Request": "true"} | seen
    assert client.get(path, headers=asks).status_code == 204
    make_conflict(lake.table, winning_version=3)
    fragment = client.get(path, headers=asks)
    assert "<html" not in fragment.content.decode()
    assert "2 aborted" in fragment.content.decode()
    JobAttempt.objects.all().delete()
    assert "hx-get" not in _body(client, path).partition('id="lanes-now"')[2].partition(">")[0]


def test_without_times_one_still_moves_on(client_for, lake, path):
    Commit.objects.filter(table=lake.table).update(committed_at=None)
    body = _body(client_for("viewer"), path, span=15, last=2)
    assert "No version here has a known time" in body
    assert 'data-key="next"' in body


def test_the_what_if_links_name_their_effect(client_for, lake, path):
    commit = Commit.objects.get(table=lake.table, version=3)
    commit.raw = commit.raw.replace('"readVersion": 2', '"readVersion": 1')
    commit.save()
    body = _body(client_for("viewer"), path)
    assert (
        f"/tables/{lake.table.pk}/what-if/?level=Serializable&amp;row_level=true&amp;span=50"
        in body
    )
    assert "undecidable" in body.partition("What if")[2].partition("</span>\n</div>")[0]


def test_a_partitioned_table_can_be_narrowed_to_a_partition(client_for, lake, path):
    lake.table.partition_columns = ["day"]
    lake.table.save()
    CommitFile.objects.update(partition_values={"day": "1"})
    body = _body(client_for("viewer"), path, partition="day=1")
    assert [re.search(r">v(\d)<", row)[1] for row in _rows(body)] == ["3"]
    assert 'name="partition"' in body


def test_the_twin_has_the_contents_of_the_page(client_for, lake, path):
    client = client_for("viewer")
    lake.conflict.read_version = 1
    lake.conflict.save()
    query = {"outcome": "aborted", "pick": f"c-{lake.conflict.pk}"}
    body = _body(client, path, **query)
    twin = html.unescape(re.search(r'href="([^"]+)" title="This page as JSON"', body)[1])
    answer = client.get(twin).json()
    assert answer["counts"]["all"] == 6
    [lost] = answer["bars"]
    assert (lost["key"], lost["ending"]) == (
        query["pick"], "ConcurrentDeleteReadException: 3 rows in 1 file",
    )  # fmt: skip
    assert answer["picked"]["steps"][-1]["result"] == "conflict"
    assert {setting["name"] for setting in answer["other_settings"]} == {
        "Serializable",
        "No row-level",
    }
    assert sum(passage["commits"] for passage in answer["around"]["passages"]) == 4


def test_a_bar_is_named_by_its_outcome():
    given = {
        "lane": "a", "operation": "WRITE", "outcome": BarEnd.RUNNING, "version": None,
        "read_version": 1, "started_at": None, "started_is_estimated": False, "finished_at": None,
        "isolation_level": "", "is_blind_append": None, "job_id": "x",
    }  # fmt: skip
    assert LaneBar(**given).key == "j-x"
    assert LaneBar(**given | {"version": 4}).key == "v4"
    assert LaneBar(**given | {"outcome": "reported", "conflict_id": 7}).key == "c-7"


def test_sums_are_of_the_requested_writer(client_for, lake, path):
    client = client_for("viewer")
    body = _body(client, path, span=3000, writer="etl-nightly")
    assert "0 attempts aborted" in body
    twin = html.unescape(re.search(r'href="([^"]+)" title="This page as JSON"', body)[1])
    sums = client.get(twin).json()
    assert [(line["name"], line["commits"]) for line in sums["lanes"]] == [("etl-nightly", 4)]
    assert "1 attempt aborted" in _body(client, path, span=3000)
    answer = client.get(path, {"span": 3000, "export": "csv"})
    rows = csv.DictReader(b"".join(answer.streaming_content).decode().splitlines())
    lost = [row for row in rows if row["aborted"] == "1"]
    assert [(row["lane"], row["first"], row["commits"]) for row in lost] == [
        ("price-fixer", "3", "0")
    ]


def test_sums_of_a_writer_that_wrote_nothing_lead_back(client_for, path):
    body = _body(client_for("viewer"), path, span=3000, writer="nobody")
    assert "None of these versions matches" in body
