"""The `commitInfo` of a commit (SEMANTICS: commitInfo), in delta-spark's names."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.actions.commit_info import CommitInfo
from engine.conflicts.transaction_info import CurrentTransaction

ENGINE_INFO = "lakeui/0.1"


@dataclass(frozen=True, slots=True)
class Provenance:
    """What the person or job behind a commit says of it. `metrics` are numbers or text.

    `even_if_empty` has the commit written though nothing is staged (VACUUM START and END).
    """

    operation: str
    txn_id: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    user_metadata: str | None = None
    user_name: str | None = None
    even_if_empty: bool = False


def commit_info(
    provenance: Provenance,
    current: CurrentTransaction,
    timestamp_ms: int,
    in_commit_timestamp_ms: int | None,
) -> CommitInfo:
    """The action. `readVersion` is the version that was read, never rebased; absent at creation."""
    return CommitInfo(
        in_commit_timestamp=in_commit_timestamp_ms,
        timestamp=timestamp_ms,
        operation=provenance.operation,
        operation_parameters={
            name: _parameter(value) for name, value in provenance.parameters.items()
        },
        operation_metrics={name: _metric(value) for name, value in provenance.metrics.items()},
        read_version=current.read_version if current.read_version >= 0 else None,
        isolation_level=str(current.level),
        is_blind_append=current.is_blind_append,
        user_name=provenance.user_name,
        user_metadata=provenance.user_metadata,
        engine_info=ENGINE_INFO,
        txn_id=provenance.txn_id,
    )


def _parameter(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Lists and maps are text that holds JSON, as delta-spark writes them."""
    if isinstance(value, Mapping):
        return json.dumps(dict(value), ensure_ascii=False)
    if isinstance(value, list | tuple | set | frozenset):
        return json.dumps(list(value), ensure_ascii=False)
    return value


def _metric(value: Any) -> str:  # noqa: ANN401 - a number, or text already
    return str(value).lower() if isinstance(value, bool) else str(value)
