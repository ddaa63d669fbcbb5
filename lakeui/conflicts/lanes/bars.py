"""A transaction as a bar of the swim-lane: committed, aborted or running."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from engine.conflicts.candidates import counts_appends
from engine.conflicts.isolation import IsolationLevel
from engine.vocabulary import name_in_log, operation_named
from lakeui.catalog.former_tables import filter_current_table
from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.assessment import level_of
from lakeui.conflicts.lanes.committed_versions import CommittedVersions
from lakeui.conflicts.lanes.words import Properties, did, overlap_place, why_aborted, would_overlap
from lakeui.conflicts.models import Conflict, PipelineTransaction
from lakeui.jobs.spans import span_ms
from lakeui.jobs.version_jobs import VersionJob, write_ms

NOT_RECORDED = "not recorded"
OURS = "lakeui"  # for our attempt without a reported version


class BarEnd(StrEnum):
    """How a transaction of the swim-lane ended; RUNNING has not."""

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
