"""The results of a search."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from lakeui.api.caller import caller
from lakeui.api.filtering import parse_query
from lakeui.monitoring.search import MAX_TEXT, search


class SearchRequestSerializer(serializers.Serializer[Any]):
    """A name, a version (v7, orders v7), an id or its first digits, or a word of an error."""

    q = serializers.CharField(max_length=MAX_TEXT, required=False, default="", allow_blank=True)


class FoundTableSerializer(serializers.Serializer[Any]):
    """A table by its name or place."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    uri = serializers.CharField()
    version = serializers.IntegerField(allow_null=True)


class FoundVersionSerializer(serializers.Serializer[Any]):
    """A version of a table."""

    table_id = serializers.IntegerField()
    table = serializers.CharField(source="table.name")
    version = serializers.IntegerField()
    operation = serializers.CharField()
    committed_at = serializers.DateTimeField(allow_null=True)


class FoundJobSerializer(serializers.Serializer[Any]):
    """A job by its id, statement or error."""

    id = serializers.UUIDField()
    table = serializers.CharField(source="table.name")
    statement = serializers.CharField()
    state = serializers.CharField()


class FoundConflictSerializer(serializers.Serializer[Any]):
    """A conflict by its number, exception or message."""

    id = serializers.IntegerField()
    table = serializers.CharField(source="table.name", default=None, allow_null=True)
    exception = serializers.CharField()
    occurred_at = serializers.DateTimeField()


class FoundColumnSerializer(serializers.Serializer[Any]):
    """A column by its dotted name."""

    table_id = serializers.IntegerField(source="table.pk")
    table = serializers.CharField(source="table.name")
    column = serializers.CharField(source="path")
    type = serializers.CharField()


class FoundWriterSerializer(serializers.Serializer[Any]):
    """Who wrote to a table lately, and their latest version there."""

    name = serializers.CharField()
    table_id = serializers.IntegerField(source="table.pk")
    table = serializers.CharField(source="table.name")
    version = serializers.IntegerField()


class FoundSerializer(serializers.Serializer[Any]):
    """The first dozen of each; narrow the lists of tables, jobs and conflicts for all."""

    tables = FoundTableSerializer(many=True)
    columns = FoundColumnSerializer(many=True)
    versions = FoundVersionSerializer(many=True)
    jobs = FoundJobSerializer(many=True)
    conflicts = FoundConflictSerializer(many=True)
    writers = FoundWriterSerializer(many=True)


class Search(GenericAPIView[Any]):
    """Tables, columns, versions, jobs, conflicts and writers that match a text."""

    serializer_class = FoundSerializer

    @extend_schema(parameters=[SearchRequestSerializer])
    def get(self, request: Request) -> Response:
        text = parse_query(request, SearchRequestSerializer)["q"]
        return Response(FoundSerializer(search(caller(request), text)).data)
