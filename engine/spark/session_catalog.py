"""Tables in a session's catalogs: its own, queried in SQL, and those of Unity Catalog's API.

The session names a catalog of the second kind as Unity Catalog's connector does, in the settings
`spark.sql.catalog.<name>.uri` and `.token`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import sqlglot
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped] # it has no types
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from sqlglot import expressions as sql
from sqlglot.errors import SqlglotError

from engine.catalog.catalog import Catalog, CatalogTableName
from engine.errors import RequestError, TableNotFoundError
from engine.expressions.render import quote_string
from engine.spark.jvm import iter_seq
from engine.spark.session import is_remote, plain_sql

SESSION_CATALOG = "spark_catalog"
CATALOG_SCHEME = "catalog:"
"""Before a name of three parts: the place of a table that is opened through its catalog."""
_DETAILS = "# Detailed Table Information"
_PATHS = frozenset({"delta", "lake", "parquet", "csv", "json", "orc", "text", "avro"})
"""Formats before a path in backticks in place of a table name."""

_SHOWN = ("type", "location", "provider")


@dataclass(frozen=True, slots=True)
class SessionTable:
    """A table or view of a catalog; unknown attributes are ""."""

    name: str
    kind: str = ""
    location: str = ""
    provider: str = ""
    owner: str = ""
    description: str = ""

    @property
    def is_view(self) -> bool:
        """Whether it is a query under a name."""
        return "VIEW" in self.kind.upper() or not (self.location or self.provider)


def find_catalog(session: SparkSession, name: str) -> Catalog | None:
    """Return the session's catalog of this name with Unity Catalog's API; None if it has none.

    Raises:
        RequestError: httpx is not installed.
    """
    address = session.conf.get(f"spark.sql.catalog.{name}.uri", None)
    if name == SESSION_CATALOG or not address:
        return None
    return _connect(address, session.conf.get(f"spark.sql.catalog.{name}.token", None) or "")


@lru_cache(maxsize=32)
def _connect(address: str, token: str) -> Catalog:
    try:
        unity: Any = import_module("engine.catalog.unity")
    except ModuleNotFoundError as error:
        what = f"A catalog at {address} needs {error.name}, which is not installed."
        raise RequestError(what, "Install it: pip install 'lakeui[client]'.") from error
    catalog: Catalog = unity.UnityCatalog(address, token)
    return catalog


def _find_in_catalog(session: SparkSession, name: str) -> tuple[bool, SessionTable | None]:
    """Return whether a name is one of Unity Catalog, and its table there; None if it has none."""
    try:
        parsed = CatalogTableName.parse(name)
    except RequestError:
        return False, None
    catalog = find_catalog(session, parsed.catalog)
    if catalog is None:
        return False, None
    try:
        table = catalog.resolve_table(parsed)
    except TableNotFoundError:
        return True, None
    kind = "MANAGED" if table.is_managed else "EXTERNAL"
    return True, SessionTable(str(parsed), kind, f"{CATALOG_SCHEME}{parsed}", "delta")


def find_table(session: SparkSession, name: str) -> SessionTable | None:
    """Return the table of a name as written in SQL; None if there is none."""
    is_elsewhere, table = _find_in_catalog(session, name)
    if is_elsewhere:
        return table
    parts = None if is_remote(session) else _parts_in_session_catalog(session, name)
    if parts is not None:
        return _find_in_session_catalog(session, name, parts)
    return _describe_table(session, name)


def iter_tables(session: SparkSession) -> Iterator[SessionTable]:
    """Iterate over the session catalog's tables and views by database and name.

    Names are `database.table`. Temporary views are skipped.
    """
    inside: Any = session
    catalog, jvm = inside._jsparkSession.sessionState().catalog(), inside._jvm
    for database in sorted(map(str, iter_seq(catalog.listDatabases()))):
        identifiers = iter_seq(catalog.listTables(database, "*", False))
        for identifier in sorted(identifiers, key=lambda one: str(one.table())):
            try:
                table = catalog.getTableMetadata(identifier)
            except AnalysisException:  # dropped meanwhile
                continue
            provider, place = table.provider(), table.storage().locationUri()
            yield SessionTable(
                f"{database}.{identifier.table()}",
                str(table.tableType().name()),
                _place(jvm, place.get()) if place.isDefined() else "",
                str(provider.get()) if provider.isDefined() else "",
            )


def _place(jvm: Any, uri: Any) -> str:  # noqa: ANN401 - py4j's
    """Render a location as stores name it: only `file:` URIs keep their escapes."""
    is_local = uri.getScheme() in (None, "file")
    return str(uri.toString() if is_local else jvm.org.apache.hadoop.fs.Path(uri).toString())


def _parts_in_session_catalog(session: SparkSession, name: str) -> list[str] | None:
    """Return the parts of a name in the session catalog; None if another catalog owns the name."""
    inside: Any = session
    state = inside._jsparkSession.sessionState()
    try:
        parsed = state.sqlParser().parseMultipartIdentifier(name)
    except AnalysisException:
        return None
    parts = [str(part) for part in iter_seq(parsed)]
    if len(parts) == 3:
        return parts if parts[0] == SESSION_CATALOG else None
    current = str(state.catalogManager().currentCatalog().name())
    return parts if len(parts) < 3 and current == SESSION_CATALOG else None


def _find_in_session_catalog(
    session: SparkSession, name: str, parts: list[str]
) -> SessionTable | None:
    """Look a table up in Spark's own catalog directly: SQL takes seconds for Python sources."""
    is_temporary, table = _load_metadata(session, parts)
    if is_temporary:
        return SessionTable(name, "VIEW")
    if table is None:
        return None
    provider, place = table.provider(), table.storage().locationUri()
    return SessionTable(
        str(table.qualifiedName()),
        str(table.tableType().name()),
        str(place.get().toString()) if place.isDefined() else "",
        str(provider.get()) if provider.isDefined() else "",
        str(table.owner()),
        str(table.comment().get()) if table.comment().isDefined() else "",
    )


