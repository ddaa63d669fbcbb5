"""Who did what and who is signed in: the audit log, browsers and tokens.

The audit log is for maintainers of all tables. Browsers are one's own, and everybody's for admins;
DELETE signs one out. Tokens are those of the caller: made, listed, revoked.
"""

from datetime import timedelta

from auditlog.models import LogEntry
from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import PermissionDenied
from rest_framework.generics import DestroyAPIView, ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from lakeui.api.authentication import caller
from lakeui.api.errors import TokenMakesNone
from lakeui.api.fields import ObjectField, RoleField
from lakeui.api.listing import parse_body
from lakeui.api.models import ApiToken
from lakeui.api.serializers.request import RequestSerializer
from lakeui.api.table_views import require
from lakeui.catalog.access import highest_role
from lakeui.monitoring.filters import ACTS, THINGS, AuditFilter, trail
from lakeui.sign_on.models import BrowserSession
from lakeui.sign_on.sessions import end, endable_sessions, live_sessions
from lakeui.sign_on.tokens import revocable_tokens, tokens_of

MAX_DAYS = 365


class AuditEntrySerializer(serializers.ModelSerializer[LogEntry]):
    """A person's action on an object; `refused` is the code of a refusal."""

    at = serializers.DateTimeField(source="timestamp")
    who = serializers.CharField(source="actor.username", default=None, allow_null=True)
    address = serializers.CharField(source="remote_addr", allow_null=True)
    act = serializers.SerializerMethodField()
    thing = serializers.SerializerMethodField()
    object_id = serializers.CharField(source="object_pk")
    name = serializers.CharField(source="object_repr")
    changes = ObjectField(source="changes_dict")
    did = serializers.SerializerMethodField()
    refused = serializers.SerializerMethodField()

    class Meta:
        model = LogEntry
        fields = [
            "id",
            "at",
            "who",
            "address",
            "act",
            "thing",
            "object_id",
            "name",
            "changes",
            "did",
            "refused",
        ]

    def get_act(self, entry: LogEntry) -> str:
        return str(ACTS[entry.action])

    def get_thing(self, entry: LogEntry) -> str:
        model = entry.content_type.model
        return str(THINGS.get(model, model))

    def get_did(self, entry: LogEntry) -> str | None:
        return (entry.additional_data or {}).get("did")

    def get_refused(self, entry: LogEntry) -> str | None:
        return (entry.additional_data or {}).get("refused")


class AuditList(ListAPIView[LogEntry]):
    """Every change that people and programs requested, and every refused one, latest first."""

    queryset = LogEntry.objects.none()
    serializer_class = AuditEntrySerializer
    filterset_class = AuditFilter

    def get_queryset(self) -> QuerySet[LogEntry]:
        require(self.request, "maintain")
        return trail().order_by("-timestamp")


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


class TokenSerializer(serializers.ModelSerializer[ApiToken]):
    """A token without its secret."""

    id = serializers.UUIDField(source="public_id", read_only=True)
    role = RoleField(read_only=True)
    starts_with = serializers.SerializerMethodField(
        help_text="The token's first characters, which identify it."
    )
    created_at = serializers.DateTimeField(source="created", read_only=True)
    expires_at = serializers.DateTimeField(source="expiry", read_only=True)

    class Meta:
        model = ApiToken
        fields = ["id", "name", "role", "starts_with", "created_at", "expires_at"]

    def get_starts_with(self, token: ApiToken) -> str:
        """Return the token's first characters."""
        return str(token.token_key[:12])


class PersonsTokenSerializer(TokenSerializer):
    """A token and its owner."""

    user = serializers.CharField(source="user.username", read_only=True)

    class Meta(TokenSerializer.Meta):
        fields = [*TokenSerializer.Meta.fields, "user"]


class NewTokenSerializer(TokenSerializer):
    """A token as it is shown once."""

    token = serializers.CharField(read_only=True, help_text="Store it now: it is not shown again.")

    class Meta(TokenSerializer.Meta):
        fields = [*TokenSerializer.Meta.fields, "token"]


class TokenRequestSerializer(RequestSerializer):
    """The purpose, role and lifetime of a new token."""

    name = serializers.CharField(max_length=100)
    role = RoleField()
    expires_in_days = serializers.IntegerField(
        min_value=1, max_value=MAX_DAYS, required=False, default=30
    )


class TokenList(ListAPIView[ApiToken]):
    """Your tokens; POST makes one, and shows it this once."""

    queryset = ApiToken.objects.none()
    serializer_class = TokenSerializer

    def get_queryset(self) -> QuerySet[ApiToken]:
        return _tokens_of(self.request).order_by("-created")

    @extend_schema(request=TokenRequestSerializer, responses={201: NewTokenSerializer})
    def post(self, request: Request) -> Response:
        """Create a token. Its role cannot be above your own. A token cannot create tokens."""
        if isinstance(request.auth, ApiToken):
            raise TokenMakesNone
        values = parse_body(request, TokenRequestSerializer)
        role, days = values["role"], values["expires_in_days"]
        if role > (highest_role(request.user) or 0):
            detail = (
                f"You cannot give a token the role {role.label}, because it is above your own role."
            )
            raise PermissionDenied(detail)
        _tokens_of(request).filter(expiry__lt=timezone.now()).delete()
        made, secret = ApiToken.objects.create(
            user=request.user,
            expiry=timedelta(days=days),
            name=values["name"],
            role=role,
        )
        made.token = secret
        return Response(NewTokenSerializer(made).data, status.HTTP_201_CREATED)


class EveryTokenList(ListAPIView[ApiToken]):
    """Everybody's tokens, for admins."""

    queryset = ApiToken.objects.none()
    serializer_class = PersonsTokenSerializer

    def get_queryset(self) -> QuerySet[ApiToken]:
        require(self.request, "admin")
        tokens: QuerySet[ApiToken] = ApiToken.objects.select_related("user")
        return tokens.order_by("-created")


class TokenDetail(DestroyAPIView[ApiToken]):
    """Revoke a token, as an admin anybody's: the next request with it is refused."""

    queryset = ApiToken.objects.none()
    serializer_class = TokenSerializer
    lookup_field = "public_id"
    lookup_url_kwarg = "token_id"

    def get_queryset(self) -> QuerySet[ApiToken]:
        tokens: QuerySet[ApiToken] = revocable_tokens(caller(self.request))
        return tokens


def _tokens_of(request: Request) -> QuerySet[ApiToken]:
    return tokens_of(caller(request))
