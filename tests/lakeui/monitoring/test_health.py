"""Addresses for monitoring."""

import pytest
from django.db.migrations.recorder import MigrationRecorder
from django.test import override_settings

from lakeui.celery import app
from lakeui.jobs.models import Job
from lakeui.monitoring.health import _migrations
from lakeui.monitoring.operations import queues, workers
from tests.lakeui.people import grant, make_job, make_table, person

CLOSED = {"METRICS_OPEN": False, "METRICS_TOKEN": "scrape-me-scrape-me"}


def test_livez_checks_only_the_process(client):
    response = client.get("/livez")
    assert (response.status_code, response.text) == (200, "ok\n")


def test_readyz_names_the_running_services(client, db):
    response = client.get("/readyz")
    assert response.status_code == 200
    assert response.json()["checks"] == {
        "database": "ok",
        "migrations": "ok",
        "pages": "ok",
        "broker": "ok",
    }


def test_a_probe_reads_the_code_once_and_the_migrations_of_the_database_each_time(client, db):
    for _ in range(2):
        assert client.get("/readyz").status_code == 200
    assert _migrations.cache_info().misses <= 1
    MigrationRecorder.Migration.objects.filter(app="managed").delete()
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["checks"]["migrations"] == "Run manage.py migrate."


def test_readyz_says_503_and_the_remedy_without_an_address(client, db):
    kept = app.conf.broker_url
    app.conf.broker_url = app.conf.broker_write_url = "redis://:secret@127.0.0.1:1/0"
    try:
        response = client.get("/readyz")
    finally:
        app.conf.broker_url = app.conf.broker_write_url = kept
    assert response.status_code == 503
    assert response.json()["checks"]["broker"].startswith("Check BROKER_URL")
    assert "secret" not in response.text


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics"])
def test_health_addresses_are_neither_cached_nor_posted_to(client, db, path):
    assert "no-store" in client.get(path).headers["Cache-Control"]
    assert client.post(path).status_code == 405


@override_settings(**CLOSED)
@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        ("", 401),
        ("Bearer wrong", 401),
        ("Bearer ", 401),
        ("Bearer ü", 401),
        ("Bearer scrape-me-scrape-me", 200),
    ],
)
def test_closed_metrics_need_their_token(client, db, authorization, status):
    headers = {"Authorization": authorization} if authorization else {}
    assert client.get("/metrics", headers=headers).status_code == status


@override_settings(METRICS_OPEN=False, METRICS_TOKEN="")
def test_an_empty_token_opens_nothing(client, db):
    assert client.get("/metrics", headers={"Authorization": "Bearer "}).status_code == 401


@override_settings(**CLOSED)
def test_closed_metrics_are_shown_to_people_who_see_all_tables(client, db):
    table, guest = make_table(), person("guest")
    grant(guest, table, "admin")
    client.force_login(guest)
    assert client.get("/metrics").status_code == 401
    client.force_login(person("viewer", "viewer"))
    assert client.get("/metrics").status_code == 200


def test_queues_are_listed_even_when_empty(db):
    assert {queue.name: queue.waiting for queue in queues()} == {"light": 0, "reads": 0, "spark": 0}


def test_a_worker_that_holds_a_lease_is_listed(db):
    make_job(make_table(), state=Job.State.RUNNING, worker="spark@host", queue="spark")
    [worker] = workers()
    assert (worker.name, worker.queue, worker.answers, worker.running) == (
        "spark@host",
        "spark",
        False,
        1,
    )
