"""Roles on one table, given by its admins."""

from auditlog.models import LogEntry

from lakeui.catalog.access import role_of
from lakeui.catalog.models import TableGrant
from lakeui.catalog.roles import Role
from tests.lakeui.api.problem import problem
from tests.lakeui.people import grant, make_table, person


def test_a_role_is_given_changed_and_revoked(client_for, people, table):
    path = f"/api/v1/tables/{table.pk}/grants/"
    caller, stranger = client_for("admin"), people["stranger"]
    caller.put(f"{path}stranger/", {"role": "viewer"}, format="json")
    assert role_of(stranger, table) == Role.VIEWER
    body = caller.put(f"{path}stranger/", {"role": "operator"}, format="json").json()
    assert (body["user"], body["role"], body["granted_by"]) == ("stranger", "operator", "admin")
    assert [row["user"] for row in caller.get(path).json()["items"]] == ["stranger"]
    assert caller.delete(f"{path}stranger/").status_code == 204
    assert role_of(stranger, table) is None
    about = LogEntry.objects.filter(content_type__model="tablegrant")
    assert {entry.actor for entry in about} == {people["admin"]}
    assert about.count() == 3


def test_an_admin_of_one_table_gives_roles_only_there(client, people, table):
    guest, other = person("guest"), make_table("other")
    grant(guest, table, "admin")
    client.force_login(guest)
    body, kind = '{"role": "viewer"}', "application/json"
    here = client.put(f"/api/v1/tables/{table.pk}/grants/stranger/", body, content_type=kind)
    there = client.put(f"/api/v1/tables/{other.pk}/grants/stranger/", body, content_type=kind)
    assert here.status_code == 200
    problem(there, 404)
    assert not TableGrant.objects.filter(table=other).exists()


def test_an_unknown_role_is_refused(client_for, table):
    path = f"/api/v1/tables/{table.pk}/grants/stranger/"
    [fault] = problem(client_for("admin").put(path, {"role": "emperor"}, format="json"), 422)[
        "errors"
    ]
    assert fault["field"] == "role"
