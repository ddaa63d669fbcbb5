"""The addresses of v1, the API for Delta clients: one table with its commits, and changes to it."""

from collections.abc import Mapping
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from engine.catalog.catalog import RatifiedCommits
from engine.catalog.unity_messages import MANAGED, V1_PROTOCOL, V1Commit
from lakeui.api.unity.base import UnityView
from lakeui.api.unity.credentials import expiry_ms, vend
from lakeui.api.unity.errors import INVALID, NO_TABLE, REQUIREMENT, UnityError
from lakeui.api.unity.preview import find_location, find_reserved
from lakeui.api.unity.wire import (
    REQUIRED_PROTOCOL,
    SUGGESTED_PROTOCOL,
    first_properties,
    read_body,
    read_commit,
    read_number,
    read_text,
    show_commit,
    show_location,
    show_metadata,
)
from lakeui.catalog.managed_tables import (
    drop_table,
    open_location,
    register_managed,
    reserve_table,
)
from lakeui.managed.models import ManagedTable
from lakeui.managed.ratification import list_commits, read_first

_TABLES = "/v1/catalogs/{catalog}/schemas/{schema}/tables"
ENDPOINTS = (
    "POST /v1/catalogs/{catalog}/schemas/{schema}/staging-tables",
    f"POST {_TABLES}",
    f"GET {_TABLES}/{{table}}",
    f"POST {_TABLES}/{{table}}",
    f"DELETE {_TABLES}/{{table}}",
    f"HEAD {_TABLES}/{{table}}",
    f"GET {_TABLES}/{{table}}/credentials",
    "GET /v1/staging-tables/{table_id}/credentials",
)
_NAMED_AFTER = 20
"""Published commits that an answer names besides the unpublished ones."""
_OF_THE_COMMIT = frozenset(
    {
        "set-properties",
        "remove-properties",
        "set-columns",
        "set-table-comment",
        "set-protocol",
        "set-domain-metadata",
        "remove-domain-metadata",
        "set-partition-columns",
    }
)
"""Changes that the staged commit has too: its actions are the truth."""


class CatalogConfiguration(UnityView):
    def get(self, request: Request) -> Response:
        self.find_catalog(request.query_params.get("catalog", ""))
        versions = request.query_params.get("protocol-versions", "").split(",")
        if not any(version.strip().partition(".")[0] == "1" for version in versions):
            raise UnityError(INVALID, "This catalog speaks version 1.0 of the protocol.")
        return Response({"endpoints": list(ENDPOINTS), "protocol-version": V1_PROTOCOL})


class DeltaStagingTableList(UnityView):
    def post(self, request: Request, catalog: str, schema: str) -> Response:
        self.require("maintain")
        name = read_text(read_body(request.data), "name")
        row = reserve_table(self.find_schema(catalog, schema), name, self.user)
        location = show_location(row.location)
        return Response(
            {
                "table-id": str(row.table_id),
                "table-type": MANAGED,
                "location": location,
                "storage-credentials": show_credentials(row.location, "READ_WRITE"),
                "required-protocol": REQUIRED_PROTOCOL,
                "suggested-protocol": SUGGESTED_PROTOCOL,
                "required-properties": first_properties(str(row.table_id)),
                "suggested-properties": {"delta.enableDeletionVectors": "true"},
            }
        )


class DeltaTableList(UnityView):
    def post(self, request: Request, catalog: str, schema: str) -> Response:
        """Give a staged table its name. Its definition is that of version 0 in its log."""
        self.require("maintain")
        body = read_body(request.data)
        if read_text(body, "table-type") != MANAGED:
            raise UnityError(INVALID, "This catalog has managed tables only.")
        above = self.find_schema(catalog, schema)
        full_name = f"{above}.{read_text(body, 'name')}"
        reserved = find_reserved(self, read_text(body, "location"), full_name)
        return Response(show_loaded(register_managed(reserved, {}, is_written=True)))


