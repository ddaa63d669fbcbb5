"""Lists in pages, and filters from the query string.

A page of rows starts after the last row seen, so that other rows' changes shift nothing; a page of
a computed sequence begins at an index. `next_page_token` is opaque and signed. It belongs to the
list and the filters it came from. An unknown filter is an error, not a wider answer.
"""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import reduce
from operator import or_
from typing import Any

from django.core import signing
from django.db import models
from django.db.models import F, Q, QuerySet, Value
from django.db.models.functions import Coalesce
from django.views import View
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response

DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 500
PARAMETERS = frozenset({"page_size", "page_token"})
_SALT = "lakeui.api.listing"
SortKey = tuple[str, bool]  # the name of an annotation, and whether it descends
_EARLIEST = datetime(1, 1, 1, tzinfo=UTC)

_SEQUENCE_SALT = "lakeui.api.listing.sequence"


class KeysetPaging(BasePagination):
    """`page_size` and `page_token` in, `items` and `next_page_token` (null at the end) out."""

    next_page_token: str | None = None

    def paginate_queryset(
        self,
        queryset: Any,
        request: Request,
        view: View | None = None,  # noqa: ARG002 - the framework's signature
    ) -> list[Any]:
        size = page_size(request.query_params.get("page_size"))
        scope = scope_of(request)
        ordered, keys = _annotate_sort_keys(queryset)
        if token := request.query_params.get("page_token"):
            ordered = ordered.filter(_rows_after(keys, _decode_page_token(token, scope)))
        rows = list(ordered[: size + 1])
        if len(rows) > size:
            rows.pop()
            self.next_page_token = _encode_page_token(rows[-1], keys, scope)
        return rows

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"items": data, "next_page_token": self.next_page_token})

    def get_paginated_response_schema(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "type": "object",
            "required": ["items", "next_page_token"],
            "properties": {
                "items": schema,
                "next_page_token": {
                    "type": ["string", "null"],
                    "description": "The token of the next page. null: there is none.",
                },
            },
        }

    def get_schema_operation_parameters(self, view: View) -> list[dict[str, Any]]:  # noqa: ARG002
        return [
            {
                "name": "page_size",
                "in": "query",
                "schema": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_PAGE_SIZE,
                    "default": DEFAULT_PAGE_SIZE,
                },
            },
            {
                "name": "page_token",
                "in": "query",
                "description": "The `next_page_token` of the previous page, with the same filters.",
                "schema": {"type": "string"},
            },
        ]


def page_size(text: str | None) -> int:
    """Return the size of a page; raise ValidationError if it is no number within bounds."""
    if text is None:
        return DEFAULT_PAGE_SIZE
    if not (text.isascii() and text.isdigit() and len(text) < 5 and 0 < int(text) <= MAX_PAGE_SIZE):
        raise ValidationError({"page_size": [f"Use a number from 1 to {MAX_PAGE_SIZE}."]})
    return int(text)


def scope_of(request: Request) -> str:
    """Return the scope of a token: the list with its filters and order."""
    named = sorted(
        (name, value)
        for name, values in request.query_params.lists()
        if name not in PARAMETERS
        for value in values
    )
    return hashlib.sha256(repr((request.path, named)).encode()).hexdigest()[:16]


def _annotate_sort_keys(queryset: QuerySet[Any]) -> tuple[QuerySet[Any], list[SortKey]]:
    """Annotate the rows with sort keys that are never null, the primary key last."""
    names = [str(name) for name in queryset.query.order_by]
    last = "-pk" if names and names[0].startswith("-") else "pk"
    keys: list[SortKey] = []
    for place, name in enumerate([*names, last]):
        field = queryset.model._meta.pk if name.lstrip("-") == "pk" else None
        field = field or queryset.model._meta.get_field(name.lstrip("-"))
        key = f"page_key_{place}"
        queryset = queryset.annotate(**{key: _never_null(field)})
        keys.append((key, name.startswith("-")))
    return queryset.order_by(*(f"-{key}" if down else key for key, down in keys)), keys


def _never_null(field: Any) -> F | Coalesce:
    if not field.null:
        return F(field.attname)
    least: Any = -1
    if isinstance(field, models.DateTimeField):
        least = _EARLIEST
    elif isinstance(field, models.CharField | models.TextField):
        least = ""
    return Coalesce(F(field.attname), Value(least, output_field=field))


def _rows_after(keys: Sequence[SortKey], values: Sequence[Any]) -> Q:
    """Return the condition k1 after v1, or k1 = v1 and k2 after v2, and so on."""
    cases = []
    for place, (key, down) in enumerate(keys):
        same = {k: v for (k, _), v in zip(keys[:place], values, strict=False)}
        cases.append(Q(**same, **{f"{key}__{'lt' if down else 'gt'}": values[place]}))
    return reduce(or_, cases)


def _encode_page_token(row: Any, keys: Sequence[SortKey], scope: str) -> str:
    values = [_plain(getattr(row, key)) for key, _ in keys]
    return signing.dumps({"s": scope, "v": values}, salt=_SALT, compress=True)


def _decode_page_token(token: str, scope: str) -> list[Any]:
    try:
        content = signing.loads(token, salt=_SALT)
    except signing.BadSignature:
        content = {}
    if content.get("s") != scope:
        fault = (
            "The token does not belong to this list with these filters. Start at the first page."
        )
        raise ValidationError({"page_token": [fault]})
    return [_value(plain) for plain in content["v"]]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return {"at": value.isoformat()}
    return value if isinstance(value, int | str) else str(value)


def _value(plain: Any) -> Any:
    return datetime.fromisoformat(plain["at"]) if isinstance(plain, dict) else plain


class SequencePaging(KeysetPaging):
    """Pages of a sequence, like those of `KeysetPaging`; new items at the front shift the rest."""

    def paginate_queryset(
        self,
        queryset: Any,
        request: Request,
        view: View | None = None,  # noqa: ARG002 - the framework's signature
    ) -> list[Any]:
        size, scope = page_size(request.query_params.get("page_size")), scope_of(request)
        begin = _place(request.query_params.get("page_token"), scope)
        if len(queryset) > begin + size:
            self.next_page_token = signing.dumps([scope, begin + size], salt=_SEQUENCE_SALT)
        return list(queryset[begin : begin + size])


def _place(token: str | None, scope: str) -> int:
    if not token:
        return 0
    try:
        belongs_to, place = signing.loads(token, salt=_SEQUENCE_SALT)
    except (signing.BadSignature, ValueError) as error:
        raise ValidationError({"page_token": ["The token is not from this service."]}) from error
    if belongs_to != scope:
        raise ValidationError(
            {"page_token": ["The token belongs to another list or to other filters."]}
        )
    return int(place)


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
        fault = f"Unknown parameter. The parameters are: {', '.join(sorted(allowed)) or 'none'}."
        raise ValidationError({name[:100]: [fault] for name in unknown}, code="unknown_parameter")


def refuse_body(request: Request) -> None:
    """Raise ValidationError for the fields of a body that would be ignored."""
    given = request.data
    if given:
        fault = "This request takes no body."
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


def parse_body(request: Request, kind: type[serializers.Serializer[Any]]) -> dict[str, Any]:
    """Validate the body by a serializer."""
    form = kind(data=request.data)
    form.is_valid(raise_exception=True)
    return dict(form.validated_data)
