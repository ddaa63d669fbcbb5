"""The speed of rewrites by jobs here, from recorded attempts: the basis of expected durations."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from django.db.models import QuerySet

from lakeui.catalog.models import Table
from lakeui.jobs.models import JobAttempt

MAX_RUNS = 50
_ENOUGH_BYTES = 64 * 1024  # smaller jobs measure startup, not writing


@dataclass(frozen=True, slots=True)
class WriteThroughput:
    """Bytes written in a second, the median of `runs`; `is_own`: they were runs on this table."""

    bytes_per_second: float
    runs: int
    is_own: bool

    def duration_ms(self, size_bytes: int) -> int:
        """Return the expected duration of writing this many bytes."""
        return round(size_bytes / self.bytes_per_second * 1000)


def throughput_of(table: Table) -> WriteThroughput | None:
    """Return the speed of the latest runs on the table, else on any; None without data."""
    ended = JobAttempt.objects.filter(
        outcome=JobAttempt.Outcome.COMMITTED, bytes_written__gte=_ENOUGH_BYTES
    )
    own = _rates(ended.filter(job__table=table))
    rates = own or _rates(ended)
    return WriteThroughput(median(rates), len(rates), bool(own)) if rates else None


def _rates(attempts: QuerySet[JobAttempt]) -> list[float]:
    rows: Iterable[tuple[datetime, datetime | None, int]] = attempts.order_by("-pk").values_list(
        "started_at", "finished_at", "bytes_written"
    )[:MAX_RUNS]
    spans = ((size, (end - start).total_seconds()) for start, end, size in rows if end is not None)
    return [size / seconds for size, seconds in spans if seconds > 0]
