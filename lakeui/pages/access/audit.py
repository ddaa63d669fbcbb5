"""The audit log: requests, changes of roles, and refusals of each person."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from auditlog.models import LogEntry
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render

from lakeui.catalog.access import may
from lakeui.catalog.models import Table
from lakeui.catalog.roles import Role
from lakeui.monitoring.audit import OF_A_TABLE
from lakeui.monitoring.filters import ACT_CHOICES, ACTS, THINGS, AuditFilter, trail
from lakeui.pages.exports import export
from lakeui.pages.listing import ListPage

_REASON = "reason"
_PEOPLE = frozenset({"user", "owner", "requested_by"})
_WORDS = {"role": {str(role.value): role.label for role in Role}}
_FRACTION = re.compile(r"(?<=^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(\.\d+)?$")
COLUMNS = {
    "at": lambda e: e.timestamp,
    "who": lambda e: e.actor.get_username() if e.actor else None,
    "address": lambda e: e.remote_addr,
    "act": lambda e: ACTS[e.action],
    "thing": lambda e: THINGS.get(e.content_type.model, e.content_type.model),
    "id": lambda e: e.object_pk,
    "name": lambda e: e.object_repr,
    "changes": lambda e: e.changes_dict,
    "why": lambda e: _why(e.changes_dict),
    "refused": lambda e: (e.additional_data or {}).get("refused"),
    "did": lambda e: (e.additional_data or {}).get("did"),
}


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A changed field. `is_flag`: it was switched on at the creation, and has no value."""

    field: str
    old: str
    new: str
    is_flag: bool = False


@dataclass(frozen=True, slots=True)
class AuditRow:
    """An entry as people read it."""

    entry: LogEntry
    act: str
    thing: str
    table: Table | None
    changes: tuple[FieldChange, ...]
    refused: str
    did: str
    why: str

    @property
    def job_id(self) -> str:
        """The id of an entry's job, if it still exists."""
        is_job = self.entry.content_type.model == "job"
        return self.entry.object_pk if is_job and self.act != ACTS[LogEntry.Action.DELETE] else ""


@login_required
def audit(request: HttpRequest) -> HttpResponseBase:
    if not may(request.user, "maintain"):
        msg = "You need the role maintainer on all tables to read the audit log."
        raise PermissionDenied(msg)
    listing = ListPage(request, AuditFilter(request.GET, trail()))
    if "export" in request.GET and listing.is_valid:
        return export(listing.rows, COLUMNS, request.GET["export"], "audit")
    context = {
        "listing": listing,
        "rows": audit_rows(list(listing.page)),
        "chips": [
            ("", "All"),
            *((value, said.removeprefix("was ")) for value, said in ACT_CHOICES),
        ],
        "refused": str(LogEntry.Action.ACCESS),
        "things": THINGS.items(),
        "twin": listing.twin("/api/v1/audit/"),
    }
    return render(request, "access/audit.html", context, status=listing.status)


def audit_rows(entries: list[LogEntry]) -> list[AuditRow]:
    """Return the entries with names for their ids, queried all at once."""
    table_ids = _table_ids(entries)
    tables = Table.objects.in_bulk([pk for pk in table_ids.values() if pk is not None])
    numbers = {
        int(value)
        for entry in entries
        for name, values in entry.changes_dict.items()
        if name in _PEOPLE and isinstance(values, list)
        for value in values
        if str(value).isdecimal()
    }
    people = {str(pk): user.get_username() for pk, user in User.objects.in_bulk(numbers).items()}
    return [
        AuditRow(
            entry,
            ACTS[entry.action],
            THINGS.get(entry.content_type.model, entry.content_type.model),
            tables.get(table_ids[entry.pk] or 0),
            tuple(_changes(entry.changes_dict, people)),
            str((entry.additional_data or {}).get("refused", "")),
            str((entry.additional_data or {}).get("did", "")),
            _why(entry.changes_dict),
        )
        for entry in entries
    ]


def _table_ids(entries: Iterable[LogEntry]) -> dict[int, int | None]:
    """Return the table of each entry, by the entry's key."""
    ids = {entry.pk: _own_table_id(entry) for entry in entries}
    for thing, model in OF_A_TABLE.items():
        asked = {
            entry.pk: entry.object_id
            for entry in entries
            if entry.content_type.model == thing and ids[entry.pk] is None
        }
        if asked:
            rows = dict(model.objects.filter(pk__in=asked.values()).values_list("pk", "table_id"))
            ids |= {key: rows.get(pk) for key, pk in asked.items()}
    return ids


def _own_table_id(entry: LogEntry) -> int | None:
    if entry.content_type.model == "table":
        own: int | None = entry.object_id
        return own
    values = entry.changes_dict.get("table")
    numbers = [v for v in values if str(v).isdecimal()] if isinstance(values, list) else []
    return int(numbers[-1]) if numbers else None


def _changes(changes: Mapping[str, Any], people: Mapping[str, str]) -> Iterator[FieldChange]:
    for name, values in changes.items():
        if name in {"table", "id", _REASON}:
            continue
        label = name.replace("_", " ")
        if name == "password":  # the entry has no more
            yield FieldChange(label, "", "", is_flag=True)
            continue
        if isinstance(values, Mapping):  # people put into groups, or taken out
            names = ", ".join(map(str, values.get("objects", ())))
            is_added = values.get("operation") == "add"
            yield FieldChange(label, "" if is_added else names, names if is_added else "")
        elif isinstance(values, list) and len(values) == 2:
            shown = partial(
                _display_value, words=people if name in _PEOPLE else _WORDS.get(name, {})
            )
            old, new = shown(values[0]), shown(values[1])
            is_made_off = not old and new == "False"
            if (old or new) and not is_made_off:
                yield FieldChange(label, old, new, is_flag=not old and new == "True")


def _why(changes: Mapping[str, Any]) -> str:
    """Return the reason given by the actor."""
    values = changes.get(_REASON)
    last = values[-1] if isinstance(values, list) and values else None
    return "" if last in (None, "None") else str(last)


def _display_value(value: object, words: Mapping[str, str]) -> str:
    text = "" if value is None or value == "None" else str(value)
    return words.get(text) or _FRACTION.sub(" UTC", text)
