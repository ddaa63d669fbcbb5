"""Conditions that need attention, and muting them for a while."""

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.generics import GenericAPIView, get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response

from lakeui.api.caller import caller
from lakeui.api.filtering import refuse_unknown
from lakeui.api.idempotency import answer_once
from lakeui.api.schema import IDEMPOTENCY_KEY
from lakeui.api.serializers.attention import (
    AttentionSerializer,
    MuteRequestSerializer,
    MuteSerializer,
)
from lakeui.api.table_views import require
from lakeui.catalog.access import visible_tables
from lakeui.monitoring.attention import CONDITIONS, attention
from lakeui.monitoring.conditions import Condition
from lakeui.monitoring.models import Mute
from lakeui.monitoring.mutes import group_mutes, mute, mutes_now, visible_mutes
from lakeui.monitoring.recent_conflicts import day_of

_MOST = 50


class AttentionView(GenericAPIView[Any]):
    """Conditions that need attention, worst first; the checks with their thresholds; mutes."""

    serializer_class = AttentionSerializer

    def get(self, request: Request) -> Response:
        refuse_unknown(request, frozenset())
        user, now = caller(request), timezone.now()
        mutes = mutes_now(now)
        attention_now = attention(user, now, day_of(user, now), group_mutes(mutes), _MOST)
        checks = [
            {
                "name": condition.value,
                "looks_for": condition.label,
                "severity": rule.severity,
                "tells": rule.tells,
                "set_by": ", ".join(rule.settings) or "fixed",
                "remedy": rule.remedy,
                "count": attention_now.counts.get(condition, 0),
            }
            for condition, rule in CONDITIONS.items()
        ]
        body = {
            "count": attention_now.count,
            "items": attention_now.items,
            "checks": checks,
            "mutes": visible_mutes(mutes, user),
        }
        return Response(AttentionSerializer(body).data)


class MuteList(GenericAPIView[Mute]):
    """Checks muted for a while, for one table or for all."""

    queryset = Mute.objects.none()
    serializer_class = MuteSerializer

    @extend_schema(
        request=MuteRequestSerializer, responses={201: MuteSerializer}, parameters=[IDEMPOTENCY_KEY]
    )
    def post(self, request: Request) -> Response:
        """Mute for everybody of this installation; the audit log records it."""
        body = MuteRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        return answer_once(request, lambda: self._create_mute(request, body.validated_data))

    def _create_mute(self, request: Request, values: dict[str, Any]) -> Response:
        pk, table = values["table_id"], None
        if pk is not None:
            table = get_object_or_404(visible_tables(request.user), pk=pk)
        require(request, "maintain", table)
        row = mute(
            Condition(values["check_name"]),
            table,
            values["until"],
            by=caller(request),
            now=timezone.now(),
            reason=values["reason"],
        )
        return Response(MuteSerializer(row).data, status.HTTP_201_CREATED)


class MuteDetail(GenericAPIView[Mute]):
    """One muted check."""

    queryset = Mute.objects.none()
    serializer_class = MuteSerializer

    @extend_schema(responses={204: None})
    def delete(self, request: Request, mute_id: int) -> Response:
        """Unmute it."""
        row = get_object_or_404(Mute.objects.select_related("table"), pk=mute_id)
        if row.table is not None:
            get_object_or_404(visible_tables(request.user), pk=row.table_id)
        require(request, "maintain", row.table)
        row.delete()
        return Response(status=status.HTTP_204_NO_CONTENT)
