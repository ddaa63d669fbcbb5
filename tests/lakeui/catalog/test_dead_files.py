"""What lies beside the table: files of older versions, until a VACUUM on record took them."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from lakeui.catalog.health import Health, annotate_health
from lakeui.catalog.mirror import refresh_table
from lakeui.catalog.models import Table
from lakeui.catalog.registration import register_table
from tests.lakeui.catalog.log_writer import FULL_INFO, add, append_commit, new_table, remove

pytestmark = pytest.mark.django_db

NOW_MS = int(timezone.now().timestamp() * 1000)
HOUR_MS = 3_600_000


@pytest.fixture
def lake(tmp_path, settings) -> Path:
    settings.TABLE_ROOTS = [str(tmp_path)]
    return tmp_path


def remove_action(path: str, hours_ago: int, size: int = 4000) -> dict:
    action = remove(path)
    action["remove"] |= {"deletionTimestamp": NOW_MS - hours_ago * HOUR_MS, "size": size}
    return action


def health_of(table: Table) -> str:
    return annotate_health(Table.objects.filter(pk=table.pk)).get().health


@pytest.fixture
def table_after_rewrite(lake) -> Table:
    """One live file, two of older versions, and one that only got another deletion vector."""
    new_table(lake / "t", configuration={"delta.deletedFileRetentionDuration": "interval 10 hours"})
    append_commit(lake / "t", 1, [add("a"), add("b"), add("c", size=1000)])
    append_commit(lake / "t", 2, [remove_action("a", 9)])
    append_commit(
        lake / "t", 3, [remove_action("b", 3), remove_action("c", 1), add("c", size=1000)]
    )
    return register_table(str(lake / "t"))


def test_files_of_older_versions_are_counted_once_and_live_ones_are_not(table_after_rewrite):
    assert (table_after_rewrite.dead_file_count, table_after_rewrite.dead_bytes) == (2, 8000)
    first = datetime.fromtimestamp((NOW_MS - 9 * HOUR_MS) / 1000, UTC)
    assert table_after_rewrite.vacuum_from - first == timedelta(hours=10 + 1)  # two clocks tell it


def test_a_file_is_kept_from_its_last_removal_whatever_vectors_it_had(lake):
    new_table(lake / "t", configuration={"delta.deletedFileRetentionDuration": "interval 10 hours"})
    append_commit(lake / "t", 1, [add("a")])
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4}
    marked = add("a")
    marked["add"]["deletionVector"] = vector | {"sizeInBytes": 40, "cardinality": 6}
    append_commit(lake / "t", 2, [remove_action("a", 9), marked])
    gone = remove_action("a", 2)
    gone["remove"]["deletionVector"] = marked["add"]["deletionVector"]
    append_commit(lake / "t", 3, [gone])
    table = register_table(str(lake / "t"))
    assert (table.dead_file_count, table.dead_bytes) == (1, 4000)
    last = datetime.fromtimestamp((NOW_MS - 2 * HOUR_MS) / 1000, UTC)
    assert table.vacuum_from - last == timedelta(hours=10 + 1)


def test_a_table_is_due_for_vacuum_once_its_retention_has_passed(table_after_rewrite):
    assert health_of(table_after_rewrite) == Health.HEALTHY
    earlier = timezone.now() - timedelta(hours=1)
    Table.objects.filter(pk=table_after_rewrite.pk).update(vacuum_from=earlier)
    assert health_of(table_after_rewrite) == Health.VACUUM_DUE
    Table.objects.filter(pk=table_after_rewrite.pk).update(dead_bytes=100)
    assert health_of(table_after_rewrite) == Health.HEALTHY


def test_what_a_vacuum_on_record_could_delete_is_taken_as_gone(table_after_rewrite, lake):
    append_commit(lake / "t", 4, [], info={**FULL_INFO, "operation": "VACUUM END"})
    in_five_hours = NOW_MS / 1000 + 5 * 3600
    os.utime(lake / "t/_delta_log" / f"{4:020}.json", (in_five_hours, in_five_hours))
    refresh_table(table_after_rewrite)
    assert (table_after_rewrite.dead_file_count, table_after_rewrite.dead_bytes) == (1, 4000)
