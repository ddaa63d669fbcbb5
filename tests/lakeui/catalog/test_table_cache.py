"""A mirror that follows the commits of a cached table equals a complete reading."""

import os
import random
import shutil
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from django.db import transaction

from engine.commands.sql import parse_statement
from engine.log.checkpoint_writer import write_checkpoint
from engine.log.replay import load_table_state
from engine.operations.run import run
from engine.protocol.properties import TableProperties
from engine.storage.local import LocalStore
from engine.table import DeltaTable
from lakeui.catalog import mirror
from lakeui.catalog.mirror import rebuild_table, refresh_table
from lakeui.catalog.models import LiveFile, Table
from lakeui.catalog.registration import register_table
from lakeui.catalog.table_cache import HeldTables
from tests.lakeui.catalog.any_commits import (
    CDC,
    DOMAIN,
    KEEPS,
    METADATA,
    NOW_MS,
    PROTOCOL,
    TXN,
    VACUUM_END,
    add,
    remove,
    vector,
    write_any_commit,
)
from tests.lakeui.catalog.log_writer import SCHEMA, append_commit, new_table
from tests.lakeui.catalog.mirrored_rows import read_mirror_rows
from tests.shares import one_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def lake(tmp_path, settings) -> Path:
    settings.TABLE_ROOTS = [str(tmp_path)]
    settings.SMALL_FILE_BYTES = 5000
    return tmp_path


@pytest.fixture(autouse=True)
def anew(monkeypatch) -> list[int]:
    """Return the versions that were read completely; the cache starts empty."""
    versions: list[int] = []
    write_anew = mirror._write_anew

    def note_rewrite(table, snapshot):
        versions.append(snapshot.version)
        write_anew(table, snapshot)

    monkeypatch.setattr(mirror, "_write_anew", note_rewrite)
    monkeypatch.setattr(mirror, "HELD_TABLES", HeldTables())
    return versions


def rebuild_rows(table: Table) -> list[list[object]]:
    """Return the rows that a rebuild would write, without changing the mirror or the cache."""
    held, mirror.HELD_TABLES = mirror.HELD_TABLES, HeldTables()
    try:
        with transaction.atomic():
            rebuild_table(Table.objects.get(pk=table.pk))
            rows = read_mirror_rows(table)
            transaction.set_rollback(True)
    finally:
        mirror.HELD_TABLES = held
    return rows


def refresh_and_compare(table: Table) -> None:
    """Refresh a table as a worker does, and compare it with a rebuild."""
    refresh_table(Table.objects.get(pk=table.pk))
    assert read_mirror_rows(table) == rebuild_rows(table)


@pytest.fixture
def table(lake) -> Table:
    """Return a table with files a to e, b with a vector; x was removed long ago, and y recently."""
    new_table(lake / "t", configuration=KEEPS)
    marked = add("b", deletionVector=vector(1, 4))
    files = [
        add("a"),
        marked,
        add("c", size=9000),
        add("d", rows=None),
        add("e"),
        add("x"),
        add("y"),
    ]
    append_commit(lake / "t", 1, files)
    append_commit(lake / "t", 2, [remove("x", 5, size=7), remove("y", 2, size=70)])
    return register_table(str(lake / "t"))


