"""Tables found below a root, and registered by choice."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.generics import GenericAPIView, ListAPIView, get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from lakeui.api.authentication import caller
from lakeui.api.fields import OptionalTextField, RecordedField
from lakeui.api.listing import parse_body, refuse_all, refuse_unknown
from lakeui.api.serializers.request import RequestSerializer
from lakeui.api.table_views import require
from lakeui.catalog.discovery import (
    MOST_HOURS,
    MOST_REGISTERED,
    dismiss,
    go_on,
    list_attention_tables,
    not_registered,
    register_found,
    request_discovery,
)
from lakeui.catalog.models import DiscoveredTable, Discovery, Table


class DiscoverySerializer(serializers.ModelSerializer[Discovery]):
    """A search. It stopped at a limit if `finished_at` is set and `is_complete` is false."""

    requested_by = serializers.CharField(
        source="requested_by.username", allow_null=True, default=None
    )
    found = serializers.SerializerMethodField()
    needing_attention = serializers.SerializerMethodField()
    problem = RecordedField(
        help_text="The last directory that could not be listed, with the reason."
    )

    class Meta:
        model = Discovery
        fields = [
            "id",
            "root",
            "match",
            "naming",
            "every_hours",
            "registers",
            "requested_by",
            "requested_at",
            "finished_at",
            "is_complete",
            "cursor",
            "examined",
            "unreadable",
            "problem",
            "found",
            "needing_attention",
        ]

    def get_found(self, discovery: Discovery) -> int:
        return discovery.tables.count()

    def get_needing_attention(self, discovery: Discovery) -> int:
        """Found by a repeated search, neither registered nor dismissed."""
        return list_attention_tables().filter(discovery=discovery).count()


class DiscoveryRequestSerializer(RequestSerializer):
    """The place to search, under a root of TABLE_ROOTS."""

    root = serializers.CharField(max_length=2000)  # type: ignore[assignment]  # a field's name here
    match = OptionalTextField(
        max_length=255, help_text="A pattern of paths below the root, such as sales/*"
    )
    naming = serializers.CharField(
        max_length=255,
        required=False,
        default="{path}",
        help_text="A pattern for names, with {path} (with dots), {name} and {parent}.",
    )

    every_hours = serializers.IntegerField(
        required=False,
        default=None,
        allow_null=True,
        min_value=1,
        max_value=MOST_HOURS,
        help_text="Hours between the end of a search and the next. null: search once.",
    )
    registers = serializers.BooleanField(
        required=False,
        default=False,
        help_text="Register the tables that a complete search finds, on your behalf and while you "
        "have the right.",
    )


class DiscoveredTableSerializer(serializers.ModelSerializer[DiscoveredTable]):
    """A discovered table, with its proposed name."""

    table_id = serializers.SerializerMethodField()

    class Meta:
        model = DiscoveredTable
        fields = ["id", "place", "name", "table_id"]

    def get_table_id(self, row: DiscoveredTable) -> int | None:
        """Null: it is not registered."""
        table_ids: dict[str, int] = self.context.get("known", {})
        return table_ids.get(row.place)


class ChoiceSerializer(RequestSerializer):
    """The tables to register; without ids, all that are not registered yet."""

    ids = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=2**63 - 1),
        required=False,
        max_length=MOST_REGISTERED,
    )


class RefusedSerializer(serializers.Serializer[Any]):
    """A table that could not be registered."""

    place = serializers.CharField()
    code = serializers.CharField()
    message = serializers.CharField()


class RegisteredSerializer(serializers.Serializer[Any]):
    """The result of registering. `left`: how many are not registered yet; ask again."""

    registered = serializers.ListField(child=serializers.IntegerField(), help_text="Table ids.")
    refused = RefusedSerializer(many=True)
    left = serializers.IntegerField()


class DiscoveryList(ListAPIView[Discovery]):
    """Searches, latest first; POST begins one."""

    queryset = Discovery.objects.none()
    serializer_class = DiscoverySerializer

    def get_queryset(self) -> QuerySet[Discovery]:
        require(self.request, "maintain")
        return Discovery.objects.select_related("requested_by").order_by("-requested_at", "-id")

    @extend_schema(request=DiscoveryRequestSerializer, responses={202: DiscoverySerializer})
    def post(self, request: Request) -> Response:
        """Start a search by a light worker. The latest 20 unrepeated searches are kept."""
        require(request, "maintain")
        values = parse_body(request, DiscoveryRequestSerializer)
        made = request_discovery(**values, by=caller(request))
        return _accept_discovery(request, made)


class DiscoveryDetail(GenericAPIView[Discovery]):
    """One search with its progress."""

    queryset = Discovery.objects.none()
    serializer_class = DiscoverySerializer

    def get(self, request: Request, discovery_id: int) -> Response:
        refuse_unknown(request, frozenset())
        return Response(DiscoverySerializer(_discovery(request, discovery_id)).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, discovery_id: int) -> Response:
        """Delete the search: it is no longer repeated. Registered tables stay."""
        _discovery(request, discovery_id).delete()
        return Response(status=status.HTTP_204_NO_CONTENT)


class DiscoveryContinue(GenericAPIView[Discovery]):
    """Continue a search that stopped at a limit."""

    queryset = Discovery.objects.none()
    serializer_class = DiscoverySerializer

    @extend_schema(request=None, responses={202: DiscoverySerializer})
    def post(self, request: Request, discovery_id: int) -> Response:
        """Continue after the last examined directory."""
        discovery = _discovery(request, discovery_id)
        refuse_all(request)
        go_on(discovery)
        discovery.refresh_from_db()
        return _accept_discovery(request, discovery)


class DiscoveryDismiss(GenericAPIView[Discovery]):
    """Dismiss the results so far of a repeated search: they need no attention."""

    queryset = Discovery.objects.none()
    serializer_class = DiscoverySerializer

    @extend_schema(request=None, responses={200: DiscoverySerializer})
    def post(self, request: Request, discovery_id: int) -> Response:
        """Dismiss them without registering; new tables of later rounds need attention again."""
        discovery = _discovery(request, discovery_id)
        refuse_all(request)
        dismiss(discovery)
        return Response(DiscoverySerializer(discovery).data)


class DiscoveredTableList(ListAPIView[DiscoveredTable]):
    """The tables found by a search, in the order of paths."""

    queryset = DiscoveredTable.objects.none()
    serializer_class = DiscoveredTableSerializer

    def get_queryset(self) -> QuerySet[DiscoveredTable]:
        return _discovery(self.request, self.kwargs["discovery_id"]).tables.order_by("id")

    def get_serializer_context(self) -> dict[str, Any]:
        table_ids = dict(Table.objects.values_list("uri", "pk")) if self.kwargs else {}
        return {**super().get_serializer_context(), "known": table_ids}


class DiscoveryRegister(GenericAPIView[Discovery]):
    """Register the tables found by a search."""

    queryset = Discovery.objects.none()
    serializer_class = RegisteredSerializer

    @extend_schema(request=ChoiceSerializer, responses={200: RegisteredSerializer})
    def post(self, request: Request, discovery_id: int) -> Response:
        """Register up to 500 at once; a refused table does not stop the others."""
        discovery = _discovery(request, discovery_id)
        values = parse_body(request, ChoiceSerializer)
        rows = not_registered(discovery)
        if (ids := values.get("ids")) is not None:
            rows = [row for row in rows if row.pk in set(ids)]
        chosen = [(row.place, row.name) for row in rows[:MOST_REGISTERED]]
        done = register_found(chosen, caller(request))
        answer = {
            "registered": [table.pk for table in done.tables],
            "refused": [
                {"place": place, "code": error.code, "message": str(error)}
                for place, error in done.refused.items()
            ],
            "left": len(not_registered(discovery)),
        }
        return Response(RegisteredSerializer(answer).data)


def _discovery(request: Request, discovery_id: int) -> Discovery:
    require(request, "maintain")
    return get_object_or_404(Discovery.objects.select_related("requested_by"), pk=discovery_id)


def _accept_discovery(request: Request, discovery: Discovery) -> Response:
    where = reverse("api:discovery", kwargs={"discovery_id": discovery.pk}, request=request)
    body = DiscoverySerializer(discovery).data
    return Response(body, status.HTTP_202_ACCEPTED, headers={"Location": where})
