"""Alerts: each finding is sent at least once, signed, and only to its recipients."""

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime, time, timedelta
from email.utils import format_datetime
from itertools import count

import pytest
from aiosmtpd.controller import Controller
from auditlog.models import LogEntry
from django.utils import timezone

from engine.errors import RequestError
from lakeui.conflicts.models import Conflict
from lakeui.jobs.models import Job, Schedule
from lakeui.monitoring.alerting.channels import (
    change_channel,
    change_rule,
    make_channel,
    make_rule,
    seal,
    send_test,
    unseal,
)
from lakeui.monitoring.alerting.messages import signature
from lakeui.monitoring.alerting.outbox import claim, deliver, due_channels
from lakeui.monitoring.alerting.watch import (
    MOST_ITEMS,
    MOST_WAITING,
    AlertRound,
    is_quiet,
    put,
    watch,
)
from lakeui.monitoring.alerting.webhooks import DeliveryError, post, webhook_at
from lakeui.monitoring.attention import CONDITIONS
from lakeui.monitoring.conditions import Condition
from lakeui.monitoring.deliveries import LEASE
from lakeui.monitoring.models import AlertChannel, AlertDelivery, AlertFinding, AlertRule
from tests.lakeui.factories import make_conflict, make_job, make_table, make_user
from tests.lakeui.monitoring.webhook_server import run_hanging_webhook, run_webhook
from tests.ports import port_for_later
from workers.periodic_tasks import forget_spent_rows

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
NUMBERS = count()
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@pytest.fixture(autouse=True)
def local(settings):
    settings.ALERT_WEBHOOK_HOSTS = ["127.0.0.1"]
    settings.PUBLIC_URL = "https://lake.example"


@pytest.fixture
def webhook():
    with run_webhook() as running:
        yield running


@pytest.fixture
def channel(webhook):
    return channel_to(webhook.url)


def channel_to(url, kind="webhook", **fields):
    return make_channel({"name": f"to {kind}", "kind": kind, "target": url} | fields)[0]


def rule_on(channel, condition, **fields):
    values = {"name": f"{condition} told", "condition": condition, "channel": channel}
    return make_rule(values | fields)


def create_failed_job(table, at=NOON, **fields):
    """Create a failed job with a statement of its own."""
    return make_job(
        table,
        statement=f"OPTIMIZE sales.part{next(NUMBERS)}",
        state=Job.State.FAILED,
        finished_at=at,
        error_message="The disk is full.",
        **fields,
    )


def list_sent(webhook):
    return [json.loads(body) for body in webhook.bodies]


def clock_at(moment):
    return lambda: moment


# What is found


def test_a_failed_job_a_stopped_stream_and_a_quiet_mirror_are_found():
    table = make_table(mirrored_at=NOON - timedelta(minutes=16))
    job, stream = create_failed_job(table), create_failed_job(table, kind="stream")
    look = AlertRound(NOON)
    failed = look.findings(Condition.FAILED_JOB, None)
    assert [one.job_id for one in failed] == [str(job.pk)]
    assert failed[0].text.startswith("The disk is full.")
    (stopped,) = look.findings(Condition.STREAM_STOPPED, None)
    assert stopped.job_id == str(stream.pk)
    assert stopped.title == "The stream into sales.orders stopped"
    assert [f.title for f in look.findings(Condition.MIRROR_QUIET, 17)] == []
    (quiet,) = look.findings(Condition.MIRROR_QUIET, None)
    assert quiet.table == table.name


def test_aborted_writes_are_found_by_number_and_by_time_wasted_within_the_day():
    table = make_table()
    for hours in (1, 23, 25):
        make_conflict(
            table,
            kind=Conflict.Kind.ABORTED,
            occurred_at=NOON - timedelta(hours=hours),
            wasted_ms=400_000,
        )
    look = AlertRound(NOON)
    assert look.findings(Condition.ABORTED, 3) == []
    (aborted,) = look.findings(Condition.ABORTED, 2)
    assert aborted.title == "2 writes aborted in 24 h on sales.orders"
    assert [len(look.findings(Condition.WASTED, minutes)) for minutes in (13, 14)] == [1, 0]