class DeltaTableDetail(UnityView):
    def get(self, _request: Request, catalog: str, schema: str, table: str) -> Response:
        return Response(show_loaded(self._find(catalog, schema, table)))

    def head(self, _request: Request, catalog: str, schema: str, table: str) -> Response:
        self._find(catalog, schema, table)
        return Response(status=204)

    def delete(self, _request: Request, catalog: str, schema: str, table: str) -> Response:
        row = self._find(catalog, schema, table)
        self.require("admin", row.mirror)
        drop_table(row)
        return Response(status=204)

    def post(self, request: Request, catalog: str, schema: str, table: str) -> Response:
        """Ratify a commit, or record published versions, if the requirements hold."""
        body, row = read_body(request.data), self._find(catalog, schema, table)
        _check_requirements(_index_parts(body, "requirements", "type"), row)
        updates = _index_parts(body, "updates", "action")
        commit = updates.pop("add-commit", None)
        published = updates.pop("set-latest-backfilled-version", None)
        other = updates.keys() - (_OF_THE_COMMIT if commit else frozenset())
        if other or not (commit or published):
            what = f"Not possible here: {', '.join(sorted(other)) or 'no update'}."
            raise UnityError(INVALID, f"{what} Changes of a managed table come with its commit.")
        self.commit(
            row,
            read_commit(commit.get("commit"), V1Commit) if commit else None,
            read_number(published, "latest-published-version") if published else None,
        )
        row.refresh_from_db()
        return Response(show_loaded(row))

    def _find(self, catalog: str, schema: str, table: str) -> ManagedTable:
        self.find_schema(catalog, schema)
        return self.find_table(f"{catalog}.{schema}.{table}")


class DeltaTableCredentials(UnityView):
    def get(self, request: Request, catalog: str, schema: str, table: str) -> Response:
        row = self.find_table(f"{catalog}.{schema}.{table}")
        operation = request.query_params.get("operation", "")
        if operation not in ("READ", "READ_WRITE"):
            raise UnityError(INVALID, "operation must be READ or READ_WRITE.")
        if operation == "READ_WRITE":
            self.require("write", row.mirror)
        return Response({"storage-credentials": show_credentials(row.location, operation)})


class DeltaStagingCredentials(UnityView):
    def get(self, _request: Request, table_id: str) -> Response:
        location = find_location(self, table_id, may_write=True)
        return Response({"storage-credentials": show_credentials(location, "READ_WRITE")})


def show_credentials(place: str, operation: str) -> list[dict[str, Any]]:
    """Return the credentials of a location; a local one needs none."""
    keys = vend(place)
    if not keys:
        return []
    return [
        {
            "prefix": f"{show_location(place).rstrip('/')}/",
            "operation": operation,
            "expiration-time-ms": expiry_ms(),
            "config": {f"s3.{name.replace('_', '-')}": text for name, text in keys.items()},
        }
    ]


def show_loaded(row: ManagedTable) -> dict[str, Any]:
    """Return a table with its last commits, newest first."""
    answer = list_commits(row)
    row.refresh_from_db()  # its definition is not older than the commits
    if row.latest_version < 0:
        first = read_first(row, open_location(row))
        if first is None:
            raise UnityError(NO_TABLE, f"{row} has no version yet.")
        for field, value in first.items():
            setattr(row, field, value)
        answer = RatifiedCommits(0)
    named = answer.commits[-(answer.latest_version - row.published_version + _NAMED_AFTER) :]
    return {
        "metadata": show_metadata(row),
        "commits": [show_commit(commit, V1Commit) for commit in named[::-1]],
        "latest-table-version": answer.latest_version,
        "permitted-maintenance": row.permitted,
    }


def _index_parts(body: Mapping[str, Any], field: str, kind: str) -> dict[str, Mapping[str, Any]]:
    """Return the parts of a list in a body by their kind, each of which occurs once."""
    parts = body.get(field)
    if not isinstance(parts, list) or not parts:
        raise UnityError(INVALID, f"{field} must be a list that is not empty.")
    by_kind = {read_text(read_body(part), kind): part for part in parts}
    if len(by_kind) < len(parts):
        raise UnityError(INVALID, f"{field} has two of one {kind}.")
    return by_kind


def _check_requirements(said: dict[str, Mapping[str, Any]], row: ManagedTable) -> None:
    if "assert-table-uuid" not in said:
        raise UnityError(INVALID, "requirements must have assert-table-uuid.")
    if unknown := said.keys() - {"assert-table-uuid", "assert-etag"}:
        raise UnityError(INVALID, f"Unknown requirements: {', '.join(sorted(unknown))[:200]}.")
    if read_text(said["assert-table-uuid"], "uuid").lower() != str(row.table_id):
        raise UnityError(REQUIREMENT, f"{row} has another id: it was dropped and created again.")
    etag = said.get("assert-etag")
    if etag is not None and read_text(etag, "etag") != show_metadata(row)["etag"]:
        raise UnityError(REQUIREMENT, f"{row} has changed since it was read.")
