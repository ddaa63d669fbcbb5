"""What became of recorded losses, had rows decided: passed, lost all the same, or undecidable.

Judged from what is on record: the rule that fired, both conditions, what the matrix says of the two
kinds of statement on an eligible table. "Passes" is said only where it is certain.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from django.utils import timezone

from engine.conflicts.checker import CHECKS, FILE_RULES
from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.matrix import NEVER, conflict_matrix
from engine.conflicts.sketch import Setting
from lakeui.catalog.models import Table
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.replay.what_if import Verdict
from lakeui.conflicts.statements.clients import THIS_ENGINE, client_of
from lakeui.conflicts.statements.conditions import certainly_apart, shape_of, understood

DAYS = 30
MAX_LOSSES = 200
_RULE_OF_ERROR = {check.error.__name__: check.name for check in reversed(CHECKS)}
_FIELDS = (
    "pk", "occurred_at", "exception", "rule", "subclass", "row_count", "current_operation",
    "current_predicate", "winner_operation", "winning_version", "wasted_ms", "wasted_bytes",
    "job__statement",
)  # fmt: skip
_SAME = "rows were compared, and both had changed the same"
_MOVED = "whether the winner's new rows match its condition is not recorded"


@dataclass(frozen=True, slots=True)
class LossVerdict:
    """A recorded loss and what rows would have said, with why."""

    conflict_id: int
    occurred_at: datetime
    current_operation: str
    winner_operation: str
    rule: str
    wasted_ms: int
    wasted_bytes: int
    verdict: Verdict
    why: str


@dataclass(frozen=True, slots=True)
class Winner:
    """The commit that a write lost to, by what the mirror keeps of it.

    `orders_rows`: a compaction whose rows cannot be followed, for their order or for its engine.
    """

    operation: str
    predicate: str
    orders_rows: bool


@dataclass(frozen=True, slots=True)
class RowVerdicts:
    """The losses of the last `DAYS`, at most the latest `MAX_LOSSES`; `is_capped`: there are more."""

    losses: tuple[LossVerdict, ...]
    is_capped: bool = False

    def of(self, verdict: Verdict) -> list[LossVerdict]:
        """Those that would have ended so."""
        return [each for each in self.losses if each.verdict == verdict]

    def of_pair(self, current: str, winner: str) -> "RowVerdicts":
        """Those of two operations; an empty name stands for any."""
        return RowVerdicts(
            tuple(
                each
                for each in self.losses
                if (not current or each.current_operation == current)
                and (not winner or each.winner_operation == winner)
            )
        )


def row_verdicts(table: Table) -> RowVerdicts:
    """Judge a table's losses as if it were eligible, in two queries."""
    since = timezone.now() - timedelta(days=DAYS)
    lost = table.conflicts.filter(occurred_at__gte=since).exclude(kind=Conflict.Kind.ABSORBED)
    rows = list(lost.order_by("-occurred_at", "-pk").values(*_FIELDS)[: MAX_LOSSES + 1])
    schema = json.dumps(table.schema)
    winners = _winners(table, {row["winning_version"] for row in rows} - {None})
    judged = tuple(_judged(row, winners, schema) for row in rows[:MAX_LOSSES])
    return RowVerdicts(judged, is_capped=len(rows) > MAX_LOSSES)


def _winners(table: Table, versions: Iterable[int]) -> Mapping[int, Winner]:
    rows = table.commits.filter(version__in=list(versions)).values(
        "version", "operation", "predicate", "operation_parameters", "engine_info"
    )
    return {row["version"]: _winner(row) for row in rows}


def _winner(row: Mapping[str, Any]) -> Winner:
    parameters = row["operation_parameters"] or {}
    ordered = str(parameters.get("zOrderBy") or "[]") != "[]" or bool(parameters.get("clusterBy"))
    is_traced = client_of(row["engine_info"]).name == THIS_ENGINE and not ordered
    return Winner(
        operation=row["operation"],
        predicate=row["predicate"],
        orders_rows=not is_traced,
    )


