"""Read-only admin pages: the log is the truth of the mirror, and history is not edited."""

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest


class _ShowsOnly:
    def has_add_permission(self, _request: HttpRequest, _obj: Any = None) -> bool:  # noqa: ANN401
        return False

    def has_change_permission(self, _request: HttpRequest, _obj: Any = None) -> bool:  # noqa: ANN401
        return False

    def has_delete_permission(self, _request: HttpRequest, _obj: Any = None) -> bool:  # noqa: ANN401
        return False


class ReadOnlyAdmin(_ShowsOnly, admin.ModelAdmin):
    """Listed, filtered, searched and opened; never added, changed or deleted."""

    show_full_result_count = False
    list_per_page = 50


class InternalAdmin(ReadOnlyAdmin):
    """Internal sums, requests and marks: reachable by their address, not listed."""

    def has_module_permission(self, _request: HttpRequest) -> bool:
        return False


class ReadOnlyInline(_ShowsOnly, admin.TabularInline):
    """Rows below another row's page, to read."""

    extra = 0
    can_delete = False
    show_change_link = True


def register_rows(
    model: type[Model],
    columns: str,
    *,
    search: str,
    filters: str = "",
    base: type[ReadOnlyAdmin] = ReadOnlyAdmin,
    **options: Any,  # noqa: ANN401 - attributes of ModelAdmin
) -> None:
    """Register read-only pages for the rows of a model; names of fields are separated by spaces.

    Rows that a listed column refers to are fetched with the list.
    """
    relations = {field.name for field in model._meta.fields if field.is_relation}
    related = [name for name in columns.split() if name in relations]
    options = {"list_select_related": related, **options}
    admin.site.register(
        model,
        base,
        list_display=columns.split(),
        search_fields=search.split(),
        list_filter=filters.split(),
        **options,
    )
