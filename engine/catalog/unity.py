"""Unity Catalog over HTTP, in both generations of its API.

Needs httpx (`lakeui[client]`).
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from engine.catalog.catalog import (
    Catalog,
    CatalogTable,
    CatalogTableName,
    GroupCommit,
    ProposedCommit,
    RatifiedCommits,
)
from engine.catalog.unity_messages import (
    BASE_PATH,
    DELTA,
    MANAGED,
    PREVIEW_COMMITS,
    V1_CONFIG,
    V1_PROTOCOL,
    CredentialsRequest,
    PreviewCommit,
    PreviewCommitInfo,
    PreviewCommits,
    PreviewCommitsRequest,
    StagingTable,
    StagingTableRequest,
    UnityErrorBody,
    UnityTable,
    V1CatalogConfig,
    V1Commit,
    V1CreateTable,
    V1Credential,
    V1Credentials,
    V1Error,
    V1Protocol,
    V1Requirement,
    V1StagingTable,
    V1Table,
    V1Update,
    V1UpdateTable,
    describe_metadata,
    domain_configurations,
    list_definition_updates,
    list_unity_columns,
    schema_to_v1,
)
from engine.clock import Clock, SystemClock
from engine.errors import (
    CatalogDeniedError,
    CatalogError,
    CatalogTableMissingError,
    InvalidCommitError,
    RequestError,
    StorageOutcomeUnknownError,
    TableExistsError,
    TableNotFoundError,
    UnpublishedLimitError,
    VersionTakenError,
)
from engine.log.management import CATALOG_MANAGED, MAINTENANCE, UNITY_TABLE_ID
from engine.schema.types import parse_schema

Answer = TypeVar("Answer")

_TIMEOUT_S = 30.0
_PAUSES_S = (0.1, 0.5, 2.0)
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
_NOT_FOUND, _TIMEOUT, _CONFLICT, _LIMIT, _NOT_IMPLEMENTED = 404, 408, 409, 429, 501
_PAGINGS = 3
_THROTTLED_REPEATS, _MAX_THROTTLED_S = 2, 60.0
_DENIED = frozenset({401, 403})
_OPTIONS = {
    "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
    "azure.sas-token": "azure_storage_sas_token",
    "gcs.oauth-token": "google_bearer_token",
}
_PREVIEW_OPTIONS = {
    ("aws_temp_credentials", "access_key_id"): "aws_access_key_id",
    ("aws_temp_credentials", "secret_access_key"): "aws_secret_access_key",
    ("aws_temp_credentials", "session_token"): "aws_session_token",
    ("azure_user_delegation_sas", "sas_token"): "azure_storage_sas_token",
    ("gcp_oauth_token", "oauth_token"): "google_bearer_token",
}


class CatalogRefusalError(CatalogError):
    """A request that Unity Catalog refused; nothing changed."""

    def __init__(self, what: str, status: int, kind: str) -> None:
        super().__init__(what, "Read what it says, or ask its administrator.")
        self.status, self.kind = status, kind


class _UnityServer:
    """The connection to a server: requests, repeated where that is safe, and errors by their kind."""

    def __init__(self, client: httpx.Client, clock: Clock) -> None:
        self._client, self._clock = client, clock

    def ask(self, path: str, kind: type[Answer], body: object = None, **params: str) -> Answer:
        """Read something; a failed request is repeated.

        Raises:
            CatalogRefusalError: the server refused; `status` says why.
            CatalogDeniedError: it requires other credentials.
            CatalogError: it failed, or its answer is not understood.
        """
        for pause_s in (*_PAUSES_S, None):
            try:
                return _decode(self._send("GET", path, body, params), kind)
            except (StorageOutcomeUnknownError, UnpublishedLimitError) as error:
                if pause_s is None:
                    raise CatalogError(error.what, error.remedy) from error
                self._clock.pause(pause_s)
        raise AssertionError  # the last pause is None

    def tell(self, method: str, path: str, body: object = None) -> bytes:
        """Change something, once.

        Raises:
            CatalogRefusalError, CatalogDeniedError, CatalogError: as in `ask`.
            UnpublishedLimitError: too many commits or requests.
            StorageOutcomeUnknownError: it may or may not be done.
        """
        return self._send(method, path, body, {})

    def _send(self, method: str, path: str, body: object, params: Mapping[str, str]) -> bytes:
        """Send a request; send it again after the pause for which the server asks by `Retry-After`."""
        address = f"{method} {self._client.base_url}{path.lstrip('/')}"
        answer = self._request(address, method, path, body, params)
        for _ in range(_THROTTLED_REPEATS):
            wait = answer.headers.get("Retry-After", "")
            if answer.status_code != _LIMIT or not wait.isdecimal():
                break
            self._clock.pause(min(float(wait), _MAX_THROTTLED_S))
            answer = self._request(address, method, path, body, params)
        if answer.is_success:
            return answer.content
        raise _error_of(address, answer)

    def _request(
        self, address: str, method: str, path: str, body: object, params: Mapping[str, str]
    ) -> httpx.Response:
        content = None if body is None else msgspec.json.encode(body)
        headers = {} if content is None else {"Content-Type": "application/json"}
        try:
            return self._client.request(
                method, path, content=content, headers=headers, params=params
            )
        except _NOT_SENT as error:
            what = f"{address} could not be sent: {error}."
            raise CatalogError(what, "Check the address, and that the catalog runs.") from error
        except httpx.HTTPError as error:
            what = f"{address} was not answered: {str(error) or type(error).__name__}."
            raise StorageOutcomeUnknownError(
                what, "Find out whether the change was made before you try again."
            ) from error


def _error_of(address: str, answer: httpx.Response) -> CatalogError | StorageOutcomeUnknownError:
    """Return the error of an answer that is not a success."""
    body = _read_error(answer.content)
    kind = body.type or body.error_code
    what = f"{address} was answered by {answer.status_code} {kind}: {body.message[:500]}"
    if answer.status_code in _DENIED:
        return CatalogDeniedError(what, "Use a token with the rights for it.")
    if answer.status_code == _LIMIT:
        return UnpublishedLimitError(what, "Publish the table's commits, or wait.")
    is_refused = not answer.is_server_error or answer.status_code == _NOT_IMPLEMENTED
    if not is_refused or answer.status_code == _TIMEOUT:
        return StorageOutcomeUnknownError(
            what, "Find out whether the change was made before you try again."
        )
    return CatalogRefusalError(what, answer.status_code, kind)


def _read_error(content: bytes) -> UnityErrorBody:
    with suppress(CatalogError):
        return _decode(content, V1Error).error
    with suppress(CatalogError):
        return _decode(content, UnityErrorBody)
    return UnityErrorBody(content[:200].decode(errors="replace"))


def _decode(content: bytes, kind: type[Answer]) -> Answer:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        what = f"The catalog's answer is not understood: {error}."
        raise CatalogError(what, "Check that the address is one of Unity Catalog.") from error


class _PreviewApi:
    """The API of Unity Catalog 0.4, which newer servers also offer."""

    def __init__(self, server: _UnityServer) -> None:
        self._server = server

    def resolve(self, name: CatalogTableName) -> CatalogTable:
        table = self._server.ask(_preview_path(name), UnityTable)
        if table.table_id is None or table.storage_location is None:
            what = f"The catalog's answer about {name} has no id or no location."
            raise InvalidCommitError(what, "Ask the catalog's administrator to look at it.")
        _check_format(name, table.data_source_format)
        return CatalogTable(
            name,
            table.table_id,
            table.storage_location,
            is_managed=table.table_type == MANAGED,
            storage_options=self._credentials(table.table_id, table.storage_location),
        )

    def commits(self, table: CatalogTable) -> RatifiedCommits:
        """Read all pages, again if commits were published between two of them."""
        answer = self._read_pages(table)
        for _ in range(_PAGINGS):
            with suppress(InvalidCommitError):
                return answer.check()
            answer = self._read_pages(table)
        return answer

    def _read_pages(self, table: CatalogTable) -> RatifiedCommits:
        named: dict[int, PreviewCommitInfo] = {}
        start = 0
        while True:
            request = PreviewCommitsRequest(table.table_id, table.location, start)
            answer = self._server.ask(PREVIEW_COMMITS, PreviewCommits, request)
            named |= {commit.version: commit for commit in answer.commits}
            last = max((commit.version for commit in answer.commits), default=-1)
            if last < start or last >= answer.latest_table_version:
                break
            start = last + 1
        latest = answer.latest_table_version
        commits = [commit.to_commit() for commit in named.values() if commit.version <= latest]
        return RatifiedCommits(latest, tuple(commits))

    def ratify(
        self, table: CatalogTable, proposal: ProposedCommit, published_version: int | None
    ) -> None:
        metadata = None if proposal.metadata is None else describe_metadata(proposal.metadata)
        info = PreviewCommitInfo.from_commit(proposal.commit)
        body = PreviewCommit(table.table_id, table.location, info, published_version, metadata)
        self._server.tell("POST", PREVIEW_COMMITS, body)

    def report(self, table: CatalogTable, version: int) -> None:
        body = PreviewCommit(table.table_id, table.location, latest_backfilled_version=version)
        self._server.tell("POST", PREVIEW_COMMITS, body)

    def stage(self, name: CatalogTableName) -> CatalogTable:
        request = StagingTableRequest(name.catalog, name.schema, name.table)
        staged = _decode(self._server.tell("POST", "/staging-tables", request), StagingTable)
        return CatalogTable(
            name,
            staged.id,
            staged.staging_location,
            storage_options=self._credentials(staged.id, staged.staging_location),
            required_properties={UNITY_TABLE_ID: staged.id},
        )

    def register(self, staged: CatalogTable, first: ProposedCommit) -> None:
        metadata = first.metadata
        managed = {f"delta.feature.{CATALOG_MANAGED}": "supported"}
        body = UnityTable(
            name=staged.name.table,
            catalog_name=staged.name.catalog,
            schema_name=staged.name.schema,
            table_type=MANAGED,
            data_source_format=DELTA,
            storage_location=staged.location,
            columns=list_unity_columns(metadata) if metadata else [],
            comment=metadata.description if metadata else None,
            properties={**(metadata.configuration if metadata else {}), **managed},
        )
        self._server.tell("POST", "/tables", body)

    def drop(self, name: CatalogTableName) -> None:
        self._server.tell("DELETE", _preview_path(name))

    def _credentials(self, table_id: str, location: str) -> dict[str, str]:
        """Return temporary credentials for a location in an object store; {} if there are none."""
        if _is_local(location):
            return {}
        for operation in ("READ_WRITE", "READ"):
            request = CredentialsRequest(table_id, operation)
            try:
                answer = self._server.tell("POST", "/temporary-table-credentials", request)
            except CatalogDeniedError:
                continue
            vended: dict[str, Any] = _decode(answer, dict)
            return {
                option: str(vended[group][key])
                for (group, key), option in _PREVIEW_OPTIONS.items()
                if isinstance(vended.get(group), Mapping) and vended[group].get(key)
            }
        return {}


class _V1Api:
    """Version 1 of Unity Catalog's Delta API."""

    def __init__(self, server: _UnityServer) -> None:
        self._server = server

    def resolve(self, name: CatalogTableName) -> CatalogTable:
        table = self._server.ask(_v1_path(name), V1Table)
        location = table.metadata.location
        return CatalogTable(
            name,
            table.metadata.table_uuid,
            location,
            is_managed=table.metadata.table_type == MANAGED,
            permitted=MAINTENANCE.intersection(table.permitted_maintenance),
            storage_options=self._credentials(name, location),
        )

    def commits(self, table: CatalogTable) -> RatifiedCommits:
        answer = self._load(table)
        if answer.latest_table_version is None:
            what = f"The catalog's answer about {table.name} has no latest version."
            raise InvalidCommitError(what, "Ask the catalog's administrator to look at it.")
        commits = tuple(commit.to_commit() for commit in answer.commits)
        return RatifiedCommits(answer.latest_table_version, commits)

    def ratify(
        self, table: CatalogTable, proposal: ProposedCommit, published_version: int | None
    ) -> None:
        commit = V1Commit.from_commit(proposal.commit)
        updates = [V1Update(action="add-commit", commit=commit)]
        if published_version is not None:
            updates.append(_backfill_update(published_version))
        before = self._load(table).metadata.properties if proposal.metadata else {}
        updates += list_definition_updates(
            proposal.metadata, proposal.protocol, proposal.domains, before
        )
        self._update(table, updates)

    def report(self, table: CatalogTable, version: int) -> None:
        self._update(table, [_backfill_update(version)])

    def stage(self, name: CatalogTableName) -> CatalogTable:
        path = f"{_v1_schema_path(name)}/staging-tables"
        staged = _decode(self._server.tell("POST", path, {"name": name.table}), V1StagingTable)
        required = staged.required_protocol
        properties = {k: v for k, v in staged.required_properties.items() if v is not None}
        return CatalogTable(
            name,
            staged.table_id,
            staged.location,
            storage_options=find_options(staged.location, staged.storage_credentials),
            required_features=tuple(sorted({*required.reader_features, *required.writer_features})),
            required_properties={**properties, UNITY_TABLE_ID: staged.table_id},
        )

    def register(self, staged: CatalogTable, first: ProposedCommit) -> None:
        metadata, protocol = first.metadata, first.protocol
        if metadata is None or protocol is None:
            what = f"Version 0 of {staged.name} does not define the table."
            raise InvalidCommitError(what, "Begin it with its protocol and its metadata.")
        body = V1CreateTable(
            staged.name.table,
            staged.location,
            schema_to_v1(parse_schema(metadata.schema_string)),
            V1Protocol.from_action(protocol),
            dict(metadata.configuration),
            first.commit.timestamp_ms,
            MANAGED,
            list(metadata.partition_columns),
            metadata.description,
            domain_configurations(first.domains),
        )
        self._server.tell("POST", f"{_v1_schema_path(staged.name)}/tables", body)

    def drop(self, name: CatalogTableName) -> None:
        self._server.tell("DELETE", _v1_path(name))

    def _load(self, table: CatalogTable) -> V1Table:
        """Load a table by its name, and make sure that it is still the same."""
        answer = self._server.ask(_v1_path(table.name), V1Table)
        if answer.metadata.table_uuid != table.table_id:
            what = f"Another table has the name {table.name} since this one was opened."
            raise CatalogTableMissingError(what)
        return answer

    def _update(self, table: CatalogTable, updates: list[V1Update]) -> None:
        requirement = V1Requirement("assert-table-uuid", uuid=table.table_id)
        body = V1UpdateTable([requirement], updates)
        try:
            self._server.tell("POST", _v1_path(table.name), body)
        except CatalogRefusalError as refusal:
            if refusal.status == _CONFLICT and refusal.kind == "UpdateRequirementConflictException":
                self._load(table)  # raises if the requirement was about another table
            raise

    def _credentials(self, name: CatalogTableName, location: str) -> dict[str, str]:
        """Return temporary credentials for a location in an object store; {} if there are none."""
        if _is_local(location):
            return {}
        path = f"{_v1_path(name)}/credentials"
        for operation in ("READ_WRITE", "READ"):
            try:
                answer = self._server.ask(path, V1Credentials, operation=operation)
            except CatalogDeniedError:
                continue
            return find_options(location, answer.storage_credentials)
        return {}


