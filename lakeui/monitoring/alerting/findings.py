"""What holds now, by condition: items in plain words, each with a key that stays while it holds."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Count, Sum
from django.urls import reverse

from lakeui.catalog.models import Table
from lakeui.conflicts.models import Conflict
from lakeui.jobs.models import Job
from lakeui.monitoring.alert_conditions import LIMITS, Condition, OwnCondition
from lakeui.monitoring.attention import FINDERS
from lakeui.monitoring.attention_items import AttentionItem, AttentionRequest
from lakeui.monitoring.checks import AttentionCheck, thresholds
from lakeui.monitoring.mutes import group_mutes, mutes_now
from lakeui.monitoring.recent_conflicts import ConflictsOfDay, ConflictSums

MOST = 1000  # of a condition
_LONGEST_KEY = 120
_HOUR, _DAY = timedelta(hours=1), timedelta(hours=24)


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
    """Everything that rules may ask at one moment, each thing looked up at most once.

    What is muted for people's attention is not found here either.
    """

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._by_check: dict[AttentionCheck, list[AlertingFinding]] = {}

    def findings(self, condition: Condition, threshold: int | None) -> list[AlertingFinding]:
        """What holds, by the rule's own figure or the condition's."""
        if isinstance(condition, AttentionCheck):
            return self._findings_of_check(condition)
        if condition is OwnCondition.STREAM_STOPPED:
            return self._stopped_streams
        least = threshold or LIMITS[condition].default
        if condition is OwnCondition.MIRROR_QUIET:
            return list(self._quiet(least))
        return list(self._iter_aborted_findings(condition, least))

    @cached_property
    def _asked(self) -> AttentionRequest:
        """As somebody who sees everything; the installation itself is nobody's account."""
        everything = User(username="the system", is_superuser=True)
        day = ConflictsOfDay(self._now - _DAY, ConflictSums())
        return AttentionRequest(everything, self._now, day, group_mutes(mutes_now(self._now)), MOST)

    def _findings_of_check(self, check: AttentionCheck) -> list[AlertingFinding]:
        if check not in self._by_check:
            checks, find = next(finder for finder in FINDERS if check in finder[0])
            self._by_check |= {of_finder: [] for of_finder in checks}
            for of_check, _, items in find(self._asked):
                self._by_check[of_check] = [_describe_item(item) for item in items]
        return self._by_check[check]

    @cached_property
    def _hour(self) -> list[tuple[int, str, int, int]]:
        """Of each table with aborted writes in the last hour: its number, name, how many, for how long."""
        aborted = Conflict.objects.filter(
            kind__in=Conflict.ABORTED_KINDS, occurred_at__gte=self._now - _HOUR, table__isnull=False
        )
        counted = aborted.order_by().values_list("table_id", "table__name")
        rows = counted.annotate(n=Count("pk"), ms=Sum("wasted_ms"))
        return [(pk, name, n, ms or 0) for pk, name, n, ms in rows]

    def _iter_aborted_findings(
        self, condition: OwnCondition, least: int
    ) -> Iterator[AlertingFinding]:
        asked = self._asked.muted
        if asked.hides(AttentionCheck.ABORTED):
            return
        hidden = set(asked.list_muted_tables(AttentionCheck.ABORTED))
        for pk, name, count, wasted_ms in self._hour:
            minutes = wasted_ms // 60_000
            figure = minutes if condition is OwnCondition.WASTED else count
            if figure < least or pk in hidden:
                continue
            yield AlertingFinding(
                key=f"{condition.value}:{pk}",
                title=f"{_plural(count, 'write')} to {name} {_were(count)} aborted in the last hour",
                text=f"{_plural(minutes, 'minute')} of work wasted. Open the table's conflicts: the "
                "pair of operations that overlaps most names the suggested fix.",
                table=name,
                table_id=pk,
            )

    @cached_property
    def _stopped_streams(self) -> list[AlertingFinding]:
        """Streams that ended in an error within a day and were not started again."""
        jobs = Job.objects.filter(
            kind="stream",
            state__in=[Job.State.FAILED, Job.State.CONFLICTED],
            finished_at__gte=self._now - _DAY,
            reruns__isnull=True,
        )
        rows = jobs.select_related("table").order_by("-finished_at")[:MOST]
        return [
            _build_job_finding(job, "stream_stopped", f"The stream into {job.table.name} stopped")
            for job in rows
        ]

    def _quiet(self, minutes: int) -> Iterator[AlertingFinding]:
        asked = self._asked
        late = Table.objects.filter(
            mirror_error_code="", mirrored_at__lt=self._now - timedelta(minutes=minutes)
        )
        told = asked.exclude_muted(AttentionCheck.MIRROR_QUIET, late, "pk").only(
            "name", "version", "mirrored_at"
        )
        for table in told.order_by("mirrored_at")[:MOST]:
            yield AlertingFinding(
                key=f"mirror_quiet:{table.pk}",
                title=f"{table.name} was not synced for more than {_plural(minutes, 'minute')}",
                text="Later versions may have been committed: check that a light worker and the beat run.",
                table=table.name,
                table_id=table.pk,
                since=table.mirrored_at,
            )


def _describe_item(item: AttentionItem) -> AlertingFinding:
    return _WORDS.get(item.check, _describe_by_label)(item)


def _describe_by_label(item: AttentionItem) -> AlertingFinding:
    """Of a check that has no words of its own: its label, and from when on it holds."""
    tells = next(one.tells for one in thresholds() if one.check is item.check)
    return _build_finding(item, f"{item.check.label}: {{table}}", tells)


def _describe_failed_job(item: AttentionItem) -> AlertingFinding:
    return _build_finding(
        item, "{kind} on {table} failed", item.job.error_message if item.job else ""
    )


