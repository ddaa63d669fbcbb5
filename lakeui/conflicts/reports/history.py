"""How often the pair of a reported conflict has conflicted before, from the table's record."""

from dataclasses import dataclass
from datetime import timedelta

from django.utils import timezone

from engine.conflict_facts import Verdict
from lakeui.conflicts.eligibility.row_verdicts import row_verdicts
from lakeui.conflicts.reports.links import LinkedReport

_DAY = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class PairHistory:
    """Aborted writes of the pair on record: in 30 days and in 24 h; `passes` at row level.

    `current_operation` is empty if the message does not state it: then any aborted write counts.
    """

    current_operation: str
    winner_operation: str
    aborted: int
    aborted_lately: int
    passes: int
    undecidable: int
    wasted_ms: int


def pair_history(linked: LinkedReport) -> PairHistory | None:
    """Return the history; None if the table or the winning commit's operation is unknown."""
    reported = linked.report.conflict
    if reported is None or linked.table is None or not reported.winner_operation:
        return None
    current = reported.current_operation or ""
    pair = row_verdicts(linked.table).filter_by_pair(current, reported.winner_operation)
    since = timezone.now() - _DAY
    return PairHistory(
        current_operation=current,
        winner_operation=reported.winner_operation,
        aborted=len(pair.conflicts),
        aborted_lately=sum(conflict.occurred_at >= since for conflict in pair.conflicts),
        passes=len(pair.filter_by_verdict(Verdict.PASSES)),
        undecidable=len(pair.filter_by_verdict(Verdict.UNDECIDABLE)),
        wasted_ms=sum(conflict.wasted_ms for conflict in pair.conflicts),
    )
