"""Metrics from the database, and the rules and panels that use them."""

import json
import re
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest
import yaml
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from engine.operations.execution import COMMIT
from lakeui.jobs.models import Job, JobAttempt, JobStage
from lakeui.jobs.turns import renew_beat
from lakeui.managed.models import ManagedTable
from lakeui.monitoring.deliveries import outboxes
from lakeui.monitoring.metrics import CHECK_STAGE, COMMIT_STAGE, exposition
from lakeui.monitoring.models import LineageEvent
from tests.lakeui.people import NOON, make_conflict, make_job, make_table
from workers.observation import CHECK

DOCS = Path(__file__).resolve().parents[3] / "docs" / "monitoring"
pytestmark = pytest.mark.django_db


def samples():
    """Return {name: {labels in order of their names: value}}."""
    values = {}
    for family in text_string_to_metric_families(exposition().decode()):
        for sample in family.samples:
            labels = tuple(value for _, value in sorted(sample.labels.items()))
            values.setdefault(sample.name, {})[labels] = sample.value
    return values


def test_stages_are_found_by_the_names_that_workers_give_them():
    assert (CHECK_STAGE, COMMIT_STAGE) == (CHECK, COMMIT)


def test_an_empty_installation_has_metrics():
    metrics = samples()
    assert metrics["lakeui_jobs_stale"] == {(): 0}
    assert metrics["lakeui_workers"] == {("light",): 0, ("reads",): 0, ("spark",): 0}


def test_undelivered_messages_are_counted_by_outbox():
    now = timezone.now()
    for number, error in enumerate(("", "answered 500")):
        LineageEvent.objects.create(
            run_id=uuid4(),
            type="START",
            at=now,
            created_at=now - timedelta(minutes=10 * number),
            next_try_at=now,
            error=error,
        )
    metrics = samples()
    assert metrics["lakeui_outbox_waiting"] == {("alerts",): 0, ("lineage",): 2}
    assert metrics["lakeui_outbox_oldest_seconds"][("lineage",)] >= 600
    assert [outbox.error for outbox in outboxes()] == ["", "answered 500"]
    LineageEvent.objects.update(next_try_at=None)
    assert [(outbox.waiting, outbox.error) for outbox in outboxes()] == [(0, ""), (0, "")]


def test_transactions_are_counted_by_how_they_ended():
    table = make_table()
    job = make_job(table)
    JobAttempt.objects.create(job=job, number=2, started_at=NOON, outcome="committed")
    JobAttempt.objects.create(job=make_job(table), number=2, started_at=NOON, outcome="lost")
    make_conflict(table, job, kind="resolved")
    make_conflict(table, job, kind="resolved")
    metrics = samples()
    assert metrics["lakeui_transactions_total"] == {
        ("committed", "sales.orders"): 1,
        ("aborted", "sales.orders"): 2,
        ("failed", "sales.orders"): 1,
        ("resolved", "sales.orders"): 1,
    }
    assert metrics["lakeui_retries_total"] == {("sales.orders",): 2}


def test_dry_runs_are_no_transactions():
    make_job(make_table(), dry_run=True)
    assert "lakeui_transactions_total" not in samples()


def test_conflicts_are_counted_by_class_and_pair():
    make_conflict(make_table(), subclass="ROW_LEVEL_CHANGES", wasted_ms=1500, wasted_bytes=7)
    metrics = samples()
    [labels] = metrics["lakeui_conflicts_total"]
    assert set(labels) == {
        "DELTA_CONCURRENT_APPEND",
        "ROW_LEVEL_CHANGES",
        "UPDATE",
        "DELETE",
        "aborted",
    }
    assert metrics["lakeui_wasted_seconds_total"] == {("sales.orders",): 1.5}
    assert metrics["lakeui_wasted_bytes_total"] == {("sales.orders",): 7}


def test_tables_report_sizes_and_ages():
    now = timezone.now()
    table = make_table(last_commit_at=now - timedelta(hours=1), last_optimize_at=now)
    metrics = samples()
    assert metrics["lakeui_table_size_bytes"] == {(table.name,): float(3 * 2**53)}
    assert metrics["lakeui_table_seconds_since_commit"][(table.name,)] == pytest.approx(
        3600, abs=60
    )
    assert metrics["lakeui_table_seconds_since_optimize"][(table.name,)] == pytest.approx(0, abs=60)
    assert "lakeui_table_seconds_since_vacuum" not in metrics


def test_an_unreadable_table_says_so_with_its_code():
    make_table(mirror_error_code="LAKE_STORAGE_ERROR")
    assert samples()["lakeui_mirror_failed"] == {("LAKE_STORAGE_ERROR", "sales.orders"): 1}


def test_queues_report_depth_and_the_longest_wait():
    job = make_job(make_table(), state=Job.State.QUEUED)
    Job.objects.filter(pk=job.pk).update(created_at=timezone.now() - timedelta(minutes=5))
    metrics = samples()
    assert metrics["lakeui_queue_depth"][("spark",)] == 1
    assert metrics["lakeui_queue_oldest_seconds"][("spark",)] == pytest.approx(300, abs=30)
    assert metrics["lakeui_queue_depth"][("light",)] == 0
    assert metrics["lakeui_jobs"] == {("optimize", "queued"): 1}


def test_a_job_whose_lease_ran_out_is_stale():
    make_job(make_table(), state=Job.State.RUNNING, lease_expires_at=NOON)
    assert samples()["lakeui_jobs_stale"] == {(): 1}


def test_a_tables_name_cannot_break_the_format():
    make_table('a"b\\c\nd')
    assert samples()["lakeui_table_version"] == {('a"b\\c\nd',): 2}


