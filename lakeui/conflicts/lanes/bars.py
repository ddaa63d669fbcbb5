"""A transaction as a bar of the swim-lane: committed, aborted or running.

A bar names the transaction's change and the end of its overlaps in a few words. Only recorded facts
are stated; otherwise the words are "". A transaction overlaps the versions that landed around it.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.db.models import Q

from engine.conflict_facts import Rule
from engine.conflicts.candidates import counts_appends
from engine.conflicts.isolation import IsolationLevel
from engine.vocabulary import Family, name_in_log, operation_named
from engine.words import count_noun
from lakeui.catalog.former_tables import filter_current_table
from lakeui.catalog.models import Commit, Table
from lakeui.catalog.row_counts import rows_of
from lakeui.conflicts.assessment import level_of
from lakeui.conflicts.models import Conflict, PipelineTransaction
from lakeui.jobs.timeline import span_ms
from lakeui.jobs.version_jobs import VersionJob, write_ms

NOT_RECORDED = "not recorded"
OURS = "lakeui"  # for our attempt without a reported version

_BEFORE = 1_000  # how far before the span a read version is followed

_CHANGED = {
    Rule.METADATA_CHANGED: "metadata changed",
    Rule.PROTOCOL_CHANGED: "protocol changed",
}
_SHORT_NAMES = {
    "delta.deletedFileRetentionDuration": "retention",
    "delta.logRetentionDuration": "log retention",
    "delta.isolationLevel": "level",
    "delta.enableDeletionVectors": "deletion vectors",
    "delta.enableRowTracking": "row tracking",
    "delta.enableChangeDataFeed": "change data feed",
}
_AMOUNT = re.compile(r"^(?:interval )?(\d+) (\w+)$")
_ENGINES = (
    (re.compile(r"Databricks-Runtime/(\d+\.\d+)"), "Databricks"),
    (re.compile(r"Delta-Lake/(\d+\.\d+)"), "delta-spark"),
    (re.compile(r"delta-rs:(?:py-)?(\d+\.\d+)"), "delta-rs"),
    (re.compile(r"[Kk]ernel\S*?[/:-](\d+\.\d+)"), "Delta Kernel"),
)
Properties = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CommittedVersions:
    """Moment and blindness by version, as far as the mirror holds them."""

    moments: Mapping[int, datetime | None]
    blind: Mapping[int, bool]

    def moment(self, version: int | None) -> datetime | None:
        """Return the commit time of a version."""
        return None if version is None else self.moments.get(version)

    def count_overlaps(
        self, read_version: int | None, end: int | None, *, appends_count: bool
    ) -> tuple[int | None, int | None]:
        """Count the versions after the read version, up to `end`, and the exempt ones among them.

        Exempt are blind appends, unless they count for the transaction. None: the read version, or
        a landed version, is not recorded.
        """
        if read_version is None or end is None:
            return None, None
        versions = range(read_version + 1, end + 1)
        if appends_count:
            return len(versions), 0
        recorded = [self.blind[version] for version in versions if version in self.blind]
        return len(versions), sum(recorded) if len(recorded) == len(versions) else None


def load_versions_around(
    table: Table, read: Iterable[int | None], first: int, last: int
) -> CommittedVersions:
    """Load the versions from the earliest read one, within bounds, to `last`: one query."""
    versions = {version for version in read if version is not None}
    low = max(min({*versions, first}), first - _BEFORE)
    far = {version for version in versions if version < low}
    rows = table.commits.filter(Q(version__range=(low, last)) | Q(version__in=far))
    commits = list(rows.order_by().values_list("version", "committed_at", "is_blind_append"))
    return CommittedVersions(
        {version: moment for version, moment, _ in commits},
        {version: bool(blind) for version, _, blind in commits},
    )


class BarEnd(StrEnum):
    """The end of a transaction of the swim-lane; RUNNING has none yet."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    REPORTED = "reported"
    RUNNING = "running"


