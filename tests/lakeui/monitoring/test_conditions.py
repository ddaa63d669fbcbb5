"""Conditions: judged and worded in one place; five readers agree, and one mute silences all."""

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from lakeui.catalog.health import Health
from lakeui.catalog.models import Discovery, Table, UnregisteredTable
from lakeui.conflicts.models import Erasure
from lakeui.jobs.models import Job, PeriodicTurn, Schedule
from lakeui.jobs.turns import BEAT
from lakeui.monitoring.alerting.watch import AlertRound
from lakeui.monitoring.attention import CONDITIONS
from lakeui.monitoring.conditions import Condition
from lakeui.monitoring.metrics import exposition
from lakeui.monitoring.models import Mute
from lakeui.monitoring.table_health import annotate_health
from tests.lakeui.factories import make_conflict, make_job, make_table, make_user

ROOT = Path(__file__).resolve().parents[3]
RULES = ROOT / "docs" / "monitoring" / "alerts.yml"
LONG_AGO = timedelta(hours=1)

pytestmark = pytest.mark.django_db


def outlive_erasure(now):
    Erasure.objects.create(table=make_table(), append_version=9, delete_version=10, at=now)


def make_unreadable(now):
    make_table(mirror_error_code="LAKE_STORAGE_ERROR", mirror_error="403.", mirror_failed_at=now)


def lose_outcome(now):
    code = "LAKE_COMMIT_OUTCOME_UNKNOWN"
    make_job(make_table(), state=Job.State.FAILED, finished_at=now, error_code=code)


def stop_stream(now):
    make_job(make_table(), "stream", state=Job.State.FAILED, finished_at=now)


def abort_writes(now, **fields):
    table = make_table()
    for _ in range(fields.pop("count", 3)):
        make_conflict(table, occurred_at=now, **fields)


def waste_time(now):
    abort_writes(now, count=1, wasted_ms=61 * 60_000)


def change_metadata(now):
    abort_writes(
        now, count=2, rule="metadata_changed", winning_version=9, winner_operation="SET TBLPROPERTIES"
    )  # fmt: skip


def fail_job(now):
    make_job(make_table(), state=Job.State.FAILED, finished_at=now)


def fail_schedule(now):
    table = make_table()
    job = make_job(table, state=Job.State.FAILED, finished_at=now - timedelta(days=2))
    Schedule.objects.create(
        name="nightly", table=table, cron="0 2 * * *", kind="optimize", owner=make_user("owner"),
        last_job=job, last_fired_at=now,
    )  # fmt: skip


def keep_job_waiting(now):
    make_job(make_table(), state=Job.State.QUEUED, created_at=now - LONG_AGO)


def lose_worker(now):
    make_job(
        make_table(), state=Job.State.RUNNING, worker="spark-2", started_at=now - LONG_AGO,
        heartbeat_at=now - LONG_AGO, lease_expires_at=now - LONG_AGO,
    )  # fmt: skip


def silence_beat(now):
    make_table()
    PeriodicTurn.objects.create(name=BEAT, expires_at=now - LONG_AGO)


def write_small_files(_now):
    make_table(file_count=100, small_file_count=80)


def leave_dead_files(_now):
    make_table(size_bytes=2**20, vacuum_bytes=2**28, vacuum_file_count=4)


def stop_mirror(now):
    make_table(mirrored_at=now - LONG_AGO)


def find_unregistered_table(now):
    make_table()
    search = Discovery.objects.create(root="/lake", requested_at=now, every_hours=1, bound=10)
    UnregisteredTable.objects.create(discovery=search, place="/lake/crm", found_at=now)


CASES: dict[Condition, Callable] = {
    Condition.REORDERED: outlive_erasure,
    Condition.UNREACHABLE: make_unreadable,
    Condition.OUTCOME_UNKNOWN: lose_outcome,
    Condition.STREAM_STOPPED: stop_stream,
    Condition.ABORTED: abort_writes,
    Condition.WASTED: waste_time,
    Condition.METADATA_COST: change_metadata,
    Condition.FAILED_JOB: fail_job,
    Condition.FAILING_SCHEDULE: fail_schedule,
    Condition.JOBS_WAIT: keep_job_waiting,
    Condition.WORKER_SILENT: lose_worker,
    Condition.BEAT_SILENT: silence_beat,
    Condition.SMALL_FILES: write_small_files,
    Condition.VACUUM_DUE: leave_dead_files,
    Condition.MIRROR_QUIET: stop_mirror,
    Condition.NEW_TABLES: find_unregistered_table,
}


def page_text(client: Client, path: str) -> str:
    """Return the page's words, without markup."""
    text = re.sub(r"<[^>]+>", "", client.get(path).content.decode())
    return re.sub(r"\s+", " ", text).replace("&#x27;", "'")


