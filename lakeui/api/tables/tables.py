"""Tables: the mirror, read."""

from functools import cache
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from lakeui.api.caller import caller
from lakeui.api.idempotency import answer_once
from lakeui.api.jobs.jobs import accept_job
from lakeui.api.schema import IDEMPOTENCY_KEY
from lakeui.api.serializers.jobs import JobDetailSerializer
from lakeui.api.serializers.request import RequestSerializer
from lakeui.api.table_views import require, tables_with_health
from lakeui.api.tables.summary import TableDetailSerializer, TableSerializer
from lakeui.catalog.filters import TableFilter
from lakeui.catalog.models import Table
from lakeui.catalog.registration import FoundTable, look_for_table, register_place
from lakeui.jobs.requests import request_create


class RegistrationSerializer(RequestSerializer):
    """An existing table, by its `uri`; or a new one, by the parameters of `create` or `clone`."""

    uri = serializers.CharField(max_length=2000, required=False)
    create = serializers.DictField(  # type: ignore[assignment]
        required=False, help_text="Of the create command: schema or source, clustering, properties."
    )
    clone = serializers.DictField(
        required=False, help_text="Of the clone command: source_table, version or timestamp, deep."
    )
    name = serializers.CharField(
        max_length=255,
        required=False,
        default="",
        allow_blank=True,
        help_text="Else: from the URI.",
    )
    description = serializers.CharField(
        max_length=2000, required=False, default="", allow_blank=True, help_text="Of a new table."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if sum(key in attrs for key in ("uri", "create", "clone")) != 1:
            fault = "Give either uri, of a table that is there, or create or clone, for a new one."
            raise serializers.ValidationError({"uri": [fault]})
        if "uri" not in attrs and not attrs["name"]:
            raise serializers.ValidationError({"name": ["A new table needs a name."]})
        return attrs


class TableList(ListAPIView[Table]):
    """The tables you may see."""

    queryset = Table.objects.none()
    serializer_class = TableSerializer
    filterset_class = TableFilter

    def get_queryset(self) -> QuerySet[Table]:
        return tables_with_health(self.request).order_by("name")

    @extend_schema(
        request=RegistrationSerializer,
        responses={201: TableDetailSerializer, 202: JobDetailSerializer},
        parameters=[IDEMPOTENCY_KEY],
    )
    def post(self, request: Request) -> Response:
        """Register a table by its `uri` (201), or have a new one created by a job (202).

        A light worker reads the log of a registered table: `sync` is its progress, null once it is
        read.
        """
        require(request, "maintain")
        form = RegistrationSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        values = form.validated_data
        if "uri" not in values:
            return answer_once(request, lambda: _create_response(request, values))
        look = cache(lambda: look_for_table(values["uri"], values["name"]))
        return answer_once(request, lambda: _register_response(request, look()), prepare=look)


def _register_response(request: Request, candidate: FoundTable) -> Response:
    made = register_place(candidate, caller(request))
    table = tables_with_health(request).get(pk=made.pk)
    where = reverse("api:table", kwargs={"table_id": table.pk}, request=request)
    body = TableDetailSerializer(table).data
    return Response(body, status.HTTP_201_CREATED, headers={"Location": where})


def _create_response(request: Request, values: dict[str, Any]) -> Response:
    kind = "create" if "create" in values else "clone"
    job = request_create(
        name=values["name"],
        kind=kind,
        parameters=values[kind],
        description=values["description"],
        requested_by=caller(request),
    )
    return accept_job(request, job)
