"""The log of a table as a stream of files: the initial content of the table, then added files.

Versions with only moved rows (`dataChange` false) are skipped. A version with removed or changed
rows stops the stream unless an option allows it, and so does a change of metadata; the error names
the version and the way on. A batch may end inside a version; a version is checked in full before
its first file is delivered.

The position of a stream in its source's log is JSON in a checkpoint, and a number in a `txn`
action.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.actions.files import AddFile, RemoveFile
from engine.actions.table import Metadata, Protocol
from engine.errors import (
    EngineError,
    FileMissingError,
    LogGapError,
    RequestError,
    VersionNotFoundError,
)
from engine.log.commits import LogCommit, list_versions, read_commit
from engine.log.management import check_access
from engine.log.replay import SchemaNotSaidError, load_definition
from engine.log.tip import Tip, is_replaced
from engine.schema.column_mapping import PHYSICAL_NAME_KEY, field_id
from engine.schema.types import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    parse_schema,
    type_to_json,
)
from engine.snapshot.snapshot import load_snapshot
from engine.storage.base import Store

MAX_INDEX = 1 << 23
_IS_COMMIT = MAX_INDEX
_VERSION_BITS = 24
_FORMS = {1, 3}
"""The forms of delta-spark's offsets."""
_BEFORE_FILES = {-1, -100}
"""Its indexes before the first file of a version, in the two forms."""


@dataclass(frozen=True, slots=True)
class Position:
    """The next file to read.

    Attributes:
        version: the version of the source.
        index: the file's index among the files added by the version, or among the snapshot's files.
        initial: whether the files are those of the whole table at this version.
    """

    version: int
    index: int = 0
    initial: bool = False

    def to_number(self) -> int:
        """Encode the position as a number growing with the stream: version, initial or not, index.

        It fits the 63 bits of a `txn` action's version while the index is below `MAX_INDEX`.
        """
        part = self.index if self.initial else _IS_COMMIT + self.index
        return (self.version << _VERSION_BITS) + part

    @classmethod
    def from_number(cls, number: int) -> "Position":
        """Decode a position encoded by `to_number`."""
        version, part = number >> _VERSION_BITS, number & ((1 << _VERSION_BITS) - 1)
        return cls(version, part & (_IS_COMMIT - 1), initial=part < _IS_COMMIT)

    def to_json(self, table_id: str) -> dict[str, Any]:
        """Return the position as an offset for Spark's checkpoint."""
        return {
            "table": table_id,
            "version": self.version,
            "index": self.index,
            "initial": self.initial,
        }

    @classmethod
    def from_json(cls, offset: Mapping[str, Any]) -> "Position":
        """Parse an offset, written by this source or by delta-spark's (`DeltaSourceOffset`).

        Raises:
            RequestError: it is not an offset of a Delta table's stream, or of one with
                `schemaTrackingLocation`.
        """
        if "reservoirId" in offset:
            return cls._from_delta_spark(offset)
        version, index = offset.get("version"), offset.get("index")
        initial = offset.get("initial")
        if type(version) is int and type(index) is int and type(initial) is bool:
            return cls(version, index, initial)
        msg = f"{dict(offset)} is not an offset of a Delta table's stream."
        raise RequestError(msg, "Use the checkpoint of this source.", field="checkpoint")

    @classmethod
    def _from_delta_spark(cls, offset: Mapping[str, Any]) -> "Position":
        """Parse an offset that names the last file that was read, not the next one."""
        version, index = offset.get("reservoirVersion"), offset.get("index")
        initial, form = offset.get("isStartingVersion"), offset.get("sourceVersion")
        if (
            form in _FORMS
            and type(version) is int
            and type(index) is int
            and type(initial) is bool
            and (index in _BEFORE_FILES or index >= 0)
        ):
            return cls(version, max(index + 1, 0), initial)
        msg = f"{dict(offset)} is no offset of delta-spark that can be taken over."
        remedy = "Let delta-spark finish its batch without schemaTrackingLocation first."
        raise RequestError(msg, remedy, field="checkpoint")


