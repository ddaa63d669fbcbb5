"""Judge what needs a person: one list of conditions, each with its query, threshold and words.

The overview, Monitoring, alert rules, metrics and `docs/monitoring/alerts.yml` read this list.
What is muted is left out of all of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings

from lakeui.catalog.access import Person
from lakeui.monitoring import attention_words as words
from lakeui.monitoring.attention_items import AttentionItem, AttentionRequest, Finder
from lakeui.monitoring.attention_queries import (
    find_aborted_writes,
    find_costly_metadata_changes,
    find_failed_jobs,
    find_failing_schedules,
    find_new_tables,
    find_outlived_erasures,
    find_quiet_tables,
    find_silent_beat,
    find_silent_workers,
    find_small_files,
    find_stopped_streams,
    find_unknown_outcomes,
    find_unreadable_tables,
    find_vacuum_due,
    find_waiting_jobs,
    find_wasted_time,
)
from lakeui.monitoring.conditions import Condition, Severity
from lakeui.monitoring.mutes import ActiveMutes
from lakeui.monitoring.recent_conflicts import ConflictsOfDay


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionRule:
    """How a condition is found, judged and worded. It is muted by its name.

    `holds` says from when on, with settings by name in braces. `setting` holds the threshold that
    `find` takes, "" where there is none. Alert rules may set another where `unit` says of what.
    """

    condition: Condition
    severity: Severity
    find: Finder
    describe: Callable[[AttentionItem], words.AttentionText]
    remedy: str
    holds: str
    setting: str = ""
    set_by: tuple[str, ...] = ()
    unit: str = ""

    @property
    def threshold(self) -> int:
        """The threshold in force, 0 where the condition has none."""
        return int(getattr(settings, self.setting)) if self.setting else 0

    @property
    def tells(self) -> str:
        """Say from when on the condition holds, as it is set here."""
        values = {name: getattr(settings, name) for name in self.settings}
        mib = {f"{name}_MIB": value / 1024**2 for name, value in values.items() if "BYTES" in name}
        return self.holds.format(**values, **mib)

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings that the condition depends on."""
        return (self.setting, *self.set_by) if self.setting else self.set_by

    def list_items(
        self, request: AttentionRequest, threshold: int
    ) -> "tuple[list[WordedItem], int]":
        """Return the first items, in words, and how many there are."""
        items, count = self.find(request, threshold)
        return [WordedItem(item, self, self.describe(item)) for item in items], count


@dataclass(frozen=True, slots=True)
class WordedItem:
    """An item that needs attention, with the rule of its condition and its words."""

    item: AttentionItem
    rule: ConditionRule
    said: words.AttentionText

    @property
    def names_table(self) -> bool:
        """Whether the title names the item's table."""
        return words.TABLE in self.said.title

    @property
    def title(self) -> str:
        """The title with the table's name in it."""
        return self.said.title.replace(words.TABLE, self.item.table.name if self.item.table else "")

    @property
    def title_parts(self) -> tuple[str, str]:
        """The title before and after the table's name."""
        before, _, after = self.said.title.partition(words.TABLE)
        return before, after


