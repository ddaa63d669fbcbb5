"""The light worker's round: findings of rules are stored, and reported by messages in the outbox.

A finding is marked as reported in one transaction with its message, so that a worker that dies in
between reports it at its next round, and never twice.
"""

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import partial
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet

from lakeui.monitoring.alerting.findings import AlertingFinding, AlertRound, filter_by_table
from lakeui.monitoring.conditions import Condition
from lakeui.monitoring.models import AlertChannel, AlertDelivery, AlertFinding, AlertRule

logger = logging.getLogger(__name__)

ENDED_AFTER = timedelta(minutes=15)  # not found for so long: what goes to and fro is one thing
MOST_ITEMS = 50  # in one message
MOST_NOTED = 5000  # of a rule
MOST_WAITING = 200  # messages of a channel; beyond it what is found waits to be told


def watch(now: datetime) -> int:
    """Evaluate every rule; return the number of messages. A rule that fails stops no other."""
    look, written = AlertRound(now), 0
    rules = AlertRule.objects.filter(enabled=True, channel__enabled=True)
    for pk in list(rules.values_list("pk", flat=True)):
        try:
            written += _watch_by(pk, look, now)
        except Exception:  # of ours or of the database: the next round looks again
            logger.exception("Alert rule %s could not be looked at", pk)
    return written


def is_quiet(channel: AlertChannel, now: datetime) -> bool:
    """Whether the channel's quiet hours are now, in its zone; they may reach over midnight."""
    begin, end = channel.quiet_from, channel.quiet_to
    if begin is None or end is None:
        return False
    clock = now.astimezone(ZoneInfo(channel.zone)).time()
    return begin <= clock < end if begin <= end else clock >= begin or clock < end


def _watch_by(pk: int, look: AlertRound, now: datetime) -> bool:
    with transaction.atomic():
        rules = AlertRule.objects.select_for_update().filter(pk=pk, enabled=True)
        rule = rules.first()  # another worker's round of it waits for this one
        if rule is None:
            return False
        findings = look.findings(Condition(rule.condition), rule.threshold)
        matches = partial(fnmatchcase, pat=rule.tables or "*")
        _note(rule, filter_by_table(findings, matches), now)
        return _tell(rule, now)


def _note(rule: AlertRule, findings: Iterable[AlertingFinding], now: datetime) -> None:
    """Store the findings; delete those that are over and reported."""
    by_key = {finding.key: finding for finding in findings}
    noted = dict(rule.findings.values_list("key", "pk"))
    new = [
        AlertFinding(
            rule=rule, key=key, content=finding.content, first_seen_at=now, last_seen_at=now
        )
        for key, finding in by_key.items()
        if key not in noted
    ]
    AlertFinding.objects.bulk_create(new[: max(0, MOST_NOTED - len(noted))])
    seen = [pk for key, pk in noted.items() if key in by_key]
    AlertFinding.objects.filter(pk__in=seen).update(last_seen_at=now)
    over = rule.findings.filter(last_seen_at__lt=now - ENDED_AFTER)
    over.filter(told_at__isnull=False).delete()


def _tell(rule: AlertRule, now: datetime) -> bool:
    """Write a message if there is something to report, and it may be sent now."""
    pause = timedelta(minutes=rule.group_minutes)
    if rule.told_at is not None and now - rule.told_at < pause:
        return False
    if is_quiet(rule.channel, now) and not rule.ignores_quiet_hours:
        return False
    due = _select_due_findings(rule, now)
    count = due.count()
    if not count or _is_full(rule.channel):
        return False
    first = list(due[:MOST_ITEMS])
    content = message(f"{rule.get_condition_display()}: {rule.name}", rule)
    content["items"] = [row.content | {"is_over": row.last_seen_at < now} for row in first]
    content["count"], content["more"] = count, count - len(first)
    if count == 1:
        content["title"] = first[0].content["title"]
    put(rule.channel, content, now, rule=rule)
    due.update(told_at=now)
    AlertRule.objects.filter(pk=rule.pk).update(told_at=now)
    return True


def _select_due_findings(rule: AlertRule, now: datetime) -> QuerySet[AlertFinding]:
    untold = Q(told_at__isnull=True)
    if rule.repeat_hours:
        still = Q(last_seen_at=now, told_at__lte=now - timedelta(hours=rule.repeat_hours))
        untold |= still
    return rule.findings.filter(untold)


def _is_full(channel: AlertChannel) -> bool:
    waiting = channel.deliveries.filter(next_try_at__isnull=False)
    return waiting.count() >= MOST_WAITING


def message(title: str, rule: AlertRule | None = None) -> dict[str, object]:
    """Return the content of a message without items."""
    named = {"id": rule.pk, "name": rule.name, "condition": rule.condition} if rule else None
    installation = settings.INSTALLATION_NAME
    return {
        "installation": installation or None,
        "rule": named,
        "title": f"[{installation}] {title}" if installation else title,
        "count": 0,
        "more": 0,
        "items": [],
    }


def put(
    channel: AlertChannel,
    content: dict[str, object],
    now: datetime,
    *,
    rule: AlertRule | None = None,
    is_test: bool = False,
) -> AlertDelivery:
    """Put a message into the outbox, due at once."""
    return AlertDelivery.objects.create(
        channel=channel,
        rule=rule,
        is_test=is_test,
        content=content,
        created_at=now,
        next_try_at=now,
    )
