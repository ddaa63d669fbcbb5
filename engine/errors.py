"""Every error the engine raises: its code, its facts, and the way out.

The text of an error is built once, in its class: what happened, in which table and versions, then
what to do. For causes due to users or tables, only subclasses of `EngineError` leave the engine.
"""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from engine.conflict_facts import ConflictFacts as ConflictFacts
from engine.conflict_facts import ConflictFile as ConflictFile
from engine.conflict_facts import ConflictSide as ConflictSide
from engine.conflict_facts import Remedy as Remedy


class EngineError(Exception):
    """An error for people to understand and act on.

    Attributes:
        code: stable error class, in Delta's spelling if Delta has one.
        sqlstate: SQLSTATE of the class.
        remedy: what to do, one sentence.
    """

    code: ClassVar[str] = "LAKE_ERROR"
    sqlstate: ClassVar[str] = "XXKDS"

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(_writable(f"{what} {remedy}".strip()))
        self.what, self.remedy = _writable(what), _writable(remedy)

    def facts(self) -> dict[str, Any]:
        """Return the error as JSON-ready values: code, sqlstate, message, remedy, own fields."""
        own = {
            k: v
            for k, v in vars(self).items()
            if k not in {"what", "remedy", "part"} and not k.startswith("_")
        }
        said = {"code": self.code, "sqlstate": self.sqlstate, "message": str(self)}
        return {**said, "remedy": self.remedy, **own}


class StorageError(EngineError):
    """The store failed: nothing is known to have changed."""

    code = "LAKE_STORAGE_ERROR"
    sqlstate = "58030"


class StorageOutcomeUnknownError(StorageError):
    """The store failed after it may have written: look before trying again."""

    code = "LAKE_STORAGE_OUTCOME_UNKNOWN"


class FileMissingError(StorageError):
    """A requested file does not exist."""

    code = "LAKE_FILE_MISSING"
    sqlstate = "42K03"


class FileExistsAlreadyError(StorageError):
    """Put-if-absent found the name taken."""

    code = "LAKE_FILE_EXISTS"


class PathOutsideRootError(EngineError):
    """A path leaves the table, or the roots an administrator allowed."""

    code = "LAKE_PATH_OUTSIDE_ROOT"
    sqlstate = "42K05"
    field: str = ""  # the part of a request at fault


class UnsupportedSchemeError(EngineError):
    """No store serves the scheme of a URI."""

    code = "LAKE_UNSUPPORTED_SCHEME"
    sqlstate = "0A000"
    field: str = ""  # the part of a request at fault


class TableNotFoundError(EngineError):
    """There is no Delta table at the location."""

    code = "DELTA_TABLE_NOT_FOUND"
    sqlstate = "42P01"


class TableExistsError(EngineError):
    """A table is already there."""

    code = "DELTA_TABLE_ALREADY_EXISTS"
    sqlstate = "42P07"


class MalformedLogError(EngineError):
    """The log breaks the protocol: it is refused rather than guessed at."""

    code = "DELTA_LOG_MALFORMED"


class LogGapError(MalformedLogError):
    """Versions are missing from the log."""

    code = "DELTA_VERSIONS_NOT_CONTIGUOUS"


class VersionNotFoundError(EngineError):
    """The log does not have a version; the error names the available range."""

    code = "DELTA_VERSION_NOT_FOUND"
    sqlstate = "22003"

    def __init__(self, table: str, requested: int, earliest: int, latest: int) -> None:
        super().__init__(
            f"Version {requested} of {table} cannot be read: the log holds versions {earliest} to {latest}.",
            "Ask for a version in that range.",
        )
        self.table, self.requested, self.earliest, self.latest = table, requested, earliest, latest


class TimestampOutOfRangeError(EngineError):
    """A time before the first or after the last readable version."""

    code = "DELTA_TIMESTAMP_OUT_OF_RANGE"
    sqlstate = "42816"

    def __init__(self, table: str, requested: str, earliest: str, latest: str) -> None:
        super().__init__(
            f"{table} has no version at {requested}: its readable versions were committed from {earliest} to {latest}.",
            "Ask for a time in that range.",
        )
        self.table, self.requested, self.earliest, self.latest = table, requested, earliest, latest


