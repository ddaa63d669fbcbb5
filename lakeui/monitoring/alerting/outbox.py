"""The outbox of alerts: due messages are claimed, sent and deleted, or tried again.

Each is delivered at least once, or given up after `ALERT_GIVE_UP_HOURS`.
"""

import logging
import smtplib
from collections.abc import Callable
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from engine.errors import RequestError
from lakeui.monitoring import deliveries
from lakeui.monitoring.alerting.channels import unseal
from lakeui.monitoring.alerting.mail import send
from lakeui.monitoring.alerting.messages import headers_of, json_of, mail_of
from lakeui.monitoring.alerting.webhooks import DeliveryError, post, webhook_at
from lakeui.monitoring.models import AlertChannel, AlertDelivery

logger = logging.getLogger(__name__)

AT_ONCE = 20  # messages of a channel in one task
Clock = Callable[[], datetime]
_EXPECTED = (DeliveryError, RequestError, OSError, smtplib.SMTPException)


def due_channels(now: datetime) -> list[int]:
    """Return the channels with messages to send."""
    due = _due(now).order_by("channel_id")
    return list(due.values_list("channel_id", flat=True).distinct())


def deliver(
    channel_id: int, clock: Clock = timezone.now, *, ends: Callable[[], bool] = lambda: False
) -> int:
    """Send a channel's due messages until one fails or `ends` is true; return the number."""
    for sent in range(AT_ONCE):
        delivery = None if ends() else claim(channel_id, clock())
        if delivery is None or not _deliver(delivery, clock):
            return sent
    return AT_ONCE


def claim(channel_id: int, now: datetime) -> AlertDelivery | None:
    """Claim the longest due message for this worker until its lease ends."""
    due = _due(now).filter(channel=channel_id).order_by("next_try_at", "created_at")
    return deliveries.claim(due.select_related("channel"), now, settings.ALERT_TIMEOUT_SECONDS)


def _due(now: datetime) -> QuerySet[AlertDelivery]:
    return AlertDelivery.objects.filter(next_try_at__lte=now, channel__enabled=True)


def _deliver(delivery: AlertDelivery, clock: Clock) -> bool:
    try:
        refused = _send(delivery, int(clock().timestamp()))
    except Exception as error:  # a message that nobody expects to fail may not be tried for ever
        if not isinstance(error, _EXPECTED):
            logger.exception("Alert %s could not be sent", delivery.pk)
        _record_failure(delivery, error, clock())
        return False
    deliveries.record_delivery(delivery, clock(), error=refused)
    return True


def _send(delivery: AlertDelivery, now_s: int) -> str:
    """Send a delivery; return the recipients refused by a mail server, "" if there are none."""
    channel, seconds = delivery.channel, settings.ALERT_TIMEOUT_SECONDS
    target = unseal(channel.sealed_target)
    deliveries.release_connection()
    if channel.kind == AlertChannel.Kind.EMAIL:
        return send(mail_of(delivery, target.split(",")), seconds)
    body = json_of(delivery)
    secret = unseal(channel.sealed_secret) if channel.sealed_secret else ""
    post(webhook_at(target), body, headers_of(delivery, body, secret, now_s), seconds)
    return ""


def _record_failure(delivery: AlertDelivery, error: Exception, now: datetime) -> None:
    what = _words_of(error)
    logger.warning("Alert %s to channel %s failed: %s", delivery.pk, delivery.channel_id, what)
    asked = timedelta(seconds=error.retry_after_s if isinstance(error, DeliveryError) else 0)
    deliveries.record_failure(delivery, what, now, settings.ALERT_GIVE_UP_HOURS, asked)


def _words_of(error: Exception) -> str:
    """Describe the failure, without a mail server's echo of the conversation."""
    if isinstance(error, smtplib.SMTPResponseException):
        return f"the mail server answered {error.smtp_code}"
    if isinstance(error, smtplib.SMTPException):
        return f"the mail server refused it ({type(error).__name__})"
    if isinstance(error, DeliveryError | RequestError):
        return str(error)[:500]
    if isinstance(error, OSError):
        return f"the mail server is unreachable ({type(error).__name__})"
    return f"the message could not be created ({type(error).__name__})"
