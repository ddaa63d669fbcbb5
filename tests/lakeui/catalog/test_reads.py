"""Reads that wait for a worker: which of them count, and who may cancel them."""

from datetime import timedelta

import pytest
from django.db.models.signals import pre_delete
from django.urls import reverse
from django.utils import timezone

from lakeui.catalog.models import Preview, RowRead, TableGrant
from lakeui.catalog.reads import PATIENCE, ReadLostError, note_read, stop_read
from lakeui.catalog.roles import Role
from lakeui.jobs.models import WorkerReport
from lakeui.monitoring.worker_state import worker_states
from tests.lakeui.factories import make_table, make_user
from tests.lakeui.page_client import PageClient

pytestmark = pytest.mark.django_db


def make_read(table, by=None, ago=timedelta(), **fields):
    asked_at = timezone.now() - ago
    preview = Preview.objects.create(table=table, version=0, asked_at=asked_at)
    read = note_read(preview, asked_at, table, "rows of v0", by)
    RowRead.objects.filter(pk=read.pk).update(**fields)
    return read


def test_a_read_whose_worker_died_keeps_no_place_busy():
    now, table = timezone.now(), make_table()
    WorkerReport.objects.create(
        name="reads@a", queue="reads", pid=1, slots=3, started_at=now, seen_at=now
    )
    make_read(table, began_at=now, worker="reads@a")
    abandoned = now - PATIENCE
    make_read(make_table("sales.b"), ago=PATIENCE, began_at=abandoned, worker="reads@a")
    assert [state.busy for state in worker_states(make_user("ada"))] == [1]


def test_a_read_and_its_answer_end_together():
    read = make_read(make_table())

    def fail(**_):
        raise ConnectionError

    pre_delete.connect(fail, sender=RowRead)
    try:
        with pytest.raises(ConnectionError):
            stop_read(read.pk, ReadLostError())
    finally:
        pre_delete.disconnect(fail, sender=RowRead)
    assert Preview.objects.get().read_at is None
    stop_read(read.pk, ReadLostError())
    assert Preview.objects.get().error_code == "LAKE_READ_LOST"
    assert not RowRead.objects.exists()


def test_people_cancel_their_own_reads_and_maintainers_those_of_their_tables():
    ada, ben = make_user("ada", Role.VIEWER), make_user("ben", Role.VIEWER)
    mine, maintained, other = (
        make_read(make_table(f"sales.{number}"), by) for number, by in enumerate((ada, ben, None))
    )
    TableGrant.objects.create(user=ada, table=maintained.table, role=Role.MAINTAINER)
    client = PageClient()
    client.force_login(ada)
    page = client.get(reverse("monitoring")).content.decode()
    links = {read: reverse("cancel-read", args=[read.pk]) for read in (mine, maintained, other)}
    assert {read for read, link in links.items() if link in page} == {mine, maintained}
    assert client.post(links[other]).status_code == 403
    unseen = make_user("eve")
    TableGrant.objects.create(user=unseen, table=mine.table, role=Role.VIEWER)
    client.force_login(unseen)
    assert client.post(links[other]).status_code == 404
    assert client.post(links[mine]).status_code == 403
    assert RowRead.objects.count() == 3


def test_rest_lists_reads_and_cancels_them_for_their_person(client):
    ada = make_user("ada", Role.VIEWER)
    mine, other = make_read(make_table("sales.a"), ada), make_read(make_table("sales.b"))
    hidden = make_user("eve")
    TableGrant.objects.create(user=hidden, table=other.table, role=Role.VIEWER)
    place = "/api/v1/monitoring/reads/"
    client.force_login(hidden)
    assert [row["id"] for row in client.get(place).json()["items"]] == [str(other.pk)]
    assert (
        client.post(f"{place}{mine.pk}:cancel", content_type="application/json").status_code == 404
    )
    client.force_login(ada)
    listed = client.get(place).json()["items"]
    assert {(row["table"], row["requested_by"]) for row in listed} == {
        ("sales.a", "ada"),
        ("sales.b", None),
    }
    assert (
        client.post(f"{place}{other.pk}:cancel", content_type="application/json").status_code == 403
    )
    assert (
        client.post(f"{place}{mine.pk}:cancel", content_type="application/json").status_code == 204
    )
    assert Preview.objects.get(table=mine.table).error_code == "LAKE_READ_CANCELLED"
    assert list(RowRead.objects.all()) == [other]


def test_monitoring_takes_as_many_queries_for_many_reads_as_for_one(django_assert_max_num_queries):
    client = PageClient()
    client.force_login(make_user("ada", Role.VIEWER))
    client.get(reverse("monitoring"))
    make_read(make_table())
    with django_assert_max_num_queries(100) as one:
        client.get(reverse("monitoring"))
    for number in range(5):
        make_read(make_table(f"sales.{number}"), make_user(f"p{number}"))
    with django_assert_max_num_queries(len(one)):
        client.get(reverse("monitoring"))
