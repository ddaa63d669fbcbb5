from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from lakeui.catalog.models import CommitFile, LiveFile
from lakeui.catalog.roles import Role
from lakeui.jobs.models import Job, JobAttempt, JobEvent
from tests.lakeui.factories import make_commit, make_conflict, make_job, make_table, make_user
from tests.lakeui.page_client import PageClient as Client

PAGES = {
    "overview": "/",
    "attention": "/attention/",
    "tables": "/tables/",
    "table": "/tables/{table}/",
    "schema": "/tables/{table}/schema/",
    "history": "/tables/{table}/history/",
    "version": "/tables/{table}/history/3/",
    "diff": "/tables/{table}/diff/1...3/",
    "row diff": "/tables/{table}/diff/1...3/rows/",
    "concurrency": "/tables/{table}/concurrency/?pick=c-{conflict}",
    "lanes": "/tables/{table}/concurrency/?span=3000",
    "isolation": "/tables/{table}/isolation/?level=Serializable&cell=UPDATE|DELETE",
    "eligibility": "/tables/{table}/eligibility/",
    "what-if": "/tables/{table}/what-if/?row_level=false",
    "preview": "/tables/{table}/preview/",
    "files": "/tables/{table}/files/",
    "schedules": "/schedules/",
    "run grid": "/schedules/runs/",
    "explain": "/conflicts/explain/",
    "exceptions": "/conflicts/exceptions/",
    "monitoring": "/monitoring/",
    "alerts": "/monitoring/alerts/",
    "discover": "/tables/discover/",
    "audit": "/audit/",
    "tokens": "/tokens/",
    "sessions": "/sessions/",
    "jobs": "/jobs/",
    "jobs of a table": "/jobs/?table={table}",
    "job": "/jobs/{job}/",
    "job log": "/jobs/{job}/log/",
    "conflicts": "/conflicts/",
    "repeated conflicts": "/conflicts/repeated/",
    "conflicts of a table": "/conflicts/?table={table}",
    "conflict": "/conflicts/{conflict}/",
    "search": "/search/?q=sales",
    "glossary": "/glossary/",
}
"""Every page, in the small lake."""


class SmallLake:
    """One table of a few versions, with every kind of record, and three people who look at it."""

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
        keys = {"table": self.table.pk, "job": self.job.pk, "conflict": self.conflict.pk}
        return {name: path.format(**keys) for name, path in PAGES.items()}


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
def client_for(people):
    def sign_in(name):
        client = Client()
        client.force_login(people[name])
        return client

    return sign_in
