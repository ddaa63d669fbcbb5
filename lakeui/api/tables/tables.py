"""Tables, their versions and files: the mirror, read."""

from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.generics import ListAPIView, RetrieveAPIView, get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from lakeui.api.caller import caller
from lakeui.api.fields import Int64Field, ObjectField, RecordedField
from lakeui.api.filtering import refuse_unknown
from lakeui.api.idempotency import answer_once
from lakeui.api.jobs.jobs import accepted
from lakeui.api.of_table import OfTable, annotated_tables, require
from lakeui.api.preconditions import check_if_match, etag_of
from lakeui.api.schema import IDEMPOTENCY_KEY, IF_MATCH
from lakeui.api.serializers.jobs import JobDetailSerializer
from lakeui.api.serializers.request import RequestSerializer
from lakeui.api.serializers.versions import (
    VersionDetailSerializer,
    VersionFileSerializer,
    VersionSerializer,
)
from lakeui.api.tables.definitions import COLUMNS_SHOWN
from lakeui.catalog.differences import change_of
from lakeui.catalog.filters import LiveFileFilter, TableFilter
from lakeui.catalog.health import Health
from lakeui.catalog.models import Commit, CommitFile, LiveFile, Table, TableSync
from lakeui.catalog.registration import request_registration
from lakeui.catalog.schema_rows import schema_head, top_fields
from lakeui.catalog.syncs import sync_of
from lakeui.conflicts.filters import VersionFilter
from lakeui.conflicts.unregistering import unregister_table
from lakeui.conflicts.version_effects import effects_of, lost_to, resolved_by
from lakeui.jobs.filters import visible_jobs
from lakeui.jobs.made_versions import job_of_version
from lakeui.jobs.requests import request_create
from lakeui.jobs.stopped_streams import streams_stopped_by


class TableSerializer(serializers.ModelSerializer[Table]):
    """A table in one row. `version` is null until its log was first read."""

    health = serializers.ChoiceField(choices=Health.values, read_only=True)
    isolation_level = RecordedField(help_text="The level in force, the default filled in.")
    size_bytes = Int64Field()
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
    column_count = serializers.SerializerMethodField(help_text="Those at the top.")
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


