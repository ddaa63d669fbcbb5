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

    A subclass names its `code` and `sqlstate` beside its bases, or inherits them.

    Attributes:
        code: stable error class, in Delta's spelling if Delta has one.
        sqlstate: SQLSTATE of the class.
        remedy: what to do, one sentence.
    """

    code: ClassVar[str] = "LAKE_ERROR"
    sqlstate: ClassVar[str] = "XXKDS"

    def __init_subclass__(cls, *, code: str = "", sqlstate: str = "") -> None:
        super().__init_subclass__()
        cls.code, cls.sqlstate = code or cls.code, sqlstate or cls.sqlstate

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


class StorageError(EngineError, code="LAKE_STORAGE_ERROR", sqlstate="58030"):
    """The store failed: nothing is known to have changed."""


class StorageOutcomeUnknownError(StorageError, code="LAKE_STORAGE_OUTCOME_UNKNOWN"):
    """The store failed after it may have written: look before trying again."""


class FileMissingError(StorageError, code="LAKE_FILE_MISSING", sqlstate="42K03"):
    """A requested file does not exist."""


class FileExistsAlreadyError(StorageError, code="LAKE_FILE_EXISTS"):
    """Put-if-absent found the name taken."""


class CatalogError(StorageError, code="LAKE_CATALOG_ERROR"):
    """A catalog failed or refused a request: nothing is known to have changed."""


class CatalogDeniedError(CatalogError, code="LAKE_CATALOG_DENIED", sqlstate="42501"):
    """The catalog requires other credentials or rights."""


class CatalogTableMissingError(CatalogError, code="LAKE_CATALOG_TABLE_MISSING", sqlstate="42P01"):
    """The catalog no longer has a table that was opened through it."""

    def __init__(self, what: str) -> None:
        super().__init__(what, "Open it again by its name.")


class InvalidCommitError(CatalogError, code="LAKE_CATALOG_COMMIT_INVALID", sqlstate="22023"):
    """A proposed commit, or a catalog's answer about commits, breaks the protocol."""


class UnpublishedLimitError(CatalogError, code="LAKE_CATALOG_TOO_MANY_UNPUBLISHED"):
    """The catalog ratifies no further commit before earlier ones are published."""


class VersionTakenError(FileExistsAlreadyError, code="LAKE_CATALOG_VERSION_TAKEN"):
    """The catalog has ratified another commit as this version."""


class GroupRefusedError(Exception):
    """The catalog refused the commits of several tables because of one of them.

    It never leaves the transaction: the table's commit is prepared again. `cause` is the refusal,
    as it would be of that commit alone.
    """

    def __init__(self, table_id: str, cause: StorageError) -> None:
        super().__init__(f"{table_id}: {cause}")
        self.table_id, self.cause = table_id, cause


class PathOutsideRootError(EngineError, code="LAKE_PATH_OUTSIDE_ROOT", sqlstate="42K05"):
    """A path leaves the table, or the roots an administrator allowed."""

    field: str = ""  # the part of a request at fault


class UnsupportedSchemeError(EngineError, code="LAKE_UNSUPPORTED_SCHEME", sqlstate="0A000"):
    """No store serves the scheme of a URI."""

    field: str = ""  # the part of a request at fault


class TableNotFoundError(EngineError, code="DELTA_TABLE_NOT_FOUND", sqlstate="42P01"):
    """There is no Delta table at the location."""


class TableExistsError(EngineError, code="DELTA_TABLE_ALREADY_EXISTS", sqlstate="42P07"):
    """A table is already there."""


class MalformedLogError(EngineError, code="DELTA_LOG_MALFORMED"):
    """The log breaks the protocol: it is refused rather than guessed at."""


class LogGapError(MalformedLogError, code="DELTA_VERSIONS_NOT_CONTIGUOUS"):
    """Versions are missing from the log."""


class VersionNotFoundError(EngineError, code="DELTA_VERSION_NOT_FOUND", sqlstate="22003"):
    """The log does not have a version; the error names the available range."""

    def __init__(self, table: str, requested: int, earliest: int, latest: int) -> None:
        super().__init__(
            f"Version {requested} of {table} cannot be read: the log holds versions "
            f"{earliest} to {latest}.",
            "Ask for a version in that range.",
        )
        self.table, self.requested, self.earliest, self.latest = table, requested, earliest, latest


