"""One version of a table, with its added and removed files."""

from typing import Any

from django.db.models import QuerySet
from rest_framework.generics import ListAPIView, RetrieveAPIView, get_object_or_404

from lakeui.api.serializers.versions import (
    VersionDetailSerializer,
    VersionFileSerializer,
)
from lakeui.api.table_views import TableScopedView
from lakeui.api.tables.history import count_conflicts
from lakeui.catalog.differences import change_of
from lakeui.catalog.models import Commit, CommitFile
from lakeui.conflicts.version_effects import effects_of
from lakeui.jobs.filters import visible_jobs
from lakeui.jobs.stopped_streams import streams_stopped_by
from lakeui.jobs.version_jobs import job_of_version


class VersionDetail(TableScopedView, RetrieveAPIView[Commit]):
    """One version with its parameters, metrics and raw lines."""

    queryset = Commit.objects.none()
    serializer_class = VersionDetailSerializer
    lookup_field = "version"

    def get_queryset(self) -> QuerySet[Commit]:
        return self.table.commits.all()

    def get_object(self) -> Commit:
        commit: Any = super().get_object()
        table = self.table
        count_conflicts(table, [commit])
        commit.change, commit.effects = change_of(commit), effects_of(table, commit.version)
        commit.stopped_streams = streams_stopped_by(commit, self.request.user)
        job = job_of_version(visible_jobs(self.request.user), table, commit.version)
        commit.job_id = None if job is None else job.pk
        return commit  # type: ignore[no-any-return]  # with related rows for its serializer


class VersionFileList(TableScopedView, ListAPIView[CommitFile]):
    """The files a version added or removed, up to the mirror's cap (`files_mirrored`)."""

    queryset = CommitFile.objects.none()
    serializer_class = VersionFileSerializer

    def get_queryset(self) -> QuerySet[CommitFile]:
        commit = get_object_or_404(self.table.commits.all(), version=self.kwargs["version"])
        return CommitFile.objects.filter(commit=commit).order_by("action", "path")
