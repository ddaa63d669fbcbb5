"""The settings that decide who conflicts, as a page asks for them in its address."""

from dataclasses import dataclass

from django.http import Http404, HttpRequest

from engine.errors import EngineError
from engine.schema.types import parse_schema
from lakeui.catalog.models import Table
from lakeui.conflicts.isolation.level_impact import PROMISES
from lakeui.conflicts.isolation.proposal import LEVEL, ROW_TRACKING, VECTORS, Proposal, proposal_of

MAX_CLUSTERING_COLUMNS = 4
_SWITCHES = (("vectors", VECTORS), ("row_tracking", ROW_TRACKING))


@dataclass(frozen=True, slots=True)
class WantedSettings:
    """What is asked for, and how the form shows it. `problem` is what cannot be, in words."""

    proposal: Proposal
    level: str
    vectors: bool
    row_tracking: bool
    clustering: str
    problem: str


def wanted_settings(request: HttpRequest, table: Table) -> WantedSettings:
    """What the address asks for; the table's own where it asks for nothing.

    Raises:
        Http404: there is no such level or switch.
    """
    level = request.GET.get("level", "")
    switches = {name: request.GET.get(name, "") for name, _ in _SWITCHES}
    if (level and level not in PROMISES) or any(
        text not in ("", "true", "false") for text in switches.values()
    ):
        msg = "There is no such setting."
        raise Http404(msg)
    asked = {LEVEL: level} | {prop: switches[name] for name, prop in _SWITCHES}
    columns, problem = _columns(request, table)
    properties = {name: value for name, value in asked.items() if value}
    now = ", ".join(table.clustering_columns)
    return WantedSettings(
        proposal=proposal_of(table, properties, columns),
        level=level or table.isolation_level,
        vectors=_switch(switches["vectors"], table.deletion_vectors),
        row_tracking=_switch(switches["row_tracking"], table.row_tracking),
        clustering=request.GET.get("clustering", now)[:500],
        problem=problem,
    )


def _switch(text: str, now: bool) -> bool:
    return text == "true" if text else now


def _columns(request: HttpRequest, table: Table) -> tuple[tuple[str, ...] | None, str]:
    """The columns to cluster by, None where nothing is said of them; and what is wrong with them."""
    if "clustering" not in request.GET:
        return None, ""
    names = tuple(n for n in (each.strip() for each in request.GET["clustering"].split(",")) if n)
    known = column_names(table)
    unknown = [name for name in names if name not in known]
    if unknown:
        return None, f"There is no column {unknown[0][:100]} at the top of the schema."
    if len(names) > MAX_CLUSTERING_COLUMNS or len(set(names)) < len(names):
        return None, f"Name at most {MAX_CLUSTERING_COLUMNS} columns, each once."
    return names, ""


def column_names(table: Table) -> tuple[str, ...]:
    """The top columns; none where the schema cannot be read."""
    try:
        return tuple(each.name for each in parse_schema(table.schema))
    except EngineError:
        return ()
