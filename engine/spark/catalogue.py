"""What a session's own catalogue says of tables: asked in SQL, which every catalogue answers."""

from dataclasses import dataclass

import sqlglot
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped] # it has no types
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from sqlglot import expressions as sql
from sqlglot.errors import SqlglotError

from engine.expressions.render import quote_string

_DETAILS = "# Detailed Table Information"
_PATHS = frozenset({"delta", "lake", "parquet", "csv", "json", "orc", "text", "avro"})
"""Formats before a path in backticks that stands where a table's name would."""

_SHOWN = ("type", "location", "provider")


@dataclass(frozen=True, slots=True)
class CataloguedTable:
    """A table or view of a catalogue. What is not said is ""."""

    name: str
    kind: str = ""
    location: str = ""
    provider: str = ""

    @property
    def is_view(self) -> bool:
        """Whether it is a query under a name."""
        return "VIEW" in self.kind.upper() or not (self.location or self.provider)


def find_table(session: SparkSession, name: str) -> CataloguedTable | None:
    """The table of a name as SQL writes it; None where there is none."""
    try:
        if not session.catalog.tableExists(name):
            return None
        rows = session.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
    except (PySparkException, Py4JJavaError) as error:
        if "DATA_SOURCE_NOT_FOUND" in str(error):
            return _of_unknown_format(session, name)
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
        details |= _listed(session, *parts)
    return CataloguedTable(qualified, *(details.get(key, "") for key in _SHOWN))


def _of_unknown_format(session: SparkSession, name: str) -> CataloguedTable | None:
    """A table of a format that nothing serves in the session: Spark does not describe it."""
    named = sqlglot.to_table(name, dialect="spark")
    parts = (
        named.catalog or session.catalog.currentCatalog(),
        named.db or session.catalog.currentDatabase(),
        named.name,
    )
    details = _listed(session, *parts)
    if not details:
        return None
    return CataloguedTable(".".join(parts), *(details.get(key, "") for key in _SHOWN))


def _listed(session: SparkSession, catalog: str, database: str, table: str) -> dict[str, str]:
    """Where a table is and of which format, as the list of tables shows it.

    DESCRIBE asks the source of a table for them, and sources written in Python know neither.
    """
    within = ".".join(f"`{part.replace('`', '``')}`" for part in (catalog, database))
    rows = session.sql(f"SHOW TABLE EXTENDED IN {within} LIKE {quote_string(table)}").collect()
    texts = [str(row["information"]) for row in rows if row["tableName"].lower() == table.lower()]
    details: dict[str, str] = {}
    for line in "\n".join(texts).partition("\nSchema: ")[0].splitlines():
        key, _, value = line.partition(": ")
        if key == "Location" or (key.lower() in _SHOWN and key.lower() not in details):
            details[key.lower()] = value
    return details


def places_in(session: SparkSession, text: str) -> list[str] | None:
    """Where the tables are that SQL text names; None where somebody else would have to say."""
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
            catalogued = find_table(session, table.sql(dialect="spark"))
        except PySparkException:
            return None
        if catalogued is None or catalogued.is_view:
            return None
        places.append(catalogued.location)
    return places


def _query(text: str) -> str:
    name = text.removeprefix("TABLE ")
    return text if name == text else f"SELECT * FROM {name}"  # noqa: S608 - parsed, not run
