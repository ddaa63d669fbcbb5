"""A job's log by step: each line under the step that wrote it, else the one running then."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lakeui.jobs.models import JobEvent
from lakeui.jobs.timeline import JobTimeline, PartKind
from lakeui.pages.jobs.gantt import anchor_of, label_of_part

Key = tuple[int, int | None]
_QUEUE: Key = (0, None)


@dataclass(frozen=True, slots=True)
class LogGroup:
    """Consecutive lines. `anchor` is empty except in the first group of a step."""

    title: str
    anchor: str
    events: list[JobEvent] = field(default_factory=list)


def log_groups(events: Sequence[JobEvent], timeline: JobTimeline) -> list[LogGroup]:
    """Group the lines in order."""
    steps = _Steps(timeline)
    groups: list[LogGroup] = []
    last: Key | None = None
    seen: set[Key] = set()
    for event in events:
        key = steps.key_of(event)
        if key != last:
            anchor = "" if key in seen else anchor_of(*key)
            groups.append(LogGroup(steps.title_of(key), anchor))
            seen.add(key)
            last = key
        groups[-1].events.append(event)
    return groups


class _Steps:
    """The steps of a job by when they began."""

    def __init__(self, timeline: JobTimeline) -> None:
        self._titles: dict[Key, str] = {_QUEUE: "Queue"}
        starts: list[tuple[datetime, Key]] = []
        several = len(timeline.attempts) > 1
        for span in timeline.attempts:
            number = span.attempt.number
            head = f"Attempt {number}"
            self._titles[number, None] = head
            starts.append((span.started_at, (number, None)))
            for part in span.parts:
                if part.kind != PartKind.STEP or part.stage is None:
                    continue
                label = label_of_part(part, span.attempt.read_version)
                self._titles[number, part.stage.place] = f"{head}: {label}" if several else label
                starts.append((part.started_at, (number, part.stage.place)))
        starts.sort(key=lambda start: start[0])
        self._moments = [moment for moment, _ in starts]
        self._keys = [key for _, key in starts]

    def key_of(self, event: JobEvent) -> Key:
        """Return the line's own step, else the latest step that had begun."""
        data = event.data if isinstance(event.data, dict) else {}
        attempt, step = data.get("attempt"), data.get("step")
        if isinstance(attempt, int) and isinstance(step, int) and (attempt, step) in self._titles:
            return attempt, step
        place = bisect_right(self._moments, event.at)
        return self._keys[place - 1] if place else _QUEUE

    def title_of(self, key: Key) -> str:
        return self._titles[key]
