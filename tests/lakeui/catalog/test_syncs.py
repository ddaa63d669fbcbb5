"""The first sync of a registered table: requested, done by one worker, with progress."""

from datetime import timedelta

import pytest
from django.utils import timezone

from engine.errors import PathOutsideRootError, TableExistsError, TableNotFoundError
from lakeui.catalog import mirror
from lakeui.catalog.models import Table, TableSync
from lakeui.catalog.registration import request_registration
from lakeui.catalog.roles import Role
from lakeui.catalog.syncs import PATIENCE, SyncProgress, claim_sync, next_sync_at, sync_of
from tests.lakeui.catalog.log_writer import add, append_commit, new_table
from tests.lakeui.factories import make_user
from workers.mirror import mirror_table, tables_to_sync, tables_with_a_log

pytestmark = pytest.mark.django_db


@pytest.fixture
def lake(tmp_path, settings):
    settings.TABLE_ROOTS = [str(tmp_path)]
    return tmp_path


@pytest.fixture
def place(lake):
    new_table(lake / "orders")
    append_commit(lake / "orders", 1, [add("a.parquet", rows=10)])
    return lake / "orders"


def test_a_request_adds_the_table_and_reads_no_commit_of_its_log(place, monkeypatch):
    monkeypatch.setattr(mirror, "read_commit_and_text", None)
    table = request_registration(str(place), "sales.orders", make_user("ann"))
    assert (table.version, table.registered_by.username) == (None, "ann")
    assert sync_of(table).started_at is None
    assert not table.commits.exists()


def test_a_worker_reads_the_log_and_deletes_the_sync(place):
    table = request_registration(str(place))
    assert list(tables_with_a_log()) == [table]
    mirror_table(table.pk)
    table.refresh_from_db()
    assert (table.version, table.row_count, table.mirror_error_code) == (1, 10, "")
    assert not TableSync.objects.exists()


def test_a_place_without_a_table_is_refused_at_once_and_leaves_no_row(lake, place):
    request_registration(str(place), "taken")
    (lake / "empty" / "_delta_log").mkdir(parents=True)
    for uri, name, error in (
        (lake / "nowhere", "", TableNotFoundError),
        (lake / "empty", "", TableNotFoundError),
        ("/etc", "", PathOutsideRootError),
        (place, "", TableExistsError),
    ):
        with pytest.raises(error):
            request_registration(str(uri), name)
    assert list(Table.objects.values_list("name", flat=True)) == ["taken"]


def test_a_log_whose_beginning_was_cleaned_up_is_one(lake, place):
    (place / "_delta_log" / f"{0:020}.json").unlink()
    assert request_registration(str(place)).name == "orders"


def test_an_unreadable_log_is_reported_by_the_table(lake, place):
    (place / "_delta_log" / f"{1:020}.json").write_text("no json\n")
    table = request_registration(str(place))
    mirror_table(table.pk)
    table.refresh_from_db()
    assert table.mirror_error_code
    assert sync_of(table) is None


@pytest.mark.parametrize("ahead", [-1, 1], ids=["silent", "by a clock ahead"])
def test_one_worker_first_reads_a_log_and_the_work_of_a_dead_one_is_taken_over(place, ahead):
    table = request_registration(str(place))
    assert claim_sync(table)
    assert not claim_sync(table)
    mirror_table(table.pk)  # asked for again meanwhile
    table.refresh_from_db()
    assert table.version is None
    TableSync.objects.update(seen_at=timezone.now() + ahead * (PATIENCE + timedelta(minutes=1)))
    mirror_table(table.pk)
    table.refresh_from_db()
    assert table.version == 1


def test_later_readings_need_no_claim(place):
    table = request_registration(str(place))
    mirror_table(table.pk)
    assert claim_sync(table)
    assert claim_sync(table)


def test_progress_is_reported_stage_by_stage(place, monkeypatch):
    table = request_registration(str(place))
    told = []

    class Watched(SyncProgress):
        def __call__(self, stage, done=0, total=0):
            super().__call__(stage, done, total)
            row = TableSync.objects.get()
            told.append((row.stage, row.done, row.total))

    mirror.refresh_table(table, Watched(table))
    assert told == [("commits", 0, 2), ("commits", 0, 2), ("snapshot", 0, 0), ("rows", 0, 0)]


@pytest.mark.django_db(transaction=True)
def test_without_a_broker_the_table_is_there_and_waits(unreachable_broker, place):

    table = request_registration(str(place))
    assert sync_of(table) is not None


def test_the_page_shows_the_progress_and_renews_itself_at_the_end(client, place):
    client.force_login(make_user("ann", Role.MAINTAINER))
    table = request_registration(str(place), "sales.orders")
    own = f"/tables/{table.pk}/"
    assert "Waiting for a light worker" in " ".join(client.get(own).text.split())
    claim_sync(table)
    SyncProgress(table)("commits", 1200, 5000)
    body = " ".join(client.get(f"{own}sync/").text.split())
    assert "Reading versions, 1,200 of 5,000." in body
    assert 'value="1200"' in body
    TableSync.objects.all().delete()
    mirror.refresh_table(table)
    assert client.get(f"{own}sync/").headers["HX-Refresh"] == "true"
    assert "light worker" not in client.get(own).text


def test_nothing_is_registered_while_read_only(client, place, settings):
    settings.READ_ONLY = True
    client.force_login(make_user("ann", Role.MAINTAINER))
    assert client.post("/tables/register/", {"uri": str(place)}).status_code == 403
    assert not Table.objects.exists()


def test_a_table_that_cannot_be_read_is_tried_less_and_less_often(place, settings):
    every = settings.CELERY_BEAT_SCHEDULE["sync the mirror of every table"]["schedule"]
    table, now = request_registration(str(place)), timezone.now()
    for tries, seconds in ((1, 2 * every), (3, 8 * every), (40, 900)):
        for waited, is_due in ((seconds - 5, False), (seconds + 5, True)):
            table.mirror_tried_at = now - timedelta(seconds=waited)
            table.mirror_tries, table.mirror_error_code = tries, "DELTA_LOG_MALFORMED"
            table.save()
            assert (next_sync_at(table) is None) is is_due
            assert tables_to_sync() == [table.pk] * is_due
    Table.objects.update(mirror_tried_at=now + timedelta(hours=2))
    assert tables_to_sync() == [table.pk], "a clock that was set back delays nothing"
    Table.objects.update(mirror_tried_at=now, mirror_error_code="")
    assert tables_to_sync() == [table.pk], "a table that can be read is read at every turn"


def test_every_error_of_a_sync_is_recorded_with_a_remedy(place):
    table = request_registration(str(place))
    (place / "_delta_log" / f"{1:020}.json").write_text("{", "utf-8")
    mirror_table(table.pk)
    table.refresh_from_db()
    assert (table.mirror_error_code, table.mirror_tries) == ("DELTA_LOG_MALFORMED", 1)
    assert "Repair the log" in table.mirror_error
    for code, remedy in (
        ("LAKE_STORAGE_ERROR", "Check the storage"),
        ("LAKE_FILE_MISSING", "Restore the missing file"),
        ("DELTA_VERSIONS_NOT_CONTIGUOUS", "Restore the missing files"),
        ("LAKE_INTERNAL", "light worker"),
    ):
        mirror._record_failure(table, code, "It failed.")
        assert remedy in table.mirror_error
        mirror._record_failure(table, code, "It failed.", "Ask ann.")
        assert table.mirror_error == "It failed. Ask ann."
