"""Rows that outlived an erasure, stored so that the first page need not replay histories.

At WriteSerializable a blind append that lands while a DELETE runs may be ordered after it, though
it was recorded before. Its rows that match the DELETE are then still there. A worker searches
tables with new versions, some of them each time.
"""

from collections.abc import Iterable

from django.db import transaction
from django.db.models import F, Q

from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.isolation.overlaps import overlaps_of
from lakeui.conflicts.isolation.reordering import find_out_of_order, rows_of_versions
from lakeui.conflicts.models import Erasure, OrderLook
from lakeui.conflicts.statements.text import DELETE

TABLES_A_LOOK = 20
MOST_A_TABLE = 20


def look_at_order() -> int:
    """Search some tables whose latest version was not searched yet; return how many."""
    seen = Q(order_look__version=F("version"))
    fresh = Table.objects.filter(version__isnull=False).exclude(seen).order_by("-last_commit_at")
    tables = list(fresh.select_related("order_look")[:TABLES_A_LOOK])
    for table in tables:
        _look_at(table)
    return len(tables)


def _look_at(table: Table) -> None:
    look = getattr(table, "order_look", None)
    since = look.version if look is not None and look.version < (table.version or 0) else -1
    new = table.commits.filter(version__gt=since, operation="DELETE")
    rows = _find_passed_over(table) if new.exists() else []
    with transaction.atomic():
        Erasure.objects.bulk_create(rows, ignore_conflicts=True)
        _settle(table)
        OrderLook.objects.update_or_create(table=table, defaults={"version": table.version})


def _find_passed_over(table: Table) -> list[Erasure]:
    """Return a row for each append and DELETE that is known to match some of its rows."""
    versions = find_out_of_order(table, overlaps_of(table)).versions
    erased = [order for order in versions if order.kind == DELETE and order.is_known]
    rows = [
        _row(table, append, row.commit)
        for row in rows_of_versions(table, erased[:MOST_A_TABLE])
        if row.commit
        for append in row.appends
    ]
    return rows[:MOST_A_TABLE]


def _row(table: Table, append: Commit, delete: Commit) -> Erasure:
    return Erasure(
        table=table,
        append_version=append.version,
        delete_version=delete.version,
        predicate=delete.predicate,
        append_writer=append.user_name,
        delete_writer=delete.user_name,
        rows_at_most=append.rows_added,
        at=delete.committed_at,
    )


def _settle(table: Table) -> None:
    """Settle erasures whose DELETE ran again and saw the append."""
    for row in table.erasures.filter(settled_by__isnull=True)[:MOST_A_TABLE]:
        again = table.commits.filter(
            operation="DELETE",
            predicate=row.predicate,
            version__gt=row.delete_version,
            read_version__gte=row.append_version,
        )
        later: Iterable[int] = again.order_by("version").values_list("version", flat=True)[:1]
        for version in later:
            Erasure.objects.filter(pk=row.pk).update(settled_by=version)
