"""Tables and their files, as the mirror has them."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from lakeui.api.fields import Int64Field, ObjectField, RecordedField
from lakeui.api.serializers.request import RequestSerializer
from lakeui.catalog.health import Health
from lakeui.catalog.models import LiveFile, Table


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


class TableDetailSerializer(TableSerializer):
    """Everything the mirror knows of a table, but its versions and files."""

    schema = ObjectField(help_text="Delta's schema JSON.")
    properties = ObjectField()
    protocol = serializers.SerializerMethodField()
    deleted_row_count = Int64Field()
    mirror_error = RecordedField()
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
            "properties",
            "vectored_file_count",
            "deleted_row_count",
            "live_files_mirrored",
            "mirror_error",
            "mirror_failed_at",
            "mirror_tried_at",
            "mirror_tries",
        ]

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
        if sum(each in attrs for each in ("uri", "create", "clone")) != 1:
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
