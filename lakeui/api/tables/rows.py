"""Rows of a table at a version, and the differing rows of two versions.

A worker reads them, and they are kept for an hour.
"""

from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from kombu.exceptions import OperationalError
from rest_framework import serializers, status
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from engine.errors import StorageError
from engine.snapshot.row_difference import ComparedBy
from lakeui.api.fields import Int64Field, RecordedField, RowsStateField
from lakeui.api.listing import parse_query, refuse_body
from lakeui.api.table_views import TableScopedView
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.models import Preview, Table
from lakeui.catalog.previews import (
    DIFFERENT_ROWS,
    PREVIEW_CONDITION,
    PREVIEW_NAMES,
    ask_for_preview,
    check_condition,
    find_preview,
    names_in,
)
from lakeui.task_names import NO_WORKER_ASKED

CHANGES = ("changed", "removed", "added")


class PreviewRequestSerializer(serializers.Serializer[Any]):
    """The version, by default the latest mirrored one; `where` is a condition on its rows."""

    version = serializers.IntegerField(required=False, min_value=0, max_value=2**53 - 1)
    where = serializers.CharField(required=False, max_length=PREVIEW_CONDITION)
    columns = serializers.CharField(
        required=False,
        max_length=PREVIEW_NAMES,
        help_text="Column names separated by commas, in backticks if a name contains a comma. All "
        "columns by default.",
    )
    profile = serializers.CharField(
        required=False,
        max_length=PREVIEW_NAMES,
        help_text="A column to profile. No rows are returned.",
    )


class ColumnProfileSerializer(serializers.Serializer[Any]):
    """A column's contents. `is_whole` is false if reading stopped at its limit."""

    rows = Int64Field()
    nulls = Int64Field()
    distinct = Int64Field(allow_null=True, help_text="Without NULL. null: not counted.")
    least = serializers.CharField(allow_null=True)
    greatest = serializers.CharField(allow_null=True)
    is_whole = serializers.BooleanField()


class PreviewColumnSerializer(serializers.Serializer[Any]):
    """A column of the result."""

    name = serializers.CharField()
    type = serializers.CharField(
        help_text="The type in the table's schema. Nested types are only struct, array or map."
    )


class AnswerSerializer(serializers.ModelSerializer[Preview]):
    """A request to a worker, and its progress."""

    state = RowsStateField()
    error_code = RecordedField()
    error_message = RecordedField()

    class Meta:
        model = Preview
        fields = ["version", "where", "state", "asked_at", "read_at", "error_code", "error_message"]


class PreviewSerializer(AnswerSerializer):
    """The rows of a version, or the profile of one of its columns."""

    columns = PreviewColumnSerializer(many=True)
    rows = serializers.ListField(
        child=serializers.ListField(child=serializers.CharField(allow_null=True)),
        help_text="A string for each column, null for NULL.",
    )
    row_count = Int64Field(allow_null=True, help_text="The rows of the version, if recorded.")
    marked_rows = Int64Field(
        allow_null=True,
        help_text="Rows that deletion vectors mark as deleted. `rows` does not include them.",
    )
    profile = serializers.SerializerMethodField(help_text="Present if a profile was requested.")

    class Meta(AnswerSerializer.Meta):
        fields = [
            *AnswerSerializer.Meta.fields,
            "columns",
            "rows",
            "omitted_columns",
            "row_count",
            "file_count",
            "marked_rows",
            "profile",
        ]

    @extend_schema_field(ColumnProfileSerializer(allow_null=True))
    def get_profile(self, preview: Preview) -> dict[str, Any] | None:
        answered = preview.profiled and preview.answer
        return dict(ColumnProfileSerializer(preview.answer).data) if answered else None


class TablePreview(TableScopedView):
    """The first rows of a version, as texts, or the contents of one of its columns."""

    serializer_class = PreviewSerializer
    changes_nothing = True

    @extend_schema(parameters=[PreviewRequestSerializer])
    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002 - from the address
        """Return the rows; 404 without a request within the hour: POST has a worker read them."""
        version, requested = self._parse_request(request)
        return Response(PreviewSerializer(get_stored_preview(self.table, version, requested)).data)

    @extend_schema(
        request=None, parameters=[PreviewRequestSerializer], responses={202: PreviewSerializer}
    )
    def post(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        """Have a worker read the rows; the table does not change. 422 for an invalid condition."""
        refuse_body(request)
        version, requested = self._parse_request(request)
        preview = ask_worker(self.table, version, requested, Reader(request.user))
        return Response(PreviewSerializer(preview).data, status.HTTP_202_ACCEPTED)

    def _parse_request(self, request: Request) -> tuple[int, dict[str, Any]]:
        given = parse_query(request, PreviewRequestSerializer)
        where, profiled = given.get("where", "").strip(), given.get("profile", "").strip()
        latest = self.table.version
        version: int = given.get("version", latest or 0)
        if latest is None or version > latest:
            detail = "The table does not have this version."
            raise NotFound(detail)
        if profiled:
            return version, {"where": where, "profiled": profiled}
        return version, {"where": where, "wanted": names_in(given.get("columns", ""))}


def get_stored_preview(table: Table, version: int, requested: dict[str, Any]) -> Preview:
    """Return a worker's result of the last hour; raise `NotFound` if nobody requested it."""
    preview = find_preview(table, version=version, **requested)
    if preview is None:
        detail = (
            "Nobody requested these rows within the last hour. Send a POST request to this "
            "URL to read them."
        )
        raise NotFound(detail)
    return preview


def ask_worker(table: Table, version: int, requested: dict[str, Any], reader: Reader) -> Preview:
    """Have a worker read rows.

    Raises:
        ExpressionError: the condition is invalid, with its field.
        TooManyReadsError: the person waits for as many reads as one person may.
        StorageError: the broker cannot be reached.
    """
    check_condition(table, requested["where"])
    try:
        return ask_for_preview(table, version, by=reader.account, **requested)
    except (OperationalError, OSError) as error:
        raise StorageError(NO_WORKER_ASKED, "Try again later.") from error


class RowDiffRequestSerializer(serializers.Serializer[Any]):
    """The keys that identify rows, and filters."""

    keys = serializers.CharField(
        required=False,
        max_length=PREVIEW_NAMES,
        help_text="Columns that identify a row, separated by commas. Without them, a changed row "
        "counts as one removed and one added row.",
    )
    where = serializers.CharField(
        required=False,
        max_length=PREVIEW_CONDITION,
        help_text="A condition on rows. A changed row is listed if it matches before or after the "
        "change.",
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
    """The numbers of all rows that differ; null where reading stopped and the log has no count."""

    changed = Int64Field(allow_null=True)
    removed = Int64Field(allow_null=True)
    added = Int64Field(allow_null=True)
    compared_by = serializers.ChoiceField(choices=[by.value for by in ComparedBy])
    is_whole = serializers.BooleanField(help_text="false: the comparison stopped at its limit.")
    repeated_keys = serializers.BooleanField(
        help_text="Several changed rows have the same key, so their pairing is a guess."
    )
    dropped_columns = serializers.ListField(
        child=serializers.CharField(),
        help_text="Columns that were not compared, because the later version does not have them.",
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
            detail = (
                f"The table has no versions {older} and {newer}. The first must be the earlier one."
            )
            raise NotFound(detail)
        return {
            "older_version": older,
            "keys": names_in(given.get("keys", "")),
            "where": given.get("where", "").strip(),
        }
