"""Erasures that an append passed: found once by a worker, settled by repeating the DELETE."""

from datetime import timedelta

import pytest
from django.utils import timezone

from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.erasures import look_at_order
from lakeui.conflicts.models import Erasure, OrderLook
from tests.lakeui.conflicts.histories import replayable
from tests.lakeui.factories import make_commit, make_table

pytestmark = pytest.mark.django_db
HERE = "part = 'a'"


def history(part="a"):
    """Create a history in which v1 appends to partition a while v2, which read v0, deletes from one."""
    table = make_table(version=2)
    soon = timezone.now() - timedelta(minutes=10)
    for version, operation in enumerate(("CREATE TABLE", "WRITE", "DELETE")):
        make_commit(
            table, version, operation, committed_at=soon + timedelta(minutes=version),
            read_version=0 if version else None, rows_added=17, predicate=HERE if version == 2 else "",
            user_name="gdpr-eraser" if version == 2 else "stream",
        )  # fmt: skip
    return replayable(table, part)


def test_an_append_that_a_delete_did_not_see_is_kept_with_both_writers():
    table = history()
    assert look_at_order() == 1
    row = Erasure.objects.get()
    assert (row.table, row.append_version, row.delete_version) == (table, 1, 2)
    assert (row.append_writer, row.delete_writer, row.rows_at_most) == ("stream", "gdpr-eraser", 17)
    assert row.predicate == HERE


def test_an_append_to_another_partition_is_no_reordered_erasure():
    history("b")
    look_at_order()
    assert not Erasure.objects.exists()


def test_a_table_is_looked_at_once_a_version():
    table = history()
    look_at_order()
    assert look_at_order() == 0
    Table.objects.filter(pk=table.pk).update(version=3)
    assert look_at_order() == 1
    assert Erasure.objects.count() == 1
    assert OrderLook.objects.get().version == 3


def test_the_same_delete_run_again_settles_it():
    table = history()
    look_at_order()
    make_commit(table, 3, "DELETE", read_version=2, predicate=HERE, committed_at=timezone.now())
    Table.objects.filter(pk=table.pk).update(version=3)
    look_at_order()
    assert Erasure.objects.get().settled_by == 3
    assert Commit.objects.filter(table=table).count() == 4
