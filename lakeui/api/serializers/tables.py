"""A table's columns, keys and constraints, its versions with their files, and its growth."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from lakeui.api.fields import Int64Field, ObjectField, OptionalTextField, RecordedField
from lakeui.api.serializers.request import PageRequestSerializer, RequestSerializer
from lakeui.catalog.models import Commit, CommitFile, TableKey
from lakeui.catalog.row_counts import rows_of
from lakeui.conflicts.commit_timeline import RANGES


class ColumnSerializer(serializers.Serializer[Any]):
    """A column; nested ones follow their parent, one deeper."""

    path = serializers.CharField(help_text="The dotted name.")
    type = serializers.CharField()
    nullable = serializers.BooleanField()
    depth = serializers.IntegerField()
    role = RecordedField(help_text="`partition` or `cluster`.")
    comment = RecordedField()
    default = RecordedField()
    generated = RecordedField()
    identity = RecordedField()
    invariant = RecordedField()
    mapping_id = serializers.IntegerField(allow_null=True)
    physical_name = RecordedField()


class ColumnsRequestSerializer(PageRequestSerializer):
    """Filters of a list of columns."""

    q = OptionalTextField(max_length=255, help_text="A part of the dotted name. Not case-sensitive.")  # fmt: skip


class KeySerializer(serializers.ModelSerializer[TableKey]):
    """A declared key. Nothing enforces it.

    If it references a table hidden from you, the fields about that table are left out.
    """

    references = RecordedField()
    enforced = serializers.SerializerMethodField()
    columns = serializers.ListField(child=serializers.CharField())
    referenced_columns = serializers.ListField(child=serializers.CharField())
    declared_by = serializers.CharField(
        source="declared_by.username", default=None, allow_null=True, read_only=True
    )
    statement = serializers.CharField()

    class Meta:
        model = TableKey
        fields = [
            "id",
            "kind",
            "name",
            "columns",
            "references",
            "referenced_table_id",
            "referenced_columns",
            "enforced",
            "statement",
            "declared_at",
            "declared_by",
        ]

    def get_enforced(self, _key: TableKey) -> bool:
        return False


class KeyRequestSerializer(RequestSerializer):
    """A key as `sql`, or by its parts."""

    sql = serializers.CharField(
        max_length=4000,
        required=False,
        help_text="ALTER TABLE t ADD CONSTRAINT t_pk PRIMARY KEY (id) NOT ENFORCED",
    )
    kind = serializers.ChoiceField(choices=TableKey.Kind.values, required=False)
    name = OptionalTextField(max_length=255)
    columns = serializers.ListField(child=serializers.CharField(max_length=255), required=False)
    references = OptionalTextField(max_length=255)
    referenced_columns = serializers.ListField(
        child=serializers.CharField(max_length=255), required=False, default=list
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("sql" in attrs) == ("kind" in attrs):
            fault = "Send either sql, or kind with columns."
            raise serializers.ValidationError({"sql": [fault]})
        if "kind" in attrs and not attrs.get("columns"):
            raise serializers.ValidationError({"columns": ["A key needs columns."]})
        return attrs


class CheckConstraintSerializer(serializers.Serializer[Any]):
    """A condition enforced by writers."""

    name = serializers.CharField()
    condition = serializers.CharField()


class LineSerializer(serializers.Serializer[Any]):
    """A line of a comparison: + added, - removed, … omitted lines."""

    sign = serializers.CharField()
    text = serializers.CharField()


class DefinitionSectionSerializer(serializers.Serializer[Any]):
    """Schema, properties or layout; unchanged lines have a space for a sign.

    Of more than 200 lines those near a change are shown, up to 400 changed ones.
    """

    name = serializers.CharField()
    changed = serializers.BooleanField()
    lines = LineSerializer(many=True, source="shown")


class DefinitionChangeSerializer(serializers.Serializer[Any]):
    """A version that changed the definition. `sections` is null if the changes are unknown."""

    version = serializers.IntegerField(source="commit.version")
    committed_at = serializers.DateTimeField(source="commit.committed_at", allow_null=True)
    operation = RecordedField(source="commit.operation")
    user_name = RecordedField(source="commit.user_name")
    protocol = RecordedField()
    gap = RecordedField(help_text="Why the changes are not known.")
    effects = serializers.ListField(child=serializers.CharField())
    sections = DefinitionSectionSerializer(many=True, allow_null=True)


class TableSchemaSerializer(serializers.Serializer[Any]):
    """Everything that defines a table's rows, and its latest changes."""

    version = serializers.IntegerField(allow_null=True)
    column_mapping = serializers.CharField(help_text="`none`, `name` or `id`.")
    columns = ColumnSerializer(
        many=True, help_text="The first 500 columns. `columns/` lists all in pages."
    )
    column_count = serializers.IntegerField(help_text="Nested columns included.")
    constraints = CheckConstraintSerializer(many=True)
    keys = KeySerializer(many=True)
    changes = DefinitionChangeSerializer(many=True)


