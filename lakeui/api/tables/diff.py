"""The changes from one version of a table to another."""

from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from lakeui.api.filtering import refuse_unknown
from lakeui.api.serializers.definitions import (
    DifferenceSerializer,
)
from lakeui.api.table_views import TableScopedView
from lakeui.catalog.differences import difference


class Diff(TableScopedView):
    """The changes from one version to another."""

    serializer_class = DifferenceSerializer

    def get(self, request: Request, table_id: int, older: int, newer: int) -> Response:  # noqa: ARG002
        refuse_unknown(request, frozenset())
        comparison = difference(self.table, older, newer) if older < newer else None
        if comparison is None:
            detail = f"The mirror holds no version from {older + 1} to {newer}."
            raise NotFound(detail)
        return Response(DifferenceSerializer(comparison).data)
