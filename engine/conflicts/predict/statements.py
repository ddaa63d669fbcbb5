"""Reads and staged actions of a statement on the sample table, on either side of a conflict.

`EFFECTS` holds one function for each kind of statement.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from pyroaring import BitMap64

from engine.actions.codec import Action
from engine.actions.commit_info import CommitInfo
from engine.actions.compaction import CompactionInfo
from engine.actions.files import AddFile, RemoveFile
from engine.actions.table import DomainMetadata, Metadata, Protocol, SetTransaction
from engine.conflicts.candidates import find_matching_reads
from engine.conflicts.decide.rebase import build_remove
from engine.conflicts.isolation import level_used
from engine.conflicts.overlap import MERGE_CLAUSES
from engine.conflicts.predict.sample_table import SCHEMA, Row, SampleTable, TableSetting
from engine.conflicts.reads import read_predicate
from engine.conflicts.transaction_info import (
    CurrentTransaction,
    ReadPredicate,
    WinningCommit,
    adds_files_only,
)
from engine.expressions.parse import parse_condition
from engine.vocabulary import StatementKind

READ_VERSION, WINNING_VERSION = 1, 2
_PROTOCOL = Protocol(min_reader_version=3, min_writer_version=7)
_DELETE_CLAUSE = {MERGE_CLAUSES[0]: '[{"actionType":"delete"}]'}
_CLUSTERING = DomainMetadata(domain="delta.clustering", configuration="{}", removed=False)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement, and the row and partition its condition names.

    `whole_file`: the condition names all rows of the file with the row. `traced`: a compaction
    records where its rows went. `application` is the id a stream writes, by default its own.
    `obstacle` says why its condition cannot be decided at row level. `reads_all`: it also reads
    every row. `opens_all`: its condition rules out no file, though it names rows.
    `changes_metadata`: it changes the metadata too. `inserts`: a MERGE may write new rows.
    `deletes_only`: every clause of a MERGE deletes.
    """

    kind: StatementKind
    id: int | None = None
    date: str | None = None
    whole_file: bool = False
    traced: bool = True
    application: str | None = None
    obstacle: str | None = None
    reads_all: bool = False
    opens_all: bool = False
    changes_metadata: bool = False
    inserts: bool = True
    deletes_only: bool = False

    @property
    def ids(self) -> range | None:
        """The ids its condition names, None if it names none."""
        if self.id is None:
            return None
        first = 1 if self.id < 5 else 5
        return range(first, first + 4) if self.whole_file else range(self.id, self.id + 1)


@dataclass(frozen=True, slots=True)
class StatementEffect:
    """The effect of a statement: its operation, its reads and its staged actions."""

    operation: str
    actions: tuple[Action, ...]
    reads: tuple[ReadPredicate, ...] = ()
    reads_whole_table: bool = False
    app_ids: frozenset[str] = frozenset()
    parameters: Mapping[str, str] | None = None


def build_current(statement: Statement, sample_table: SampleTable) -> CurrentTransaction:
    """Build the statement as a transaction trying to commit."""
    effect, setting = _effect(statement, sample_table, "current"), sample_table.setting
    base, of_command = setting.scope, statement.obstacle
    return CurrentTransaction(
        table="t",
        read_version=-1 if statement.kind is StatementKind.CREATE else READ_VERSION,
        schema=SCHEMA,
        level=level_used(setting.level, effect.actions, effect.operation),
        operation=effect.operation,
        partition_columns=setting.partition_columns,
        reads=effect.reads,
        read_files=_files_read(effect.reads, setting),
        read_whole_table=effect.reads_whole_table or statement.reads_all,
        read_app_ids=effect.app_ids,
        actions=effect.actions,
        rows=replace(base, obstacle=base.obstacle or of_command, command_obstacle=of_command),
    )


def build_winner(
    statement: Statement,
    sample_table: SampleTable,
    version: int = WINNING_VERSION,
    name: str = "winner",
) -> WinningCommit:
    """Build the statement as a landed commit."""
    effect = _effect(statement, sample_table, name)
    reads = effect.reads or effect.reads_whole_table or statement.reads_all
    blind = adds_files_only(effect.actions) and not reads
    info = CommitInfo(
        operation=effect.operation,
        operation_parameters=dict(effect.parameters or {}),
        is_blind_append=blind,
        read_version=READ_VERSION,
    )
    return WinningCommit(version=version, actions=effect.actions, info=info)


