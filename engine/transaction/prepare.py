"""Preparation of a pending commit from reads and staged actions, checked against the read version.

A restaged file, an `add` of a path in the read version, is a statement about this file. Tables for
Iceberg clients follow the protocol's Iceberg Compatibility V2.
"""

import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import pyarrow.compute as pc

from engine.actions.codec import Action
from engine.actions.files import AddFile, RemoveFile
from engine.actions.table import Metadata, Protocol
from engine.conflicts.decide.row_access import physical_rows
from engine.conflicts.eligibility import table_eligibility
from engine.conflicts.isolation import IsolationLevel, level_used
from engine.conflicts.transaction_info import (
    NO_LAYOUT,
    CurrentTransaction,
    LayoutColumn,
    ReadPredicate,
    RowScope,
)
from engine.errors import RequestError
from engine.log.file_table import adds_of
from engine.protocol.iceberg_compat import faults_of, has_nested_ids, partitions_fault
from engine.protocol.properties import TableProperties
from engine.schema.column_mapping import column_mapping_mode, physical_name
from engine.schema.column_paths import column_path
from engine.schema.types import parse_schema
from engine.snapshot.snapshot import Snapshot
from engine.transaction.pending_commit import (
    PendingCommit,
    Provenance,
    high_water_mark,
    last_row_id,
)
from engine.transaction.snapshot_rows import RowMatcher, RowTester
from engine.transaction.staging import TableTerms, check_staged