class StreamError(EngineError, code="LAKE_STREAM_STOPPED", sqlstate="22000"):
    """A stream cannot continue from its position."""


class SourceSchemaChangedError(
    StreamError, code="DELTA_SCHEMA_CHANGED_WITH_VERSION", sqlstate="KD007"
):
    """The source's metadata changed in a version not yet read by the stream."""

    def __init__(self, table: str, version: int, changes: Sequence[str], remedy: str) -> None:
        shown = "; ".join(changes[:10])
        super().__init__(f"Version {version} of {table} changed its metadata: {shown}.", remedy)
        self.table, self.version, self.changes = table, version, tuple(changes)


class SourceReplacedError(
    StreamError, code="DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE", sqlstate="55019"
):
    """Another table replaced the stream's source, or an older copy of it did."""

    def __init__(self, table: str, expected: str, actual: str) -> None:
        one = "the same id and a different log" if actual == expected else f"id {actual}"
        super().__init__(
            f"The stream reads the table with id {expected}, but the table at {table} has {one}.",
            "To read this table, start a new stream with another checkpoint or name.",
        )
        self.table, self.expected, self.found = table, expected, actual


class SourceRowsRemovedError(StreamError, code="DELTA_SOURCE_IGNORE_DELETE", sqlstate="0A000"):
    """A version of the source removed rows, which a stream of appends cannot express."""

    def __init__(self, table: str, version: int, operation: str, path: str) -> None:
        super().__init__(
            f"Version {version} of {table} ({operation}) removed rows, for example from {path}.",
            "Set ignoreDeletes to skip removals of whole files, or set skipChangeCommits.",
        )
        self.table, self.version, self.operation = table, version, operation


class SourceRowsChangedError(
    StreamError, code="DELTA_SOURCE_TABLE_IGNORE_CHANGES", sqlstate="0A000"
):
    """A version of the source rewrote rows already delivered by the stream."""

    def __init__(self, table: str, version: int, operation: str, path: str) -> None:
        super().__init__(
            f"Version {version} of {table} ({operation}) changed rows, for example in {path}.",
            "Set skipChangeCommits to skip such versions, or ignoreChanges to read the "
            "rewritten files, including rows that were read before.",
        )
        self.table, self.version, self.operation = table, version, operation


class StreamLogCleanedError(
    StreamError, code="DELTA_MISSING_FILES_UNEXPECTED_VERSION", sqlstate="XXKDS"
):
    """Versions not yet read by the stream are no longer in the log."""

    def __init__(self, table: str, version: int, earliest: int | None) -> None:
        kept = "no version is left" if earliest is None else f"the log begins at version {earliest}"
        super().__init__(
            f"The stream needs version {version} of {table}, which was removed by log "
            f"cleanup: {kept}.",
            "Start a new stream that first reads the whole table. Raise "
            "delta.logRetentionDuration if streams pause for a long time.",
        )
        self.table, self.version, self.earliest = table, version, earliest


_SHOWN_TYPE = 60


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """One change: `additive` if rows written before it read under it with the same meaning."""

    text: str
    additive: bool = False


def schema_changes(before: Metadata, after: Metadata) -> list[MetadataChange]:
    """Return the changes of columns and partitioning; notes in column metadata do not count."""
    if bool(before.schema_string) != bool(after.schema_string):
        return [MetadataChange("only one of the two versions has a schema")]
    changes = list(_struct_changes(_schema(before), _schema(after), ""))
    if before.partition_columns != after.partition_columns:
        shown = ", ".join(after.partition_columns) or "nothing"
        changes.append(MetadataChange(f"it is partitioned by {shown} now"))
    return changes


