"""A condition of row-level concurrency as people read it: evidence, the fix, and what it costs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

HOLDS, FAILS, OPTIONAL, SOME, UNKNOWN = "holds", "fails", "optional", "some fall back", "not known"


@dataclass(frozen=True, slots=True)
class FixCost:
    """What a fix costs. `rewrites_bytes` is 0 where no data is written again.

    `duration_ms` is the median speed of `runs` earlier jobs, None where none tells. Writes that run
    are aborted, streams stop. `protocol` is what the table then asks of clients, None where it stays.
    """

    rewrites_bytes: int = 0
    rewrites_files: int = 0
    duration_ms: int | None = None
    runs: int = 0
    runs_are_own: bool = False
    aborted_jobs: int = 0
    streams: int = 0
    protocol: tuple[int, int] | None = None
    locked_out: tuple[str, ...] = ()
    undo: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionLine:
    """A condition. `raw` is the evidence as the log has it, `evidence` says it in words.

    `affected` of `asked` writes do not meet it, where writes are asked. `job` mends it at a click;
    `statement` is what to plan where the table must be written again; `rewrite` is how the first of
    the writes would be put instead.
    """

    name: str
    state: str
    raw: str = ""
    evidence: str = ""
    fix: str = ""
    job: Mapping[str, Any] | None = None
    statement: str = ""
    rewrite: str = ""
    cost: FixCost | None = None
    cost_text: str = ""
    affected: int = 0
    asked: int = 0