def titles_by_reader(client: Client, condition: Condition) -> dict[str, set[str]]:
    """Return the titles that each reader tells of a condition; the metrics have its name instead."""
    remedy = CONDITIONS[condition].remedy
    attention = client.get("/api/v1/attention/").json()["items"]
    monitoring = client.get("/api/v1/monitoring/").json()["alerts"]
    titles = {item["title"] for item in attention if item["check_name"] == condition}
    pages = {
        path: {
            title
            for title in titles
            if title in (text := page_text(client, path)) and remedy in text
        }
        for path in ("/", "/attention/", "/monitoring/")
    }
    families = {
        family.name: family for family in text_string_to_metric_families(exposition().decode())
    }
    samples = families["lakeui_attention_items"].samples
    return pages | {
        "attention": titles,
        "monitoring": {item["title"] for item in monitoring if item["check_name"] == condition},
        "alert rule": {
            finding.title
            for finding in AlertRound(timezone.now()).findings(condition, None)
            if remedy in finding.text
        },
        "metrics": titles if any(s.labels["condition"] == condition for s in samples) else set(),
    }  # fmt: skip


def test_every_condition_has_a_case():
    assert list(CONDITIONS) == list(Condition) == list(CASES)


@pytest.mark.parametrize("condition", list(Condition))
def test_five_readers_agree_on_a_condition_and_one_mute_silences_all(condition, client):
    client.force_login(make_user("ann", is_superuser=True))
    now = timezone.now()
    CASES[condition](now)
    told = titles_by_reader(client, condition)
    assert len(told["attention"]) == 1
    assert all(titles == told["attention"] for titles in told.values()), told
    names_none = condition in {Condition.NEW_TABLES, Condition.BEAT_SILENT}
    table = None if names_none else Table.objects.get()
    Mute.objects.create(about=condition, table=table, until=now + LONG_AGO)
    assert titles_by_reader(client, condition) == {reader: set() for reader in told}


def test_prometheus_rules_are_those_of_the_conditions():
    rules = yaml.safe_load(RULES.read_text("utf-8"))["groups"][0]["rules"]
    assert rules == [
        {
            "alert": "Lakeui" + "".join(word.title() for word in condition.value.split("_")),
            "expr": f'lakeui_attention_items{{condition="{condition.value}"}} > 0',
            "labels": {"severity": rule.severity.value},
            "annotations": {
                "summary": f"{condition.label}{{{{ if $labels.table }}}}: "
                "{{ $labels.table }}{{ end }}",
                "description": rule.remedy,
            },
        }
        for condition, rule in CONDITIONS.items()
    ]


def test_every_threshold_is_a_setting_that_moves_its_condition(settings):
    now = timezone.now()
    moved = {
        "ATTENTION_ABORTED": 4, "ATTENTION_WASTED_MINUTES": 62, "ATTENTION_METADATA_COST": 3,
        "ATTENTION_WAIT_MINUTES": 61, "ATTENTION_SMALL_FILES": 81, "ATTENTION_VACUUM_BYTES": 2**29,
        "ATTENTION_MIRROR_MINUTES": 61,
    }  # fmt: skip
    for condition, rule in CONDITIONS.items():
        assert "{" not in rule.tells
        if moves := moved.keys() & set(rule.settings):
            Table.objects.all().delete()
            CASES[condition](now)
            assert AlertRound(now).findings(condition, None)
            for name in moves:
                setattr(settings, name, moved.pop(name))
            assert AlertRound(now).findings(condition, None) == []
    assert moved == {}


def test_a_table_whose_stream_stopped_is_not_healthy_until_the_stream_starts_again():
    stop_stream(timezone.now())
    assert annotate_health(Table.objects.all()).get().health == Health.STREAM_STOPPED
    job = Job.objects.get()
    make_job(job.table, "stream", state=Job.State.RUNNING, retry_of=job)
    assert annotate_health(Table.objects.all()).get().health == Health.HEALTHY


def test_failures_of_one_cause_are_one_item(client):
    client.force_login(make_user("ann", is_superuser=True))
    table, now = make_table(), timezone.now()
    schedule = Schedule.objects.create(
        name="minutely", table=table, cron="* * * * *", kind="delete", owner=make_user("owner")
    )
    failed = {"state": Job.State.FAILED, "finished_at": now, "error_code": "DELTA_FULL"}
    for number in range(12):
        job = make_job(table, "delete", statement="DELETE FROM t", schedule=schedule, **failed)
        make_job(
            table,
            "delete",
            statement=f"DELETE FROM t WHERE a = {number} AND b = 'x{number}'",  # noqa: S608 - no query
            **failed,
        )
    Schedule.objects.update(last_job=job)
    other = failed | {"error_code": "DELTA_EMPTY"}
    make_job(table, "delete", statement="DELETE FROM t WHERE a = 1 AND b = 'y'", **other)
    for number in range(3):
        make_job(table, statement=f"OPTIMIZE part{number}", state=Job.State.RUNNING, worker="spark-2",
                 lease_expires_at=now - LONG_AGO)  # fmt: skip
    told = client.get("/api/v1/attention/").json()
    assert told["count"] == 4
    titles = sorted(item["title"] for item in told["items"])
    assert titles == [
        "DELETE on sales.orders failed",
        "DELETE on sales.orders failed 12 times",
        "Schedule minutely fails on sales.orders",
        "The worker of OPTIMIZE on sales.orders and of 2 more jobs sends no heartbeat",
    ]