def find_permanent_view(session: SparkSession, name: str) -> Any:  # noqa: ANN401 - py4j's
    """Return the metadata of a permanent view in the session catalog; None if there is none."""
    parts = _parts_in_session_catalog(session, name)
    table = None if parts is None else _load_metadata(session, parts)[1]
    return table if table is not None and str(table.tableType().name()) == "VIEW" else None


def _load_metadata(session: SparkSession, parts: list[str]) -> tuple[bool, Any]:
    """Return whether a temporary view has the name, else the metadata of its table or view."""
    inside: Any = session
    state = inside._jsparkSession.sessionState()
    own = ".".join(f"`{part.replace('`', '``')}`" for part in parts[-2:])
    identifier = state.sqlParser().parseTableIdentifier(own)
    if state.catalog().isTempView(identifier):
        return True, None
    try:
        return False, state.catalog().getTableMetadata(identifier)
    except AnalysisException:
        return False, None


def _describe_table(session: SparkSession, name: str) -> SessionTable | None:
    try:
        if not session.catalog.tableExists(name):
            return None
        rows = plain_sql(session, f"DESCRIBE TABLE EXTENDED {name}").collect()
    except (PySparkException, Py4JJavaError) as error:
        if "DATA_SOURCE_NOT_FOUND" in str(error):
            return _find_unknown_format(session, name)
        if isinstance(error, AnalysisException):
            return None
        raise
    details: dict[str, str] = {}
    for row in rows:
        if row[0] == _DETAILS or details:
            details.setdefault(str(row[0]).strip().lower(), str(row[1] or ""))
    parts = [details.get(part, "") for part in ("catalog", "database", "table")]
    qualified = details.get("name") or ".".join(part for part in parts if part) or name
    if all(parts) and not details.keys() & {"location", "provider"}:
        details |= _read_table_list(session, *parts)
    return SessionTable(qualified, *(details.get(key, "") for key in _SHOWN))


def _find_unknown_format(session: SparkSession, name: str) -> SessionTable | None:
    """Return a table of a format unknown to the session: Spark does not describe it."""
    named = sqlglot.to_table(name, dialect="spark")
    parts = (
        named.catalog or session.catalog.currentCatalog(),
        named.db or session.catalog.currentDatabase(),
        named.name,
    )
    details = _read_table_list(session, *parts)
    if not details:
        return None
    return SessionTable(".".join(parts), *(details.get(key, "") for key in _SHOWN))


def _read_table_list(
    session: SparkSession, catalog: str, database: str, table: str
) -> dict[str, str]:
    """Return a table's location and format from SHOW TABLE EXTENDED.

    DESCRIBE asks the table's data source for them, and Python data sources know neither.
    """
    within = ".".join(f"`{part.replace('`', '``')}`" for part in (catalog, database))
    rows = plain_sql(
        session, f"SHOW TABLE EXTENDED IN {within} LIKE {quote_string(table)}"
    ).collect()
    texts = [str(row["information"]) for row in rows if row["tableName"].lower() == table.lower()]
    details: dict[str, str] = {}
    for line in "\n".join(texts).partition("\nSchema: ")[0].splitlines():
        key, _, value = line.partition(": ")
        if key == "Location" or (key.lower() in _SHOWN and key.lower() not in details):
            details[key.lower()] = value
    return details


def places_in(session: SparkSession, text: str) -> list[str] | None:
    """Return the locations of the tables in SQL text; None if they cannot be determined here."""
    try:
        tree = sqlglot.parse_one(_query(text), dialect="spark")
    except SqlglotError:
        return None
    own = {cte.alias_or_name for cte in tree.find_all(sql.CTE)}
    places = []
    for table in tree.find_all(sql.Table):
        if not table.db and table.name in own:
            continue
        if table.db.lower() in _PATHS:
            places.append(table.name)
            continue
        try:
            cataloged = find_table(session, table.sql(dialect="spark"))
        except PySparkException:
            return None
        if cataloged is None or cataloged.is_view:
            return None
        places.append(cataloged.location)
    return places


def _query(text: str) -> str:
    name = text.removeprefix("TABLE ")
    return text if name == text else f"SELECT * FROM {name}"  # noqa: S608 - parsed, not run
