"""What an operation did, or would do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from engine.actions.files import AddFile


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file that an operation would touch, and why."""

    path: str
    size_bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What an operation would do, found without doing it.

    `files` holds the first `LISTED_FILES`; the counts are of all. `facts` are JSON-ready.
    """

    summary: str
    files: tuple[PlannedFile, ...] = ()
    file_count: int = 0
    size_bytes: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "summary": self.summary,
            "file_count": self.file_count,
            "size_bytes": self.size_bytes,
            "files": [
                {"path": each.path, "size_bytes": each.size_bytes, "reason": each.reason}
                for each in self.files
            ],
            **self.facts,
        }


LISTED_FILES = 1000


def plan_of(summary: str, files: list[PlannedFile], **facts: object) -> Plan:
    """A plan over files: all counted, the first listed."""
    size = sum(each.size_bytes for each in files)
    return Plan(summary, tuple(files[:LISTED_FILES]), len(files), size, facts)


@dataclass(frozen=True, slots=True)
class OperationResult:
    """How an operation ended.

    Attributes:
        version: the last version it committed; None if nothing changed or it was a dry run.
        metrics: `operationMetrics` under delta-spark's names, numbers where they are numbers.
        absorbed: conflicts that were resolved by rows on the way.
        attempts: how often the log was tried, over every commit and every retry.
        plan: what a dry run found.
        message: one sentence for people, where there is something to say.
        recognised: the commit had landed in an earlier run of the same job.
        versions: every version it committed, in order.
    """

    version: int | None = None
    metrics: Mapping[str, int | str] = field(default_factory=dict)
    absorbed: tuple[Any, ...] = ()
    attempts: int = 0
    plan: Plan | None = None
    message: str = ""
    recognised: bool = False
    versions: tuple[int, ...] = ()

    def saying(self, message: str) -> "OperationResult":
        """The same with a sentence for people."""
        return replace(self, message=message)


def size_metrics(added: Sequence[AddFile], removed: Sequence[AddFile]) -> dict[str, int | str]:
    """What delta-spark reports of files that were rewritten."""
    sizes = sorted(add.size for add in added)

    def at(share: float) -> int:
        return sizes[min(len(sizes) - 1, int(share * len(sizes)))] if sizes else 0

    return {
        "numAddedFiles": len(added),
        "numRemovedFiles": len(removed),
        "numAddedBytes": sum(sizes),
        "numRemovedBytes": sum(add.size for add in removed),
        "minFileSize": at(0),
        "p25FileSize": at(0.25),
        "p50FileSize": at(0.5),
        "p75FileSize": at(0.75),
        "maxFileSize": at(1),
        "numDeletionVectorsRemoved": sum(1 for add in removed if add.deletion_vector),
    }