class UnsupportedFeatureError(EngineError):
    """The table needs features this engine does not have, named."""

    code = "DELTA_UNSUPPORTED_FEATURES"
    sqlstate = "56038"

    def __init__(self, table: str, features: Iterable[str], purpose: str) -> None:
        self.features = sorted(features)
        self.table, self.purpose = table, purpose
        names = ", ".join(self.features)
        super().__init__(
            f"{table} cannot be {'read' if purpose == 'read' else 'written'}: it uses {names}, which this engine does not support.",
            "Use an engine that supports it, or drop the feature there first.",
        )


class DataFileError(EngineError):
    """A data or deletion-vector file named by the log is missing or damaged."""

    code = "DELTA_DATA_FILE_UNREADABLE"


class DataFileMissingError(DataFileError):
    """A data file named by the log does not exist: deleted by hand, or by a rule of the store."""

    code = "DELTA_FILE_NOT_FOUND_DETAILED"
    sqlstate = "42K03"


class DeletionVectorError(DataFileError):
    """The bytes of a deletion vector do not match its descriptor."""

    code = "DELTA_DELETION_VECTOR_INVALID"


class RequestError(EngineError):
    """The request is at fault: `field` names the part."""

    code = "LAKE_INVALID_REQUEST"
    sqlstate = "22023"

    def __init__(self, what: str, remedy: str = "", *, field: str = "") -> None:
        super().__init__(what, remedy)
        self.field = field


class InvalidSchemaError(RequestError):
    """A schema is malformed, or not allowed for a table."""

    code = "DELTA_INVALID_SCHEMA"
    sqlstate = "42000"


class SchemaMismatchError(RequestError):
    """The schema of data does not fit the table's."""

    code = "DELTA_METADATA_MISMATCH"
    sqlstate = "42KDG"


class InvalidPropertyError(RequestError):
    """A table property with a value it cannot take."""

    code = "DELTA_INVALID_PROPERTY"


class InvalidIsolationLevelError(InvalidPropertyError):
    """Neither Serializable nor WriteSerializable."""

    code = "DELTA_INVALID_ISOLATION_LEVEL"
    sqlstate = "25000"


class StatementError(RequestError):
    """The engine does not support the SQL; `position` is an offset in `part`, "" for all of it."""

    code = "LAKE_STATEMENT_NOT_UNDERSTOOD"
    sqlstate = "42601"

    def __init__(
        self, what: str, remedy: str = "", *, field: str = "sql", position: int | None = None
    ) -> None:
        super().__init__(what, remedy, field=field)
        self.position, self.part = position, ""


class OnlyReadsError(StatementError):
    """The statement only reads: a `page` of `table` shows rows for a `condition`, "" for none."""

    code = "LAKE_STATEMENT_ONLY_READS"
    table, page, condition = "", "", ""


class ExpressionError(StatementError):
    """A condition or expression does not parse, or is not allowed."""

    code = "LAKE_EXPRESSION_NOT_ALLOWED"


class UnknownColumnError(ExpressionError):
    """The schema does not have a column."""

    code = "UNRESOLVED_COLUMN"
    sqlstate = "42703"


class CannotEvaluateError(EngineError):
    """Arrow cannot evaluate an expression exactly as Spark does: ask Spark, or assume a match."""

    code = "LAKE_CANNOT_EVALUATE"
    sqlstate = "0A000"


class InvariantViolationError(EngineError):
    """A row breaks a NOT NULL, a CHECK or another promise of the table."""

    code = "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"
    sqlstate = "23001"


class AppendOnlyError(EngineError):
    """The table is append-only."""

    code = "DELTA_CANNOT_MODIFY_APPEND_ONLY"
    sqlstate = "42809"


