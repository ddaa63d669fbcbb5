"""The preview's addresses: catalogs, schemas, tables, staging tables, commits, credentials."""

from typing import Any

from django.db.models import ProtectedError
from rest_framework.request import Request
from rest_framework.response import Response

from engine.catalog.unity_messages import DELTA, MANAGED, PreviewCommitInfo
from lakeui.api.unity.base import UnityView, read_id, unquote
from lakeui.api.unity.credentials import expiry_ms, vend
from lakeui.api.unity.errors import DENIED, INVALID, NOT_FOUND, REFUSED, UNIMPLEMENTED, UnityError
from lakeui.api.unity.wire import (
    read_body,
    read_commit,
    read_number,
    read_text,
    show_catalog,
    show_commit,
    show_location,
    show_reserved,
    show_schema,
    show_table,
)
from lakeui.catalog.managed_tables import (
    create_catalog,
    create_schema,
    drop_schema,
    drop_table,
    register_managed,
    reserve_table,
)
from lakeui.catalog.roots import check_table_uri
from lakeui.managed.models import ManagedTable, ReservedTable
from lakeui.managed.ratification import list_commits


class CatalogList(UnityView):
    def get(self, _request: Request) -> Response:
        return self.answer_page(self.list_catalogs(), "catalogs", show_catalog)

    def post(self, request: Request) -> Response:
        self.require("admin")
        body = read_body(request.data)
        row = create_catalog(
            unquote(read_text(body, "name")),
            self.user,
            read_text(body, "storage_root", ""),
            comment=read_text(body, "comment", ""),
            properties=_read_properties(body),
        )
        return Response(show_catalog(row))


class CatalogDetail(UnityView):
    def get(self, _request: Request, name: str) -> Response:
        return Response(show_catalog(self.find_catalog(name)))

    def delete(self, _request: Request, name: str) -> Response:
        row = self.find_catalog(name)
        self.require("admin")
        try:
            row.delete()
        except ProtectedError as error:
            what = f"The catalog {row} has schemas. Drop them first."
            raise UnityError(REFUSED, what) from error
        return Response({})


class SchemaList(UnityView):
    def get(self, request: Request) -> Response:
        catalog = self.find_catalog(request.query_params.get("catalog_name", ""))
        rows = catalog.schemas.select_related("catalog", "created_by")
        return self.answer_page(rows, "schemas", show_schema)

    def post(self, request: Request) -> Response:
        self.require("maintain")
        body = read_body(request.data)
        row = create_schema(
            self.find_catalog(read_text(body, "catalog_name")),
            unquote(read_text(body, "name")),
            self.user,
            comment=read_text(body, "comment", ""),
            properties=_read_properties(body),
        )
        return Response(show_schema(row))


class SchemaDetail(UnityView):
    def get(self, _request: Request, full_name: str) -> Response:
        return Response(show_schema(self.find_schema_named(full_name)))

    def delete(self, request: Request, full_name: str) -> Response:
        row = self.find_schema_named(full_name)
        with_tables = request.query_params.get("force", "").lower() == "true"
        self.require("admin" if with_tables else "maintain")
        drop_schema(row, with_tables=with_tables)
        return Response({})


class StagingTableList(UnityView):
    def post(self, request: Request) -> Response:
        self.require("maintain")
        body = read_body(request.data)
        schema = self.find_schema(read_text(body, "catalog_name"), read_text(body, "schema_name"))
        return Response(
            show_reserved(reserve_table(schema, unquote(read_text(body, "name")), self.user))
        )


class ManagedTableList(UnityView):
    def get(self, request: Request) -> Response:
        names = (request.query_params.get(name, "") for name in ("catalog_name", "schema_name"))
        schema = self.find_schema(*names)
        return self.answer_page(self.list_tables().filter(schema=schema), "tables", show_table)

    def post(self, request: Request) -> Response:
        self.require("maintain")
        body = read_body(request.data)
        kind = (read_text(body, "table_type"), read_text(body, "data_source_format"))
        if kind != (MANAGED, DELTA):
            what = "This catalog has managed Delta tables only. Register others in the dashboard."
            raise UnityError(UNIMPLEMENTED, what)
        schema = self.find_schema(read_text(body, "catalog_name"), read_text(body, "schema_name"))
        reserved = find_reserved(
            self,
            read_text(body, "storage_location"),
            f"{schema}.{unquote(read_text(body, 'name'))}",
        )
        columns = body.get("columns") or []
        if not isinstance(columns, list):
            raise UnityError(INVALID, "columns must be a list.")
        declared = {
            "columns": columns,
            "comment": read_text(body, "comment", ""),
            "properties": _read_properties(body),
        }
        return Response(show_table(register_managed(reserved, declared, is_written=False)))


