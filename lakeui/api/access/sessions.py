"""Signed-in browsers: one's own, and everybody's for admins. DELETE signs one out."""

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.generics import DestroyAPIView, ListAPIView

from lakeui.api.caller import caller
from lakeui.api.table_views import require
from lakeui.sign_on.models import BrowserSession
from lakeui.sign_on.sessions import end, endable_sessions, live_sessions


class SessionSerializer(serializers.ModelSerializer[BrowserSession]):
    """A browser, its user and the way of sign-in."""

    id = serializers.UUIDField(source="public_id", read_only=True)
    user = serializers.CharField(source="user.username", read_only=True)

    class Meta:
        model = BrowserSession
        fields = ["id", "user", "way", "address", "browser", "started_at", "expires_at"]
        read_only_fields = fields


class SessionList(ListAPIView[BrowserSession]):
    """Your sessions."""

    queryset = BrowserSession.objects.none()
    serializer_class = SessionSerializer

    def get_queryset(self) -> QuerySet[BrowserSession]:
        return live_sessions().filter(user=caller(self.request)).order_by("-started_at")


class EverySessionList(SessionList):
    """Everybody's sessions, for admins."""

    def get_queryset(self) -> QuerySet[BrowserSession]:
        require(self.request, "admin")
        return live_sessions().order_by("-started_at")


class SessionDetail(DestroyAPIView[BrowserSession]):
    """Sign a browser out: your own, and any as an admin."""

    queryset = BrowserSession.objects.none()
    serializer_class = SessionSerializer
    lookup_field = "public_id"
    lookup_url_kwarg = "session_id"

    def get_queryset(self) -> QuerySet[BrowserSession]:
        return endable_sessions(caller(self.request))

    def perform_destroy(self, instance: BrowserSession) -> None:
        end(instance, caller(self.request))
