"""Mute conditions that need attention, for one table or for all, or a pair's repeated conflicts."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet

from engine.errors import RequestError
from lakeui.catalog.access import Person, role_of, visible_tables
from lakeui.catalog.models import Table
from lakeui.conflicts.models import StatementPair
from lakeui.monitoring.conditions import Condition
from lakeui.monitoring.models import Mute

LONGEST = timedelta(days=90)
MOST = 500  # at once


@dataclass(frozen=True, slots=True)
class ActiveMutes:
    """The mutes in force: conditions on every table or on single ones, and pairs of statements."""

    checks: frozenset[str] = frozenset()
    tables: dict[str, list[int]] = field(default_factory=dict)
    pairs: frozenset[int] = frozenset()

    def hides(self, condition: Condition) -> bool:
        return condition in self.checks

    def list_muted_tables(self, condition: Condition) -> Collection[int]:
        """Return the tables for which the condition is muted."""
        return self.tables.get(condition, [])


def mutes_now(now: datetime) -> list[Mute]:
    """Return the mutes in force, in the order in which they end."""
    rows = Mute.objects.filter(until__gt=now)
    rows = rows.select_related("table", "muted_by", "statement_pair")
    return list(rows[:MOST])


def visible_mutes(mutes: Iterable[Mute], user: Person) -> list[Mute]:
    """Return the mutes of tables that a person may see, and those of all tables."""
    rows = list(mutes)
    if role_of(user) is not None:
        return rows
    named = {row.table_id for row in rows if row.table_id}
    seen = set(visible_tables(user).filter(pk__in=named).values_list("pk", flat=True))
    return [row for row in rows if row.table_id is None or row.table_id in seen]


def group_mutes(mutes: Iterable[Mute]) -> ActiveMutes:
    """Group mutes by condition: the tables that each hides, or whether it hides all."""
    tables: dict[str, list[int]] = {}
    whole, pairs = set(), set()
    for row in mutes:
        if row.statement_pair_id is not None:
            pairs.add(row.statement_pair_id)
        elif row.table_id is None:
            whole.add(row.about)
        else:
            tables.setdefault(row.about, []).append(row.table_id)
    return ActiveMutes(frozenset(whole), tables, frozenset(pairs))


def mute(
    condition: Condition,
    table: Table | None,
    until: datetime,
    *,
    by: User,
    now: datetime,
    reason: str = "",
) -> Mute:
    """Mute a condition, or change the end of its mute; recorded in the audit log.

    Raises:
        RequestError: the end is past or too far, or too much is muted.
    """
    row = Mute(about=condition, table=table, until=until, reason=reason, muted_by=by)
    return _keep_mute(row, Mute.objects.filter(about=condition, table=table), now)


def mute_pair(
    pair: StatementPair, until: datetime, *, by: User, now: datetime, reason: str = ""
) -> Mute:
    """Leave the conflicts of two statements out of every condition until then, as `mute` does."""
    row = Mute(table=pair.table, statement_pair=pair, until=until, reason=reason, muted_by=by)
    return _keep_mute(row, Mute.objects.filter(statement_pair=pair), now)


def _keep_mute(mute: Mute, same: QuerySet[Mute], now: datetime) -> Mute:
    """Save a mute, in the place of the one in force."""
    if not now < mute.until <= now + LONGEST:
        msg = "A check can be muted for at most 90 days."
        raise RequestError(msg, "Choose one.", field="until")
    with transaction.atomic():
        Mute.objects.filter(until__lte=now).delete()
        row = same.first()
        if row is None and Mute.objects.count() >= MOST:
            msg = f"{MOST} checks are already muted, which is the limit."
            raise RequestError(msg, "Mute a check on all tables instead.", field="check")
        row = row or mute
        row.until, row.reason, row.muted_by = mute.until, mute.reason.strip()[:500], mute.muted_by
        row.save()
    return row
