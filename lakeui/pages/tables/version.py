"""One version of a table: its changes, overlapping writes, and the commit as written."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.db.models import Count, F, QuerySet, Sum
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import content_disposition_header

from engine.vocabulary import TRANSACTION
from lakeui.catalog.access import Person, may, visible_tables
from lakeui.catalog.differences import change_of
from lakeui.catalog.models import Commit, CommitFile, Table
from lakeui.catalog.row_counts import rows_of
from lakeui.conflicts.isolation.reordering import find_out_of_order_among
from lakeui.conflicts.models import PipelineTransaction
from lakeui.conflicts.version_effects import effects_of
from lakeui.jobs.filters import visible_jobs
from lakeui.jobs.streams import streams_stopped_by
from lakeui.jobs.version_jobs import job_of_version
from lakeui.pages.operations import rows_text, statements_of, what_of
from lakeui.pages.table_head import table_head, visible_table

_FILES_A_PAGE = 50
_ACTIONS_SHOWN = 200
_TELLING = ("operation", "path", "domain", "appId", "id")  # distinctive members of an action
_NAME_SHOWN = 200
_WORKSPACE_ORIGINS = (
    ("Notebook", "notebook", "notebookId", "#notebook/"),
    ("Workspace job", "job", "jobId", "#job/"),
)
"""Of a Databricks commit: the label, the member of commitInfo, its id, and its page."""
_ORDERS = {
    "path": (F("action").asc(), F("path").asc()),
    "-size": (F("size_bytes").desc(nulls_last=True), F("path").asc()),
}


@dataclass(frozen=True, slots=True)
class RawAction:
    """A line of the commit: its name, its indented JSON, and a distinctive value.

    A line that cannot be read, because the mirror cut it, has no name.
    """

    name: str
    text: str
    about: str = ""
    said: Any = None

    @property
    def defines(self) -> bool:
        return self.name in {"metaData", "protocol"}


@dataclass(frozen=True, slots=True)
class VersionOrigin:
    """A writer of the version outside of this installation; `address` is "" if unknown."""

    label: str
    text: str
    address: str
    more: str = ""


@dataclass(frozen=True, slots=True)
class FileRow:
    """A file of the version; `only_vector` if only its deletion vector changed."""

    file: CommitFile
    only_vector: bool = False
    newly_marked: int = 0


@login_required
def version(request: HttpRequest, pk: int, version: int) -> HttpResponse:
    table = visible_table(request, pk)
    commit = table.commits.filter(version=version).first()
    if commit is None:
        raise Http404(_why_not(table, version))
    if request.GET.get("raw") == "download":
        return _download(table, commit)
    return render(request, "tables/version.html", _context(request, table, commit))


def _context(request: HttpRequest, table: Table, commit: Commit) -> dict[str, Any]:
    action = request.GET.get("action", "")
    around = table.commits.order_by("version").values_list("version", flat=True)
    actions = list(_raw_actions(commit.raw))
    said = next((action.said for action in actions if action.name == "commitInfo"), None)
    commit_info: Mapping[str, Any] = said if isinstance(said, dict) else {}
    files = Paginator(_files(request, commit, action), _FILES_A_PAGE).get_page(
        request.GET.get("page")
    )
    return {
        "table": table,
        "commit": commit,
        "head": table_head(request, table, "history", here=commit.version),
        "what": what_of(commit),
        "statements": statements_of(commit),
        "together": _list_together(commit, request.user),
        "rows": rows_text(rows_of(commit)),
        "change": change_of(commit),
        "order": find_out_of_order_among(table, [commit]).get(commit.version),
        "files": files,
        "file_rows": _file_rows(commit, list(files)),
        "file_sums": _file_sums(commit),
        "action": action,
        "sort": request.GET.get("sort", "path"),
        "actions": CommitFile.Action.choices,
        "previous": around.filter(version__lt=commit.version).last(),
        "next": around.filter(version__gt=commit.version).first(),
        "effects": effects_of(table, commit.version),
        "streams": streams_stopped_by(commit, request.user),
        "origins": _list_origins(commit, commit_info),
        "job": job_of_version(visible_jobs(request.user), table, commit.version),
        "files_touched": commit.files_added + commit.files_removed,
        "raw_actions": actions[:_ACTIONS_SHOWN],
        "raw_actions_left": max(len(actions) - _ACTIONS_SHOWN, 0),
        "raw_is_cut": len(commit.raw.encode()) < commit.raw_bytes,
        "may_restore": may(request.user, "admin", table) and commit.version != table.version,
        "twin": f"/api/v1/tables/{table.pk}/versions/{commit.version}/",
    }


def _list_together(commit: Commit, user: Person) -> QuerySet[Commit]:
    """List the commits of the same transaction at other tables that the person may see."""
    others = Commit.objects.exclude(table=commit.table_id).filter(
        txn_id=commit.txn_id, operation=TRANSACTION.name, table__in=visible_tables(user)
    )
    if commit.operation != TRANSACTION.name or not commit.txn_id:
        others = others.none()
    return others.select_related("table").order_by("table__name")


def _list_origins(commit: Commit, commit_info: Mapping[str, Any]) -> list[VersionOrigin]:
    """List the program, notebook and workspace job that wrote the version, as far as recorded."""
    programs = PipelineTransaction.objects.filter(
        table=commit.table_id, committed_version=commit.version, txn_id=commit.txn_id
    )
    origins = [
        VersionOrigin(
            "Program",
            str(program.pipeline),
            f"{reverse('conflict-list')}?{urlencode({'user': str(program.pipeline)})}",
            " as ".join(filter(None, (program.host and f"on {program.host}", program.user_name))),
        )
        for program in programs.select_related("pipeline")[:1]
    ]
    base = settings.WORKSPACE_URL.rstrip("/")
    for label, member, identifier, path in _WORKSPACE_ORIGINS:
        facts = commit_info.get(member)
        if not isinstance(facts, dict):
            continue
        if text := str(facts.get(identifier) or ""):
            address = f"{base}/{path}{quote(text, safe='')}" if base else ""
            name = str(facts.get("jobName") or "")[:_NAME_SHOWN]
            origins.append(VersionOrigin(label, text[:_NAME_SHOWN], address, name))
    return origins


def _files(request: HttpRequest, commit: Commit, action: str) -> Any:  # noqa: ANN401 - a queryset
    order = _ORDERS.get(request.GET.get("sort", ""), _ORDERS["path"])
    files = commit.files.order_by(*order)
    return files.filter(action=action) if action in CommitFile.Action.values else files


def _file_rows(commit: Commit, files: list[CommitFile]) -> list[FileRow]:
    """Return file rows; a file both removed and added only got another deletion vector."""
    same = commit.files.filter(path__in=[file.path for file in files]).order_by()
    marked: dict[str, dict[str, int]] = defaultdict(dict)
    for path, action, deleted in same.values_list("path", "action", "deleted_row_count"):
        marked[path][action] = deleted
    return [_file_row(file, marked[file.path]) for file in files]


def _file_row(file: CommitFile, marked: dict[str, int]) -> FileRow:
    if not {CommitFile.Action.ADD, CommitFile.Action.REMOVE} <= set(marked):
        return FileRow(file)
    more = marked[CommitFile.Action.ADD] - marked[CommitFile.Action.REMOVE]
    return FileRow(file, only_vector=True, newly_marked=max(more, 0))


def _file_sums(commit: Commit) -> dict[str, Any]:
    """Return sums over the mirrored files, by action."""
    rows = commit.files.order_by().values("action")
    sums = rows.annotate(files=Count("pk"), size=Sum("size_bytes"), rows=Sum("row_count"))
    return {sums_of["action"]: sums_of for sums_of in sums}


def _raw_actions(raw: str) -> Iterator[RawAction]:
    for line in raw.splitlines():
        try:
            action = json.loads(line)
        except ValueError:
            action = None
        if isinstance(action, dict) and action:
            yield _raw_action(*next(iter(action.items())))
        elif line.strip():
            yield RawAction("", line)


def _raw_action(name: str, said: object) -> RawAction:
    about = (
        next((said[key] for key in _TELLING if key in said), "") if isinstance(said, dict) else ""
    )
    text = json.dumps(said, indent=2, ensure_ascii=False)
    return RawAction(name, text, str(about)[:200], said)


def _download(table: Table, commit: Commit) -> HttpResponse:
    """Return the commit as stored, byte for byte as far as it is."""
    response = HttpResponse(commit.raw, content_type="application/x-ndjson; charset=utf-8")
    name = f"{table.name}-{commit.version:020d}.json"
    disposition = content_disposition_header(as_attachment=True, filename=name)
    response["Content-Disposition"] = disposition
    return response


def _why_not(table: Table, version: int) -> str:
    if table.version is None:
        return f"No version of {table.name} has been read."
    if version > table.version:
        return (
            f"{table.name} has no version {version}. The latest mirrored version is "
            f"{table.version}."
        )
    return (
        f"Version {version} of {table.name} is not in the mirror, because log cleanup had "
        "removed it before the table was first read. The oldest mirrored version is "
        f"{table.earliest_version}."
    )
