"""The shared base of views below a table: the table itself, or 404, and the rights on it."""

from typing import Any

from django.db.models import QuerySet
from django.utils.functional import cached_property
from rest_framework.exceptions import PermissionDenied
from rest_framework.generics import GenericAPIView, get_object_or_404
from rest_framework.request import Request

from lakeui.catalog.access import may, visible_tables
from lakeui.catalog.models import Table


def require(request: Request, action: str, table: Table | None = None) -> None:
    """Raise PermissionDenied, naming the right, if the caller lacks it."""
    if not may(request.user, action, table):
        detail = f"This requires the right to {action} {table.name if table else 'any table'}."
        raise PermissionDenied(detail)


class TableScopedView(GenericAPIView[Any]):
    """A view below one table. Who may not see the table gets 404."""

    def list_tables(self) -> QuerySet[Any]:
        """Return the tables visible to the caller."""
        return visible_tables(self.request.user)

    @cached_property
    def table(self) -> Table:
        table: Table = get_object_or_404(self.list_tables(), pk=self.kwargs["table_id"])
        return table
