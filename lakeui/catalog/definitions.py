"""What a table was at a version, and what changed between two, from the mirrored commits alone."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q, QuerySet, Sum

from engine.actions.codec import decode_lines
from engine.actions.table import Metadata, Protocol
from engine.errors import EngineError
from engine.schema.types import StructType, parse_schema
from lakeui.catalog.models import Commit, Table
from lakeui.catalog.schema_rows import schema_lines

DEFINES = Q(changes_metadata=True) | Q(changes_protocol=True)  # as an index has it


@dataclass(frozen=True, slots=True)
class Definition:
    """As lines to compare; nested columns are indented."""

    schema: tuple[str, ...]
    properties: tuple[str, ...]
    layout: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """`sign` is "+", "-" or, for what stayed, a space."""

    sign: str
    text: str

    @property
    def css(self) -> str:
        return {"+": "add", "-": "del"}.get(self.sign, "")


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    lines: tuple[Line, ...]

    @property
    def changed(self) -> bool:
        return any(line.sign != " " for line in self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """From `older`, exclusive, to `newer`. `sections` is None where the definition is not kept.

    `missing` versions are not mirrored. Rows are None where some commit does not record them.
    """

    older: int
    newer: int
    version_count: int
    missing: int
    files_added: int
    files_removed: int
    bytes_added: int
    bytes_removed: int
    rows_added: int | None
    rows_deleted_by_vectors: int
    operations: tuple[tuple[str, int], ...]
    protocol_versions: tuple[int, ...]
    sections: tuple[Section, ...] | None

    @property
    def net_bytes(self) -> int:
        return self.bytes_added - self.bytes_removed


@dataclass(frozen=True, slots=True)
class DefinitionChange:
    """A version that changed the definition. `sections` is None where `gap` says why it is not known."""

    commit: Commit
    sections: tuple[Section, ...] | None
    protocol: str
    gap: str

    @property
    def changed(self) -> tuple[Section, ...]:
        return tuple(section for section in self.sections or () if section.changed)


def versions_between(table: Table, older: int, newer: int) -> QuerySet[Commit]:
    """The commits after `older`, up to `newer`, that are mirrored."""
    return table.commits.filter(version__gt=older, version__lte=newer).defer("raw")


def difference(table: Table, older: int, newer: int) -> Difference | None:
    """What changed from one version to another; None where no version between is mirrored."""
    between = versions_between(table, older, newer).order_by()
    sums = between.aggregate(
        n=Count("pk"),
        added=Sum("files_added"),
        removed=Sum("files_removed"),
        bytes_added=Sum("bytes_added"),
        bytes_removed=Sum("bytes_removed"),
        rows=Sum("rows_added"),
        silent=Count("pk", Q(rows_added__isnull=True, files_added__gt=0)),
        marked=Sum("rows_deleted_by_vectors"),
    )
    if not sums["n"]:
        return None
    before, after = _at(table, older), _at(table, newer)
    counted = between.values_list("operation").annotate(n=Count("pk")).order_by("-n", "operation")
    upgrades = between.filter(changes_protocol=True).order_by("version")
    return Difference(
        older=older,
        newer=newer,
        version_count=sums["n"],
        missing=newer - older - sums["n"],
        files_added=sums["added"],
        files_removed=sums["removed"],
        bytes_added=sums["bytes_added"],
        bytes_removed=sums["bytes_removed"],
        rows_added=None if sums["silent"] else sums["rows"] or 0,
        rows_deleted_by_vectors=sums["marked"],
        operations=tuple(counted),
        protocol_versions=tuple(upgrades.values_list("version", flat=True)),
        sections=None if before is None or after is None else tuple(_sections(before, after)),
    )


def definition_changes(table: Table, limit: int) -> list[DefinitionChange]:
    """The newest versions that changed schema, properties, layout or protocol, newest first."""
    changed = table.commits.filter(DEFINES)
    commits = list(changed.order_by("-version")[: limit + 1])
    before: Definition | None = None
    found: list[DefinitionChange] = []
    for commit in reversed(commits):
        metadata, protocol = said_in(commit)
        now = _of_metadata(metadata) if metadata else None
        if commit.version == 0 or commit.operation.startswith("CREATE"):
            before = Definition((), (), ())
        sections, gap = _changed(commit, before, now)
        found.append(DefinitionChange(commit, sections, _protocol_text(protocol), gap))
        before = now if commit.changes_metadata else before
    return found[::-1][:limit]


def _changed(
    commit: Commit, before: Definition | None, now: Definition | None
) -> tuple[tuple[Section, ...] | None, str]:
    """What a version changed; else why that is not known."""
    if not commit.changes_metadata:
        return (), ""
    if now is None:
        return (
            None,
            "Its commit is longer than the mirror keeps: what it changed is not known here.",
        )
    if before is None:
        return (
            None,
            "The definition before it is not mirrored, so what it changed is not known here.",
        )
    return tuple(_sections(before, now)), ""


def _at(table: Table, version: int) -> Definition | None:
    """The table's own row where nothing changed since; else the last commit that changed it."""
    changed = table.commits.filter(DEFINES, changes_metadata=True)
    if version >= (table.version or 0) or not changed.filter(version__gt=version).exists():
        return _definition(_parsed(table.schema), table.properties, table.partition_columns)
    commit = changed.filter(version__lte=version).order_by("-version").first()
    metadata, _ = said_in(commit) if commit else (None, None)
    return _of_metadata(metadata) if metadata else None


def _of_metadata(metadata: Metadata) -> Definition:
    schema = _parsed(metadata.schema_string)
    return _definition(schema, metadata.configuration, metadata.partition_columns)


def _definition(
    schema: StructType | None, properties: Mapping[str, Any], partitioned_by: Sequence[str]
) -> Definition:
    columns = ", ".join(map(str, partitioned_by))
    return Definition(
        tuple(schema_lines(schema)) if schema else (),
        tuple(f"{name} = {value}" for name, value in sorted(properties.items())),
        (f"partitioned by {columns}" if columns else "not partitioned",),
    )


def said_in(commit: Commit) -> tuple[Metadata | None, Protocol | None]:
    """What a commit's kept text says of the table; the text may be cut."""
    try:
        actions = list(decode_lines(commit.raw.encode()))
    except EngineError:
        return None, None
    metadata = next((each for each in actions if isinstance(each, Metadata)), None)
    return metadata, next((each for each in actions if isinstance(each, Protocol)), None)


def _protocol_text(protocol: Protocol | None) -> str:
    if protocol is None:
        return ""
    features = sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())})
    text = f"reader {protocol.min_reader_version}, writer {protocol.min_writer_version}"
    return f"{text}: {', '.join(features)}" if features else text


def _parsed(schema: Any) -> StructType | None:  # noqa: ANN401 - JSON
    try:
        return parse_schema(schema) if schema else None
    except EngineError:
        return None


def _sections(before: Definition, after: Definition) -> Iterator[Section]:
    yield Section("Schema", tuple(_lines(before.schema, after.schema)))
    yield Section("Properties", tuple(_lines(before.properties, after.properties)))
    yield Section("Layout", tuple(_lines(before.layout, after.layout)))


def _lines(before: Sequence[str], after: Sequence[str]) -> Iterator[Line]:
    for line in difflib.ndiff(before, after):
        if line[0] != "?":
            yield Line(line[0], line[2:])
