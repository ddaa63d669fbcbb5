"""Rows read for people: limited in number, time and memory, and cancelled on request.

Workers of the queue `reads` answer in processes of their own, so that a long or large read delays
nothing else.
"""

from datetime import datetime, timedelta
from typing import Self
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.db.models import Model, Q, QuerySet
from django.utils import timezone
from kombu.exceptions import KombuError, OperationalError

from engine.errors import EngineError, RequestError
from engine.words import count_noun
from lakeui.catalog.access import Person, lock_person, tables_where, visible_tables
from lakeui.catalog.models import RowRead, Table
from lakeui.celery import app
from lakeui.task_names import READS_QUEUE

_QUEUED = timedelta(seconds=30)
"""Longest wait of a read for a worker."""
PATIENCE = _QUEUED + timedelta(seconds=settings.READ_SECONDS)
"""Age at which an unanswered read counts as abandoned."""


class TooManyReadsError(RequestError, code="LAKE_TOO_MANY_READS"):
    """A person has as many reads at work as one person may."""

    def __init__(self, count: int) -> None:
        super().__init__(
            f"You already have {count_noun(count, 'read')} in progress, which is the limit.",
            "Wait until a read ends, or cancel one on the Monitoring page.",
        )


class ReadStoppedError(EngineError, code="LAKE_READ_STOPPED", sqlstate="54000"):
    """A read took more time or memory than a read for a page may."""

    def __init__(self, limit: str) -> None:
        super().__init__(
            f"The read was stopped at its limit of {limit}.",
            "Narrow the condition (by partition columns, if the table has them), or request "
            "fewer columns.",
        )

    @classmethod
    def time_limit(cls, seconds: int) -> Self:
        """Name the time that a read may take."""
        return cls(f"{seconds:,} s")

    @classmethod
    def memory_limit(cls, size: int) -> Self:
        """Name the memory, in bytes, that a read may take."""
        return cls(f"{size // 1024**2:,} MiB of memory")


class ReadLostError(EngineError, code="LAKE_READ_LOST", sqlstate="57014"):
    """No worker answered a read in time."""

    def __init__(self) -> None:
        super().__init__(
            "No worker answered in time.",
            "Request it again. If that happens often, more workers for reads are needed.",
        )


class ReadCancelledError(EngineError, code="LAKE_READ_CANCELLED", sqlstate="57014"):
    """A person cancelled the read."""

    def __init__(self) -> None:
        super().__init__("The read was cancelled.", "Request it again.")


def check_room(by: User | None) -> None:
    """Refuse a person with the largest permitted number of reads in progress.

    Call it inside the transaction that records the read: it locks the person's row.

    Raises:
        TooManyReadsError: `READS_PER_PERSON` reads wait or run.
    """
    if by is None:
        return
    lock_person(by)
    count = RowRead.objects.filter(requested_by=by).count()
    if count >= settings.READS_PER_PERSON:
        raise TooManyReadsError(count)


def note_read(
    answer: Model, asked_at: datetime, table: Table, subject: str, by: User | None
) -> RowRead:
    """Record a read that a person waits for; `subject` is its name on Monitoring."""
    return RowRead.objects.create(
        table=table,
        subject=subject,
        requested_by=by,
        asked_at=asked_at,
        content_type=ContentType.objects.get_for_model(answer),
        object_id=answer.pk,
    )


def send_read(read: RowRead, task: str, answer: Model, earlier: Model | None) -> None:
    """Send a recorded read to a worker; on failure restore the earlier answer.

    Otherwise a later request would wait for an answer that no worker gives.

    Raises:
        OperationalError, OSError: the broker cannot be reached.
    """
    try:
        app.send_task(
            task,
            [answer.pk],
            task_id=str(read.pk),
            queue=READS_QUEUE,
            expires=_QUEUED.seconds,
            time_limit=settings.READ_SECONDS,
        )
    except (OperationalError, OSError):
        read.delete()
        if earlier is None:
            answer.delete()
        else:
            earlier.save()
        raise


def live_reads() -> QuerySet[RowRead]:
    """Return the reads that wait or run, without those that no worker answers any more."""
    return RowRead.objects.exclude(_is_lost())


def end_lost_reads() -> None:
    """Answer the reads that no worker took in time, or whose worker died with its machine.

    Call it outside the transaction that records a read, before looking for an earlier request.
    """
    for read_id in RowRead.objects.filter(_is_lost()).values_list("pk", flat=True):
        stop_read(read_id, ReadLostError())


def list_reads(reader: Person) -> QuerySet[RowRead]:
    """List the reads of tables that a person may see, the oldest first."""
    reads = live_reads().filter(table__in=visible_tables(reader))
    return reads.select_related("table", "requested_by")


def filter_cancellable(reads: QuerySet[RowRead], reader: Person) -> QuerySet[RowRead]:
    """Return the person's own reads, and the reads of tables that they may maintain."""
    return reads.filter(Q(requested_by=reader.pk) | Q(table__in=tables_where(reader, "maintain")))


def cancel_read(read: RowRead) -> None:
    """Cancel a read: write the error into its answer and end its process."""
    stop_read(read.pk, ReadCancelledError())
    try:
        app.control.revoke(str(read.pk), terminate=True, signal="SIGKILL")
    except (OSError, OperationalError, KombuError):
        return  # it ends with its time


@transaction.atomic
def stop_read(read_id: UUID, error: EngineError) -> None:
    """Write an error into the answer of a read and delete the read, both or neither."""
    read = RowRead.objects.filter(pk=read_id).first()
    if read is None:
        return
    model = read.content_type.model_class()
    if model is not None:
        # a later request for the same answer has its own read
        model._default_manager.filter(
            pk=read.object_id, asked_at=read.asked_at, read_at=None
        ).update(read_at=timezone.now(), error_code=error.code, error_message=str(error))
    read.delete()


def _is_lost() -> Q:
    now = timezone.now()
    return Q(asked_at__lt=now - PATIENCE) | Q(began_at=None, asked_at__lt=now - _QUEUED)
