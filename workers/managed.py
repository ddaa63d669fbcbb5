"""The round of the catalog: publish ratified commits, and examine refused ones."""

import logging

from django.db import DatabaseError, InterfaceError
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone

from engine.errors import EngineError
from lakeui.catalog.managed_tables import open_location
from lakeui.celery import app
from lakeui.conflicts.catalog_attempts import (
    RETRIED_WITHIN,
    examine_attempt,
    find_retry,
    list_unread,
    list_unretried,
)
from lakeui.jobs.turns import take_turns
from lakeui.managed.models import CommitAttempt, ManagedTable
from lakeui.managed.publication import delete_staged_file, publish_commits
from lakeui.managed.ratification import begin_table
from lakeui.task_names import TEND_CATALOG

logger = logging.getLogger(__name__)


@app.task(name=TEND_CATALOG)
@take_turns(TEND_CATALOG, seconds=120)
def tend_catalog() -> None:
    """Publish and examine the commits of each table: a failure stops no other table."""
    for managed in tables_to_tend():
        for tend in (publish, examine):
            try:
                tend(managed)
            except EngineError as error:
                logger.warning("The catalog could not tend %s: %s", managed, error)
            except (DatabaseError, InterfaceError):
                logger.exception("The catalog could not tend %s", managed)


def publish(managed: ManagedTable) -> None:
    """Publish a table's commits.

    Raises:
        StorageError: its location is unreachable. The next round continues.
        MalformedLogError: its log has another commit of a ratified version.
    """
    store = open_location(managed)
    if begin_table(managed, store):
        publish_commits(managed, store)


def examine(managed: ManagedTable) -> None:
    """Examine a table's refused commits, then delete their files.

    Raises:
        StorageError: as in `publish`.
    """
    store = open_location(managed)
    for attempt in list_unread(managed):
        examine_attempt(attempt, store)
        delete_staged_file(attempt, store)
    for attempt in list_unretried(managed, timezone.now()):
        find_retry(attempt, store)


def tables_to_tend() -> QuerySet[ManagedTable]:
    """Return the tables with a commit to publish or a refused one to examine."""
    recent = timezone.now() - RETRIED_WITHIN
    attempts = CommitAttempt.objects.filter(table=OuterRef("pk"))
    due = attempts.filter(Q(verdict=CommitAttempt.Verdict.UNREAD) | Q(refused_at__gt=recent))
    return ManagedTable.objects.filter(
        Q(latest_version__gt=F("published_version")) | Q(latest_version=-1) | Exists(due),
        dropped_at=None,
    )