class UnityCatalog(Catalog):
    """A Unity Catalog server. It speaks version 1 where the server does, else the preview."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        clock: Clock | None = None,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        """Connect to a server, by its address without or with the path of its API."""
        self._url = url.rstrip("/").removesuffix(BASE_PATH)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._client = httpx.Client(
            base_url=f"{self._url}{BASE_PATH}", headers=headers, timeout=timeout_s
        )
        self._server = _UnityServer(self._client, clock or SystemClock())
        self._apis: dict[str, _PreviewApi | _V1Api] = {}

    @property
    def name(self) -> str:
        """The catalog's name."""
        return f"Unity Catalog at {self._url}"

    @property
    def commits_groups(self) -> bool:
        """Whether it ratifies groups: Unity Catalog has no call for it."""
        return False

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def resolve_table(self, name: CatalogTableName) -> CatalogTable:
        """Find a table, and get credentials for its location."""
        return _translate_missing(name, lambda: self._api(name).resolve(name))

    def list_commits(self, table: CatalogTable) -> RatifiedCommits:
        """Return the latest version and the unpublished commits."""
        return _translate_gone(table, lambda: self._api(table.name).commits(table))

    def ratify(
        self, table: CatalogTable, proposal: ProposedCommit, published_version: int | None
    ) -> None:
        """Ratify a staged commit as the version after the latest."""
        api = self._api(table.name)
        try:
            _translate_gone(table, lambda: api.ratify(table, proposal, published_version))
        except CatalogRefusalError as refusal:
            if refusal.status == _CONFLICT:
                raise VersionTakenError(refusal.what) from refusal
            raise

    def ratify_group(
        self, commits: Sequence[GroupCommit], unchanged: Mapping[CatalogTableName, int]
    ) -> None:
        """Refuse: Unity Catalog ratifies one table's commit at a time.

        Raises:
            RequestError: always.
        """
        del commits, unchanged
        what = "Unity Catalog has no call that commits to several tables at once."
        raise RequestError(what, "Use a transaction for each table.", field="steps")

    def report_published(self, table: CatalogTable, version: int) -> None:
        """Tell the catalog that all versions up to one are published."""
        _translate_gone(table, lambda: self._api(table.name).report(table, version))

    def read_versions(self, tables: Sequence[CatalogTable]) -> tuple[int, ...]:
        """Refuse: Unity Catalog answers for one table at a time.

        Raises:
            RequestError: always, unless there is at most one table.
        """
        if len(tables) > 1:
            what = "Unity Catalog has no call that returns the versions of several tables."
            raise RequestError(what, "Read the tables one after the other.", field="tables")
        return tuple(self.list_commits(table).latest_version for table in tables)

    def stage_table(self, name: CatalogTableName) -> CatalogTable:
        """Reserve an id and a location for a new managed table."""
        return _translate_missing(name, lambda: self._api(name).stage(name))

    def register_table(self, staged: CatalogTable, first: ProposedCommit) -> None:
        """Give a staged table its name, once its version 0 is in its log."""
        _translate_missing(staged.name, lambda: self._api(staged.name).register(staged, first))

    def drop_table(self, name: CatalogTableName) -> None:
        """Remove a table from the catalog."""
        _translate_missing(name, lambda: self._api(name).drop(name))

    def _api(self, name: CatalogTableName) -> _PreviewApi | _V1Api:
        """Return the generation that a catalog of the server speaks."""
        api = self._apis.get(name.catalog)
        if api is None:
            api = _V1Api(self._server) if self._has_v1(name) else _PreviewApi(self._server)
            self._apis[name.catalog] = api
        return api

    def _has_v1(self, name: CatalogTableName) -> bool:
        params = {"catalog": name.catalog, "protocol-versions": V1_PROTOCOL}
        try:
            config = self._server.ask(V1_CONFIG, V1CatalogConfig, **params)
        except CatalogRefusalError as refusal:
            if refusal.kind == "NoSuchCatalogException":
                raise
            return False  # the server has no such call, or no version in common
        return config.protocol_version.partition(".")[0] == V1_PROTOCOL.partition(".")[0]