def _outcome_unknown(item: AttentionItem) -> AlertingFinding:
    text = "Retry the job: it looks for its own commit in the log and does not write twice."
    return _build_finding(item, "Whether {kind} on {table} committed is unknown", text)


def _worker_silent(item: AttentionItem) -> AlertingFinding:
    text = "The sweeper gives the job to another worker; check that a light worker runs."
    return _build_finding(item, "The worker of {kind} on {table} is silent", text)


def _jobs_wait(item: AttentionItem) -> AlertingFinding:
    queue, waiting = item.facts["queue"], item.facts["waiting"]
    return AlertingFinding(
        key=f"jobs_wait:{queue}",
        title=f"{_plural(waiting, 'job')} {'waits' if waiting == 1 else 'wait'} in the queue {queue}",
        text="Check that the broker and a worker of this queue run, or add workers.",
        job_id=str(item.job.pk) if item.job else None,
        since=item.since,
    )


def _describe_failing_schedule(item: AttentionItem) -> AlertingFinding:
    last = item.job.error_message if item.job else ""
    title = f"The schedule {item.facts['schedule']} of {{table}} fails"
    return _build_finding(item, title, item.facts["note"] or last, of=item.facts["schedule"])


def _unreachable(item: AttentionItem) -> AlertingFinding:
    return _build_finding(item, "The log of {table} cannot be read", item.facts["mirror_error"])


def _small_files(item: AttentionItem) -> AlertingFinding:
    small, files = item.facts["small_file_count"], item.facts["file_count"]
    title = f"{small:,} of the {files:,} files of {{table}} are small"
    return _build_finding(item, title, "Run OPTIMIZE; a dry run says what it would do.")


def _vacuum_due(item: AttentionItem) -> AlertingFinding:
    count, size = item.facts["dead_file_count"], _mib(item.facts["dead_bytes"])
    files = f"1 file with {size} is" if count == 1 else f"{count:,} files with {size} are"
    text = f"{files} needed by older versions alone. A dry run says which versions would be lost."
    return _build_finding(item, "VACUUM of {table} is due", text)


def _describe_reordering(item: AttentionItem) -> AlertingFinding:
    deleted = item.facts["delete_version"]
    text = (
        f"Version {item.version} was appended while version {deleted} was deleting, and is ordered "
        "after it by WriteSerializable. Run the DELETE again."
    )
    title = "Rows of {table} may have outlived an erasure"
    return _build_finding(item, title, text, of=f"{item.version}:{deleted}")


def _metadata_cost(item: AttentionItem) -> AlertingFinding:
    aborted = item.facts["aborted"]
    title = f"Version {item.version} of {{table}} aborted {_plural(aborted, 'write')}"
    text = f"{item.facts['winner_operation']} changed the metadata while others were writing."
    return _build_finding(item, title, text, of=item.version)


def _new_tables(item: AttentionItem) -> AlertingFinding:
    count, root = item.facts["new_tables"], item.facts["root"]
    text = "A repeated search found them. Register or dismiss them on the page Discover tables."
    return AlertingFinding(
        key=f"new_tables:{item.facts['discovery_id']}",
        title=f"{_plural(count, 'new table')} below {root}",
        text=text,
        since=item.since,
    )


_WORDS: Mapping[AttentionCheck, Callable[[AttentionItem], AlertingFinding]] = {
    AttentionCheck.FAILED_JOB: _describe_failed_job,
    AttentionCheck.OUTCOME_UNKNOWN: _outcome_unknown,
    AttentionCheck.WORKER_SILENT: _worker_silent,
    AttentionCheck.JOBS_WAIT: _jobs_wait,
    AttentionCheck.FAILING_SCHEDULE: _describe_failing_schedule,
    AttentionCheck.UNREACHABLE: _unreachable,
    AttentionCheck.SMALL_FILES: _small_files,
    AttentionCheck.VACUUM_DUE: _vacuum_due,
    AttentionCheck.REORDERED: _describe_reordering,
    AttentionCheck.METADATA_COST: _metadata_cost,
    AttentionCheck.NEW_TABLES: _new_tables,
}


def _build_finding(item: AttentionItem, title: str, text: str, of: object = "") -> AlertingFinding:
    """The item under a title that names its table and its job's kind; `of` tells it from others."""
    table, job = item.table, item.job
    name = table.name if table else ""
    kind = job.kind.replace("_", " ").upper() if job else "a job"
    parts = [item.check.value, table.pk if table else "", of or (job.pk if job else "")]
    return AlertingFinding(
        key=_key(":".join(str(part) for part in parts if part != "")),
        title=title.replace("{kind}", kind).replace("{table}", name),
        text=text,
        table=name,
        table_id=table.pk if table else None,
        job_id=str(job.pk) if job else None,
        version=item.version,
        since=item.since,
    )


def _key(text: str) -> str:
    """The text as long as a key may be; names that begin alike stay different."""
    if len(text) <= _LONGEST_KEY:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:20]
    return f"{text[: _LONGEST_KEY - len(digest) - 1]}:{digest}"


def _build_job_finding(job: Job, what: str, title: str) -> AlertingFinding:
    return AlertingFinding(
        key=f"{what}:{job.pk}",
        title=title,
        text=job.error_message,
        table=job.table.name,
        table_id=job.table_id,
        job_id=str(job.pk),
        since=job.finished_at,
    )


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
    """Findings of tables whose names match, and findings that are about no single table."""
    return [finding for finding in findings if not finding.table or matches(finding.table)]


def _plural(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _mib(size: int) -> str:
    return f"{size / 1024**2:,.1f} MiB"
