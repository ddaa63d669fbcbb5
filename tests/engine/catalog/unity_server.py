"""Unity Catalog's API in both generations, over HTTP, in front of the model."""

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from engine.catalog.catalog import CatalogTable, CatalogTableName, ProposedCommit, RatifiedCommit
from engine.catalog.unity_messages import (
    BASE_PATH,
    DELTA,
    MANAGED,
    PreviewCommit,
    PreviewCommitInfo,
    PreviewCommits,
    PreviewCommitsRequest,
    StagingTable,
    StagingTableRequest,
    UnityTable,
    V1CatalogConfig,
    V1Commit,
    V1CreateTable,
    V1Protocol,
    V1StagingTable,
    V1Table,
    V1TableMetadata,
    V1UpdateTable,
    schema_from_v1,
)
from engine.errors import (
    CatalogTableMissingError,
    InvalidCommitError,
    TableExistsError,
    TableNotFoundError,
    UnpublishedLimitError,
    VersionTakenError,
)
from tests.engine.catalog.catalogs import ModelCatalog

STATUS = {
    TableNotFoundError: (404, "NoSuchTableException"),
    CatalogTableMissingError: (404, "NoSuchTableException"),
    TableExistsError: (409, "AlreadyExistsException"),
    VersionTakenError: (409, "CommitVersionConflictException"),
    UnpublishedLimitError: (429, "ResourceExhaustedException"),
    InvalidCommitError: (400, "InvalidParameterValueException"),
}
TOKEN = "secret"
OTHER_TABLE = "UpdateRequirementConflictException"


@dataclass
class UnityServer:
    """The state behind the handler; `weather` may change or swallow an answer."""

    model: ModelCatalog
    root: str
    has_v1: bool
    staged: dict[str, CatalogTable] = field(default_factory=dict)
    definitions: dict[str, UnityTable] = field(default_factory=dict)
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    weather: Callable[[str, str], str | None] = lambda _method, _path: None

    def answer(self, method: str, path: str, body: bytes) -> object:  # noqa: PLR0911 - addresses
        parts = [unquote(part) for part in path.strip("/").split("/")]
        match method, parts:
            case "GET", ["delta", "v1", "config"] if self.has_v1:
                return V1CatalogConfig(["POST /v1/x"], "1.0")
            case _, ["delta", "v1", "catalogs", catalog, "schemas", schema, *rest] if self.has_v1:
                return self._v1(method, (catalog, schema), rest, body)
            case "GET" | "POST", ["delta", "preview", "commits"]:
                return self._commits(method, body)
            case "POST", ["staging-tables"]:
                asked = msgspec.json.decode(body, type=StagingTableRequest)
                table = self._stage(
                    CatalogTableName(asked.catalog_name, asked.schema_name, asked.name)
                )
                return StagingTable(table.table_id, table.location)
            case "POST", ["tables"]:
                return self._register(msgspec.json.decode(body, type=UnityTable))
            case "GET" | "DELETE", ["tables", full_name]:
                return self._table(method, full_name)
            case _:
                return self._others(method, parts)

    def _others(self, method: str, parts: list[str]) -> object:  # noqa: PLR0911 - addresses
        match method, parts:
            case "GET", ["tables"]:
                return {"tables": list(self.definitions.values())}
            case "GET", ["catalogs"]:
                return {"catalogs": [{"name": "main"}]}
            case "GET", ["catalogs", name]:
                return {"name": name}
            case "GET", ["schemas"]:
                return {"schemas": [{"name": "default", "catalog_name": "main"}]}
            case "GET", ["schemas", name]:
                catalog, _, schema = name.partition(".")
                return {"name": schema, "catalog_name": catalog, "full_name": name}
            case "POST", ["temporary-table-credentials"]:
                return {"expiration_time": 4_000_000_000_000}
            case _:
                raise TableNotFoundError("/".join(parts))

    def _stage(self, name: CatalogTableName) -> CatalogTable:
        staged = self.model.stage_table(name)
        location = f"{self.root}/{staged.table_id}"
        table = CatalogTable(name, staged.table_id, location)
        self.staged[location] = table
        return table

    def _register(self, asked: UnityTable) -> UnityTable:
        table = self.staged[asked.storage_location]
        first = RatifiedCommit(0, "", 0, 0, 0)
        self.model.register_table(table, ProposedCommit(first))
        stored = {**(asked.properties or {}), "io.unitycatalog.tableId": table.table_id}
        made = msgspec.structs.replace(asked, table_id=table.table_id, properties=stored)
        self.definitions[str(table.name)] = made
        return made

    def _table(self, method: str, full_name: str) -> object:
        name = CatalogTableName(*full_name.split("."))
        self.model.resolve_table(name)
        if method == "DELETE":
            self.model.drop_table(name)
            return {}
        return self.definitions[str(name)]

    def _find(self, table_id: str) -> CatalogTable:
        if table_id not in self.model.tables:
            raise CatalogTableMissingError(table_id)
        return self.model.tables[table_id].table

    def _commits(self, method: str, body: bytes) -> object:
        if method == "GET":
            asked = msgspec.json.decode(body, type=PreviewCommitsRequest)
            answer = self.model.list_commits(self._find(asked.table_id))
            commits = sorted(answer.commits, key=lambda commit: commit.version)
            named = [commit for commit in commits if commit.version >= asked.start_version][:4]
            infos = [PreviewCommitInfo.from_commit(commit) for commit in reversed(named)]
            return PreviewCommits(answer.latest_version, infos)
        told = msgspec.json.decode(body, type=PreviewCommit)
        info = told.commit_info
        commit = None if info is None else info.to_commit()
        self._update(self._find(told.table_id), commit, told.latest_backfilled_version)
        return {}

    def _update(
        self, table: CatalogTable, commit: RatifiedCommit | None, published: int | None
    ) -> None:
        if commit is not None:
            commit.check()
            self.model.ratify(table, ProposedCommit(commit), published)
        elif published is not None:
            self.model.report_published(table, published)

    def _v1(self, method: str, place: tuple[str, str], rest: list[str], body: bytes) -> object:
        if rest == ["staging-tables"]:
            table = self._stage(CatalogTableName(*place, msgspec.json.decode(body)["name"]))
            features = ["catalogManaged", "deletionVectors", "v2Checkpoint", "vacuumProtocolCheck"]
            protocol = V1Protocol(3, 7, features, [*features, "inCommitTimestamp"])
            properties = {"delta.checkpointPolicy": "v2", "delta.enableDeletionVectors": "true"}
            return V1StagingTable(table.table_id, table.location, protocol, properties)
        if rest == ["tables"]:
            asked = msgspec.json.decode(body, type=V1CreateTable)
            assert asked.properties["io.unitycatalog.tableId"]
            assert len(schema_from_v1(asked.columns)) > 0
            self._register(
                UnityTable(
                    name=asked.name,
                    catalog_name=place[0],
                    schema_name=place[1],
                    table_type=asked.table_type,
                    data_source_format=DELTA,
                    storage_location=asked.location,
                    properties=asked.properties,
                )
            )
            return self._v1_table(CatalogTableName(*place, asked.name))
        name = CatalogTableName(*place, rest[1])
        if method == "POST":
            self._v1_update(name, msgspec.json.decode(body, type=V1UpdateTable))
        if method == "DELETE":
            self.model.drop_table(name)
            return {}
        return self._v1_table(name)

    def _v1_update(self, name: CatalogTableName, told: V1UpdateTable) -> None:
        table = self.model.resolve_table(name)
        if told.requirements[0].uuid != table.table_id:
            raise VersionTakenError(OTHER_TABLE)
        actions = {update.action: update for update in told.updates}
        commit = actions["add-commit"].commit if "add-commit" in actions else None
        published = actions.get("set-latest-backfilled-version")
        self._update(
            table,
            None if commit is None else commit.to_commit(),
            None if published is None else published.latest_published_version,
        )
        properties = {**(self.definitions[str(name)].properties or {})}
        for key in actions["remove-properties"].removals if "remove-properties" in actions else ():
            del properties[key]
        if "set-properties" in actions:
            properties |= actions["set-properties"].updates
        made = msgspec.structs.replace(self.definitions[str(name)], properties=properties)
        self.definitions[str(name)] = made

    def _v1_table(self, name: CatalogTableName) -> V1Table:
        table = self.model.resolve_table(name)
        answer = self.model.list_commits(table)
        properties = self.definitions[str(name)].properties or {}
        metadata = V1TableMetadata(
            table_uuid=table.table_id,
            table_type=MANAGED,
            location=table.location,
            etag=str(uuid.uuid4()),
            properties={**properties, "delta.lastUpdateVersion": "1"},
        )
        commits = [V1Commit.from_commit(commit) for commit in answer.commits]
        permitted = sorted(self.model.permitted)
        return V1Table(
            metadata=metadata,
            commits=commits,
            latest_table_version=answer.latest_version,
            permitted_maintenance=permitted,
        )


