"""The changes of versions: one by one, and from one to another, with the files that differ."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from django.db.models import Count, F, Q, QuerySet, Sum
from django.db.models.functions import Greatest

from engine.protocol.properties import constraint_name
from engine.vocabulary import StatementKind, operation_named
from lakeui.catalog.definitions import (
    DEFINES,
    NOTHING,
    Definition,
    DiffSection,
    compare_definitions,
    definition_at,
    definition_of,
    protocol_at,
    protocol_lines,
    read_definition_actions,
    read_kept_clustering,
    section,
    subject,
)
from lakeui.catalog.models import Commit, CommitFile, Table

FILES_COMPARED = 5000
FILES_SHOWN = 20
_GONE_FIRST = {CommitFile.Action.REMOVE.value: 0, CommitFile.Action.ADD.value: 1}

_CUT = "Its changes are not known, because its commit is larger than the mirror stores."
_NAMED = 20  # columns in one sentence
_NOT_KEPT = "Its changes are not known, because the mirror does not have the definition before it."

_PROPERTIES = {
    "delta.isolationLevel": "From this version on, conflicts are decided at a different isolation level.",
    "delta.enableDeletionVectors": "From this version on, writers may use deletion vectors, or no longer. Existing "
    "deletion vectors stay until their files are rewritten.",
    "delta.enableRowTracking": "From this version on, rows keep a permanent id, or no longer.",
    "delta.enableChangeDataFeed": "From this version on, writers record changed rows, or no longer.",
    "delta.appendOnly": "From this version on, DELETE, UPDATE and MERGE are refused, or allowed again.",
    "delta.columnMapping.mode": "Columns have different names in the files, and readers without column mapping "
    "refuse the table.",
    "delta.deletedFileRetentionDuration": "VACUUM keeps removed files for a different time, so the range of readable versions "
    "changes.",
    "delta.logRetentionDuration": "Log entries are kept for a different time, so the length of the history changes.",
}


class ChangedFile(NamedTuple):
    """A file as a version left it."""

    version: int
    action: str
    path: str
    size_bytes: int | None
    row_count: int | None
    deleted_row_count: int


@dataclass(frozen=True, slots=True)
class ChangedFileSums:
    """The largest of them, and the sums over all. Rows are None if some file has no count."""

    files: tuple[ChangedFile, ...] = ()
    count: int = 0
    size_bytes: int = 0
    row_count: int | None = 0

    @property
    def more(self) -> int:
        return self.count - len(self.files)


@dataclass(frozen=True, slots=True)
class FileDifference:
    """Changed files; `passing` files were added and removed in between.

    `is_whole` is False if commits touched more files than are mirrored one by one, or compared
    here.
    """

    came: ChangedFileSums = field(default_factory=ChangedFileSums)
    gone: ChangedFileSums = field(default_factory=ChangedFileSums)
    changed: ChangedFileSums = field(default_factory=ChangedFileSums)
    passing: int = 0
    is_whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The changes from `older`, exclusive, to `newer`.

    `sections` is None if the definition is not stored. `missing` versions are not mirrored. Rows
    are None if some commit does not record them. `effects` are sentences on the consequences for
    readers and writers.
    """

    older: int
    newer: int
    version_count: int
    missing: int
    files_added: int
    files_removed: int
    bytes_added: int
    bytes_removed: int
    bytes_written: int
    rows_added: int | None
    rows_deleted_by_vectors: int
    data_versions: int
    operations: tuple[tuple[str, int], ...]
    protocol_versions: tuple[int, ...]
    metadata_versions: tuple[int, ...]
    sections: tuple[DiffSection, ...] | None
    effects: tuple[str, ...]
    files: FileDifference

    @property
    def net_bytes(self) -> int:
        return self.bytes_added - self.bytes_removed

    @property
    def net_files(self) -> int:
        return self.files_added - self.files_removed


@dataclass(frozen=True, slots=True)
class DefinitionChange:
    """A version that changed the definition. `sections` is None if unknown; `gap` says why."""

    commit: Commit
    sections: tuple[DiffSection, ...] | None
    protocol: str
    gap: str

    @property
    def changed(self) -> tuple[DiffSection, ...]:
        return tuple(section for section in self.sections or () if section.changed)

    @property
    def effects(self) -> tuple[str, ...]:
        """The consequences for readers and writers; none for the creation of the table."""
        if _makes(self.commit):
            return ()
        versions = (self.commit.version,) if self.commit.changes_metadata else ()
        return tuple(effects_of_sections(self.sections or (), versions))

    @property
    def unchanged(self) -> tuple[str, ...]:
        return tuple(section.name for section in self.sections or () if not section.changed)


def versions_between(table: Table, older: int, newer: int) -> QuerySet[Commit]:
    """Return the mirrored commits after `older`, up to `newer`."""
    return table.commits.filter(version__gt=older, version__lte=newer).defer("raw")


