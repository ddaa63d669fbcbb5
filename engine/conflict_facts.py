"""What a conflict is about: both sides, the files they met at, and the ways out, as plain values.

`engine.errors` raises them, with these names at hand there too.
"""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Remedy:
    """One way to avoid the conflict next time, and why it would have helped."""

    action: str
    reason: str


@dataclass(frozen=True, slots=True)
class ConflictFile:
    """A file both sides met at: which rule saw it, its partition, its rows where known."""

    path: str
    partition_values: dict[str, str | None] = field(default_factory=dict)
    role: str = ""  # "added", "removed", "rewritten": what the winner did to it
    rows: tuple[int, ...] = ()  # physical positions in the file, the first 100
    row_count: int | None = None


@dataclass(frozen=True, slots=True)
class ConflictSide:
    """One of the two transactions. `version` is None for the one that lost."""

    operation: str
    version: int | None = None
    read_version: int | None = None
    predicate: str | None = None
    isolation_level: str | None = None
    txn_id: str | None = None
    user: str | None = None
    engine: str | None = None
    timestamp_ms: int | None = None
    is_blind_append: bool | None = None


@dataclass(frozen=True, slots=True)
class ConflictFacts:
    """A conflict with both sides: everything a person needs to see why the write lost.

    `rule` names the check of `engine.conflicts.checker.CHECKS` that fired.
    """

    table: str
    read_version: int
    attempted_version: int
    rule: str
    subclass: str
    current: ConflictSide
    winner: ConflictSide
    files: tuple[ConflictFile, ...] = ()
    file_count: int = 0
    partitions: tuple[str, ...] = ()
    can_retry: bool = True
    remedies: tuple[Remedy, ...] = ()
    what: str = ""  # the sentence of the message that tells what happened
    row_level: str = ""  # why rows could not tell the two apart, where they were asked

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)
