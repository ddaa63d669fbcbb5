"""Unregistered tables of repeated searches: reported until they are registered or dismissed.

They outlive their round, so that nothing is reported as over while the next round runs.
"""

from collections.abc import Collection
from datetime import datetime

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from lakeui.catalog.models import Discovery, Table, UnregisteredTable

_BATCH = 500


def keep_unregistered(discovery: Discovery, places: Collection[str], now: datetime) -> None:
    """Store the unregistered tables of a complete round; delete those that it no longer found."""
    unregistered = set(places)
    with transaction.atomic():
        kept = dict(discovery.unregistered_tables.values_list("place", "pk"))
        gone = [pk for place, pk in kept.items() if place not in unregistered]
        for start in range(0, len(gone), _BATCH):
            UnregisteredTable.objects.filter(pk__in=gone[start : start + _BATCH]).delete()
        UnregisteredTable.objects.bulk_create(
            [
                UnregisteredTable(discovery=discovery, place=place, found_at=now)
                for place in places
                if place not in kept
            ],
            batch_size=_BATCH,
            ignore_conflicts=True,
        )


def list_attention_tables() -> QuerySet[UnregisteredTable]:
    """Return tables that need attention: neither registered nor dismissed."""
    registered = Table.objects.filter(uri=OuterRef("place"))
    return UnregisteredTable.objects.filter(~Exists(registered), is_dismissed=False)


def dismiss(discovery: Discovery) -> int:
    """Dismiss the results so far of a search; return how many. Later ones need attention."""
    here = list_attention_tables().filter(discovery=discovery).values("pk")
    return UnregisteredTable.objects.filter(pk__in=here).update(is_dismissed=True)


def dismiss_place(place: str) -> None:
    """Dismiss an unregistered table, as `dismiss` does, in every search."""
    UnregisteredTable.objects.filter(place=place).update(is_dismissed=True)