_ABORTED = (BarEnd.ABORTED, BarEnd.REPORTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneBar:
    """A transaction.

    `overlap_count` versions landed between its read version and its end, `exempt` of them are blind
    appends that do not count at its level; None if the mirror lacks some. `resolved` are the
    versions whose conflicts with it were resolved at row level. `said` is its change, `ending` the
    end of its overlaps. `wasted_*` is the waste of an aborted one, `percent` the progress of a
    running one.
    """

    lane: str
    operation: str
    outcome: BarEnd
    version: int | None
    read_version: int | None
    started_at: datetime | None
    started_is_estimated: bool
    finished_at: datetime | None
    isolation_level: str
    is_blind_append: bool | None
    engine: str = ""
    conflict_id: int | None = None
    winning_version: int | None = None
    job_id: str | None = None
    attempt: int | None = None
    pipeline: str = ""
    overlap_count: int | None = None
    exempt: int | None = None
    resolved: tuple[int, ...] = ()
    said: str = ""
    ending: str = ""
    wasted_ms: int = 0
    wasted_bytes: int = 0
    recorded_ms: int | None = None
    percent: int | None = None
    changes_metadata: bool = False
    partitions: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Its name in an address: its version, its conflict, or its job."""
        if self.version is not None:
            return f"v{self.version}"
        return f"j-{self.job_id}" if self.outcome is BarEnd.RUNNING else f"c-{self.conflict_id}"

    @property
    def is_aborted(self) -> bool:
        return self.outcome in _ABORTED

    @property
    def took_is_at_most(self) -> bool:
        """Whether its duration is unrecorded: it began after the version that it read."""
        return self.recorded_ms is None and self.started_is_estimated

    @property
    def took_ms(self) -> int | None:
        """Its duration; a maximum if its start is estimated. None: not recorded."""
        if self.recorded_ms is not None:
            return self.recorded_ms
        if self.started_at is None or self.finished_at is None or self.read_version is None:
            return None
        return span_ms(self.started_at, self.finished_at)


@dataclass(frozen=True, slots=True)
class ResolvedLink:
    """A resolved conflict: both versions landed."""

    conflict_id: int
    version: int | None
    winning_version: int | None
    rule: str
    how: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BarSurroundings:
    """The context of bars: landed versions, jobs and pipelines by version, earlier properties."""

    table: Table
    landed: CommittedVersions
    jobs: Mapping[int, VersionJob]
    pipelines: Mapping[int, PipelineTransaction]
    joints: Iterable[ResolvedLink]
    properties: Mapping[int, Properties]


def build_commit_bar(commit: Commit, around: BarSurroundings) -> LaneBar:
    """Return the bar of a version."""
    job, reported = around.jobs.get(commit.version), around.pipelines.get(commit.version)
    began = (job.began_at if job else None) or (reported.started_at if reported else None)
    own = [joint for joint in around.joints if joint.version == commit.version]
    overlap_count, exempt = around.landed.count_overlaps(
        commit.read_version, commit.version - 1, appends_count=appends_count_for(commit)
    )
    read_at = around.landed.moment(commit.read_version)
    return LaneBar(
        lane=writer_of(commit.user_name, commit.engine_info, reported),
        operation=commit.operation or NOT_RECORDED,
        outcome=BarEnd.COMMITTED,
        version=commit.version,
        read_version=commit.read_version,
        started_at=began or read_at or commit.committed_at,
        started_is_estimated=began is None,
        finished_at=commit.committed_at,
        isolation_level=commit.isolation_level,
        is_blind_append=commit.is_blind_append,
        engine=commit.engine_info,
        job_id=str(job.job_id) if job else None,
        attempt=job.attempt if job else None,
        pipeline=reported.pipeline.name if reported else "",
        overlap_count=overlap_count,
        exempt=exempt,
        resolved=tuple(e.winning_version for e in own if e.winning_version is not None),
        said=did(commit, around.properties.get(commit.version, {})),
        ending="; ".join(joint.how for joint in own),
        recorded_ms=write_ms(
            job,
            (reported.started_at, reported.ended_at) if reported else (None, None),
            (commit.operation_metrics or {}).get("executionTimeMs"),
        ),
        changes_metadata=commit.changes_metadata and commit.version > 0,
    )


def writer_of(user_name: str, engine_info: str, reported: PipelineTransaction | None) -> str:
    """Return the lane of a version: the pipeline that reported it, else the writer in the log."""
    return str(reported.pipeline) if reported else user_name or engine_info or NOT_RECORDED


def pipelines_of(table: Table, first: int, last: int) -> Mapping[int, PipelineTransaction]:
    """Return the reported transactions of pipelines by version."""
    rows = table.pipeline_transactions.filter(
        filter_current_table(table, "ended_at"), committed_version__range=(first, last)
    )
    reported = rows.select_related("pipeline").defer("statement")
    return {row.committed_version: row for row in reported if row.committed_version is not None}


def appends_count_for(commit: Commit) -> bool:
    """Whether a version had to see overlapping blind appends."""
    changes_terms = commit.changes_metadata or commit.changes_protocol
    return counts_appends(
        level_of(commit.isolation_level, commit.table), changes_terms=changes_terms
    )


def build_aborted_bar(conflict: Conflict, around: BarSurroundings) -> LaneBar:
    """Return the bar of an aborted attempt, here or, as reported, of another engine."""
    began = _attempt_began(conflict)
    read, winning_version = conflict.read_version, conflict.winning_version
    level = level_of(conflict.isolation_level, around.table)
    overlap_count, exempt = around.landed.count_overlaps(
        read, winning_version, appends_count=counts_appends(level)
    )
    return LaneBar(
        lane=conflict.current_user_name or NOT_RECORDED,
        operation=conflict.current_operation or NOT_RECORDED,
        outcome=BarEnd(conflict.kind),
        version=None,
        read_version=read,
        started_at=began or around.landed.moment(read) or conflict.occurred_at,
        started_is_estimated=began is None,
        finished_at=conflict.occurred_at,
        isolation_level=conflict.isolation_level,
        is_blind_append=None,
        engine=getattr(conflict, "engine", None) or (OURS if conflict.job_id else ""),
        conflict_id=conflict.pk,
        winning_version=winning_version,
        job_id=str(conflict.job_id) if conflict.job_id else None,
        attempt=conflict.attempt if conflict.job_id else None,
        pipeline=conflict.transaction.pipeline.name if conflict.transaction else "",
        overlap_count=overlap_count,
        exempt=exempt,
        said=overlap_place(conflict),
        ending=why_aborted(conflict),
        wasted_ms=conflict.wasted_ms,
        wasted_bytes=conflict.wasted_bytes,
        recorded_ms=conflict.wasted_ms or None,
        partitions=tuple(map(str, conflict.partitions or ())),
    )


def build_running_bar(row: Mapping[str, Any], table: Table, landed: CommittedVersions) -> LaneBar:
    """Return the bar of our attempt that has read and not ended, from its job's values."""
    moves_rows = operation_named(row["kind"]).statement.moves_rows
    level = IsolationLevel.SNAPSHOT if moves_rows else level_of(None, table)
    read, total = row["attempt_rows__read_version"], row["progress_total"]
    overlap_count, exempt = landed.count_overlaps(
        read, table.version, appends_count=counts_appends(level)
    )
    return LaneBar(
        lane=row["requested_by__username"] or "the system",
        operation=name_in_log(row["kind"]),
        outcome=BarEnd.RUNNING,
        version=None,
        read_version=read,
        started_at=row["attempt_rows__started_at"],
        started_is_estimated=False,
        finished_at=None,
        isolation_level=level,
        is_blind_append=None,
        engine=OURS,
        job_id=str(row["id"]),
        attempt=row["attempt_rows__number"],
        overlap_count=overlap_count,
        exempt=exempt,
        ending=would_overlap(table.version or 0, overlap_count, exempt),
        percent=100 * row["progress_done"] // total if total else None,
    )


def _attempt_began(conflict: Conflict) -> datetime | None:
    if conflict.transaction is not None:
        return conflict.transaction.started_at
    if conflict.job is None:
        return None
    rows = conflict.job.attempt_rows.all()
    began = next((row.started_at for row in rows if row.number == conflict.attempt), None)
    return began or (conflict.job.started_at if conflict.attempt == 1 else None)


def did(commit: Commit, before: Properties) -> str:
    """Describe a change: 47 k rows, 118 → 12 files, retention 7 → 14 days. `before`: properties."""
    family = operation_named(commit.operation).family
    if family is Family.META:
        return _set(properties_of(commit.operation_parameters), before)
    if family is Family.OPTIMIZE and (commit.files_added or commit.files_removed):
        return f"{commit.files_removed:,} → {commit.files_added:,} files"
    rows = rows_of(commit)
    touched = sum(n for n in (rows.inserted, rows.updated, rows.deleted) if n)
    return f"{short(touched)} {'row' if touched == 1 else 'rows'}" if touched else ""


def overlap_place(conflict: Conflict) -> str:
    """Describe the data touched by both sides: 3 rows in 1 file, 17 new rows match, and so on."""
    rows, files, rule = conflict.row_count, conflict.file_count, conflict.decided_by
    if rule in _CHANGED:
        return _CHANGED[rule]
    if rows and rule is Rule.DATA_ADDED:
        new_rows = conflict.rows_text.replace(" row", " new row")
        return f"{new_rows} {'matches' if rows == 1 else 'match'}"
    where = count_noun(files, "new file" if rule is Rule.DATA_ADDED else "file")
    if rows:
        return f"{conflict.rows_text} in {where}" if files else conflict.rows_text
    return where if files else ""


def why_aborted(conflict: Conflict) -> str:
    """ConcurrentDeleteReadException: 3 rows in 1 file."""
    parts = (conflict.exception, overlap_place(conflict) or conflict.rule.replace("_", " "))
    return ": ".join(part for part in parts if part)


def describe_resolution(conflict: Conflict, how: str) -> str:
    """v4807: row map, 2,377 rows."""
    rows = conflict.row_count
    rows_text = count_noun(rows, "row") if rows and f"{rows:,}" not in how else ""
    words = ", ".join(part for part in (how or "resolved at row level", rows_text) if part)
    return f"v{conflict.winning_version}: {words}"


def would_overlap(latest: int, overlap_count: int | None, exempt: int | None) -> str:
    """Describe the result of a running transaction if it committed now."""
    if not overlap_count:
        return f"if it committed now: v{latest + 1}, no overlap so far"
    if exempt == overlap_count:
        return f"if it committed now: v{latest + 1}, nothing to resolve"
    open_ones = overlap_count - (exempt or 0)
    return f"{count_noun(open_ones, 'version')} to check when it commits"


def properties_of(parameters: object) -> Properties:
    """Return the properties of a SET TBLPROPERTIES; some engines write them as a JSON text."""
    said: Any = parameters.get("properties") if isinstance(parameters, Mapping) else None
    if isinstance(said, str):
        try:
            said = json.loads(said)
        except ValueError:
            return {}
    return {str(k): str(v) for k, v in said.items()} if isinstance(said, Mapping) else {}


def engine_name(engine_info: str) -> str:
    """Return an engine's common name: this engine, delta-spark 4.0; an unknown one as written."""
    if engine_info.startswith("lakeui"):
        return "this engine"
    for pattern, name in _ENGINES:
        match = pattern.search(engine_info)
        if match:
            return f"{name} {match[1]}"
    return engine_info


def short(number: int) -> str:
    """Shorten a number: 1,871, 47 k, 1.18 M."""
    if number < 10_000:
        return f"{number:,}"
    if number < 1_000_000:
        return f"{number / 1000:.0f} k"
    return f"{number / 1_000_000:.3g} M" if number < 1_000_000_000 else f"{number / 10**9:,.3g} G"


def _set(properties: Properties, before: Properties) -> str:
    if not properties:
        return ""
    name, value = next(iter(properties.items()))
    more = f", {len(properties) - 1} more" if len(properties) > 1 else ""
    return f"{_SHORT_NAMES.get(name, name)} {_describe_change(before.get(name), value)}{more}"


def _describe_change(old: str | None, new: str) -> str:
    was, now = (_AMOUNT.match(text or "") for text in (old, new))
    if was and now and was[2] == now[2]:
        return f"{was[1]} → {now[1]} {now[2]}"
    shown = new.removeprefix("interval ")
    return shown if old is None or old == new else f"{old.removeprefix('interval ')} → {shown}"
