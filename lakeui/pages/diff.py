"""What changed between two versions of a table: schema, properties, protocol, files."""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.db.models import Count, QuerySet, Sum
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from engine.actions.codec import decode_lines
from engine.actions.table import Metadata
from engine.errors import EngineError
from engine.schema.types import StructType, parse_schema
from lakeui.catalog.models import Commit, Table
from lakeui.pages.schema_rows import schema_lines
from lakeui.pages.table_head import table_head, visible_table

_VERSIONS_A_PAGE = 50


@dataclass(frozen=True, slots=True)
class State:
    """A table's definition at a version, as lines to compare."""

    schema: tuple[str, ...]
    properties: tuple[str, ...]
    layout: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DiffLine:
    sign: str  # "+", "-", " "
    text: str

    @property
    def css(self) -> str:
        return {"+": "add", "-": "del"}.get(self.sign, "")


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    lines: tuple[DiffLine, ...]

    @property
    def changed(self) -> bool:
        return any(line.sign != " " for line in self.lines)


@login_required
def choose(request: HttpRequest, pk: int) -> HttpResponse:
    """From two ticked versions to their page."""
    table = visible_table(request, pk)
    ticked = [text for text in request.GET.getlist("v") if text.isascii() and text.isdigit()]
    versions = sorted({int(text) for text in ticked if len(text) < 19})
    if len(versions) < 2:
        return redirect("table-history", table.pk)
    return redirect("table-diff", table.pk, versions[0], versions[-1])


@login_required
def diff(request: HttpRequest, pk: int, older: int, newer: int) -> HttpResponse:
    table = visible_table(request, pk)
    if older >= newer:
        return (
            redirect("table-diff", pk, newer, older)
            if older > newer
            else redirect("table-version", pk, newer)
        )
    between = table.commits.filter(version__gt=older, version__lte=newer).defer("raw")
    sums = _sums(between)
    if not sums["n"]:
        msg = f"The mirror holds no version of {table.name} from {older + 1} to {newer}."
        raise Http404(msg)
    versions = Paginator(between.order_by("-version"), _VERSIONS_A_PAGE)
    context = _definition(table, older, newer) | {
        "table": table,
        "head": table_head(request, table, "history", here=newer),
        "older": older,
        "newer": newer,
        "sums": sums,
        "missing": newer - older - sums["n"],
        "net_bytes": sums["bytes_added"] - sums["bytes_removed"],
        "versions": versions.get_page(request.GET.get("page")),
        **_between(between),
    }
    return render(request, "tables/diff.html", context)


def _sums(between: QuerySet[Commit]) -> dict[str, int]:
    return between.order_by().aggregate(
        n=Count("pk"),
        added=Sum("files_added"),
        removed=Sum("files_removed"),
        bytes_added=Sum("bytes_added"),
        bytes_removed=Sum("bytes_removed"),
    )


def _between(between: QuerySet[Commit]) -> dict[str, Any]:
    counted = between.order_by().values_list("operation").annotate(n=Count("pk"))
    upgrades = between.filter(changes_protocol=True)
    return {
        "operations": counted.order_by("-n"),
        "protocol_changes": upgrades.values_list("version", flat=True),
    }


def _definition(table: Table, older: int, newer: int) -> dict[str, Any]:
    before, after = _state_at(table, older), _state_at(table, newer)
    if before is None or after is None:
        return {"is_known": False}
    return {"is_known": True, "sections": list(_sections(before, after))}


def _state_at(table: Table, version: int) -> State | None:
    """The table's own row where nothing changed since; else the last commit that changed it."""
    changed = table.commits.filter(changes_metadata=True)
    if version >= (table.version or 0) or not changed.filter(version__gt=version).exists():
        columns = ", ".join(map(str, table.partition_columns))
        return _state(_parsed(table.schema), table.properties, columns)
    commit = changed.filter(version__lte=version).order_by("-version").first()
    metadata = _metadata_in(commit) if commit else None
    if metadata is None:
        return None
    schema = _parsed(metadata.schema_string)
    return _state(schema, metadata.configuration, ", ".join(metadata.partition_columns))


def _state(schema: StructType | None, properties: Any, partitioned_by: str) -> State:  # noqa: ANN401 - a mapping as in the log
    return State(
        tuple(schema_lines(schema)) if schema else (),
        tuple(f"{name} = {value}" for name, value in sorted(properties.items())),
        (f"partitioned by {partitioned_by}" if partitioned_by else "not partitioned",),
    )


def _metadata_in(commit: Commit) -> Metadata | None:
    try:
        actions = decode_lines(commit.raw.encode())
        return next((each for each in actions if isinstance(each, Metadata)), None)
    except EngineError:
        return None


def _parsed(schema: Any) -> StructType | None:  # noqa: ANN401 - JSON
    try:
        return parse_schema(schema) if schema else None
    except EngineError:
        return None


def _sections(before: State, after: State) -> Iterator[Section]:
    yield Section("Schema", tuple(_lines(before.schema, after.schema)))
    yield Section("Properties", tuple(_lines(before.properties, after.properties)))
    yield Section("Layout", tuple(_lines(before.layout, after.layout)))


def _lines(before: Sequence[str], after: Sequence[str]) -> Iterator[DiffLine]:
    for line in difflib.ndiff(before, after):
        if line[0] != "?":
            yield DiffLine(line[0], line[2:])