FOLLOWED = {
    "an append": [add("f"), TXN],
    "before all": [add("0")],
    "a file without statistics": [add("f", rows=None)],
    "what it removed and wrote again": [remove("a"), add("f", size=100), CDC],
    "the one file without statistics": [remove("d", size=None)],
    "a vector": [remove("a"), add("a", deletionVector=vector(2, 3))],
    "another vector": [
        remove("b", deletionVector=vector(1, 4)),
        add("b", deletionVector=vector(2, 5)),
    ],
    "no vector any more": [remove("b", deletionVector=vector(1, 4)), add("b")],
    "statistics of a file that is there": [add("d", rows=7, dataChange=False)],
    "another time and size of it": [add("a", size=1, modificationTime=5)],
    "a file that was never there": [remove("nowhere", size=50)],
    "a file that was removed already": [remove("y", 1, size=70)],
    "a file under another vector than it has": [remove("a", deletionVector=vector(8, 1))],
    "a file that comes back": [add("y")],
    "one removed before those": [remove("a", 9)],
    "one removed nobody knows when": [remove("a", None)],
    "twice the same": [add("f"), add("f", size=5)],
    "in and out": [add("f"), remove("f", size=8)],
    "out and in": [remove("a"), add("a", size=5)],
    "nothing": [],
}
READ_ANEW = {
    "metadata": [METADATA],
    "metadata, and statistics of a file": [METADATA, add("d", rows=7)],
    "metadata, and another time of a file": [METADATA, add("a", modificationTime=5)],
    "the protocol": [PROTOCOL],
    "a domain": [DOMAIN],
    "a file twice, with and without a vector": [add("a", deletionVector=vector(2, 3))],
    "the first that is dead comes back": [add("x")],
    "the first that is dead was removed later, too": [remove("x", 1)],
    "more than can be summed": [add("f", size=2**62)],
}


@pytest.mark.parametrize("what", FOLLOWED)
def test_a_commit_of_files_is_followed(table, lake, anew, what):
    append_commit(lake / "t", 3, FOLLOWED[what])
    refresh_and_compare(table)
    append_commit(lake / "t", 4, [add("z")])
    refresh_and_compare(table)
    assert [version for version in anew if version > 2] == [3, 4]  # by the rebuilds


@pytest.mark.parametrize("what", READ_ANEW)
def test_changes_that_commits_alone_do_not_show_are_read_again(table, lake, anew, what):
    append_commit(lake / "t", 3, READ_ANEW[what])
    refresh_and_compare(table)
    assert anew.count(3) == 2


def test_several_commits_are_followed_at_once(table, lake, anew):
    append_commit(lake / "t", 3, [remove("a"), add("f")])
    append_commit(lake / "t", 4, [remove("f"), add("a"), remove("b", deletionVector=vector(1, 4))])
    append_commit(lake / "t", 5, [add("g", rows=None), remove("c", 3)])
    refresh_and_compare(table)
    assert anew.count(5) == 1


@pytest.mark.parametrize(
    ("actions", "whole_readings"),
    [
        ([add("f")], 1),
        ([add("0"), add("f")], 1),
        ([remove("a"), add("b0", rows=3)], 1),
        ([remove("e")], 1),
        ([remove("a")], 2),  # which file comes next by its path?
        ([remove("c"), add("f")], 2),
        ([remove("a"), add("a", size=1), remove("d", 1), add("d", size=2)], 1),
    ],
)
def test_beyond_the_cap_the_first_files_by_path_are_mirrored(
    table, lake, anew, settings, actions, whole_readings
):
    settings.MIRROR_MAX_LIVE_FILES = 3
    rebuild_table(table)
    append_commit(lake / "t", 3, actions)
    refresh_and_compare(table)
    assert LiveFile.objects.count() == 3
    assert anew.count(3) == whole_readings


def test_a_table_that_grows_beyond_the_cap_is_followed(table, lake, anew, settings):
    settings.MIRROR_MAX_LIVE_FILES = 6
    rebuild_table(table)
    for version, name in enumerate("ghi", 3):
        append_commit(lake / "t", version, [add(name), add(f"{name}0"), remove("e")])
        refresh_and_compare(table)
    assert [anew.count(version) for version in (3, 4, 5)] == [1, 1, 1]


def test_another_cap_is_read_again(table, lake, anew, settings):
    settings.MIRROR_MAX_LIVE_FILES = 2
    append_commit(lake / "t", 3, [add("f")])
    refresh_and_compare(table)
    assert anew.count(3) == 2


def test_a_checkpoint_is_read_again(table, lake, anew):
    append_commit(lake / "t", 3, [add("f")])
    checkpoint(lake / "t")
    refresh_and_compare(table)
    append_commit(lake / "t", 4, [add("g")])
    refresh_and_compare(table)
    append_commit(lake / "t", 5, [add("h")])
    checkpoint(lake / "t")
    refresh_and_compare(table)
    assert [anew.count(version) for version in (3, 4, 5)] == [2, 1, 2]