class OperationCountSerializer(serializers.Serializer[Any]):
    """The number of versions between the two with this operation."""

    operation = RecordedField()
    versions = serializers.IntegerField()


class ChangedFileSerializer(serializers.Serializer[Any]):
    """A file after the last version that touched it."""

    path = serializers.CharField()
    size_bytes = Int64Field(allow_null=True)
    row_count = Int64Field(allow_null=True)
    deleted_row_count = Int64Field()


class FileSumsSerializer(serializers.Serializer[Any]):
    """The sums over all of them, and the largest 20."""

    count = serializers.IntegerField()
    size_bytes = Int64Field()
    row_count = Int64Field(allow_null=True)
    files = ChangedFileSerializer(many=True)


class FileDifferenceSerializer(serializers.Serializer[Any]):
    """Files added, removed, or with another deletion vector; `passing` came and went in between."""

    is_whole = serializers.BooleanField(
        help_text="false: the version changed more files than are mirrored or compared "
        "individually."
    )
    came = FileSumsSerializer()
    gone = FileSumsSerializer()
    changed = FileSumsSerializer()
    passing = serializers.IntegerField()


class DifferenceSerializer(serializers.Serializer[Any]):
    """The changes after `older`, up to `newer`. `sections` is null if they are unknown."""

    older = serializers.IntegerField()
    newer = serializers.IntegerField()
    version_count = serializers.IntegerField()
    missing = serializers.IntegerField(help_text="Versions in between that are not mirrored.")
    files_added = serializers.IntegerField()
    files_removed = serializers.IntegerField()
    bytes_added = Int64Field()
    bytes_removed = Int64Field()
    bytes_written = Int64Field()
    rows_added = Int64Field(allow_null=True, help_text="null: not every version recorded it.")
    rows_deleted_by_vectors = Int64Field()
    operations = serializers.SerializerMethodField()
    data_versions = serializers.IntegerField(help_text="Versions that changed rows.")
    protocol_versions = serializers.ListField(child=serializers.IntegerField())
    metadata_versions = serializers.ListField(child=serializers.IntegerField())
    effects = serializers.ListField(
        child=serializers.CharField(), help_text="What it means for readers and writers."
    )
    files = FileDifferenceSerializer()
    sections = DefinitionSectionSerializer(many=True, allow_null=True)

    @extend_schema_field(OperationCountSerializer(many=True))
    def get_operations(self, definition: Any) -> list[dict[str, Any]]:
        rows = ({"operation": name, "versions": count} for name, count in definition.operations)
        return list(OperationCountSerializer(rows, many=True).data)


class TimelineRequestSerializer(serializers.Serializer[Any]):
    """The range up to now; a day by default."""

    range = serializers.ChoiceField(choices=list(RANGES), required=False, default="24h")


class OperationCommitsSerializer(serializers.Serializer[Any]):
    """The number of commits with this operation."""

    operation = RecordedField()
    commits = serializers.IntegerField()


class TimeBucketSerializer(serializers.Serializer[Any]):
    """Commits from `start` on, for as long as a bucket is; empty ones are left out."""

    start = serializers.DateTimeField()
    operations = OperationCommitsSerializer(many=True)
    aborted = serializers.IntegerField(help_text="Aborted attempts of this installation's jobs.")


