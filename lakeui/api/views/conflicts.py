"""Conflicts: lost, absorbed and reported."""

from django.db.models import QuerySet
from rest_framework.generics import ListAPIView, RetrieveAPIView

from lakeui.api.serializers.conflicts import ConflictDetailSerializer, ConflictSerializer
from lakeui.api.views.of_table import OfTable
from lakeui.conflicts.filters import ConflictFilter, to_list, visible_conflicts
from lakeui.conflicts.models import Conflict


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
        return visible_conflicts(self.request.user).select_related("table")
