"""A condition of row-level concurrency for people: evidence, the fix, and its cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

HOLDS, FAILS, OPTIONAL, SOME, UNKNOWN = "holds", "fails", "optional", "some fall back", "not known"


@dataclass(frozen=True, slots=True)
class FixCost:
    """The cost of a fix. `rewrites_bytes` is 0 if no data is rewritten.

    `duration_ms` is estimated by the median speed of `runs` earlier jobs, None without any. Running
    writes are aborted, streams stop. `protocol` is the new requirement of clients, None if it
    stays.
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
    """A condition. `raw` is the evidence in the log, `evidence` the same in words.

    `affected` of `asked` writes do not meet it, for conditions of writes. `job` fixes it at a
    click;
    `statement` is the plan if the table must be rewritten; `rewrite` is another form of the first
    of the
    writes.
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
