"""A table's columns, constraints and keys, and their history."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST

from engine.errors import EngineError, RequestError
from engine.schema.column_mapping import column_mapping_mode
from lakeui.catalog.access import may
from lakeui.catalog.differences import definition_changes
from lakeui.catalog.keys import (
    Key,
    check_constraints,
    columns_by_name,
    declare_key,
    list_missing_columns,
    parse_key,
    redact_keys,
)
from lakeui.catalog.models import Table, TableKey
from lakeui.catalog.schema_rows import SchemaRows
from lakeui.pages.errors import refuse_when_read_only
from lakeui.pages.exports import export
from lakeui.pages.table_head import table_head, visible_table

COLUMNS = {
    "path": lambda r: r.path,
    "type": lambda r: r.type,
    "nullable": lambda r: r.nullable,
    "role": lambda r: r.role,
    "comment": lambda r: r.comment,
    "default": lambda r: r.default,
    "generated": lambda r: r.generated,
    "identity": lambda r: r.identity,
    "invariant": lambda r: r.invariant,
    "mapping_id": lambda r: r.mapping_id,
    "physical_name": lambda r: r.physical_name,
}
COLUMNS_A_PAGE = 200
MAX_NAME = 255
_CHANGES_SHOWN = 20
_MONO = {"class": "mono", "spellcheck": "false", "autocomplete": "off"}


class KeyForm(forms.Form):
    """A key by its parts, or as SQL, which takes precedence."""

    sql = forms.CharField(
        label="As SQL",
        required=False,
        max_length=4000,
        help_text="A statement from another catalog: ALTER TABLE t ADD CONSTRAINT t_pk PRIMARY KEY "
        "(id) NOT ENFORCED. Or fill in the fields below.",
        widget=forms.Textarea(attrs=_MONO | {"rows": 2}),
    )
    kind = forms.ChoiceField(label="Kind", choices=TableKey.Kind.choices, required=False)
    columns = forms.CharField(
        label="Columns",
        required=False,
        help_text="Commas between.",
        widget=forms.TextInput(attrs=_MONO),
    )
    references = forms.CharField(
        label="References table",
        required=False,
        max_length=255,
        help_text="For a foreign key only.",
        widget=forms.TextInput(attrs=_MONO),
    )
    referenced_columns = forms.CharField(
        label="Its columns",
        required=False,
        help_text="Leave empty for its primary key.",
        widget=forms.TextInput(attrs=_MONO),
    )
    name = forms.CharField(
        label="Name",
        required=False,
        max_length=255,
        help_text="Leave empty to generate a name.",
        widget=forms.TextInput(attrs=_MONO),
    )

    def key(self) -> Key:
        """Return the requested key; raise `RequestError` if it is invalid."""
        given = self.cleaned_data
        if given["sql"].strip():
            return parse_key(given["sql"])
        return Key(
            kind=given["kind"] or TableKey.Kind.PRIMARY,
            columns=_split_list(given["columns"]),
            name=given["name"].strip(),
            references=given["references"].strip(),
            referenced_columns=_split_list(given["referenced_columns"]),
        )


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A key with its problems: columns that are missing, or may be null."""

    key: TableKey
    missing: tuple[str, ...]
    nullable: tuple[str, ...]


@login_required
def schema(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Render the page; a POST declares a key."""
    table = visible_table(request, pk)
    if "export" in request.GET:
        name = f"{table.name}-schema"
        return export(_columns(request, table), COLUMNS, request.GET["export"], name)
    form = KeyForm(request.POST or None)
    if request.method == "POST":
        _require(request, table)
        if form.is_valid() and _try_declare_key(request, table, form):
            return redirect("table-schema", pk)
    context = _context(request, table) | {"form": form}
    return render(request, "tables/schema.html", context, status=400 if form.errors else 200)


@require_POST
@login_required
def key_remove(request: HttpRequest, pk: int, key_pk: int) -> HttpResponse:
    table = visible_table(request, pk)
    _require(request, table)
    key = get_object_or_404(table.keys, pk=key_pk)
    key.delete()
    messages.success(request, f"{key.name} was removed. The table itself did not change.")
    return redirect("table-schema", pk)


def _context(request: HttpRequest, table: Table) -> dict[str, Any]:
    columns = _columns(request, table)
    page = Paginator(columns, COLUMNS_A_PAGE).get_page(request.GET.get("page"))
    rows = list(page)
    return {
        "table": table,
        "head": table_head(request, table, "schema"),
        "page": page,
        "rows": rows,
        "column_count": len(SchemaRows(table)) if _part(request) else len(columns),
        "q": _part(request),
        "keys": _keys(request, table),
        "constraints": check_constraints(table.properties),
        "mapping": column_mapping_mode(table.properties),
        "changes": definition_changes(table, _CHANGES_SHOWN),
        "has_defaults": any(row.default or row.generated or row.identity for row in rows),
        "twin": _twin(request, table),
    }


def _columns(request: HttpRequest, table: Table) -> SchemaRows:
    return SchemaRows(table, _part(request))


def _part(request: HttpRequest) -> str:
    """Return the searched part of column names."""
    return request.GET.get("q", "").strip()[:MAX_NAME]


def _twin(request: HttpRequest, table: Table) -> str:
    """Return the address of matching columns in a search; else of the whole definition."""
    address = f"/api/v1/tables/{table.pk}/"
    part = _part(request)
    return f"{address}columns/?{urlencode({'q': part})}" if part else f"{address}schema/"


def _keys(request: HttpRequest, table: Table) -> list[KeyRow]:
    declared = table.keys.select_related("referenced_table", "declared_by")
    keys = redact_keys(declared, request.user)
    columns = columns_by_name(table) if keys else {}
    return [
        KeyRow(
            key,
            list_missing_columns(key, columns),
            tuple(name for name in key.columns if _may_be_null(columns.get(name.lower())))
            if key.kind == TableKey.Kind.PRIMARY
            else (),
        )
        for key in keys
    ]


def _may_be_null(column: dict[str, Any] | None) -> bool:
    return column is not None and bool(column.get("nullable", True))


def _try_declare_key(request: HttpRequest, table: Table, form: KeyForm) -> bool:
    try:
        key = declare_key(table, form.key(), request.user)  # type: ignore[arg-type]  # signed in
    except RequestError as error:
        named = str(error.field or "")
        form.add_error(named if named in form.fields else None, str(error))
        return False
    except EngineError as error:
        form.add_error(None, str(error))
        return False
    messages.success(request, f"{key.name} was declared. It is not enforced.")
    return True


def _require(request: HttpRequest, table: Table) -> None:
    refuse_when_read_only()
    if not may(request.user, "maintain", table):
        msg = f"You need the role maintainer on {table.name} to change its keys."
        raise PermissionDenied(msg)


def _split_list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