@dataclass(slots=True)
class ReadSet:
    """The reads collected until the commit.

    `files` are the paths conditions led to, `entirely` those of which every row counts as read.
    `obstacle` is the command's own reason for a decision at file level; `matcher` and `tester`
    compare rows if conditions alone do not decide. `source_is_fixed`: its rows come from the
    version it reads, and a retry would not read them again. `serializably`: the reads are checked
    at Serializable, whatever the level of the table.
    """

    predicates: list[ReadPredicate] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    entirely: set[str] = field(default_factory=set)
    whole_table: bool = False
    source_is_fixed: bool = False
    serializably: bool = False
    app_ids: set[str] = field(default_factory=set)
    obstacle: str | None = None
    matcher: RowMatcher | None = None
    tester: RowTester | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no data was read; application ids are no data."""
        return not (self.predicates or self.entirely or self.whole_table)

    def row_scope(self, snapshot: Snapshot | None) -> RowScope:
        """Return the level of conflict resolution, known before any work."""
        if snapshot is None:
            return RowScope("it creates the table", traces_moves=False)
        table = table_eligibility(snapshot.metadata, snapshot.protocol, snapshot.clustering_columns)
        of_reads = next((r.row_obstacle for r in self.predicates if r.row_obstacle), None)
        of_command = of_reads or self.obstacle
        return RowScope(
            table.obstacle or of_command,
            table.traces_moves,
            table.traces_order,
            table.facts,
            of_command,
        )

    def layout(self, snapshot: Snapshot | None) -> LayoutColumn:
        """Return the layout column, with a file count if a condition was checked against files."""
        names = snapshot and (
            snapshot.partition_columns
            or [".".join(column_path(name)) for name in snapshot.clustering_columns]
        )
        if snapshot is None or not names:
            return NO_LAYOUT
        column = snapshot.schema.get(names[0])
        physical = None if column is None else physical_name(column, snapshot.mapping_mode)
        return LayoutColumn(
            column=names[0],
            physical_name=physical or "",
            is_partition=bool(snapshot.partition_columns),
            file_count=snapshot.file_count if self.predicates else None,
        )


class FileLookup(typing.Protocol):
    """The files of a version; a snapshot has them."""

    def add_files(
        self, condition: None = None, paths: Sequence[str] | None = None
    ) -> list[AddFile]:
        """Return the live adds of these paths."""
        ...


def prepare_commit(
    table: str,
    snapshot: Snapshot | None,
    reads: ReadSet,
    staged: Sequence[Action],
    provenance: Provenance,
) -> PendingCommit:
    """Prepare the pending commit at the read version; without a snapshot it creates the table.

    Raises:
        RequestError: the staged actions are not valid as one commit.
        UnsupportedFeatureError, InvalidPropertyError, AppendOnlyError: as in `check_staged`.
    """
    before = TableTerms(table, snapshot.metadata, snapshot.protocol) if snapshot else None
    after = TableTerms.apply_actions(table, before, staged)
    live = find_restated_files(snapshot, staged, reads_nothing=reads.is_empty)
    actions = restore_identity(staged, live)
    check_staged(actions, after, before)
    check_replaced(actions, live)
    check_iceberg_rules(actions, before, after)
    terms = before or after
    entirely = read_by_staging(actions, live) | reads.entirely
    needs_time = after.stamps_commits or not actions  # reading it may need a listing
    read_version = snapshot.version if snapshot else -1
    mark = high_water_mark(snapshot.domains.values()) if snapshot else -1
    last_numbered = _last_numbered(snapshot) if snapshot and after.gives_row_ids else None
    current = CurrentTransaction(
        table=table,
        read_version=read_version,
        schema=parse_schema(terms.metadata.schema_string),
        partition_columns=tuple(terms.metadata.partition_columns),
        mapping_mode=column_mapping_mode(terms.metadata.configuration),
        level=_level(terms, reads, actions, provenance.operation),
        operation=provenance.operation,
        reads=tuple(reads.predicates),
        read_files=entirely | reads.files,
        read_entirely=entirely,
        read_whole_table=reads.whole_table,
        read_app_ids=frozenset(reads.app_ids),
        source_is_fixed=reads.source_is_fixed,
        actions=actions,
        txn_id=provenance.txn_id,
        user=provenance.user_name,
        metadata=before.metadata if before else None,
        protocol=before.protocol if before else None,
        rows=reads.row_scope(snapshot),
        layout=reads.layout(snapshot),
    )
    return PendingCommit(
        current=current,
        provenance=provenance,
        before=before,
        after=after,
        validated_version=read_version,
        timestamp_ms=snapshot.timestamp_ms if snapshot and needs_time else 0,
        row_id_high_water_mark=max(mark, last_row_id(last_numbered)),
        last_numbered=last_numbered,
        staged=tuple(actions),
    )


def _last_numbered(snapshot: Snapshot) -> AddFile | None:
    """Return the live file with the highest base row id; None if no file has ids."""
    files = snapshot.state.files
    first_ids = files.column("base_row_id")
    highest = pc.max(first_ids)
    if not highest.is_valid:
        return None
    return adds_of(files.slice(pc.index(first_ids, highest).as_py(), 1))[0]


def _level(
    terms: TableTerms, reads: ReadSet, actions: Sequence[Action], operation: str
) -> IsolationLevel:
    if reads.serializably:
        return IsolationLevel.SERIALIZABLE
    of_table = TableProperties.parse(terms.metadata.configuration).isolation_level
    return level_used(of_table, actions, operation)


def find_restated_files(
    live: FileLookup | None, actions: Iterable[Action], *, reads_nothing: bool
) -> dict[str, AddFile]:
    """Return the live adds of restaged files, by path.

    A transaction with no reads and only plain new files is an append and need not load the table's
    files.
    """
    staged = tuple(actions)
    adds = [action for action in staged if isinstance(action, AddFile)]
    removes = any(isinstance(action, RemoveFile) for action in staged)
    if live is None or not adds or (reads_nothing and not removes and all(map(_is_new, adds))):
        return {}
    return {
        add_file.path: add_file for add_file in live.add_files(paths=[add.path for add in adds])
    }


def restore_identity(actions: Iterable[Action], live: Mapping[str, AddFile]) -> tuple[Action, ...]:
    """Fill in the row ids and missing statistics of restaged files from the live files."""
    return tuple(
        _restore_row_ids(action, live[action.path])
        if isinstance(action, AddFile) and action.path in live
        else action
        for action in actions
    )


def check_replaced(actions: Iterable[Action], live: Mapping[str, AddFile]) -> None:
    """Refuse a live file restaged with another deletion vector without its `remove`.

    The table would have the file twice.

    Raises:
        RequestError: names the file.
    """
    staged = tuple(actions)
    removed = {action.key for action in staged if isinstance(action, RemoveFile)}
    for action in staged:
        if not isinstance(action, AddFile):
            continue
        replaced = live.get(action.path)
        if replaced is None or replaced.key == action.key or replaced.key in removed:
            continue
        what = f"{replaced.path} is staged with a second deletion vector."
        raise RequestError(
            what, "Stage a remove action for the file as it is now.", field="actions"
        )


def read_by_staging(actions: Iterable[Action], live: Mapping[str, AddFile]) -> frozenset[str]:
    """Return the paths added again without a `remove`: they count as read."""
    staged = tuple(actions)
    removed = {action.path for action in staged if isinstance(action, RemoveFile)}
    added = {action.path for action in staged if isinstance(action, AddFile)}
    return frozenset((added & live.keys()) - removed)


def _is_new(add: AddFile) -> bool:
    return add.data_change and add.deletion_vector is None and add.base_row_id is None


def _restore_row_ids(add: AddFile, live: AddFile) -> AddFile:
    """Keep the file's row ids and statistics unless staged explicitly."""
    since = add.default_row_commit_version
    return msgspec.structs.replace(
        add,
        base_row_id=live.base_row_id if add.base_row_id is None else add.base_row_id,
        default_row_commit_version=live.default_row_commit_version if since is None else since,
        stats=add.stats or live.stats,
    )


