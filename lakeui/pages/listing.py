"""A filtered list in pages: its rows, its totals, its filters, and the one table they name."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import django_filters
from django.core.paginator import EmptyPage, Page, PageNotAnInteger, Paginator
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, QueryDict

from lakeui.catalog.access import visible_tables
from lakeui.catalog.filters import RangeFilter, is_row_id
from lakeui.catalog.hours import RANGES, TimeRange
from lakeui.catalog.models import Table

_MOST_COUNTED = 1_000
PAGE_SIZES = (25, 50, 100, 200)
_YES_OR_NO = {"true": "yes", "false": "no"}
_NOT_FILTERS = frozenset({"page", "page_size", "sort", "export", "range", "aborted", "heat"})


@dataclass(frozen=True, slots=True)
class ListFilter:
    """One thing a list is narrowed by, and the address without it."""

    name: str
    label: str
    value: str
    without: str


@dataclass(frozen=True, slots=True)
class FilterRemoval:
    """The rows without one filter, counted up to a cap."""

    name: str
    address: str
    count: int

    @property
    def words(self) -> str:
        return f"over {_MOST_COUNTED:,}" if self.count > _MOST_COUNTED else f"{self.count:,}"

    @property
    def verb(self) -> str:
        return "is" if self.count == 1 else "are"


class ListPage:
    """One page of filtered rows.

    Raises:
        Http404: there is no such page.
    """

    def __init__(
        self, request: HttpRequest, filters: django_filters.FilterSet, page_size: int = 50
    ) -> None:
        self._request, self.filters = request, filters
        self.is_valid: bool = filters.is_valid()
        self.rows: QuerySet[Any] = filters.qs if self.is_valid else filters.queryset.none()
        self.page_size = self._page_size(page_size)
        self.known_total: int | None = None  # if a view has counted them already

    @cached_property
    def page(self) -> Page[Any]:
        paginator = Paginator(self.rows, self.page_size)
        if self.known_total is not None:
            paginator.count = self.known_total  # a cached property there
        return find_page(self._request, paginator)

    @property
    def total(self) -> int:
        return self.page.paginator.count

    @property
    def status(self) -> int:
        return 200 if self.is_valid else 400

    @cached_property
    def active(self) -> list[ListFilter]:
        return list(self._active())

    @property
    def is_filtered(self) -> bool:
        return bool(self.active)

    @cached_property
    def without(self) -> list[FilterRemoval]:
        """The rows left without each filter, the most first: for an empty list."""
        others = [self._remove_filter(filter_) for filter_ in self.active]
        return sorted(others, key=lambda other: -other.count)

    @cached_property
    def unfiltered(self) -> FilterRemoval:
        """The list before it was narrowed."""
        return FilterRemoval("", self._request.path, _count_up_to_cap(self.filters.queryset))

    def _remove_filter(self, one: ListFilter) -> FilterRemoval:
        data = self._request.GET.copy()
        data.pop(one.name)
        left = type(self.filters)(data, queryset=self.filters.queryset, request=self._request)
        told = one.label.lower() if one.value in _YES_OR_NO.values() else one.value
        return FilterRemoval(told, one.without, _count_up_to_cap(left.qs) if left.is_valid() else 0)

    def twin(self, address: str) -> str:
        """Return the address of the same rows over REST, with times in UTC.

        The page is left out: REST continues from the last row seen.
        """
        query = QueryDict(mutable=True)
        cleaned = self.filters.form.cleaned_data if self.is_valid else {}
        for name in (*self.filters.filters, "page_size"):
            values = [value for value in self._request.GET.getlist(name) if value]
            if isinstance(cleaned.get(name), datetime):
                values = [cleaned[name].astimezone(UTC).isoformat().replace("+00:00", "Z")]
            query.setlist(name, values)
        return f"{address}?{query.urlencode()}" if query.urlencode() else address

    def _active(self) -> Iterator[ListFilter]:
        for name, one in self.filters.filters.items():
            values = [value for value in self._request.GET.getlist(name) if value]
            is_filter = name not in _NOT_FILTERS or isinstance(one, RangeFilter)
            if not values or not is_filter:
                continue
            query = self._request.GET.copy()
            query.pop(name)
            query.pop("page", None)
            said = ", ".join(_describe_filter(one, value) for value in values)
            yield ListFilter(name, str(one.label or name), said, f"?{query.urlencode()}")

    def _page_size(self, preset: int) -> int:
        text = self._request.GET.get("page_size", "")
        return int(text) if text in map(str, PAGE_SIZES) else preset


def _describe_filter(one: django_filters.Filter, value: str) -> str:
    """Describe a filter's value for people: yes, no, or the words of a choice."""
    if isinstance(one, django_filters.BooleanFilter):
        return _YES_OR_NO.get(value.lower(), value)
    words = str(dict(one.extra.get("choices", ())).get(value, value))
    return value if words.lower() == value else words


def _count_up_to_cap(rows: QuerySet[Any]) -> int:
    """Count rows, up to one beyond the cap."""
    return int(rows.order_by()[: _MOST_COUNTED + 1].count())


def range_of(request: HttpRequest, preset: str = "24h") -> TimeRange:
    """Return the range in the address that all panels of a page show; the preset if it names none.

    Raises:
        Http404: there is no such range.
    """
    name = request.GET.get("range") or preset
    if name not in RANGES:
        msg = "Unknown range."
        raise Http404(msg)
    return RANGES[name]


def range_query(request: HttpRequest) -> str:
    """Return the query that keeps the range of this page on another; empty if it names none."""
    name = request.GET.get("range")
    return f"?range={name}" if name in RANGES else ""


def one_table(request: HttpRequest) -> Table | None:
    """Return a table by id or name, as in filters; None if it is hidden."""
    text = request.GET.get("table", "").strip()
    if not text:
        return None
    visible = visible_tables(request.user)
    if is_row_id(text):
        return visible.filter(pk=int(text)).first()
    return visible.filter(name=text).first()


def find_page(request: HttpRequest, paginator: "Paginator[Any]") -> Page[Any]:
    """Return the page that the address names, by default the first; raise `Http404` for no page."""
    try:
        return paginator.page(request.GET.get("page", 1))
    except (EmptyPage, PageNotAnInteger) as error:
        msg = "This page of the list does not exist."
        raise Http404(msg) from error