class TimestampOutOfRangeError(EngineError, code="DELTA_TIMESTAMP_OUT_OF_RANGE", sqlstate="42816"):
    """A time before the first or after the last readable version."""

    def __init__(self, table: str, requested: str, earliest: str, latest: str) -> None:
        super().__init__(
            f"{table} has no version at {requested}: its readable versions were committed "
            f"from {earliest} to {latest}.",
            "Ask for a time in that range.",
        )
        self.table, self.requested, self.earliest, self.latest = table, requested, earliest, latest


class TimestampTooLateError(
    TimestampOutOfRangeError, code="DELTA_TIMESTAMP_GREATER_THAN_COMMIT", sqlstate="42816"
):
    """A time after the latest version."""


class TimestampTooEarlyError(
    TimestampOutOfRangeError,
    code="DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION",
    sqlstate="42816",
):
    """A time before the first version that is still in the log."""


class UnsupportedFeatureError(EngineError, code="DELTA_UNSUPPORTED_FEATURES", sqlstate="56038"):
    """The table needs features this engine does not have, named."""

    def __init__(self, table: str, features: Iterable[str], purpose: str) -> None:
        self.features = sorted(features)
        self.table, self.purpose = table, purpose
        names = ", ".join(self.features)
        super().__init__(
            f"{table} cannot be {'read' if purpose == 'read' else 'written'}: it uses "
            f"{names}, which this engine does not support.",
            "Use an engine that supports it, or drop the feature there first.",
        )


class CatalogManagedTableError(
    UnsupportedFeatureError,
    code="DELTA_PATH_BASED_ACCESS_TO_CATALOG_MANAGED_TABLE_BLOCKED",
    sqlstate="KD00G",
):
    """A catalog decides the table's commits: it cannot be read or written by its path."""

    def __init__(self, table: str, catalog: str) -> None:
        self.features, self.table, self.purpose = ["catalogManaged"], table, "read"
        self.catalog = catalog
        what = f"{table} is managed by {catalog or 'a catalog'}, which decides its commits."
        EngineError.__init__(self, what, "Open it by its name in the catalog.")


class CatalogOperationError(
    EngineError, code="DELTA_UNSUPPORTED_CATALOG_MANAGED_TABLE_OPERATION", sqlstate="0AKDC"
):
    """The catalog of a managed table does not permit an operation."""

    def __init__(self, table: str, catalog: str, operation: str) -> None:
        what = f"{catalog}, which manages {table}, does not permit its clients to run {operation}."
        super().__init__(what, "Leave it to the catalog, or have the catalog permit it.")
        self.table, self.catalog, self.operation = table, catalog, operation


class CatalogDependencyError(
    EngineError, code="DELTA_CANNOT_MODIFY_CATALOG_MANAGED_DEPENDENCIES", sqlstate="42616"
):
    """A change would remove what a catalog-managed table depends on."""


class DataFileError(EngineError, code="DELTA_DATA_FILE_UNREADABLE"):
    """A data or deletion-vector file named by the log is missing or damaged."""


class DataFileMissingError(DataFileError, code="DELTA_FILE_NOT_FOUND_DETAILED", sqlstate="42K03"):
    """A data file named by the log does not exist: deleted by hand, or by a rule of the store."""


class DeletionVectorError(DataFileError, code="DELTA_DELETION_VECTOR_INVALID"):
    """The bytes of a deletion vector do not match its descriptor."""


class RequestError(EngineError, code="LAKE_INVALID_REQUEST", sqlstate="22023"):
    """The request is at fault: `field` names the part."""

    def __init__(self, what: str, remedy: str = "", *, field: str = "") -> None:
        super().__init__(what, remedy)
        self.field = field


class IllegalOptionError(RequestError, code="DELTA_ILLEGAL_OPTION"):
    """An option of a reader, a writer or a stream has a value that it cannot have."""


class InvalidSchemaError(RequestError, code="DELTA_INVALID_SCHEMA", sqlstate="42000"):
    """A schema is malformed, or not allowed for a table."""


class SchemaMismatchError(RequestError, code="DELTA_METADATA_MISMATCH", sqlstate="42KDG"):
    """The schema of data does not fit the table's."""


class InvalidPropertyError(RequestError, code="DELTA_INVALID_PROPERTY"):
    """A table property with a value it cannot take."""


class InvalidIsolationLevelError(
    InvalidPropertyError, code="DELTA_INVALID_ISOLATION_LEVEL", sqlstate="25000"
):
    """Neither Serializable nor WriteSerializable."""


class StatementError(RequestError, code="LAKE_STATEMENT_NOT_UNDERSTOOD", sqlstate="42601"):
    """The engine does not support the SQL; `position` is an offset in `part`, "" for all of it."""

    def __init__(
        self, what: str, remedy: str = "", *, field: str = "sql", position: int | None = None
    ) -> None:
        super().__init__(what, remedy, field=field)
        self.position, self.part = position, ""