class MultipleSourceRowsError(EngineError):
    """MERGE found several source rows for one target row."""

    code = "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"
    sqlstate = "21506"


class RetentionTooShortError(RequestError):
    """VACUUM was asked to delete files still needed by retained versions."""

    code = "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT"


class TooManyColumnsError(RequestError):
    """A source file has more columns than can be read."""

    code = "LAKE_TOO_MANY_COLUMNS"
    sqlstate = "54011"


class BadRowsError(RequestError):
    """Rows of a source file do not fit."""

    code = "LAKE_BAD_ROWS"
    sqlstate = "22000"


class OperationCancelledError(EngineError):
    """The job was cancelled before its commit: nothing was written."""

    code = "LAKE_OPERATION_CANCELLED"
    sqlstate = "57014"


class CommitOutcomeUnknownError(EngineError):
    """Whether the commit landed cannot be known."""

    code = "LAKE_COMMIT_OUTCOME_UNKNOWN"
    sqlstate = "40003"


class LogCleanedError(EngineError):
    """Versions a transaction had to be checked against have been cleaned away."""

    code = "LAKE_LOG_CLEANED"
    sqlstate = "40001"


class TableReplacedError(EngineError):
    """The table a transaction read is gone, or was replaced by another one."""

    code = "LAKE_TABLE_REPLACED"
    sqlstate = "40001"

    def __init__(self, table: str, read_version: int) -> None:
        what = f"{table} was deleted or made anew since its version {read_version} was read."
        remedy = "Run it again if it is meant for the table that is there."
        super().__init__(f"{what} Nothing was written.", remedy)


class MaxCommitRetriesError(EngineError):
    """The commit lost the race for a version too often."""

    code = "DELTA_MAX_COMMIT_RETRIES_EXCEEDED"
    sqlstate = "40000"


class ConflictError(EngineError):
    """A concurrent commit won, and this one would not be serializable after it (SEMANTICS: checks)."""

    code = "DELTA_CONCURRENT_WRITE"
    sqlstate = "2D521"

    def __init__(self, conflict: ConflictFacts) -> None:
        self.conflict = conflict
        super().__init__(
            f"{conflict.what} Nothing was written.", _advice(conflict.remedies, conflict.can_retry)
        )

    def facts(self) -> dict[str, Any]:
        """Return the conflict as plain values, for JSON."""
        return {
            **super().facts(),
            "conflict": self.conflict.as_dict(),
            "exception": type(self).__name__,
        }


class ConcurrentAppendException(ConflictError):  # noqa: N818 - Delta's name, known to users
    """A winning commit added files this transaction should have read."""

    code = "DELTA_CONCURRENT_APPEND"


class ConcurrentDeleteReadException(ConflictError):  # noqa: N818
    """A file this transaction read was deleted or rewritten."""

    code = "DELTA_CONCURRENT_DELETE_READ"


class ConcurrentDeleteDeleteException(ConflictError):  # noqa: N818
    """Both transactions delete the same file."""

    code = "DELTA_CONCURRENT_DELETE_DELETE"


class MetadataChangedException(ConflictError):  # noqa: N818
    """The winning commit changed the table's metadata."""

    code = "DELTA_METADATA_CHANGED"


class ConcurrentTransactionException(ConflictError):  # noqa: N818
    """One application id (or one metadata domain), two writers."""

    code = "DELTA_CONCURRENT_TRANSACTION"


class ProtocolChangedException(ConflictError):  # noqa: N818
    """The winning commit changed the protocol, or created the table first."""

    code = "DELTA_PROTOCOL_CHANGED"


def _advice(remedies: Sequence[Remedy], can_retry: bool) -> str:
    first = "Retry it" if can_retry else "A retry cannot succeed"
    if not remedies:
        return f"{first}."
    return f"{first}{', or' if can_retry else ':'} {remedies[0].action}."


def _writable(text: str) -> str:  # lone surrogates cannot be stored or logged
    return text.encode("utf-8", "backslashreplace").decode()
