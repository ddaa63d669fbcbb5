"""A table's definition: its columns, keys and constraints, and their changes by version."""

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.generics import ListAPIView, get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response

from engine.schema.column_mapping import column_mapping_mode
from lakeui.api.authentication import caller
from lakeui.api.listing import SequencePaging, parse_body, parse_query, refuse_unknown
from lakeui.api.request_headers import answer_once
from lakeui.api.schema import IDEMPOTENCY_KEY
from lakeui.api.serializers.tables import (
    ColumnSerializer,
    ColumnsRequestSerializer,
    KeyRequestSerializer,
    KeySerializer,
    TableSchemaSerializer,
)
from lakeui.api.table_views import TableScopedView, require
from lakeui.catalog.differences import definition_changes
from lakeui.catalog.keys import Key, check_constraints, declare_key, parse_key, redact_keys
from lakeui.catalog.models import Table, TableKey
from lakeui.catalog.schema_rows import SchemaRow, SchemaRows

COLUMNS_SHOWN = 500
_CHANGES = 20


class TableSchema(TableScopedView):
    """Columns, constraints, keys, and the latest versions that changed the definition."""

    serializer_class = TableSchemaSerializer

    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002 - from the address
        refuse_unknown(request, frozenset())
        table = self.table
        columns = SchemaRows(table)
        body = {
            "version": table.version,
            "column_mapping": column_mapping_mode(table.properties),
            "columns": columns[:COLUMNS_SHOWN],
            "column_count": len(columns),
            "constraints": check_constraints(table.properties),
            "keys": redact_keys(table.keys.select_related("declared_by"), request.user),
            "changes": definition_changes(table, _CHANGES),
        }
        return Response(TableSchemaSerializer(body).data)


class ColumnList(TableScopedView):
    """The columns of a table, nested ones after their parent; `q` is a part of their dotted name."""

    queryset = Table.objects.none()
    serializer_class = ColumnSerializer
    pagination_class = SequencePaging

    @extend_schema(parameters=[ColumnsRequestSerializer], responses=ColumnSerializer(many=True))
    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002 - from the address
        table = self.table  # first: hidden tables stay unknown
        parameters = parse_query(request, ColumnsRequestSerializer)
        page: Sequence[SchemaRow] = self.paginate_queryset(SchemaRows(table, parameters["q"])) or []
        return self.get_paginated_response(ColumnSerializer(page, many=True).data)


class KeyList(TableScopedView, ListAPIView[TableKey]):
    """The declared keys of this table; POST declares another. Nothing enforces them."""

    queryset = TableKey.objects.none()
    serializer_class = KeySerializer

    def get_queryset(self) -> QuerySet[TableKey]:
        return self.table.keys.select_related("declared_by").order_by("name")

    def paginate_queryset(self, queryset: Any) -> Any:
        return redact_keys(super().paginate_queryset(queryset) or [], self.request.user)

    @extend_schema(
        request=KeyRequestSerializer, responses={201: KeySerializer}, parameters=[IDEMPOTENCY_KEY]
    )
    def post(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        """Declare a key. Its columns are checked against the mirrored schema."""
        require(request, "maintain", self.table)
        key = _parse_key_request(parse_body(request, KeyRequestSerializer))
        return answer_once(request, lambda: self._declare_response(request, key))

    def _declare_response(self, request: Request, key: Key) -> Response:
        made = declare_key(self.table, key, caller(request))
        return Response(KeySerializer(made).data, status.HTTP_201_CREATED)


class KeyDetail(TableScopedView):
    """One declared key."""

    serializer_class = KeySerializer

    @extend_schema(responses={204: None})
    def delete(self, request: Request, table_id: int, key_id: int) -> Response:  # noqa: ARG002
        """Forget the key; the table itself stays as it is."""
        require(request, "maintain", self.table)
        get_object_or_404(self.table.keys.all(), pk=key_id).delete()
        return Response(status=status.HTTP_204_NO_CONTENT)


def _parse_key_request(parameters: dict[str, Any]) -> Key:
    if "sql" in parameters:
        return parse_key(parameters["sql"])
    return Key(
        kind=parameters["kind"],
        columns=tuple(parameters["columns"]),
        name=parameters["name"],
        references=parameters["references"],
        referenced_columns=tuple(parameters["referenced_columns"]),
    )