def property_changes(before: Metadata, after: Metadata) -> list[MetadataChange]:
    """Return the table properties set, changed or unset."""
    keys = sorted(before.configuration.keys() | after.configuration.keys())
    return [
        MetadataChange(f"the property {key} changed", additive=True)
        for key in keys
        if before.configuration.get(key) != after.configuration.get(key)
    ]


def _schema(metadata: Metadata) -> StructType:
    return parse_schema(metadata.schema_string) if metadata.schema_string else StructType()


def _struct_changes(before: StructType, after: StructType, prefix: str) -> Iterator[MetadataChange]:
    left = {_identity(column): column for column in before}
    right = {_identity(column): column for column in after}
    if not left.keys() & right.keys():  # column mapping was switched: compare by name only
        left = {column.name.lower(): column for column in before}
        right = {column.name.lower(): column for column in after}
    for key, column in left.items():
        if key in right:
            yield from _field_changes(column, right[key], prefix)
        else:
            yield MetadataChange(f"column {prefix}{column.name} was dropped")
    for key, column in right.items():
        if key not in left:
            yield MetadataChange(
                f"column {prefix}{column.name} was added", additive=column.nullable
            )


def _field_changes(
    before: StructField, after: StructField, prefix: str
) -> Iterator[MetadataChange]:
    name = f"{prefix}{before.name}"
    if before.name != after.name:
        yield MetadataChange(f"column {name} was renamed to {after.name}")
    if not _is_same_in_files(before, after):
        yield MetadataChange(f"column {name} was replaced by another column")
    if before.nullable != after.nullable:
        now = "may be null" if after.nullable else "may not be null"
        yield MetadataChange(f"column {name} {now} now", additive=True)
    if isinstance(before.type, StructType) and isinstance(after.type, StructType):
        yield from _struct_changes(before.type, after.type, f"{name}.")
    elif _bare(before.type) != _bare(after.type):
        shown = [str(type_to_json(column.type))[:_SHOWN_TYPE] for column in (before, after)]
        yield MetadataChange(f"column {name} changed from {shown[0]} to {shown[1]}")


def _identity(column: StructField) -> object:
    """Return the identity of a column, which survives renames."""
    number = field_id(column)
    return column.name.lower() if number is None else number


def _is_same_in_files(before: StructField, after: StructField) -> bool:
    """Return whether files name a column as before; a replaced table restarts column ids at 1."""
    was, now = (column.metadata.get(PHYSICAL_NAME_KEY) for column in (before, after))
    return was == now or (was or before.name) == (now or after.name)


def _bare(data_type: DataType) -> DataType:
    """Strip nullability and metadata from a type."""
    match data_type:
        case StructType(fields):
            return StructType(tuple(StructField(f.name, _bare(f.type)) for f in fields))
        case ArrayType(element, _):
            return ArrayType(_bare(element))
        case MapType(key, value, _):
            return MapType(_bare(key), _bare(value))
        case _:
            return data_type


_KEPT_VERSIONS = 64


