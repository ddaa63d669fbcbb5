"""The rows of a history: versions, and between them the aborted attempts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Q
from django.http import HttpRequest

from lakeui.catalog.command_tables import Reader
from lakeui.catalog.models import Commit, Table
from lakeui.catalog.row_counts import RowCounts, rows_of
from lakeui.conflicts.isolation.reordering import OutOfOrderVersion, find_out_of_order_among
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.redaction import may_read_condition
from lakeui.conflicts.version_effects import (
    conflicts_of,
    count_aborted_by_version,
    count_resolved_by_version,
)
from lakeui.pages.operations import rows_text, short_rows, what_of

_BAR_STEP, _LONGEST_BAR = 7, 7
ABORTED_SHOWN = 200  # aborted attempts, on one page


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """A version, or an aborted attempt.

    `order` is set if the version is out of order. `behind` counts the versions between its read
    version and its end; None: not recorded.
    """

    commit: Commit | None
    aborted: Conflict | None
    behind: int | None
    what: str = ""
    rows: RowCounts | None = None
    beaten: int = 0
    resolved: int = 0
    order: OutOfOrderVersion | None = None

    @property
    def bar_end(self) -> int:
        return 1 + _BAR_STEP * min(self.behind or 0, _LONGEST_BAR)

    @property
    def bar_width(self) -> int:
        return self.bar_end - 1

    @property
    def is_cut(self) -> bool:
        """Read further back than its drawing is long."""
        return (self.behind or 0) > _LONGEST_BAR

    @property
    def net_bytes(self) -> int:
        return self.commit.bytes_added - self.commit.bytes_removed if self.commit else 0

    @property
    def rows_text(self) -> str:
        return rows_text(self.rows) if self.rows else ""

    @property
    def short_rows(self) -> str:
        return short_rows(self.rows) if self.rows else ""


def history_rows(
    table: Table, commits: Sequence[Commit], aborted: Iterable[Conflict]
) -> list[HistoryRow]:
    """Return rows, latest first; an aborted attempt stands above its winning version."""
    low, high = (commits[-1].version, commits[0].version) if commits else (0, -1)
    beaten, resolved = (
        count_aborted_by_version(table, low, high),
        count_resolved_by_version(table, low, high),
    )
    orders = find_out_of_order_among(table, commits)
    rows = [
        HistoryRow(
            commit,
            None,
            None if commit.read_version is None else commit.version - commit.read_version,
            what_of(commit),
            rows_of(commit),
            beaten.get(commit.version, 0),
            resolved.get(commit.version, 0),
            orders.get(commit.version),
        )
        for commit in commits
    ]
    return _merge_rows(rows, list(aborted))


def list_aborted_attempts(
    request: HttpRequest, table: Table, low: int, high: int
) -> list[Conflict]:
    """List attempts aborted by a version of a span that match the list's filters."""
    query, reader = request.GET, Reader(request.user)
    aborted = (
        conflicts_of(table)
        .filter(kind=Conflict.Kind.ABORTED, winning_version__range=(low, high))
        .defer("facts")
    )
    if operation := query.get("operation"):
        aborted = aborted.filter(current_operation__iexact=operation)
    if user := query.get("user"):
        aborted = aborted.filter(current_user_name__iexact=user)
    text = query.get("q")
    if text:
        said = Q(current_predicate__icontains=text) | Q(message__icontains=text)
        aborted = aborted.filter(said)
    first = list(aborted.order_by("-winning_version", "-occurred_at")[:ABORTED_SHOWN])
    # hidden conditions must not be searchable
    return [c for c in first if not text or may_read_condition(c, reader)]


def _merge_rows(rows: list[HistoryRow], aborted: list[Conflict]) -> list[HistoryRow]:
    merged: list[HistoryRow] = []
    waiting = [_build_aborted_row(conflict) for conflict in aborted][::-1]
    for row in rows:
        version = row.commit.version if row.commit else 0
        while waiting and _get_winning_version(waiting[-1]) >= version:
            merged.append(waiting.pop())
        merged.append(row)
    return merged + waiting[::-1]


def _get_winning_version(row: HistoryRow) -> int:
    return (row.aborted.winning_version or 0) if row.aborted else 0


def _build_aborted_row(conflict: Conflict) -> HistoryRow:
    are_recorded = conflict.read_version is not None and conflict.winning_version is not None
    behind = (
        (conflict.winning_version or 0) - (conflict.read_version or 0) if are_recorded else None
    )
    return HistoryRow(None, conflict, behind)
