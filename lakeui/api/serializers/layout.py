"""How a table's files lie, and what it needs."""

from typing import Any

from rest_framework import serializers

from lakeui.api.fields import Int64Field, ObjectField


class SizeBinSerializer(serializers.Serializer[Any]):
    """Files from `from_bytes` up to, not including, `below_bytes`; null: no end."""

    from_bytes = Int64Field()
    below_bytes = Int64Field(allow_null=True)
    files = serializers.IntegerField()
    size_bytes = Int64Field()


class DensitySerializer(serializers.Serializer[Any]):
    """Files of which that share of rows is marked deleted."""

    share = serializers.CharField(source="name")
    files = serializers.IntegerField()
    marked_rows = Int64Field()


class PartitionSerializer(serializers.Serializer[Any]):
    """The live files of a partition."""

    values = ObjectField()
    files = serializers.IntegerField()
    small_files = serializers.IntegerField(source="small")
    size_bytes = Int64Field()
    rows = Int64Field(allow_null=True)


class UnclusteredSerializer(serializers.Serializer[Any]):
    """Live files written after the last OPTIMIZE that is mirrored."""

    last_optimize = serializers.IntegerField(source="since.version", default=None, allow_null=True)
    files = serializers.IntegerField()
    size_bytes = Int64Field()


class ChoreSerializer(serializers.Serializer[Any]):
    """What a table may need: compact, cluster, purge or vacuum; `of` is 0 where not recorded."""

    name = serializers.CharField()
    is_due = serializers.BooleanField()
    count = Int64Field()
    of = Int64Field()
    unit = serializers.CharField()
    size_bytes = Int64Field(allow_null=True)
    from_moment = serializers.DateTimeField(allow_null=True)
    statement = serializers.CharField()


class LayoutSerializer(serializers.Serializer[Any]):
    """Sums over the live files that are mirrored, the largest 40 partitions, and what is to do."""

    version = serializers.IntegerField(allow_null=True)
    file_count = serializers.IntegerField()
    live_files_mirrored = serializers.IntegerField()
    sizes = SizeBinSerializer(many=True)
    densities = DensitySerializer(many=True)
    partition_count = serializers.IntegerField()
    partition_skew = serializers.FloatField(
        allow_null=True, help_text="The largest partition's bytes over the median's."
    )
    partitions = PartitionSerializer(many=True)
    unclustered = UnclusteredSerializer(allow_null=True)
    chores = ChoreSerializer(many=True)
