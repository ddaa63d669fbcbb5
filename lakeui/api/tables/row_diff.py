"""The differing rows of two versions of a table, compared by a worker and kept for an hour."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from engine.snapshot.row_difference import ComparedBy
from lakeui.api.fields import Int64Field
from lakeui.api.filtering import parse_query, refuse_body
from lakeui.api.table_views import TableScopedView
from lakeui.api.tables.preview import (
    AnswerSerializer,
    PreviewColumnSerializer,
    ask_worker,
    get_stored_preview,
)
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.previews import DIFFERENT_ROWS, PREVIEW_CONDITION, PREVIEW_NAMES, names_in

CHANGES = ("changed", "removed", "added")


class RowDiffRequestSerializer(serializers.Serializer[Any]):
    """The keys that identify rows, and filters."""

    keys = serializers.CharField(
        required=False,
        max_length=PREVIEW_NAMES,
        help_text="Columns that identify a row, with commas between. Without them a changed row is "
        "one removed and one added.",
    )
    where = serializers.CharField(
        required=False,
        max_length=PREVIEW_CONDITION,
        help_text="A condition of rows; a changed row is listed if it matches before or after.",
    )


class DifferentRowSerializer(serializers.Serializer[Any]):
    """A row: a text for each column, null for NULL; null if the version lacks the row."""

    change = serializers.ChoiceField(choices=CHANGES)
    before = serializers.ListField(child=serializers.CharField(allow_null=True), allow_null=True)
    after = serializers.ListField(child=serializers.CharField(allow_null=True), allow_null=True)
    changed = serializers.ListField(
        child=serializers.CharField(), help_text="Columns whose values differ."
    )


class RowDiffCountsSerializer(serializers.Serializer[Any]):
    """How many rows differ in all; null where reading stopped and nothing records it."""

    changed = Int64Field(allow_null=True)
    removed = Int64Field(allow_null=True)
    added = Int64Field(allow_null=True)
    compared_by = serializers.ChoiceField(choices=[by.value for by in ComparedBy])
    is_whole = serializers.BooleanField(help_text="False where reading stopped at its limit.")
    repeated_keys = serializers.BooleanField(
        help_text="Rows that differ share a key: which became which is a guess."
    )
    dropped_columns = serializers.ListField(
        child=serializers.CharField(), help_text="Not compared: the later version has none."
    )


class RowDiffSerializer(AnswerSerializer):
    """The differing rows: the first few hundred of each kind, in the order of their keys."""

    columns = PreviewColumnSerializer(many=True)
    rows = DifferentRowSerializer(many=True, help_text=f"At most {DIFFERENT_ROWS} of each kind.")
    keys = serializers.ListField(child=serializers.CharField())
    counts = RowDiffCountsSerializer(source="answered", allow_null=True)

    class Meta(AnswerSerializer.Meta):
        fields = [
            *AnswerSerializer.Meta.fields,
            "older_version",
            "keys",
            "counts",
            "columns",
            "rows",
            "omitted_columns",
            "file_count",
        ]


class RowDiff(TableScopedView):
    """The rows that differ between two versions."""

    serializer_class = RowDiffSerializer
    changes_nothing = True

    @extend_schema(parameters=[RowDiffRequestSerializer])
    def get(self, request: Request, table_id: int, older: int, newer: int) -> Response:  # noqa: ARG002
        """Return the rows; 404 without a request within the hour: POST has a worker compare."""
        requested = self._parse_request(request, older, newer)
        return Response(RowDiffSerializer(get_stored_preview(self.table, newer, requested)).data)

    @extend_schema(
        request=None, parameters=[RowDiffRequestSerializer], responses={202: RowDiffSerializer}
    )
    def post(self, request: Request, table_id: int, older: int, newer: int) -> Response:  # noqa: ARG002
        """Has a worker compare the rows; nothing in the table changes."""
        refuse_body(request)
        requested = self._parse_request(request, older, newer)
        preview = ask_worker(self.table, newer, requested, Reader(request.user))
        return Response(RowDiffSerializer(preview).data, status.HTTP_202_ACCEPTED)

    def _parse_request(self, request: Request, older: int, newer: int) -> dict[str, Any]:
        given = parse_query(request, RowDiffRequestSerializer)
        latest = self.table.version
        if latest is None or not older < newer <= latest:
            detail = f"The table has no versions {older} and {newer}, the earlier one first."
            raise NotFound(detail)
        return {
            "older_version": older,
            "keys": names_in(given.get("keys", "")),
            "where": given.get("where", "").strip(),
        }
