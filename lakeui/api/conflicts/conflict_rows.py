"""The rows touched by both sides of a conflict, read by a worker."""

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from kombu.exceptions import OperationalError
from rest_framework import status
from rest_framework.exceptions import NotFound
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from engine.errors import StorageError
from lakeui.api.filtering import refuse_all
from lakeui.api.serializers.conflict_sides import (
    ConflictRowsSerializer,
)
from lakeui.catalog.command_tables import Reader
from lakeui.conflicts.conflict_detail.row_values import ask_for_rows
from lakeui.conflicts.filters import visible_conflicts
from lakeui.conflicts.models import Conflict, ConflictRows
from lakeui.task_names import NO_WORKER_ASKED


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
                "Nobody requested these rows within the last hour. POST here to have them read."
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
            raise StorageError(NO_WORKER_ASKED, "Try again once it is back.") from error
        if rows is None:
            detail = "No positions of rows are recorded of this conflict."
            raise NotFound(detail)
        return Response(ConflictRowsSerializer(rows).data, status.HTTP_202_ACCEPTED)

    def _conflict(self) -> Conflict:
        visible = visible_conflicts(self.request.user).select_related("table")
        return get_object_or_404(visible, pk=self.kwargs["conflict_id"])