class _Handler(BaseHTTPRequestHandler):
    unity: UnityServer
    protocol_version = "HTTP/1.1"
    wbufsize = 65_536  # one packet for each answer

    def _handle(self) -> None:
        url = urlsplit(self.path)
        path = url.path.removeprefix(BASE_PATH)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.unity.requests.append((self.command, path, body))
        weather = self.unity.weather(self.command, path)
        if self.headers.get("Authorization") not in (None, f"Bearer {TOKEN}"):
            weather = "401"
        if weather == "lost":
            self.close_connection = True
            return
        if weather is not None and weather[:3].isdigit():
            status, _, wait = weather.partition(" ")
            error = {"message": "weather", "type": "", "code": 0}
            self._send(int(status), {"error": error}, {"Retry-After": wait} if wait else {})
            return
        status, answer = self._answer(path, body)
        if weather == "twice":
            status, answer = self._answer(path, body)
        if weather == "answer lost":
            self.close_connection = True
            return
        self._send(status, answer)

    def _answer(self, path: str, body: bytes) -> tuple[int, object]:
        try:
            return 200, self.unity.answer(self.command, path, body)
        except tuple(STATUS) as error:
            status, kind = STATUS[type(error)]
            if OTHER_TABLE in str(error):
                kind = OTHER_TABLE
            if path.startswith("/delta/v1"):
                return status, {"error": {"message": str(error), "type": kind, "code": status}}
            return status, {"message": str(error), "error_code": kind}
        except (msgspec.MsgspecError, AssertionError, KeyError) as error:
            return 400, {"message": repr(error), "error_code": "INVALID_ARGUMENT"}

    def _send(
        self, status: int, answer: object, headers: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        content = msgspec.json.encode(answer)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_DELETE = _handle  # noqa: N815 - http.server's names

    def log_message(self, *_arguments: object) -> None: ...


@contextmanager
def serve(server: UnityServer) -> Iterator[str]:
    handler = type("Handler", (_Handler,), {"unity": server})
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_port}"
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()
