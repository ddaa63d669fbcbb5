"""Files sent as sources of a load: name the answer's `uri` in a command."""

from typing import Any

from django.core.files.uploadedfile import UploadedFile
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import PermissionDenied
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from lakeui.api.caller import caller
from lakeui.catalog.access import highest_role
from lakeui.catalog.roles import Role
from lakeui.jobs.uploads import format_of, store_upload


class UploadRequestSerializer(serializers.Serializer[Any]):
    """One file: .csv, .json, .jsonl, .parquet or .orc."""

    file = serializers.FileField()


class UploadSerializer(serializers.Serializer[Any]):
    """A kept file. `uri` is what a command's source names."""

    uri = serializers.CharField()
    format = serializers.CharField()
    size_bytes = serializers.IntegerField()


class Uploads(APIView):
    """Send a file, to be the source of a later load."""

    parser_classes = [MultiPartParser]

    @extend_schema(request=UploadRequestSerializer, responses={201: UploadSerializer})
    def post(self, request: Request) -> Response:
        """As multipart/form-data. Whoever may write to some table may send files."""
        user = caller(request)
        role = highest_role(user)
        if role is None or role < Role.OPERATOR:
            detail = "This needs the right to write some table."
            raise PermissionDenied(detail)
        form = UploadRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        file: UploadedFile[bytes] = form.validated_data["file"]
        name = file.name or ""
        body = {"uri": store_upload(file, user), "format": format_of(name), "size_bytes": file.size}
        return Response(UploadSerializer(body).data, status.HTTP_201_CREATED)
