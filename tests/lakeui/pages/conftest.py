from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from lakeui.catalog.models import CommitFile, LiveFile
from lakeui.catalog.roles import Role
from lakeui.jobs.models import Job, JobAttempt, JobEvent
from tests.lakeui.factories import make_commit, make_conflict, make_job, make_table, make_user
from tests.lakeui.page_client import PageClient as Client


class SmallLake:
    """One table of a few versions, with what can hang on it; three people who look at it."""

    def __init__(self, name="sales.orders"):
        now = timezone.now()
        self.table = make_table(name, uri=f"{settings.LAKE_HOME}/{name}", version=3)
        for version, operation in enumerate(("CREATE TABLE", "WRITE", "MERGE", "DELETE")):
            at = now - timedelta(hours=4 - version)
            commit = make_commit(self.table, version, operation, committed_at=at)
        CommitFile.objects.create(commit=commit, action="add", path="part-0.parquet", size_bytes=9)
        LiveFile.objects.create(table=self.table, path="part-0.parquet", size_bytes=9)
        self.job = make_job(
            self.table, state=Job.State.RUNNING, started_at=now, progress_total=9, progress_done=4
        )
        JobAttempt.objects.create(job=self.job, number=1, started_at=now, read_version=2)
        JobEvent.objects.create(job=self.job, at=now, message="Attempt 1 started")
        self.conflict = make_conflict(self.table, job=self.job, winning_version=3)

    def paths(self):
        table, job = f"/tables/{self.table.pk}/", f"/jobs/{self.job.pk}/"
        return {
            "overview": "/",
            "attention": "/attention/",
            "tables": "/tables/",
            "table": table,
            "schema": f"{table}schema/",
            "history": f"{table}history/",
            "version": f"{table}history/3/",
            "diff": f"{table}diff/1...3/",
            "concurrency": f"{table}concurrency/?pick=c-{self.conflict.pk}",
            "lanes": f"{table}concurrency/?span=3000",
            "isolation": f"{table}isolation/?level=Serializable&cell=UPDATE|DELETE",
            "eligibility": f"{table}eligibility/",
            "what-if": f"{table}what-if/?row_level=false",
            "preview": f"{table}preview/",
            "files": f"{table}files/",
            "schedules": "/schedules/",
            "explain": "/conflicts/explain/",
            "monitoring": "/monitoring/",
            "audit": "/audit/",
            "tokens": "/tokens/",
            "jobs": "/jobs/",
            "jobs of a table": f"/jobs/?table={self.table.pk}",
            "job": job,
            "job log": f"{job}log/",
            "conflicts": "/conflicts/",
            "conflicts of a table": f"/conflicts/?table={self.table.pk}",
            "conflict": f"/conflicts/{self.conflict.pk}/",
            "search": "/search/?q=sales",
        }


@pytest.fixture
def lake(db):
    return SmallLake()


@pytest.fixture
def people(db):
    return {
        "owner": make_user("owner", Role.ADMIN),
        "operator": make_user("operator", Role.OPERATOR),
        "viewer": make_user("viewer", Role.VIEWER),
        "stranger": make_user("stranger"),
    }


@pytest.fixture
def as_(people):
    def signed_in(name):
        client = Client()
        client.force_login(people[name])
        return client

    return signed_in
