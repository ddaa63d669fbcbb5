"""The operations: their names, reads, changes and removals, and their part in conflicts.

This is their only home. A row of `OPERATIONS` describes a command, or an operation recorded in a
log. Rows may share a name in the log: its parameters distinguish an overwrite from an append. The
rows a write removes always count as read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Flag, StrEnum, auto
from functools import lru_cache
from typing import Any


class Family(StrEnum):
    """The operations pages count and draw together, in display order."""

    WRITE = "write"
    MERGE = "merge"
    UPDATE = "update"
    DELETE = "delete"
    OPTIMIZE = "optimize"
    VACUUM = "vacuum"
    META = "meta"
    OTHER = "other"


class StatementKind(StrEnum):
    """The part of a write in conflicts: writes of one kind have the same conflicts."""

    INSERT = "insert"
    INSERT_SELECT = "insert select"  # from the table itself
    STREAM = "stream"
    UPDATE = "update"
    DELETE = "delete"
    MERGE = "merge"
    OVERWRITE = "overwrite"
    TRUNCATE = "truncate"
    RESTORE = "restore"
    REPLACE = "replace"  # replaces the table
    OPTIMIZE = "optimize"
    ZORDER = "optimize zorder by"
    PURGE = "reorg purge"
    RESTATE = "restate files"  # to fill in row ids: rows stay in place
    UPGRADE = "reorg upgrade"
    ALTER = "alter"
    DROP_COLUMNS = "drop columns"  # restates the clustering if the protocol has it
    CHECKED_ALTER = "alter that reads rows"
    CLUSTER_BY = "cluster by"
    CREATE = "create"
    VACUUM = "vacuum"

    @property
    def moves_rows(self) -> bool:
        """Whether it is a compaction, which moves rows without changing them."""
        return self in ("optimize", "optimize zorder by", "reorg purge")

    @property
    def inserts(self) -> bool:
        """Whether it may insert rows without replacing the table's state."""
        return self in ("insert", "insert select", "stream", "merge", "overwrite")

    @property
    def opens_some_files(self) -> bool:
        """Whether it reads or rewrites only some files of the table."""
        return self.moves_rows or self in ("update", "delete", "merge", "insert select")


class Reads(StrEnum):
    """The rows an operation reads of its own table."""

    NOTHING = "nothing"
    CONDITION = "the rows that match its condition, which the log records"
    QUERY = "the rows that its query or join selects, which the log does not record"
    FILES = "the files that it rewrites without changing their rows"
    TABLE = "every row"


class Changes(Flag):
    """The parts of a version an operation changes."""

    ROWS = auto()
    FILES = auto()  # the files of the rows
    COLUMNS = auto()
    PROPERTIES = auto()  # constraints, clustering and the protocol too
    TERMS = COLUMNS | PROPERTIES


class NewFiles(StrEnum):
    """The origin of the files an operation adds."""

    NONE = "none"
    WRITTEN = "written by it"
    COPIED = "copied from another table, or referenced there"
    EXISTING = "already in the table's directory"
    RESTATED = "already in the table, restated"


class Removes(StrEnum):
    """The content no longer available to readers of the latest or an earlier version."""

    NOTHING = "nothing"
    ROWS = "some rows"
    ALL_ROWS = "every row"
    COLUMNS = "columns"
    HISTORY = "earlier versions"