def test_a_vacuum_is_read_again(table, lake, anew):
    append_commit(lake / "t", 3, [], info=VACUUM_END)
    in_seven_hours = NOW_MS / 1000 + 7 * 3600
    os.utime(lake / "t/_delta_log" / f"{3:020}.json", (in_seven_hours, in_seven_hours))
    refresh_and_compare(table)
    table.refresh_from_db()
    assert (table.dead_file_count, anew.count(3)) == (1, 2)


def test_a_table_in_the_place_of_a_cached_one_is_read_again(table, lake):
    shutil.rmtree(lake / "t")
    new_table(lake / "t", configuration=KEEPS)
    for version in range(1, 5):
        append_commit(lake / "t", version, [add(f"n{version}")])
    refresh_and_compare(table)
    assert LiveFile.objects.filter(path="n4").exists()


def test_a_cached_table_in_whose_place_another_worker_mirrored_one_is_dropped(lake, monkeypatch):
    new_table(lake / "t")
    append_commit(lake / "t", 1, [add("old")])
    table = register_table(str(lake / "t"))
    shutil.rmtree(lake / "t")
    new_table(lake / "t")
    append_commit(lake / "t", 1, [add("new")])
    held = mirror.HELD_TABLES
    monkeypatch.setattr(mirror, "HELD_TABLES", HeldTables())
    refresh_and_compare(table)
    monkeypatch.setattr(mirror, "HELD_TABLES", held)
    append_commit(lake / "t", 2, [remove("new")])
    refresh_and_compare(table)
    assert not LiveFile.objects.exists()


