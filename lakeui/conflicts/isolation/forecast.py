"""How many more writes would lose, or fewer, under other settings: the last 30 days held against them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Count, F, Q, QuerySet
from django.db.models.functions import Coalesce

from engine.conflicts.checker import FILE_RULES
from lakeui.catalog.models import Table
from lakeui.conflicts.isolation.meetings import DEFAULT_DAYS, Meetings
from lakeui.conflicts.isolation.observed import Pair
from lakeui.conflicts.isolation.proposal import LEVEL, Proposal, eligible_under
from lakeui.conflicts.isolation.reordered import ReorderedVersions
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.statements.kinds import DELETE, INSERT, MERGE, UPDATE, statement_kind

_STRICT = "Serializable"
_WRITE = Coalesce("job__committed_version", "attempted_version", -F("pk"))
"""What tells the writes of absorbed conflicts apart: the version they became, if it is known."""
_BY_ROWS = "by files they would lose; which rows each side touched is not recorded"
_UNSAID = "what they read is not recorded"


@dataclass(frozen=True, slots=True)
class Undecided:
    """Writes of which the record does not tell, and why."""

    kind: str
    count: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """`more` and `fewer` are certain, by kind of statement; `now` is what was lost in those days.

    `appends_met` are the meetings with blind appends that a stricter level would count;
    `reordered` the versions that it would not have let be. None: the level stays.
    """

    days: int
    now: int
    more: Mapping[str, int]
    fewer: int
    undecided: tuple[Undecided, ...]
    unread: int
    appends_met: int | None = None
    reordered: int | None = None

    @property
    def added(self) -> int:
        return sum(self.more.values())

    @property
    def then(self) -> int:
        """At least so many would lose, the undecided ones apart."""
        return self.now + self.added - self.fewer

    @property
    def open(self) -> int:
        return sum(each.count for each in self.undecided)


def forecast(
    table: Table,
    proposal: Proposal,
    meetings: Meetings,
    pairs: Sequence[Pair],
    reordered: ReorderedVersions,
) -> Forecast | None:
    """The effect on conflicts; None where the settings have none that a record could tell of."""
    level, by_rows = proposal.properties.get(LEVEL), eligible_under(table, proposal)
    if level is None and by_rows == table.row_level_eligible:
        return None
    more: Counter[str] = Counter()
    undecided: list[Undecided] = []
    fewer = 0
    ends_rows = table.row_level_eligible and not by_rows
    if level == _STRICT:
        taken = _absorbed_among(table, list(reordered.passed)) if ends_rows else frozenset()
        _stricter(reordered, taken, more, undecided, by_rows=by_rows)
    elif level is not None:
        fewer, unsaid = _blind_winners(table, meetings)
        undecided += unsaid
    if ends_rows:
        more.update(_absorbing_writes(table, meetings))
    elif by_rows and not table.row_level_eligible:
        undecided += _lost_by_files(table, meetings)
    strict = level == _STRICT
    return Forecast(
        days=DEFAULT_DAYS,
        now=sum(pair.escaped + pair.reported for pair in pairs),
        more={kind: count for kind, count in more.most_common() if count},
        fewer=fewer,
        undecided=tuple(undecided),
        unread=reordered.unread if strict else 0,
        appends_met=_appends_met(meetings) if strict else None,
        reordered=len(reordered.found) if strict else None,
    )


def _stricter(
    reordered: ReorderedVersions,
    taken: frozenset[int],
    more: Counter[str],
    undecided: list[Undecided],
    *,
    by_rows: bool,
) -> None:
    """Each write that passed an append over would have lost to it, or perhaps; `taken` lose anyway."""
    found = Counter(said for version, said in reordered.passed.items() if version not in taken)
    for (kind, is_known), count in sorted(found.items(), key=lambda each: -each[1]):
        if is_known and not by_rows:
            more[kind] += count
        else:
            undecided.append(Undecided(kind, count, _BY_ROWS if is_known else _UNSAID))


def _absorbing_writes(table: Table, meetings: Meetings) -> Mapping[str, int]:
    """Writes that rows alone kept from losing, each once however many conflicts it absorbed."""
    lately = _absorbed(table).filter(occurred_at__gte=meetings.since).order_by()
    rows = lately.values_list("current_operation").annotate(n=Count(_WRITE, distinct=True))
    found: Counter[str] = Counter()
    for operation, count in rows:
        found[statement_kind(operation)] += count
    return found


def _absorbed_among(table: Table, versions: Sequence[int]) -> frozenset[int]:
    """Those of these versions that absorbed a conflict."""
    rows = _absorbed(table).annotate(write=_WRITE).filter(write__in=versions).order_by()
    return frozenset(rows.values_list("write", flat=True))


def _absorbed(table: Table) -> QuerySet[Conflict]:
    return table.conflicts.filter(kind=Conflict.Kind.ABSORBED)


def _lost_by_files(table: Table, meetings: Meetings) -> Iterator[Undecided]:
    lost = _lost(table, meetings).filter(rule__in=FILE_RULES).order_by()
    rows = lost.values_list("current_operation").annotate(n=Count("pk")).order_by("-n")
    for operation, count in rows:
        why = "rows may tell them apart; which rows each side touched is not recorded"
        yield Undecided(operation or "not recorded", count, why)


def _blind_winners(table: Table, meetings: Meetings) -> tuple[int, list[Undecided]]:
    """What was lost to data that was added at Serializable: blind appends would be passed over."""
    key = "facts__winner__is_blind_append"
    lost = _lost(table, meetings).filter(rule="data_added", isolation_level=_STRICT)
    sums = lost.aggregate(
        fewer=Count("pk", filter=Q(**{key: True})),
        kept=Count("pk", filter=Q(**{key: False})),
        all=Count("pk"),
    )
    unsaid = sums["all"] - sums["fewer"] - sums["kept"]
    why = "whether the winner was a blind append is not recorded"
    return sums["fewer"], [Undecided("", unsaid, why)] if unsaid else []


def _lost(table: Table, meetings: Meetings) -> QuerySet[Conflict]:
    return table.conflicts.filter(occurred_at__gte=meetings.since).exclude(
        kind=Conflict.Kind.ABSORBED
    )


def _appends_met(meetings: Meetings) -> int:
    return sum(meetings.counts.get((kind, INSERT), 0) for kind in (UPDATE, DELETE, MERGE))
