"""Alerts to people: channels, rules, and the outbox."""

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.generics import GenericAPIView, ListAPIView, get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response

from lakeui.api.caller import caller
from lakeui.api.filtering import refuse_all, refuse_unknown
from lakeui.api.serializers.alerts import (
    AlertsSerializer,
    ChannelChangeSerializer,
    ChannelRequestSerializer,
    ChannelSerializer,
    DeliverySerializer,
    NewChannelSerializer,
    RuleChangeSerializer,
    RuleRequestSerializer,
    RuleSerializer,
)
from lakeui.api.table_views import require
from lakeui.monitoring.alerting.channels import (
    change_channel,
    change_rule,
    make_channel,
    make_rule,
    send_test,
)
from lakeui.monitoring.attention import CONDITIONS
from lakeui.monitoring.models import AlertChannel, AlertDelivery, AlertRule

_SHOWN = 20


class Alerts(GenericAPIView[Any]):
    """Channels, rules, the last messages, and the conditions for rules. For maintainers."""

    serializer_class = AlertsSerializer

    def get(self, request: Request) -> Response:
        refuse_unknown(request, frozenset())
        require(request, "maintain")
        conditions = [
            {
                "name": condition.value,
                "says": condition.label,
                "default_threshold": rule.threshold if rule.unit else None,
                "unit": rule.unit or None,
            }
            for condition, rule in CONDITIONS.items()
        ]
        body = {
            "conditions": conditions,
            "channels": AlertChannel.objects.all(),
            "rules": AlertRule.objects.select_related("channel"),
            "deliveries": AlertDelivery.objects.select_related("channel")[:_SHOWN],
        }
        return Response(AlertsSerializer(body).data)


class ChannelList(ListAPIView[AlertChannel]):
    """Where alerts go. Maintainers read, admins make."""

    queryset = AlertChannel.objects.none()
    serializer_class = ChannelSerializer

    def get_queryset(self) -> QuerySet[AlertChannel]:
        require(self.request, "maintain")
        return AlertChannel.objects.order_by("name")

    @extend_schema(request=ChannelRequestSerializer, responses={201: NewChannelSerializer})
    def post(self, request: Request) -> Response:
        """Create a channel. A JSON webhook gets a secret for signing; only this answer shows it."""
        require(request, "admin")
        body = ChannelRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        channel, secret = make_channel(body.validated_data)
        return Response(_serialize_with_secret(channel, secret), status.HTTP_201_CREATED)


class ChannelDetail(GenericAPIView[AlertChannel]):
    """One channel."""

    queryset = AlertChannel.objects.none()
    serializer_class = ChannelSerializer

    def get(self, request: Request, channel_id: int) -> Response:
        refuse_unknown(request, frozenset())
        require(request, "maintain")
        return Response(ChannelSerializer(get_object_or_404(AlertChannel, pk=channel_id)).data)

    @extend_schema(request=ChannelChangeSerializer, responses={200: NewChannelSerializer})
    def patch(self, request: Request, channel_id: int) -> Response:
        """Change it. `secret` is null unless `new_secret` is set."""
        require(request, "admin")
        channel = get_object_or_404(AlertChannel, pk=channel_id)
        body = ChannelChangeSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        return Response(
            _serialize_with_secret(channel, change_channel(channel, body.validated_data))
        )

    @extend_schema(responses={204: None})
    def delete(self, request: Request, channel_id: int) -> Response:
        """Remove the channel, with its rules and its undelivered messages."""
        require(request, "admin")
        get_object_or_404(AlertChannel, pk=channel_id).delete()
        return Response(status=status.HTTP_204_NO_CONTENT)


class ChannelTest(GenericAPIView[AlertDelivery]):
    """Send a test message to a channel, at any hour."""

    queryset = AlertDelivery.objects.none()
    serializer_class = DeliverySerializer

    @extend_schema(request=None, responses={202: DeliverySerializer})
    def post(self, request: Request, channel_id: int) -> Response:
        """Put a test into the outbox (202). `alerts/deliveries/` reports whether it arrived."""
        require(request, "admin")
        channel = get_object_or_404(AlertChannel, pk=channel_id)
        refuse_all(request)
        delivery = send_test(channel, caller(request).get_username(), timezone.now())
        return Response(DeliverySerializer(delivery).data, status.HTTP_202_ACCEPTED)


class RuleList(ListAPIView[AlertRule]):
    """The conditions reported to each channel. Maintainers read, admins create."""

    queryset = AlertRule.objects.none()
    serializer_class = RuleSerializer

    def get_queryset(self) -> QuerySet[AlertRule]:
        require(self.request, "maintain")
        return AlertRule.objects.select_related("channel").order_by("name")

    @extend_schema(request=RuleRequestSerializer, responses={201: RuleSerializer})
    def post(self, request: Request) -> Response:
        """Create a rule. A condition that already holds is reported in the next round."""
        require(request, "admin")
        body = RuleRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        rule = make_rule(body.validated_data)
        return Response(RuleSerializer(rule).data, status.HTTP_201_CREATED)


class RuleDetail(GenericAPIView[AlertRule]):
    """One rule."""

    queryset = AlertRule.objects.none()
    serializer_class = RuleSerializer

    def get(self, request: Request, rule_id: int) -> Response:
        refuse_unknown(request, frozenset())
        require(request, "maintain")
        return Response(RuleSerializer(_rule(rule_id)).data)

    @extend_schema(request=RuleChangeSerializer, responses={200: RuleSerializer})
    def patch(self, request: Request, rule_id: int) -> Response:
        """Change it; under another condition, threshold or pattern it reports anew."""
        require(request, "admin")
        rule = _rule(rule_id)
        body = RuleChangeSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        change_rule(rule, body.validated_data)
        return Response(RuleSerializer(rule).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, rule_id: int) -> Response:
        """Remove it; messages it wrote are delivered all the same."""
        require(request, "admin")
        _rule(rule_id).delete()
        return Response(status=status.HTTP_204_NO_CONTENT)


class DeliveryList(ListAPIView[AlertDelivery]):
    """The outbox, latest first."""

    queryset = AlertDelivery.objects.none()
    serializer_class = DeliverySerializer

    def get_queryset(self) -> QuerySet[AlertDelivery]:
        require(self.request, "maintain")
        return AlertDelivery.objects.select_related("channel").order_by("-created_at", "-id")


def _rule(rule_id: int) -> AlertRule:
    return get_object_or_404(AlertRule.objects.select_related("channel"), pk=rule_id)


def _serialize_with_secret(channel: AlertChannel, secret: str) -> dict[str, Any]:
    channel.secret = secret or None  # type: ignore[attr-defined]
    return dict(NewChannelSerializer(channel).data)
