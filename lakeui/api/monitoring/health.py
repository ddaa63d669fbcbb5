"""Whether the installation can work, for clients of REST alone."""

from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from lakeui.api.filtering import refuse_unknown
from lakeui.monitoring.health import readiness


class HealthSerializer(serializers.Serializer[Any]):
    """The state of /readyz, and whether changes are allowed."""

    ready = serializers.BooleanField()
    read_only = serializers.BooleanField()  # type: ignore[assignment]
    checks = serializers.DictField(child=serializers.CharField())


class HealthView(APIView):
    """Whether database and broker answer. Always 200: `ready` is the answer. Open to everybody."""

    permission_classes = [AllowAny]

    @extend_schema(responses={200: HealthSerializer})
    def get(self, request: Request) -> Response:
        refuse_unknown(request, frozenset())
        checks = readiness()
        body = {
            "ready": all(check.ok for check in checks),
            "read_only": settings.READ_ONLY,
            "checks": {check.name: "ok" if check.ok else check.remedy for check in checks},
        }
        return Response(HealthSerializer(body).data)
