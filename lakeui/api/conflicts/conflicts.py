"""Conflicts: aborted, resolved and reported, their cost, and the six exceptions in words.

A single conflict has both sides, how to avoid it, conflicts like it, and whether the write landed
later. A worker reads the rows that both sides touched.
"""

from functools import cached_property
from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from kombu.exceptions import OperationalError
from rest_framework import serializers, status
from rest_framework.exceptions import NotFound
from rest_framework.generics import GenericAPIView, ListAPIView, RetrieveAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from engine.conflict_facts import Rule
from engine.conflicts.explain.exceptions import GUIDES, SUBCLASS_MEANINGS, TRANSACTIONS_ELSEWHERE
from engine.errors import StorageError
from lakeui.api.fields import Int64Field, ObjectField, RecordedChoiceField, RecordedField
from lakeui.api.listing import refuse_all, refuse_unknown
from lakeui.api.serializers.conflicts import (
    AdviceSerializer,
    ConflictCostsSerializer,
    ConflictRowsSerializer,
    SideSerializer,
    SimilarConflictSerializer,
)
from lakeui.api.table_views import TableScopedView
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.hours import RANGES
from lakeui.conflicts.conflict_detail.advice import advice
from lakeui.conflicts.conflict_detail.rerun import LaterCommit, find_later_commit
from lakeui.conflicts.conflict_detail.sides import (
    ask_for_rows,
    both_sides,
    neighbors,
    similar_conflicts,
)
from lakeui.conflicts.costs import cost_by_column, cost_by_pair
from lakeui.conflicts.filters import (
    ConflictFilter,
    prepare_list,
    redact_conflict,
    visible_conflicts,
)
from lakeui.conflicts.models import Conflict, ConflictRows
from lakeui.monitoring.recent_conflicts import costs_by_partition
from lakeui.task_names import NO_WORKER_ASKED

MAX_PARTITIONS, MAX_PAIRS = 200, 500


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
        help_text="The external program that reported it.",
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
        help_text="Why the conflict could not be resolved at row level, if rows were compared."
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
    """The cost of the listed conflicts: by pair, by partition, and by hour, or by day in UTC for `range` 7d and 30d."""

    queryset = Conflict.objects.none()
    serializer_class = ConflictCostsSerializer
    filterset_class = ConflictFilter
    pagination_class = None

    def get_queryset(self) -> QuerySet[Conflict]:
        return visible_conflicts(self.request.user)

    def get(self, request: Request) -> Response:
        conflicts, now = self.filter_queryset(self.get_queryset()), timezone.now()
        time_range = RANGES.get(request.query_params.get("range", ""), RANGES["24h"])
        partitions = costs_by_partition(conflicts, time_range.start(now))
        costs = cost_by_pair(conflicts)
        hours = [
            {"pair": pair, "hour": hour, "wasted_ms": ms}
            for (pair, hour), ms in sorted(cost_by_column(conflicts, now, time_range).items())
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


class LandedLaterSerializer(serializers.Serializer[LaterCommit]):
    """The later commit of an aborted write: by its own job, or by a job that ran it again.

    `job_id` is null for a pipeline's own attempt.
    """

    version = serializers.IntegerField()
    job_id = serializers.UUIDField(allow_null=True)
    is_same_job = serializers.BooleanField()


class ConflictDetailSerializer(ConflictSerializer):
    """A conflict with both sides, how to avoid it, and conflicts like it.

    `facts` is the engine's record: files and rows touched by both, its remedies, and under
    `decision` the verdict of every check on every winning commit, both sides' files, and the counts
    and positions of the compared rows.
    """

    facts = ObjectField()
    current = SideSerializer(source="sides.current")
    winner = SideSerializer(source="sides.winner")
    advice = AdviceSerializer(many=True)
    similar = SimilarConflictSerializer(many=True, source="similar.conflicts")
    similar_is_capped = serializers.BooleanField(source="similar.is_capped")
    landed = LandedLaterSerializer(allow_null=True)
    previous_id = serializers.IntegerField(source="neighbors.previous", allow_null=True)
    next_id = serializers.IntegerField(source="neighbors.next", allow_null=True)

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
            "landed",
            "previous_id",
            "next_id",
        ]