NONE, ROWS, FILES = Changes(0), Changes.ROWS, Changes.FILES
COLUMNS, PROPERTIES, TERMS = Changes.COLUMNS, Changes.PROPERTIES, Changes.TERMS


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation.

    Attributes:
        name: its name in the log (`commitInfo.operation`), delta-spark's if it has one.
        label: its name in forms.
        family: the operations it is counted with.
        statement: its part in conflicts.
        reads: the rows it reads of its own table, unless its source names this table.
        changes: its changes; a write may also add columns if requested.
        files: the origin of its added files.
        removes: the content it removes.
        command: the kind of its command, before the command's parameters are read.
        aliases: its other names, also in other engines. A single word also means every unlisted
            name beginning with it, like a name of a single word.
    """

    name: str
    label: str
    family: Family
    statement: StatementKind
    reads: Reads = Reads.NOTHING
    changes: Changes = NONE
    files: NewFiles = NewFiles.NONE
    removes: Removes = Removes.NOTHING
    command: str = ""
    aliases: tuple[str, ...] = ()

    @property
    def changes_rows(self) -> bool:
        """Whether its file actions change data, regardless of their marks."""
        return ROWS in self.changes

    @property
    def replaces_table(self) -> bool:
        """Whether it replaces the table: one of two such operations fails, like two creations."""
        return self.statement is StatementKind.REPLACE

    @property
    def replaces_state(self) -> bool:
        """Whether it sets the table's whole state: no other commit may land in between."""
        return self.replaces_table or self.statement is StatementKind.RESTORE

    @property
    def changes_matches(self) -> bool:
        """Whether it reads rows in order to change them, as UPDATE, DELETE and MERGE do."""
        return self.reads in (Reads.CONDITION, Reads.QUERY) and self.removes is Removes.ROWS

    @property
    def may_change_terms(self) -> bool:
        """Whether its commit may have metadata: inserts may add columns or move identity marks."""
        return bool(self.changes & TERMS) or self.statement.inserts


