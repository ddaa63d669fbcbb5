"""A pipeline's conflict is shown like a job's: both sides, its real start, its name as the writer."""

from datetime import timedelta

import pytest
from django.utils import timezone

from lakeui.conflicts.lanes.path import lane_path
from lakeui.conflicts.lanes.sums import lane_sums
from lakeui.conflicts.lanes.swim_lane import swim_lane
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.version_effects import count_resolved_by_version, effects_of
from tests.lakeui.conflicts.pipelines import Program, take
from tests.lakeui.people import grant, person

pytestmark = pytest.mark.django_db


@pytest.fixture
def program(tmp_path, settings):
    settings.TABLE_ROOTS = [str(tmp_path)]
    return Program(tmp_path / "orders")


@pytest.fixture
def reader(client):
    client.force_login(person("ann", "viewer"))
    return client


@pytest.fixture
def abort(program):
    take(program.abort_events())
    return Conflict.objects.get()


@pytest.fixture
def resolution(program):
    take(program.resolve_events())
    return Conflict.objects.get()


def bar(lane, key):
    return next(bar for bar in lane.all if bar.key == key)


def test_its_page_names_the_pipeline_its_machine_and_its_statement(reader, abort):
    body = reader.get(f"/conflicts/{abort.pk}/").text
    assert "pipeline nightly" in body
    assert "nightly, attempt 1 on etl-3 as ada" in " ".join(body.split())
    assert "x &lt; 3" in body or "x < 3" in body
    assert "ConcurrentDeleteReadException" in body
    side = reader.get(f"/api/v1/conflicts/{abort.pk}/").json()["current"]
    assert side["pipeline"] == {"name": "nightly", "host": "etl-3", "user": "ada", "attempt": 1}
    assert side["statement_is_whole"]
    assert side["job"] is None
    assert side["read_at"] < side["ended_at"]


def test_a_statement_that_names_a_table_they_may_not_see_is_not_shown(client, abort, program):
    guest = person("guest")
    grant(guest, program.table, "viewer")
    client.force_login(guest)
    shown = client.get(f"/api/v1/conflicts/{abort.pk}/").json()["current"]
    assert shown["statement"] == "DELETE FROM sales.orders WHERE x < 3"
    row = abort.transaction
    row.statement = "DELETE FROM sales.orders WHERE x IN (SELECT id FROM secret.salaries)"
    row.save()
    hidden = client.get(f"/api/v1/conflicts/{abort.pk}/").json()["current"]
    assert "secret" not in str(hidden)
    assert hidden["statement_is_whole"] is False


def test_the_winning_side_is_a_pipeline_too(reader, program):
    take(program.resolve_events())
    landed = Conflict.objects.get()
    take(program.abort_events())
    later = Conflict.objects.get(kind="aborted")
    later.winning_version = landed.attempted_version
    later.facts["winner"]["txn_id"] = landed.transaction.txn_id
    later.save()
    side = reader.get(f"/api/v1/conflicts/{later.pk}/").json()["winner"]
    assert side["pipeline"]["name"] == "nightly"
    assert side["statement"] == "DELETE FROM sales.orders WHERE x < 3"


def test_its_page_leads_to_the_version_that_a_later_attempt_committed(reader, program):
    run = {"run_id": "one"}
    take([event | run for event in program.abort_events()])
    lost = Conflict.objects.get()
    assert reader.get(f"/api/v1/conflicts/{lost.pk}/").json()["landed"] is None
    take([event | run | {"attempt": 2} for event in program.resolve_events()])
    landed = reader.get(f"/api/v1/conflicts/{lost.pk}/").json()["landed"]
    version = program.lake.version()
    assert landed == {"version": version, "job_id": None, "is_same_job": True}
    body = " ".join(reader.get(f"/conflicts/{lost.pk}/").text.split())
    assert f"retried as v{version}" in body


def test_lists_show_it_and_are_narrowed_by_its_name(reader, abort):
    for address in ("/conflicts/", "/conflicts/?user=nightly", "/conflicts/?user=pipeline+nightly"):
        assert "pipeline nightly" in reader.get(address).text
    items = reader.get("/api/v1/conflicts/?user=nightly").json()["items"]
    assert [(row["id"], row["pipeline"]) for row in items] == [(abort.pk, "nightly")]
    assert reader.get("/api/v1/conflicts/?user=hourly").json()["items"] == []


def test_a_lost_attempt_is_in_its_pipelines_lane_from_its_real_start(abort, program):
    shown = bar(swim_lane(program.table), f"c-{abort.pk}")
    assert shown.lane == "pipeline nightly"
    assert shown.pipeline == "nightly"
    assert shown.started_at == abort.transaction.started_at
    assert not shown.started_is_estimated
    assert shown.took_ms >= 40_000


def test_a_version_is_in_its_pipelines_lane_from_its_real_start(resolution, program, reader):
    version = resolution.attempted_version
    lane = swim_lane(program.table)
    shown = bar(lane, f"v{version}")
    assert (shown.lane, shown.resolved) == ("pipeline nightly", (2,))
    assert shown.started_at == resolution.transaction.started_at
    assert not shown.started_is_estimated
    assert [joint.version for joint in lane.joints] == [version]
    assert "pipeline nightly" in [lane.name for lane in lane_sums(program.table, 0, version).lanes]
    body = reader.get(f"/tables/{program.table.pk}/concurrency/?pick=v{version}").text
    assert "pipeline nightly" in " ".join(body.split())
    path = lane_path(program.table, lane, f"v{version}")
    assert path is not None
    assert [step.verdict for step in path.steps] == ["resolved"]


def test_the_version_lists_the_overlaps_it_resolved(resolution, program):
    version = resolution.attempted_version
    assert [row.pk for row in effects_of(program.table, version).resolved] == [resolution.pk]
    assert count_resolved_by_version(program.table, 0, version) == {version: 1}
    assert effects_of(program.table, 2).passed[0].became == version


def test_its_losses_count_where_a_report_of_the_pair_is_explained(reader, abort):
    text = (
        f"ConcurrentDeleteReadException: This transaction attempted to read one or more files that "
        f'were deleted by a concurrent update. Conflicting commit: {{"version":{abort.winning_version},'
        f'"operation":"UPDATE","txnId":"{abort.facts["winner"]["txn_id"]}"}}'
    )
    told = reader.post(
        "/api/v1/conflicts/explain/", {"text": text}, content_type="application/json"
    ).json()
    assert told["table"] == "sales.orders"
    assert told["pair"]["aborted"] == 1


def test_a_pipeline_that_reports_late_keeps_its_times(program):
    events = program.abort_events()
    then = timezone.now() - timedelta(days=3)
    for event in events:
        event |= {"at": then.isoformat(), "started_at": (then - timedelta(hours=1)).isoformat()}
    take(events)
    conflict = Conflict.objects.get()
    assert conflict.occurred_at == then
    assert conflict.wasted_ms == 3_600_000