def _judged(row: Mapping[str, Any], winners: Mapping[int, Winner], schema: str) -> LossVerdict:
    rule = row["rule"] or _RULE_OF_ERROR.get(row["exception"], "")
    verdict, why = next(_opinions(row, rule, winners.get(row["winning_version"]), schema))
    return LossVerdict(
        conflict_id=row["pk"],
        occurred_at=row["occurred_at"],
        current_operation=row["current_operation"],
        winner_operation=row["winner_operation"],
        rule=rule,
        wasted_ms=row["wasted_ms"],
        wasted_bytes=row["wasted_bytes"],
        verdict=verdict,
        why=why,
    )


def _opinions(
    row: Mapping[str, Any], rule: str, winner: Winner | None, schema: str
) -> Iterator[tuple[Verdict, str]]:
    """What can be said, the surest first."""
    if rule and rule not in FILE_RULES:
        yield Verdict.CONFLICT, "it has nothing to do with rows"
    if row["subclass"] == "ROW_LEVEL_CHANGES" or row["row_count"] is not None:
        yield Verdict.CONFLICT, _SAME
    if row["subclass"] == "WHOLE_TABLE_READ":
        yield Verdict.CONFLICT, "it had read the whole table"
    if obstacle := _obstacle(row["current_predicate"], schema):
        yield Verdict.CONFLICT, f"{obstacle}: files decide all the same"
    if "OPTIMIZE" in (row["current_operation"], row["winner_operation"]):
        yield _of_compaction(row, winner)
    yield _by_conditions(row, winner, schema)


def _obstacle(predicate: str, schema: str) -> str | None:
    return understood(shape_of(predicate), schema).obstacle if predicate else None


def _by_conditions(
    row: Mapping[str, Any], winner: Winner | None, schema: str
) -> tuple[Verdict, str]:
    current = row["current_predicate"]
    if not current or winner is None or not winner.predicate:
        whose = "the winner's" if current else "its"
        return Verdict.UNDECIDABLE, f"{whose} condition is not recorded"
    if not certainly_apart(current, winner.predicate, schema):
        return Verdict.UNDECIDABLE, "both conditions can select the same rows"
    statement = (row["job__statement"] or "").upper()
    if row["current_operation"] == "MERGE" and (not statement or "BY SOURCE" in statement):
        return (
            Verdict.UNDECIDABLE,
            "whether its MERGE also reads rows without a match is not recorded",
        )
    if winner.operation != "DELETE":
        return Verdict.UNDECIDABLE, _MOVED
    return Verdict.PASSES, "no row fits both conditions"


def _of_compaction(row: Mapping[str, Any], winner: Winner | None) -> tuple[Verdict, str]:
    """By the matrix of an eligible table, if the compaction keeps the order of the rows."""
    mine = _group(row["current_operation"], ordered=_is_ordering(row["job__statement"]))
    theirs = _group(row["winner_operation"], ordered=winner is None or winner.orders_rows)
    if _cells().get((mine, theirs)) == NEVER:
        return Verdict.PASSES, "a compaction moves rows and changes none"
    return Verdict.UNDECIDABLE, "whether the compaction's rows can be followed is not recorded"


def _is_ordering(statement: str | None) -> bool:
    """Whether a compaction may order rows anew; one whose statement is not known may."""
    return not statement or "ZORDER" in statement.upper()


def _group(operation: str, ordered: bool) -> str:
    if operation in {"UPDATE", "DELETE", "MERGE"}:
        return "UPDATE, DELETE, MERGE"
    return "OPTIMIZE ZORDER BY" if operation == "OPTIMIZE" and ordered else operation


@lru_cache(maxsize=1)
def _cells() -> Mapping[tuple[str, str], str]:
    setting = Setting(level=IsolationLevel.WRITE_SERIALIZABLE, vectors=True)
    return {(cell.current, cell.winner): cell.verdict for cell in conflict_matrix(setting)}