def _effect(statement: Statement, sample_table: SampleTable, name: str) -> StatementEffect:
    effect = EFFECTS[statement.kind](statement, sample_table, name)
    inserts = statement.inserts and not statement.deletes_only and statement.kind.inserts
    marks = sample_table.setting.identity and inserts
    if not (marks or statement.changes_metadata):
        return effect
    metadata = Metadata(id="t", schema_string=sample_table.setting.schema.to_json())
    return replace(effect, actions=(metadata, *effect.actions))


@lru_cache(maxsize=1024)
def _files_read(reads: tuple[ReadPredicate, ...], setting: TableSetting) -> frozenset[str]:
    probe = CurrentTransaction(
        table="t",
        read_version=READ_VERSION,
        schema=SCHEMA,
        level=setting.level,
        operation="",
        partition_columns=setting.partition_columns,
        reads=reads,
    )
    files = SampleTable(setting).files
    return frozenset(file.path for file in files if find_matching_reads(probe, file))


def _insert(statement: Statement, sample_table: SampleTable, name: str) -> StatementEffect:
    row = statement.id or 1, statement.date or "d1"
    beside = (0 if row[0] < 5 else 9, row[1])  # files must not be decided by statistics
    return StatementEffect("WRITE", (sample_table.file(f"{name}-new", [row, beside]),))


def _insert_select(statement: Statement, sample_table: SampleTable, name: str) -> StatementEffect:
    """Read the rows the query selects without changing them, and insert rows."""
    inserted = _insert(statement, sample_table, name).actions
    return StatementEffect("WRITE", inserted, (_read(statement, every_match_changes=False),))


def _delete(statement: Statement, sample_table: SampleTable, name: str) -> StatementEffect:
    return StatementEffect(
        "DELETE", tuple(_remove_rows(statement, sample_table, name)), (_read(statement),)
    )


def _update(statement: Statement, sample_table: SampleTable, name: str) -> StatementEffect:
    """Write another column: the new images keep their id."""
    actions = (
        *_remove_rows(statement, sample_table, name),
        *_images(statement, sample_table, name),
    )
    return StatementEffect("UPDATE", actions, (_read(statement),))


def _merge(statement: Statement, sample_table: SampleTable, name: str) -> StatementEffect:
    """Read within the bounds of the source; a join on other columns reads all.

    A joined row may match no clause: it is then read, and not changed.
    """
    reads = (_read(statement, every_match_changes=False),)
    removed = tuple(_remove_rows(statement, sample_table, name))
    if statement.deletes_only:
        return StatementEffect("MERGE", removed, reads, parameters=_DELETE_CLAUSE)
    return StatementEffect("MERGE", (*removed, *_images(statement, sample_table, name)), reads)


def _overwrite(statement: Statement, sample_table: SampleTable, name: str) -> StatementEffect:
    removes = (build_remove(file) for file in sample_table.files)
    actions = (*removes, *_insert(statement, sample_table, name).actions)
    return StatementEffect("WRITE", actions, reads_whole_table=True)


def _truncate(_statement: Statement, sample_table: SampleTable, _name: str) -> StatementEffect:
    removes = tuple(build_remove(file) for file in sample_table.files)
    return StatementEffect("TRUNCATE", removes, (read_predicate(None, every_match_changes=True),))


def _restore(statement: Statement, sample_table: SampleTable, name: str) -> StatementEffect:
    """Remove a file; unless it is newer than the target version, restore one with its rows."""
    path = _path_of(statement, sample_table)
    file = next(add for add in sample_table.files if add.path == path)
    back = sample_table.file(f"{name}-before-{path}", sample_table.rows[path])
    actions = (build_remove(file),) if statement.whole_file else (build_remove(file), back)
    return StatementEffect("RESTORE", actions, reads_whole_table=True)


def _replace(statement: Statement, sample_table: SampleTable, name: str) -> StatementEffect:
    replaced = _overwrite(statement, sample_table, name).actions
    metadata = Metadata(id="t", schema_string=SCHEMA.to_json())
    return StatementEffect(
        "CREATE OR REPLACE TABLE AS SELECT", (metadata, *replaced), reads_whole_table=True
    )


