"""The page of alert rules: admins set up, maintainers read, a secret is shown once."""

import pytest
from auditlog.models import LogEntry
from django.utils import timezone

from lakeui.catalog.roles import Role
from lakeui.monitoring.alerting.channels import send_test, unseal
from lakeui.monitoring.deliveries import record_delivery
from lakeui.monitoring.models import AlertChannel, AlertDelivery, AlertRule
from tests.lakeui.factories import make_user
from tests.lakeui.page_client import PageClient

HOOK = "https://10.9.8.7/hook/a-secret-path"  # checked, and never called here
CHANNEL = {"channel-name": "ops", "channel-kind": "webhook", "channel-target": HOOK} | {
    "channel-zone": "UTC",
    "channel-enabled": "on",
}


@pytest.fixture
def admin(client_for):
    return client_for("owner")


def create_channel(admin):
    response = admin.post("/monitoring/alerts/channels/", CHANNEL)
    return response, AlertChannel.objects.get()


def rule_of(channel, **fields):
    return {
        "rule-name": "jobs",
        "rule-condition": "failed_job",
        "rule-channel": channel.pk,
        "rule-group_minutes": "5",
        "rule-repeat_hours": "0",
        "rule-enabled": "on",
    } | fields


def test_the_secret_is_shown_once_and_the_target_never(admin):
    response, channel = create_channel(admin)
    secret = unseal(channel.sealed_secret)
    assert secret in response.content.decode()
    assert "no-store" in response["Cache-Control"]
    for path in ("/monitoring/alerts/", f"/monitoring/alerts/?channel={channel.pk}"):
        body = admin.get(path).content.decode()
        assert "https://10.9.8.7/…" in body
        assert secret not in body
        assert "a-secret-path" not in body
    rest = admin.get("/api/v1/monitoring/alerts/").content.decode()
    assert "10.9.8.7" in rest
    assert "a-secret-path" not in rest
    assert secret not in rest


def test_the_only_channel_is_chosen_in_a_new_rule(admin):
    first = create_channel(admin)[1]
    chosen = f'<option value="{first.pk}" selected>'
    assert chosen in admin.get("/monitoring/alerts/").text
    AlertChannel.objects.create(name="second", kind="webhook")
    assert chosen not in admin.get("/monitoring/alerts/").text


def test_a_channel_is_changed_and_keeps_its_target_where_none_is_entered(admin):
    _, channel = create_channel(admin)
    sealed = channel.sealed_target
    values = {"channel-name": "night", "channel-zone": "Europe/Berlin", "channel-enabled": "on"}
    quiet = {"channel-quiet_from": "22:00", "channel-quiet_to": "06:00", "channel-target": ""}
    assert (
        admin.post(f"/monitoring/alerts/channels/{channel.pk}/", values | quiet).status_code == 302
    )
    channel.refresh_from_db()
    assert (channel.name, channel.sealed_target) == ("night", sealed)
    assert "22:00 to 06:00" in admin.get("/monitoring/alerts/").content.decode()
    entry = LogEntry.objects.get_for_object(channel).first()
    assert {*entry.changes} == {"name", "zone", "quiet_from", "quiet_to"}
    assert entry.actor.username == "owner"


def test_a_metadata_address_is_reported_beside_its_field(admin):
    response = admin.post(
        "/monitoring/alerts/channels/", CHANNEL | {"channel-target": "http://169.254.169.254/x"}
    )
    assert response.status_code == 400
    assert "resolves to 169.254.169.254, where alerts are not sent." in response.content.decode()
    assert not AlertChannel.objects.exists()


def test_a_rule_is_made_changed_and_removed(admin):
    _, channel = create_channel(admin)
    assert admin.post("/monitoring/alerts/rules/", rule_of(channel)).status_code == 302
    rule = AlertRule.objects.get()
    wasted = rule_of(channel, **{"rule-condition": "wasted", "rule-threshold": "20"})
    assert admin.post(f"/monitoring/alerts/rules/{rule.pk}/", wasted).status_code == 302
    body = admin.get(f"/monitoring/alerts/?rule={rule.pk}").content.decode()
    assert "20 minutes in 24 h" in body
    assert 'value="20"' in body
    late = rule_of(channel, **{"rule-threshold": "3", "rule-name": "other"})
    assert "fixed threshold" in admin.post("/monitoring/alerts/rules/", late).content.decode()
    assert "Remove it" in admin.get(f"/monitoring/alerts/?remove_rule={rule.pk}").content.decode()
    admin.post(f"/monitoring/alerts/rules/{rule.pk}/remove/")
    assert not AlertRule.objects.exists()


def test_the_test_button_puts_a_message_into_the_outbox(admin, unreachable_broker):
    _, channel = create_channel(admin)
    admin.post(f"/monitoring/alerts/channels/{channel.pk}/act/", {"act": "test"})
    assert AlertDelivery.objects.get().is_test
    body = admin.get("/monitoring/alerts/").content.decode()
    assert "Test of the channel ops" in body
    assert "waiting" in body


def test_a_message_that_missed_a_recipient_is_delivered_and_names_them(admin):
    delivery = send_test(
        AlertChannel.objects.create(name="people", kind="email"), "ann", timezone.now()
    )
    record_delivery(delivery, timezone.now(), error="refused for bob@example.org (550)")
    page = admin.get("/monitoring/alerts/").content.decode()
    assert "refused for bob@example.org (550)" in page
    assert ("delivered</span>" in page, "given up</span>" in page) == (True, False)


def test_maintainers_read_and_admins_alone_change(admin, lake):
    _, channel = create_channel(admin)
    maintainer = PageClient()
    maintainer.force_login(make_user("maintainer", Role.MAINTAINER))
    body = maintainer.get("/monitoring/alerts/").content.decode()
    assert "ops" in body
    assert "New channel" not in body
    for path, values in (
        ("channels/", CHANNEL),
        (f"channels/{channel.pk}/", CHANNEL),
        (f"channels/{channel.pk}/act/", {"act": "remove"}),
        ("rules/", rule_of(channel)),
    ):
        assert maintainer.post(f"/monitoring/alerts/{path}", values).status_code == 403
    assert AlertChannel.objects.count() == 1


@pytest.mark.parametrize("who", ["operator", "viewer", "stranger"])
def test_others_do_not_see_it(client_for, who):
    assert client_for(who).get("/monitoring/alerts/").status_code == 403


def test_nothing_changes_where_the_installation_is_read_only(admin, settings):
    settings.READ_ONLY = True
    assert admin.post("/monitoring/alerts/channels/", CHANNEL).status_code == 403
    assert "New channel" not in admin.get("/monitoring/alerts/").content.decode()
