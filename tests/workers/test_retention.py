"""Hourly retention: unneeded data is deleted; data that is recorded nowhere else stays."""

from datetime import timedelta

import pytest
from auditlog.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.utils import timezone

from lakeui.api.models import IdempotentAnswer
from lakeui.conflicts.models import Conflict, Pipeline, PipelineTransaction
from lakeui.jobs.models import Job
from tests.lakeui.people import make_conflict, make_job, make_table
from workers import periodic_tasks
from workers.periodic_tasks import tidy_uploads

pytestmark = pytest.mark.django_db


@pytest.fixture
def old(settings, tmp_path):
    """Create rows of every kind from a year ago, and a session and an answer from today."""
    settings.UPLOAD_HOME = tmp_path
    table = make_table()
    make_conflict(table, make_job(table))
    then = timezone.now() - timedelta(days=365)
    for fresh in (False, True):
        session = SessionStore()
        session["a"] = 1
        session.save()
        if not fresh:
            Session.objects.update(expire_date=then)
    user = User.objects.create_user("ann")
    for key, at in (("old", then), ("new", timezone.now())):
        IdempotentAnswer.objects.create(user=user, key=key, digest="", created_at=at)
    LogEntry.objects.update(timestamp=then)
    Job.objects.update(created_at=then)
    Conflict.objects.update(occurred_at=then)


def test_expired_sessions_and_answers_are_removed_and_records_found_nowhere_else_stay(
    old, monkeypatch
):
    monkeypatch.setattr(periodic_tasks, "BATCH", 1)
    entries = LogEntry.objects.count()
    tidy_uploads()
    assert Session.objects.count() == 1
    assert [answer.key for answer in IdempotentAnswer.objects.all()] == ["new"]
    assert (Job.objects.count(), Conflict.objects.count()) == (1, 1)
    assert LogEntry.objects.count() == entries > 0


def test_the_audit_trail_is_kept_for_the_configured_time(old, settings):
    settings.AUDIT_KEEP_DAYS = 366
    tidy_uploads()
    assert LogEntry.objects.exists()
    settings.AUDIT_KEEP_DAYS = 364
    tidy_uploads()
    assert not LogEntry.objects.exists()


def test_old_reports_of_a_pipeline_are_removed_unless_they_have_a_conflict(old):
    then, conflict = timezone.now() - timedelta(days=31), Conflict.objects.get()
    for name, at in (("silent", then), ("nightly", then), ("fresh", timezone.now())):
        pipeline = Pipeline.objects.create(name=name, first_seen_at=at, last_seen_at=at)
        told = {"pipeline": pipeline, "table": conflict.table, "reported_at": at}
        PipelineTransaction.objects.create(txn_id="a", **told)
        if name == "nightly":
            conflict.transaction = PipelineTransaction.objects.create(txn_id="b", **told)
            conflict.save()
    tidy_uploads()
    kept = PipelineTransaction.objects.order_by("pk").values_list("pipeline__name", "txn_id")
    assert list(kept) == [("nightly", "b"), ("fresh", "a")]
    assert [pipeline.name for pipeline in Pipeline.objects.all()] == ["fresh", "nightly"]
    conflict.refresh_from_db()
    assert conflict.transaction is not None