@pytest.mark.parametrize("operation", ["SET TBLPROPERTIES", "MERGE"])
def test_a_change_of_the_metadata_is_reported_with_the_number_of_aborted_writes(operation):
    """A MERGE may add columns."""
    table = make_table()
    for minutes in (1, 2):
        make_conflict(
            table, rule="metadata_changed", winning_version=9, winner_operation=operation,
            occurred_at=NOON - timedelta(minutes=minutes),
        )  # fmt: skip
    (told,) = AlertRound(NOON).findings(Condition.METADATA_COST, None)
    assert told.title == f"One {operation} aborted 2 writes on sales.orders"


def test_schedules_whose_long_names_begin_alike_are_distinguished():
    table, owner = make_table(), make_user("owner")
    for end in "ab":
        Schedule.objects.create(
            name="n" * 199 + end, table=table, cron="0 3 * * *", kind="optimize", owner=owner,
            last_fired_at=NOON, note="The owner may not write any more.",
        )  # fmt: skip
    keys = {told.key for told in AlertRound(NOON).findings(Condition.FAILING_SCHEDULE, None)}
    assert [len(key) for key in keys] == [120, 120]


# What is told, and when


def test_a_failed_job_is_reported_once_with_its_address(channel, webhook):
    table = make_table()
    rule, job = rule_on(channel, Condition.FAILED_JOB), create_failed_job(table)
    assert [watch(NOON), watch(NOON + MINUTE), watch(NOON + HOUR)] == [1, 0, 0]
    assert deliver(channel.pk, clock_at(NOON)) == 1
    (message,) = list_sent(webhook)
    assert message["type"] == "alert"
    assert message["rule"] == {"id": rule.pk, "name": rule.name, "condition": "failed_job"}
    assert message["title"] == "OPTIMIZE on sales.orders failed"
    (item,) = message["items"]
    assert item["table"] == table.name
    assert item["text"] == "The disk is full. Open the job, read its log, then retry it."
    assert item["url"] == f"https://lake.example/jobs/{job.pk}/"


def test_findings_within_the_groups_minutes_are_sent_together(channel, webhook):
    table = make_table()
    rule_on(channel, Condition.FAILED_JOB, group_minutes=5)
    create_failed_job(table)
    assert watch(NOON) == 1
    for second in range(1, 4):
        create_failed_job(table)
        assert watch(NOON + second * MINUTE) == 0
    assert watch(NOON + 5 * MINUTE) == 1
    assert deliver(channel.pk, clock_at(NOON + 6 * MINUTE)) == 2
    assert [message["count"] for message in list_sent(webhook)] == [1, 3]
    assert list_sent(webhook)[1]["title"] == "A job failed: failed_job told"


def test_a_message_holds_the_first_and_counts_the_rest(channel):
    table = make_table()
    for _ in range(MOST_ITEMS + 3):
        create_failed_job(table)
    rule_on(channel, Condition.FAILED_JOB)
    watch(NOON)
    content = AlertDelivery.objects.get().content
    assert (len(content["items"]), content["more"], content["count"]) == (MOST_ITEMS, 3, 53)
    assert watch(NOON + HOUR) == 0


def test_only_tables_whose_names_match_are_reported(channel):
    for name in ("sales.orders", "crm.people"):
        create_failed_job(make_table(name))
    rule_on(channel, Condition.FAILED_JOB, tables="crm.*")
    watch(NOON)
    (item,) = AlertDelivery.objects.get().content["items"]
    assert item["table"] == "crm.people"


def test_a_finding_that_alternates_is_sent_once_and_one_that_ends_and_begins_again_twice(channel):
    table = make_table(mirrored_at=NOON - HOUR)
    rule_on(channel, Condition.MIRROR_QUIET, group_minutes=0)

    def look(minutes, *, behind):
        now = NOON + minutes * MINUTE
        table.mirrored_at = now - HOUR if behind else now
        table.save()
        return watch(now)

    assert look(0, behind=True) == 1
    assert look(5, behind=False) == look(10, behind=True) == 0
    assert look(30, behind=False) == look(46, behind=False) == 0
    assert look(47, behind=True) == 1


