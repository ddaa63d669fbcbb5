"""Filters from the query string. An unknown name is an error, not a wider answer."""

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from django.views import View
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request

from lakeui.api.paging import PARAMETERS


class StrictFilterBackend(DjangoFilterBackend):
    """The view's `filterset_class`, and no other parameter than its filters and paging."""

    def filter_queryset(
        self, request: Request, queryset: QuerySet[Any], view: View
    ) -> QuerySet[Any]:
        filterset_class = self.get_filterset_class(view, queryset)
        filters = set(filterset_class.base_filters) if filterset_class else set()
        refuse_unknown(request, filters | PARAMETERS)
        filtered: QuerySet[Any] = super().filter_queryset(request, queryset, view)
        return filtered


def refuse_unknown(request: Request, allowed: set[str] | frozenset[str]) -> None:
    """Raise ValidationError for unknown query parameters."""
    unknown = set(request.query_params) - allowed
    if unknown:
        fault = f"There is no such parameter here. Known: {', '.join(sorted(allowed)) or 'none'}."
        raise ValidationError({name[:100]: [fault] for name in unknown}, code="unknown_parameter")


def refuse_body(request: Request) -> None:
    """Raise ValidationError for the fields of a body that would be ignored."""
    given = request.data
    if given:
        fault = "No body is taken here."
        names = given if isinstance(given, Mapping) else ["non_field_errors"]
        raise ValidationError({str(name)[:100]: [fault] for name in names}, code="unknown_field")


def refuse_all(request: Request) -> None:
    """Raise ValidationError for query parameters and for a body, in an action with neither."""
    refuse_unknown(request, frozenset())
    refuse_body(request)


def parse_query(request: Request, kind: type[serializers.Serializer[Any]]) -> dict[str, Any]:
    """Validate the query string by a serializer; refuse unknown names."""
    form = kind(data=request.query_params)
    refuse_unknown(request, set(form.fields))
    form.is_valid(raise_exception=True)
    return dict(form.validated_data)
