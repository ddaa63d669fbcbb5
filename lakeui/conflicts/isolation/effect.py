"""How many more writes would be aborted, or fewer, under other settings: the last 30 days held against them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Count, F, Q, QuerySet
from django.db.models.functions import Coalesce

from engine.conflict_facts import Rule, Verdict
from engine.conflicts.candidates import counts_appends
from engine.conflicts.forecast import ForecastSide
from engine.conflicts.record_replay import (
    Judgement,
    RecordedConflict,
    ReplaySetting,
    judge_conflict,
    judge_replay,
)
from engine.vocabulary import UNKNOWN, operation_named
from lakeui.catalog.models import Table
from lakeui.conflicts.assessment import level_of, replay_setting
from lakeui.conflicts.isolation.observed_pairs import ObservedPair
from lakeui.conflicts.isolation.overlaps import DEFAULT_DAYS, Overlaps
from lakeui.conflicts.isolation.proposal import LEVEL, Proposal, eligible_under
from lakeui.conflicts.isolation.reordering import OutOfOrderVersion, OutOfOrderVersions
from lakeui.conflicts.models import Conflict, rule_named
from lakeui.conflicts.statements.kinds import (
    DELETE,
    INSERT,
    MERGE,
    UPDATE,
    statement_kind,
)
from lakeui.conflicts.version_effects import conflicts_of

_WRITE = Coalesce("job__committed_version", "attempted_version", -F("pk"))
"""The write of a resolved conflict: the version it became, where recorded, else its own number."""


@dataclass(frozen=True, slots=True)
class UndecidedWrites:
    """Writes whose verdict cannot be derived from the record, and why."""

    kind: str
    count: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelEffect:
    """Certain changes in aborted writes: `more` and `fewer`, by kind; `now` is the current number.

    `append_overlaps` are the overlaps with blind appends that a stricter level would count;
    `out_of_order` the versions that would not exist, oldest first: a stricter level would have
    aborted their writes, or compared rows. None: the level stays.
    """

    days: int
    now: int
    more: Mapping[str, int]
    fewer: int
    undecided: tuple[UndecidedWrites, ...]
    unread: int
    append_overlaps: int | None = None
    out_of_order: tuple[int, ...] | None = None

    @property
    def added(self) -> int:
        return sum(self.more.values())

    @property
    def then(self) -> int:
        """The least number of aborted writes, without undecided ones."""
        return self.now + self.added - self.fewer

    @property
    def open(self) -> int:
        return sum(undecided.count for undecided in self.undecided)


def effect_of(
    table: Table,
    proposal: Proposal,
    overlaps: Overlaps,
    pairs: Sequence[ObservedPair],
    out_of_order: OutOfOrderVersions,
) -> LevelEffect | None:
    """Return the effect on conflicts; None if the settings have none that a record could show."""
    named, by_rows = proposal.properties.get(LEVEL), eligible_under(table, proposal)
    if named is None and by_rows == table.row_level_eligible:
        return None
    level = level_of(named, table)
    asked = replay_setting(table, level, row_level=by_rows)
    more: Counter[str] = Counter()
    undecided: list[UndecidedWrites] = []
    ends_rows = table.row_level_eligible and not by_rows
    stricter = named is not None and counts_appends(level)
    if stricter:
        numbers = [order.version for order in out_of_order.versions]
        taken = _find_resolving_versions(table, numbers) if ends_rows else frozenset()
        left = [order for order in out_of_order.versions if order.version not in taken]
        _stricter(left, more, undecided, by_rows=by_rows)
    fewer, unsaid = _effect_on_aborted(table, overlaps, asked)
    undecided += unsaid
    if ends_rows:
        more.update(_count_dependent_writes(table, overlaps, asked))
    return LevelEffect(
        days=DEFAULT_DAYS,
        now=sum(pair.aborted + pair.reported for pair in pairs),
        more={kind: count for kind, count in more.most_common() if count},
        fewer=fewer,
        undecided=tuple(undecided),
        unread=out_of_order.unread if stricter else 0,
        append_overlaps=_append_overlaps(overlaps) if stricter else None,
        out_of_order=tuple(sorted(order.version for order in out_of_order.versions))
        if stricter
        else None,
    )


def _stricter(
    versions: Sequence[OutOfOrderVersion],
    more: Counter[str],
    undecided: list[UndecidedWrites],
    *,
    by_rows: bool,
) -> None:
    """Count each write that passed an append over as aborted for it, or undecided."""
    passed = Counter((order.kind, order.is_known) for order in versions)
    for (kind, is_known), count in sorted(passed.items(), key=lambda item: -item[1]):
        judged = judge_replay(Rule.DATA_ADDED, "", is_known, row_level=by_rows)
        if judged.verdict is Verdict.CONFLICT:
            more[kind] += count
        else:
            undecided.append(UndecidedWrites(kind, count, judged.why))


def _effect_on_aborted(
    table: Table, overlaps: Overlaps, asked: ReplaySetting
) -> tuple[int, list[UndecidedWrites]]:
    """Return how many aborted ones would pass, and the undecidable ones, in one query."""
    key = "facts__winner__is_blind_append"
    aborted = table.conflicts.filter(
        occurred_at__gte=overlaps.since, kind__in=Conflict.ABORTED_KINDS
    )
    rows = aborted.order_by().values_list("current_operation", "rule", "isolation_level")
    groups = rows.annotate(
        n=Count("pk"), blind=Count("pk", Q(**{key: True})), seeing=Count("pk", Q(**{key: False}))
    )
    sums: Counter[tuple[str, Judgement]] = Counter()
    for operation, rule, level, n, blind, seeing in groups:
        counts = {True: blind, False: seeing, None: n - blind - seeing}
        named = operation_named(operation)
        for is_blind, count in counts.items():
            record = RecordedConflict(
                rule=rule_named(rule),
                resolved=False,
                level=level,
                winner_is_blind=is_blind,
                current=None if named is UNKNOWN else ForecastSide(kind=named.statement),
            )
            sums[operation, judge_conflict(record, asked)] += count
    fewer = sum(n for (_, judged), n in sums.items() if judged.verdict is Verdict.PASSES)
    unsaid = [
        UndecidedWrites(operation or "not recorded", count, judged.why)
        for (operation, judged), count in sums.most_common()
        if count and judged.verdict is Verdict.UNDECIDABLE
    ]
    return fewer, unsaid


def _count_dependent_writes(
    table: Table, overlaps: Overlaps, asked: ReplaySetting
) -> Mapping[str, int]:
    """Count writes that would be aborted without row-level resolution, each once."""
    lately = _select_resolved(table).filter(occurred_at__gte=overlaps.since).order_by()
    rows = lately.values_list("current_operation", "isolation_level")
    sums: Counter[str] = Counter()
    for operation, level, count in rows.annotate(n=Count(_WRITE, distinct=True)):
        record = RecordedConflict(rule=None, resolved=True, level=level)
        if judge_conflict(record, asked).verdict is Verdict.CONFLICT:
            sums[statement_kind(operation)] += count
    return sums


def _find_resolving_versions(table: Table, versions: Sequence[int]) -> frozenset[int]:
    """Return those of these versions that resolved a conflict."""
    rows = _select_resolved(table).annotate(write=_WRITE).filter(write__in=versions).order_by()
    return frozenset(rows.values_list("write", flat=True))


def _select_resolved(table: Table) -> QuerySet[Conflict]:
    return conflicts_of(table).filter(kind=Conflict.Kind.RESOLVED)


def _append_overlaps(overlaps: Overlaps) -> int:
    return sum(overlaps.counts.get((kind, INSERT), 0) for kind in (UPDATE, DELETE, MERGE))
