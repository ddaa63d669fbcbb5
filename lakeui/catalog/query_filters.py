"""Filters of a query string whose values fit a database, whatever was sent."""

from datetime import UTC, datetime

import django_filters
from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import MaxLengthValidator
from django_filters.fields import IsoDateTimeField

MAX_TEXT = 1000


class TextField(forms.CharField):
    """Text of bounded length: SQLite refuses long patterns, and each part of one costs."""

    default_validators = [MaxLengthValidator(MAX_TEXT)]


class TextFilter(django_filters.CharFilter):
    """A text, or a part of it."""

    field_class = TextField


class MomentField(IsoDateTimeField):
    """RFC 3339 and ISO 8601; no time whose UTC lies outside the calendar."""

    def to_python(self, value: object) -> datetime | None:
        try:
            moment: datetime | None = super().to_python(value)
            return moment and moment.astimezone(UTC)
        except OverflowError as error:
            raise ValidationError(self.error_messages["invalid"], code="invalid") from error


class MomentFilter(django_filters.IsoDateTimeFilter):
    """A moment, in UTC."""

    field_class = MomentField
