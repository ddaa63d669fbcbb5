"""Versions of a table and the files they changed."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from lakeui.api.fields import Int64Field, ObjectField, RecordedField
from lakeui.api.serializers.definitions import DefinitionChangeSerializer
from lakeui.api.serializers.history import StoppedStreamSerializer, VersionEffectsSerializer
from lakeui.catalog.models import Commit, CommitFile
from lakeui.catalog.row_counts import rows_of


class RowCountsSerializer(serializers.Serializer[Any]):
    """Row counts by the writer or by files' statistics. null: unknown; all 0: no row changed.

    For an overwrite, `deleted` are the replaced rows.
    """

    inserted = Int64Field(allow_null=True)
    updated = Int64Field(allow_null=True)
    deleted = Int64Field(allow_null=True)


class VersionSerializer(serializers.ModelSerializer[Commit]):
    """One commit in one row. null: its writer did not record it."""

    operation = RecordedField()
    predicate = RecordedField()
    isolation_level = RecordedField()
    user_name = RecordedField()
    engine_info = RecordedField()
    txn_id = RecordedField()
    bytes_added = Int64Field()
    bytes_removed = Int64Field()
    bytes_written = Int64Field(
        help_text="Of data files that this version wrote: not of those restated or brought back."
    )
    rows_added = Int64Field(allow_null=True)
    rows_removed = Int64Field(
        allow_null=True, help_text="Live rows of the files that left. null: not recorded of each."
    )
    rows_deleted_by_vectors = Int64Field()
    rows = serializers.SerializerMethodField()
    aborted_by_it = serializers.IntegerField(
        default=0, help_text="Attempts on record that this version aborted."
    )
    resolved = serializers.IntegerField(
        default=0, help_text="Conflicts that it resolved while it committed."
    )

    @extend_schema_field(RowCountsSerializer)
    def get_rows(self, commit: Commit) -> dict[str, Any]:
        return dict(RowCountsSerializer(rows_of(commit)).data)

    class Meta:
        model = Commit
        fields = [
            "version",
            "committed_at",
            "has_in_commit_timestamp",
            "operation",
            "predicate",
            "read_version",
            "isolation_level",
            "is_blind_append",
            "user_name",
            "engine_info",
            "txn_id",
            "files_added",
            "files_removed",
            "bytes_added",
            "files_restated",
            "bytes_removed",
            "bytes_written",
            "rows_added",
            "rows_removed",
            "vectors_added",
            "rows_deleted_by_vectors",
            "changes_data",
            "changes_metadata",
            "changes_protocol",
            "rows",
            "aborted_by_it",
            "resolved",
        ]
        extra_kwargs = {
            "files_added": {"help_text": "Its add actions, those of restated files among them."},
            "files_removed": {"help_text": "Its remove actions, as above."},
            "files_restated": {
                "help_text": "The same file in both, with another deletion vector or none."
            },
        }


class VersionDetailSerializer(VersionSerializer):
    """One commit with its writer's own fields, and its raw lines up to a cap."""

    operation_parameters = ObjectField()
    operation_metrics = ObjectField()
    user_metadata = RecordedField()
    change = DefinitionChangeSerializer(
        allow_null=True, help_text="What it changed of schema, properties, layout, protocol."
    )
    effects = VersionEffectsSerializer()
    stopped_streams = StoppedStreamSerializer(many=True)
    job_id = serializers.UUIDField(
        allow_null=True, help_text="The job of this installation that committed it."
    )
    raw_bytes = Int64Field(help_text="The commit's true size: more than `raw` holds if it was cut.")

    class Meta(VersionSerializer.Meta):
        fields = [
            *VersionSerializer.Meta.fields,
            "operation_parameters",
            "operation_metrics",
            "user_metadata",
            "change",
            "effects",
            "stopped_streams",
            "job_id",
            "files_mirrored",
            "raw",
            "raw_bytes",
        ]


class VersionFileSerializer(serializers.ModelSerializer[CommitFile]):
    """A file added or removed by a version."""

    size_bytes = Int64Field(allow_null=True)
    row_count = Int64Field(allow_null=True)
    deleted_row_count = Int64Field()
    partition_values = ObjectField()

    class Meta:
        model = CommitFile
        fields = [
            "action",
            "path",
            "partition_values",
            "size_bytes",
            "row_count",
            "deleted_row_count",
            "data_change",
        ]
