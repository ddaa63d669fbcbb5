"""The six conflict exceptions in words, as JSON."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from engine.conflicts.exceptions import GUIDES, SUBCLASS_MEANINGS, TRANSACTIONS_ELSEWHERE
from lakeui.api.filtering import refuse_unknown


class ExceptionGuideSerializer(serializers.Serializer[Any]):
    """One exception; its sub-classes are raised by delta-spark, Databricks and this engine."""

    name = serializers.CharField()
    code = serializers.CharField()
    sqlstate = serializers.CharField()
    meaning = serializers.CharField()
    causes = serializers.ListField(child=serializers.CharField())
    actions = serializers.ListField(child=serializers.CharField(), help_text="What to do.")
    open_source = serializers.ListField(child=serializers.CharField())
    databricks = serializers.ListField(child=serializers.CharField())
    raised = serializers.ListField(child=serializers.CharField())


class ExceptionGuidesSerializer(serializers.Serializer[Any]):
    """All six exceptions, and the meaning of each sub-class."""

    exceptions = ExceptionGuideSerializer(many=True)
    subclasses = serializers.DictField(child=serializers.CharField())
    transactions_elsewhere = serializers.CharField(
        help_text="Of Databricks' transactions of several statements; `code` stands between backticks."
    )


class Exceptions(APIView):
    """Each conflict exception: its meaning, usual causes, sub-classes, and how to avoid it."""

    @extend_schema(responses={200: ExceptionGuidesSerializer})
    def get(self, request: Request) -> Response:
        refuse_unknown(request, frozenset())
        body = {
            "exceptions": GUIDES,
            "subclasses": {str(name): text for name, text in SUBCLASS_MEANINGS.items()},
            "transactions_elsewhere": TRANSACTIONS_ELSEWHERE,
        }
        return Response(ExceptionGuidesSerializer(body).data)
