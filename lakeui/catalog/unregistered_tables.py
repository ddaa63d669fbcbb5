"""Tables that repeated searches found and nobody registered: told until they are registered or dismissed.

They outlive the round that found them, so that nothing is told to be over while the next one is under way.
"""

from collections.abc import Collection
from datetime import datetime

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from lakeui.catalog.models import Discovery, Table, UnregisteredTable

_BATCH = 500


def keep_unregistered(discovery: Discovery, places: Collection[str], now: datetime) -> None:
    """Write down what a complete round found and nobody registered; what it found no more is forgotten."""
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
    """Tables that need attention: neither registered nor dismissed."""
    registered = Table.objects.filter(uri=OuterRef("place"))
    return UnregisteredTable.objects.filter(~Exists(registered), is_dismissed=False)


def dismiss(discovery: Discovery) -> int:
    """Have those that a search found so far need no attention; how many. Later ones do."""
    here = list_attention_tables().filter(discovery=discovery).values("pk")
    return UnregisteredTable.objects.filter(pk__in=here).update(is_dismissed=True)


def dismiss_place(place: str) -> None:
    """As `dismiss`, of a table that somebody took off the list, in every search."""
    UnregisteredTable.objects.filter(place=place).update(is_dismissed=True)
