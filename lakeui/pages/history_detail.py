"""One version opened in the history: what it changed, what it did to others, how it was committed."""

from dataclasses import dataclass

from django.db.models import F
from django.http import HttpRequest

from lakeui.catalog.access import may
from lakeui.catalog.differences import DefinitionChange, change_of
from lakeui.catalog.models import Commit, CommitFile, Table
from lakeui.conflicts.version_effects import VersionEffects, effects_of
from lakeui.jobs.models import Job
from lakeui.jobs.stopped_streams import streams_stopped_by

_FILES_SHOWN = 6


@dataclass(frozen=True, slots=True)
class HistoryDetail:
    """`change` is None where the definition stayed; `job` is the one of ours that committed it.

    `files` are the largest it touched; `more_files` counts the rest, those not mirrored too.
    """

    commit: Commit
    previous: int | None
    change: DefinitionChange | None
    files: tuple[CommitFile, ...]
    more_files: int
    effects: VersionEffects
    streams: tuple[Job, ...]
    job: Job | None
    may_restore: bool

    @property
    def reason(self) -> str:
        """Why it was done, as far as anybody said."""
        return self.commit.user_metadata or (self.job.reason if self.job else "")


def history_detail(request: HttpRequest, table: Table, commit: Commit) -> HistoryDetail:
    before = table.commits.filter(version__lt=commit.version).order_by("-version")
    previous = before.values_list("version", flat=True).first()
    largest = commit.files.order_by(F("size_bytes").desc(nulls_last=True), "path")[:_FILES_SHOWN]
    files = tuple(largest)
    touched = commit.files_added + commit.files_removed
    return HistoryDetail(
        commit=commit,
        previous=previous,
        change=change_of(commit),
        files=files,
        more_files=max(touched - len(files), 0),
        effects=effects_of(table, commit.version),
        streams=tuple(streams_stopped_by(commit, request.user)),
        job=job_of(table, commit.version),
        may_restore=previous is not None and may(request.user, "admin", table),
    )


def job_of(table: Table, version: int) -> Job | None:
    """The job of this installation that committed a version."""
    return table.jobs.filter(committed_version=version).order_by("-created_at").first()
