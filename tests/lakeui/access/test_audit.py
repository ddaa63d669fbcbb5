"""The audit log: user, action, time and table, including refusals."""

from datetime import timedelta

import pytest
from auditlog.models import LogEntry
from django.utils import timezone
from rest_framework.test import APIClient

from lakeui.api.models import ApiToken
from lakeui.catalog.models import TableGrant
from lakeui.catalog.roles import Role
from lakeui.jobs.models import Job
from tests.lakeui.people import grant, make_table, person

pytestmark = pytest.mark.django_db
OPTIMIZE = {"kind": "optimize", "parameters": {}, "reason": "Monday's compaction"}


def entries(model):
    return LogEntry.objects.filter(content_type__model=model.__name__.lower())


@pytest.fixture
def table():
    return make_table()


@pytest.fixture
def ann():
    return person("ann", "maintainer")


@pytest.fixture
def session_client(ann):
    caller = APIClient()
    caller.force_login(ann)
    return caller


@pytest.fixture
def token_client(ann):
    _, secret = ApiToken.objects.create(user=ann, name="ci", role=Role.MAINTAINER)
    return APIClient(headers={"Authorization": f"Bearer {secret}"})


@pytest.mark.parametrize("how", ["session_client", "token_client"])
def test_a_job_is_logged_with_its_requester_and_the_reason(request, table, ann, how):
    caller = request.getfixturevalue(how)
    response = caller.post(f"/api/v1/tables/{table.pk}/jobs/", OPTIMIZE, format="json")
    entry = entries(Job).get(object_pk=response.json()["id"])
    assert entry.actor == ann
    assert entry.action == LogEntry.Action.CREATE
    assert entry.changes["reason"] == ["None", "Monday's compaction"]
    assert entry.remote_addr == "127.0.0.1"


@pytest.mark.parametrize("how", ["session_client", "token_client"])
def test_a_refusal_is_in_the_audit_trail(request, table, ann, how):
    caller = request.getfixturevalue(how)
    path = f"/api/v1/tables/{table.pk}/jobs/"
    caller.post(path, {"kind": "restore", "parameters": {"version": 0}}, format="json")
    [entry] = LogEntry.objects.filter(action=LogEntry.Action.ACCESS)
    assert (entry.actor, entry.object_repr) == (ann, path)
    assert entry.additional_data["refused"] in ("LAKE_NOT_PERMITTED", "PERMISSION_DENIED")


def test_a_refusal_again_and_again_is_on_record_once_an_hour(table, token_client):
    path = f"/api/v1/tables/{table.pk}/jobs/"
    restore = {"kind": "restore", "parameters": {"version": 0}}
    assert {token_client.post(path, restore, format="json").status_code for _ in range(4)} == {403}
    refusals = LogEntry.objects.filter(action=LogEntry.Action.ACCESS)
    assert refusals.count() == 1
    refusals.update(timestamp=timezone.now() - timedelta(minutes=61))
    token_client.post(path, restore, format="json")
    assert refusals.count() == 2


def test_a_page_view_leaves_no_entry_in_the_audit_trail(table, session_client):
    before = LogEntry.objects.count()
    session_client.get("/api/v1/tables/")
    session_client.get("/api/v1/tables/99999/")
    assert LogEntry.objects.count() == before


def test_grants_and_groups_are_on_record(table, ann):
    grant(ann, table, "admin")
    assert entries(TableGrant).get().changes["role"][1] == str(int(Role.ADMIN))
    ann.groups.clear()
    last = LogEntry.objects.filter(content_type__model="user").first()
    assert "groups" in last.changes


def test_the_mirror_at_work_is_not_on_record(table):
    before = LogEntry.objects.count()
    table.version, table.size_bytes = 9, 1
    table.save()
    assert LogEntry.objects.count() == before


def test_a_change_of_a_description_is_logged_with_the_old_text(table, session_client):
    path = f"/api/v1/tables/{table.pk}/"
    seen = session_client.get(path).headers["ETag"]
    session_client.patch(path, {"description": "new"}, format="json", headers={"If-Match": seen})
    entry = LogEntry.objects.filter(content_type__model="table").first()
    assert entry.changes["description"][1] == "new"


def test_the_claims_of_a_header_are_not_believed_without_a_proxy(table, session_client):
    headers = {"X-Forwarded-For": "6.6.6.6, not-an-address", "X-Forwarded-Port": "99999999999"}
    path = f"/api/v1/tables/{table.pk}/jobs/"
    session_client.post(path, OPTIMIZE, format="json", headers=headers)
    assert entries(Job).get().remote_addr == "127.0.0.1"


def test_no_secret_is_on_record(ann, session_client):
    made = session_client.post(
        "/api/v1/tokens/", {"name": "x", "role": "viewer"}, format="json"
    ).json()
    ann.set_password("another horse")
    ann.save()
    told = str(list(LogEntry.objects.values()))
    assert made["token"] not in told
    assert ann.password not in told
    assert "md5$" not in told
