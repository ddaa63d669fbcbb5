"""Concurrency pages: the swim-lane, the matrix, eligibility, what-if, files and differences."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from lakeui.catalog.models import Commit, LiveFile, Table
from lakeui.conflicts.lanes.bars import LaneBar, ResolvedLink
from lakeui.conflicts.lanes.swim_lane import SwimLane
from lakeui.jobs.models import Job, JobAttempt, Schedule
from lakeui.pages.charts.swim import MAX_LANES, MAX_TRACKS, REST, draw_swim_lane
from tests.lakeui.factories import make_commit, make_table

NOW = timezone.now()


def bar(version, read, lane="etl", **fields):
    return LaneBar(
        **{
            "lane": lane, "operation": "MERGE", "outcome": "committed", "version": version,
            "read_version": read, "started_at": NOW - timedelta(minutes=40 - (read or 0)),
            "started_is_estimated": False, "finished_at": NOW - timedelta(minutes=40 - (version or 30)),
            "isolation_level": "", "is_blind_append": None,
        } | fields
    )  # fmt: skip


def bar_of_abort(conflict, read, winner, lane="other"):
    return bar(None, read, lane, outcome="aborted", conflict_id=conflict, winning_version=winner)


def draw_lanes(bars, joints=(), running=(), **how):
    data = SwimLane(
        first=1, last=30, lanes=(), bars=tuple(bars), joints=tuple(joints), reordered=(),
        running=tuple(running),
    )  # fmt: skip
    how = {"by_time": False, "by_operation": False} | how
    return draw_swim_lane(data, now=NOW, **how)


def test_a_bar_spans_the_read_version_to_the_committed_version():
    [one] = draw_lanes([bar(20, 10)]).bars
    [shorter] = draw_lanes([bar(20, 19)]).bars
    assert one.end_x == pytest.approx(shorter.end_x)
    assert one.width == pytest.approx(10 * shorter.width)


def test_a_loser_ends_at_its_winner_with_an_arrow_to_it():
    chart = draw_lanes([bar(20, 18), bar_of_abort(1, 15, 20)])
    loser = next(shape for shape in chart.bars if shape.shape == "lost")
    winner = next(shape for shape in chart.bars if shape.shape == "solid")
    assert loser.end_x == pytest.approx(winner.end_x)
    [link] = chart.aborted_links
    assert link.x == pytest.approx(winner.end_x)


def test_a_resolved_conflict_is_a_joint_on_the_bar_that_resolved_it():
    chart = draw_lanes([bar(12, 10, "a"), bar(20, 8, "b")], [ResolvedLink(5, 20, 12, "data_added")])
    [(x, y, _)] = chart.joints
    resolving = next(shape for shape in chart.bars if shape.key == "v20")
    assert y == resolving.y
    assert resolving.x < x < resolving.end_x


def test_overlapping_bars_are_on_separate_tracks():
    chart = draw_lanes([bar(20, 10), bar(21, 12), bar(22, 21)])
    tracks = {shape.key: shape.y for shape in chart.bars}
    assert tracks["v20"] != tracks["v21"]
    assert chart.lanes[0].tracks == 2


def test_values_that_do_not_fit_are_counted_and_not_dropped_silently():
    chart = draw_lanes([bar(20 + n, 2) for n in range(MAX_TRACKS + 3)])
    assert len(chart.bars) == MAX_TRACKS
    assert chart.hidden == 3


def test_many_writers_share_the_last_lane():
    chart = draw_lanes([bar(n + 2, n + 1, f"writer-{n}") for n in range(25)])
    assert len(chart.lanes) == MAX_LANES
    assert chart.lanes[-1].name == REST
    assert len(chart.bars) + chart.hidden == 25


def test_an_unrecorded_start_is_marked():
    [one] = draw_lanes([bar(20, None)]).bars
    assert one.is_estimated


@pytest.mark.parametrize("by_time", [True, False])
def test_a_bar_that_took_no_time_has_no_negative_part(by_time):
    at = NOW - timedelta(minutes=9)
    short = bar(20, None, started_at=at, finished_at=at, started_is_estimated=True)
    chart = draw_lanes([bar(1, 0), short], by_time=by_time)
    assert [shape.is_estimated for shape in chart.bars] == [False, True]
    assert all(shape.sure_width >= 0 for shape in chart.bars)


@pytest.mark.parametrize("by_time", [True, False])
def test_everything_stays_inside_the_chart(by_time):
    bars = [bar(n, max(n - 9, 0), f"w{n % 4}") for n in range(1, 31)] + [bar_of_abort(1, 3, 17)]
    running = [bar(None, 25, "ops", outcome="running", job_id="x", percent=40, finished_at=None)]
    chart = draw_lanes(bars, running=running, by_time=by_time)
    assert all(0 <= shape.x <= 100 and shape.end_x <= 100 for shape in chart.bars)
    assert all(shape.y < chart.bottom for shape in chart.bars)


def test_an_empty_span_draws_nothing_and_does_not_fail():
    assert draw_lanes([]).bars == ()


def test_a_running_job_is_drawn_up_to_now(client_for, lake):
    JobAttempt.objects.all().delete()
    JobAttempt.objects.create(job=lake.job, number=2, started_at=NOW, read_version=2)
    body = client_for("viewer").get(f"/tables/{lake.table.pk}/concurrency/").content.decode()
    assert "1 running" in body
    assert "t-now" in body


def test_a_picked_transaction_shows_its_overlaps(client_for, lake):
    path = f"/tables/{lake.table.pk}/concurrency/"
    body = client_for("viewer").get(path, {"pick": "v3"}).content.decode()
    assert "became v3" in body
    assert (
        "aborted by v3"
        in client_for("viewer").get(path, {"pick": f"c-{lake.conflict.pk}"}).content.decode()
    )


def test_the_matrix_marks_the_effects_of_a_setting(client_for, lake):
    path = f"/tables/{lake.table.pk}/isolation/"
    as_it_is = client_for("viewer").get(path).content.decode()
    preview = client_for("viewer").get(path, {"level": "Serializable"}).content.decode()
    assert "is-changed" not in as_it_is
    assert "is-changed" in preview
    assert "This changes the metadata" in preview


def test_a_setting_is_offered_as_a_job_only_to_people_who_may_run_it(client_for, lake):
    path = f"/tables/{lake.table.pk}/isolation/?level=Serializable"
    assert "Set as a job" in client_for("owner").get(path).content.decode()
    assert "Set as a job" not in client_for("viewer").get(path).content.decode()


def test_a_setting_posted_from_its_page_is_understood(client_for, lake):
    fields = {
        "table": lake.table.pk, "kind": "set_properties", "step": "check",
        "parameters": '{"properties": {"delta.isolationLevel": "Serializable"}}',
    }  # fmt: skip
    body = client_for("owner").post("/jobs/new/", fields).content.decode()
    assert "statement recognized" in body
    assert "delta.isolationLevel = Serializable</textarea>" in body  # to be changed further


def test_a_command_that_fields_cannot_say_is_understood_all_the_same(client_for, lake):
    fields = {
        "table": lake.table.pk, "kind": "append", "step": "check",
        "parameters": '{"source": {"kind": "table", "table": "sales.orders"}}',
    }  # fmt: skip
    assert "statement recognized" in client_for("owner").post("/jobs/new/", fields).content.decode()


def test_files_are_summed_by_partition_with_the_largest_first(client_for, lake):
    Table.objects.update(partition_columns=["day"])
    LiveFile.objects.all().delete()
    for day, size in (("1", 10), ("2", 30), ("2", 40)):
        LiveFile.objects.create(
            table=lake.table, path=f"{day}-{size}", size_bytes=size, partition_values={"day": day},
            row_count=100, deleted_row_count=size,
        )  # fmt: skip
    body = client_for("viewer").get(f"/tables/{lake.table.pk}/files/").content.decode()
    assert body.index("day=2") < body.index("day=1")
    assert "1 to 3 of 3 files" in body


def test_two_ticked_versions_lead_to_their_difference(client_for, lake):
    response = client_for("viewer").get(f"/tables/{lake.table.pk}/diff/?v=3&v=1")
    assert response["Location"] == f"/tables/{lake.table.pk}/diff/1...3/"


def test_a_difference_shows_properties_that_changed(client_for, lake):
    metadata = (
        '{"metaData": {"id": "x", "schemaString": "{\\"type\\":\\"struct\\",\\"fields\\":[]}",'
        ' "configuration": {"a": "1"}}}'
    )
    lake.table.commits.filter(version=0).update(changes_metadata=True, raw=metadata)
    lake.table.commits.filter(version=2).update(changes_metadata=True)
    Table.objects.update(properties={"a": "2"})
    body = client_for("viewer").get(f"/tables/{lake.table.pk}/diff/1...3/").content.decode()
    lines = " ".join(body.replace("<", " <").split())
    assert '<tr class="del"> <td>\N{MINUS SIGN} </td> <td>a = 1 </td>' in lines
    assert '<tr class="add"> <td>+ </td> <td>a = 2 </td>' in lines


def test_an_unmirrored_definition_is_not_guessed(client_for, lake):
    lake.table.commits.filter(version=2).update(changes_metadata=True, raw="")
    body = client_for("viewer").get(f"/tables/{lake.table.pk}/diff/1...3/").content.decode()
    assert "does not hold the commit that defined v1" in body


def test_a_schedule_is_made_rests_and_is_removed(client_for, lake):
    client = client_for("owner")
    fields = {
        "table": lake.table.pk, "name": "nightly", "cron": "0 3 * * *", "retries": "1",
        "sql": "OPTIMIZE sales.orders",
    }  # fmt: skip
    assert client.post("/schedules/new/", fields)["Location"] == "/schedules/"
    schedule = Schedule.objects.get()
    assert schedule.time_limit_s == 0
    client.post(f"/schedules/{schedule.pk}/edit/", fields | {"time_limit": "90"})
    schedule.refresh_from_db()
    assert schedule.time_limit_s == 5400
    client.post(f"/schedules/{schedule.pk}/", {"act": "rest"})
    schedule.refresh_from_db()
    assert not schedule.enabled
    client.post(f"/schedules/{schedule.pk}/", {"act": "remove"})
    assert not Schedule.objects.exists()


def test_a_schedule_is_deleted_only_after_a_question(client_for, lake, people):
    made = Schedule.objects.create(
        name="nightly", table=lake.table, cron="0 3 * * *", kind="optimize", owner=people["owner"]
    )
    listed = client_for("owner").get("/schedules/?owner=owner").content.decode()
    assert f'href="?owner=owner&amp;remove={made.pk}"' in listed
    assert 'value="remove"' not in listed
    asked = client_for("owner").get(f"/schedules/?remove={made.pk}").content.decode()
    assert "Remove nightly?" in asked
    assert 'value="remove"' in asked
    assert (
        "Remove nightly?"
        not in client_for("viewer").get(f"/schedules/?remove={made.pk}").content.decode()
    )


@pytest.mark.parametrize("fault", [{"cron": "never"}, {"sql": "OPTIMISE it"}, {"name": ""}])
def test_a_schedule_that_cannot_be_is_refused(client_for, lake, fault):
    fields = {
        "table": lake.table.pk, "name": "nightly", "cron": "0 3 * * *", "retries": "1",
        "sql": "OPTIMIZE sales.orders",
    } | fault  # fmt: skip
    assert client_for("owner").post("/schedules/new/", fields).status_code == 400
    assert not Schedule.objects.exists()


def test_a_viewer_cannot_touch_a_schedule(client_for, lake, people):
    schedule = Schedule.objects.create(
        name="nightly", table=lake.table, cron="0 3 * * *", kind="optimize", owner=people["owner"]
    )
    assert (
        client_for("viewer").post(f"/schedules/{schedule.pk}/", {"act": "remove"}).status_code
        == 403
    )
    assert (
        client_for("stranger").post(f"/schedules/{schedule.pk}/", {"act": "remove"}).status_code
        == 404
    )
    assert client_for("viewer").get("/schedules/new/").status_code == 403


def test_monitoring_names_the_faults(client_for, lake):
    Table.objects.update(mirror_error_code="LAKE_STORAGE_ERROR", mirror_failed_at=NOW)
    body = client_for("viewer").get("/monitoring/").content.decode()
    assert "cannot be read" in body
    assert "Asking the database and the broker" in body


def test_the_broker_is_checked_in_a_fragment(client_for, lake):
    response = client_for("viewer").get("/monitoring/?ask=workers", headers={"HX-Request": "true"})
    assert "<html" not in response.content.decode()
    assert "Database" in response.content.decode()


def test_a_table_without_history_has_empty_pages_that_say_so(client_for, db):
    table = make_table("bare.table", version=0, file_count=0, size_bytes=0)
    make_commit(table, 0, "CREATE TABLE", files_added=0)
    for page in ("concurrency", "isolation", "eligibility", "what-if", "files"):
        assert client_for("viewer").get(f"/tables/{table.pk}/{page}/").status_code == 200


def test_jobs_that_end_do_not_run_on(client_for, lake):
    Job.objects.update(state=Job.State.SUCCEEDED)
    body = client_for("viewer").get(f"/tables/{lake.table.pk}/concurrency/").content.decode()
    assert "0 running" in body


def test_a_version_that_read_an_empty_place_is_drawn_and_listed(client_for, lake):
    lake.table.commits.filter(version=0).update(read_version=-1)
    for page in ("history/", "history/0/", "concurrency/", "concurrency/?pick=v0", "what-if/"):
        response = client_for("viewer").get(f"/tables/{lake.table.pk}/{page}")
        assert response.status_code == 200
    assert (
        "no table yet"
        in client_for("viewer").get(f"/tables/{lake.table.pk}/history/0/").content.decode()
    )


def test_thousands_of_versions_are_summed_and_each_cell_opens_its_own(client_for, lake):
    table = lake.table
    Commit.objects.filter(table=table).delete()
    Commit.objects.bulk_create(
        Commit(table=table, version=n, operation="WRITE", user_name=f"writer-{n % 30}")
        for n in range(3000)
    )
    table.version, lake.conflict.winning_version = 2999, 1500
    table.save()
    lake.conflict.save()
    client = client_for("viewer")
    body = client.get(f"/tables/{table.pk}/concurrency/?span=3000").content.decode()
    assert "v0 to v2999" in body
    assert "3,000 versions, by 75; 1 attempt aborted" in body
    assert "others" in body
    assert 'href="?span=120&amp;last=1499"' in body
    assert "writer=writer-7" in body
    twin = re.search(r'href="([^"]+)" title="This page as JSON"', body)[1].replace("&amp;", "&")
    answer = client.get(twin).json()
    assert answer["all"]["commits"] == 3000
    assert sum(lane["commits"] for lane in answer["lanes"]) == 3000
    assert {len(lane["buckets"]) for lane in answer["lanes"]} == {40}
