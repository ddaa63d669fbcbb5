"""Rows of any model, with a value in each field."""

import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from django.db import models

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)


def fill_models(models_to_fill: Sequence[type[models.Model]], count: int) -> None:
    """Create `count` rows of each model, referenced models first."""
    waiting = list(models_to_fill)
    while waiting:
        ready = [model for model in waiting if not _list_required_models(model) & {*waiting}]
        assert ready, waiting
        for model in ready:
            for number in range(1, count + 1):
                model._default_manager.create(**dict(_values(model, number)))
            waiting.remove(model)


def _list_required_models(model) -> set[Any]:
    keys = [field for field in model._meta.concrete_fields if field.is_relation and not field.null]
    return {field.related_model for field in keys if field.related_model is not model}


def _values(model, number: int) -> Iterator[tuple[str, Any]]:
    for field in model._meta.concrete_fields:
        if field.is_relation:
            row = field.related_model._default_manager.order_by("pk")[number - 1 : number].first()
            if row is not None or not field.null:  # two that name each other: the first names none
                yield field.name, row
        elif not isinstance(field, models.AutoField):
            yield field.name, _value(field, number)


def _value(field, number: int) -> Any:
    if field.choices:
        choices = [choice[0] for choice in field.flatchoices]
        return choices[number % len(choices)]
    kinds: list[tuple[type[models.Field], Any]] = [
        (models.DateTimeField, AT + timedelta(hours=number)),
        (models.DateField, date(2026, 11, number)),
        (models.TimeField, time(number)),
        (models.DurationField, timedelta(seconds=number)),
        (models.BooleanField, number % 2 == 0),
        (models.UUIDField, uuid.UUID(int=number)),
        (models.JSONField, _json(field, number)),
        (models.DecimalField, Decimal(number)),
        (models.FloatField, number + 0.5),
        (models.IntegerField, number),
        (models.BinaryField, bytes([number])),
        (models.CharField, f"{field.name}{number}"[-(field.max_length or 50) :]),
        (models.GenericIPAddressField, f"10.0.0.{number}"),
        (models.TextField, f"{field.name} {number}"),
    ]
    fitting = [value for kind, value in kinds if isinstance(field, kind)]
    assert fitting, field
    return fitting[0]


def _json(field, number: int) -> Any:
    return [str(number)] if field.get_default() == [] else {"n": number}
