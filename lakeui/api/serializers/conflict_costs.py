"""What conflicts cost."""

from typing import Any

from rest_framework import serializers

from lakeui.api.fields import Int64Field


class PairCostSerializer(serializers.Serializer[Any]):
    """The operations of two conflicting writes, that of this transaction first."""

    current = serializers.CharField(allow_blank=True)
    winner = serializers.CharField(allow_blank=True)
    aborted = serializers.IntegerField()
    reported = serializers.IntegerField()
    resolved = serializers.IntegerField()
    wasted_ms = Int64Field()
    wasted_bytes = Int64Field()


class HourCostSerializer(serializers.Serializer[Any]):
    """What a pair wasted in one full hour."""

    pair = serializers.CharField()
    hour = serializers.DateTimeField()
    wasted_ms = Int64Field()


class ConflictPartitionCostSerializer(serializers.Serializer[Any]):
    """What a pair wasted in one partition; "" where the conflict names none."""

    table_id = serializers.IntegerField(allow_null=True)
    table = serializers.CharField(allow_blank=True)
    partition = serializers.CharField(allow_blank=True)
    current = serializers.CharField(allow_blank=True)
    winner = serializers.CharField(allow_blank=True)
    times = serializers.IntegerField()
    wasted_ms = Int64Field()


class ConflictCostsSerializer(serializers.Serializer[Any]):
    """By pair of all that are listed; by hour and by partition of the last 24 hours."""

    total = PairCostSerializer()
    pairs = PairCostSerializer(many=True)
    more_pairs = serializers.IntegerField()
    hours = HourCostSerializer(many=True)
    partitions = ConflictPartitionCostSerializer(many=True)
    partitions_are_cut = serializers.BooleanField()