def test_a_finding_that_still_holds_is_sent_again_after_the_rules_hours(channel):
    make_table(mirrored_at=NOON - HOUR)
    rule_on(channel, Condition.MIRROR_QUIET, repeat_hours=2)
    told = [watch(NOON + hours * HOUR) for hours in (0, 1, 2, 3, 4)]
    assert told == [1, 0, 1, 0, 1]


def test_findings_of_quiet_hours_are_sent_afterwards_in_one_message(channel):
    change_channel(channel, {"quiet_from": time(22), "quiet_to": time(6), "zone": "Europe/Berlin"})
    night = datetime(2026, 11, 23, 22, tzinfo=UTC)  # 23 o'clock in Berlin
    rule_on(channel, Condition.FAILED_JOB)
    table = make_table()
    for minutes in (0, 10):
        create_failed_job(table, night)
        assert watch(night + minutes * MINUTE) == 0
    Job.objects.update(finished_at=night - timedelta(days=2))  # nobody's attention any more
    assert watch(night + 3 * HOUR) == 0
    assert watch(datetime(2026, 11, 24, 5, tzinfo=UTC)) == 1
    content = AlertDelivery.objects.get().content
    assert (content["count"], {item["is_over"] for item in content["items"]}) == (2, {True})
    assert watch(datetime(2026, 11, 24, 5, 30, tzinfo=UTC)) == 0
    assert not AlertFinding.objects.exists()


def test_a_rule_can_ignore_quiet_hours(channel):
    change_channel(channel, {"quiet_from": time(0), "quiet_to": time(23, 59)})
    rule_on(channel, Condition.FAILED_JOB, ignores_quiet_hours=True)
    create_failed_job(make_table())
    assert watch(NOON) == 1


@pytest.mark.parametrize(
    ("begin", "end", "hour", "quiet"),
    [(22, 6, 23, True), (22, 6, 5, True), (22, 6, 6, False), (9, 17, 12, True), (9, 17, 8, False)],
)
def test_quiet_hours_may_reach_over_midnight(begin, end, hour, quiet):
    row = AlertChannel(quiet_from=time(begin), quiet_to=time(end))
    assert is_quiet(row, NOON.replace(hour=hour)) is quiet


def test_a_rule_that_cannot_be_looked_at_stops_no_other(channel):
    broken = channel_to(
        channel_target(channel), name="broken", quiet_from=time(1), quiet_to=time(2)
    )
    AlertChannel.objects.filter(pk=broken.pk).update(zone="Atlantis/Capital")
    rule_on(broken, Condition.FAILED_JOB, name="a rule before")
    rule_on(channel, Condition.FAILED_JOB, name="b rule")
    create_failed_job(make_table())
    assert watch(NOON) == 1
    assert AlertDelivery.objects.get().channel == channel


def channel_target(channel):
    return unseal(channel.sealed_target)


def test_a_disabled_rule_and_a_disabled_channel_send_nothing(channel):
    rule = rule_on(channel, Condition.FAILED_JOB, enabled=False)
    create_failed_job(make_table())
    assert watch(NOON) == 0
    change_rule(rule, {"enabled": True})
    change_channel(channel, {"enabled": False})
    assert watch(NOON) == 0
    put(channel, {"title": "x", "items": [], "more": 0}, NOON)
    assert due_channels(NOON) == []


def test_the_outbox_of_a_channel_is_bounded_and_nothing_is_lost(channel):
    content = {"title": "x", "items": [], "more": 0}
    for _ in range(MOST_WAITING):
        put(channel, content, NOON)
    rule_on(channel, Condition.FAILED_JOB)
    create_failed_job(make_table())
    assert watch(NOON) == 0
    AlertDelivery.objects.all().delete()
    assert watch(NOON + MINUTE) == 1