class ManagedTableDetail(UnityView):
    def get(self, _request: Request, full_name: str) -> Response:
        return Response(show_table(self.find_table(full_name)))

    def delete(self, _request: Request, full_name: str) -> Response:
        row = self.find_table(full_name)
        self.require("admin", row.mirror)
        drop_table(row)
        return Response({})


class CommitList(UnityView):
    def get(self, request: Request) -> Response:
        """Answer the request in the body of this GET."""
        body = read_body(request.data)
        row = self._find(body)
        first = read_number(body, "start_version") or 0
        last = read_number(body, "end_version", optional=True)
        if last is not None and last < first:
            raise UnityError(INVALID, "end_version must not be before start_version.")
        answer = list_commits(row, first, last)
        return Response(
            {
                "commits": [
                    show_commit(commit, PreviewCommitInfo) for commit in answer.commits[::-1]
                ],
                "latest_table_version": max(answer.latest_version, 0),
            }
        )

    def post(self, request: Request) -> Response:
        body = read_body(request.data)
        row = self._find(body)
        said = body.get("commit_info")
        commit = None if said is None else read_commit(said, PreviewCommitInfo)
        published = read_number(body, "latest_backfilled_version", optional=True)
        if commit is None and published is None:
            raise UnityError(INVALID, "Send commit_info or latest_backfilled_version.")
        self.commit(row, commit, published)
        return Response({})

    def _find(self, body: Any) -> ManagedTable:
        """Return the table of a body, whose location must be the table's."""
        row = self.find_table_by_id(read_text(body, "table_id"))
        said = read_text(body, "table_uri").rstrip("/")
        if said != show_location(row.location).rstrip("/") and said != row.location.rstrip("/"):
            raise UnityError(INVALID, f"table_uri is not the location of {row}.")
        return row


class TableCredentials(UnityView):
    changes_nothing = True

    def post(self, request: Request) -> Response:
        body = read_body(request.data)
        text = read_text(body, "table_id")
        operation = read_text(body, "operation")
        location = find_location(self, text, may_write=operation != "READ")
        keys = vend(location)
        vended = {"aws_temp_credentials": keys} if keys else {}
        return Response({**vended, "expiration_time": expiry_ms()})


class UnknownAddress(UnityView):
    def initial(self, request: Request, *arguments: Any, **named: Any) -> None:
        super().initial(request, *arguments, **named)
        raise UnityError(NOT_FOUND, "This catalog does not serve this address.")


def find_reserved(view: UnityView, location: str, full_name: str) -> ReservedTable:
    """Return the caller's reservation of a location for a table."""
    place = check_table_uri(location, field="storage_location")
    rows = ReservedTable.objects.select_related("schema__catalog").filter(location=place)
    row = rows.first()
    if row is None or f"{row}" != full_name:
        what = f"The location was not reserved for {full_name[:600]}. Reserve one first."
        raise UnityError(INVALID, what)
    if row.reserved_by_id != view.user.pk:
        raise UnityError(DENIED, "Another person reserved this location.")
    return row


def find_location(view: UnityView, table_id: str, *, may_write: bool) -> str:
    """Return the location of a table or a reservation that the caller may read or write."""
    reserved = ReservedTable.objects.filter(reserved_by=view.user)
    locations = {str(row.table_id): row.location for row in reserved.filter(**_id_filter(table_id))}
    if table_id in locations:
        return locations[table_id]
    row = view.find_table_by_id(table_id)
    if may_write:
        view.require("write", row.mirror)
    return row.location


def _id_filter(text: str) -> dict[str, Any]:
    return {"table_id": read_id(text)}


def _read_properties(body: Any) -> dict[str, str]:
    properties = body.get("properties") or {}
    if not isinstance(properties, dict) or not all(
        isinstance(value, str) for value in properties.values()
    ):
        raise UnityError(INVALID, "properties must be an object of texts.")
    return properties