class OnlyReadsError(StatementError, code="LAKE_STATEMENT_ONLY_READS"):
    """The statement only reads: a `page` of `table` shows rows for a `condition`, "" for none."""

    table, page, condition = "", "", ""


class ExpressionError(StatementError, code="LAKE_EXPRESSION_NOT_ALLOWED"):
    """A condition or expression does not parse, or is not allowed."""


class UnknownColumnError(ExpressionError, code="UNRESOLVED_COLUMN", sqlstate="42703"):
    """The schema does not have a column."""


class CannotEvaluateError(EngineError, code="LAKE_CANNOT_EVALUATE", sqlstate="0A000"):
    """Arrow cannot evaluate an expression exactly as Spark does: ask Spark, or assume a match."""


class InvariantViolationError(
    EngineError, code="DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", sqlstate="23001"
):
    """A row breaks a NOT NULL, a CHECK or another promise of the table."""


class AppendOnlyError(EngineError, code="DELTA_CANNOT_MODIFY_APPEND_ONLY", sqlstate="42809"):
    """The table is append-only."""


class MultipleSourceRowsError(
    EngineError, code="DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE", sqlstate="21506"
):
    """MERGE found several source rows for one target row."""


class RetentionTooShortError(RequestError, code="DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT"):
    """VACUUM was asked to delete files still needed by retained versions."""


class TooManyColumnsError(RequestError, code="LAKE_TOO_MANY_COLUMNS", sqlstate="54011"):
    """A source file has more columns than can be read."""


class BadRowsError(RequestError, code="LAKE_BAD_ROWS", sqlstate="22000"):
    """Rows of a source file do not fit."""


class OperationCancelledError(EngineError, code="LAKE_OPERATION_CANCELLED", sqlstate="57014"):
    """The job was cancelled before its commit: nothing was written."""


class CommitOutcomeUnknownError(EngineError, code="LAKE_COMMIT_OUTCOME_UNKNOWN", sqlstate="40003"):
    """Whether the commit landed cannot be known."""


class LogCleanedError(EngineError, code="LAKE_LOG_CLEANED", sqlstate="40001"):
    """Versions a transaction had to be checked against have been cleaned away."""


class TableReplacedError(EngineError, code="LAKE_TABLE_REPLACED", sqlstate="40001"):
    """The table a transaction read is gone, or was replaced by another one."""

    def __init__(self, table: str, read_version: int) -> None:
        what = f"{table} was deleted or created again after its version {read_version} was read."
        remedy = "Run it again if it should change the table that exists now."
        super().__init__(f"{what} Nothing was written.", remedy)


class MaxCommitRetriesError(
    EngineError, code="DELTA_MAX_COMMIT_RETRIES_EXCEEDED", sqlstate="40000"
):
    """The commit lost the race for a version too often."""


class ConflictError(EngineError, code="DELTA_CONCURRENT_WRITE", sqlstate="2D521"):
    """A concurrent commit won, and this one would not be serializable after it (SEMANTICS: checks)."""

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


class ConcurrentAppendException(ConflictError, code="DELTA_CONCURRENT_APPEND"):  # noqa: N818
    """A winning commit added files this transaction should have read."""


class ConcurrentDeleteReadException(ConflictError, code="DELTA_CONCURRENT_DELETE_READ"):  # noqa: N818
    """A file this transaction read was deleted or rewritten."""


class ConcurrentDeleteDeleteException(ConflictError, code="DELTA_CONCURRENT_DELETE_DELETE"):  # noqa: N818
    """Both transactions delete the same file."""


class MetadataChangedException(ConflictError, code="DELTA_METADATA_CHANGED"):  # noqa: N818
    """The winning commit changed the table's metadata."""


class ConcurrentTransactionException(ConflictError, code="DELTA_CONCURRENT_TRANSACTION"):  # noqa: N818
    """One application id (or one metadata domain), two writers."""


class ProtocolChangedException(ConflictError, code="DELTA_PROTOCOL_CHANGED"):  # noqa: N818
    """The winning commit changed the protocol, or created the table first."""


def _advice(remedies: Sequence[Remedy], can_retry: bool) -> str:
    first = "Retry it" if can_retry else "A retry cannot succeed"
    if not remedies:
        return f"{first}."
    return f"{first}{', or' if can_retry else ':'} {remedies[0].action}."


def _writable(text: str) -> str:  # lone surrogates cannot be stored or logged
    return text.encode("utf-8", "backslashreplace").decode()
