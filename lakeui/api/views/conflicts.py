"""Conflicts: lost, absorbed and reported."""

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from kombu.exceptions import OperationalError
from rest_framework import status
from rest_framework.exceptions import NotFound
from rest_framework.generics import GenericAPIView, ListAPIView, RetrieveAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from engine.errors import StorageError
from lakeui.api.serializers.conflict_costs import ConflictCostsSerializer
from lakeui.api.serializers.conflict_sides import ConflictRowsSerializer
from lakeui.api.serializers.conflicts import ConflictDetailSerializer, ConflictSerializer
from lakeui.api.views.of_table import OfTable
from lakeui.catalog.named_tables import Reader
from lakeui.conflicts.costs import cost_by_hour, cost_by_pair
from lakeui.conflicts.filters import ConflictFilter, to_list, visible_conflicts
from lakeui.conflicts.loss.advice import advice
from lakeui.conflicts.loss.alike import alike, neighbours
from lakeui.conflicts.loss.both_sides import both_sides
from lakeui.conflicts.loss.landed import landed_later
from lakeui.conflicts.loss.row_values import ask_for_rows
from lakeui.conflicts.models import Conflict, ConflictRows
from lakeui.monitoring.partition_costs import costs_by_partition

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
        found, partitions = cost_by_pair(conflicts), costs_by_partition(conflicts, now)
        hours = [
            {"pair": pair, "hour": hour, "wasted_ms": ms}
            for (pair, hour), ms in sorted(cost_by_hour(conflicts, now).items())
        ]
        body = {
            "total": found.total,
            "pairs": found.pairs[:MAX_PAIRS],
            "more_pairs": max(0, len(found.pairs) - MAX_PAIRS),
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
    """One conflict with both sides, the files they met at and the ranked remedies."""

    queryset = Conflict.objects.none()
    serializer_class = ConflictDetailSerializer
    lookup_url_kwarg = "conflict_id"

    def get_queryset(self) -> QuerySet[Conflict]:
        return visible_conflicts(self.request.user).select_related("table", "job")

    def get_object(self) -> Any:  # a conflict with what is told beside it
        conflict, visible = super().get_object(), visible_conflicts(self.request.user)
        sides = both_sides(conflict, Reader(self.request.user))
        like = alike(visible, conflict)
        vars(conflict).update(
            sides=sides,
            alike=like,
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
        found = ConflictRows.objects.filter(conflict=self._conflict()).first()
        if found is None:
            detail = "Nobody asked for these rows within the hour. POST here to have them read."
            raise NotFound(detail)
        return Response(ConflictRowsSerializer(found).data)

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
