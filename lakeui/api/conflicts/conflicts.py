"""Conflicts: aborted, resolved and reported."""

from functools import cached_property
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from rest_framework import serializers
from rest_framework.generics import GenericAPIView, ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from engine.conflict_facts import Rule
from lakeui.api.fields import Int64Field, RecordedChoiceField, RecordedField
from lakeui.api.serializers.conflict_costs import ConflictCostsSerializer
from lakeui.api.table_views import TableScopedView
from lakeui.catalog.command_tables import Reader
from lakeui.conflicts.costs import cost_by_hour, cost_by_pair
from lakeui.conflicts.filters import ConflictFilter, prepare_list, visible_conflicts
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.redaction import redact_conflict
from lakeui.monitoring.partition_costs import costs_by_partition


class ConflictSerializer(serializers.ModelSerializer[Conflict]):
    """A conflict in one row: the aborted or rebased write, the rule, the cost."""

    table = serializers.CharField(
        source="table.name", default=None, allow_null=True, read_only=True
    )
    pipeline = serializers.CharField(
        source="transaction.pipeline.name",
        default=None,
        allow_null=True,
        read_only=True,
        help_text="The program elsewhere that reported it.",
    )
    row_count = Int64Field(allow_null=True, help_text="Rows that both sides touched.")
    wasted_ms = Int64Field()
    wasted_bytes = Int64Field()
    exception = RecordedField()
    code = RecordedField()
    subclass = RecordedField()
    rule = RecordedChoiceField(list(Rule))
    isolation_level = RecordedField()
    current_predicate = RecordedField()
    current_user_name = RecordedField()
    winner_user_name = RecordedField()
    row_level = RecordedField(
        help_text="Why rows could not resolve the conflict, where they were compared."
    )

    @cached_property
    def reader(self) -> Reader:
        """The caller; one for all rows of a list."""
        return Reader(self.context["request"].user)

    def to_representation(self, instance: Conflict) -> dict[str, Any]:
        return dict(super().to_representation(redact_conflict(instance, self.reader)))

    class Meta:
        model = Conflict
        fields = [
            "id",
            "table_id",
            "table",
            "job_id",
            "pipeline",
            "attempt",
            "kind",
            "occurred_at",
            "exception",
            "code",
            "subclass",
            "rule",
            "message",
            "read_version",
            "attempted_version",
            "winning_version",
            "current_operation",
            "current_predicate",
            "current_user_name",
            "isolation_level",
            "winner_operation",
            "winner_user_name",
            "winner_at",
            "partitions",
            "file_count",
            "row_count",
            "row_level",
            "can_retry",
            "wasted_ms",
            "wasted_bytes",
        ]


MAX_PARTITIONS, MAX_PAIRS = 200, 500


def conflicts_to_list(conflicts: QuerySet[Conflict]) -> QuerySet[Conflict]:
    """Prepare conflicts for a list, latest first and without the long facts."""
    return prepare_list(conflicts).order_by("-occurred_at")


class ConflictList(ListAPIView[Conflict]):
    """The conflicts on tables you may see, latest first."""

    queryset = Conflict.objects.none()
    serializer_class = ConflictSerializer
    filterset_class = ConflictFilter

    def get_queryset(self) -> QuerySet[Conflict]:
        return conflicts_to_list(visible_conflicts(self.request.user))


class ConflictCosts(GenericAPIView[Conflict]):
    """The cost of the listed conflicts: by pair, by hour, by partition."""

    queryset = Conflict.objects.none()
    serializer_class = ConflictCostsSerializer
    filterset_class = ConflictFilter
    pagination_class = None

    def get_queryset(self) -> QuerySet[Conflict]:
        return visible_conflicts(self.request.user)

    def get(self, request: Request) -> Response:  # noqa: ARG002 - narrowed by its query
        conflicts, now = self.filter_queryset(self.get_queryset()), timezone.now()
        costs, partitions = cost_by_pair(conflicts), costs_by_partition(conflicts, now)
        hours = [
            {"pair": pair, "hour": hour, "wasted_ms": ms}
            for (pair, hour), ms in sorted(cost_by_hour(conflicts, now).items())
        ]
        body = {
            "total": costs.total,
            "pairs": costs.pairs[:MAX_PAIRS],
            "more_pairs": max(0, len(costs.pairs) - MAX_PAIRS),
            "hours": hours,
            "partitions": partitions.rows[:MAX_PARTITIONS],
            "partitions_are_cut": partitions.is_cut or len(partitions.rows) > MAX_PARTITIONS,
        }
        return Response(ConflictCostsSerializer(body).data)


class TableConflictList(TableScopedView, ListAPIView[Conflict]):
    """The conflicts on one table, latest first."""

    queryset = Conflict.objects.none()
    serializer_class = ConflictSerializer
    filterset_class = ConflictFilter

    def get_queryset(self) -> QuerySet[Conflict]:
        return conflicts_to_list(self.table.conflicts.all())