def difference(table: Table, older: int, newer: int) -> Difference | None:
    """Return the changes from one version to another; None if no version between is mirrored."""
    between = versions_between(table, older, newer).order_by()
    sums = between.aggregate(
        n=Count("pk"),
        added=Sum(F("files_added") - F("files_restated")),
        removed=Sum(Greatest(F("files_removed") - F("files_restated"), 0)),
        bytes_added=Sum("bytes_added"),
        bytes_removed=Sum("bytes_removed"),
        bytes_written=Sum("bytes_written"),
        rows=Sum("rows_added"),
        silent=Count("pk", Q(rows_added__isnull=True, files_added__gt=0)),
        marked=Sum("rows_deleted_by_vectors"),
        data=Count("pk", Q(changes_data=True)),
    )
    if not sums["n"]:
        return None
    sections = _sections(table, older, newer)
    counted = between.values_list("operation").annotate(n=Count("pk")).order_by("-n", "operation")
    defining = list(
        between.filter(DEFINES)
        .order_by("version")
        .values_list("version", "changes_metadata", "changes_protocol")
    )
    metadata = tuple(version for version, changes, _ in defining if changes)
    return Difference(
        older=older,
        newer=newer,
        version_count=sums["n"],
        missing=newer - older - sums["n"],
        files_added=sums["added"],
        files_removed=sums["removed"],
        bytes_added=sums["bytes_added"],
        bytes_removed=sums["bytes_removed"],
        bytes_written=sums["bytes_written"],
        rows_added=None if sums["silent"] else sums["rows"] or 0,
        rows_deleted_by_vectors=sums["marked"],
        data_versions=sums["data"],
        operations=tuple(counted),
        protocol_versions=tuple(version for version, _, changes in defining if changes),
        metadata_versions=metadata,
        sections=sections,
        effects=tuple(effects_of_sections(sections or (), metadata)),
        files=file_difference(table, older, newer),
    )


def definition_changes(table: Table, limit: int) -> list[DefinitionChange]:
    """Return the latest versions that changed schema, properties, layout or protocol."""
    changed = table.commits.filter(DEFINES)
    commits = list(changed.order_by("-version")[: limit + 1])
    before: Definition | None = None
    changes: list[DefinitionChange] = []
    for commit in reversed(commits):
        change, before = _change(commit, before)
        changes.append(change)
    return changes[::-1][:limit]


def change_of(commit: Commit) -> DefinitionChange | None:
    """Return a version's changes of the definition; None if there are none."""
    if not (commit.changes_metadata or commit.changes_protocol):
        return None
    before = None
    if commit.changes_metadata:
        earlier = Commit.objects.filter(DEFINES, changes_metadata=True, table=commit.table)
        last = earlier.filter(version__lt=commit.version).order_by("-version").first()
        metadata, _ = read_definition_actions(last) if last else (None, None)
        before = definition_of(metadata) if metadata else None
    return _change(commit, before)[0]


def _change(
    commit: Commit, before: Definition | None
) -> tuple[DefinitionChange, Definition | None]:
    """Return the changes of a version, and the definition after it if known."""
    metadata, protocol = read_definition_actions(commit)
    now = definition_of(metadata) if metadata else None
    shown = now
    if _makes(commit):
        before = NOTHING
        if now and metadata:
            shown = replace(now, layout=(*now.layout, *read_kept_clustering(commit, metadata)))
    sections, gap = _find_definition_changes(commit, before, shown)
    said = _protocol_text(protocol_lines(protocol)) if protocol else ""
    change = DefinitionChange(commit, sections, said, gap)
    return change, now if commit.changes_metadata else before


def _makes(commit: Commit) -> bool:
    """Whether there was no table before."""
    named = operation_named(commit.operation)
    return commit.version == 0 or named.replaces_table or named.statement is StatementKind.CREATE


def _find_definition_changes(
    commit: Commit, before: Definition | None, now: Definition | None
) -> tuple[tuple[DiffSection, ...] | None, str]:
    """Return the changes of a version; else why they are unknown."""
    if not commit.changes_metadata:
        return (), ""
    if now is None:
        return None, _CUT
    if before is None:
        return None, _NOT_KEPT
    return tuple(compare_definitions(before, now)), ""


def _sections(table: Table, older: int, newer: int) -> tuple[DiffSection, ...] | None:
    before = definition_at(table, older)
    after = definition_at(table, newer) if before else None
    if before is None or after is None:
        return None
    return (*compare_definitions(before, after), *_protocol_section(table, older, newer))


def _protocol_section(table: Table, older: int, newer: int) -> Iterator[DiffSection]:
    before, after = protocol_at(table, older), protocol_at(table, newer)
    if before is not None and after is not None:
        yield section("Protocol", before, after)


def _protocol_text(lines: tuple[str, ...]) -> str:
    reader, writer, *features = lines
    text = f"{reader.replace(' version', '')}, {writer.replace(' version', '')}"
    names = [name.removesuffix(" (readers too)") for name in features]
    return f"{text}: {', '.join(names)}" if names else text