def test_workers_take_turns_in_following(table, lake, anew, monkeypatch):
    workers = [mirror.HELD_TABLES, HeldTables()]
    for version in range(3, 11):
        append_commit(lake / "t", version, [add(f"f{version}"), remove(f"f{version - 1}")])
        monkeypatch.setattr(mirror, "HELD_TABLES", workers[(version // 2) % 2])
        refresh_and_compare(table)
    read_by_mirrors = [anew.count(version) - 1 for version in range(3, 11)]  # less the rebuild's
    assert read_by_mirrors == [1, 0, 0, 0, 0, 0, 0, 0]


def test_a_mirror_that_another_worker_moves_on_meanwhile_is_read_again(table, lake, monkeypatch):
    append_commit(lake / "t", 3, [remove("a"), add("f")])
    write, turns = mirror._write_changes, [1]

    def meanwhile(row, *changes):
        if turns:
            turns.clear()
            append_commit(lake / "t", 4, [remove("f"), add("g")])
            held = mirror.HELD_TABLES
            monkeypatch.setattr(mirror, "HELD_TABLES", HeldTables())
            refresh_table(Table.objects.get(pk=row.pk))
            monkeypatch.setattr(mirror, "HELD_TABLES", held)
        return write(row, *changes)

    monkeypatch.setattr(mirror, "_write_changes", meanwhile)
    refresh_and_compare(table)
    assert not turns
    assert set(LiveFile.objects.values_list("path", flat=True)) == set("bcdeg")


@pytest.mark.parametrize("harm", ["rows", "sums"])
def test_a_mirror_that_differs_from_the_cache_is_read_again(table, lake, harm):
    if harm == "rows":
        LiveFile.objects.filter(path="a").delete()
    else:
        Table.objects.update(size_bytes=1)
    append_commit(lake / "t", 3, [remove("a")])
    refresh_and_compare(table)
    assert LiveFile.objects.count() == 4


def test_tables_that_need_too_much_memory_are_not_cached(table, lake, anew, settings):
    settings.MIRROR_HELD_BYTES = 100
    append_commit(lake / "t", 3, [add("f")])
    refresh_and_compare(table)  # followed, and let go
    append_commit(lake / "t", 4, [add("g")])
    refresh_and_compare(table)
    assert (anew.count(3), anew.count(4)) == (1, 2)


def test_of_the_held_tables_those_used_last_are_kept(table, lake, settings):
    held = mirror.HELD_TABLES.take((table.pk, str(lake / "t")))
    settings.MIRROR_HELD_BYTES = 2 * held.size_bytes
    tables = HeldTables()
    for key in ("first", "second", "first", "third"):
        tables.keep(key, held)
    assert [tables.take(key) for key in ("first", "second", "third")] == [held, None, held]
    assert tables.take("first") is None


def checkpoint(place: Path) -> None:
    store = LocalStore(place)
    write_checkpoint(store, load_table_state(store), TableProperties.parse(KEEPS), now_ms=NOW_MS)


@pytest.mark.parametrize("seed", one_in(3, range(24)))
def test_following_any_history_equals_a_rebuild(lake, settings, monkeypatch, seed):
    dice = random.Random(seed)  # noqa: S311 - a seed reproduces a history
    settings.MIRROR_MAX_LIVE_FILES = dice.choice([2, 4, 6, 1000])
    workers = [HeldTables() for _ in range(dice.choice([1, 2]))]
    new_table(lake / "t", configuration=KEEPS)
    table = register_table(str(lake / "t"))
    version = 0
    for _ in range(10):
        for _ in range(dice.choice([1, 1, 1, 2, 3])):
            version += 1
            write_any_commit(dice, lake / "t", version)
        if dice.random() < 0.1:
            checkpoint(lake / "t")
            if dice.random() < 0.5:
                (lake / "t/_delta_log" / f"{0:020}.json").unlink(missing_ok=True)
        monkeypatch.setattr(mirror, "HELD_TABLES", dice.choice(workers))
        refresh_table(Table.objects.get(pk=table.pk))
        kept_log = read_mirror_rows(table), rebuild_rows(table)
        assert live_of(kept_log[0]) == live_of(kept_log[1]), version


def live_of(rows: list[list[object]]) -> list[object]:
    """Return a table whose log lost versions that the mirror still has, and its live files."""
    (fields,) = rows[0]
    assert isinstance(fields, dict)
    of_the_first = ("earliest_version", "begun_at")
    return [{k: v for k, v in fields.items() if k not in of_the_first}, rows[3]]


def test_commits_of_this_engine_are_followed(lake, anew):
    handle = DeltaTable.create(str(lake / "t"), SCHEMA)
    say(handle, "INSERT INTO t VALUES (1, 'DE'), (2, 'FR'), (3, 'IT')")
    table = register_table(str(lake / "t"))
    for statement in (
        "INSERT INTO t VALUES (4, 'DE'), (5, 'ES')",
        "UPDATE t SET country = 'AT' WHERE id = 2",
        "DELETE FROM t WHERE id = 1",
        "DELETE FROM t WHERE id >= 4",
        "RESTORE t TO VERSION AS OF 2",
    ):
        say(handle, statement)
        refresh_and_compare(table)
    assert [anew.count(version) for version in range(2, handle.version())] == [1, 1, 1, 1]


def say(table: DeltaTable, statement: str) -> None:
    run(parse_statement(statement), table, None)


def test_commits_of_delta_rs_are_followed(lake):
    place = str(lake / "t")
    rows = pa.table({"id": pa.array(range(10), pa.int64())})
    deltalake.write_deltalake(place, rows)
    table = register_table(place)
    other = deltalake.DeltaTable(place)
    for act in (
        lambda: deltalake.write_deltalake(place, rows, mode="append"),
        lambda: deltalake.DeltaTable(place).delete("id = 3"),
        lambda: deltalake.DeltaTable(place).update({"id": "id + 100"}, predicate="id > 7"),
        lambda: deltalake.DeltaTable(place).optimize.compact(),
        lambda: deltalake.DeltaTable(place).restore(1),
        lambda: deltalake.DeltaTable(place).create_checkpoint(),
        lambda: deltalake.write_deltalake(place, rows, mode="overwrite"),
        lambda: deltalake.DeltaTable(place).vacuum(
            0, dry_run=False, enforce_retention_duration=False
        ),
        lambda: deltalake.write_deltalake(place, rows, mode="append"),
    ):
        act()
        refresh_and_compare(table)
    assert Table.objects.get(pk=table.pk).version > other.version()
