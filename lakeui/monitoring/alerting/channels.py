"""Channels and rules: created, changed, tested. Errors name their field; nothing is stored then.

Secrets are encrypted in the database by `SECRET_KEY`, so that a copy of it does not reveal them.
"""

import base64
import secrets
from collections.abc import Mapping
from datetime import datetime, time
from typing import Any
from zoneinfo import available_timezones

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.utils import timezone
from kombu.exceptions import OperationalError

from engine.errors import RequestError
from lakeui.celery import app
from lakeui.monitoring.alerting.messages import SECRET_PREFIX
from lakeui.monitoring.alerting.watch import message, put
from lakeui.monitoring.alerting.webhooks import check_webhook, webhook_at
from lakeui.monitoring.attention import CONDITIONS
from lakeui.monitoring.conditions import Condition
from lakeui.monitoring.models import AlertChannel, AlertDelivery, AlertRule
from lakeui.task_names import DELIVER_ALERTS, LIGHT_QUEUE

MOST_CHANNELS, MOST_RULES, MOST_RECIPIENTS = 50, 200, 20
MAX_THRESHOLD, MAX_GROUP_MINUTES, MAX_REPEAT_HOURS = 1_000_000, 1440, 720

_PURPOSE = b"lakeui.monitoring.alerting"


def make_channel(values: Mapping[str, Any]) -> tuple[AlertChannel, str]:
    """Create a channel; return it and its secret for signing, "" for a kind that does not sign.

    Raises:
        RequestError: a value is at fault, the name is taken, or there are too many.
    """
    if AlertChannel.objects.count() >= MOST_CHANNELS:
        msg = f"{MOST_CHANNELS} channels already exist, which is the limit."
        raise RequestError(msg, "Remove one.", field="name")
    channel = AlertChannel(kind=values["kind"])
    secret = _new_secret(channel) if channel.kind == AlertChannel.Kind.WEBHOOK else ""
    _set_channel(channel, values, {})
    return channel, secret


def change_channel(channel: AlertChannel, values: Mapping[str, Any]) -> str:
    """Change the given values; return the new secret if `new_secret` is set, else "".

    Raises:
        RequestError: as `make_channel`.
    """
    secret, before = "", _values(channel)
    if values.get("new_secret"):
        if channel.kind != AlertChannel.Kind.WEBHOOK:
            msg = "Only webhooks with JSON are signed."
            raise RequestError(msg, "Remove new_secret.", field="new_secret")
        secret = _new_secret(channel)
    _set_channel(channel, values, before)
    return secret


def make_rule(values: Mapping[str, Any]) -> AlertRule:
    """Create a rule.

    Raises:
        RequestError: a value is at fault, the name is taken, or there are too many.
    """
    if AlertRule.objects.count() >= MOST_RULES:
        msg = f"{MOST_RULES} rules already exist, which is the limit."
        raise RequestError(msg, "Remove one.", field="name")
    rule = AlertRule()
    change_rule(rule, values)
    return rule


def change_rule(rule: AlertRule, values: Mapping[str, Any]) -> None:
    """Change the given values; delete findings under another condition, threshold or pattern.

    Raises:
        RequestError: a value is at fault, or the name is taken.
    """
    before = _values(rule)
    for name in ("name", "condition", "threshold", "tables", "channel", "group_minutes",
                 "repeat_hours", "ignores_quiet_hours", "enabled"):  # fmt: skip
        if name in values:
            setattr(rule, name, values[name])
    if rule.threshold is not None and not CONDITIONS[Condition(rule.condition)].unit:
        msg = "This condition has a fixed threshold."
        raise RequestError(msg, "Leave the threshold empty.", field="threshold")
    with transaction.atomic():
        _save_changes(rule, before)
        if any(
            before[name] != getattr(rule, name) for name in ("condition", "threshold", "tables")
        ):
            rule.findings.all().delete()


def send_test(channel: AlertChannel, by: str, now: datetime) -> AlertDelivery:
    """Put a test message into the outbox, at any hour, and wake a worker for it."""
    content = message(f"Test of the channel {channel.name}")
    content["items"] = [
        {
            "key": "test",
            "title": f"{by} tested this channel",
            "text": "Alerts arrive in this channel. You do not need to do anything.",
            "table": None,
            "table_id": None,
            "job_id": None,
            "version": None,
            "since": None,
            "url": f"{settings.PUBLIC_URL.rstrip('/')}/monitoring/alerts/"
            if settings.PUBLIC_URL
            else None,
        }
    ]
    content["count"] = 1
    delivery = put(channel, content, now, is_test=True)
    transaction.on_commit(lambda: wake(channel.pk), robust=True)
    return delivery


