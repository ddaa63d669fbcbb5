"""What needs a person, in words, with the one next step for each."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from django.conf import settings
from django.urls import reverse
from django.utils import timezone

from lakeui.catalog.models import Table
from lakeui.catalog.short_words import plain_condition
from lakeui.catalog.units import clock_text, format_ago, format_bytes, format_count, format_duration
from lakeui.monitoring.attention_items import AttentionItem
from lakeui.monitoring.checks import AttentionCheck

_AROUND = 20  # versions of the swim-lane after the one that is shown


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionText:
    """An item as it is read: `before`, the table's name, `after`.

    `posts` where its step acts; `asks_job` where it leads to the form of a job.
    """

    item: AttentionItem
    mark: str
    label: str
    before: str
    joint: str = "in"
    after: str = ""
    text: str
    step: str
    address: str
    posts: bool = False
    asks_job: bool = False


def describe_items(
    items: Iterable[AttentionItem], maintained: Collection[int]
) -> list[AttentionText]:
    """Each item by the words of its check; jobs are for those who maintain the table."""
    return [_limit_to_rights(_WORDS[item.check](item), maintained) for item in items]


def _limit_to_rights(said: AttentionText, maintained: Collection[int]) -> AttentionText:
    table = said.item.table
    if table is None or not said.asks_job or (table.pk in maintained and not settings.READ_ONLY):
        return said
    return replace(said, step="Open table", address=reverse("table", args=[table.pk]))


def is_storage_error(table: Table) -> bool:
    """Whether the storage failed, not what lies there."""
    return table.mirror_error_code.startswith("LAKE_STORAGE")


def _unreachable(item: AttentionItem) -> AttentionText:
    table = _table(item)
    is_storage = is_storage_error(table)
    tries = item.facts["mirror_tries"]
    count = f", {format_count(tries)} {'try' if tries == 1 else 'tries'}" if tries else ""
    since = f" Since {_clock(item)}{count}." if item.since else ""
    return AttentionText(
        item=item,
        mark="off",
        label="unreachable",
        before="Storage of" if is_storage else "The log of",
        joint="",
        after="is unreachable" if is_storage else "cannot be read",
        text=f"{table.mirror_error}{since} {_describe_mirror_age(table)}",
        step="Try now",
        address=reverse("table-refresh", args=[table.pk]),
        posts=True,
    )


def _describe_mirror_age(table: Table) -> str:
    if table.version is None:
        return "Nothing of it was read yet."
    when = format_ago(table.mirrored_at, timezone.now()) if table.mirrored_at else "once"
    return f"Pages show version {table.version} as mirrored {when}."


def _describe_reordering(item: AttentionItem) -> AttentionText:
    table, facts = _table(item), item.facts
    rows = facts["rows_at_most"]
    count = f"Up to {format_count(rows)} rows" if rows else "Rows"
    condition = f" {plain_condition(facts['predicate'])}" if facts["predicate"] else ""
    return AttentionText(
        item=item,
        mark="x",
        label="critical",
        before=f"{count} may have outlived an erasure",
        text=f"appended them while {facts['delete_writer'] or 'another writer'} was deleting"
        f"{condition}; WriteSerializable orders that append after v{facts['delete_version']}. Run "
        "the DELETE again.",
        step="Show order",
        address=f"{reverse('table-isolation', args=[table.pk])}#reordered",
    )


def _outcome_unknown(item: AttentionItem) -> AttentionText:
    return AttentionText(
        item=item,
        mark="what",
        label="unknown",
        before=f"Outcome of {_kind(item)} unknown",
        text="The store was unreachable after the commit was sent. Run the job again: it looks for "
        "its own transaction in the log and does not write twice.",
        step="Open job",
        address=_job(item),
    )


def _describe_aborted_writes(item: AttentionItem) -> AttentionText:
    table, facts = _table(item), item.facts
    cost = f"{format_duration(facts['wasted_ms'])} of work wasted."
    return AttentionText(
        item=item,
        mark="warn",
        label="warning",
        before=f"{format_count(facts['aborted'])} writes aborted in 24 h",
        joint="on",
        text=f"{cost} {_why_aborted(table, facts)}",
        step="Conflicts" if table.row_level_eligible else "Row-level eligibility",
        address=f"{reverse('conflict-list')}?table={table.pk}"
        if table.row_level_eligible
        else reverse("table-eligibility", args=[table.pk]),
    )


def _why_aborted(table: Table, facts: Mapping[str, int]) -> str:
    file_level, month = facts.get("file_level_30_days", 0), facts.get("aborted_30_days", 0)
    counted = f"{format_count(file_level)} of the {format_count(month)} in 30 days"
    if table.row_level_eligible:
        return f"Row-level concurrency is on; {counted} were aborted at file level all the same."
    reason = (table.row_level_reason or "not eligible").rstrip(".")
    if "judged_30_days" in facts:
        return f"No row-level concurrency: {reason}. {_would_pass(facts)}"
    return f"No row-level concurrency: {reason}. {counted} were aborted at file level, where rows may resolve the conflict."


def _would_pass(facts: Mapping[str, int]) -> str:
    judged, passing = facts["judged_30_days"], facts["would_pass_30_days"]
    open_ones = facts["undecidable_30_days"]
    told = (
        f"{format_count(passing)} of the {format_count(judged)} in 30 days would pass at row level"
    )
    return f"{told}; of {format_count(open_ones)} it cannot be told." if open_ones else f"{told}."


def _metadata_cost(item: AttentionItem) -> AttentionText:
    table, facts = _table(item), item.facts
    who = facts["winner_user_name"] or "a writer that left no name"
    operations = " and ".join(_each(facts["aborted_operations"])) or f"{facts['aborted']} writes"
    return AttentionText(
        item=item,
        mark="warn",
        label="warning",
        before=f"One {facts['winner_operation'] or 'change of the metadata'} cost "
        f"{format_count(facts['aborted'])} writes",
        joint="on",
        text=f"by {who} was committed while {operations} ran: "
        f"{format_duration(facts['wasted_ms'])} and {format_bytes(facts['wasted_bytes'])} "
        f"wasted.{_quiet(facts['quiet_hours_utc'])}",
        step="Swim-lane",
        address=f"{reverse('table-concurrency', args=[table.pk])}"
        f"?last={min((item.version or 0) + _AROUND, table.version or 0)}",
    )


def _quiet(hours: list[int] | None) -> str:
    if not hours:
        return ""
    return f" Nobody committed here between {hours[0]:02}:00 and {hours[1]:02}:00 UTC in 7 days."


def _each(operations: list[str]) -> list[str]:
    """A MERGE, 2 OPTIMIZE."""
    counts = {name: operations.count(name) for name in dict.fromkeys(operations)}
    return [f"{_article(name)} {name}" if n == 1 else f"{n} {name}" for name, n in counts.items()]


def _article(name: str) -> str:
    return "an" if name[:1] in "AEIO" else "a"


def _describe_failed_job(item: AttentionItem) -> AttentionText:
    job = item.job
    return AttentionText(
        item=item,
        mark="x",
        label="failed",
        before=f"{_kind(item)} failed",
        text=(job.error_message if job else "") or "The worker left no reason.",
        step="Open job",
        address=_job(item),
    )


def _describe_failing_schedule(item: AttentionItem) -> AttentionText:
    facts, job = item.facts, item.job
    why = facts["note"] or (job.error_message if job else "") or "Its last job did not succeed."
    due = facts["next_due_at"]
    again = f" It is due again at {clock_text(due)} {_zone()}." if due else ""
    return AttentionText(
        item=item,
        mark="warn",
        label="warning",
        before=f"Schedule {facts['schedule']} fails",
        joint="on",
        text=f"{why}{again}",
        step="Open job" if job and not facts["note"] else "Schedules",
        address=_job(item) if job and not facts["note"] else reverse("schedule-list"),
    )


def _jobs_wait(item: AttentionItem) -> AttentionText:
    count = item.facts["waiting"]
    return AttentionText(
        item=item,
        mark="warn",
        label="warning",
        before=f"{format_count(count)} {'job waits' if count == 1 else 'jobs wait'}",
        joint="for a worker, the oldest on",
        text=f"Nobody takes work from the queue {item.facts['queue']}. Check that the broker and "
        "a worker of it run, or add workers.",
        step="Monitoring",
        address=reverse("monitoring"),
    )


def _worker_silent(item: AttentionItem) -> AttentionText:
    worker = item.job.worker if item.job else ""
    return AttentionText(
        item=item,
        mark="off",
        label="silent",
        before=f"The worker of {_kind(item)} fell silent",
        text=f"{worker or 'It'} sent no heartbeat within its lease. The sweeper gives the job to "
        "another worker; a commit that was made is recognised.",
        step="Open job",
        address=_job(item),
    )


def _small_files(item: AttentionItem) -> AttentionText:
    table, facts = _table(item), item.facts
    percent = round(100 * facts["small_file_count"] / max(facts["file_count"], 1))
    last = facts["last_optimize_at"]
    when = f"last OPTIMIZE {format_ago(last, timezone.now())}" if last else "no OPTIMIZE on record"
    return AttentionText(
        item=item,
        mark="warn",
        label="warning",
        before=f"{percent} % of its files are small",
        text=f"{format_count(facts['small_file_count'])} of {format_count(facts['file_count'])} "
        f"files, {when}. OPTIMIZE packs them; a dry run says into how many, and what it reads.",
        step="Dry run",
        address=f"{reverse('job-new')}?table={table.pk}&kind=optimize&dry_run=on",
        asks_job=True,
    )


def _vacuum_due(item: AttentionItem) -> AttentionText:
    table, facts = _table(item), item.facts
    last, count = facts["last_vacuum_at"], facts["dead_file_count"]
    files = "1 file" if count == 1 else f"{format_count(count)} files"
    when = f"The last VACUUM ended {format_ago(last, timezone.now())}." if last else ""
    return AttentionText(
        item=item,
        mark="warn",
        label="warning",
        before=f"{format_bytes(facts['dead_bytes'])} lie in files it no longer names",
        text=f"{files} that only older versions need. "
        f"VACUUM deletes those past their retention; a dry run says which versions are lost. {when}",
        step="Dry run",
        address=f"{reverse('job-new')}?table={table.pk}&kind=vacuum&dry_run=on",
        asks_job=True,
    )


def _mirror_quiet(item: AttentionItem) -> AttentionText:
    table = _table(item)
    return AttentionText(
        item=item,
        mark="ring",
        label="not read lately",
        before="The mirror of",
        joint="",
        after="was not synced lately",
        text=f"{_describe_mirror_age(table)} Later versions may have been committed: check that a light worker and the "
        "beat run.",
        step="Try now",
        address=reverse("table-refresh", args=[table.pk]),
        posts=True,
    )


def _new_tables(item: AttentionItem) -> AttentionText:
    count = item.facts["new_tables"]
    return AttentionText(
        item=item,
        mark="ring",
        label="new",
        before=f"{format_count(count)} new {'table' if count == 1 else 'tables'} below "
        f"{item.facts['root']}",
        text="A repeated search found what nobody registered: register or dismiss.",
        step="Open search",
        address=f"{reverse('table-discover')}?run={item.facts['discovery_id']}",
    )


def _table(item: AttentionItem) -> Table:
    if item.table is None:
        msg = f"an item of {item.check} names its table"
        raise ValueError(msg)
    return item.table


def _kind(item: AttentionItem) -> str:
    return (item.job.kind if item.job else "a job").replace("_", " ").upper()


def _job(item: AttentionItem) -> str:
    return reverse("job", args=[item.job.pk]) if item.job else reverse("job-list")


def _clock(item: AttentionItem) -> str:
    return f"{clock_text(item.since)} {_zone()}" if item.since else ""


def _zone() -> str:
    return timezone.localtime().tzname() or ""


_WORDS: Mapping[AttentionCheck, Callable[[AttentionItem], AttentionText]] = {
    AttentionCheck.REORDERED: _describe_reordering,
    AttentionCheck.UNREACHABLE: _unreachable,
    AttentionCheck.OUTCOME_UNKNOWN: _outcome_unknown,
    AttentionCheck.ABORTED: _describe_aborted_writes,
    AttentionCheck.METADATA_COST: _metadata_cost,
    AttentionCheck.FAILED_JOB: _describe_failed_job,
    AttentionCheck.FAILING_SCHEDULE: _describe_failing_schedule,
    AttentionCheck.JOBS_WAIT: _jobs_wait,
    AttentionCheck.WORKER_SILENT: _worker_silent,
    AttentionCheck.SMALL_FILES: _small_files,
    AttentionCheck.VACUUM_DUE: _vacuum_due,
    AttentionCheck.MIRROR_QUIET: _mirror_quiet,
    AttentionCheck.NEW_TABLES: _new_tables,
}
