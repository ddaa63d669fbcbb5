"""Find what alert rules tell now; each finding has a key that stays while it holds."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.urls import reverse

from lakeui.monitoring.attention import CONDITIONS, WordedItem
from lakeui.monitoring.attention_items import AttentionRequest
from lakeui.monitoring.conditions import Condition
from lakeui.monitoring.mutes import group_mutes, mutes_now
from lakeui.monitoring.recent_conflicts import day_of

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
