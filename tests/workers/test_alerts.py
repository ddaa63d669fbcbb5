"""Alerts sent by the light worker: a separate process, with a broker and a real webhook."""

import json

import pytest
from django.utils import timezone

from lakeui.catalog.models import Table
from lakeui.celery import app
from lakeui.jobs.models import Job
from lakeui.monitoring.alerting.channels import make_channel, make_rule, send_test
from lakeui.monitoring.conditions import Condition
from lakeui.monitoring.models import AlertDelivery
from lakeui.task_names import LIGHT_QUEUE, MIRROR_TABLE, NOTE_LINEAGE, WATCH_FOR_ALERTS
from tests.lakeui.factories import make_job
from tests.lakeui.monitoring.webhook_server import run_hanging_webhook, run_webhook
from tests.services import wait_until

pytestmark = pytest.mark.timeout(180)


def test_a_light_worker_delivers_findings_of_a_rule_a_test_message_and_lineage(
    monkeypatch, settings, start_worker, table
):
    monkeypatch.setenv("ALERT_WEBHOOK_HOSTS", "127.0.0.1")
    settings.ALERT_WEBHOOK_HOSTS = ["127.0.0.1"]
    with run_webhook() as webhook, run_webhook() as lineage:
        monkeypatch.setenv("OPENLINEAGE_URL", lineage.url)
        channel, _ = make_channel({"name": "ops", "kind": "webhook", "target": webhook.url})
        make_rule({"name": "jobs", "condition": Condition.FAILED_JOB, "channel": channel})
        make_job(table, state=Job.State.FAILED, finished_at=timezone.now(), error_message="No.")
        start_worker(LIGHT_QUEUE)
        app.send_task(WATCH_FOR_ALERTS, queue=LIGHT_QUEUE)
        wait_until(lambda: len(webhook.bodies) == 1, "the alert")
        send_test(channel, "ann", timezone.now())
        wait_until(lambda: len(webhook.bodies) == 2, "the test")
        app.send_task(NOTE_LINEAGE, queue=LIGHT_QUEUE)
        wait_until(lambda: len(lineage.bodies) == 2, "the job's start and end")
    assert [json.loads(body)["type"] for body in webhook.bodies] == ["alert", "test"]
    delivered = AlertDelivery.objects.filter(outcome=AlertDelivery.Outcome.DELIVERED)
    wait_until(lambda: delivered.count() == 2, "both to be written off")
    assert {json.loads(body)["eventType"] for body in lineage.bodies} == {"START", "FAIL"}


def test_more_webhooks_that_hang_than_a_worker_has_threads_hold_up_nothing(
    monkeypatch, settings, start_worker, table
):
    monkeypatch.setenv("ALERT_WEBHOOK_HOSTS", "127.0.0.1")
    monkeypatch.setenv("ALERT_TIMEOUT_SECONDS", "600")  # longer than is waited for anything here
    settings.ALERT_WEBHOOK_HOSTS = ["127.0.0.1"]
    with run_webhook() as webhook, run_hanging_webhook() as hanging:
        channel, _ = make_channel({"name": "ops", "kind": "webhook", "target": webhook.url})
        start_worker(LIGHT_QUEUE)
        for number in range(8):
            values = {"name": f"dead {number}", "kind": "webhook", "target": hanging}
            send_test(make_channel(values)[0], "ann", timezone.now())
        wait_until(lambda: AlertDelivery.objects.filter(tries=1).count() == 8, "8 tries")
        app.send_task(MIRROR_TABLE, [table.pk], queue=LIGHT_QUEUE)
        before = table.mirrored_at
        wait_until(lambda: Table.objects.get(pk=table.pk).mirrored_at != before, "the mirror")
        send_test(channel, "ann", timezone.now())
        wait_until(lambda: len(webhook.bodies) == 1, "the test")