# How it is delivered


def test_a_message_is_signed_as_standard_webhooks_say(webhook):
    channel, secret = make_channel({"name": "n", "kind": "webhook", "target": webhook.url})
    delivery = send_test(channel, "ann", NOON)
    deliver(channel.pk, clock_at(NOON))
    (headers,), (body,) = webhook.sent, webhook.bodies
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{delivery.pk}.{int(NOON.timestamp())}.".encode() + body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-id"] == str(delivery.pk)
    assert headers["webhook-timestamp"] == str(int(NOON.timestamp()))
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert json.loads(body)["type"] == "test"


def test_the_signature_is_that_of_the_specifications_example():
    known = signature(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1614265330,
        b'{"test": 2432232314}',
    )
    assert known == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_failed_delivery_is_tried_again_later_each_time_with_one_id_and_one_body(
    channel, webhook
):
    webhook.statuses = [500, 503, 200]
    delivery, now, pauses = send_test(channel, "ann", NOON), NOON, []
    while due_channels(now):
        deliver(channel.pk, clock_at(now))
        delivery.refresh_from_db()
        if delivery.next_try_at:
            pauses.append((delivery.next_try_at - now).total_seconds())
            now = delivery.next_try_at
    assert pauses == [30, 60]
    assert (delivery.outcome, delivery.tries) == (AlertDelivery.Outcome.DELIVERED, 3)
    assert len({headers["webhook-id"] for headers in webhook.sent}) == 1
    assert len({headers["webhook-timestamp"] for headers in webhook.sent}) == 3
    assert len(set(webhook.bodies)) == 1


def test_a_webhook_says_when_to_try_again(channel, webhook):
    webhook.statuses, webhook.headers = [429], {"Retry-After": "900"}
    delivery = send_test(channel, "ann", NOON)
    deliver(channel.pk, clock_at(NOON))
    delivery.refresh_from_db()
    assert delivery.next_try_at == NOON + timedelta(seconds=900)
    assert delivery.error == "answered 429"


@pytest.mark.parametrize(
    ("date", "asked", "seconds"),
    [
        ("Mon, 23 Nov 2026 12:00:00 GMT", "Mon, 23 Nov 2026 12:15:00 GMT", 900),
        (
            "Mon, 23 Nov 2026 09:00:00 GMT",
            "Mon, 23 Nov 2026 09:15:00 GMT",
            900,
        ),  # its clock is slow
        ("Mon, 23 Nov 2026 12:00:00 GMT", "Monday, 23-Nov-26 12:15:00 GMT", 900),
        ("Mon, 23 Nov 2026 12:00:00 GMT", "Mon Nov 23 12:15:00 2026", 900),
        ("Mon, 23 Nov 2026 12:00:00 GMT", "Sun, 22 Nov 2026 12:15:00 GMT", 30),  # over
        ("Mon, 23 Nov 2026 12:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", 3600),
        ("Mon, 23 Nov 2026 12:00:00 GMT", "1000000000000", 3600),
        ("Mon, 23 Nov 2026 12:00:00 GMT", "Mon, 99 Nov 2026 12:15:00 GMT", 30),
        ("Mon, 23 Nov 2026 12:00:00 GMT", "soon", 30),
    ],
)
def test_a_webhook_may_say_a_date_by_its_own_clock(channel, webhook, date, asked, seconds):
    webhook.statuses, webhook.headers = [503], {"Retry-After": asked, "Date": date}
    delivery = send_test(channel, "ann", NOON)
    deliver(channel.pk, clock_at(NOON))
    delivery.refresh_from_db()
    assert delivery.next_try_at == NOON + timedelta(seconds=seconds)


def test_a_date_of_a_webhook_that_has_no_clock_is_by_ours(channel, webhook):
    asked = format_datetime(timezone.now() + timedelta(minutes=40), usegmt=True)
    webhook.statuses, webhook.headers = [503], {"Retry-After": asked}
    webhook.tells_date = False
    delivery = send_test(channel, "ann", NOON)
    deliver(channel.pk, clock_at(NOON))
    delivery.refresh_from_db()
    assert 30 * MINUTE < delivery.next_try_at - NOON <= 40 * MINUTE


