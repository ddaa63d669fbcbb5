"""The cost of conflicts."""

from typing import Any

from rest_framework import serializers

from lakeui.api.fields import Int64Field


class PairCostSerializer(serializers.Serializer[Any]):
    """The operations of two conflicting writes, with this transaction's first."""

    current = serializers.CharField(allow_blank=True)
    winner = serializers.CharField(allow_blank=True)
    aborted = serializers.IntegerField()
    reported = serializers.IntegerField()
    resolved = serializers.IntegerField()
    wasted_ms = Int64Field()
    wasted_bytes = Int64Field()


class HourCostSerializer(serializers.Serializer[Any]):
    """The cost of a pair in one full hour."""

    pair = serializers.CharField()
    hour = serializers.DateTimeField()
    wasted_ms = Int64Field()


class ConflictPartitionCostSerializer(serializers.Serializer[Any]):
    """The cost of a pair in one partition; "" if the conflict names none."""

    table_id = serializers.IntegerField(allow_null=True)
    table = serializers.CharField(allow_blank=True)
    partition = serializers.CharField(allow_blank=True)
    current = serializers.CharField(allow_blank=True)
    winner = serializers.CharField(allow_blank=True)
    times = serializers.IntegerField()
    wasted_ms = Int64Field()


class ConflictCostsSerializer(serializers.Serializer[Any]):
    """By pair for all listed conflicts; by hour and by partition for the last 24 hours."""

    total = PairCostSerializer()
    pairs = PairCostSerializer(many=True)
    more_pairs = serializers.IntegerField()
    hours = HourCostSerializer(many=True)
    partitions = ConflictPartitionCostSerializer(many=True)
    partitions_are_cut = serializers.BooleanField()
