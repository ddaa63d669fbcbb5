"""What an operation did, or would do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from engine.actions.files import AddFile
from engine.commands.command import Command
from engine.conflicts.row_counts import live_rows


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file that an operation would touch, and why; its live rows where the log says."""

    path: str
    size_bytes: int
    reason: str
    rows: int | None = None

    @classmethod
    def from_add(cls, add: AddFile, reason: str) -> "PlannedFile":
        """A live file."""
        return cls(add.path, add.size, reason, live_rows(add))


@dataclass(frozen=True, slots=True)
class Plan:
    """What an operation would do, found without doing it.

    `files` holds the first `LISTED_FILES`; the counts are of all. `rows` are those that would change
    where they were counted (`is_counted`), else the live ones in the files, None where the log does
    not say. `running_writers` would overlap with it. `facts` are JSON-ready.
    """

    summary: str
    files: tuple[PlannedFile, ...] = ()
    file_count: int = 0
    size_bytes: int = 0
    rows: int | None = None
    is_counted: bool = False
    running_writers: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "summary": self.summary,
            "file_count": self.file_count,
            "size_bytes": self.size_bytes,
            "rows": self.rows,
            "rows_are_counted": self.is_counted,
            "files": [
                {
                    "path": file.path,
                    "size_bytes": file.size_bytes,
                    "rows": file.rows,
                    "reason": file.reason,
                }
                for file in self.files
            ],
            "running_writers": list(self.running_writers),
            **self.facts,
        }


LISTED_FILES = 1000


def plan_of(summary: str, files: list[PlannedFile], **facts: object) -> Plan:
    """A plan over files: all counted, the first listed."""
    size = sum(file.size_bytes for file in files)
    counts = [file.rows for file in files]
    rows = None if None in counts else sum(count or 0 for count in counts)
    return Plan(summary, tuple(files[:LISTED_FILES]), len(files), size, rows, facts=facts)


@dataclass(frozen=True, slots=True)
class FollowUp:
    """What a write had done after its commit, which stands whatever became of it.

    Attributes:
        command: what was to be done; None where even that could not be found out.
        result: how it ended, None where it is left to another run, and where it failed.
        error_code: of what went wrong, "" where nothing did.
        error: what went wrong.
    """

    command: Command | None
    result: "OperationResult | None" = None
    error_code: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class OperationResult:
    """How an operation ended.

    Attributes:
        version: the last version it committed; None if nothing changed or it was a dry run.
        metrics: `operationMetrics` under delta-spark's names, numbers where they are numbers.
        resolved: the conflicts that were resolved at row level.
        attempts: how often the log was tried, over every commit and every retry; a retry counts its
            conflict as one.
        plan: what a dry run found.
        message: one sentence for people, where there is something to say.
        recognised: the commit had landed in an earlier run of the same job.
        versions: every version it committed, in order.
        follow_up: what came after it, where its table or the command requested something.
    """

    version: int | None = None
    metrics: Mapping[str, int | str] = field(default_factory=dict)
    resolved: tuple[Any, ...] = ()
    attempts: int = 0
    plan: Plan | None = None
    message: str = ""
    recognised: bool = False
    versions: tuple[int, ...] = ()
    follow_up: FollowUp | None = None

    @property
    def absorbed(self) -> tuple[Any, ...]:
        """Deprecated, removed in 0.3: the former name of `resolved`."""
        return self.resolved

    def add_follow_up(self, follow_up: FollowUp) -> "OperationResult":
        """The result with the follow-up of its write."""
        return replace(self, follow_up=follow_up)

    def replace_message(self, message: str) -> "OperationResult":
        """The result with a sentence for people."""
        return replace(self, message=message)


def size_metrics(added: Sequence[AddFile], removed: Sequence[AddFile]) -> dict[str, int | str]:
    """What delta-spark reports of files that were rewritten."""
    sizes = sorted(add.size for add in added)

    def percentile(share: float) -> int:
        return sizes[min(len(sizes) - 1, int(share * len(sizes)))] if sizes else 0

    return {
        "numAddedFiles": len(added),
        "numRemovedFiles": len(removed),
        "numAddedBytes": sum(sizes),
        "numRemovedBytes": sum(add.size for add in removed),
        "minFileSize": percentile(0),
        "p25FileSize": percentile(0.25),
        "p50FileSize": percentile(0.5),
        "p75FileSize": percentile(0.75),
        "maxFileSize": percentile(1),
        "numDeletionVectorsRemoved": sum(1 for add in removed if add.deletion_vector),
    }
