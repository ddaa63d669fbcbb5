"""Who can make whom lose: the checker's own answer for a table, beside what was seen."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.matrix import (
    ALWAYS,
    NEVER,
    SAME_FILES,
    SAME_ROW,
    Cell,
    conflict_matrix,
)
from engine.conflicts.sketch import Setting
from lakeui.catalog.models import Table
from lakeui.catalog.property_changes import settings_changes
from lakeui.conflicts.level_impact import LEVEL, PROMISES, VECTORS, impact_of
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.observed import DEFAULT_DAYS, Pair, observed_pairs
from lakeui.conflicts.swim_lane import swim_lane
from lakeui.pages.operations import family_of
from lakeui.pages.table_head import table_head, visible_table

ROWS = ("INSERT", "UPDATE", "DELETE", "MERGE", "OPTIMIZE", "OPTIMIZE ZORDER BY")
COLUMNS = (*ROWS, "ALTER, SET")
_GROUPS = {
    "INSERT": "INSERT (blind)",
    "UPDATE": "UPDATE, DELETE, MERGE",
    "DELETE": "UPDATE, DELETE, MERGE",
    "MERGE": "UPDATE, DELETE, MERGE",
    "OPTIMIZE": "OPTIMIZE",
    "OPTIMIZE ZORDER BY": "OPTIMIZE ZORDER BY",
}
_FAMILIES = {
    "INSERT": "write",
    "UPDATE": "update",
    "DELETE": "delete",
    "MERGE": "merge",
    "OPTIMIZE": "optimize",
    "ALTER, SET": "meta",
}
RULE_TEXTS = {
    NEVER: "No check finds the two meeting, whatever rows they touch: both commit, in either order.",
    SAME_ROW: "Files that both touch are compared by rows. Nothing in common: the deletion vectors "
    "are merged and the later commit goes on. One row in common: the later one loses.",
    SAME_FILES: "Files decide here: if the later write read or removed a file that the earlier one "
    "added to or rewrote, it loses, whichever rows they touched.",
    ALWAYS: "A change of metadata fails every write that began before it, whatever it touches.",
}
_SETTINGS_SHOWN = 8
_REORDERED_SHOWN = 20


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """`preview` is the verdict under the settings looked at, empty where it stays."""

    current: str
    winner: str
    verdict: str
    preview: str
    escaped: int
    absorbed: int

    @property
    def key(self) -> str:
        return f"{self.current}|{self.winner}"

    @property
    def css(self) -> str:
        return {NEVER: "v-none", ALWAYS: "v-x"}.get(self.preview or self.verdict, "v-half")


@login_required
def isolation(request: HttpRequest, pk: int) -> HttpResponse:
    table = visible_table(request, pk)
    return render(request, "tables/isolation.html", _context(request, table))


def _context(request: HttpRequest, table: Table) -> dict[str, Any]:
    wanted = _wanted(request, table)
    pairs = observed_pairs(table)
    cells = list(_cells(table, wanted, pairs))
    picked = _picked(request, cells)
    reordered = swim_lane(table).reordered
    return {
        "table": table,
        "head": table_head(request, table, "isolation"),
        "columns": COLUMNS,
        "matrix": [(row, [cell for cell in cells if cell.current == row]) for row in ROWS],
        "wanted": wanted,
        "wanted_json": json.dumps({"properties": wanted}),
        "impact": impact_of(table, wanted) if wanted else None,
        "promises": PROMISES,
        "settings_changes": settings_changes(table, _SETTINGS_SHOWN),
        "level": wanted.get(LEVEL, table.isolation_level),
        "vectors": wanted.get(VECTORS, str(table.deletion_vectors).lower()) == "true",
        "picked": picked,
        "examples": _examples(table, picked),
        "rule_texts": RULE_TEXTS,
        "days": DEFAULT_DAYS,
        "sums": _sums(pairs),
        "reordered": reordered[-_REORDERED_SHOWN:][::-1],
        "reordered_count": len(reordered),
        "twin": f"/api/v1/tables/{table.pk}/isolation/",
    }


def _wanted(request: HttpRequest, table: Table) -> dict[str, str]:
    """Settings that differ from the table's, as properties to set."""
    level, vectors = request.GET.get("level", ""), request.GET.get("vectors", "")
    if (level and level not in PROMISES) or vectors not in ("", "true", "false"):
        msg = "There is no such setting."
        raise Http404(msg)
    wanted = {}
    if level and level != table.isolation_level:
        wanted[LEVEL] = level
    if vectors and vectors != str(table.deletion_vectors).lower():
        wanted[VECTORS] = vectors
    return wanted


def _setting(table: Table, wanted: Mapping[str, str]) -> Setting:
    level = wanted.get(LEVEL, table.isolation_level) or IsolationLevel.WRITE_SERIALIZABLE
    vectors = wanted.get(VECTORS, str(table.deletion_vectors).lower()) == "true"
    return Setting(
        IsolationLevel(level), vectors, bool(table.partition_columns), table.row_tracking
    )


@lru_cache(maxsize=16)
def _verdicts(setting: Setting) -> Mapping[tuple[str, str], Cell]:
    return {(cell.current, cell.winner): cell for cell in conflict_matrix(setting)}


def _cells(
    table: Table, wanted: Mapping[str, str], pairs: tuple[Pair, ...]
) -> Iterator[MatrixCell]:
    now, then = _verdicts(_setting(table, {})), _verdicts(_setting(table, wanted))
    seen = _seen(pairs)
    for row in ROWS:
        for column in COLUMNS:
            key = (_GROUPS[row], _GROUPS.get(column, ""))
            verdict = now[key].verdict if key in now else ALWAYS
            after = then[key].verdict if key in then else ALWAYS
            escaped, absorbed = seen.get(
                (_FAMILIES.get(row, ""), _FAMILIES.get(column, "")), (0, 0)
            )
            yield MatrixCell(
                row, column, verdict, after if after != verdict else "", escaped, absorbed
            )


def _seen(pairs: tuple[Pair, ...]) -> dict[tuple[str, str], tuple[int, int]]:
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for pair in pairs:
        key = (family_of(pair.current_operation), family_of(pair.winner_operation))
        escaped, absorbed = found.get(key, (0, 0))
        found[key] = (escaped + pair.escaped + pair.reported, absorbed + pair.absorbed)
    return found


def _sums(pairs: tuple[Pair, ...]) -> dict[str, int]:
    return {
        "escaped": sum(pair.escaped + pair.reported for pair in pairs),
        "absorbed": sum(pair.absorbed for pair in pairs),
    }


def _picked(request: HttpRequest, cells: list[MatrixCell]) -> MatrixCell | None:
    key = request.GET.get("cell", "")
    return next((cell for cell in cells if cell.key == key), None)


def _examples(table: Table, picked: MatrixCell | None) -> list[Conflict]:
    """The latest conflicts of the pair that a cell stands for."""
    if picked is None:
        return []
    sides = (_FAMILIES.get(picked.current, ""), _FAMILIES.get(picked.winner, ""))
    recent = table.conflicts.defer("facts").order_by("-occurred_at")[:300]
    alike = [
        each
        for each in recent
        if (family_of(each.current_operation), family_of(each.winner_operation)) == sides
    ]
    return alike[:6]
