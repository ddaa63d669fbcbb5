"""Word each item that needs attention: for pages, REST and alert messages alike."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.urls import reverse
from django.utils import timezone

from lakeui.catalog.models import Table
from lakeui.catalog.units import (
    clock_text,
    format_ago,
    format_bytes,
    format_count,
    format_duration,
)
from lakeui.conflicts.statements.text import plain_condition
from lakeui.monitoring.attention_items import AttentionItem

TABLE = "{table}"  # stands in a title for the table's name, which pages link
_AROUND = 20  # versions of the swim-lane after the one that is shown


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionText:
    """The words of one item, and its next step.

    `key` tells the item from others of its condition; "": its table does. `posts`: the step acts.
    `asks_job`: the step leads to the form of a job.
    """

    title: str
    text: str
    step: str
    address: str
    key: str = ""
    posts: bool = False
    asks_job: bool = False


def describe_unreadable_table(item: AttentionItem) -> AttentionText:
    """Word a table that cannot be read, or many that fail alike. The error carries its remedy."""
    if item.table is None:
        return AttentionText(
            title=f"{format_count(item.facts['tables'])} tables cannot be read",
            text=f"The error of each is {item.facts['mirror_error_code']}.",
            step="Tables",
            address=f"{reverse('table-list')}?health=unreachable",
            key=item.facts["mirror_error_code"],
        )
    table, tries = _table(item), item.facts["mirror_tries"]
    count = f" {_plural(tries, 'try', 'tries')}." if tries else ""
    return AttentionText(
        title=f"{TABLE} cannot be read",
        text=f"{table.mirror_error}{count} {_describe_mirror_age(table)}",
        step="Try now",
        address=reverse("table-refresh", args=[table.pk]),
        posts=True,
    )


def describe_outlived_erasure(item: AttentionItem) -> AttentionText:
    """Word rows that an erasure should have removed."""
    table, facts = _table(item), item.facts
    rows = facts["rows_at_most"]
    count = f"Up to {format_count(rows)} rows" if rows else "Rows"
    condition = f" {plain_condition(facts['predicate'])}" if facts["predicate"] else ""
    return AttentionText(
        title=f"{count} may have survived a DELETE in {TABLE}",
        text=f"They were appended in v{item.version} while {facts['delete_writer'] or 'another writer'} "
        f"was deleting{condition}. WriteSerializable orders that append after v{facts['delete_version']}.",
        step="Show order",
        address=f"{reverse('table-isolation', args=[table.pk])}#reordered",
        key=f"{table.pk}:{item.version}:{facts['delete_version']}",
    )


def describe_unknown_outcome(item: AttentionItem) -> AttentionText:
    """Word a job whose commit may have landed."""
    return AttentionText(
        title=f"The outcome of {_kind(item)} on {TABLE} is unknown",
        text="The store was unreachable after the commit was sent.",
        step="Open job",
        address=_job(item),
        key=_job_key(item),
    )


def describe_stopped_stream(item: AttentionItem) -> AttentionText:
    """Word a stream that ended in an error."""
    return AttentionText(
        title=f"The stream into {TABLE} stopped",
        text=_job_error(item),
        step="Open job",
        address=_job(item),
        key=_job_key(item),
    )


def describe_aborted_writes(item: AttentionItem) -> AttentionText:
    """Word a table with many aborted writes."""
    table, facts = _table(item), item.facts
    count = facts["aborted"]
    return AttentionText(
        title=f"{_plural(count, 'write', 'writes')} aborted in 24 h on {TABLE}",
        text=f"{format_duration(facts['wasted_ms'])} of work wasted. {_why_aborted(table, facts)}",
        step="Repeated conflicts" if table.row_level_eligible else "Row-level eligibility",
        address=_conflicts(table)
        if table.row_level_eligible
        else reverse("table-eligibility", args=[table.pk]),
    )


def describe_wasted_time(item: AttentionItem) -> AttentionText:
    """Word a table whose aborted writes wasted much time."""
    table, facts = _table(item), item.facts
    return AttentionText(
        title=f"{format_duration(facts['wasted_ms'])} of work wasted in 24 h on {TABLE}",
        text=f"{_plural(facts['aborted'], 'write was', 'writes were')} aborted.",
        step="Repeated conflicts",
        address=_conflicts(table),
    )


def describe_metadata_change(item: AttentionItem) -> AttentionText:
    """Word one change of the metadata that aborted several writes."""
    table, facts = _table(item), item.facts
    who = facts["winner_user_name"] or "an unnamed writer"
    operations = " and ".join(_each(facts["aborted_operations"])) or f"{facts['aborted']} writes"
    return AttentionText(
        title=f"One {facts['winner_operation'] or 'change of the metadata'} aborted "
        f"{format_count(facts['aborted'])} writes on {TABLE}",
        text=f"v{item.version} by {who} was committed while {operations} ran: "
        f"{format_duration(facts['wasted_ms'])} and {format_bytes(facts['wasted_bytes'])} "
        f"wasted.{_quiet(facts['quiet_hours_utc'])}",
        step="Swim-lane",
        address=f"{reverse('table-concurrency', args=[table.pk])}"
        f"?last={min((item.version or 0) + _AROUND, table.version or 0)}",
        key=f"{table.pk}:{item.version}",
    )


def describe_failed_job(item: AttentionItem) -> AttentionText:
    """Word a job that failed, or several that failed alike."""
    failures = item.facts["failures"]
    times = f" {format_count(failures)} times" if failures > 1 else ""
    return AttentionText(
        title=f"{_kind(item)} on {TABLE} failed{times}",
        text=_job_error(item),
        step="Open job",
        address=_job(item),
        key=f"{_table(item).pk}:{item.facts['fingerprint']}",
    )


def describe_failing_schedule(item: AttentionItem) -> AttentionText:
    """Word a schedule whose last run did not succeed."""
    facts, job = item.facts, item.job
    due, made_none = facts["next_due_at"], facts["note"] or job is None
    again = f" It is due again at {clock_text(due)} {_zone()}." if due else ""
    return AttentionText(
        title=f"Schedule {facts['schedule']} fails on {TABLE}",
        text=f"{facts['note'] or _job_error(item)}{again}",
        step="Schedules" if made_none else "Open job",
        address=reverse("schedule-list") if made_none else _job(item),
        key=f"{_table(item).pk}:{facts['schedule']}",
    )


def describe_waiting_jobs(item: AttentionItem) -> AttentionText:
    """Word jobs that no worker takes."""
    count, queue = item.facts["waiting"], item.facts["queue"]
    return AttentionText(
        title=f"{_plural(count, 'job waits', 'jobs wait')} in the queue {queue}",
        text=f"The oldest is {_kind(item)} on {_table(item).name}, requested "
        f"{format_ago(item.since, timezone.now()) if item.since else 'long ago'}.",
        step="Monitoring",
        address=reverse("monitoring"),
        key=queue,
    )


def describe_silent_worker(item: AttentionItem) -> AttentionText:
    """Word a worker that let the lease of its jobs expire."""
    jobs = item.facts["jobs"]
    others = f" and of {_plural(jobs - 1, 'more job', 'more jobs')}" if jobs > 1 else ""
    return AttentionText(
        title=f"The worker of {_kind(item)} on {TABLE}{others} sends no heartbeat",
        text=f"{item.facts['worker'] or 'It'} sent no heartbeat within its lease.",
        step="Open job",
        address=_job(item),
        key=item.facts["worker"] or _job_key(item),
    )


def describe_silent_beat(item: AttentionItem) -> AttentionText:
    """Word a beat that gives no sign of life."""
    del item
    return AttentionText(
        title="Beat is silent",
        text="Tables are not mirrored, lost jobs are not found, and no schedule or alert runs.",
        step="Open Monitoring",
        address=reverse("monitoring"),
        key="beat",
    )


def describe_small_files(item: AttentionItem) -> AttentionText:
    """Word a table most of whose files are small."""
    table, facts = _table(item), item.facts
    percent = round(100 * facts["small_file_count"] / max(facts["file_count"], 1))
    last = facts["last_optimize_at"]
    when = f"last OPTIMIZE {format_ago(last, timezone.now())}" if last else "no OPTIMIZE on record"
    return AttentionText(
        title=f"{percent} % of the files of {TABLE} are small",
        text=f"{format_count(facts['small_file_count'])} of {format_count(facts['file_count'])} files, {when}.",
        step="Dry run",
        address=f"{reverse('job-new')}?table={table.pk}&kind=optimize&dry_run=on",
        asks_job=True,
    )


def describe_vacuum_due(item: AttentionItem) -> AttentionText:
    """Word a table with files that VACUUM can delete now."""
    table, facts = _table(item), item.facts
    last = facts["last_vacuum_at"]
    when = f" The last VACUUM ended {format_ago(last, timezone.now())}." if last else ""
    files = _plural(facts["vacuum_file_count"], "file", "files")
    return AttentionText(
        title=f"VACUUM can delete {format_bytes(facts['vacuum_bytes'])} of {TABLE} now",
        text=f"{files} older than the retention, which only older versions need.{when}",
        step="Dry run",
        address=f"{reverse('job-new')}?table={table.pk}&kind=vacuum&dry_run=on",
        asks_job=True,
    )


def describe_quiet_mirror(item: AttentionItem) -> AttentionText:
    """Word a table, or several, that was not synced recently."""
    if item.table is None:
        return AttentionText(
            title=f"{format_count(item.facts['tables'])} tables were not synced recently",
            text="Later versions may have been committed.",
            step="Monitoring",
            address=reverse("monitoring"),
        )
    return AttentionText(
        title=f"{TABLE} was not synced recently",
        text=f"{_describe_mirror_age(item.table)} Later versions may have been committed.",
        step="Try now",
        address=reverse("table-refresh", args=[item.table.pk]),
        posts=True,
    )


def describe_new_tables(item: AttentionItem) -> AttentionText:
    """Word tables that a search found but that were not registered."""
    count = _plural(item.facts["new_tables"], "new table", "new tables")
    return AttentionText(
        title=f"{count} below {item.facts['root']}",
        text="A repeated search found tables that are not registered.",
        step="Open search",
        address=f"{reverse('table-discover')}?run={item.facts['discovery_id']}",
        key=str(item.facts["discovery_id"]),
    )


def _describe_mirror_age(table: Table) -> str:
    if table.version is None:
        return "No version of it has been read."
    when = format_ago(table.mirrored_at, timezone.now()) if table.mirrored_at else "once"
    return f"Pages show version {table.version} as mirrored {when}."


def _why_aborted(table: Table, facts: Mapping[str, int]) -> str:
    file_level, month = facts.get("file_level_30_days", 0), facts.get("aborted_30_days", 0)
    counted = f"{format_count(file_level)} of the {format_count(month)} in 30 days"
    if table.row_level_eligible:
        return f"Row-level concurrency is on, but {counted} were aborted at file level."
    reason = (table.row_level_reason or "not eligible").rstrip(".")
    if "judged_30_days" in facts:
        return f"No row-level concurrency: {reason}. {_would_pass(facts)}"
    return (
        f"No row-level concurrency: {reason}. {counted} were aborted at file level, where rows may "
        "resolve the conflict."
    )


def _would_pass(facts: Mapping[str, int]) -> str:
    judged, passing = facts["judged_30_days"], facts["would_pass_30_days"]
    undecidable = facts["undecidable_30_days"]
    told = (
        f"{format_count(passing)} of the {format_count(judged)} in 30 days would pass at row level"
    )
    return f"{told}; {format_count(undecidable)} cannot be decided." if undecidable else f"{told}."


def _quiet(hours: list[int] | None) -> str:
    if not hours:
        return ""
    return (
        f" There were no commits between {hours[0]:02}:00 and {hours[1]:02}:00 UTC in the "
        "last 7 days."
    )


def _each(operations: list[str]) -> list[str]:
    """Return each operation with its count: a MERGE, 2 OPTIMIZE."""
    counts = {name: operations.count(name) for name in dict.fromkeys(operations)}
    return [f"{_article(name)} {name}" if n == 1 else f"{n} {name}" for name, n in counts.items()]


def _article(name: str) -> str:
    return "an" if name[:1] in "AEIO" else "a"


def _table(item: AttentionItem) -> Table:
    if item.table is None:
        msg = f"an item of {item.condition} names its table"
        raise ValueError(msg)
    return item.table


def _conflicts(table: Table) -> str:
    return f"{reverse('conflict-repeated')}?table={table.pk}"


def _kind(item: AttentionItem) -> str:
    return (item.job.kind if item.job else "a job").replace("_", " ").upper()


def _job(item: AttentionItem) -> str:
    return reverse("job", args=[item.job.pk]) if item.job else reverse("job-list")


def _job_key(item: AttentionItem) -> str:
    return str(item.job.pk) if item.job else ""


def _job_error(item: AttentionItem) -> str:
    return (item.job.error_message if item.job else "") or "The worker recorded no reason."


def _plural(count: int, one: str, many: str) -> str:
    return f"{format_count(count)} {one if count == 1 else many}"


def _zone() -> str:
    return timezone.localtime().tzname() or ""
