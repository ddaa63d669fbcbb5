"""Pages with nothing to show or with an error: each has its own text."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from lakeui.catalog.models import Commit, Preview, Table
from lakeui.jobs.models import Job
from lakeui.pages import errors
from tests.lakeui.factories import make_commit, make_job, make_table
from tests.lakeui.page_client import PageClient as Client

pytestmark = pytest.mark.django_db


def words(response):
    text = re.sub(r"<[^>]+>", " ", response.content.decode())
    return re.sub(r"\s+", " ", text).replace("&#x27;", "'")


def test_a_list_without_matches_names_the_rows_each_filter_hides_and_offers_the_best_first(
    client_for, lake
):
    response = client_for("viewer").get(
        f"/tables/{lake.table.pk}/history/?operation=MERGE&user=nobody&range=30d"
    )
    body = words(response)
    assert "Nothing matches 2 filters 4 versions in this list, and no version is left" in body
    assert "Without nobody there is 1, without MERGE there are 0." in body
    assert body.index("Remove nobody") < body.index("Remove MERGE")
    assert 'href="?operation=MERGE&amp;range=30d">Remove nobody' in response.content.decode()


def test_no_conflicts_names_two_ways_to_report_one(client_for):
    make_table()
    body = words(client_for("viewer").get("/conflicts/"))
    assert "No conflicts yet" in body
    assert "Paste an error Report from a pipeline" in body


def test_a_version_without_a_read_version_says_which_engine_left_it_out(client_for, lake):
    commit = make_commit(
        lake.table, 4, read_version=None, isolation_level="", engine_info="delta-rs:1.6"
    )
    Table.objects.update(version=4)
    body = words(client_for("viewer").get(f"/tables/{lake.table.pk}/history/4/"))
    assert "Not recorded by that engine delta-rs:1.6 wrote no read version and no isolation" in body
    Commit.objects.filter(pk=commit.pk).update(read_version=3)
    told = words(client_for("viewer").get(f"/tables/{lake.table.pk}/history/4/"))
    assert "Not recorded by that engine" not in told


def test_a_missing_role_names_the_people_who_can_give_it(client_for):
    response = client_for("viewer").get("/tables/register/")
    assert response.status_code == 403
    body = words(response)
    assert "You are viewer. Nothing was changed." in body
    assert "Who can grant it owner is admin here" in body


def test_no_person_is_named_to_a_visitor():
    strict = Client(enforce_csrf_checks=True)
    response = strict.post("/login/", {"username": "x", "password": "y"})
    assert response.status_code == 403
    assert "This form is too old" in words(response)
    assert "Who can grant it" not in words(response)


def test_an_unreachable_table_says_its_tries_and_when_the_next_is(client_for, lake, settings):
    now = timezone.now()
    Table.objects.update(
        mirror_error_code="LAKE_STORAGE_ERROR", mirror_error="403.", mirror_failed_at=now,
        mirror_tried_at=now - timedelta(seconds=2), mirror_tries=38,
    )  # fmt: skip
    body = words(client_for("owner").get(f"/tables/{lake.table.pk}/"))
    assert ", 38 tries. Last try" in body
    assert "next in 14 min" in body
    Table.objects.update(mirror_tried_at=now - timedelta(hours=1))
    assert "the next is due" in words(client_for("owner").get(f"/tables/{lake.table.pk}/"))


def test_a_cleaned_version_leads_to_its_mirrored_changes(client_for, lake):
    Preview.objects.create(
        table=lake.table, version=1, asked_at=timezone.now(), read_at=timezone.now(),
        error_code="DELTA_VERSION_NOT_FOUND", error_message="Its log was cleaned up.",
    )  # fmt: skip
    response = client_for("viewer").get(f"/tables/{lake.table.pk}/preview/?version=1")
    assert "Version 1 can no longer be read Its log was cleaned up." in words(response)
    assert f"/tables/{lake.table.pk}/history/1/" in response.content.decode()


def test_a_page_that_failed_gives_its_request_id_and_a_way_to_try_again(rf):
    response = errors.server_error(rf.get("/tables/?q=x"))
    assert response.status_code == 500
    assert 'href="/tables/?q=x"' in response.content.decode()
    assert "Try again" not in errors.server_error(rf.post("/jobs/new/")).content.decode()


def test_read_only_is_shown_on_every_page(client_for, lake, settings):
    settings.READ_ONLY = True
    for path in ("/", "/jobs/", f"/tables/{lake.table.pk}/"):
        assert "Read-only. This installation runs with READ_ONLY=1" in words(
            client_for("owner").get(path)
        )


def test_an_unknown_outcome_says_that_nothing_is_written_twice(client_for, lake):
    job = make_job(
        lake.table, "merge", state=Job.State.FAILED, error_code="LAKE_COMMIT_OUTCOME_UNKNOWN",
        finished_at=timezone.now(),
    )  # fmt: skip
    body = words(client_for("viewer").get(f"/jobs/{job.pk}/"))
    assert (
        f"looks for transaction {str(job.txn_id)[:8]} in the log and will not write twice" in body
    )


def test_later_commits_are_announced_and_the_page_stays(client_for, lake):
    client, table = client_for("viewer"), lake.table
    page = client.get(f"/tables/{table.pk}/history/").content.decode()
    asked = re.search(r'hx-get="(/tables/\d+/landed/\?after=3)"', page)[1]
    assert client.get(asked, headers={"hx-request": "true"}).status_code == 204
    make_commit(table, 4, "MERGE", operation_metrics={"numTargetRowsInserted": "17"})
    Table.objects.update(version=4)
    here = f"http://testserver/tables/{table.pk}/files/?sort=path"
    told = client.get(asked, headers={"hx-request": "true", "hx-current-url": here})
    assert "v4 landed while you were reading. MERGE by etl-nightly, +17 rows." in words(told)
    assert f'href="/tables/{table.pk}/files/?sort=path"' in told.content.decode()
    far = client.get(asked, headers={"hx-request": "true", "hx-current-url": "https://evil.test/"})
    assert "evil" not in far.content.decode()


@pytest.mark.parametrize("after", ["", "x", "-1", "9" * 30])
def test_a_page_that_does_not_name_its_version_gets_no_announcement(client_for, lake, after):
    assert (
        client_for("viewer").get(f"/tables/{lake.table.pk}/landed/?after={after}").status_code
        == 404
    )


def test_later_commits_are_hidden_from_people_who_may_not_see_the_table(client_for, lake):
    assert client_for("stranger").get(f"/tables/{lake.table.pk}/landed/?after=0").status_code == 404