def test_an_invalid_time_to_try_again_is_ignored(channel, webhook):
    webhook.statuses, webhook.headers = [503], {"Retry-After": "\N{SUPERSCRIPT TWO}"}
    delivery = send_test(channel, "ann", NOON)
    deliver(channel.pk, clock_at(NOON))
    delivery.refresh_from_db()
    assert (delivery.error, delivery.next_try_at) == ("answered 503", NOON + timedelta(seconds=30))


def test_a_message_that_cannot_be_made_is_given_up_too(channel):
    delivery = put(channel, {"title": "no items"}, NOON)
    AlertDelivery.objects.filter(pk=delivery.pk).update(content=["no message"])
    deliver(channel.pk, clock_at(NOON))
    delivery.refresh_from_db()
    assert delivery.error == "the message could not be created (TypeError)"
    deliver(channel.pk, clock_at(NOON + 25 * HOUR))
    delivery.refresh_from_db()
    assert delivery.outcome == AlertDelivery.Outcome.GIVEN_UP


def test_a_message_that_never_arrives_is_given_up_after_a_day(channel, webhook):
    webhook.statuses = [404]
    delivery, now = send_test(channel, "ann", NOON), NOON
    while due_channels(now):
        deliver(channel.pk, clock_at(now))
        delivery.refresh_from_db()
        now = delivery.next_try_at or now
    assert delivery.outcome == AlertDelivery.Outcome.GIVEN_UP
    assert delivery.error == "answered 404"
    assert timedelta(hours=22) < delivery.ended_at - NOON <= timedelta(hours=24)
    assert delivery.tries < 40


def test_a_worker_that_dies_while_it_delivers_leaves_it_to_another(channel, webhook):
    send_test(channel, "ann", NOON)
    assert claim(channel.pk, NOON) is not None  # and this worker is never seen again
    assert claim(channel.pk, NOON + MINUTE) is None
    assert deliver(channel.pk, clock_at(NOON + LEASE)) == 1
    assert len(webhook.bodies) == 1


def test_a_slow_delivery_is_not_repeated_by_another_worker_meanwhile(channel, settings):
    settings.ALERT_TIMEOUT_SECONDS = 600
    send_test(channel, "ann", NOON)
    assert claim(channel.pk, NOON) is not None
    assert claim(channel.pk, NOON + 11 * MINUTE) is None


def test_a_redirect_is_not_followed(channel, webhook):
    with run_webhook() as elsewhere:
        webhook.statuses, webhook.headers = [307], {"Location": elsewhere.url}
        delivery = send_test(channel, "ann", NOON)
        deliver(channel.pk, clock_at(NOON))
        assert elsewhere.bodies == []
    delivery.refresh_from_db()
    assert delivery.error == "answered 307: redirects are not followed"


@pytest.mark.timeout(30)  # one that is waited for is never done
@pytest.mark.parametrize("drip", [b"", b"H", b"HTTP/1.1 200 OK\r\nX: y\r\n"])
def test_a_webhook_that_hangs_or_drips_is_left_after_its_time(drip):
    with run_hanging_webhook(drip) as url, pytest.raises(DeliveryError):
        post(webhook_at(url), b"{}", {}, 0.4)


def test_a_channel_that_fails_holds_up_no_other(channel, webhook, settings):
    settings.ALERT_TIMEOUT_SECONDS = 0.2
    with run_hanging_webhook() as url:
        dead = channel_to(url, name="dead")
        for one in (dead, channel):
            send_test(one, "ann", NOON)
        assert deliver(dead.pk, clock_at(NOON)) == 0
        settings.ALERT_TIMEOUT_SECONDS = 30  # the other one answers, on a busy machine too
        assert deliver(channel.pk, clock_at(NOON)) == 1
    assert AlertDelivery.objects.get(channel=dead).error == "no answer within 0.2 s"


