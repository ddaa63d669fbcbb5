"""Spark's stages below the steps of an attempt, as recorded by a worker.

A step keeps its longest stages as one list in its row. Spark does not count bytes that Python reads
and writes itself: the engine's data files are in no stage.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from heapq import nlargest
from typing import Any, Self

from lakeui.jobs.models import JobStage

KEPT = 40
"""So many stages of a step are recorded one by one: the longest ones."""
_READS_LINES = frozenset({"infer the schema"})
"""Steps in which Spark counts lines of text as rows, headers included."""
STATUSES = ("complete", "active", "failed", "pending")


@dataclass(frozen=True, slots=True)
class SparkStage:
    """One stage as Spark last ran it; `attempt` counts from 0 as in Spark.

    `rows_read` is None if Spark's count is not of rows.
    """

    stage_id: int
    attempt: int = 0
    status: str = "complete"
    started_ms: int | None = None
    ended_ms: int | None = None
    tasks: int = 0
    done: int = 0
    failed: int = 0
    core_ms: int = 0
    bytes_read: int = 0
    rows_read: int | None = 0
    shuffle_read: int = 0
    shuffle_written: int = 0
    spilled: int = 0

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Restore a stage stored by `to_row`, of this version or another."""
        return cls(**{name: row[name] for name in _NAMES if name in row})

    def to_row(self) -> dict[str, Any]:
        """Return the stage for storage, without usual values."""
        return {
            name: value
            for name, value in asdict(self).items()
            if name == "stage_id" or value != _USUAL[name]
        }

    @property
    def started_at(self) -> datetime | None:
        return None if self.started_ms is None else _moment(self.started_ms)

    @property
    def ended_at(self) -> datetime | None:
        return None if self.ended_ms is None else _moment(self.ended_ms)

    @property
    def took_ms(self) -> int | None:
        """Null until it has ended."""
        if self.started_ms is None or self.ended_ms is None:
            return None
        return max(self.ended_ms - self.started_ms, 0)


_USUAL = {field.name: field.default for field in fields(SparkStage)}
_NAMES = tuple(_USUAL)


def longest(stages: Iterable[SparkStage]) -> list[SparkStage]:
    """Return the stages to keep, in order of their start."""
    kept = nlargest(KEPT, stages, key=lambda stage: (stage.core_ms, -stage.stage_id))
    return sorted(kept, key=_place)


def stages_in(step: JobStage) -> Sequence[SparkStage]:
    """Return the recorded stages of a step."""
    return sorted(_stages_in(step), key=_place)


def _stages_in(step: JobStage) -> Iterator[SparkStage]:
    rows = step.spark_stages if isinstance(step.spark_stages, list) else []
    for row in rows:
        if isinstance(row, dict) and isinstance(row.get("stage_id"), int):
            yield _correct_row_count(SparkStage.from_row(row), step)


def _correct_row_count(stage: SparkStage, step: JobStage) -> SparkStage:
    """Drop a row count without bytes: it counts files that Spark passed to Python."""
    are_others = step.name in _READS_LINES or not stage.bytes_read
    return replace(stage, rows_read=None) if stage.rows_read and are_others else stage


def _place(stage: SparkStage) -> tuple[bool, int, int]:
    return stage.started_ms is None, stage.started_ms or 0, stage.stage_id


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)
