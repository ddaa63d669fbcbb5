"""A table over time and on storage: commits by bucket, growth, layout."""

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from lakeui.api.filtering import refuse_unknown
from lakeui.api.serializers.history import (
    GrowthSerializer,
    TimelineRequestSerializer,
    TimelineSerializer,
)
from lakeui.api.serializers.layout import LayoutSerializer
from lakeui.api.views.of_table import OfTable
from lakeui.catalog.file_layout import file_layout, size_bins, unclustered
from lakeui.catalog.growth import growth
from lakeui.catalog.upkeep import chores
from lakeui.conflicts.commit_timeline import commit_timeline


class Timeline(OfTable):
    """Commits by bucket of time and operation, with the attempts that lost."""

    serializer_class = TimelineSerializer

    @extend_schema(parameters=[TimelineRequestSerializer])
    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002 - from the address
        refuse_unknown(request, frozenset({"range"}))
        asked = TimelineRequestSerializer(data=request.query_params)
        asked.is_valid(raise_exception=True)
        found = commit_timeline(self.table, asked.validated_data["range"], timezone.now())
        return Response(TimelineSerializer(found).data)


class Growth(OfTable):
    """Size and files after the newest versions, from what commits record."""

    serializer_class = GrowthSerializer

    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        refuse_unknown(request, frozenset())
        return Response(GrowthSerializer(growth(self.table)).data)


class Layout(OfTable):
    """Sizes, partitions, rows marked deleted, what is not clustered, and what the table needs."""

    serializer_class = LayoutSerializer

    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        refuse_unknown(request, frozenset())
        table, layout = self.table, file_layout(self.table)
        not_clustered = unclustered(table)
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