def test_slack_gets_blocks_whose_text_is_escaped(webhook):
    channel = channel_to(webhook.url, "slack")
    create_failed_job(make_table("a<!channel>&b"))
    rule_on(channel, Condition.FAILED_JOB)
    watch(NOON)
    deliver(channel.pk, clock_at(NOON))
    (body,) = list_sent(webhook)
    assert body["text"] == "OPTIMIZE on a&lt;!channel&gt;&amp;b failed"
    assert [block["type"] for block in body["blocks"]] == ["header", "section"]
    assert "|OPTIMIZE on a&lt;!channel&gt;&amp;b failed>" in body["blocks"][1]["text"]["text"]
    assert "webhook-signature" not in webhook.sent[0]


def test_teams_gets_an_adaptive_card(webhook):
    channel = channel_to(webhook.url, "teams")
    for _ in range(20):
        create_failed_job(make_table(f"[x](https://evil.example){Job.objects.count()}"))
    rule_on(channel, Condition.FAILED_JOB)
    watch(NOON)
    deliver(channel.pk, clock_at(NOON))
    (body,) = list_sent(webhook)
    (attachment,) = body["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    texts = [block["text"] for block in attachment["content"]["body"]]
    assert texts[-1] == "And 5 more."
    assert not any("[x](" in text for text in texts)
    assert len(webhook.bodies[0]) < 28 * 1024


def test_people_get_a_mail(settings, free_port_number):
    kept = []

    class Handler:
        async def handle_DATA(self, _server, _session, envelope):  # noqa: N802 - its name
            kept.append(envelope)
            return "250 kept" if len(kept) > 1 else "451 later"

    controller = Controller(Handler(), hostname="127.0.0.1", port=free_port_number)
    controller.start()
    settings.EMAIL_URL = "set"
    settings.EMAIL_BACKEND = "lakeui.monitoring.alerting.mail.BoundedBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", free_port_number
    settings.DEFAULT_FROM_EMAIL = "The lake <alerts@lake.example>"
    try:
        channel = channel_to("ann@example.org; bob@example.org", "email")
        create_failed_job(make_table("sales.orders\r\nBcc: eve@example.org"))
        rule_on(channel, Condition.FAILED_JOB)
        watch(NOON)
        assert deliver(channel.pk, clock_at(NOON)) == 0
        assert AlertDelivery.objects.get().error == "the mail server answered 451"
        assert deliver(channel.pk, clock_at(NOON + MINUTE)) == 1
    finally:
        controller.stop()
    first, second = (envelope.content.decode() for envelope in kept)
    assert kept[1].rcpt_tos == ["ann@example.org", "bob@example.org"]
    assert "Subject: OPTIMIZE on sales.orders Bcc: eve@example.org failed" in second
    assert "The disk is full." in second
    told = f"Message-ID: <{AlertDelivery.objects.get().pk}@lake.example>"  # by whichever worker
    assert [told in mail.splitlines() for mail in (first, second)] == [True, True]


def test_a_recipient_refused_by_the_mail_server_is_reported_though_others_got_the_message(
    settings, free_port_number
):
    class Handler:
        async def handle_RCPT(self, _server, _session, envelope, address, _options):  # noqa: N802
            if address == "bob@example.org":
                return "550 nobody"
            envelope.rcpt_tos.append(address)
            return "250 ok"

    controller = Controller(Handler(), hostname="127.0.0.1", port=free_port_number)
    controller.start()
    settings.EMAIL_URL = "set"
    settings.EMAIL_BACKEND = "lakeui.monitoring.alerting.mail.BoundedBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", free_port_number
    try:
        channel = channel_to("ann@example.org, bob@example.org", "email")
        delivery = send_test(channel, "ann", NOON)
        assert deliver(channel.pk, clock_at(NOON)) == 1
    finally:
        controller.stop()
    delivery.refresh_from_db()
    assert delivery.outcome == AlertDelivery.Outcome.DELIVERED
    assert delivery.error == "refused for bob@example.org (550)"


def test_an_unreachable_mail_server_is_tried_again(settings, dead):
    settings.EMAIL_URL = "set"
    settings.EMAIL_BACKEND = "lakeui.monitoring.alerting.mail.BoundedBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", dead
    channel = channel_to("ann@example.org", "email")
    delivery = send_test(channel, "ann", NOON)
    assert deliver(channel.pk, clock_at(NOON)) == 0
    delivery.refresh_from_db()
    assert delivery.error == "the mail server is unreachable (ConnectionRefusedError)"
    assert delivery.next_try_at > NOON


@pytest.fixture
def free_port_number():
    return port_for_later()


# Where it may go


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.9.9.9", "localhost", "[::1]", "0.0.0.0", "169.254.169.254", "[fe80::1]",  # noqa: S104
        "[::ffff:169.254.169.254]", "[::ffff:127.0.0.1]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::]",
        "[fd20:ce::254]", "[fd00:c1::a9fe:a9fe]", "[fd00:42::42]",
        "[fd00:ec2::254]", "100.100.100.200", "168.63.129.16", "224.0.0.1", "2130706433", "0x7f.1",
        "192.88.99.1", "198.18.0.1", "198.19.255.254", "[::ffff:198.18.0.1]",
        "100.64.0.1", "100.127.255.254", "[::ffff:100.64.0.1]", "[64:ff9b::6440:1]", "192.0.0.192",
        "[2002:7f00:1::]", "[2002:6440:1::]", "[64:ff9b:1::7f00:1]", "[::127.0.0.1]",
        "[2001:0:7f00:1::f7f7:f7f7]",  # Teredo by a server on this machine
        "[2001:0:808:808:0:ffff:5601:5601]",  # and to 169.254.169.254 behind another
        "[2001:db8::5efe:a9fe:a9fe]", "[2001:db8::200:5efe:7f00:1]",  # ISATAP
    ],
)  # fmt: skip
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_this_machine_the_link_and_cloud_metadata_are_refused(settings, host, scheme):
    settings.ALERT_WEBHOOK_HOSTS = []
    with pytest.raises(RequestError, match=r"where alerts are not sent\. Check the URL") as refused:
        channel_to(f"{scheme}://{host}/latest/meta-data")
    assert refused.value.field == "target"
    assert "ALERT_WEBHOOK_HOSTS" in str(refused.value)
    assert not AlertChannel.objects.exists()


