"""Dead files: files of older versions, until a recorded VACUUM deletes them."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from engine.clock import SystemClock
from lakeui.catalog.chores import chores
from lakeui.catalog.health import Health
from lakeui.catalog.mirror import refresh_table
from lakeui.catalog.models import Table
from lakeui.catalog.registration import register_table
from lakeui.monitoring.table_health import annotate_health
from tests.lakeui.catalog.log_writer import FULL_INFO, add, append_commit, new_table, remove
from workers.mirror import measure_vacuum

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
    """Return a table with a live file, two of older versions, and one with a replaced deletion vector."""
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


def test_vacuum_is_due_where_the_store_has_enough_that_can_go_now(lake, settings):
    settings.ATTENTION_VACUUM_BYTES, settings.ATTENTION_VACUUM_SHARE = 8000, 0.5
    new_table(lake / "t", configuration={"delta.deletedFileRetentionDuration": "interval 10 hours"})
    append_commit(lake / "t", 1, [add("a"), add("b"), add("c")])
    append_commit(lake / "t", 2, [remove_action("a", 30), remove_action("b", 30)])
    for name in "abc":
        (lake / "t" / name).write_bytes(b"x" * 4000)
    table, logs = register_table(str(lake / "t")), list((lake / "t/_delta_log").iterdir())
    assert table.dead_bytes == 8000

    def measure(names: str) -> tuple[int, str]:
        for path in [lake / "t" / name for name in names] + logs:
            os.utime(path, (NOW_MS / 1000 - 30 * 3600,) * 2)
        Table.objects.update(vacuum_measured_at=None)
        table.refresh_from_db()
        measure_vacuum(table)
        table.refresh_from_db()
        return table.vacuum_bytes, health_of(table)

    assert measure("") == (0, Health.HEALTHY), "the files are young, whatever the log says"
    assert measure("a") == (4000, Health.HEALTHY), "less than ATTENTION_VACUUM_BYTES"
    assert measure("b") == (8000, Health.VACUUM_DUE)
    assert [chore.is_due for chore in chores(table, None) if chore.name == "vacuum"] == [True]
    settings.ATTENTION_VACUUM_SHARE = 9
    assert health_of(table) == Health.HEALTHY, "a small share of what the table holds"
    measure_vacuum(table)
    table.refresh_from_db()
    assert (table.vacuum_bytes, table.vacuum_measured_at) == (0, None)


def test_the_store_is_queried_once_an_hour_and_after_a_vacuum(lake, settings):
    settings.ATTENTION_VACUUM_BYTES = 1
    new_table(lake / "t", configuration={"delta.deletedFileRetentionDuration": "interval 10 hours"})
    append_commit(lake / "t", 1, [add("a")])
    append_commit(lake / "t", 2, [remove_action("a", 30)])
    table, now = register_table(str(lake / "t")), timezone.now()
    for ago, vacuumed, asks in (
        (timedelta(minutes=50), None, False),
        (timedelta(minutes=70), None, True),
        (timedelta(minutes=50), now - timedelta(minutes=10), True),
        (timedelta(minutes=50), now - timedelta(minutes=55), False),
    ):
        table.vacuum_measured_at, table.last_vacuum_at = now - ago, vacuumed
        table.save()
        measure_vacuum(table)
        assert (Table.objects.get().vacuum_measured_at > now - timedelta(minutes=1)) is asks


class _EndlessClock(SystemClock):
    """A clock that advances by a minute at each reading."""

    looks = 0

    def monotonic_s(self) -> float:
        self.looks += 1
        return 61.0 * self.looks


class _BrokenClock(SystemClock):
    def monotonic_s(self) -> float:
        raise ValueError


@pytest.mark.parametrize("clock", [_EndlessClock(), _BrokenClock()])
def test_a_store_that_cannot_be_measured_is_left_alone_for_an_hour(lake, settings, clock):
    settings.ATTENTION_VACUUM_BYTES = 1
    new_table(lake / "t", configuration={"delta.deletedFileRetentionDuration": "interval 10 hours"})
    append_commit(lake / "t", 1, [add("a")])
    append_commit(lake / "t", 2, [remove_action("a", 30)])
    table = register_table(str(lake / "t"))
    Table.objects.update(vacuum_bytes=7)
    measure_vacuum(table, clock)
    table.refresh_from_db()
    assert (table.vacuum_bytes, table.vacuum_measured_at is None) == (7, False)


def test_files_that_a_recorded_vacuum_could_delete_count_as_deleted(table_after_rewrite, lake):
    append_commit(lake / "t", 4, [], info={**FULL_INFO, "operation": "VACUUM END"})
    in_five_hours = NOW_MS / 1000 + 5 * 3600
    os.utime(lake / "t/_delta_log" / f"{4:020}.json", (in_five_hours, in_five_hours))
    refresh_table(table_after_rewrite)
    assert (table_after_rewrite.dead_file_count, table_after_rewrite.dead_bytes) == (1, 4000)
