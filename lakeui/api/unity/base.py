"""What every address of Unity Catalog's API shares: tokens, rights, names and commits."""

import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from django.contrib.auth.models import User
from django.db.models import Model, QuerySet
from rest_framework.permissions import IsAuthenticated
from rest_framework.response import Response
from rest_framework.views import APIView

from engine.catalog.catalog import ProposedCommit, RatifiedCommit
from engine.protocol.clustering import CLUSTERING_DOMAIN
from lakeui.api.authentication import BearerAuthentication, ChangesAllowed, caller
from lakeui.api.throttles import CatalogThrottle
from lakeui.api.unity.errors import (
    DENIED,
    INVALID,
    NO_CATALOG,
    NO_SCHEMA,
    NO_TABLE,
    UnityError,
    answer_error,
)
from lakeui.catalog.access import RETENTION_PROPERTIES, highest_role, may, visible_tables
from lakeui.catalog.managed_tables import open_location
from lakeui.catalog.models import Table
from lakeui.catalog.roles import Role
from lakeui.managed.models import ManagedCatalog, ManagedSchema, ManagedTable
from lakeui.managed.ratification import (
    CommitOrigin,
    check_proposal,
    check_published,
    note_published,
    ratify,
)

_PAGE = 1000
_Row = TypeVar("_Row", bound=Model)


class UnityView(APIView):
    """A view of the API. Its callers are programs, so only bearer tokens count."""

    authentication_classes = [BearerAuthentication]
    permission_classes = [IsAuthenticated, ChangesAllowed]
    throttle_classes = [CatalogThrottle]
    schema = None  # Unity Catalog documents it

    def get_exception_handler(self) -> Any:
        return answer_error

    @property
    def user(self) -> User:
        return caller(self.request)

    def require(self, action: str, table: Table | None = None) -> None:
        """Refuse a caller who lacks a right."""
        if not may(self.user, action, table):
            what = f"This requires the right to {action} {table.name if table else 'all tables'}."
            raise UnityError(DENIED, what)

    def list_catalogs(self) -> QuerySet[ManagedCatalog]:
        """Return the catalogs, for anyone who may see a table."""
        role = highest_role(self.user)
        everything = ManagedCatalog.objects.select_related("created_by")
        return everything if role is not None and role >= Role.VIEWER else everything.none()

    def find_catalog(self, name: str) -> ManagedCatalog:
        """Return the catalog of a name."""
        row = self.list_catalogs().filter(name=unquote(name)).first()
        if row is None:
            raise UnityError(NO_CATALOG, f"There is no catalog {name[:255]}.")
        return row

    def find_schema(self, catalog: str, name: str) -> ManagedSchema:
        """Return the schema of a name."""
        above = self.find_catalog(catalog)
        row = above.schemas.select_related("catalog").filter(name=unquote(name)).first()
        if row is None:
            raise UnityError(NO_SCHEMA, f"There is no schema {above}.{name[:255]}.")
        return row

    def find_schema_named(self, full_name: str) -> ManagedSchema:
        """Return the schema of a name in two parts."""
        catalog, _, name = full_name.partition(".")
        return self.find_schema(catalog, name)

    def list_tables(self) -> QuerySet[ManagedTable]:
        """Return the tables visible to the caller."""
        tables = ManagedTable.objects.filter(dropped_at=None, mirror__in=visible_tables(self.user))
        return tables.select_related("mirror", "created_by")

    def find_table(self, full_name: str) -> ManagedTable:
        """Return the table of a name in three parts."""
        name = ".".join(map(unquote, full_name.split(".")))
        row = self.list_tables().filter(full_name=name).first()
        if row is None:
            raise UnityError(NO_TABLE, f"There is no table {full_name[:600]}.")
        return row

    def find_table_by_id(self, text: str) -> ManagedTable:
        """Return the table of an id."""
        table_id = read_id(text)
        row = self.list_tables().filter(table_id=table_id).first() if table_id else None
        if row is None:
            raise UnityError(NO_TABLE, f"There is no table with the id {text[:100]}.")
        return row

    def commit(
        self, managed: ManagedTable, commit: RatifiedCommit | None, published: int | None
    ) -> None:
        """Ratify a commit, and record published versions; repeating the request changes nothing."""
        self.require("write", managed.mirror)
        store = open_location(managed)
        if published is not None:
            check_published(managed, store, published)
        if commit is not None:
            origin = self._origin()
            proposal = check_proposal(managed, commit, origin, store)
            if proposal is not None:
                self.require(_action_of(proposal, managed), managed.mirror)
                ratify(managed, proposal, origin, published)
                return
        if published is not None:
            note_published(managed, published)

    def answer_page(
        self, rows: QuerySet[_Row], named: str, show: Callable[[_Row], Mapping[str, Any]]
    ) -> Response:
        """Answer with one page of rows in the order of their unique names."""
        parameters = self.request.query_params
        after, text = parameters.get("page_token", ""), parameters.get("max_results") or "0"
        if not text.isascii() or not text.isdigit() or len(text) > 9:
            raise UnityError(INVALID, "max_results must be a number.")
        most = min(int(text) or _PAGE, _PAGE)
        ordered = rows.order_by("name").filter(**{"name__gt": after} if after else {})
        page = list(ordered[: most + 1])
        body: dict[str, Any] = {named: [show(row) for row in page[:most]], "next_page_token": None}
        if len(page) > most:
            body["next_page_token"] = str(page[most - 1].name)  # type: ignore[attr-defined]
        return Response(body)

    def _origin(self) -> CommitOrigin:
        token = str(getattr(self.request.auth, "name", ""))[:100]
        client = self.request.headers.get("User-Agent", "").replace("\0", "")[:200]
        return CommitOrigin(self.user.pk, token, client)


def unquote(name: str) -> str:
    """Return a name without the backticks that some clients put around it."""
    return name.strip("`")


def read_id(text: str) -> uuid.UUID | None:
    """Return an id; None if the text is not an id."""
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def _action_of(proposal: ProposedCommit, managed: ManagedTable) -> str:
    """Return the right that a commit needs for its changes, the same as for jobs."""
    clusters = any(domain.domain == CLUSTERING_DOMAIN for domain in proposal.domains)
    if proposal.metadata is None:
        return "maintain" if proposal.protocol is not None or clusters else "write"
    before = _retention(managed.definition.get("metaData", {}).get("configuration", {}))
    return "maintain" if before == _retention(proposal.metadata.configuration) else "admin"


def _retention(configuration: Mapping[str, str]) -> dict[str, str]:
    lowered = {name.lower(): value for name, value in configuration.items()}
    return {name: value for name, value in lowered.items() if name in RETENTION_PROPERTIES}
