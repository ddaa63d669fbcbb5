"""The live files of a table's latest mirrored version."""

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.generics import ListAPIView

from lakeui.api.fields import Int64Field, ObjectField
from lakeui.api.table_views import TableScopedView
from lakeui.catalog.filters import LiveFileFilter
from lakeui.catalog.models import LiveFile


class LiveFileSerializer(serializers.ModelSerializer[LiveFile]):
    """A file of the latest mirrored version."""

    size_bytes = Int64Field()
    row_count = Int64Field(allow_null=True)
    deleted_row_count = Int64Field(help_text="Rows its deletion vector hides.")
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
