"""What became of recorded losses, had rows decided: passed, lost all the same, or undecidable."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from engine.conflict_facts import Rule, Verdict
from engine.conflicts.recorded import Asked, judge_conflict
from lakeui.catalog.models import Table
from lakeui.conflicts.assessment import eligible_setting, level_of
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.replay.records import records_of, to_judge

DAYS = 30
MAX_LOSSES = 200


@dataclass(frozen=True, slots=True)
class LossVerdict:
    """A recorded loss and what rows would have said, with why."""

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
    """The losses of the last `DAYS`, at most the latest `MAX_LOSSES`; `is_capped`: there are more."""

    losses: tuple[LossVerdict, ...]
    is_capped: bool = False

    def of(self, verdict: Verdict) -> list[LossVerdict]:
        """Those that would have ended so."""
        return [loss for loss in self.losses if loss.verdict == verdict]

    def of_pair(self, current: str, winner: str) -> "RowVerdicts":
        """Those of two operations; an empty name stands for any."""
        return RowVerdicts(
            tuple(
                loss
                for loss in self.losses
                if (not current or loss.current_operation == current)
                and (not winner or loss.winner_operation == winner)
            )
        )


def row_verdicts(table: Table) -> RowVerdicts:
    """Judge a table's losses at their own level as if rows had decided, in two queries."""
    since = timezone.now() - timedelta(days=DAYS)
    lost = table.conflicts.filter(occurred_at__gte=since).exclude(kind=Conflict.Kind.RESOLVED)
    latest = list(to_judge(lost).order_by("-occurred_at", "-pk")[: MAX_LOSSES + 1])
    losses = latest[:MAX_LOSSES]
    records = records_of(table, losses)
    judged = []
    for loss in losses:
        record = records[loss.pk]
        level = level_of(record.level, table)
        asked = Asked(level, True, False, eligible_setting(table, level))
        judgement = judge_conflict(record, asked)
        judged.append(
            LossVerdict(
                conflict_id=loss.pk,
                occurred_at=loss.occurred_at,
                current_operation=loss.current_operation,
                winner_operation=loss.winner_operation,
                rule=record.rule,
                wasted_ms=loss.wasted_ms,
                wasted_bytes=loss.wasted_bytes,
                verdict=judgement.verdict,
                why=judgement.why,
            )
        )
    return RowVerdicts(tuple(judged), is_capped=len(latest) > MAX_LOSSES)
