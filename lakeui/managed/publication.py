"""Publication: ratified commits copied into the log in order, and refused files deleted."""

from django.utils import timezone

from engine.catalog.catalog import publish_commit
from engine.storage.base import Store
from lakeui.managed.models import CommitAttempt, ManagedTable
from lakeui.managed.ratification import note_published


def publish_commits(table: ManagedTable, store: Store) -> int:
    """Publish a table's ratified commits in order; return how many were not published before.

    Raises:
        StorageError: a commit could not be copied; those before it are published.
        MalformedLogError: the log has another commit of a ratified version.
    """
    table.refresh_from_db(fields=["published_version"])
    rows = table.ratified.filter(version__gt=table.published_version).order_by("version")
    count = 0
    for row in rows:
        publish_commit(store, row.commit, "the catalog")
        note_published(table, row.version)
        count += 1
    return count


def delete_staged_file(attempt: CommitAttempt, store: Store) -> bool:
    """Delete the staged file of a refused commit; return whether there was one to delete.

    A file that is a version is kept, whoever proposed it again, and however its name is spelled.

    Raises:
        StorageError: it could not be deleted.
    """
    ratified = attempt.table.ratified.filter(file_name__iexact=attempt.file_name)
    is_rejected = not ratified.exists()
    if is_rejected:
        store.delete(attempt.commit.path)
    CommitAttempt.objects.filter(pk=attempt.pk).update(file_deleted_at=timezone.now())
    return is_rejected
