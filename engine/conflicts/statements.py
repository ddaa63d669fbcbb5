"""What a statement reads and stages on the imaginary table, as current or as winner."""

from collections.abc import Callable
from dataclasses import dataclass

from pyroaring import BitMap64

from engine.actions.codec import Action
from engine.actions.commit_info import CommitInfo
from engine.actions.compaction import CompactionInfo
from engine.actions.files import AddFile, RemoveFile
from engine.actions.table import Metadata, Protocol, SetTransaction
from engine.conflicts.candidates import matching_reads
from engine.conflicts.isolation import level_used
from engine.conflicts.reads import read_predicate
from engine.conflicts.rebase import taking
from engine.conflicts.sketch import SCHEMA, Row, Setting, Sketch
from engine.conflicts.transaction_info import (
    CurrentTransaction,
    ReadPredicate,
    RowScope,
    WinningCommit,
    adds_files_only,
)
from engine.expressions.parse import parse_condition

READ_VERSION, WINNING_VERSION = 1, 2


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement by its kind, one of `KINDS`, and the row and partition its condition names."""

    kind: str
    id: int | None = None
    date: str | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """What a statement comes to: its operation, its reads and the actions it stages."""

    operation: str
    actions: tuple[Action, ...]
    reads: tuple[ReadPredicate, ...] = ()
    app_ids: frozenset[str] = frozenset()
    obstacle: str | None = None


def as_current(statement: Statement, sketch: Sketch, name: str = "current") -> CurrentTransaction:
    """The statement as the transaction that tries to commit."""
    effect, setting = KINDS[statement.kind](statement, sketch, name), sketch.setting
    base = setting.scope
    return CurrentTransaction(
        table="t",
        read_version=-1 if statement.kind == "create" else READ_VERSION,
        schema=SCHEMA,
        level=level_used(setting.level, effect.actions, effect.operation),
        operation=effect.operation,
        partition_columns=setting.partition_columns,
        reads=effect.reads,
        read_files=_files_read(effect.reads, setting, sketch),
        read_app_ids=effect.app_ids,
        actions=effect.actions,
        rows=RowScope(base.obstacle or effect.obstacle, base.traces_moves),
    )


def as_winner(
    statement: Statement, sketch: Sketch, version: int = WINNING_VERSION, name: str = "winner"
) -> WinningCommit:
    """The statement as a commit that landed."""
    effect = KINDS[statement.kind](statement, sketch, name)
    blind = adds_files_only(effect.actions) and not effect.reads
    info = CommitInfo(operation=effect.operation, is_blind_append=blind, read_version=READ_VERSION)
    return WinningCommit(version=version, actions=effect.actions, info=info)


def _files_read(
    reads: tuple[ReadPredicate, ...], setting: Setting, sketch: Sketch
) -> frozenset[str]:
    probe = CurrentTransaction(
        table="t",
        read_version=READ_VERSION,
        schema=SCHEMA,
        level=setting.level,
        operation="",
        partition_columns=setting.partition_columns,
        reads=reads,
    )
    return frozenset(file.path for file in sketch.files if matching_reads(probe, file))


def _insert(statement: Statement, sketch: Sketch, name: str) -> Effect:
    row = _new_row(statement)
    beside = (0 if row[0] < 5 else 9, row[1])  # statistics alone must not tell the rows apart
    return Effect("WRITE", (sketch.file(f"{name}-new", [row, beside]),))


def _insert_select(statement: Statement, sketch: Sketch, name: str) -> Effect:
    return Effect("WRITE", _insert(statement, sketch, name).actions, (read_predicate(None),))


def _delete(statement: Statement, sketch: Sketch, name: str) -> Effect:
    return Effect("DELETE", tuple(_taken(statement, sketch, name)), (_read(statement),))


def _update(statement: Statement, sketch: Sketch, name: str) -> Effect:
    """Writes another column: the new images keep their id."""
    image = sketch.file(f"{name}-image", [_new_row(statement)])
    return Effect("UPDATE", (*_taken(statement, sketch, name), image), (_read(statement),))


def _merge(statement: Statement, sketch: Sketch, name: str) -> Effect:
    """A join on partition columns names no literal: every file may join."""
    image = sketch.file(f"{name}-image", [_new_row(statement)])
    return Effect("MERGE", (*_taken(statement, sketch, name), image), (read_predicate(None),))


def _delete_by_subquery(statement: Statement, sketch: Sketch, name: str) -> Effect:
    actions = tuple(_taken(statement, sketch, name))
    return Effect("DELETE", actions, (read_predicate(None),), obstacle="a subquery")


def _optimize(_statement: Statement, sketch: Sketch, name: str) -> Effect:
    return Effect("OPTIMIZE", _compacted(sketch, name, sort=False))


def _zorder(_statement: Statement, sketch: Sketch, name: str) -> Effect:
    return Effect("OPTIMIZE", _compacted(sketch, name, sort=True))


def _purge(_statement: Statement, sketch: Sketch, name: str) -> Effect:
    return Effect("REORG", _compacted(sketch, name, sort=False))


def _alter(_statement: Statement, _sketch: Sketch, name: str) -> Effect:
    return Effect("ADD COLUMNS", (Metadata(id=name, schema_string=SCHEMA.to_json()),))


def _upgrade(_statement: Statement, _sketch: Sketch, _name: str) -> Effect:
    protocol = Protocol(min_reader_version=3, min_writer_version=7)
    return Effect("REORG TABLE UPGRADE UNIFORM", (protocol,))


def _create(_statement: Statement, _sketch: Sketch, name: str) -> Effect:
    protocol = Protocol(min_reader_version=3, min_writer_version=7)
    return Effect("CREATE TABLE", (protocol, Metadata(id=name, schema_string=SCHEMA.to_json())))


def _stream(statement: Statement, sketch: Sketch, name: str) -> Effect:
    progress = SetTransaction(app_id="query", version=1)
    appended = _insert(statement, sketch, name).actions
    return Effect("STREAMING UPDATE", (progress, *appended), app_ids=frozenset({"query"}))


KINDS: dict[str, Callable[[Statement, Sketch, str], Effect]] = {
    "insert": _insert,
    "insert select": _insert_select,
    "delete": _delete,
    "update": _update,
    "merge": _merge,
    "delete by subquery": _delete_by_subquery,
    "optimize": _optimize,
    "optimize zorder by": _zorder,
    "reorg purge": _purge,
    "reorg upgrade": _upgrade,
    "alter": _alter,
    "stream": _stream,
    "create": _create,
}


def _read(statement: Statement) -> ReadPredicate:
    parts = []
    if statement.date is not None:
        parts.append(f"date = '{statement.date}'")
    if statement.id is not None:
        parts.append(f"id = {statement.id}")
    condition = parse_condition(" AND ".join(parts) or "TRUE", SCHEMA)
    return read_predicate(condition, every_match_changes=True)


def _new_row(statement: Statement) -> Row:
    return statement.id or 1, statement.date or "d1"


def _matches(statement: Statement, row: Row) -> bool:
    return statement.id in (None, row[0]) and statement.date in (None, row[1])


def _taken(statement: Statement, sketch: Sketch, name: str) -> list[Action]:
    """The rows of the statement taken out of their files, by vectors or by rewriting."""
    actions: list[Action] = []
    for file in sketch.files:
        rows = sketch.rows[file.path]
        gone = BitMap64(i for i, row in enumerate(rows) if _matches(statement, row))
        left = [row for i, row in enumerate(rows) if i not in gone]
        if not gone:
            continue
        actions.append(taking(file))
        if left and sketch.setting.vectors:
            actions.append(sketch.masked(file, gone, name))
        elif left:
            actions.append(sketch.file(f"{name}-rest-{file.path}", left))
    return actions


def _compacted(sketch: Sketch, name: str, *, sort: bool) -> tuple[Action, ...]:
    """Both files rewritten into one, or, partitioned, each into one of its own."""
    files = sketch.files
    bins = [[file] for file in files] if sketch.setting.partitioned else [files]
    return tuple(action for each in bins for action in _rewritten(sketch, each, name, sort=sort))


def _rewritten(sketch: Sketch, sources: list[AddFile], name: str, *, sort: bool) -> list[Action]:
    target = f"{name}-{sources[0].path}"
    removes: list[Action] = []
    rows: list[tuple[Row, int]] = []
    for source in sources:
        info = CompactionInfo(
            target=target, offset=len(rows), row_count=len(sketch.rows[source.path])
        )
        removes.append(_moved(source, None if sort else info))
        rows += zip(sketch.rows[source.path], sketch.origins[source.path], strict=True)
    rows = sorted(rows, reverse=True) if sort else rows
    made = sketch.file(
        target, [row for row, _ in rows], data_change=False, origins=[origin for _, origin in rows]
    )
    return [*removes, made]


def _moved(source: AddFile, info: CompactionInfo | None) -> RemoveFile:
    return RemoveFile(
        path=source.path,
        data_change=False,
        partition_values=source.partition_values,
        stats=source.stats,
        tags=info.tags() if info else None,
    )