# fmt: off
OPERATIONS: tuple[Operation, ...] = (
    # name, label, family, part in conflicts, reads, changes, new files, removes, command, aliases
    INSERT := Operation("WRITE", "Append", Family.WRITE, StatementKind.INSERT, Reads.NOTHING, ROWS, NewFiles.WRITTEN, command="append", aliases=("INSERT", "COPY")),
    INSERT_SELECT := Operation("WRITE", "Append from itself", Family.WRITE, StatementKind.INSERT_SELECT, Reads.QUERY, ROWS, NewFiles.WRITTEN),
    OVERWRITE := Operation("WRITE", "Overwrite", Family.WRITE, StatementKind.OVERWRITE, Reads.TABLE, ROWS, NewFiles.WRITTEN, Removes.ALL_ROWS, "overwrite"),
    REPLACE_ROWS := Operation("WRITE", "Replace rows", Family.WRITE, StatementKind.MERGE, Reads.QUERY, ROWS, NewFiles.WRITTEN, Removes.ROWS),
    Operation("STREAMING UPDATE", "Stream", Family.WRITE, StatementKind.STREAM, Reads.NOTHING, ROWS, NewFiles.WRITTEN, Removes.NOTHING, "stream", ("STREAMING",)),
    Operation("DELETE", "Delete", Family.DELETE, StatementKind.DELETE, Reads.CONDITION, ROWS, NewFiles.WRITTEN, Removes.ROWS, "delete"),
    Operation("UPDATE", "Update", Family.UPDATE, StatementKind.UPDATE, Reads.CONDITION, ROWS, NewFiles.WRITTEN, Removes.ROWS, "update"),
    Operation("MERGE", "Merge", Family.MERGE, StatementKind.MERGE, Reads.QUERY, ROWS, NewFiles.WRITTEN, Removes.ROWS, "merge"),
    TRANSACTION := Operation("TRANSACTION", "Transaction", Family.MERGE, StatementKind.MERGE, Reads.QUERY, ROWS, NewFiles.WRITTEN, Removes.ROWS, "transaction"),
    Operation("TRUNCATE", "Truncate", Family.DELETE, StatementKind.TRUNCATE, Reads.NOTHING, ROWS, NewFiles.NONE, Removes.ALL_ROWS, "truncate"),
    Operation("RESTORE", "Restore", Family.WRITE, StatementKind.RESTORE, Reads.NOTHING, ROWS | TERMS, NewFiles.EXISTING, Removes.ALL_ROWS, "restore"),
    CREATE := Operation("CREATE TABLE", "Create", Family.META, StatementKind.CREATE, Reads.NOTHING, TERMS, command="create"),
    CREATE_AS_SELECT := Operation("CREATE TABLE AS SELECT", "Create from a query", Family.WRITE, StatementKind.CREATE, Reads.NOTHING, ROWS | TERMS, NewFiles.WRITTEN),
    REPLACE := Operation("CREATE OR REPLACE TABLE", "Replace", Family.WRITE, StatementKind.REPLACE, Reads.NOTHING, ROWS | TERMS, NewFiles.NONE, Removes.ALL_ROWS, aliases=("REPLACE TABLE", "CREATE", "REPLACE")),
    REPLACE_AS_SELECT := Operation("CREATE OR REPLACE TABLE AS SELECT", "Replace from a query", Family.WRITE, StatementKind.REPLACE, Reads.NOTHING, ROWS | TERMS, NewFiles.WRITTEN, Removes.ALL_ROWS, aliases=("REPLACE TABLE AS SELECT",)),
    CLONE := Operation("CLONE", "Clone", Family.WRITE, StatementKind.REPLACE, Reads.NOTHING, ROWS | TERMS, NewFiles.COPIED, Removes.ALL_ROWS, "clone"),
    CLONE_TO_NEW := Operation("CLONE", "Clone to a new table", Family.WRITE, StatementKind.CREATE, Reads.NOTHING, ROWS | TERMS, NewFiles.COPIED),
    Operation("CONVERT", "Convert", Family.WRITE, StatementKind.CREATE, Reads.NOTHING, ROWS | TERMS, NewFiles.EXISTING),
    OPTIMIZE := Operation("OPTIMIZE", "Optimize", Family.OPTIMIZE, StatementKind.OPTIMIZE, Reads.FILES, FILES, NewFiles.WRITTEN, Removes.NOTHING, "optimize", ("COMPACT",)),
    ZORDER := Operation("OPTIMIZE", "Optimize and order", Family.OPTIMIZE, StatementKind.ZORDER, Reads.FILES, FILES, NewFiles.WRITTEN, aliases=("OPTIMIZE ZORDER BY",)),
    REORG := Operation("REORG", "Reorganize", Family.OPTIMIZE, StatementKind.PURGE, Reads.FILES, FILES, NewFiles.WRITTEN, Removes.NOTHING, "reorg", ("PURGE",)),
    UPGRADE := Operation("REORG TABLE UPGRADE UNIFORM", "Upgrade for Iceberg", Family.META, StatementKind.UPGRADE, Reads.FILES, FILES | PROPERTIES, NewFiles.WRITTEN),
    Operation("ROW TRACKING BACKFILL", "Assign row ids", Family.OTHER, StatementKind.RESTATE, Reads.NOTHING, NONE, NewFiles.RESTATED, aliases=("ROW TRACKING UNBACKFILL",)),
    Operation("COMPUTE STATS", "Compute statistics", Family.OTHER, StatementKind.RESTATE, Reads.FILES, NONE, NewFiles.RESTATED),
    Operation("VACUUM END", "Vacuum", Family.VACUUM, StatementKind.VACUUM, removes=Removes.HISTORY, command="vacuum", aliases=("VACUUM",)),
    Operation("VACUUM START", "Start of VACUUM", Family.VACUUM, StatementKind.VACUUM),
    EMPTY_COMMIT := Operation("EMPTY COMMIT", "Commit without changes", Family.OTHER, StatementKind.VACUUM, aliases=("OPTIMIZE CHECKPOINT",)),
    SET_PROPERTIES := Operation("SET TBLPROPERTIES", "Set properties", Family.META, StatementKind.ALTER, Reads.NOTHING, PROPERTIES, command="set_properties"),
    SET_CONSTRAINT := Operation("SET TBLPROPERTIES", "Set a constraint", Family.META, StatementKind.CHECKED_ALTER, Reads.TABLE, PROPERTIES),
    Operation("UNSET TBLPROPERTIES", "Unset properties", Family.META, StatementKind.ALTER, Reads.NOTHING, PROPERTIES, command="unset_properties"),
    Operation("ADD COLUMNS", "Add columns", Family.META, StatementKind.ALTER, Reads.NOTHING, COLUMNS, command="alter_add_columns"),
    Operation("DROP COLUMNS", "Drop columns", Family.META, StatementKind.DROP_COLUMNS, Reads.NOTHING, COLUMNS, removes=Removes.COLUMNS, command="alter_drop_columns", aliases=("DROP COLUMN",)),
    Operation("RENAME COLUMN", "Rename column", Family.META, StatementKind.ALTER, Reads.NOTHING, COLUMNS, command="alter_rename_column"),
    CHANGE_COLUMN := Operation("CHANGE COLUMN", "Change column", Family.META, StatementKind.ALTER, Reads.NOTHING, COLUMNS, aliases=("CHANGE COLUMNS", "REPLACE COLUMNS", "UPDATE SCHEMA", "UPDATE COLUMN METADATA", "UPDATE FIELD METADATA")),
    SET_NOT_NULL := Operation("CHANGE COLUMN", "Change column", Family.META, StatementKind.CHECKED_ALTER, Reads.TABLE, COLUMNS, command="alter_change_column"),
    Operation("ADD CONSTRAINT", "Add constraint", Family.META, StatementKind.CHECKED_ALTER, Reads.TABLE, PROPERTIES, command="alter_add_constraint"),
    Operation("DROP CONSTRAINT", "Drop constraint", Family.META, StatementKind.ALTER, Reads.NOTHING, PROPERTIES, command="alter_drop_constraint"),
    Operation("CLUSTER BY", "Cluster by", Family.META, StatementKind.CLUSTER_BY, Reads.NOTHING, PROPERTIES, command="alter_cluster_by"),
    Operation("DROP FEATURE", "Drop feature", Family.META, StatementKind.CHECKED_ALTER, Reads.TABLE, PROPERTIES, removes=Removes.HISTORY, command="alter_drop_feature"),
    Operation("UPGRADE PROTOCOL", "Change the table", Family.META, StatementKind.ALTER, Reads.NOTHING, TERMS, aliases=("UPDATE TABLE METADATA", "REMOVE COLUMN MAPPING", "SET", "UNSET", "ALTER", "ADD", "DROP", "RENAME", "CHANGE", "UPGRADE")),
)
# fmt: on
UNKNOWN = Operation("", "", Family.OTHER, StatementKind.MERGE, Reads.TABLE, removes=Removes.ROWS)
"""An operation of unknown name: it may have read every row, and changed any."""
OPERATION_OF_COMMAND: Mapping[str, Operation] = {
    row.command: row for row in OPERATIONS if row.command
}
"""The operation of each command kind, before its parameters are read; not of scripts."""
_NAMED = {name: row for row in reversed(OPERATIONS) for name in (row.name, *row.aliases)}
_BY_FIRST_WORD = {name: row for name, row in _NAMED.items() if " " not in name}
_BY_NAME = _NAMED | {k.replace("_", " ").upper(): row for k, row in OPERATION_OF_COMMAND.items()}