def wake(channel_id: int) -> None:
    """Have a light worker deliver. Without a broker the next round does."""
    try:
        app.send_task(DELIVER_ALERTS, [channel_id], queue=LIGHT_QUEUE, expires=60)
    except (OperationalError, OSError):
        return


def _set_channel(
    channel: AlertChannel, values: Mapping[str, Any], before: Mapping[str, Any]
) -> None:
    if "target" in values:
        _set_target(channel, values["target"].strip())
    for name in ("name", "quiet_from", "quiet_to", "zone", "enabled"):
        if name in values:
            setattr(channel, name, values[name])
    if channel.zone not in available_timezones():
        msg = f"There is no time zone {channel.zone[:64]!r}."
        raise RequestError(msg, "Use a name such as Europe/Berlin.", field="zone")
    _check_quiet_hours(channel.quiet_from, channel.quiet_to)
    _save_changes(channel, before)


def _set_target(channel: AlertChannel, target: str) -> None:
    if channel.kind == AlertChannel.Kind.EMAIL:
        recipients = _recipients_in(target)
        channel.shown_target = ", ".join(recipients)
        channel.sealed_target = seal(",".join(recipients))
        return
    webhook = webhook_at(target)
    check_webhook(webhook)
    channel.shown_target, channel.sealed_target = webhook.shown, seal(target)


def _recipients_in(target: str) -> list[str]:
    if not settings.EMAIL_URL:
        msg = "This installation has no mail server."
        raise RequestError(msg, "Ask an administrator to set EMAIL_URL.", field="kind")
    recipients = [part.strip() for part in target.replace(";", ",").split(",") if part.strip()]
    for recipient in recipients:
        try:
            validate_email(recipient)
        except ValidationError as error:
            msg = f"{recipient[:100]!r} is not an e-mail address."
            raise RequestError(msg, "Separate addresses with commas.", field="target") from error
    if not 0 < len(recipients) <= MOST_RECIPIENTS or sum(map(len, recipients)) > 900:
        msg = f"A channel has 1 to {MOST_RECIPIENTS} recipients."
        raise RequestError(msg, "Use a mailing list for more recipients.", field="target")
    return list(dict.fromkeys(recipients))


def _check_quiet_hours(begin: time | None, end: time | None) -> None:
    if (begin is None) != (end is None):
        msg = "Quiet hours need both a start and an end."
        raise RequestError(msg, "Enter both, or neither.", field="quiet_to")
    if begin is not None and begin == end:
        msg = "Quiet hours cannot start and end at the same time."
        raise RequestError(msg, "Disable the channel to send no alerts.", field="quiet_to")


def _new_secret(channel: AlertChannel) -> str:
    secret = SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()
    channel.sealed_secret, channel.secret_made_at = seal(secret), timezone.now()
    return secret


def _save_changes(row: AlertChannel | AlertRule, before: Mapping[str, Any]) -> None:
    """Save only the changed values: another request, or a worker, may have changed the rest."""
    row.name = row.name.strip()
    if not row.name or not row.name.isprintable():
        msg = "The name is empty or has characters that cannot be printed."
        raise RequestError(msg, "Use 1 to 100 printable characters.", field="name")
    try:
        with transaction.atomic():
            row.save(update_fields=_list_changed_fields(row, before) if row.pk else None)
    except IntegrityError as error:
        msg = f"The name {row.name} already exists."
        raise RequestError(msg, "Choose another.", field="name") from error


def _values(row: AlertChannel | AlertRule) -> dict[str, Any]:
    return {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}


def _list_changed_fields(row: AlertChannel | AlertRule, before: Mapping[str, Any]) -> list[str]:
    return [name for name, value in _values(row).items() if value != before[name]]


def seal(text: str) -> str:
    """Encrypt a text for this installation alone."""
    return _fernet().encrypt(text.encode()).decode("ascii")


def unseal(sealed: str) -> str:
    """Decrypt a text; raise `RequestError` if `SECRET_KEY` has changed since."""
    try:
        return _fernet().decrypt(sealed.encode()).decode()
    except InvalidToken as error:
        msg = "The channel's target was encrypted with another SECRET_KEY and cannot be read."
        raise RequestError(msg, "Enter the channel's target again.", field="target") from error


def _fernet() -> Fernet:
    key = HKDF(SHA256(), 32, None, _PURPOSE).derive(settings.SECRET_KEY.encode())
    return Fernet(base64.urlsafe_b64encode(key))
