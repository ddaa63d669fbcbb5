"""A table over time and on storage: versions with their files, changes between them, and layout."""

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.generics import ListAPIView, RetrieveAPIView, get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response

from lakeui.api.fields import Int64Field, ObjectField
from lakeui.api.listing import parse_query, refuse_unknown
from lakeui.api.serializers.tables import (
    DifferenceSerializer,
    GrowthSerializer,
    TimelineRequestSerializer,
    TimelineSerializer,
    VersionDetailSerializer,
    VersionFileSerializer,
    VersionSerializer,
)
from lakeui.api.table_views import TableScopedView
from lakeui.catalog.chores import chores
from lakeui.catalog.differences import change_of, difference
from lakeui.catalog.file_layout import file_layout, measure_unclustered, size_bins
from lakeui.catalog.filters import LiveFileFilter
from lakeui.catalog.growth import growth
from lakeui.catalog.models import Commit, CommitFile, LiveFile, Table
from lakeui.conflicts.commit_timeline import commit_timeline
from lakeui.conflicts.filters import VersionFilter
from lakeui.conflicts.version_effects import (
    count_aborted_by_version,
    count_resolved_by_version,
    effects_of,
)
from lakeui.jobs.filters import visible_jobs
from lakeui.jobs.streams import streams_stopped_by
from lakeui.jobs.version_jobs import job_of_version


class SizeBinSerializer(serializers.Serializer[Any]):
    """Files from `from_bytes` up to, not including, `below_bytes`; null: no end."""

    from_bytes = Int64Field()
    below_bytes = Int64Field(allow_null=True)
    files = serializers.IntegerField()
    size_bytes = Int64Field()


class DensitySerializer(serializers.Serializer[Any]):
    """Files with this share of rows marked deleted."""

    share = serializers.CharField(source="name")
    files = serializers.IntegerField()
    marked_rows = Int64Field()


class PartitionSerializer(serializers.Serializer[Any]):
    """The live files of a partition."""

    values = ObjectField()
    files = serializers.IntegerField()
    small_files = serializers.IntegerField(source="small")
    size_bytes = Int64Field()
    rows = Int64Field(allow_null=True)


class UnclusteredSerializer(serializers.Serializer[Any]):
    """Live files written after the last mirrored OPTIMIZE."""

    last_optimize = serializers.IntegerField(source="since.version", default=None, allow_null=True)
    files = serializers.IntegerField()
    size_bytes = Int64Field()


class ChoreSerializer(serializers.Serializer[Any]):
    """A possible chore: compact, cluster, purge or vacuum; `of` is 0 if unrecorded."""

    name = serializers.CharField()
    is_due = serializers.BooleanField()
    count = Int64Field()
    of = Int64Field()
    unit = serializers.CharField()
    size_bytes = Int64Field(allow_null=True)
    from_moment = serializers.DateTimeField(allow_null=True)
    statement = serializers.CharField()


class LayoutSerializer(serializers.Serializer[Any]):
    """Sums over the mirrored live files, the largest 40 partitions, and due chores."""

    version = serializers.IntegerField(allow_null=True)
    file_count = serializers.IntegerField()
    live_files_mirrored = serializers.IntegerField()
    sizes = SizeBinSerializer(many=True)
    densities = DensitySerializer(many=True)
    partition_count = serializers.IntegerField()
    partition_skew = serializers.FloatField(
        allow_null=True, help_text="The bytes of the largest partition divided by the median."
    )
    partitions = PartitionSerializer(many=True)
    unclustered = UnclusteredSerializer(allow_null=True)
    chores = ChoreSerializer(many=True)


class TimelineDetail(TableScopedView):
    """Commits by bucket of time and operation, with the aborted attempts."""

    serializer_class = TimelineSerializer

    @extend_schema(parameters=[TimelineRequestSerializer])
    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002 - from the address
        asked = parse_query(request, TimelineRequestSerializer)
        timeline = commit_timeline(self.table, asked["range"], timezone.now())
        return Response(TimelineSerializer(timeline).data)


class GrowthDetail(TableScopedView):
    """Size and number of files after the latest versions, from commits' records."""

    serializer_class = GrowthSerializer

    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        refuse_unknown(request, frozenset())
        return Response(GrowthSerializer(growth(self.table)).data)


class LayoutDetail(TableScopedView):
    """Sizes, partitions, rows marked deleted, unclustered files, and due chores."""

    serializer_class = LayoutSerializer

    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        refuse_unknown(request, frozenset())
        table, layout = self.table, file_layout(self.table)
        not_clustered = measure_unclustered(table)
        body = {
            "version": table.version,
            "file_count": table.file_count,
            "live_files_mirrored": table.live_files_mirrored,
            "sizes": size_bins(layout.sizes),
            "densities": layout.densities,
            "partition_count": layout.partition_count,
            "partition_skew": layout.skew,
            "partitions": layout.partitions,
            "unclustered": not_clustered,
            "chores": chores(table, not_clustered),
        }
        return Response(LayoutSerializer(body).data)


class VersionList(TableScopedView, ListAPIView[Commit]):
    """The mirrored versions of a table, latest first."""

    queryset = Commit.objects.none()
    serializer_class = VersionSerializer
    filterset_class = VersionFilter

    def get_queryset(self) -> QuerySet[Commit]:
        return self.table.commits.defer("raw").order_by("-version")

    def paginate_queryset(self, queryset: Any) -> Any:
        commits = super().paginate_queryset(queryset)
        count_conflicts(self.table, commits or ())
        return commits


def count_conflicts(table: Table, commits: Sequence[Any]) -> None:
    """Add to each commit the numbers of attempts it aborted and of conflicts it resolved."""
    if commits:
        low, high = min(c.version for c in commits), max(c.version for c in commits)
        beaten, resolved = (
            count_aborted_by_version(table, low, high),
            count_resolved_by_version(table, low, high),
        )
        for commit in commits:
            commit.aborted_by_it = beaten.get(commit.version, 0)
            commit.resolved = resolved.get(commit.version, 0)


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


class LiveFileSerializer(serializers.ModelSerializer[LiveFile]):
    """A file of the latest mirrored version."""

    size_bytes = Int64Field()
    row_count = Int64Field(allow_null=True)
    deleted_row_count = Int64Field(help_text="Rows that its deletion vector marks as deleted.")
    partition_values = ObjectField()

    class Meta:
        model = LiveFile
        fields = [
            "path",
            "partition_values",
            "size_bytes",
            "row_count",
            "deleted_row_count",
            "modified_at",
        ]


class LiveFileList(TableScopedView, ListAPIView[LiveFile]):
    """The live files of the latest mirrored version, up to the mirror's cap (`live_files_mirrored`)."""

    queryset = LiveFile.objects.none()
    serializer_class = LiveFileSerializer
    filterset_class = LiveFileFilter

    def get_queryset(self) -> QuerySet[LiveFile]:
        return self.table.live_files.order_by("path")


class Diff(TableScopedView):
    """The changes from one version to another."""

    serializer_class = DifferenceSerializer

    def get(self, request: Request, table_id: int, older: int, newer: int) -> Response:  # noqa: ARG002
        refuse_unknown(request, frozenset())
        comparison = difference(self.table, older, newer) if older < newer else None
        if comparison is None:
            detail = f"The mirror holds no version from {older + 1} to {newer}."
            raise NotFound(detail)
        return Response(DifferenceSerializer(comparison).data)
