"""Alerts over REST: the whole life of a channel and a rule."""

from lakeui.monitoring.alerting.channels import unseal
from lakeui.monitoring.models import AlertChannel
from tests.lakeui.api.problem import problem

HOOK = "https://10.9.8.7/hook/a-secret-path"


def test_a_channel_and_a_rule_are_made_read_changed_and_removed(client_for):
    admin = client_for("admin")

    def post(path, body):
        return admin.post(f"/api/v1/alerts/{path}", body, format="json")

    channel = post("channels/", {"name": "ops", "kind": "webhook", "target": HOOK})
    assert channel.status_code == 201
    row = AlertChannel.objects.get()
    assert channel.json()["secret"] == unseal(row.sealed_secret)
    assert channel.json()["target"] == "https://10.9.8.7/…"
    address = f"/api/v1/alerts/channels/{row.pk}/"
    assert "secret" not in admin.get(address).json()
    assert admin.patch(address, {"zone": "Asia/Tokyo"}, format="json").json()["secret"] is None
    changed = admin.patch(address, {"new_secret": True}, format="json").json()
    assert changed["secret"] != channel.json()["secret"]
    row.refresh_from_db()
    assert changed["secret"] == unseal(row.sealed_secret)

    rule = post("rules/", {"name": "w", "condition": "wasted", "channel_id": row.pk})
    assert (rule.status_code, rule.json()["threshold"]) == (201, 60)
    of_rule = f"/api/v1/alerts/rules/{rule.json()['id']}/"
    assert admin.patch(of_rule, {"threshold": 3}, format="json").json()["threshold"] == 3
    test = post(f"channels/{row.pk}:test", None)
    assert (test.status_code, test.json()["outcome"]) == (202, "waiting")
    whole = admin.get("/api/v1/monitoring/alerts/").json()
    assert [len(whole[part]) for part in ("channels", "rules", "deliveries")] == [1, 1, 1]
    assert admin.get("/api/v1/alerts/deliveries/").json()["items"][0]["id"] == test.json()["id"]
    assert admin.delete(of_rule).status_code == admin.delete(address).status_code == 204
    assert not AlertChannel.objects.exists()


def test_a_target_inside_the_machine_is_a_fault_of_the_request(client_for):
    body = {"name": "ops", "kind": "slack", "target": "http://169.254.169.254/latest/"}
    answer = client_for("admin").post("/api/v1/alerts/channels/", body, format="json")
    (fault,) = problem(answer, 422)["errors"]
    assert fault["field"] == "target"
    assert "169.254.169.254" in fault["message"]


def test_an_unknown_field_and_an_unknown_condition_are_refused(client_for):
    for body in ({"name": "r", "condition": "x", "channel_id": 1}, {"nam": "r"}):
        answer = client_for("admin").post("/api/v1/alerts/rules/", body, format="json")
        problem(answer, 422)
