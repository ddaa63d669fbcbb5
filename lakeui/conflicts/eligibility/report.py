"""The report on a table's eligibility: aborted writes for lack of it, the reasons, the fixes."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.conflict_facts import Verdict
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.models import Table
from lakeui.conflicts.assessment import TableEligibility, assess_eligibility, eligibility_of
from lakeui.conflicts.eligibility.conditions import (
    FAILS,
    ConditionLine,
    Speed,
    list_locked_out_clients,
    table_lines,
    write_lines,
)
from lakeui.conflicts.eligibility.row_verdicts import RowVerdicts, row_verdicts
from lakeui.conflicts.eligibility.runtime_matrix import (
    RuntimeColumn,
    meet_all_conditions,
    other_writers,
    runtime_columns,
)
from lakeui.conflicts.recent_writes import recent_writes


@dataclass(frozen=True, slots=True)
class AbortedWrites:
    """Aborted writes of 30 days and their outcome at row level; `saved_*` are those that pass."""

    aborted: int
    passes: int
    still_aborted: int
    undecidable: int
    saved_ms: int
    saved_bytes: int
    is_capped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EligibilityReport:
    """A report: `runtimes` for the current table, `mended` for the table with its fixes.

    `writes` were read, `overlapping_writes` of them had a condition and overlapped with others;
    `unplaced` were written by other programs than the runtimes. `by_files` are the writers with
    engines that always compare files, with their commits.
    """

    eligibility: TableEligibility
    aborted_writes: AbortedWrites
    of_table: tuple[ConditionLine, ...]
    of_writes: tuple[ConditionLine, ...]
    runtimes: tuple[RuntimeColumn, ...]
    mended: tuple[RuntimeColumn, ...]
    writes: int
    overlapping_writes: int
    unplaced: int
    is_capped: bool
    locked_out_writers: tuple[str, ...]
    by_files: tuple[tuple[str, int], ...]

    @property
    def failing(self) -> int:
        """The number of conditions that the table breaks."""
        return sum(line.state == FAILS for line in self.of_table)


def eligibility_report(
    table: Table,
    speed: Speed | None = None,
    readers: Sequence[str] = (),
    shown_to: Reader | None = None,
) -> EligibilityReport | None:
    """Return the report; None until the table's log was read. `readers` are known streams on it.

    Conditions of aborted writes are included only if `shown_to` may read them.
    """
    if not table.schema or table.version is None:
        return None
    eligibility, writes = assess_eligibility(table), recent_writes(table, shown_to)
    clustered = bool(table.clustering_columns)
    later = bool(table.clustering_columns or table.partition_columns)
    return EligibilityReport(
        eligibility=eligibility_of(table),
        aborted_writes=_sum_aborted_writes(row_verdicts(table)),
        of_table=table_lines(table, eligibility, writes, speed, readers),
        of_writes=write_lines(table, writes),
        runtimes=runtime_columns(eligibility, writes, clustered=clustered),
        mended=runtime_columns(meet_all_conditions(eligibility), writes, clustered=later),
        writes=len(writes.writes) + writes.aborted,
        overlapping_writes=writes.overlapping,
        unplaced=other_writers(writes),
        is_capped=writes.is_capped,
        locked_out_writers=list_locked_out_clients(writes, "deletionVectors"),
        by_files=tuple(writes.count_file_level_writers()[:3]),
    )


def _sum_aborted_writes(verdicts: RowVerdicts) -> AbortedWrites:
    passing = verdicts.filter_by_verdict(Verdict.PASSES)
    return AbortedWrites(
        aborted=len(verdicts.conflicts),
        passes=len(passing),
        still_aborted=len(verdicts.filter_by_verdict(Verdict.CONFLICT)),
        undecidable=len(verdicts.filter_by_verdict(Verdict.UNDECIDABLE)),
        saved_ms=sum(verdict.wasted_ms for verdict in passing),
        saved_bytes=sum(verdict.wasted_bytes for verdict in passing),
        is_capped=verdicts.is_capped,
    )
