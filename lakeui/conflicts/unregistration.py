"""Unregistering a table. Its files and its log stay as they are; its records here are deleted."""

from dataclasses import dataclass

from auditlog.context import disable_auditlog
from auditlog.models import LogEntry
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db import transaction

from engine.errors import RequestError
from lakeui.catalog.access import may
from lakeui.catalog.discovery import dismiss_place
from lakeui.catalog.mirror import forget_mirror
from lakeui.catalog.models import Table
from lakeui.conflicts.costs import count_out
from lakeui.jobs.errors import NotPermittedError, ReadOnlyError
from lakeui.jobs.writers import active_jobs
from lakeui.managed.models import ManagedTable


@dataclass(frozen=True, slots=True)
class RecordCounts:
    """The records of a table. Versions can be read again from its log; the rest cannot."""

    versions: int
    jobs: int
    conflicts: int
    schedules: int
    roles: int
    keys: int


def count_records(table: Table) -> RecordCounts:
    """Count the records now."""
    return RecordCounts(
        versions=table.commits.count(),
        jobs=table.jobs.count(),
        conflicts=table.conflicts.count(),
        schedules=table.schedules.count(),
        roles=table.grants.count(),
        keys=table.keys.count(),
    )


def right_to_unregister(table: Table) -> str:
    """Return the required right, a lower one for a table without a commit: nothing is lost."""
    return "maintain" if table.version is None and not table.commits.exists() else "admin"


def unregister_table(table: Table, by: User | None, reason: str = "") -> RecordCounts:
    """Delete a table's mirror, jobs, conflicts, schedules, roles and keys; return their counts.

    Raises:
        ReadOnlyError, NotPermittedError: as they say.
        RequestError: a job that changes it has not ended, or the catalog manages it.
    """
    if settings.READ_ONLY:
        raise ReadOnlyError
    action = right_to_unregister(table)
    if by is not None and not may(by, action, table):
        what = "Unregistering a table"
        raise NotPermittedError(what, action, table.name)
    with transaction.atomic():
        Table.objects.select_for_update().get(pk=table.pk)
        if ManagedTable.objects.filter(mirror=table).exists():
            msg = f"The catalog manages {table.name}: it keeps its versions."
            raise RequestError(msg, "Drop it in the catalog, with DROP TABLE.", field="table")
        active = active_jobs(table).count()
        if active:
            which = "job that changes" if active == 1 else "jobs that change"
            msg = f"{active} {which} {table.name} must end first."
            raise RequestError(msg, "Wait until they end, or cancel them first.", field="table")
        kept = count_records(table)
        _record(table, kept, by, reason)
        forget_mirror(table)
        dismiss_place(table.uri)
        count_out(table)
        with disable_auditlog():  # one entry, not one a job
            table.delete()
    return kept


def _record(table: Table, kept: RecordCounts, by: User | None, reason: str) -> None:
    changes = {"place": [table.uri, "None"], "jobs": [str(kept.jobs), "None"]}
    changes |= {"conflicts": [str(kept.conflicts), "None"]}
    LogEntry.objects.create(
        content_type=ContentType.objects.get_for_model(Table),
        object_pk=str(table.pk),
        object_id=table.pk,
        object_repr=table.name[:500],
        action=LogEntry.Action.DELETE,
        changes=changes | ({"reason": ["None", reason]} if reason else {}),
        actor=by,
    )
