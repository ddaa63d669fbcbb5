"""A transaction on its way to the log, as a value: what it is, and how far it has been validated."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from engine.actions.codec import Action
from engine.actions.files import AddFile
from engine.actions.table import DomainMetadata
from engine.conflict_facts import WinnerVerdicts
from engine.conflicts.candidates import exempt_after
from engine.conflicts.decision import remembered
from engine.conflicts.isolation import ROW_TRACKING_DOMAIN
from engine.conflicts.rebase import NOTHING_PENDING, Pending, refreshed
from engine.conflicts.row_counts import physical_rows
from engine.conflicts.transaction_info import CurrentTransaction, WinningCommit
from engine.log.tip import Tip
from engine.transaction.outcome import ResolvedConflict
from engine.transaction.provenance import Provenance
from engine.transaction.staging import TableTerms


@dataclass(frozen=True, kw_only=True)
class PendingCommit:
    """Current, rebased over every version up to `validated_version`.

    `timestamp_ms` is that version's (0 where nobody asks), `row_id_high_water_mark` the last row id it gave out (-1: none).
    `exempted` are the blind appends that current is ordered before, `pending` the deletion vectors
    that its staged files are to have once they are written. `staged` are its actions before any
    winner was checked, `trail` what the checks said of the last winners. `winner_tip` is the commit of
    the last winner, None where there was none.
    """

    current: CurrentTransaction
    provenance: Provenance
    after: TableTerms
    before: TableTerms | None
    validated_version: int
    timestamp_ms: int
    row_id_high_water_mark: int = -1
    exempted: tuple[WinningCommit, ...] = ()
    resolved: tuple[ResolvedConflict, ...] = ()
    pending: Pending = NOTHING_PENDING
    staged: tuple[Action, ...] = ()
    trail: tuple[WinnerVerdicts, ...] = ()
    winner_tip: Tip | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not (self.current.actions or self.provenance.even_if_empty)

    def past(self, winner: WinningCommit, met: WinnerVerdicts | None = None) -> "PendingCommit":
        """The pending commit on the state that a winner left, once every check let it pass."""
        return replace(
            self,
            current=refreshed(self.current, winner),
            validated_version=winner.version,
            timestamp_ms=winner.timestamp_ms or self.timestamp_ms,
            row_id_high_water_mark=self._mark_after(winner),
            exempted=exempt_after(self.current, winner, self.exempted),
            trail=remembered(self.trail, met) if met else self.trail,
        )

    def _mark_after(self, winner: WinningCommit) -> int:
        """The last row id given out, by the domain or, where a writer forgot that, by its files."""
        marks = [self.row_id_high_water_mark, high_water_mark(winner.domains)]
        return max(*marks, *map(last_row_id, winner.adds) if self.after.gives_row_ids else ())


def last_row_id(action: Action) -> int:
    """The last id of a file that comes with its ids; -1 for everything else."""
    if not isinstance(action, AddFile) or action.base_row_id is None:
        return -1
    return action.base_row_id + (physical_rows(action) or 0) - 1


def high_water_mark(domains: Iterable[DomainMetadata]) -> int:
    """The last row id given out, as the row-tracking domain among these says; -1 without it."""
    for domain in domains:
        if domain.domain == ROW_TRACKING_DOMAIN and not domain.removed:
            try:
                return int(json.loads(domain.configuration)["rowIdHighWaterMark"])
            except (ValueError, KeyError, TypeError):
                return -1
    return -1
