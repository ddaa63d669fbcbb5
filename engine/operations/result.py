"""The result of an operation, or the plan of a dry run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from engine.actions.files import AddFile
from engine.commands.command import Command
from engine.conflicts.decide.row_access import live_rows


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file an operation would touch, and the reason; its live rows if the log has the count."""

    path: str
    size_bytes: int
    reason: str
    rows: int | None = None

    @classmethod
    def from_add(cls, add: AddFile, reason: str) -> "PlannedFile":
        """Build the entry of a live file."""
        return cls(add.path, add.size, reason, live_rows(add))


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of an operation, computed without running it.

    `files` holds the first `LISTED_FILES`; the counts cover all. `rows` are the changed rows if
    they were counted (`is_counted`), else the files' live rows, None if the log has no counts.
    `running_writers` would overlap with the operation. `facts` are JSON-ready.
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
        """Return the fields as JSON-ready values."""
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
    """Build a plan over files: all counted, the first ones listed."""
    size = sum(file.size_bytes for file in files)
    counts = [file.rows for file in files]
    rows = None if None in counts else sum(count or 0 for count in counts)
    return Plan(summary, tuple(files[:LISTED_FILES]), len(files), size, rows, facts=facts)


@dataclass(frozen=True, slots=True)
class FollowUp:
    """The operation due after a write's commit; its failure does not affect the commit.

    Attributes:
        command: the operation; None if determining it failed.
        result: its result; None if it is left to another run, or failed.
        error_code: the code of the error, "" for none.
        error: the error.
    """

    command: Command | None
    result: "OperationResult | None" = None
    error_code: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class OperationResult:
    """The result of an operation.

    Attributes:
        version: the last committed version; None for a dry run or without changes.
        metrics: `operationMetrics` under delta-spark's names, with numbers as numbers.
        resolved: the conflicts resolved at row level.
        attempts: the number of attempts to write the log, over all commits and retries; a retry
            counts its conflict as one.
        plan: the plan of a dry run.
        message: a sentence for people, "" for none.
        recognized: the commit had landed in an earlier run of the same job.
        versions: all committed versions, in order.
        follow_up: the operation run after it, if the table or the command requested one.
    """

    version: int | None = None
    metrics: Mapping[str, int | str] = field(default_factory=dict)
    resolved: tuple[Any, ...] = ()
    attempts: int = 0
    plan: Plan | None = None
    message: str = ""
    recognized: bool = False
    versions: tuple[int, ...] = ()
    follow_up: FollowUp | None = None

    def add_follow_up(self, follow_up: FollowUp) -> "OperationResult":
        """Return the result with the follow-up of its write."""
        return replace(self, follow_up=follow_up)

    def replace_message(self, message: str) -> "OperationResult":
        """Return the result with another message."""
        return replace(self, message=message)


def size_metrics(added: Sequence[AddFile], removed: Sequence[AddFile]) -> dict[str, int | str]:
    """Return delta-spark's metrics of rewritten files."""
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
