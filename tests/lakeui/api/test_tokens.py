"""Bearer tokens: hashed, expiring, bounded by their role."""

from base64 import b64encode
from datetime import timedelta

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from lakeui.api.models import ApiToken
from tests.lakeui.api.problem import problem


def bearer(token):
    return APIClient(headers={"Authorization": f"Bearer {token}"})


@pytest.fixture
def make(client_for):
    def post(who="admin", **body):
        values = {"name": "ci", "role": "admin"} | body
        return client_for(who).post("/api/v1/tokens/", values, format="json")

    return post


def test_a_token_is_shown_once_and_kept_as_a_hash(make, client_for):
    made = make().json()
    assert made["token"].startswith("lake_")
    kept = ApiToken.objects.get(public_id=made["id"])
    assert made["token"] not in (kept.digest, kept.token_key)
    [listed] = client_for("admin").get("/api/v1/tokens/").json()["items"]
    assert "token" not in listed
    assert listed["role"] == "admin"


def test_a_token_acts_as_its_owner(make, table):
    caller = bearer(make().json()["token"])
    assert caller.get("/api/v1/tables/").json()["items"][0]["name"] == table.name


def test_a_tokens_role_bounds_its_owners(make, table):
    caller = bearer(make(role="operator").json()["token"])
    path = f"/api/v1/tables/{table.pk}/jobs/"
    delete = {"kind": "delete", "parameters": {"where": "1 = 1"}}
    assert caller.post(path, delete, format="json").status_code == 202
    problem(caller.post(path, {"kind": "optimize"}, format="json"), 403)


def test_a_viewers_token_changes_nothing(make, job, people):
    caller = bearer(make(role="viewer").json()["token"])
    problem(caller.post(f"/api/v1/jobs/{job.pk}:cancel"), 403, "TOKEN_TOO_WEAK")
    problem(caller.post("/api/v1/tokens/", {}, format="json"), 403, "TOKEN_TOO_WEAK")


def test_a_token_never_has_more_rights_than_its_maker(make):
    problem(make("operator", role="maintainer"), 403, "PERMISSION_DENIED")


def test_a_token_makes_none_that_would_outlive_it(make):
    caller = bearer(make("admin", role="operator", expires_in_days=1).json()["token"])
    longer = {"name": "x", "role": "viewer", "expires_in_days": 365}
    problem(caller.post("/api/v1/tokens/", longer, format="json"), 403, "TOKEN_MAKES_NONE")
    assert ApiToken.objects.count() == 1


def test_a_guest_may_have_a_token_of_the_granted_role(guest, client, table):
    client.force_login(guest)
    body = {"name": "x", "role": "viewer"}
    made = client.post("/api/v1/tokens/", body, content_type="application/json").json()
    assert bearer(made["token"]).get(f"/api/v1/tables/{table.pk}/").status_code == 200


def test_a_revoked_token_is_refused(make, client_for):
    made = make().json()
    assert client_for("admin").delete(f"/api/v1/tokens/{made['id']}/").status_code == 204
    response = bearer(made["token"]).get("/api/v1/tables/")
    problem(response, 401, "AUTHENTICATION_FAILED")
    assert response.headers["WWW-Authenticate"] == "Bearer"


def test_another_persons_token_cannot_be_revoked(make, client_for):
    problem(client_for("maintainer").delete(f"/api/v1/tokens/{make().json()['id']}/"), 404)


def test_a_token_past_its_time_is_refused_and_a_read_removes_nothing(make):
    made = make().json()
    ApiToken.objects.update(expiry=timezone.now() - timedelta(seconds=1))
    problem(bearer(made["token"]).get("/api/v1/tables/"), 401, "AUTHENTICATION_FAILED")
    assert ApiToken.objects.count() == 1
    make(name="next")
    assert ApiToken.objects.get().name == "next"


def test_a_token_of_someone_dismissed_is_refused(make, people):
    made = make().json()
    people["admin"].is_active = False
    people["admin"].save()
    problem(bearer(made["token"]).get("/api/v1/tables/"), 401)


@pytest.mark.parametrize("token", ["", "x", "lake_" + "0" * 64, "a b", "\xff"])
def test_text_that_is_no_token_is_refused(db, token):
    problem(bearer(token).get("/api/v1/tables/"), 401)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"role": "emperor"}, "role"),
        ({"role": 40}, "role"),
        ({"role": None}, "role"),
        ({"expires_in_days": 0}, "expires_in_days"),
        ({"expires_in_days": 366}, "expires_in_days"),
        ({"name": ""}, "name"),
        ({"name": "x" * 101}, "name"),
    ],
)
def test_a_token_that_cannot_be_is_refused_by_field(make, body, field):
    [fault] = problem(make(**body), 422)["errors"]
    assert fault["field"] == field


def test_invalid_tokens_are_refused_ever_more_slowly(make, settings):
    settings.API_RATE_ANONYMOUS = "3/min"
    good = bearer(make().json()["token"])
    statuses = [bearer(f"lake_{n}").get("/api/v1/tables/").status_code for n in range(5)]
    assert statuses == [401, 401, 401, 429, 429]
    refused = bearer("lake_x").get("/api/v1/tables/", headers={"X-Forwarded-For": "203.0.113.9"})
    problem(refused, 429, "THROTTLED")
    assert int(refused.headers["Retry-After"]) > 0
    assert good.get("/api/v1/tables/").status_code == 200


@pytest.mark.parametrize("prefix", ["Basic", "basic", "Digest", "Token"])
def test_a_name_and_a_password_are_no_way_into_rest(people, prefix):
    people["admin"].set_password("correct horse battery")
    people["admin"].save()
    secret = b64encode(b"admin:correct horse battery").decode()
    caller = APIClient(headers={"Authorization": f"{prefix} {secret}"})
    problem(caller.get("/api/v1/tables/"), 401, "NOT_AUTHENTICATED")
