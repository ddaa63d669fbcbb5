"""Traces from a request to the steps of its job, as a real collector receives them."""

import subprocess
import sys

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from opentelemetry.instrumentation.django import DjangoInstrumentor
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from lakeui import tracing
from lakeui.jobs.models import Job, JobAttempt
from tests.lakeui.monitoring.webhook_server import run_hanging_webhook, run_webhook
from tests.services import ROOT
from workers import jobs

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(180)]
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def collector(settings):
    """Return the received spans by name."""
    with run_webhook() as hook:
        settings.TRACES_ENDPOINT = hook.url.removesuffix("/hook/a-secret-path")
        tracing.start("lakeui-test")
        tracing.trace_requests()
        yield lambda: spans_of(hook.bodies)
        DjangoInstrumentor().uninstrument()
        tracing.stop()


def spans_of(bodies):
    tracing.stop()
    found = {}
    for body in bodies:
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in group.scope_spans:
                found |= {span.name: span for span in scope.spans}
    return found


def request_delete(orders, token, **headers):
    answer = Client().post(
        f"/api/v1/tables/{orders.pk}/jobs/",
        {"kind": "delete", "parameters": {"where": "n = 2"}},
        content_type="application/json",
        headers={"Authorization": f"Bearer {token}", **headers},
    )
    assert answer.status_code == 202, answer.content
    return Job.objects.get()


def run(job):
    jobs.run_job.apply(args=[str(job.pk)])
    job.refresh_from_db()
    return job


def attributes(span):
    return {pair.key: pair.value.string_value or pair.value.int_value for pair in span.attributes}


def test_one_trace_connects_the_callers_request_with_the_steps_of_the_job(collector, orders, token):
    Client().get("/livez")  # of no interest
    job = run(request_delete(orders, token, traceparent=CALLER))
    assert job.state == Job.State.SUCCEEDED
    spans = collector()
    assert {span.trace_id.hex() for span in spans.values()} == {CALLER.split("-")[1]}
    request = next(span for name, span in spans.items() if name.startswith("POST"))
    asked, attempt = spans["request delete"], spans["delete attempt 1"]
    assert request.parent_span_id.hex() == CALLER.split("-")[2]
    assert asked.parent_span_id == request.span_id
    assert attempt.parent_span_id == spans["queue"].parent_span_id == asked.span_id
    steps = [span for span in spans.values() if span.parent_span_id == attempt.span_id]
    names = set(JobAttempt.objects.get().stages.values_list("name", flat=True))
    assert {span.name for span in steps} == names
    assert "commit" in names
    for step in steps:
        assert attempt.start_time_unix_nano <= step.start_time_unix_nano
        assert step.end_time_unix_nano <= attempt.end_time_unix_nano
    told = attributes(attempt)
    assert (told["lakeui.table"], told["lakeui.outcome"]) == ("sales.orders", "committed")
    assert told["lakeui.attempted_version"] == 2


def test_an_attempt_that_fails_is_an_error_with_its_code(collector, orders, token):
    job = request_delete(orders, token)
    Job.objects.update(parameters={"where": "nowhere = 1"})
    job = run(job)
    failed = collector()["delete attempt 1"]
    assert job.state == Job.State.FAILED
    assert failed.status.code == failed.status.STATUS_CODE_ERROR
    assert failed.status.message == job.error_code != ""


def test_a_collector_that_never_answers_costs_the_job_nothing(orders, settings, monkeypatch, token):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with run_hanging_webhook() as url:
        settings.TRACES_ENDPOINT = url
        tracing.start("lakeui-test")
        try:
            assert run(request_delete(orders, token)).state == Job.State.SUCCEEDED
        finally:
            tracing.stop()


def test_without_a_collector_nothing_is_traced(orders, settings, token):
    assert settings.TRACES_ENDPOINT == ""
    tracing.start("lakeui-test")
    assert tracing.tracer() is None
    assert request_delete(orders, token).trace_parent == ""


def test_missing_packages_are_named_where_a_collector_is(settings, monkeypatch):
    settings.TRACES_ENDPOINT = "http://127.0.0.1:9"
    monkeypatch.setattr(tracing, "_PACKAGES", ("no_such_package.within",))
    with pytest.raises(ImproperlyConfigured, match=r"lakeui\[server,tracing\]"):
        tracing.start("lakeui-test")


def test_the_packages_are_not_loaded_unless_requested():
    code = "import lakeui.asgi, workers.traces, sys; print('opentelemetry.instrumentation.django' in sys.modules)"
    secret = {"SECRET_KEY": "only-for-this-test-0123456789-abcdef", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", code], env=secret, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
