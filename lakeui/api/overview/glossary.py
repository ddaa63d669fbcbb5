"""The words of pages, REST and docs, as JSON."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from lakeui.api.filtering import refuse_unknown
from lakeui.catalog.glossary import TERMS


class TermSerializer(serializers.Serializer[Any]):
    """A term: words for one thing, and its meaning."""

    words = serializers.CharField()
    meaning = serializers.CharField(help_text="Plain text; `code` stands between backticks.")
    anchor = serializers.CharField(help_text="Its place on the page: /glossary/#anchor.")


class GlossarySerializer(serializers.Serializer[Any]):
    """All terms, in the order of the page."""

    terms = TermSerializer(many=True)


class Glossary(APIView):
    """The words of pages, REST, errors and docs, each with its meaning."""

    @extend_schema(responses={200: GlossarySerializer})
    def get(self, request: Request) -> Response:
        refuse_unknown(request, frozenset())
        return Response(GlossarySerializer({"terms": TERMS}).data)
