"""A user's own tokens: created, shown once, revoked."""

import re

from django.utils import timezone

from lakeui.api.models import ApiToken
from lakeui.catalog.roles import Role
from tests.lakeui.factories import grant

WANTED = {"name": "nightly", "role": int(Role.OPERATOR), "expires_in_days": 7}


def _secret(body):
    match = re.search(r'<code id="secret">([^<]+)</code>', body)
    return match and match[1]


def test_a_token_is_shown_once_and_opens_the_api(client_for, lake):
    client = client_for("operator")
    response = client.post("/tokens/", WANTED)
    secret = _secret(response.content.decode())
    assert "no-store" in response["Cache-Control"]
    again = client.get("/tokens/").content.decode()
    assert "nightly" in again
    assert secret not in again
    client.logout()
    answer = client.get("/api/v1/tables/", headers={"Authorization": f"Bearer {secret}"})
    assert answer.status_code == 200


def test_a_token_cannot_have_a_role_above_its_makers(client_for):
    response = client_for("operator").post("/tokens/", WANTED | {"role": int(Role.ADMIN)})
    assert response.status_code == 400
    assert not ApiToken.objects.exists()


def test_a_role_on_one_table_is_enough_for_a_token(client_for, lake, people):
    grant(people["stranger"], lake.table, Role.OPERATOR)
    assert _secret(client_for("stranger").post("/tokens/", WANTED).content.decode())


def test_a_person_without_a_role_makes_no_token(client_for):
    assert client_for("stranger").post("/tokens/", WANTED).status_code == 403


def test_a_revoked_token_disappears_and_another_persons_stays(client_for):
    client_for("operator").post("/tokens/", WANTED)
    address = f"/tokens/{ApiToken.objects.get().public_id}/revoke/"
    assert client_for("viewer").post(address).status_code == 404
    assert client_for("operator").post(address).status_code == 302
    assert not ApiToken.objects.exists()


def test_a_token_is_shown_by_its_start_and_asks_before_it_is_revoked(client_for):
    secret = _secret(client_for("operator").post("/tokens/", WANTED).content.decode())
    body = client_for("operator").get("/tokens/").content.decode()
    assert f">{secret[:12]}…</span>" in body
    assert "This cannot be undone." not in body
    asked = f"/tokens/?revoke={ApiToken.objects.get().public_id}"
    assert "This cannot be undone." in client_for("operator").get(asked).content.decode()
    for person, address in (("owner", asked), ("operator", "/tokens/?revoke=nothing")):
        assert "This cannot be undone." not in client_for(person).get(address).content.decode()
    listed = client_for("operator").get("/api/v1/tokens/").json()["items"][0]
    assert listed["starts_with"] == secret[:12]


def test_a_service_account_makes_a_token_that_only_reports(client_for, lake, people):
    grant(people["stranger"], lake.table, Role.REPORTER)
    client = client_for("stranger")
    offered = client.get("/tokens/").content.decode()
    assert f'value="{int(Role.REPORTER)}"' in offered
    assert f'value="{int(Role.VIEWER)}"' not in offered
    secret = _secret(
        client.post("/tokens/", WANTED | {"role": int(Role.REPORTER)}).content.decode()
    )
    client.logout()
    bearer = {"Authorization": f"Bearer {secret}"}
    assert client.get("/api/v1/tables/", headers=bearer).status_code == 403
    event = {"kind": "begun", "table": lake.table.name, "txn_id": "1", "sequence": 0}
    batch = {
        "writer": {"application": "nightly"},
        "events": [event | {"at": timezone.now().isoformat()}],
    }
    told = client.post(
        "/api/v1/pipelines/events/", batch, content_type="application/json", headers=bearer
    )
    assert told.json()["accepted"] == 1


def test_a_reporter_sees_no_page_of_a_table(client_for, lake, people):
    grant(people["stranger"], lake.table, Role.REPORTER)
    assert client_for("stranger").get(f"/tables/{lake.table.pk}/").status_code == 404
    assert lake.table.name not in client_for("stranger").get("/tables/").content.decode()
