"""One table: its mirrored state and settings, its description, and its removal."""

from functools import partial
from typing import Any

from django.db import transaction
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from lakeui.api.caller import caller
from lakeui.api.fields import Int64Field, ObjectField, RecordedField
from lakeui.api.filtering import parse_query, refuse_unknown
from lakeui.api.long_polling import IF_NONE_MATCH, WaitSerializer, hold
from lakeui.api.preconditions import check_if_match, digest_of, etag_of, has_state, state_of
from lakeui.api.schema import IF_MATCH
from lakeui.api.serializers.request import RequestSerializer
from lakeui.api.streaming import LAST_EVENT_ID, EventStreamRenderer, stream_of, tell
from lakeui.api.table_views import TableScopedView, require
from lakeui.api.tables.schema import COLUMNS_SHOWN
from lakeui.catalog.health import Health
from lakeui.catalog.models import Table, TableSync
from lakeui.catalog.schema_rows import schema_head, top_fields
from lakeui.catalog.syncs import sync_of
from lakeui.conflicts.unregistration import unregister_table


class TableSerializer(serializers.ModelSerializer[Table]):
    """A table in one row. `version` is null until its log was first read."""

    health = serializers.ChoiceField(choices=Health.values, read_only=True)
    isolation_level = RecordedField(help_text="The level in force, the default filled in.")
    size_bytes = Int64Field()
    dead_bytes = Int64Field(help_text="Of files that only versions before this one name.")
    vacuum_bytes = Int64Field(
        help_text="VACUUM can delete so much now, by the store; 0 where that is not much by the log."
    )
    row_count = Int64Field(allow_null=True, help_text="null: some file has no statistics.")
    last_operation = RecordedField()
    last_writer = RecordedField()
    mirror_error_code = RecordedField()

    class Meta:
        model = Table
        fields = [
            "id",
            "name",
            "uri",
            "description",
            "health",
            "version",
            "last_commit_at",
            "last_operation",
            "last_writer",
            "last_optimize_at",
            "last_vacuum_at",
            "isolation_level",
            "isolation_level_is_set",
            "deletion_vectors",
            "row_tracking",
            "row_level_eligible",
            "row_level_reason",
            "partition_columns",
            "clustering_columns",
            "file_count",
            "small_file_count",
            "size_bytes",
            "row_count",
            "dead_file_count",
            "dead_bytes",
            "vacuum_from",
            "vacuum_file_count",
            "vacuum_bytes",
            "vacuum_measured_at",
            "mirrored_at",
            "mirror_error_code",
        ]
        extra_kwargs = {
            "partition_columns": {"help_text": "Column names."},
            "clustering_columns": {"help_text": "Column names."},
        }


class SyncSerializer(serializers.ModelSerializer[TableSync]):
    """How far a worker is with the first reading of a table's log."""

    stage = serializers.ChoiceField(
        choices=TableSync.Stage.values, allow_null=True, help_text="null: no worker began yet."
    )

    class Meta:
        model = TableSync
        fields = ["requested_at", "started_at", "seen_at", "stage", "done", "total"]

    def to_representation(self, instance: TableSync) -> dict[str, Any]:
        shown: dict[str, Any] = super().to_representation(instance)
        return shown | {"stage": shown["stage"] or None}


class TableDetailSerializer(TableSerializer):
    """Everything the mirror knows of a table, but its versions and files."""

    schema = serializers.SerializerMethodField()
    column_count = serializers.SerializerMethodField(help_text="Columns at the top level.")
    properties = ObjectField()
    protocol = serializers.SerializerMethodField()
    deleted_row_count = Int64Field()
    mirror_error = RecordedField()
    sync = serializers.SerializerMethodField()
    table_uuid = RecordedField()

    class Meta(TableSerializer.Meta):
        fields = [
            *TableSerializer.Meta.fields,
            "earliest_version",
            "table_uuid",
            "created_at_source",
            "registered_at",
            "protocol",
            "schema",
            "column_count",
            "properties",
            "vectored_file_count",
            "deleted_row_count",
            "live_files_mirrored",
            "mirror_error",
            "mirror_failed_at",
            "mirror_tried_at",
            "mirror_tries",
            "sync",
        ]

    @extend_schema_field(SyncSerializer(allow_null=True))
    def get_sync(self, table: Table) -> Any:
        sync = sync_of(table)
        return SyncSerializer(sync).data if sync else None

    @extend_schema_field(
        {
            "type": "object",
            "additionalProperties": {},
            "description": f"Delta's schema JSON, the first {COLUMNS_SHOWN} columns at the top; "
            "`column_count` says how many there are, `columns/` has all in pages.",
        }
    )
    def get_schema(self, table: Table) -> dict[str, Any]:
        return schema_head(table, COLUMNS_SHOWN)

    def get_column_count(self, table: Table) -> int:
        return len(top_fields(table))

    @extend_schema_field(
        {
            "type": "object",
            "properties": {
                "min_reader_version": {"type": ["integer", "null"]},
                "min_writer_version": {"type": ["integer", "null"]},
                "reader_features": {"type": "array", "items": {"type": "string"}},
                "writer_features": {"type": "array", "items": {"type": "string"}},
            },
        }
    )
    def get_protocol(self, table: Table) -> dict[str, Any]:
        return {
            "min_reader_version": table.min_reader_version,
            "min_writer_version": table.min_writer_version,
            "reader_features": table.reader_features,
            "writer_features": table.writer_features,
        }


