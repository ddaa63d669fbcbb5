"""Tables, their versions and files: the mirror, read."""

from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.generics import ListAPIView, RetrieveAPIView, get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from lakeui.api.caller import caller
from lakeui.api.filtering import refuse_unknown
from lakeui.api.idempotency import answer_once
from lakeui.api.preconditions import check_if_match, etag_of
from lakeui.api.schema import IDEMPOTENCY_KEY, IF_MATCH
from lakeui.api.serializers.jobs import JobDetailSerializer
from lakeui.api.serializers.tables import (
    DescriptionSerializer,
    LiveFileSerializer,
    RegistrationSerializer,
    TableDetailSerializer,
    TableSerializer,
)
from lakeui.api.serializers.versions import (
    VersionDetailSerializer,
    VersionFileSerializer,
    VersionSerializer,
)
from lakeui.api.views.jobs import accepted
from lakeui.api.views.of_table import OfTable, annotated_tables, require
from lakeui.catalog.differences import change_of
from lakeui.catalog.filters import CommitFilter, LiveFileFilter, TableFilter
from lakeui.catalog.models import Commit, CommitFile, LiveFile, Table
from lakeui.catalog.registration import register_table
from lakeui.conflicts.version_effects import effects_of, lost_to, resolved_by
from lakeui.jobs.requests import request_create
from lakeui.jobs.stopped_streams import streams_stopped_by
from lakeui.jobs.unregistering import unregister_table


class TableList(ListAPIView[Table]):
    """The tables you may see."""

    queryset = Table.objects.none()
    serializer_class = TableSerializer
    filterset_class = TableFilter

    def get_queryset(self) -> QuerySet[Table]:
        return annotated_tables(self.request).order_by("name")

    @extend_schema(
        request=RegistrationSerializer,
        responses={201: TableDetailSerializer, 202: JobDetailSerializer},
        parameters=[IDEMPOTENCY_KEY],
    )
    def post(self, request: Request) -> Response:
        """Register a table by its `uri` (201), or have a new one made by a job (202)."""
        require(request, "maintain")
        form = RegistrationSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        wanted = form.validated_data
        answer = _registered if "uri" in wanted else _created
        return answer_once(request, lambda: answer(request, wanted))


def _registered(request: Request, wanted: dict[str, Any]) -> Response:
    made = register_table(wanted["uri"], name=wanted["name"], by=caller(request))
    table = annotated_tables(request).get(pk=made.pk)
    where = reverse("api:table", kwargs={"table_id": table.pk}, request=request)
    body = TableDetailSerializer(table).data
    return Response(body, status.HTTP_201_CREATED, headers={"Location": where})


def _created(request: Request, wanted: dict[str, Any]) -> Response:
    kind = "create" if "create" in wanted else "clone"
    job = request_create(
        name=wanted["name"],
        kind=kind,
        parameters=wanted[kind],
        description=wanted["description"],
        requested_by=caller(request),
    )
    return accepted(request, job)


class TableDetail(OfTable):
    """One table."""

    queryset = Table.objects.none()
    serializer_class = TableDetailSerializer

    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002 - from the address
        refuse_unknown(request, frozenset())
        return self._answer(self.table)

    @extend_schema(
        request=DescriptionSerializer,
        responses={200: TableDetailSerializer},
        parameters=[IF_MATCH],
    )
    def patch(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        """Change the description. `If-Match` carries the ETag of what you read."""
        require(request, "maintain", self.table)
        wanted = DescriptionSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        with transaction.atomic():
            table = Table.objects.select_for_update().get(pk=self.table.pk)  # one after the other
            check_if_match(request, etag_of(table))
            table.description = wanted.validated_data["description"]
            table.save(update_fields=["description"])
        self.table.description = table.description
        return self._answer(self.table)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        """Take the table off the list, with all that is on record of it. Its files and log stay."""
        unregister_table(self.table, caller(request))
        return Response(status=status.HTTP_204_NO_CONTENT)

    def _answer(self, table: Table) -> Response:
        body = TableDetailSerializer(table).data
        return Response(body, headers={"ETag": etag_of(table)})


class VersionList(OfTable, ListAPIView[Commit]):
    """The versions of a table that the mirror holds, newest first."""

    queryset = Commit.objects.none()
    serializer_class = VersionSerializer
    filterset_class = CommitFilter

    def get_queryset(self) -> QuerySet[Commit]:
        return self.table.commits.defer("raw").order_by("-version")

    def paginate_queryset(self, queryset: Any) -> Any:
        commits = super().paginate_queryset(queryset)
        _count_met(self.table, commits or ())
        return commits


class VersionDetail(OfTable, RetrieveAPIView[Commit]):
    """One version with its parameters, metrics and raw lines."""

    queryset = Commit.objects.none()
    serializer_class = VersionDetailSerializer
    lookup_field = "version"

    def get_queryset(self) -> QuerySet[Commit]:
        return self.table.commits.all()

    def get_object(self) -> Commit:
        commit: Any = super().get_object()
        table = self.table
        _count_met(table, [commit])
        commit.change, commit.effects = change_of(commit), effects_of(table, commit.version)
        commit.stopped_streams = streams_stopped_by(commit, self.request.user)
        jobs = table.jobs.filter(committed_version=commit.version).order_by("-created_at")
        commit.job_id = jobs.values_list("pk", flat=True).first()
        return commit  # type: ignore[no-any-return]  # with what its serializer shows beside it


def _count_met(table: Table, commits: Sequence[Any]) -> None:
    """Give each commit how many lost to it and how many conflicts it resolved."""
    if commits:
        low, high = min(c.version for c in commits), max(c.version for c in commits)
        beaten, resolved = lost_to(table, low, high), resolved_by(table, low, high)
        for commit in commits:
            commit.lost_to_it = beaten.get(commit.version, 0)
            commit.resolved = resolved.get(commit.version, 0)


class VersionFileList(OfTable, ListAPIView[CommitFile]):
    """The files a version added or removed, up to the mirror's cap (`files_mirrored`)."""

    queryset = CommitFile.objects.none()
    serializer_class = VersionFileSerializer

    def get_queryset(self) -> QuerySet[CommitFile]:
        commit = get_object_or_404(self.table.commits.all(), version=self.kwargs["version"])
        return CommitFile.objects.filter(commit=commit).order_by("action", "path")


class LiveFileList(OfTable, ListAPIView[LiveFile]):
    """The live files of the latest mirrored version, up to the mirror's cap (`live_files_mirrored`)."""

    queryset = LiveFile.objects.none()
    serializer_class = LiveFileSerializer
    filterset_class = LiveFileFilter

    def get_queryset(self) -> QuerySet[LiveFile]:
        return self.table.live_files.order_by("path")