def _optimize(statement: Statement, sample_table: SampleTable, name: str) -> StatementEffect:
    """Model OPTIMIZE; on a clustered table it orders rows by the clustering columns."""
    tagged = statement.traced and not sample_table.setting.clustered
    return StatementEffect("OPTIMIZE", compact_sample(sample_table, name, tagged=tagged))


def _zorder(_statement: Statement, sample_table: SampleTable, name: str) -> StatementEffect:
    return StatementEffect("OPTIMIZE", compact_sample(sample_table, name, tagged=False))


def _purge(statement: Statement, sample_table: SampleTable, name: str) -> StatementEffect:
    return StatementEffect("REORG", compact_sample(sample_table, name, tagged=statement.traced))


def _restate(_statement: Statement, sample_table: SampleTable, _name: str) -> StatementEffect:
    files = (
        sample_table.file(f.path, sample_table.rows[f.path], data_change=False)
        for f in sample_table.files
    )
    return StatementEffect("ROW TRACKING BACKFILL", tuple(files))


def _alter(_statement: Statement, _sample_table: SampleTable, name: str) -> StatementEffect:
    return StatementEffect("ADD COLUMNS", (Metadata(id=name, schema_string=SCHEMA.to_json()),))


def _alter_with_check(
    _statement: Statement, _sample_table: SampleTable, name: str
) -> StatementEffect:
    metadata = Metadata(id=name, schema_string=SCHEMA.to_json())
    return StatementEffect("ADD CONSTRAINT", (metadata,), reads_whole_table=True)


def _drop_columns(_statement: Statement, sample_table: SampleTable, name: str) -> StatementEffect:
    metadata = Metadata(id=name, schema_string=SCHEMA.to_json())
    restated = (_CLUSTERING,) if sample_table.setting.knows_clustering else ()
    return StatementEffect("DROP COLUMNS", (metadata, *restated))


def _cluster_by(_statement: Statement, sample_table: SampleTable, _name: str) -> StatementEffect:
    """Write the clustering domain, and upgrade a protocol without clustering."""
    upgrade = () if sample_table.setting.knows_clustering else (_PROTOCOL,)
    return StatementEffect("CLUSTER BY", (*upgrade, _CLUSTERING))


def _upgrade(_statement: Statement, _sample_table: SampleTable, _name: str) -> StatementEffect:
    return StatementEffect("REORG TABLE UPGRADE UNIFORM", (_PROTOCOL,))


def _create(_statement: Statement, _sample_table: SampleTable, name: str) -> StatementEffect:
    return StatementEffect(
        "CREATE TABLE", (_PROTOCOL, Metadata(id=name, schema_string=SCHEMA.to_json()))
    )


def _stream(statement: Statement, sample_table: SampleTable, name: str) -> StatementEffect:
    application = statement.application or name
    progress = SetTransaction(app_id=application, version=1)
    appended = _insert(statement, sample_table, name).actions
    return StatementEffect(
        "STREAMING UPDATE", (progress, *appended), app_ids=frozenset({application})
    )


def _vacuum(_statement: Statement, _sample_table: SampleTable, _name: str) -> StatementEffect:
    return StatementEffect("VACUUM END", ())


EFFECTS: Mapping[StatementKind, Callable[[Statement, SampleTable, str], StatementEffect]] = {
    StatementKind.INSERT: _insert,
    StatementKind.INSERT_SELECT: _insert_select,
    StatementKind.STREAM: _stream,
    StatementKind.UPDATE: _update,
    StatementKind.DELETE: _delete,
    StatementKind.MERGE: _merge,
    StatementKind.OVERWRITE: _overwrite,
    StatementKind.TRUNCATE: _truncate,
    StatementKind.RESTORE: _restore,
    StatementKind.REPLACE: _replace,
    StatementKind.OPTIMIZE: _optimize,
    StatementKind.ZORDER: _zorder,
    StatementKind.PURGE: _purge,
    StatementKind.RESTATE: _restate,
    StatementKind.UPGRADE: _upgrade,
    StatementKind.ALTER: _alter,
    StatementKind.DROP_COLUMNS: _drop_columns,
    StatementKind.CHECKED_ALTER: _alter_with_check,
    StatementKind.CLUSTER_BY: _cluster_by,
    StatementKind.CREATE: _create,
    StatementKind.VACUUM: _vacuum,
}