def test_a_scrape_costs_the_same_however_many_rows(django_assert_max_num_queries):
    for n in range(15):
        table = make_table(f"t{n}")
        make_conflict(table, make_job(table))
        ManagedTable.objects.create(table_id=UUID(int=n), mirror=table, location=f"{n}")
    with django_assert_max_num_queries(42):
        exposition()


def stage(job, name, took_ms, outcome=JobAttempt.Outcome.COMMITTED):
    number = job.attempt_rows.count() + 1
    attempt = JobAttempt.objects.create(
        job=job, number=number, started_at=NOON, finished_at=NOON, outcome=outcome
    )
    JobStage.objects.create(
        attempt=attempt, place=0, name=name, started_at=NOON, finished_at=NOON, took_ms=took_ms
    )


def test_commits_and_checks_are_counted_by_how_long_they_took():
    job = make_job(make_table())
    for took_ms in (40, 50, 2400, 9_000_000):
        stage(job, COMMIT, took_ms)
    stage(job, COMMIT, 10, JobAttempt.Outcome.RUNNING)
    stage(job, CHECK, 100, JobAttempt.Outcome.CONFLICTED)
    stage(make_job(job.table, dry_run=True), COMMIT, 100)
    metrics = samples()
    counts = {
        labels[0]: value
        for labels, value in metrics["lakeui_commit_duration_seconds_bucket"].items()
    }
    assert (counts["0.05"], counts["1.0"], counts["2.5"]) == (2, 2, 3)
    assert (counts["7200.0"], counts["+Inf"]) == (3, 4)
    labels = ("optimize", "committed")
    assert metrics["lakeui_commit_duration_seconds_count"] == {labels: 4}
    assert metrics["lakeui_commit_duration_seconds_sum"] == {labels: 9002.49}
    assert metrics["lakeui_conflict_check_seconds_sum"] == {("optimize", "conflicted"): 0.1}


def test_jobs_are_counted_by_how_long_they_waited_and_ran():
    table = make_table()
    for waited, ran in ((1, 20), (9, 70)):
        job = make_job(table, state=Job.State.SUCCEEDED)
        begun = NOON + timedelta(seconds=waited)
        Job.objects.filter(pk=job.pk).update(
            created_at=NOON, started_at=begun, finished_at=begun + timedelta(seconds=ran)
        )
    metrics, labels = samples(), ("optimize", "succeeded")
    assert metrics["lakeui_job_queue_seconds_sum"] == {labels: 10}
    assert metrics["lakeui_job_duration_seconds_sum"] == {labels: 90}
    buckets = metrics["lakeui_job_duration_seconds_bucket"]
    assert [buckets[(le, *labels)] for le in ("10.0", "30.0", "60.0", "300.0")] == [0, 1, 1, 2]


def test_names_follow_the_rules_of_promtool():
    """promtool requires base units, a help text, and suffixes that match the type."""
    list_exported_metrics()
    faults = []
    for family in text_string_to_metric_families(exposition().decode()):
        name = family.name
        of_type = {"counter": (), "histogram": ()}.get(
            family.type, ("_total", "_count", "_sum", "_bucket")
        )
        if not re.fullmatch(r"lakeui_[a-z0-9]+(_[a-z0-9]+)*", name) or not family.documentation:
            faults.append(name)
        if name.endswith(of_type) or re.search(
            r"_(ms|milliseconds|minutes|hours|kb|mb)(_|$)", name
        ):
            faults.append(name)
        if family.type == "counter" and not all(
            sample.name.endswith("_total") for sample in family.samples
        ):
            faults.append(name)
    assert faults == []


def list_documented_metrics():
    text = (DOCS / "README.md").read_text("utf-8")
    names = set(re.findall(r"`(lakeui_\w+)`", text))
    for line in re.findall(r"^\| (`lakeui_table_.*?) \|", text, re.MULTILINE):
        first, *rest = re.findall(r"`(\w+)`", line)
        stem = re.sub(r"_(version|commit)$", "", first)
        names |= {stem + tail for tail in rest if tail.startswith("_")}
    return names


def list_exported_metrics():
    moments = {f"last_{what}_at": NOON for what in ("commit", "optimize", "vacuum")}
    table = make_table(mirror_error_code="X", **moments)
    ManagedTable.objects.create(table_id=UUID(int=1), mirror=table)
    job = make_job(table)
    JobAttempt.objects.create(job=job, number=2, started_at=NOON, outcome="committed")
    make_conflict(table, job)
    stage(job, COMMIT, 10)
    stage(job, CHECK, 10)
    Job.objects.update(started_at=NOON, finished_at=NOON)
    renew_beat()
    names = set(samples())
    histograms = {name.removesuffix("_bucket") for name in names if name.endswith("_bucket")}
    parts = {name + part for name in histograms for part in ("_bucket", "_sum", "_count")}
    return names - parts | histograms


def test_the_documented_metrics_are_those_that_are_exported():
    assert list_documented_metrics() == list_exported_metrics()


def test_alert_rules_and_panels_use_metrics_that_exist():
    rules = yaml.safe_load((DOCS / "alerts.yml").read_text("utf-8"))
    dashboard = json.loads((DOCS / "dashboard.json").read_text("utf-8"))
    expressions = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    expressions += [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    used = {name for text in expressions for name in re.findall(r"\blakeui_\w+", text)}
    assert {name.removesuffix("_bucket") for name in used} <= list_exported_metrics()


def test_every_alert_names_a_remedy():
    rules = yaml.safe_load((DOCS / "alerts.yml").read_text("utf-8"))
    for rule in rules["groups"][0]["rules"]:
        assert rule["annotations"].keys() == {"summary", "description"}
        assert rule["labels"]["severity"] in ("warning", "critical")
