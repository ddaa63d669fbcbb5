"""Actions that describe the log itself: the author of a commit, and the parts of a checkpoint.

Protocol: Commit Provenance Information, V2 Checkpoint Metadata, Sidecar File.
"""

from typing import Any

import msgspec

from engine.actions.integers import Long, Size

VACUUM_START, VACUUM_END = "VACUUM START", "VACUUM END"
"""The operations of a VACUUM's two commits, before and after it deletes files."""


class CommitInfo(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A writer's description of its commit. Any field may be absent: other engines omit many.

    `version` is never written; readers fill it in. `timestamp` and `in_commit_timestamp` in ms.
    `operation_parameters` values are JSON text, `operation_metrics` strings.
    `extra` keeps unknown fields of other engines.
    """

    version: Long | None = None
    in_commit_timestamp: Long | None = None
    timestamp: Long | None = None
    user_id: str | None = None
    user_name: str | None = None
    operation: str | None = None
    operation_parameters: dict[str, Any] | None = None
    operation_metrics: dict[str, Any] | None = None
    read_version: Long | None = None
    isolation_level: str | None = None
    is_blind_append: bool | None = None
    user_metadata: str | None = None
    tags: dict[str, Any] | None = None
    engine_info: str | None = None
    txn_id: str | None = None
    extra: dict[str, Any] = {}


class CheckpointMetadata(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True
):
    """The version a v2 checkpoint describes."""

    version: Long
    tags: dict[str, str | None] | None = None


class Sidecar(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A file of a v2 checkpoint's `add` and `remove` actions; `modification_time` in ms."""

    path: str
    size_in_bytes: Size
    modification_time: Long
    tags: dict[str, str | None] | None = None


class UnknownAction(msgspec.Struct, frozen=True, kw_only=True):
    """An action of a name this engine does not know, kept as its JSON text.

    In a line with several it is the first.
    Readers skip these by protocol: changes they must understand have a feature.
    """

    name: str
    json: str
