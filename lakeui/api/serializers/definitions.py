"""A table's columns, keys and constraints, and their changes between versions."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from lakeui.api.fields import Int64Field, RecordedField
from lakeui.api.serializers.request import RequestSerializer
from lakeui.catalog.models import TableKey


class ColumnSerializer(serializers.Serializer[Any]):
    """A column; nested ones follow their parent, one deeper."""

    path = serializers.CharField(help_text="The dotted name.")
    type = serializers.CharField()
    nullable = serializers.BooleanField()
    depth = serializers.IntegerField()
    role = RecordedField(help_text="partition or cluster.")
    comment = RecordedField()
    default = RecordedField()
    generated = RecordedField()
    identity = RecordedField()
    invariant = RecordedField()
    mapping_id = serializers.IntegerField(allow_null=True)
    physical_name = RecordedField()


class ColumnsRequestSerializer(RequestSerializer):
    """Filters of a list of columns."""

    q = serializers.CharField(
        max_length=255, required=False, default="", allow_blank=True,
        help_text="A part of the dotted name, in any case of letters.",
    )  # fmt: skip
    page_size = serializers.CharField(required=False)
    page_token = serializers.CharField(required=False)


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
    name = serializers.CharField(max_length=255, required=False, default="", allow_blank=True)
    columns = serializers.ListField(child=serializers.CharField(max_length=255), required=False)
    references = serializers.CharField(max_length=255, required=False, default="", allow_blank=True)
    referenced_columns = serializers.ListField(
        child=serializers.CharField(max_length=255), required=False, default=list
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("sql" in attrs) == ("kind" in attrs):
            fault = "Give either sql, or kind with columns."
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
    gap = RecordedField(help_text="Why what changed is not known.")
    effects = serializers.ListField(child=serializers.CharField())
    sections = DefinitionSectionSerializer(many=True, allow_null=True)


class TableSchemaSerializer(serializers.Serializer[Any]):
    """Everything that defines a table's rows, and its latest changes."""

    version = serializers.IntegerField(allow_null=True)
    column_mapping = serializers.CharField(help_text="none, name or id.")
    columns = ColumnSerializer(many=True, help_text="The first 500: `columns/` has all in pages.")
    column_count = serializers.IntegerField(help_text="Nested ones counted too.")
    constraints = CheckConstraintSerializer(many=True)
    keys = KeySerializer(many=True)
    changes = DefinitionChangeSerializer(many=True)


class OperationCountSerializer(serializers.Serializer[Any]):
    """How many of the versions between did this."""

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
        help_text="false: more files were touched than are mirrored or compared one by one."
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
    missing = serializers.IntegerField(help_text="Versions between that are not mirrored.")
    files_added = serializers.IntegerField()
    files_removed = serializers.IntegerField()
    bytes_added = Int64Field()
    bytes_removed = Int64Field()
    bytes_written = Int64Field()
    rows_added = Int64Field(allow_null=True, help_text="null: not recorded by every version.")
    rows_deleted_by_vectors = Int64Field()
    operations = serializers.SerializerMethodField()
    data_versions = serializers.IntegerField(help_text="Versions that changed rows.")
    protocol_versions = serializers.ListField(child=serializers.IntegerField())
    metadata_versions = serializers.ListField(child=serializers.IntegerField())
    effects = serializers.ListField(
        child=serializers.CharField(), help_text="What it means for those who read and write."
    )
    files = FileDifferenceSerializer()
    sections = DefinitionSectionSerializer(many=True, allow_null=True)

    @extend_schema_field(OperationCountSerializer(many=True))
    def get_operations(self, definition: Any) -> list[dict[str, Any]]:
        rows = ({"operation": name, "versions": count} for name, count in definition.operations)
        return list(OperationCountSerializer(rows, many=True).data)