@pytest.mark.parametrize(
    "host",
    [
        "10.1.2.3", "192.168.0.9", "[fd12::1]", "8.8.8.8", "100.63.0.1", "100.128.0.1",
        "[2001:0:808:808:0:ffff:f7f7:f7f7]", "[2002:808:808::]", "[64:ff9b::808:808]",
    ],
)  # fmt: skip
def test_private_networks_and_others_are_allowed(settings, host):
    settings.ALERT_WEBHOOK_HOSTS = []
    assert channel_to(f"https://{host}/hook").enabled


@pytest.mark.parametrize("entry", ["127.0.0.0/8", "LOCALHOST"])
def test_the_setting_allows_a_network_or_a_name(settings, entry):
    settings.ALERT_WEBHOOK_HOSTS = [entry, "::1"]
    assert channel_to("http://localhost/hook").enabled


def test_a_target_is_checked_again_when_it_is_called(channel, webhook, settings):
    settings.ALERT_WEBHOOK_HOSTS = []  # as where a name resolves to another address by now
    delivery = send_test(channel, "ann", NOON)
    deliver(channel.pk, clock_at(NOON))
    delivery.refresh_from_db()
    assert "where alerts are not sent" in delivery.error
    assert webhook.bodies == []


@pytest.mark.parametrize(
    "url",
    [
        "", "ftp://127.0.0.1/", "127.0.0.1/hook", "http://", "http://user:pass@127.0.0.1/",
        "http://127.0.0.1:99999/", "http://127.0.0.1/a b", "http://127.0.0.1/\r\nX: y", "http://[::1/",
        "http://127.0.0.1/ä", "file:///etc/passwd", "http://127.0.0.1\\@example.org/",
        "https://127.0.0.1/" + "a" * 2000, "http://" + "a" * 64 + ".example/",
    ],
)  # fmt: skip
def test_an_invalid_target_url_is_refused_by_name(url):
    with pytest.raises(RequestError) as refused:
        channel_to(url)
    assert refused.value.field == "target"


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"zone": "Atlantis"}, "zone"),
        ({"quiet_from": time(1)}, "quiet_to"),
        ({"quiet_from": time(1), "quiet_to": time(1)}, "quiet_to"),
        ({"name": " "}, "name"),
        ({"kind": "email", "target": "ann@example.org"}, "kind"),  # no mail server
    ],
)
def test_a_channel_of_bad_values_is_refused(webhook, values, field):
    given = {"name": "n", "kind": "webhook", "target": webhook.url}
    with pytest.raises(RequestError) as refused:
        make_channel(given | values)
    assert refused.value.field == field