def _read(statement: Statement, *, every_match_changes: bool = True) -> ReadPredicate:
    date = None if statement.opens_all else statement.date
    return _rows_read(date, statement.ids, statement.opens_all, every_match_changes)


@lru_cache(maxsize=256)
def _rows_read(
    date: str | None,
    ids: range | None,
    opens_all: bool,
    every_match_changes: bool,
) -> ReadPredicate:
    parts = []
    column = "id % 1000" if opens_all else "id"  # statistics cannot decide remainders
    if date is not None:
        parts.append(f"date = '{date}'")
    if ids is not None:
        parts.append(f"{column} >= {ids[0]} AND {column} <= {ids[-1]}")
    condition = parse_condition(" AND ".join(parts) or "TRUE", SCHEMA)
    return read_predicate(condition, every_match_changes=every_match_changes)


def _images(statement: Statement, sample_table: SampleTable, name: str) -> list[AddFile]:
    """Return the files with the statement's new images."""
    rows = [row for file in sample_table.files for row in sample_table.rows[file.path]]
    images = [row for row in rows if _matches(statement, row)]
    if not sample_table.setting.partitioned:
        return [sample_table.file(f"{name}-image", images)] if images else []
    dates = sorted({date for _, date in images})
    return [
        sample_table.file(f"{name}-image-{date}", [row for row in images if row[1] == date])
        for date in dates
    ]


def _matches(statement: Statement, row: Row) -> bool:
    named = statement.ids is None or row[0] in statement.ids
    return named and statement.date in (None, row[1])


def _path_of(statement: Statement, sample_table: SampleTable) -> str:
    if sample_table.setting.partitioned:
        return statement.date or "d1"
    return "d1" if (statement.id or 1) < 5 else "d2"


def _remove_rows(statement: Statement, sample_table: SampleTable, name: str) -> list[Action]:
    """Remove the statement's rows from their files, by vectors or by rewriting."""
    actions: list[Action] = []
    for file in sample_table.files:
        rows = sample_table.rows[file.path]
        gone = BitMap64(i for i, row in enumerate(rows) if _matches(statement, row))
        left = [row for i, row in enumerate(rows) if i not in gone]
        if not gone:
            continue
        actions.append(build_remove(file))
        if left and sample_table.setting.vectors:
            actions.append(sample_table.mask_rows(file, gone, name))
        elif left:
            actions.append(sample_table.file(f"{name}-rest-{file.path}", left))
    return actions


def compact_sample(sample_table: SampleTable, name: str, *, tagged: bool) -> tuple[Action, ...]:
    """Rewrite both files into one or, partitioned, each into its own.

    Rows keep their order if `tagged`; otherwise they are reordered.
    """
    files = sample_table.files
    bins = [[file] for file in files] if sample_table.setting.partitioned else [files]
    return tuple(
        action
        for chosen in bins
        for action in _rewrite_files(sample_table, chosen, name, tagged=tagged)
    )


def _rewrite_files(
    sample_table: SampleTable, sources: list[AddFile], name: str, *, tagged: bool
) -> list[Action]:
    target = f"{name}-{sources[0].path}"
    removes: list[Action] = []
    rows: list[tuple[Row, int]] = []
    for source in sources:
        info = CompactionInfo(
            target=target, offset=len(rows), row_count=len(sample_table.rows[source.path])
        )
        removes.append(_remove_compacted(source, info if tagged else None))
        rows += zip(sample_table.rows[source.path], sample_table.origins[source.path], strict=True)
    rows = rows if tagged else sorted(rows, reverse=True)
    made = sample_table.file(
        target, [row for row, _ in rows], data_change=False, origins=[origin for _, origin in rows]
    )
    return [*removes, made]


def _remove_compacted(source: AddFile, info: CompactionInfo | None) -> RemoveFile:
    return RemoveFile(
        path=source.path,
        data_change=False,
        partition_values=source.partition_values,
        stats=source.stats,
        tags=info.tags() if info else None,
    )