@dataclass(frozen=True)
class StreamTerms:
    """The metadata a stream reads under, and the changes it tolerates.

    Attributes:
        metadata: the table's as of `version`; rows are read under its schema.
        tip: identifies the log the terms were taken from.
        accepted_version: changes of metadata up to this version were accepted by a person.
        heeds_properties: whether a change of properties alone stops the stream too.
        remedy: the remedy for a change of metadata.
    """

    metadata: Metadata
    version: int
    tip: Tip | None = None
    accepted_version: int = -1
    heeds_properties: bool = False
    ignore_deletes: bool = False
    ignore_changes: bool = False
    skip_change_commits: bool = False
    remedy: str = "Restart the query. It then reads with the new metadata."
    accept_remedy: str = (
        "Set acceptSchemaVersion to that version if earlier rows can be read with the new schema."
    )


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Limits of one batch; at least one file always fits."""

    max_files: int | None = None
    max_bytes: int | None = None

    def allow(self, files: int, size_bytes: int) -> bool:
        """Return whether another file fits after `files` files of `size_bytes`."""
        few = self.max_files is None or files < self.max_files
        return few and (self.max_bytes is None or size_bytes < self.max_bytes)


@dataclass
class StreamLog:
    """The files of a stream, by position, with a cache of recently read commits.

    It refuses to continue with another log than it first read.
    """

    store: Store
    terms: StreamTerms
    _added: dict[int, list[AddFile]] = field(default_factory=dict)
    _initial: tuple[int, list[AddFile]] | None = None
    _last_read: Tip | None = None

    def latest_version(self, from_version: int) -> int | None:
        """Return the latest version in the log, None if there is none from `from_version` on."""
        return max(list_versions(self.store, from_version), default=None)

    def batch_end(self, start: Position, limits: StreamLimits, last_version: int) -> Position:
        """Return the end of a batch beginning at `start`; `start` itself if there is nothing new.

        Raises:
            StreamError: the stream may not continue; readable earlier files are delivered first.
        """
        if start.version > last_version + 1:
            self._check_reached(start)
        end, count, size = start, 0, 0
        try:
            for add, after in self._walk(start, last_version):
                if add is not None:
                    full = count and not limits.allow(count, size)
                    if full and end.index < MAX_INDEX:
                        break
                    count, size = count + 1, size + add.size
                end = after
        except StreamError:
            if end == start:
                raise
        self._check_in_place()
        return end

    def check_since(self, start: Position) -> None:
        """Refuse to read rows between a position and the terms if a column lost its meaning since.

        Columns added meanwhile are harmless: they are null in older rows.

        Raises:
            SourceSchemaChangedError: a column was dropped, renamed or changed its type.
        """
        before = self._metadata_before(start)
        for version in range(start.version + start.initial, self.terms.version + 1):
            after = next(
                (
                    action
                    for action in self._commit(version).actions
                    if isinstance(action, Metadata)
                ),
                None,
            )
            if after is None or not after.schema_string:  # the schema comes in a later action
                continue
            changes = schema_changes(before, after) if before is not None else []
            lost = [change for change in changes if not change.additive]
            if lost and version > self.terms.accepted_version:
                raise self._schema_changed_error(version, lost, self.terms.accept_remedy)
            before = after

    def files(self, start: Position, end: Position) -> list[AddFile]:
        """Return the files between two positions, `end` excluded.

        Raises:
            StreamError: the stream may not continue.
        """
        adds: list[AddFile] = []
        if start == end:
            return adds
        for add, after in self._walk(start, end.version if end.index else end.version - 1):
            if add is not None:
                adds.append(add)
            if after == end:
                break
        self._check_in_place()
        return adds

    def _walk(
        self, start: Position, last_version: int
    ) -> Iterator[tuple[AddFile | None, Position]]:
        """Yield files with the position after each; None for a version without files."""
        version, index = start.version, start.index
        if start.initial:
            yield from _iter_positions(
                self._files_of_snapshot(version), version, index, initial=True
            )
            version, index = version + 1, 0
        while version <= last_version:
            yield from _iter_positions(
                self._files_of_commit(version), version, index, initial=False
            )
            version, index = version + 1, 0

    def _files_of_snapshot(self, version: int) -> list[AddFile]:
        """Return a version's files, oldest first, in an order stable across reads."""
        if self._initial is None or self._initial[0] != version:
            try:
                snapshot = load_snapshot(self.store, version)
            except (VersionNotFoundError, LogGapError, FileMissingError) as error:
                raise self._log_cleaned_error(version) from error
            self._check_metadata(version, snapshot.metadata)
            files = sorted(snapshot.add_files(), key=lambda add: (add.modification_time, add.path))
            self._initial = version, files
        return self._initial[1]

    def _commit(self, version: int) -> LogCommit:
        try:
            commit = read_commit(self.store, version)
        except FileMissingError as error:
            raise self._log_cleaned_error(version) from error
        if self._last_read is None or version > self._last_read.version:
            self._last_read = Tip.from_commit(commit)
        return commit

    def _check_in_place(self) -> None:
        """Check that the data just read belongs to the log first read.

        Raises:
            SourceReplacedError: it does not.
        """
        tips = (recent for recent in (self.terms.tip, self._last_read) if recent is not None)
        if any(is_replaced(self.store, tip) for tip in tips):
            raise self._source_replaced_error()

    def _check_reached(self, start: Position) -> None:
        """Check that the log reaches up to a position."""
        latest = self.latest_version(0)
        if latest is None or start.version > latest + 1:
            raise self._source_replaced_error()

    def _source_replaced_error(self) -> SourceReplacedError:
        table_id = load_definition(self.store).metadata.id
        return SourceReplacedError(self.store.root, self.terms.metadata.id, table_id)

    def _files_of_commit(self, version: int) -> list[AddFile]:
        if version not in self._added:
            commit = self._commit(version)
            if len(self._added) >= _KEPT_VERSIONS:
                self._added.clear()
            self._added[version] = self._check_commit(commit)
        return self._added[version]

    def _check_commit(self, commit: LogCommit) -> list[AddFile]:
        """Return the files a version adds to the stream, after checking all its actions."""
        for action in commit.actions:
            if isinstance(action, Metadata):
                self._check_metadata(commit.version, action)
            elif isinstance(action, Protocol):
                check_access(self.store, action)
        adds = [a for a in commit.actions if isinstance(a, AddFile) and a.data_change]
        removed = [a for a in commit.actions if isinstance(a, RemoveFile) and a.data_change]
        if not removed:
            return adds
        if self.terms.skip_change_commits:
            return []
        tolerated = self.terms.ignore_changes or (self.terms.ignore_deletes and not adds)
        if tolerated:
            return adds
        refusal = SourceRowsChangedError if adds else SourceRowsRemovedError
        name = commit.operation or "an unnamed operation"
        raise refusal(self.store.root, commit.version, name, removed[0].path)

    def _check_metadata(self, version: int, metadata: Metadata) -> None:
        """Raise an error for changes after the terms were taken; `check_since` covers the others."""
        terms = self.terms
        if metadata.id != terms.metadata.id:
            raise SourceReplacedError(self.store.root, terms.metadata.id, metadata.id)
        if version <= max(terms.version, terms.accepted_version):
            return
        changes = schema_changes(terms.metadata, metadata)
        if terms.heeds_properties:
            changes += property_changes(terms.metadata, metadata)
        if changes:
            raise self._schema_changed_error(version, changes, terms.remedy)

    def _metadata_before(self, start: Position) -> Metadata | None:
        """Return the metadata as of a position, None if the log does not reach back that far."""
        version = start.version if start.initial else start.version - 1
        try:
            return load_definition(self.store, version).metadata if version >= 0 else None
        except (VersionNotFoundError, LogGapError, FileMissingError, SchemaNotSaidError):
            return None

    def _schema_changed_error(
        self, version: int, changes: list[MetadataChange], remedy: str
    ) -> SourceSchemaChangedError:
        texts = [change.text for change in changes]
        return SourceSchemaChangedError(self.store.root, version, texts, remedy)

    def _log_cleaned_error(self, version: int) -> StreamLogCleanedError:
        earliest = min(list_versions(self.store), default=None)
        return StreamLogCleanedError(self.store.root, version, earliest)


def _iter_positions(
    files: list[AddFile], version: int, index: int, *, initial: bool
) -> Iterator[tuple[AddFile | None, Position]]:
    for place in range(index, len(files)):
        last = place + 1 == len(files)
        yield (
            files[place],
            Position(version + 1) if last else Position(version, place + 1, initial),
        )
    if index >= len(files):
        yield None, Position(version + 1)