@pytest.mark.parametrize("target", ["", "ann", "ann@example.org, <script>", "a@b.c," * 21])
def test_recipients_are_addresses_of_mail(settings, target):
    settings.EMAIL_URL = "set"
    with pytest.raises(RequestError) as refused:
        channel_to(target, "email")
    assert refused.value.field == "target"


def test_a_threshold_is_for_conditions_that_have_one(channel):
    for name, condition in CONDITIONS.items():
        values = {"name": name, "condition": name, "channel": channel, "threshold": 3}
        if condition.unit:
            make_rule(values)
        else:
            with pytest.raises(RequestError, match="threshold"):
                make_rule(values)


# What is kept of secrets


def test_the_database_the_trail_and_the_log_hold_no_secret(webhook, caplog):
    channel, secret = make_channel({"name": "n", "kind": "webhook", "target": webhook.url})
    webhook.statuses = [500]
    send_test(channel, "ann", NOON)
    deliver(channel.pk, clock_at(NOON))
    row = AlertChannel.objects.values().get()
    kept = [*map(str, row.values()), caplog.text, *map(str, LogEntry.objects.values())]
    kept += map(str, AlertDelivery.objects.values())
    for text in kept:
        assert "a-secret-path" not in text
        assert secret not in text
    assert row["shown_target"] == webhook.url.replace("hook/a-secret-path", "…")
    assert "answered 500" in caplog.text


def test_another_secret_key_leaves_a_channel_that_says_so(channel, settings):
    delivery = send_test(channel, "ann", NOON)
    settings.SECRET_KEY = "another key, of thirty-two characters"
    deliver(channel.pk, clock_at(NOON))
    delivery.refresh_from_db()
    assert "encrypted with another SECRET_KEY" in delivery.error


def test_a_new_secret_signs_from_then_on(channel, webhook):
    secret = change_channel(channel, {"new_secret": True})
    assert unseal(channel.sealed_secret) == secret
    assert unseal(seal("täxt")) == "täxt"
    assert LogEntry.objects.get_for_object(channel).filter(action=1).count() == 1


def test_changing_one_field_keeps_another_persons_change_of_another(channel):
    rule = rule_on(channel, Condition.FAILED_JOB)
    seen, seen_rule = AlertChannel.objects.get(), AlertRule.objects.get()
    secret = change_channel(channel, {"new_secret": True})
    AlertRule.objects.update(told_at=NOON)
    change_channel(seen, {"name": "renamed"})
    change_rule(seen_rule, {"group_minutes": 9})
    channel.refresh_from_db()
    rule.refresh_from_db()
    assert (channel.name, unseal(channel.sealed_secret)) == ("renamed", secret)
    assert (rule.group_minutes, rule.told_at) == (9, NOON)


def test_deliveries_go_after_the_days_kept(channel, settings):
    now = timezone.now()
    for days in (1, 31):
        put(channel, {"title": "x", "items": [], "more": 0}, now - timedelta(days=days))
    forget_spent_rows()
    assert AlertDelivery.objects.count() == 1