class RegistrationSerializer(RequestSerializer):
    """A table that is there already, by its `uri`; or a new one, by the parameters of `create` or `clone`."""

    uri = serializers.CharField(max_length=2000, required=False)
    create = serializers.DictField(  # type: ignore[assignment]
        required=False, help_text="Of the create command: schema or source, clustering, properties."
    )
    clone = serializers.DictField(
        required=False, help_text="Of the clone command: source_table, version or timestamp, deep."
    )
    name = serializers.CharField(
        max_length=255,
        required=False,
        default="",
        allow_blank=True,
        help_text="Else: from the URI.",
    )
    description = serializers.CharField(
        max_length=2000, required=False, default="", allow_blank=True, help_text="Of a new table."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if sum(key in attrs for key in ("uri", "create", "clone")) != 1:
            fault = "Give either uri, of a table that is there, or create or clone, for a new one."
            raise serializers.ValidationError({"uri": [fault]})
        if "uri" not in attrs and not attrs["name"]:
            raise serializers.ValidationError({"name": ["A new table needs a name."]})
        return attrs


class DescriptionSerializer(RequestSerializer):
    """What people may say about a table."""

    description = serializers.CharField(max_length=5000, allow_blank=True)


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


class TableList(ListAPIView[Table]):
    """The tables you may see."""

    queryset = Table.objects.none()
    serializer_class = TableSerializer
    filterset_class = TableFilter

    def get_queryset(self) -> QuerySet[Table]:
        return annotated_tables(self.request).order_by("name")

    @extend_schema(
        request=RegistrationSerializer,
        responses={201: TableDetailSerializer, 202: JobDetailSerializer},
        parameters=[IDEMPOTENCY_KEY],
    )
    def post(self, request: Request) -> Response:
        """Register a table by its `uri` (201), or have a new one made by a job (202).

        A light worker reads the log of a registered table: `sync` says how far it is, null once it
        is read.
        """
        require(request, "maintain")
        form = RegistrationSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        values = form.validated_data
        answer = _registered if "uri" in values else _created
        return answer_once(request, lambda: answer(request, values))


def _registered(request: Request, values: dict[str, Any]) -> Response:
    made = request_registration(values["uri"], name=values["name"], by=caller(request))
    table = annotated_tables(request).get(pk=made.pk)
    where = reverse("api:table", kwargs={"table_id": table.pk}, request=request)
    body = TableDetailSerializer(table).data
    return Response(body, status.HTTP_201_CREATED, headers={"Location": where})


def _created(request: Request, values: dict[str, Any]) -> Response:
    kind = "create" if "create" in values else "clone"
    job = request_create(
        name=values["name"],
        kind=kind,
        parameters=values[kind],
        description=values["description"],
        requested_by=caller(request),
    )
    return accepted(request, job)


class TableDetail(OfTable):
    """One table."""

    queryset = Table.objects.none()
    serializer_class = TableDetailSerializer

    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002 - from the address
        refuse_unknown(request, frozenset())
        return self._answer(self.table)

    @extend_schema(
        request=DescriptionSerializer,
        responses={200: TableDetailSerializer},
        parameters=[IF_MATCH],
    )
    def patch(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        """Change the description. `If-Match` carries the ETag of what you read."""
        require(request, "maintain", self.table)
        body = DescriptionSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        with transaction.atomic():
            table = Table.objects.select_for_update().get(pk=self.table.pk)  # one after the other
            check_if_match(request, etag_of(table))
            table.description = body.validated_data["description"]
            table.save(update_fields=["description"])
        self.table.description = table.description
        return self._answer(self.table)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        """Take the table off the list, with all that is on record of it. Its files and log stay."""
        unregister_table(self.table, caller(request))
        return Response(status=status.HTTP_204_NO_CONTENT)

    def _answer(self, table: Table) -> Response:
        body = TableDetailSerializer(table).data
        return Response(body, headers={"ETag": etag_of(table)})


class VersionList(OfTable, ListAPIView[Commit]):
    """The versions of a table that the mirror holds, newest first."""

    queryset = Commit.objects.none()
    serializer_class = VersionSerializer
    filterset_class = VersionFilter

    def get_queryset(self) -> QuerySet[Commit]:
        return self.table.commits.defer("raw").order_by("-version")

    def paginate_queryset(self, queryset: Any) -> Any:
        commits = super().paginate_queryset(queryset)
        _count_conflicts(self.table, commits or ())
        return commits


class VersionDetail(OfTable, RetrieveAPIView[Commit]):
    """One version with its parameters, metrics and raw lines."""

    queryset = Commit.objects.none()
    serializer_class = VersionDetailSerializer
    lookup_field = "version"

    def get_queryset(self) -> QuerySet[Commit]:
        return self.table.commits.all()

    def get_object(self) -> Commit:
        commit: Any = super().get_object()
        table = self.table
        _count_conflicts(table, [commit])
        commit.change, commit.effects = change_of(commit), effects_of(table, commit.version)
        commit.stopped_streams = streams_stopped_by(commit, self.request.user)
        job = job_of_version(visible_jobs(self.request.user), table, commit.version)
        commit.job_id = None if job is None else job.pk
        return commit  # type: ignore[no-any-return]  # with what its serializer shows beside it


def _count_conflicts(table: Table, commits: Sequence[Any]) -> None:
    """Give each commit how many lost to it and how many conflicts it resolved."""
    if commits:
        low, high = min(c.version for c in commits), max(c.version for c in commits)
        beaten, resolved = lost_to(table, low, high), resolved_by(table, low, high)
        for commit in commits:
            commit.lost_to_it = beaten.get(commit.version, 0)
            commit.resolved = resolved.get(commit.version, 0)


class VersionFileList(OfTable, ListAPIView[CommitFile]):
    """The files a version added or removed, up to the mirror's cap (`files_mirrored`)."""

    queryset = CommitFile.objects.none()
    serializer_class = VersionFileSerializer

    def get_queryset(self) -> QuerySet[CommitFile]:
        commit = get_object_or_404(self.table.commits.all(), version=self.kwargs["version"])
        return CommitFile.objects.filter(commit=commit).order_by("action", "path")


class LiveFileList(OfTable, ListAPIView[LiveFile]):
    """The live files of the latest mirrored version, up to the mirror's cap (`live_files_mirrored`)."""

    queryset = LiveFile.objects.none()
    serializer_class = LiveFileSerializer
    filterset_class = LiveFileFilter

    def get_queryset(self) -> QuerySet[LiveFile]:
        return self.table.live_files.order_by("path")