class DescriptionSerializer(RequestSerializer):
    """A person's description of a table."""

    description = serializers.CharField(max_length=5000, allow_blank=True)


class TableWaitSerializer(WaitSerializer):
    """How long an answer may wait for a later version."""

    after_version = serializers.IntegerField(
        required=False, default=None, min_value=-1, max_value=2**63 - 1, help_text="What you have."
    )


def _is_later(table_id: int, version: int) -> bool:
    table = Table.objects.only("version").filter(pk=table_id).first()
    return table is None or (table.version if table.version is not None else -1) > version


def _is_another(table_id: int, state: str) -> bool:
    table = Table.objects.only("version", "description").filter(pk=table_id).first()
    return table is None or state_of(table) != state


class TableDetail(TableScopedView):
    """One table."""

    queryset = Table.objects.none()
    serializer_class = TableDetailSerializer

    @extend_schema(parameters=[TableWaitSerializer, IF_NONE_MATCH])
    def get(self, request: Request, table_id: int) -> Response:
        """Return the table; `wait` delays the answer until a later version than `after_version`."""
        given = parse_query(request, TableWaitSerializer)
        table, state, after = self.table, state_of(self.table), given["after_version"]
        response = self._answer(table)
        if after is not None:
            is_here = _is_later(table_id, after)
            is_news = partial(_is_later, table_id, after)
        elif "If-None-Match" in request.headers:
            is_here = not has_state(request, state)
            is_news = partial(_is_another, table_id, state)
        elif given["wait"]:
            fault = "Say what is there already: after_version, or If-None-Match with an ETag."
            raise serializers.ValidationError({"wait": [fault]})
        else:
            return response
        return response if is_here else hold(request, response, given["wait"], is_news)

    @extend_schema(
        request=DescriptionSerializer,
        responses={200: TableDetailSerializer},
        parameters=[IF_MATCH],
    )
    def patch(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        """Change the description. `If-Match` carries the ETag of the state you read."""
        require(request, "maintain", self.table)
        body = DescriptionSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        with transaction.atomic():
            table = Table.objects.select_for_update().get(pk=self.table.pk)  # one after the other
            check_if_match(request, state_of(table))
            table.description = body.validated_data["description"]
            table.save(update_fields=["description"])
        self.table.description = table.description
        return self._answer(self.table)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        """Unregister the table and delete all of its records. Its files and log stay."""
        unregister_table(self.table, caller(request))
        return Response(status=status.HTTP_204_NO_CONTENT)

    def _answer(self, table: Table) -> Response:
        body = TableDetailSerializer(table).data
        return Response(body, headers={"ETag": etag_of(state_of(table), body)})


class TableStream(TableScopedView):
    """A table as in `tables/`, now and after each new version, as server-sent events `table`."""

    queryset = Table.objects.none()
    renderer_classes = (EventStreamRenderer,)

    @extend_schema(parameters=[LAST_EVENT_ID], responses=stream_of("Table"))
    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        """Stream the table until you may no longer see it, or five minutes have passed."""
        refuse_unknown(request, frozenset())
        table = self.table
        return tell(
            "table",
            _state_digest(table),
            TableSerializer(table).data,
            partial(_is_told_otherwise, table.pk, _state_digest(table)),
            is_over=False,
        )


def _state_digest(table: Table) -> str:
    """Return the digest of version, description and the log's readability."""
    return digest_of((state_of(table), table.mirror_error_code))


def _is_told_otherwise(table_id: int, told: str) -> bool:
    fields = ("version", "description", "mirror_error_code")
    table = Table.objects.only(*fields).filter(pk=table_id).first()
    return table is None or _state_digest(table) != told
