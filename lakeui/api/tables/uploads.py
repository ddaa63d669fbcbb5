"""Uploaded files as sources of a load: name the answer's `uri` in a command."""

from dataclasses import replace
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.core.files.uploadedfile import UploadedFile
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import NotFound, PermissionDenied
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from engine.commands.sources import BAD_ROWS
from lakeui.api.authentication import caller
from lakeui.api.listing import parse_body, refuse_unknown
from lakeui.catalog.access import highest_role
from lakeui.catalog.roles import Role
from lakeui.jobs.errors import UploadNotFoundError
from lakeui.jobs.uploads import (
    create_parameters,
    find_upload,
    format_of,
    guess_source,
    keep_upload,
    path_of,
    sample_as_json,
    sample_upload,
)


class UploadRequestSerializer(serializers.Serializer[Any]):
    """One file: .csv, .json, .jsonl, .parquet or .orc."""

    file = serializers.FileField()


class UploadSerializer(serializers.Serializer[Any]):
    """An uploaded file. A command's source names `uri`, a preview names `id`."""

    id = serializers.UUIDField()
    uri = serializers.CharField()
    format = serializers.CharField()
    size_bytes = serializers.IntegerField()


class Uploads(APIView):
    """Send a file, to be the source of a later load."""

    parser_classes = [MultiPartParser]

    @extend_schema(request=UploadRequestSerializer, responses={201: UploadSerializer})
    def post(self, request: Request) -> Response:
        """Upload a file as multipart/form-data. Anybody who may write to a table may upload."""
        user = _sender(request)
        file: UploadedFile[bytes] = parse_body(request, UploadRequestSerializer)["file"]
        kept = keep_upload(file, user)
        body = {
            "id": kept.pk,
            "uri": str(path_of(kept)),
            "format": format_of(kept.name),
            "size_bytes": file.size,
        }
        return Response(UploadSerializer(body).data, status.HTTP_201_CREATED)


class UploadPreviewParameters(serializers.Serializer[Any]):
    """How to read an uploaded file, and column types as `name=TYPE`; both are optional."""

    delimiter = serializers.CharField(required=False, max_length=1, trim_whitespace=False)
    quote = serializers.CharField(required=False, max_length=1)
    null_text = serializers.CharField(
        required=False, max_length=100, allow_blank=True, trim_whitespace=False
    )
    header = serializers.BooleanField(required=False, default=True)
    bad_rows = serializers.ChoiceField(choices=BAD_ROWS, required=False, default="fail")
    type = serializers.ListField(
        child=serializers.CharField(max_length=3000),
        required=False,
        default=list,
        max_length=10_000,
    )

    def validate_type(self, texts: list[str]) -> dict[str, str]:
        pairs = [text.rpartition("=") for text in texts]
        if any(not name or not kind.strip() for name, _, kind in pairs):
            msg = "Use a column name and its type: amount=DECIMAL(12,2)."
            raise serializers.ValidationError(msg)
        return {name: kind for name, _, kind in pairs}


class UploadColumnSerializer(serializers.Serializer[Any]):
    """A column under its chosen or inferred type; `problem` is why a choice is impossible.

    `note` is why an unexpected type was inferred.
    """

    name = serializers.CharField()
    type = serializers.CharField()
    inferred = serializers.CharField()
    problem = serializers.CharField(allow_blank=True)
    note = serializers.CharField(allow_blank=True)


class UploadRowSerializer(serializers.Serializer[Any]):
    """A row as it would be written. `misfits` are indexes of values that do not fit their types."""

    values = serializers.ListField(child=serializers.CharField(allow_null=True, allow_blank=True))
    misfits = serializers.ListField(child=serializers.IntegerField())
    fate = serializers.ChoiceField(choices=["", "fails", "dropped", "nulled"], allow_blank=True)
    problem = serializers.CharField(allow_blank=True)


class UploadPreviewSerializer(serializers.Serializer[Any]):
    """Columns, and the first rows of the first 100 of them."""

    columns = UploadColumnSerializer(many=True)
    rows = UploadRowSerializer(many=True)
    sampled_rows = serializers.IntegerField(
        allow_null=True,
        help_text="Rows that the types were inferred from. null: the file has the types.",
    )
    is_whole = serializers.BooleanField(help_text="Whether these were all its rows.")
    parameters = serializers.DictField(
        allow_null=True,
        help_text="The value of `create` for `POST tables/`. null: a type is not valid.",
    )


class UploadPreview(APIView):
    """An uploaded file's columns and first rows, before a job loads it."""

    @extend_schema(parameters=[UploadPreviewParameters], responses=UploadPreviewSerializer)
    def get(self, request: Request, upload_id: UUID) -> Response:
        """Return rows as a job would write them. Of CSV and JSON the first MiB is read."""
        user = _sender(request)
        form = UploadPreviewParameters(data=_parse_upload_query(request))
        refuse_unknown(request, set(form.fields))
        form.is_valid(raise_exception=True)
        given = dict(form.validated_data)
        types = given.pop("type")
        try:
            kept = find_upload(upload_id, user)
        except UploadNotFoundError as error:
            raise NotFound(str(error)) from error
        source = replace(guess_source(kept), **given)
        sample = sample_upload(kept, source, types, user)
        body = sample_as_json(sample) | {
            "parameters": create_parameters(source, sample) if sample.schema_json else None
        }
        return Response(UploadPreviewSerializer(body).data)


def _parse_upload_query(request: Request) -> dict[str, Any]:
    query = request.query_params
    return {name: query.getlist(name) if name == "type" else query[name] for name in query}


def _sender(request: Request) -> User:
    user = caller(request)
    role = highest_role(user)
    if role is None or role < Role.OPERATOR:
        detail = "This requires the right to write to at least one table."
        raise PermissionDenied(detail)
    return user
