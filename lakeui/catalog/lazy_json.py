"""JSON decoded on first use.

Rows of tables are read for their names and figures far more often than for their schema, which may
have 50,000 columns.
"""

import json
from typing import Any

from django.db import models
from django.db.models.query_utils import DeferredAttribute


class _EncodedValue(str):
    """A value as the database holds it."""

    __slots__ = ()


class _DecodedLate(DeferredAttribute):
    def __get__(self, instance: models.Model | None, cls: type[models.Model] | None = None) -> Any:  # noqa: ANN401 - JSON
        value = super().__get__(instance, cls)
        if isinstance(value, _EncodedValue) and instance is not None:
            value = instance.__dict__[self.field.attname] = json.loads(value)
        return value

    def __set__(self, instance: models.Model, value: Any) -> None:  # noqa: ANN401 - JSON
        """Make this a data descriptor: otherwise Python would bypass it for stored values."""
        instance.__dict__[self.field.attname] = value


class LateJSONField(models.JSONField):
    """Django's field, decoded by its row on first use; migrations see Django's own.

    Not for `values()`: its results are not decoded.
    """

    descriptor_class = _DecodedLate

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:  # noqa: ANN401 - Django's
        if isinstance(value, str):
            return _EncodedValue(value)
        return super().from_db_value(value, expression, connection)

    def deconstruct(self) -> Any:  # noqa: ANN401 - Django's
        name, _, arguments, keywords = super().deconstruct()
        return name, "django.db.models.JSONField", arguments, keywords
