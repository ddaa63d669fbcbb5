"""Tables: their mirrored state and settings, description, registration and removal.

A table's admins see who has a role on it alone. Its quiet hours help to schedule its maintenance.
"""

from functools import cache, partial
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.generics import ListAPIView, get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from lakeui.api.authentication import caller
from lakeui.api.fields import Int64Field, ObjectField, OptionalTextField, RecordedField, RoleField
from lakeui.api.jobs import accept_job
from lakeui.api.listing import parse_body, parse_query, refuse_unknown
from lakeui.api.request_headers import (
    answer_once,
    check_if_match,
    digest_of,
    etag_of,
    has_state,
    state_of,
)
from lakeui.api.schema import IDEMPOTENCY_KEY, IF_MATCH
from lakeui.api.serializers.jobs import JobDetailSerializer
from lakeui.api.serializers.request import RequestSerializer
from lakeui.api.streaming import (
    IF_NONE_MATCH,
    LAST_EVENT_ID,
    EventStreamRenderer,
    WaitSerializer,
    hold,
    stream_of,
    tell,
)
from lakeui.api.table_views import TableScopedView, require
from lakeui.api.tables.schema import COLUMNS_SHOWN
from lakeui.catalog.access import visible_tables
from lakeui.catalog.filters import TableFilter
from lakeui.catalog.health import Health
from lakeui.catalog.hours import QuietHours, quiet_hours
from lakeui.catalog.models import Table, TableGrant, TableSync
from lakeui.catalog.registration import FoundTable, look_for_table, register_place
from lakeui.catalog.schema_rows import schema_head, top_fields
from lakeui.catalog.syncs import sync_of
from lakeui.conflicts.unregistration import unregister_table
from lakeui.jobs.requests import request_create
from lakeui.monitoring.table_health import annotate_health