class TimelineSerializer(serializers.Serializer[Any]):
    """Commits, aborted attempts and resolved conflicts of a span, by bucket of time."""

    range = serializers.CharField(source="name")
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    bucket_seconds = serializers.SerializerMethodField()
    commit_count = serializers.IntegerField()
    resolved = serializers.IntegerField()
    aborted = serializers.IntegerField()
    beaten = serializers.IntegerField(help_text="Versions that aborted other writes.")
    operations = OperationCommitsSerializer(many=True)
    buckets = TimeBucketSerializer(many=True)

    def get_bucket_seconds(self, timeline: Any) -> int:
        return int(timeline.width.total_seconds())


class GrowthPointSerializer(serializers.Serializer[Any]):
    """The table after a version."""

    version = serializers.IntegerField()
    committed_at = serializers.DateTimeField(allow_null=True)
    size_bytes = Int64Field()
    file_count = serializers.IntegerField()


class GrowthSerializer(serializers.Serializer[Any]):
    """Oldest first, at most 60 points over the latest 1,000 versions without a gap."""

    version_count = serializers.IntegerField()
    is_estimated = serializers.BooleanField(
        help_text="A commit removed files without recording their size, so the sizes before it are "
        "too small."
    )
    points = GrowthPointSerializer(many=True)


class OverlappingWriteSerializer(serializers.Serializer[Any]):
    """A version's conflict, from the other side."""

    conflict_id = serializers.IntegerField(source="pk")
    kind = serializers.CharField()
    operation = RecordedField(source="current_operation")
    user_name = RecordedField(source="current_user_name")
    read_version = serializers.IntegerField(allow_null=True)
    winning_version = serializers.IntegerField(allow_null=True)
    winner_operation = RecordedField()
    row_count = Int64Field(allow_null=True)
    wasted_ms = serializers.IntegerField()


class StoppedStreamSerializer(serializers.Serializer[Any]):
    """A stream that ran as a job here and stopped at a version."""

    job_id = serializers.UUIDField(source="pk")
    stream_name = serializers.CharField(source="parameters.stream_name", default="")
    target = serializers.CharField(source="table.name")
    stopped_at = serializers.DateTimeField(source="finished_at")


class VersionEffectsSerializer(serializers.Serializer[Any]):
    """A version's effects on others; at most 20 of each kind, with the full counts."""

    aborted_count = serializers.IntegerField()
    aborted = OverlappingWriteSerializer(many=True, help_text="Attempts that it aborted.")
    passed_count = serializers.IntegerField()
    passed = OverlappingWriteSerializer(
        many=True, help_text="Writes that overlapped with it and committed."
    )
    resolved_count = serializers.IntegerField()
    resolved = OverlappingWriteSerializer(
        many=True, help_text="Its own conflicts that were resolved at row level."
    )


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
        help_text="Only data files that this version wrote, without restated or restored files."
    )
    rows_added = Int64Field(allow_null=True)
    rows_removed = Int64Field(
        allow_null=True,
        help_text="Live rows of the removed files. null: not recorded for every file.",
    )
    rows_deleted_by_vectors = Int64Field()
    rows = serializers.SerializerMethodField()
    aborted_by_it = serializers.IntegerField(
        default=0, help_text="Recorded attempts that this version aborted."
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
            "files_added": {"help_text": "Its add actions, including restated files."},
            "files_removed": {"help_text": "Its remove actions, including restated files."},
            "files_restated": {
                "help_text": "The same file in both versions, with a different deletion vector or "
                "without one."
            },
        }


class VersionDetailSerializer(VersionSerializer):
    """One commit with its writer's own fields, and its raw lines up to a cap."""

    operation_parameters = ObjectField()
    operation_metrics = ObjectField()
    user_metadata = RecordedField()
    change = DefinitionChangeSerializer(
        allow_null=True, help_text="Its changes to the schema, properties, layout and protocol."
    )
    effects = VersionEffectsSerializer()
    stopped_streams = StoppedStreamSerializer(many=True)
    job_id = serializers.UUIDField(
        allow_null=True, help_text="The job of this installation that committed it."
    )
    raw_bytes = Int64Field(
        help_text="The size of the whole commit. `raw` has fewer bytes if it was truncated."
    )

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
