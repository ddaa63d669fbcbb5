"""Repeated conflicts: aborted writes grouped by the two statements, and who works on each pair."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Count, F, Max, Min, Q, QuerySet, Sum

from engine.conflict_facts import RemedyKind
from engine.conflicts.explain.remedy_table import TEXTS
from engine.errors import RequestError
from lakeui.catalog.access import Person, may
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.hours import TimeRange, column_named
from lakeui.conflicts.filters import visible_pairs
from lakeui.conflicts.models import Conflict, StatementPair
from lakeui.monitoring.mutes import mutes_now

_LEAST_CHANGE = 1.5  # of the earlier half; less is chance


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedConflict:
    """The aborted writes of one pair of statements in a range.

    `counts` are by the columns of the range. `trend` compares its halves: rising, falling, steady.
    `fix` is the remedy named for the most of them, `fixed` of `times`; None if none was recorded.
    `current_statement` is empty for a reader who may not read it. `muted_until` is None if the pair
    counts in conditions that need attention.
    """

    pair: StatementPair
    current_statement: str
    times: int
    wasted_ms: int
    wasted_bytes: int
    first_at: datetime
    last_at: datetime
    counts: tuple[int, ...]
    trend: str
    fix: RemedyKind | None
    fixed: int
    muted_until: datetime | None
    mute_id: int | None

    @property
    def fix_text(self) -> str:
        """What to do; empty if no remedy was recorded."""
        return TEXTS[self.fix].action if self.fix else ""

    @property
    def state(self) -> str:
        """Return open, known or muted."""
        if self.muted_until:
            return "muted"
        return "known" if self.pair.is_known else "open"


RISING, FALLING, STEADY = TRENDS = ("rising", "falling", "steady")


def select_repeated(user: Person, time_range: TimeRange, now: datetime) -> QuerySet[Any]:
    """Return the sums of each pair in the range, the costliest first: one query of an index."""
    since = time_range.start(now)
    return (
        visible_pairs(user)
        .filter(conflicts__kind__in=Conflict.ABORTED_KINDS, conflicts__occurred_at__gte=since)
        .values("pk")
        .annotate(
            times=Count("conflicts"),
            later=Count("conflicts", Q(conflicts__occurred_at__gte=since + time_range.span / 2)),
            wasted_ms=Sum("conflicts__wasted_ms"),
            wasted_bytes=Sum("conflicts__wasted_bytes"),
            first_at=Min("conflicts__occurred_at"),
            last_at=Max("conflicts__occurred_at"),
        )
        .order_by(F("wasted_ms").desc(), F("times").desc(), "pk")
    )


def describe_repeated(
    rows: Iterable[Mapping[str, Any]], user: Person, time_range: TimeRange, now: datetime
) -> list[RepeatedConflict]:
    """Return the pairs of a page with their trend, fix, assignee and mute, in three queries."""
    shown = list(rows)
    pairs = StatementPair.objects.select_related("table", "assignee")
    by_id = pairs.in_bulk([row["pk"] for row in shown])
    counts, fixes = _count_by_column(by_id, time_range, now)
    mutes = {mute.statement_pair_id: mute for mute in mutes_now(now) if mute.statement_pair_id}
    reader, columns, described = Reader(user), time_range.columns(now), []
    for row in shown:
        pair, mute = by_id[row["pk"]], mutes.get(row["pk"])
        fix, fixed = next(iter(fixes[pair.pk].most_common(1)), (None, 0))
        described.append(
            RepeatedConflict(
                pair=pair,
                current_statement=_readable_statement(pair, reader),
                counts=tuple(counts[pair.pk][column] for column in columns),
                trend=_judge_trend(row["times"] - row["later"], row["later"]),
                fix=RemedyKind(fix) if fix else None,
                fixed=fixed,
                muted_until=mute.until if mute else None,
                mute_id=mute.pk if mute else None,
                **{name: value for name, value in row.items() if name not in {"pk", "later"}},
            )
        )
    return described


def work_on_pair(pair: StatementPair, *, is_known: bool, assignee: str, note: str) -> None:
    """Store who works on a pair and whether it is known; recorded in the audit log.

    Raises:
        RequestError: the assignee does not exist or may not see the table.
    """
    person = User.objects.filter(username=assignee, is_active=True).first() if assignee else None
    if assignee and (person is None or not may(person, "view", pair.table)):
        msg = f"No account {assignee} may see {pair.table.name}."
        raise RequestError(msg, "Choose another assignee.", field="assignee")
    pair.is_known, pair.assignee, pair.note = is_known, person, note.strip()[:500]
    pair.save(update_fields=["is_known", "assignee", "note"])


def _count_by_column(
    pairs: Collection[int], time_range: TimeRange, now: datetime
) -> tuple[Mapping[int, Counter[datetime]], Mapping[int, Counter[str]]]:
    """Count the conflicts of a few pairs by column of the range, and by named remedy."""
    conflicts = Conflict.objects.filter(
        statement_pair__in=list(pairs) or (0,),
        kind__in=Conflict.ABORTED_KINDS,
        occurred_at__gte=time_range.start(now),
    )
    grouped = conflicts.order_by().annotate(column=time_range.column("occurred_at"))
    rows = grouped.values_list("statement_pair", "column", "fixes").annotate(n=Count("pk"))
    counts: defaultdict[int, Counter[datetime]] = defaultdict(Counter)
    fixes: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for pair, text, kinds, n in rows:
        if pair is not None:
            counts[pair][column_named(text)] += n
            fixes[pair].update(dict.fromkeys(filter(None, kinds.split(",")), n))
    return counts, fixes


def _judge_trend(earlier: int, later: int) -> str:
    if later > _LEAST_CHANGE * earlier and later > 1:
        return RISING
    return FALLING if earlier > _LEAST_CHANGE * later and earlier > 1 else STEADY


def _readable_statement(pair: StatementPair, reader: Reader) -> str:
    """Return the aborted statement, which is in no log; empty if it names hidden tables."""
    text = pair.current_statement
    return text if reader.may_read_statement(text.replace("?", "1")) else ""
