"""Commit provenance: author, operation and metrics (protocol: Commit Provenance Information)."""

from typing import Any

import msgspec

from engine.actions.integers import Long

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