def _translate_missing(name: CatalogTableName, call: Callable[[], Answer]) -> Answer:
    """Call by a name; translate the refusals that it is missing or taken."""
    try:
        return call()
    except CatalogRefusalError as refusal:
        if refusal.status == _NOT_FOUND:
            msg = f"The catalog has no {name}. {refusal.what}"
            raise TableNotFoundError(msg, "Check the name, or create the table.") from refusal
        if refusal.status == _CONFLICT:
            msg = f"The catalog has a table {name} already."
            raise TableExistsError(msg, "Open it, or choose another name.") from refusal
        raise


def _translate_gone(table: CatalogTable, call: Callable[[], Answer]) -> Answer:
    """Call about an open table; translate the refusal of a dropped one."""
    try:
        return call()
    except CatalogRefusalError as refusal:
        if refusal.status == _NOT_FOUND:
            what = f"The catalog no longer has {table.name}. {refusal.what}"
            raise CatalogTableMissingError(what) from refusal
        raise


def _check_format(name: CatalogTableName, data_format: str) -> None:
    if data_format and data_format != DELTA:
        what = f"{name} is a table of the format {data_format}."
        raise RequestError(what, "Open Delta tables only.", field="name")


def _backfill_update(version: int) -> V1Update:
    return V1Update(action="set-latest-backfilled-version", latest_published_version=version)


def _preview_path(name: CatalogTableName) -> str:
    full_name = f"{name.catalog}.{name.schema}.{name.table}"
    return f"/tables/{quote(full_name, safe='')}"


def _v1_schema_path(name: CatalogTableName) -> str:
    catalog, schema = quote(name.catalog, safe=""), quote(name.schema, safe="")
    return f"/delta/v1/catalogs/{catalog}/schemas/{schema}"


def _v1_path(name: CatalogTableName) -> str:
    return f"{_v1_schema_path(name)}/tables/{quote(name.table, safe='')}"


def _is_local(location: str) -> bool:
    return "://" not in location or location.startswith(("file:", "memory:"))


def find_options(location: str, credentials: Sequence[V1Credential]) -> dict[str, str]:
    """Return the most specific credentials of a location as options of its store."""
    inside = f"{location.rstrip('/')}/"
    fitting = [one for one in credentials if inside.startswith(f"{one.prefix.rstrip('/')}/")]
    best = max(fitting, key=lambda one: len(one.prefix), default=None)
    config = best.config if best else {}
    return {_OPTIONS[key]: value for key, value in config.items() if key in _OPTIONS and value}
