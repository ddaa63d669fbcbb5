"""What a session's own catalogue says of tables: asked in SQL, which every catalogue answers."""

from dataclasses import dataclass

import sqlglot
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from sqlglot import expressions as sql
from sqlglot.errors import SqlglotError

_DETAILS = "# Detailed Table Information"
_PATHS = frozenset({"delta", "lake", "parquet", "csv", "json", "orc", "text", "avro"})
"""Formats before a path in backticks that stands where a table's name would."""


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
        rows = session.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
    except AnalysisException:
        return None
    details: dict[str, str] = {}
    for row in rows:
        if row[0] == _DETAILS or details:
            details.setdefault(str(row[0]).strip().lower(), str(row[1] or ""))
    parts = [details.get(part, "") for part in ("catalog", "database", "table")]
    qualified = details.get("name") or ".".join(part for part in parts if part) or name
    return CataloguedTable(
        qualified, details.get("type", ""), details.get("location", ""), details.get("provider", "")
    )


def places_in(session: SparkSession, text: str) -> list[str] | None:
    """Where the tables are that SQL text names; None where somebody else would have to say."""
    try:
        tree = sqlglot.parse_one(_query(text), dialect="spark")
    except SqlglotError:
        return None
    own = {each.alias_or_name for each in tree.find_all(sql.CTE)}
    places = []
    for table in tree.find_all(sql.Table):
        if not table.db and table.name in own:
            continue
        if table.db.lower() in _PATHS:
            places.append(table.name)
            continue
        try:
            found = find_table(session, table.sql(dialect="spark"))
        except PySparkException:
            return None
        if found is None or found.is_view:
            return None
        places.append(found.location)
    return places


def _query(text: str) -> str:
    name = text.removeprefix("TABLE ")
    return text if name == text else f"SELECT * FROM {name}"  # noqa: S608 - parsed, not run
