"""A transaction becomes a value that can compete: checked against itself and the version it read."""

from collections.abc import Sequence

import pyarrow.compute as pc

from engine.actions.codec import Action
from engine.conflicts.isolation import IsolationLevel, level_used
from engine.conflicts.transaction_info import CurrentTransaction
from engine.protocol.properties import TableProperties
from engine.schema.types import parse_schema
from engine.snapshot.row_counts import num_records
from engine.snapshot.snapshot import Snapshot
from engine.transaction.iceberg_rules import check_iceberg_rules
from engine.transaction.pending_commit import PendingCommit, high_water_mark
from engine.transaction.provenance import Provenance
from engine.transaction.read_set import ReadSet
from engine.transaction.restated_files import (
    check_replaced,
    find_restated_files,
    read_by_staging,
    with_known_identity,
)
from engine.transaction.staging import TableTerms, check_staged


def prepare_commit(
    table: str,
    snapshot: Snapshot | None,
    reads: ReadSet,
    staged: Sequence[Action],
    provenance: Provenance,
) -> PendingCommit:
    """The pending commit that a transaction is at its read version; without a snapshot it creates.

    Raises:
        RequestError: what is staged cannot be one commit.
        UnsupportedFeatureError, InvalidPropertyError, AppendOnlyError: as `check_staged`.
    """
    before = TableTerms(table, snapshot.metadata, snapshot.protocol) if snapshot else None
    after = TableTerms.after(table, before, staged)
    live = find_restated_files(snapshot, staged, reads_nothing=reads.is_empty)
    actions = with_known_identity(staged, live)
    check_staged(actions, after, before)
    check_replaced(actions, live)
    check_iceberg_rules(actions, before, after)
    terms = before or after
    entirely = read_by_staging(actions, live) | reads.entirely
    needs_time = after.stamps_commits or not actions  # it may take a listing to know
    read_version = snapshot.version if snapshot else -1
    current = CurrentTransaction(
        table=table,
        read_version=read_version,
        schema=parse_schema(terms.metadata.schema_string),
        partition_columns=tuple(terms.metadata.partition_columns),
        level=_level(terms, actions, provenance.operation),
        operation=provenance.operation,
        reads=tuple(reads.predicates),
        read_files=entirely | reads.files,
        read_entirely=entirely,
        read_whole_table=reads.whole_table,
        read_app_ids=frozenset(reads.app_ids),
        actions=actions,
        txn_id=provenance.txn_id,
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
        row_id_high_water_mark=_last_row_id(snapshot, after),
        staged=tuple(actions),
    )


def _last_row_id(snapshot: Snapshot | None, after: TableTerms) -> int:
    """The last row id given out: as the domain says, or, where it says nothing, as the files do."""
    if snapshot is None:
        return -1
    mark = high_water_mark(snapshot.domains.values())
    if mark >= 0 or not after.gives_row_ids:
        return mark
    files = snapshot.state.files
    ends = pc.add(files.column("base_row_id"), num_records(files.column("stats")))
    return int(pc.max(ends).as_py() or 0) - 1


def _level(terms: TableTerms, actions: Sequence[Action], operation: str) -> IsolationLevel:
    of_table = TableProperties.parse(terms.metadata.configuration).isolation_level
    return level_used(of_table, actions, operation)