class ConflictDetail(RetrieveAPIView[Conflict]):
    """One conflict with both sides, the files they share and the ranked remedies."""

    queryset = Conflict.objects.none()
    serializer_class = ConflictDetailSerializer
    lookup_url_kwarg = "conflict_id"

    def get_queryset(self) -> QuerySet[Conflict]:
        return visible_conflicts(self.request.user).select_related(
            "table", "job", "transaction__pipeline"
        )

    def get_object(self) -> Any:  # a conflict with related facts
        conflict, visible = super().get_object(), visible_conflicts(self.request.user)
        sides = both_sides(conflict, Reader(self.request.user))
        like = similar_conflicts(visible, conflict)
        vars(conflict).update(
            sides=sides,
            similar=like,
            advice=advice(conflict, sides, like),
            neighbors=neighbors(visible, conflict),
            landed=find_later_commit(conflict),
        )
        return conflict


class ConflictRowValues(GenericAPIView[ConflictRows]):
    """The rows touched by both sides, as read by a worker; kept for an hour."""

    queryset = ConflictRows.objects.none()
    serializer_class = ConflictRowsSerializer
    pagination_class = None
    changes_nothing = True

    def get(self, request: Request, conflict_id: int) -> Response:  # noqa: ARG002 - from the address
        """Return the rows; 404 without a request within the hour: POST has a worker read them."""
        conflict_rows = ConflictRows.objects.filter(conflict=self._conflict()).first()
        if conflict_rows is None:
            detail = (
                "Nobody requested these rows within the last hour. Send a POST request to "
                "this URL to read them."
            )
            raise NotFound(detail)
        return Response(ConflictRowsSerializer(conflict_rows).data)

    @extend_schema(request=None, responses={202: ConflictRowsSerializer})
    def post(self, request: Request, conflict_id: int) -> Response:  # noqa: ARG002
        """Has a worker read the rows; nothing in the table changes. 404 without recorded positions."""
        conflict = self._conflict()
        refuse_all(request)
        try:
            rows = ask_for_rows(conflict, Reader(request.user).account)
        except (OperationalError, OSError) as error:
            raise StorageError(NO_WORKER_ASKED, "Try again later.") from error
        if rows is None:
            detail = "This conflict has no recorded row positions."
            raise NotFound(detail)
        return Response(ConflictRowsSerializer(rows).data, status.HTTP_202_ACCEPTED)

    def _conflict(self) -> Conflict:
        visible = visible_conflicts(self.request.user).select_related("table")
        return get_object_or_404(visible, pk=self.kwargs["conflict_id"])


class ExceptionGuideSerializer(serializers.Serializer[Any]):
    """One exception; its sub-classes are raised by delta-spark, Databricks and this engine."""

    name = serializers.CharField()
    code = serializers.CharField()
    sqlstate = serializers.CharField()
    meaning = serializers.CharField()
    causes = serializers.ListField(child=serializers.CharField())
    actions = serializers.ListField(child=serializers.CharField(), help_text="What to do.")
    open_source = serializers.ListField(child=serializers.CharField())
    databricks = serializers.ListField(child=serializers.CharField())
    raised = serializers.ListField(child=serializers.CharField())


class ExceptionGuidesSerializer(serializers.Serializer[Any]):
    """All six exceptions, and the meaning of each sub-class."""

    exceptions = ExceptionGuideSerializer(many=True)
    subclasses = serializers.DictField(child=serializers.CharField())
    transactions_elsewhere = serializers.CharField(
        help_text="About Databricks' multi-statement transactions. `Code` is in backticks."
    )


class Exceptions(APIView):
    """Each conflict exception: its meaning, usual causes, sub-classes, and how to avoid it."""

    @extend_schema(responses={200: ExceptionGuidesSerializer})
    def get(self, request: Request) -> Response:
        refuse_unknown(request, frozenset())
        body = {
            "exceptions": GUIDES,
            "subclasses": {str(name): text for name, text in SUBCLASS_MEANINGS.items()},
            "transactions_elsewhere": TRANSACTIONS_ELSEWHERE,
        }
        return Response(ExceptionGuidesSerializer(body).data)
