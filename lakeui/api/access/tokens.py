"""Tokens of the caller: made, listed, revoked."""

from datetime import timedelta

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import PermissionDenied
from rest_framework.generics import DestroyAPIView, ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from lakeui.api.caller import caller
from lakeui.api.errors import TokenMakesNone
from lakeui.api.fields import RoleField
from lakeui.api.models import ApiToken
from lakeui.api.serializers.request import RequestSerializer
from lakeui.api.table_views import require
from lakeui.catalog.access import highest_role
from lakeui.sign_on.tokens import revocable_tokens, tokens_of

MAX_DAYS = 365


class TokenSerializer(serializers.ModelSerializer[ApiToken]):
    """A token without its secret."""

    id = serializers.UUIDField(source="public_id", read_only=True)
    role = RoleField(read_only=True)
    starts_with = serializers.SerializerMethodField(
        help_text="The first characters of it, to tell it by."
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

    token = serializers.CharField(read_only=True, help_text="Keep it: it is not shown again.")

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
        body = TokenRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        role, days = body.validated_data["role"], body.validated_data["expires_in_days"]
        if role > (highest_role(request.user) or 0):
            detail = f"You cannot give a token the role {role.label}: yours is below it."
            raise PermissionDenied(detail)
        _tokens_of(request).filter(expiry__lt=timezone.now()).delete()
        made, secret = ApiToken.objects.create(
            user=request.user,
            expiry=timedelta(days=days),
            name=body.validated_data["name"],
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
