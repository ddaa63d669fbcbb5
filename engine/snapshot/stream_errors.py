"""Why a stream over a table stops: named, with the version and the way on."""

from collections.abc import Sequence

from engine.errors import EngineError


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
        one = "the same id, and another log" if actual == expected else f"id {actual}"
        super().__init__(
            f"The stream reads the table with id {expected}, and the one at {table} has {one}.",
            "Start a new stream, under another checkpoint or name, to read this one.",
        )
        self.table, self.expected, self.found = table, expected, actual


class SourceRowsRemovedError(StreamError, code="DELTA_SOURCE_IGNORE_DELETE", sqlstate="0A000"):
    """A version of the source removed rows, which a stream of appends cannot express."""

    def __init__(self, table: str, version: int, operation: str, path: str) -> None:
        super().__init__(
            f"Version {version} of {table} ({operation}) removed rows, among others of {path}.",
            "Set ignoreDeletes to pass over removals of whole files, or skipChangeCommits.",
        )
        self.table, self.version, self.operation = table, version, operation


class SourceRowsChangedError(
    StreamError, code="DELTA_SOURCE_TABLE_IGNORE_CHANGES", sqlstate="0A000"
):
    """A version of the source rewrote rows already delivered by the stream."""

    def __init__(self, table: str, version: int, operation: str, path: str) -> None:
        super().__init__(
            f"Version {version} of {table} ({operation}) changed rows, among others of {path}.",
            "Set skipChangeCommits to pass over such versions, or ignoreChanges to read the"
            " rewritten files, with rows that have been read before.",
        )
        self.table, self.version, self.operation = table, version, operation


class StreamLogCleanedError(
    StreamError, code="DELTA_MISSING_FILES_UNEXPECTED_VERSION", sqlstate="XXKDS"
):
    """Versions not yet read by the stream are no longer in the log."""

    def __init__(self, table: str, version: int, earliest: int | None) -> None:
        kept = "none is left" if earliest is None else f"the log begins at version {earliest}"
        super().__init__(
            f"The stream has to read version {version} of {table}, and {kept}: it was cleaned away.",
            "Start a new stream that reads the whole table first; raise"
            " delta.logRetentionDuration if streams pause for long.",
        )
        self.table, self.version, self.earliest = table, version, earliest