def check_iceberg_rules(
    actions: Sequence[Action], before: TableTerms | None, after: TableTerms
) -> None:
    """Check the actions of a table with Iceberg compatibility; other tables are not checked.

    Raises:
        RequestError: Iceberg clients could not read the table or a file.
    """
    properties = TableProperties.parse(after.metadata.configuration)
    is_changed = any(isinstance(action, Metadata | Protocol) for action in actions)
    if is_changed:
        _check_formats(after.table, properties)
    if not properties.iceberg_compat_v2:
        return
    if is_changed:
        _check_table(before, after)
    for action in actions:
        if isinstance(action, AddFile):
            _check_file(action, after.table)


def _check_formats(table: str, properties: TableProperties) -> None:
    others = [target for target in properties.universal_formats if target.lower() != "iceberg"]
    if others:
        what = (
            f"{table} has the format {others[0]} enabled, but this engine cannot write its "
            "metadata."
        )
        remedy = "Remove it from delta.universalFormat.enabledFormats."
        raise RequestError(what, remedy, field="properties")
    if properties.universal_formats and not properties.iceberg_compat_v2:
        what = f"{table} has Iceberg enabled, but its files may not be compatible."
        remedy = "Run REORG TABLE … APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))."
        raise RequestError(what, remedy, field="properties")


def _check_table(before: TableTerms | None, after: TableTerms) -> None:
    schema = parse_schema(after.metadata.schema_string)
    faults = list(faults_of(schema, after.metadata.configuration))
    if before is not None:
        moved = partitions_fault(_partitions(before), _partitions(after))
        faults += [moved] if moved else []
    if not has_nested_ids(schema):
        faults.append("elements of its arrays or maps have no ids")
    if faults:
        what = f"Iceberg clients cannot read {after.table}: {'; '.join(faults)}."
        remedy = "Correct this, or set delta.enableIcebergCompatV2 to false."
        raise RequestError(what, remedy, field="properties")


def _partitions(terms: TableTerms) -> list[str]:
    schema = parse_schema(terms.metadata.schema_string)
    mode = column_mapping_mode(terms.metadata.configuration)
    columns = ((name, schema.get(name)) for name in terms.metadata.partition_columns)
    return [name if column is None else physical_name(column, mode) for name, column in columns]


def _check_file(add: AddFile, table: str) -> None:
    if add.deletion_vector is not None:
        what = f"{add.path} has a deletion vector, which Iceberg clients of {table} cannot read."
        raise RequestError(what, "Rewrite the file without its deleted rows.", field="actions")
    if physical_rows(add) is None:
        what = f"{add.path} is staged without a row count, which {table} needs for Iceberg."
        raise RequestError(what, "Stage it with statistics that have numRecords.", field="actions")
