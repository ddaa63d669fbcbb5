"""The light worker's round: findings of rules are stored, and reported by messages in the outbox.

A finding has a key that stays while it holds. It is marked as reported in one transaction with its
message, so that a worker that dies in between reports it at its next round, and never twice.
"""

import hashlib
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import cached_property, partial
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.urls import reverse

from lakeui.monitoring.attention import CONDITIONS, WordedItem
from lakeui.monitoring.attention_items import AttentionRequest
from lakeui.monitoring.conditions import Condition
from lakeui.monitoring.models import AlertChannel, AlertDelivery, AlertFinding, AlertRule
from lakeui.monitoring.mutes import group_mutes, mutes_now
from lakeui.monitoring.recent_conflicts import day_of

logger = logging.getLogger(__name__)

ENDED_AFTER = timedelta(minutes=15)  # not found for so long: what goes to and fro is one thing
MOST_ITEMS = 50  # in one message
MOST_NOTED = 5000  # of a rule
MOST_WAITING = 200  # messages of a channel; beyond it what is found waits to be told

SYSTEM = User(username="the system", is_superuser=True)
"""Somebody who sees every table, without an account."""
MOST = 1000  # of a condition
_LONGEST_KEY = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertingFinding:
    """One thing. `table` is its table's name, "" where it is about none alone."""

    key: str
    title: str
    text: str = ""
    table: str = ""
    table_id: int | None = None
    job_id: str | None = None
    version: int | None = None
    since: datetime | None = None

    @property
    def content(self) -> dict[str, Any]:
        """An item of a message."""
        return {
            "key": self.key,
            "title": self.title[:300],
            "text": self.text[:2000],
            "table": self.table or None,
            "table_id": self.table_id,
            "job_id": self.job_id,
            "version": self.version,
            "since": self.since.isoformat() if self.since else None,
            "url": _url(self),
        }


class AlertRound:
    """The findings of all rules at one time, each queried at most once."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._found: dict[tuple[Condition, int], list[AlertingFinding]] = {}

    def findings(self, condition: Condition, threshold: int | None) -> list[AlertingFinding]:
        """Return what holds, by the rule's own threshold or the condition's."""
        rule = CONDITIONS[condition]
        key = condition, threshold or rule.threshold
        if key not in self._found:
            items, _ = rule.list_items(self._request, key[1])
            self._found[key] = [_build_finding(item) for item in items]
        return self._found[key]

    @cached_property
    def _request(self) -> AttentionRequest:
        """The request of somebody who sees everything; the installation itself has no account."""
        muted = group_mutes(mutes_now(self._now))
        day = day_of(SYSTEM, self._now)
        return AttentionRequest(SYSTEM, self._now, day, muted, MOST, is_single=True)


def watch(now: datetime) -> int:
    """Evaluate every rule; return the number of messages. A rule that fails stops no other."""
    look, written = AlertRound(now), 0
    rules = AlertRule.objects.filter(enabled=True, channel__enabled=True)
    for pk in list(rules.values_list("pk", flat=True)):
        try:
            written += _watch_by(pk, look, now)
        except Exception:  # of ours or of the database: the next round looks again
            logger.exception("Alert rule %s could not be checked", pk)
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


def _build_finding(worded: WordedItem) -> AlertingFinding:
    item, said = worded.item, worded.said
    table = item.table if worded.names_table else None
    key = said.key or (str(table.pk) if table else "")
    return AlertingFinding(
        key=_key(f"{item.condition.value}:{key}"),
        title=worded.title,
        text=f"{said.text} {worded.rule.remedy}",
        table=table.name if table else "",
        table_id=table.pk if table else None,
        job_id=str(item.job.pk) if item.job else None,
        version=item.version,
        since=item.since,
    )


def _key(text: str) -> str:
    """Shorten a key to `_LONGEST_KEY`; names that begin alike stay different."""
    if len(text) <= _LONGEST_KEY:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:20]
    return f"{text[: _LONGEST_KEY - len(digest) - 1]}:{digest}"


def _url(finding: AlertingFinding) -> str | None:
    base = settings.PUBLIC_URL.rstrip("/")
    if not base:
        return None
    if finding.job_id:
        return f"{base}{reverse('job', args=[finding.job_id])}"
    if finding.table_id:
        return f"{base}{reverse('table', args=[finding.table_id])}"
    return f"{base}{reverse('monitoring')}"


def filter_by_table(
    findings: Iterable[AlertingFinding], matches: Callable[[str], bool]
) -> list[AlertingFinding]:
    """Return findings of tables whose names match, and those about no single table."""
    return [finding for finding in findings if not finding.table or matches(finding.table)]
