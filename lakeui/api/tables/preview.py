"""Some rows of a table at a version, read by a worker and kept for an hour."""

from typing import Any

from drf_spectacular.utils import extend_schema
from kombu.exceptions import OperationalError
from rest_framework import serializers, status
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from engine.errors import StorageError
from lakeui.api.fields import Int64Field, RecordedField, RowsStateField
from lakeui.api.filtering import asked
from lakeui.api.of_table import OfTable
from lakeui.catalog.models import Preview
from lakeui.catalog.previews import PREVIEW_CONDITION, ask_for_preview


class PreviewRequestSerializer(serializers.Serializer[Any]):
    """Which version, the latest mirrored if not given; `where` is a condition of its rows."""

    version = serializers.IntegerField(required=False, min_value=0, max_value=2**53 - 1)
    where = serializers.CharField(required=False, max_length=PREVIEW_CONDITION)


class PreviewColumnSerializer(serializers.Serializer[Any]):
    """A column that was read."""

    name = serializers.CharField()
    type = serializers.CharField(help_text="As in the table's schema; struct, array or map alone.")


class PreviewSerializer(serializers.ModelSerializer[Preview]):
    """Rows of a version as a worker read them."""

    state = RowsStateField()
    columns = PreviewColumnSerializer(many=True)
    rows = serializers.ListField(
        child=serializers.ListField(child=serializers.CharField(allow_null=True)),
        help_text="A text for each column, null for NULL.",
    )
    row_count = Int64Field(allow_null=True, help_text="Of the version, as far as recorded.")
    marked_rows = Int64Field(
        allow_null=True, help_text="Rows that deletion vectors hide; they are not among `rows`."
    )
    error_code = RecordedField()
    error_message = RecordedField()

    class Meta:
        model = Preview
        fields = [
            "version",
            "where",
            "state",
            "asked_at",
            "read_at",
            "columns",
            "rows",
            "omitted_columns",
            "row_count",
            "file_count",
            "marked_rows",
            "error_code",
            "error_message",
        ]


class TablePreview(OfTable):
    """The first rows of a version, as texts."""

    serializer_class = PreviewSerializer
    changes_nothing = True

    @extend_schema(parameters=[PreviewRequestSerializer])
    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002 - from the address
        """404 where nobody asked within the hour: POST asks a worker to read them."""
        version, where = self._version(request), self._where(request)
        preview = Preview.objects.filter(table=self.table, version=version, where=where).first()
        if preview is None:
            detail = (
                "Nobody requested these rows within the last hour. POST here to have them read."
            )
            raise NotFound(detail)
        return Response(PreviewSerializer(preview).data)

    @extend_schema(
        request=None, parameters=[PreviewRequestSerializer], responses={202: PreviewSerializer}
    )
    def post(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        """Has a worker read the rows; nothing in the table changes."""
        try:
            preview = ask_for_preview(self.table, self._version(request), self._where(request))
        except (OperationalError, OSError) as error:
            msg = "The broker cannot be reached, so no worker was asked."
            raise StorageError(msg, "Try again once it is back.") from error
        return Response(PreviewSerializer(preview).data, status.HTTP_202_ACCEPTED)

    def _where(self, request: Request) -> str:
        return str(asked(request, PreviewRequestSerializer).get("where", "")).strip()

    def _version(self, request: Request) -> int:
        latest = self.table.version
        version: int = asked(request, PreviewRequestSerializer).get("version", latest or 0)
        if latest is None or version > latest:
            detail = "The table has no such version."
            raise NotFound(detail)
        return version
