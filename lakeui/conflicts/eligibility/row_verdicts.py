"""Aborted writes judged at row level: passed, still aborted, or undecidable."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from engine.conflict_facts import Rule, Verdict
from engine.conflicts.predict.record_replay import ReplaySetting, judge_conflict
from lakeui.catalog.models import Table
from lakeui.conflicts.assessment import eligible_setting, level_of
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.replay.recorded_history import prepare_for_judgment, records_of

DAYS = 30
MAX_ABORTED = 200


@dataclass(frozen=True, slots=True)
class AbortedVerdict:
    """A recorded conflict and its verdict at row level, with the reason."""

    conflict_id: int
    occurred_at: datetime
    current_operation: str
    winner_operation: str
    rule: Rule | None
    wasted_ms: int
    wasted_bytes: int
    verdict: Verdict
    why: str


@dataclass(frozen=True, slots=True)
class RowVerdicts:
    """The conflicts of the last `DAYS`, at most the latest `MAX_ABORTED`; `is_capped`: there are more."""

    conflicts: tuple[AbortedVerdict, ...]
    is_capped: bool = False

    def filter_by_verdict(self, verdict: Verdict) -> list[AbortedVerdict]:
        """Return the writes with this verdict."""
        return [conflict for conflict in self.conflicts if conflict.verdict == verdict]

    def filter_by_pair(self, current: str, winner: str) -> "RowVerdicts":
        """Return the writes of two operations; an empty name stands for any."""
        return RowVerdicts(
            tuple(
                conflict
                for conflict in self.conflicts
                if (not current or conflict.current_operation == current)
                and (not winner or conflict.winner_operation == winner)
            )
        )


def row_verdicts(table: Table) -> RowVerdicts:
    """Judge a table's aborted writes at their own level as if rows had decided, in two queries."""
    since = timezone.now() - timedelta(days=DAYS)
    aborted = table.conflicts.filter(occurred_at__gte=since).exclude(kind=Conflict.Kind.RESOLVED)
    latest = list(prepare_for_judgment(aborted).order_by("-occurred_at", "-pk")[: MAX_ABORTED + 1])
    conflicts = latest[:MAX_ABORTED]
    records = records_of(table, conflicts)
    judged = []
    for conflict in conflicts:
        record = records[conflict.pk]
        level = level_of(record.level, table)
        asked = ReplaySetting(level, True, False, eligible_setting(table, level))
        judgement = judge_conflict(record, asked)
        judged.append(
            AbortedVerdict(
                conflict_id=conflict.pk,
                occurred_at=conflict.occurred_at,
                current_operation=conflict.current_operation,
                winner_operation=conflict.winner_operation,
                rule=record.rule,
                wasted_ms=conflict.wasted_ms,
                wasted_bytes=conflict.wasted_bytes,
                verdict=judgement.verdict,
                why=judgement.why,
            )
        )
    return RowVerdicts(tuple(judged), is_capped=len(latest) > MAX_ABORTED)