def test_many_tables_that_fail_alike_or_are_late_have_one_cause(client):
    client.force_login(make_user("ann", is_superuser=True))
    now = timezone.now()
    for number in range(21):
        make_table(f"t{number}", mirrored_at=now - LONG_AGO)
    told = client.get("/api/v1/attention/").json()
    assert [item["title"] for item in told["items"]] == ["21 tables were not synced recently"]
    Table.objects.update(mirror_error_code="LAKE_STORAGE_ERROR", mirror_failed_at=now)
    make_table("other", mirror_error_code="DELTA_LOG_MALFORMED", mirror_failed_at=now)
    told = client.get("/api/v1/attention/").json()
    titles = [item["title"] for item in told["items"]]
    assert titles == ["21 tables cannot be read", "other cannot be read"]


def test_time_wasted_by_writes_that_are_already_counted_is_no_second_item(client):
    client.force_login(make_user("ann", is_superuser=True))
    abort_writes(timezone.now(), wasted_ms=61 * 60_000)
    told = client.get("/api/v1/attention/").json()
    assert [item["check_name"] for item in told["items"]] == ["aborted"]


def test_writes_that_a_change_of_the_metadata_aborted_are_no_second_item(client):
    client.force_login(make_user("ann", is_superuser=True))
    now, table = timezone.now(), make_table()
    change = {
        "rule": "metadata_changed", "winning_version": 9, "winner_operation": "SET TBLPROPERTIES",
    }  # fmt: skip
    for fields in (change, change, {}, {}):
        make_conflict(table, occurred_at=now, **fields)
    told = client.get("/api/v1/attention/").json()
    assert [item["check_name"] for item in told["items"]] == ["metadata_cost"]
    Mute.objects.create(about=Condition.METADATA_COST, until=now + LONG_AGO)
    assert client.get("/api/v1/attention/").json()["items"] == []
    make_conflict(table, occurred_at=now)
    told = client.get("/api/v1/attention/").json()
    assert [item["check_name"] for item in told["items"]] == ["aborted"]


def test_time_wasted_beside_a_change_of_the_metadata_is_reported_once(client):
    client.force_login(make_user("ann", is_superuser=True))
    now, table = timezone.now(), make_table()
    change = {
        "rule": "metadata_changed", "winning_version": 9, "winner_operation": "SET TBLPROPERTIES",
        "wasted_ms": 61 * 60_000,
    }  # fmt: skip
    for fields in (change, change, {}):
        make_conflict(table, occurred_at=now, **fields)
    told = client.get("/api/v1/attention/").json()
    assert [item["check_name"] for item in told["items"]] == ["metadata_cost"]
    make_conflict(table, occurred_at=now, wasted_ms=61 * 60_000)
    told = client.get("/api/v1/attention/").json()
    assert [item["check_name"] for item in told["items"]] == ["wasted", "metadata_cost"]


def test_a_schedule_whose_last_outcome_is_unknown_is_one_item(client):
    client.force_login(make_user("ann", is_superuser=True))
    lose_outcome(timezone.now())
    job = Job.objects.get()
    Schedule.objects.create(
        name="nightly", table=job.table, cron="0 2 * * *", kind="optimize", owner=make_user("owner"),
        last_job=job, last_fired_at=timezone.now(),
    )  # fmt: skip
    told = client.get("/api/v1/attention/").json()
    assert [item["check_name"] for item in told["items"]] == ["outcome_unknown"]


def test_jobs_that_wait_are_counted_by_queue(client):
    client.force_login(make_user("ann", is_superuser=True))
    table = make_table()
    for hours, queue in ((1, "spark"), (2, "reads"), (3, "spark")):
        job = make_job(table, queue=queue, state=Job.State.QUEUED)
        Job.objects.filter(pk=job.pk).update(created_at=timezone.now() - hours * LONG_AGO)
    told = client.get("/api/v1/attention/").json()
    assert [item["title"] for item in told["items"]] == [
        "2 jobs wait in the queue spark",
        "1 job waits in the queue reads",
    ]


def test_a_stranger_receives_nothing(client):
    abort_writes(timezone.now())
    client.force_login(make_user("stranger"))
    assert client.get("/api/v1/monitoring/").json()["alerts"] == []
