"""Stored sums over other rows, updated in the same transaction as these."""

from collections.abc import Iterable, Mapping

from django.db import IntegrityError, transaction
from django.db.models import F, Model


def add_to(model: type[Model], key: Mapping[str, object], sums: Mapping[str, int]) -> None:
    """Add to the row of a key, or create it. Two workers may create the same row at once."""
    rows = model._default_manager.filter(**key)
    more = {name: F(name) + value for name, value in sums.items()}
    if rows.update(**more):
        return
    try:
        with transaction.atomic():
            first = {name: max(value, 0) for name, value in sums.items()}
            model._default_manager.create(**key, **first)
    except IntegrityError:
        rows.update(**more)


def add_sums(sums: Iterable[int], others: Iterable[int]) -> tuple[int, ...]:
    """Add sums of the same things, one by one."""
    return tuple(map(sum, zip(sums, others, strict=True)))
