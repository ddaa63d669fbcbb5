"""Conflicts: aborted, resolved and reported."""

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_serializer
from kombu.exceptions import OperationalError
from rest_framework import serializers, status
from rest_framework.exceptions import NotFound
from rest_framework.generics import GenericAPIView, ListAPIView, RetrieveAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from engine.conflict_facts import Rule
from engine.errors import StorageError
from lakeui.api.fields import Int64Field, ObjectField, RecordedChoiceField, RecordedField
from lakeui.api.of_table import OfTable
from lakeui.api.serializers.conflict_costs import ConflictCostsSerializer
from lakeui.api.serializers.conflict_sides import (
    AdviceSerializer,
    ConflictRowsSerializer,
    SideSerializer,
    SimilarConflictSerializer,
)
from lakeui.catalog.named_tables import Reader
from lakeui.conflicts.conflict_detail.advice import advice
from lakeui.conflicts.conflict_detail.both_sides import both_sides
from lakeui.conflicts.conflict_detail.later_commit import Landed, landed_later
from lakeui.conflicts.conflict_detail.row_values import ask_for_rows
from lakeui.conflicts.conflict_detail.similar import neighbours, similar_conflicts
from lakeui.conflicts.costs import cost_by_hour, cost_by_pair
from lakeui.conflicts.filters import ConflictFilter, to_list, visible_conflicts
from lakeui.conflicts.models import Conflict, ConflictRows
from lakeui.monitoring.partition_costs import costs_by_partition


class ConflictSerializer(serializers.ModelSerializer[Conflict]):
    """A conflict in one row: who lost or gave way to whom, by which rule, at what cost."""

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
    row_count = Int64Field(allow_null=True)
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
    row_level = RecordedField(help_text="Why rows could not tell the two apart, where asked.")

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


class LandedLaterSerializer(serializers.Serializer[Landed]):
    """What the write that lost became after all: by its own job, or by one that ran it again.

    `job_id` is null where a pipeline's own attempt did it.
    """

    version = serializers.IntegerField()
    job_id = serializers.UUIDField(allow_null=True)
    is_same_job = serializers.BooleanField()


@extend_schema_serializer(deprecate_fields=["alike", "alike_is_capped"])
class ConflictDetailSerializer(ConflictSerializer):
    """A conflict with both sides, how to avoid it, and conflicts like it.

    `facts` is what the engine recorded: files and rows that both touched, its remedies, and under
    `decision` the verdict of every check on every winner, both sides' files, and the counts and
    positions of the rows that were compared.
    """

    facts = ObjectField()
    current = SideSerializer(source="sides.current")
    winner = SideSerializer(source="sides.winner")
    advice = AdviceSerializer(many=True)
    similar = SimilarConflictSerializer(many=True, source="similar.conflicts")
    similar_is_capped = serializers.BooleanField(source="similar.is_capped")
    alike = SimilarConflictSerializer(
        many=True, source="similar.conflicts", help_text="The old name of `similar`."
    )
    alike_is_capped = serializers.BooleanField(
        source="similar.is_capped", help_text="The old name of `similar_is_capped`."
    )
    landed = LandedLaterSerializer(allow_null=True)
    previous_id = serializers.IntegerField(source="neighbours.previous", allow_null=True)
    next_id = serializers.IntegerField(source="neighbours.next", allow_null=True)

    class Meta(ConflictSerializer.Meta):
        fields = [
            *ConflictSerializer.Meta.fields,
            "order_column",
            "shared_low",
            "shared_high",
            "facts",
            "current",
            "winner",
            "advice",
            "similar",
            "similar_is_capped",
            "alike",
            "alike_is_capped",
            "landed",
            "previous_id",
            "next_id",
        ]


MAX_PARTITIONS, MAX_PAIRS = 200, 500


def conflicts_to_list(conflicts: QuerySet[Conflict]) -> QuerySet[Conflict]:
    """Newest first, with what a row shows and without the long facts."""
    return to_list(conflicts).order_by("-occurred_at")


class ConflictList(ListAPIView[Conflict]):
    """The conflicts on tables you may see, newest first."""

    queryset = Conflict.objects.none()
    serializer_class = ConflictSerializer
    filterset_class = ConflictFilter

    def get_queryset(self) -> QuerySet[Conflict]:
        return conflicts_to_list(visible_conflicts(self.request.user))


class ConflictCosts(GenericAPIView[Conflict]):
    """What the conflicts cost that a list of them holds: by pair, by hour, by partition."""

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


class TableConflictList(OfTable, ListAPIView[Conflict]):
    """The conflicts on one table, newest first."""

    queryset = Conflict.objects.none()
    serializer_class = ConflictSerializer
    filterset_class = ConflictFilter

    def get_queryset(self) -> QuerySet[Conflict]:
        return conflicts_to_list(self.table.conflicts.all())


class ConflictDetail(RetrieveAPIView[Conflict]):
    """One conflict with both sides, the files they share and the ranked remedies."""

    queryset = Conflict.objects.none()
    serializer_class = ConflictDetailSerializer
    lookup_url_kwarg = "conflict_id"

    def get_queryset(self) -> QuerySet[Conflict]:
        return visible_conflicts(self.request.user).select_related(
            "table", "job", "transaction__pipeline"
        )

    def get_object(self) -> Any:  # a conflict with what is told beside it
        conflict, visible = super().get_object(), visible_conflicts(self.request.user)
        sides = both_sides(conflict, Reader(self.request.user))
        like = similar_conflicts(visible, conflict)
        vars(conflict).update(
            sides=sides,
            similar=like,
            advice=advice(conflict, sides, like),
            neighbours=neighbours(visible, conflict),
            landed=landed_later(conflict),
        )
        return conflict


class ConflictRowValues(GenericAPIView[ConflictRows]):
    """The rows that both sides touched, as a worker read them; kept for an hour."""

    queryset = ConflictRows.objects.none()
    serializer_class = ConflictRowsSerializer
    pagination_class = None
    changes_nothing = True

    def get(self, request: Request, conflict_id: int) -> Response:  # noqa: ARG002 - from the address
        """404 where nobody asked within the hour: POST asks a worker to read them."""
        conflict_rows = ConflictRows.objects.filter(conflict=self._conflict()).first()
        if conflict_rows is None:
            detail = (
                "Nobody requested these rows within the last hour. POST here to have them read."
            )
            raise NotFound(detail)
        return Response(ConflictRowsSerializer(conflict_rows).data)

    @extend_schema(request=None, responses={202: ConflictRowsSerializer})
    def post(self, request: Request, conflict_id: int) -> Response:  # noqa: ARG002
        """Has a worker read the rows; nothing in the table changes. 404 without recorded positions."""
        try:
            rows = ask_for_rows(self._conflict())
        except (OperationalError, OSError) as error:
            msg = "The broker cannot be reached, so no worker was asked."
            raise StorageError(msg, "Try again once it is back.") from error
        if rows is None:
            detail = "No positions of rows are recorded of this conflict."
            raise NotFound(detail)
        return Response(ConflictRowsSerializer(rows).data, status.HTTP_202_ACCEPTED)

    def _conflict(self) -> Conflict:
        visible = visible_conflicts(self.request.user).select_related("table")
        return get_object_or_404(visible, pk=self.kwargs["conflict_id"])
