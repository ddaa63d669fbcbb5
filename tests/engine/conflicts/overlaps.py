"""Both sides of a conflict from short descriptions, without a table."""

from typing import Any

import msgspec

from engine.actions.codec import Action
from engine.actions.commit_info import CommitInfo
from engine.actions.files import AddFile, DeletionVectorDescriptor, RemoveFile
from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.reads import read_predicate
from engine.conflicts.transaction_info import CurrentTransaction, ReadPredicate, WinningCommit
from engine.expressions.parse import parse_condition
from engine.schema.types import INTEGER, STRING, StructField, StructType

SCHEMA = StructType((StructField("part", STRING), StructField("x", INTEGER)))


def add(path: str, part: str | None = "a", *, low: int | None = None, high: int = 0, **rest: Any):
    stats = None
    if low is not None:
        bounds = {"minValues": {"x": low}, "maxValues": {"x": high}, "nullCount": {"x": 0}}
        stats = msgspec.json.encode({"numRecords": 10, **bounds}).decode()
    return AddFile(
        path=path,
        partition_values={"part": part},
        size=1,
        modification_time=1,
        stats=stats,
        **{"data_change": True, **rest},
    )


def remove(path: str, **rest: Any) -> RemoveFile:
    return RemoveFile(path=path, **{"data_change": True, **rest})


def vector(text: str, cardinality: int = 1) -> DeletionVectorDescriptor:
    return DeletionVectorDescriptor("u", text, 10, cardinality)


def where(condition: str, **rest: Any) -> ReadPredicate:
    tree = parse_condition(condition, SCHEMA) if condition else None
    return read_predicate(tree, **rest)


def current(
    *actions: Action, level: str = "Serializable", reads: tuple[str, ...] = (), **rest: Any
) -> CurrentTransaction:
    values = {
        "table": "orders",
        "read_version": 5,
        "schema": SCHEMA,
        "level": IsolationLevel(level),
        "operation": "UPDATE",
        "partition_columns": ("part",),
        "reads": tuple(where(read) for read in reads),
        "actions": actions,
    }
    return CurrentTransaction(**(values | rest))


def winner(
    *actions: Action,
    version: int = 6,
    blind: bool | None = None,
    read: int | None = None,
    operation: str = "DELETE",
) -> WinningCommit:
    info = CommitInfo(operation=operation, is_blind_append=blind, read_version=read)
    return WinningCommit(version=version, actions=actions, info=info, timestamp_ms=1)