def effects_of_sections(
    sections: Sequence[DiffSection], metadata_versions: Sequence[int]
) -> Iterator[str]:
    """Describe the effects of the differences in sentences, the gravest first."""
    by_name = {section.name: section for section in sections}
    if "Protocol" in by_name:
        yield from _describe_protocol_changes(by_name["Protocol"])
    if "Schema" in by_name:
        yield from _describe_schema_changes(by_name["Schema"])
    if "Layout" in by_name and by_name["Layout"].changed:
        yield "The partitioning changed, so every file was rewritten into new directories."
    if "Properties" in by_name:
        yield from _describe_property_changes(by_name["Properties"])
    if metadata_versions:
        yield _describe_metadata_changes(metadata_versions)


def _describe_protocol_changes(section: DiffSection) -> Iterator[str]:
    came = [line.text for line in section.lines if line.sign == "+"]
    gone = [line.text for line in section.lines if line.sign == "-"]
    for_readers = [t.removesuffix(" (readers too)") for t in came if t.endswith("(readers too)")]
    for_writers = [t for t in came if " version " not in t and not t.endswith("(readers too)")]
    if for_readers:
        yield f"Clients that do not support {', '.join(for_readers)} can no longer read the table."
    if for_writers:
        yield (
            f"Clients that do not support {', '.join(for_writers)} can no longer write to the "
            "table."
        )
    dropped = [t.removesuffix(" (readers too)") for t in gone if " version " not in t]
    if dropped:
        yield f"Clients no longer need to support {', '.join(dropped)}."


def _describe_schema_changes(section: DiffSection) -> Iterator[str]:
    came, gone = _columns(section, "+"), _columns(section, "-")
    added, dropped = [n for n in came if n not in gone], [n for n in gone if n not in came]
    altered = [n for n in came if n in gone]
    if added:
        yield f"Older rows have null in {_few(added)}, or the column's default."
    if dropped:
        yield f"Queries that use {_few(dropped)} now fail."
    if altered:
        yield f"{_few(altered)} changed its type or nullability: see the lines above."


def _describe_property_changes(section: DiffSection) -> Iterator[str]:
    changed = {line.text.partition(" = ")[0] for line in section.lines if line.sign != " "}
    for name, effect in _PROPERTIES.items():
        if name in changed:
            yield effect
    if any(constraint_name(name) is not None for name in changed):
        yield "The constraints changed. A write that violates a constraint fails."


def _describe_metadata_changes(versions: Sequence[int]) -> str:
    named = ", ".join(f"v{version}" for version in versions[:5])
    more = f" and {len(versions) - 5} more" if len(versions) > 5 else ""
    return (
        f"Writes that were running at the commit of {named}{more} were aborted, because the "
        "metadata changed. Streaming readers may stop there."
    )


def _columns(section: DiffSection, sign: str) -> dict[str, None]:
    """Return the added or removed columns, nested ones too; in order, each once."""
    return dict.fromkeys(subject(line.text) for line in section.lines if line.sign == sign)


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def file_difference(table: Table, older: int, newer: int) -> FileDifference:
    """Compare files after `older`, up to `newer`, by the mirrored files of the commits between."""
    between = table.commits.filter(version__gt=older, version__lte=newer)
    counted = between.values_list("files_added", "files_removed", "files_mirrored")
    whole = all(added + removed <= mirrored for added, removed, mirrored in counted.order_by())
    touched = CommitFile.objects.filter(
        commit__in=between.order_by().values("pk"), action__in=_GONE_FIRST
    )
    rows = touched.order_by("commit__version").values_list(
        "commit__version", "action", "path", "size_bytes", "row_count", "deleted_row_count"
    )
    files = [ChangedFile(*row) for row in rows[: FILES_COMPARED + 1]]
    return _compare_files(files[:FILES_COMPARED], is_whole=whole and len(files) <= FILES_COMPARED)


def _compare_files(touched: Iterable[ChangedFile], *, is_whole: bool) -> FileDifference:
    first: dict[str, ChangedFile] = {}
    last: dict[str, ChangedFile] = {}
    for file in sorted(touched, key=_order):
        first.setdefault(file.path, file)
        last[file.path] = file
    by_fate: dict[tuple[str, str], list[ChangedFile]] = {}
    for path, file in last.items():
        by_fate.setdefault((first[path].action, file.action), []).append(file)
    return FileDifference(
        came=_sums(by_fate.get(("add", "add"), [])),
        gone=_sums(by_fate.get(("remove", "remove"), [])),
        changed=_sums(by_fate.get(("remove", "add"), [])),
        passing=len(by_fate.get(("add", "remove"), [])),
        is_whole=is_whole,
    )


def _order(file: ChangedFile) -> tuple[int, int]:
    """Sort by version; in one, a file with only another vector is removed, then added."""
    return file.version, _GONE_FIRST[file.action]


def _sums(files: list[ChangedFile]) -> ChangedFileSums:
    ranked = sorted(files, key=lambda file: (-(file.size_bytes or 0), file.path))
    rows = [file.row_count for file in files]
    recorded = [count for count in rows if count is not None]
    return ChangedFileSums(
        tuple(ranked[:FILES_SHOWN]),
        len(files),
        sum(file.size_bytes or 0 for file in files),
        sum(recorded) if len(recorded) == len(rows) else None,
    )