def operation_named(name: str | None, parameters: Mapping[str, Any] | None = None) -> Operation:
    """Return the operation named in a log, a conflict or a job; `UNKNOWN` if there is none.

    The `operationParameters` of a log entry distinguish operations of one name; without them the
    first is returned.
    """
    operation = _find_operation(name or "")
    given = parameters or {}
    if operation is INSERT and given.get("mode") == "Overwrite":
        dynamic = str(given.get("isDynamicPartitionOverwrite", "")).lower() == "true"
        return REPLACE_ROWS if dynamic or _is_given(given.get("predicate")) else OVERWRITE
    orders_rows = _is_given(given.get("zOrderBy")) or _is_given(given.get("clusterBy"))
    return ZORDER if operation is OPTIMIZE and orders_rows else operation


def name_in_log(kind: str) -> str:
    """Return the logged name of a command's kind; scripts have their own."""
    return operation_named(kind).name or kind.upper()


def _is_given(value: object) -> bool:
    """Return whether a parameter of a log entry has a value: many engines write lists as text."""
    return (value if isinstance(value, str | None) else str(value)) not in (None, "", "[]", "null")


@lru_cache(maxsize=1024)
def _find_operation(name: str) -> Operation:
    words = name.upper().replace("_", " ").split()
    first = _BY_FIRST_WORD.get(words[0], UNKNOWN) if words else UNKNOWN
    return _BY_NAME.get(" ".join(words), first)