class TableSerializer(serializers.ModelSerializer[Table]):
    """A table in one row. `version` is null until its log was first read."""

    health = serializers.ChoiceField(choices=Health.values, read_only=True)
    isolation_level = RecordedField(
        help_text="The isolation level that applies, which may be the default."
    )
    size_bytes = Int64Field()
    dead_bytes = Int64Field(help_text="Bytes of files that only earlier versions use.")
    vacuum_bytes = Int64Field(
        help_text="Bytes that VACUUM can delete now, according to the store. 0: the log shows that "
        "it is not much."
    )
    row_count = Int64Field(allow_null=True, help_text="null: a file has no statistics.")
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
    """The progress of a worker's first reading of a table's log."""

    stage = serializers.ChoiceField(
        choices=TableSync.Stage.values, allow_null=True, help_text="null: no worker has started it."
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
    column_count = serializers.SerializerMethodField(help_text="Top-level columns.")
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
            "description": f"Delta's schema JSON with the first {COLUMNS_SHOWN} top-level columns. "
            "`column_count` is the number of all columns, and `columns/` lists them in "
            "pages.",
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
    """The longest wait of an answer for a later version."""

    after_version = serializers.IntegerField(
        required=False,
        default=None,
        min_value=-1,
        max_value=2**63 - 1,
        help_text="The version that you have.",
    )


def _is_later(table_id: int, version: int) -> bool:
    table = Table.objects.only("version").filter(pk=table_id).first()
    return table is None or (table.version if table.version is not None else -1) > version


def _is_another(table_id: int, state: str) -> bool:
    table = Table.objects.only("version", "description").filter(pk=table_id).first()
    return table is None or state_of(table) != state


def tables_with_health(request: Request) -> QuerySet[Any]:
    """Return the tables visible to this caller, each with its health."""
    return annotate_health(visible_tables(request.user))


class TableWithHealthView(TableScopedView):
    """A view of one table with its health."""

    def list_tables(self) -> QuerySet[Any]:
        return tables_with_health(self.request)


class TableDetail(TableWithHealthView):
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
            fault = "Send after_version, or If-None-Match with an ETag."
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
        values = parse_body(request, DescriptionSerializer)
        with transaction.atomic():
            table = Table.objects.select_for_update().get(pk=self.table.pk)  # one after the other
            check_if_match(request, state_of(table))
            table.description = values["description"]
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


class TableStream(TableWithHealthView):
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


class RegistrationSerializer(RequestSerializer):
    """An existing table, by its `uri`; or a new one, by the parameters of `create` or `clone`."""

    uri = serializers.CharField(max_length=2000, required=False)
    create = serializers.DictField(  # type: ignore[assignment]
        required=False,
        help_text="The parameters of the create command: schema or source, clustering, properties.",
    )
    clone = serializers.DictField(
        required=False,
        help_text="The parameters of the clone command: source_table, version or timestamp, deep.",
    )
    name = OptionalTextField(
        max_length=255, help_text="Its path below the root, with dots, by default."
    )
    description = OptionalTextField(max_length=2000, help_text="Only for a new table.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if sum(key in attrs for key in ("uri", "create", "clone")) != 1:
            fault = "Send uri for an existing table, or create or clone for a new table."
            raise serializers.ValidationError({"uri": [fault]})
        if "uri" not in attrs and not attrs["name"]:
            raise serializers.ValidationError({"name": ["A new table needs a name."]})
        return attrs


class TableList(ListAPIView[Table]):
    """The tables you may see."""

    queryset = Table.objects.none()
    serializer_class = TableSerializer
    filterset_class = TableFilter

    def get_queryset(self) -> QuerySet[Table]:
        return tables_with_health(self.request).order_by("name")

    @extend_schema(
        request=RegistrationSerializer,
        responses={201: TableDetailSerializer, 202: JobDetailSerializer},
        parameters=[IDEMPOTENCY_KEY],
    )
    def post(self, request: Request) -> Response:
        """Register a table by its `uri` (201), or have a new one created by a job (202).

        A light worker reads the log of a registered table: `sync` is its progress, null once it is
        read.
        """
        require(request, "maintain")
        values = parse_body(request, RegistrationSerializer)
        if "uri" not in values:
            return answer_once(request, lambda: _create_response(request, values))
        look = cache(lambda: look_for_table(values["uri"], values["name"]))
        return answer_once(request, lambda: _register_response(request, look()), prepare=look)


def _register_response(request: Request, candidate: FoundTable) -> Response:
    made = register_place(candidate, caller(request))
    table = tables_with_health(request).get(pk=made.pk)
    where = reverse("api:table", kwargs={"table_id": table.pk}, request=request)
    body = TableDetailSerializer(table).data
    return Response(body, status.HTTP_201_CREATED, headers={"Location": where})


def _create_response(request: Request, values: dict[str, Any]) -> Response:
    kind = "create" if "create" in values else "clone"
    job = request_create(
        name=values["name"],
        kind=kind,
        parameters=values[kind],
        description=values["description"],
        requested_by=caller(request),
    )
    return accept_job(request, job)


class GrantSerializer(serializers.ModelSerializer[TableGrant]):
    """A person's role on this table, beside their groups' role on every table."""

    user = serializers.CharField(source="user.username", read_only=True)
    role = RoleField(read_only=True)
    granted_by = serializers.CharField(
        source="granted_by.username", default=None, allow_null=True, read_only=True
    )

    class Meta:
        model = TableGrant
        fields = ["user", "role", "granted_at", "granted_by"]


class GrantRequestSerializer(RequestSerializer):
    """The role to have."""

    role = RoleField()


class GrantList(TableScopedView, ListAPIView[TableGrant]):
    """The roles given on this table, for its admins."""

    queryset = TableGrant.objects.none()
    serializer_class = GrantSerializer

    def get_queryset(self) -> QuerySet[TableGrant]:
        require(self.request, "admin", self.table)
        return self.table.grants.select_related("user", "granted_by").order_by("granted_at")


class GrantDetail(TableScopedView):
    """One person's role on this table."""

    serializer_class = GrantSerializer

    @extend_schema(request=GrantRequestSerializer, responses={200: GrantSerializer})
    def put(self, request: Request, table_id: int, username: str) -> Response:  # noqa: ARG002
        """Give a role, or change it. The audit log records it."""
        table = self.table
        require(request, "admin", table)
        values = parse_body(request, GrantRequestSerializer)
        person = get_object_or_404(User, username=username)
        grant, _ = TableGrant.objects.update_or_create(
            table=table,
            user=person,
            defaults={"role": values["role"], "granted_by": caller(request)},
        )
        return Response(GrantSerializer(grant).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, table_id: int, username: str) -> Response:  # noqa: ARG002
        """Revoke the role on this table; roles of groups stay."""
        table = self.table
        require(request, "admin", table)
        get_object_or_404(table.grants.all(), user__username=username).delete()
        return Response(status=status.HTTP_204_NO_CONTENT)


class HoursSerializer(serializers.Serializer[QuietHours]):
    """Hours of the day in UTC; `commits` of `all_commits` of the last 30 days changed rows in them."""

    start = serializers.IntegerField()
    end = serializers.IntegerField()
    commits = Int64Field()
    all_commits = Int64Field()
    cron = serializers.CharField(
        help_text="A cron schedule for every day in the middle of the quiet hours."
    )


class QuietHoursSerializer(serializers.Serializer[Any]):
    """The quiet hours; null for too few commits, or for a table equally busy at any hour."""

    quiet_hours = HoursSerializer(allow_null=True)


class QuietHoursOfTable(TableScopedView):
    """The three hours of the day with the fewest commits that changed rows."""

    serializer_class = QuietHoursSerializer

    @extend_schema(responses={200: QuietHoursSerializer})
    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        refuse_unknown(request, frozenset())
        hours = quiet_hours(self.table, timezone.now())
        return Response(QuietHoursSerializer({"quiet_hours": hours}).data)