CONDITIONS: Mapping[Condition, ConditionRule] = {
    rule.condition: rule
    for rule in (
        ConditionRule(
            condition=Condition.REORDERED,
            severity=Severity.CRITICAL,
            find=find_outlived_erasures,
            describe=words.describe_outlived_erasure,
            remedy="Run the DELETE again.",
            holds="a DELETE was ordered before an append whose rows it may match, in "
            "{ATTENTION_ERASURE_DAYS} days",
            setting="ATTENTION_ERASURE_DAYS",
        ),
        ConditionRule(
            condition=Condition.UNREACHABLE,
            severity=Severity.CRITICAL,
            find=find_unreadable_tables,
            describe=words.describe_unreadable_table,
            remedy="The error names a remedy. The table is synced again automatically.",
            holds="the last sync of the table failed",
        ),
        ConditionRule(
            condition=Condition.OUTCOME_UNKNOWN,
            severity=Severity.CRITICAL,
            find=find_unknown_outcomes,
            describe=words.describe_unknown_outcome,
            remedy="Retry the job. It looks for its own commit in the log and does not write "
            "twice.",
            holds="for {ATTENTION_UNKNOWN_DAYS} days, or until the job is run again",
            setting="ATTENTION_UNKNOWN_DAYS",
        ),
        ConditionRule(
            condition=Condition.STREAM_STOPPED,
            severity=Severity.CRITICAL,
            find=find_stopped_streams,
            describe=words.describe_stopped_stream,
            remedy="Remove the cause, then retry the job. The stream continues from its "
            "checkpoint.",
            holds="for {ATTENTION_STREAM_DAYS} days, or until the stream is started again",
            setting="ATTENTION_STREAM_DAYS",
        ),
        ConditionRule(
            condition=Condition.ABORTED,
            severity=Severity.WARNING,
            find=find_aborted_writes,
            describe=words.describe_aborted_writes,
            remedy="Open the table's repeated conflicts. The costliest pair of statements comes "
            "first, with a suggested fix.",
            holds="{ATTENTION_ABORTED} writes aborted on one table in 24 h",
            setting="ATTENTION_ABORTED",
            unit="writes in 24 h",
        ),
        ConditionRule(
            condition=Condition.WASTED,
            severity=Severity.WARNING,
            find=find_wasted_time,
            describe=words.describe_wasted_time,
            remedy="Open the table's repeated conflicts. The costliest pair of statements comes "
            "first, with a suggested fix.",
            holds="{ATTENTION_WASTED_MINUTES} min wasted by aborted writes to one table in 24 h",
            setting="ATTENTION_WASTED_MINUTES",
            unit="minutes in 24 h",
        ),
        ConditionRule(
            condition=Condition.METADATA_COST,
            severity=Severity.WARNING,
            find=find_costly_metadata_changes,
            describe=words.describe_metadata_change,
            remedy="Change metadata when no other writer runs.",
            holds="{ATTENTION_METADATA_COST} writes were aborted by one commit in 24 h",
            setting="ATTENTION_METADATA_COST",
            unit="writes in 24 h",
        ),
        ConditionRule(
            condition=Condition.FAILED_JOB,
            severity=Severity.WARNING,
            find=find_failed_jobs,
            describe=words.describe_failed_job,
            remedy="Open the job, read its log, then retry it.",
            holds="failed in {ATTENTION_FAILED_HOURS} h and not run again",
            setting="ATTENTION_FAILED_HOURS",
        ),
        ConditionRule(
            condition=Condition.FAILING_SCHEDULE,
            severity=Severity.WARNING,
            find=find_failing_schedules,
            describe=words.describe_failing_schedule,
            remedy="Open its last job, or disable the schedule.",
            holds="its last job did not succeed, or it could not create a job",
        ),
        ConditionRule(
            condition=Condition.JOBS_WAIT,
            severity=Severity.CRITICAL,
            find=find_waiting_jobs,
            describe=words.describe_waiting_jobs,
            remedy="Check that the broker and a worker of the queue are running, or add workers.",
            holds="{ATTENTION_WAIT_MINUTES} min in the queue",
            setting="ATTENTION_WAIT_MINUTES",
            unit="minutes",
        ),
        ConditionRule(
            condition=Condition.WORKER_SILENT,
            severity=Severity.WARNING,
            find=find_silent_workers,
            describe=words.describe_silent_worker,
            remedy="The sweeper gives the job to another worker. Check that a light worker is "
            "running.",
            holds="no heartbeat for {JOB_LEASE_SECONDS} s",
            setting="JOB_LEASE_SECONDS",
        ),
        ConditionRule(
            condition=Condition.BEAT_SILENT,
            severity=Severity.CRITICAL,
            find=find_silent_beat,
            describe=words.describe_silent_beat,
            remedy="Start beat again and read its log.",
            holds="no sign of life of beat for a minute",
        ),
        ConditionRule(
            condition=Condition.SMALL_FILES,
            severity=Severity.WARNING,
            find=find_small_files,
            describe=words.describe_small_files,
            remedy="Run OPTIMIZE. A dry run shows the number of files before and after, and the "
            "bytes it reads.",
            holds="{ATTENTION_SMALL_FILES} files under {SMALL_FILE_BYTES_MIB:g} MiB, which are "
            "more than half of all files",
            setting="ATTENTION_SMALL_FILES",
            set_by=("SMALL_FILE_BYTES",),
            unit="files",
        ),
        ConditionRule(
            condition=Condition.VACUUM_DUE,
            severity=Severity.WARNING,
            find=find_vacuum_due,
            describe=words.describe_vacuum_due,
            remedy="Run VACUUM. A dry run shows the files and the versions that can no longer "
            "be read.",
            holds="VACUUM can delete files of {ATTENTION_VACUUM_BYTES_MIB:g} MiB now, which "
            "are more than {ATTENTION_VACUUM_SHARE:.0%} of the table's data",
            set_by=("ATTENTION_VACUUM_BYTES", "ATTENTION_VACUUM_SHARE"),
        ),
        ConditionRule(
            condition=Condition.MIRROR_QUIET,
            severity=Severity.WARNING,
            find=find_quiet_tables,
            describe=words.describe_quiet_mirror,
            remedy="Check that a light worker and the beat are running.",
            holds="not synced for {ATTENTION_MIRROR_MINUTES} min",
            setting="ATTENTION_MIRROR_MINUTES",
            unit="minutes",
        ),
        ConditionRule(
            condition=Condition.NEW_TABLES,
            severity=Severity.WARNING,
            find=find_new_tables,
            describe=words.describe_new_tables,
            remedy="Register or dismiss them on the Discover tables page.",
            holds="a repeated search found a table that is neither registered nor dismissed",
        ),
    )
}
"""Every condition, in the order in which pages show it."""


@dataclass(frozen=True, slots=True)
class Attention:
    """The first items of each condition, in the order of conditions; and how many there are of each."""

    items: list[WordedItem]
    counts: Mapping[Condition, int]

    @property
    def count(self) -> int:
        return sum(self.counts.values())


def attention(
    user: Person, now: datetime, day: ConflictsOfDay, muted: ActiveMutes, most: int
) -> Attention:
    """Return the items that need attention now, at most `most` of each condition."""
    request = AttentionRequest(user, now, day, muted, most)
    items: list[WordedItem] = []
    counts: dict[Condition, int] = {}
    for condition, rule in CONDITIONS.items():
        first_items, count = rule.list_items(request, rule.threshold)
        if count:
            items += first_items
            counts[condition] = count
    return Attention(items, counts)
