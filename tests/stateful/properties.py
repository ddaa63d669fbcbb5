"""Properties of every version of a history, regardless of reads, log cleaning and VACUUM.

- A version has the content of its commits, for every choice of checkpoints and compactions.
- A snapshot that a command read does not change; an update makes it the newest version.
- The change feed of a version leads from the previous rows to its own, without superfluous changes.
- Pruning by a condition keeps every file with a matching row.
"""

import os
import random
from collections import Counter
from functools import cached_property

from engine.actions.files import AddFile
from engine.log.paths import LogFileKind
from engine.log.segment import complete_checkpoints, list_log_files
from engine.snapshot.change_feed import CHANGE_TYPE, read_changes
from engine.snapshot.reader import read_file
from engine.snapshot.snapshot import Snapshot, load_snapshot
from engine.storage.base import Store
from tests.stateful import commands as c
from tests.stateful.arrow_files import extra_of, read_rows
from tests.stateful.history import Played
from tests.stateful.ranges import Range
from tests.stateful.record import check_state
from tests.stateful.typed_values import TOP

EVERYTHING = "HISTORIES" in os.environ
"""Whether all that can be looked at is, and not one in so many."""
_STRIDE, _CONDITIONS = 3, 2
_GONE, _CAME = {"delete", "update_preimage"}, {"insert", "update_postimage"}


def is_looked_into(seed: int) -> bool:
    """Return True if the versions of a seed's history are checked."""
    return EVERYTHING or seed % _STRIDE == 0


def check_properties(played: Played) -> None:
    """Raise AssertionError if a version violates a property."""
    versions = Versions(played)
    check_reads(played, versions)
    check_snapshots(played, versions)
    if played.table.snapshot().properties.enable_change_data_feed:
        check_change_feed(played, versions)
    check_pruning(played, versions)


class Versions:
    """The versions that the log still holds, each read once, in the form `read_changes` expects.

    A slow writer may have left a checkpoint before a gap: versions before the gap are gone.
    """

    def __init__(self, played: Played) -> None:
        self._scene = played.scene
        self._snapshots = {snapshot.version: snapshot for snapshot in played.scene.read.values()}
        self._fresh: dict[int, Snapshot] = {}
        self._rows: dict[tuple[object, ...], c.Rows] = {}

    @property
    def store(self) -> Store:
        return self._scene.table.store

    @cached_property
    def numbers(self) -> range:
        files = list_log_files(self.store)
        last = self._scene.record.newest.number
        commits = {file.version for file in files if file.name.kind is LogFileKind.COMMIT}
        first = next((n + 1 for n in range(last, -1, -1) if n not in commits), 0)
        starts = [
            checkpoint.version
            for checkpoint in complete_checkpoints(files)
            if checkpoint.version >= first - 1
        ]
        return range(min(starts) if first else 0, last + 1)

    @cached_property
    def whole(self) -> list[int]:
        """Return the versions whose files all exist."""
        said = self._scene.record.versions
        return [number for number in self.numbers if self._scene.is_whole(said[number])]

    def snapshot(self, version: int | None = None) -> Snapshot:
        number = self.numbers[-1] if version is None else version
        if number not in self._snapshots:
            self._snapshots[number] = self.fresh(number)
        return self._snapshots[number]

    def fresh(self, number: int) -> Snapshot:
        """Return a version as a new handle reads it."""
        if number not in self._fresh:
            self._fresh[number] = load_snapshot(self.store, number)
        return self._fresh[number]

    def is_at_hand(self, number: int) -> bool:
        """Return True if a version is already in memory."""
        return number in self._snapshots

    def files(self, number: int) -> dict[str, c.Rows]:
        """The rows of each file; a file is read once for all versions that have it."""
        snapshot = self.snapshot(number)
        return {add.path: self._rows_of(snapshot, add) for add in snapshot.add_files()}

    def rows(self, number: int) -> c.Rows:
        return {key: row for rows in self.files(number).values() for key, row in rows.items()}

    def _rows_of(self, snapshot: Snapshot, add: AddFile) -> c.Rows:
        key = *add.key, extra_of(snapshot.schema.names)
        if key not in self._rows:
            self._rows[key] = read_rows(read_file(snapshot, add))
        return self._rows[key]


def check_reads(played: Played, versions: Versions) -> None:
    """The newest version; some others where checkpoints or compactions come often."""
    said, since_ms = played.scene.record.versions, played.scene.tombstones_since_ms
    others = bool(played.scene.foreign)
    chosen = {versions.numbers[-1]}
    if any("nterval" in name for name, _ in played.setup.properties):
        chosen.update(versions.numbers if EVERYTHING else versions.numbers[1::_STRIDE])
    for number in sorted(chosen):
        check_state(
            versions.fresh(number).state,
            said[number],
            tombstones_since_ms=since_ms,
            by_others=others,
        )


def check_snapshots(played: Played, versions: Versions) -> None:
    """Check the snapshots that commands read, and those that long-lived handles hold."""
    record, since_ms = played.scene.record, played.scene.tombstones_since_ms
    others = bool(played.scene.foreign)
    read = {snapshot.version: snapshot for snapshot in played.scene.read.values()}
    held = list(read.values()) if EVERYTHING else list(read.values())[::_STRIDE]
    for snapshot in held:
        check_state(
            snapshot.state,
            record.versions[snapshot.version],
            tombstones_since_ms=since_ms,
            by_others=others,
        )
    current = [snapshot.update() for snapshot in held]
    current += [handle.snapshot() for handle in played.scene.handles]
    for snapshot in current:
        check_state(snapshot.state, record.newest, tombstones_since_ms=since_ms, by_others=others)


def check_change_feed(played: Played, versions: Versions) -> None:
    """Check the feed version by version, as long as the files of both sides exist."""
    whole = set(versions.whole)
    for number in versions.numbers[1:]:
        if {number - 1, number} <= whole and played.scene.record.versions[number].changes_are_there(
            versions.store
        ):
            _check_changes(played, versions, number)


def _check_changes(played: Played, versions: Versions, number: int) -> None:
    changes = read_changes(versions, number, number)
    kinds = changes[CHANGE_TYPE].to_pylist()
    told = changes.select(versions.snapshot(number).schema.names)
    rows = [
        row for place in range(told.num_rows) for row in read_rows(told.slice(place, 1)).items()
    ]
    gone = Counter(row for kind, row in zip(kinds, rows, strict=True) if kind in _GONE)
    came = Counter(row for kind, row in zip(kinds, rows, strict=True) if kind in _CAME)
    same_columns = _extra(versions, number - 1) == _extra(versions, number)
    before, after = (
        Counter(_comparable(versions.rows(n), same_columns=same_columns))
        for n in (number - 1, number)
    )
    where = f"the changes of version {number} ({played.scene.record.versions[number].operation})"
    if not same_columns:
        gone, came = (Counter({_short(row): n for row, n in side.items()}) for side in (gone, came))
    said = f"{where}: gone {gone}, came {came}, before {before}, after {after}"
    assert set(kinds) <= _GONE | _CAME, said
    idle = gone & came
    assert gone - idle == before - after, said
    assert came - idle == after - before, said
    running = played.landed.get(number)
    assert not idle or isinstance(running and running.command, c.Restore), said


def _extra(versions: Versions, number: int) -> str | None:
    return extra_of(versions.snapshot(number).schema.names)


def _comparable(rows: c.Rows, *, same_columns: bool) -> list[tuple[str, tuple[object, ...]]]:
    items = list(rows.items())
    return items if same_columns else [_short(row) for row in items]


def _short(row: tuple[str, tuple[object, ...]]) -> tuple[str, tuple[object, ...]]:
    """A row without the column that may come and go."""
    return row[0], row[1][:3]


def check_pruning(played: Played, versions: Versions) -> None:
    """Check some conditions on the newest version and on one before it, and the rows of one condition."""
    dice = random.Random(len(versions.numbers))  # noqa: S311 - the same each time
    held = [number for number in versions.whole if versions.is_at_hand(number)]
    for number in {versions.whole[-1], dice.choice(held or versions.whole)}:
        snapshot, files = versions.snapshot(number), versions.files(number)
        for _ in range(_CONDITIONS):
            where = _condition(dice, played.setup.typed)
            kept = set(snapshot.files(where.sql)["path"].to_pylist())
            needed = {path for path, rows in files.items() if any(map(where.holds, rows.values()))}
            assert needed <= kept, f"version {number}: {where.sql} leaves out {needed - kept}"
    selected = read_rows(snapshot.to_arrow(condition=where.sql))
    expected = {
        key: row for rows in files.values() for key, row in rows.items() if where.holds(row)
    }
    assert selected == expected, f"version {number}: {where.sql} selects {selected}, not {expected}"


def _condition(dice: random.Random, typed: str) -> Range:
    low = dice.randrange(TOP + 1)
    return Range(
        low,
        low + dice.choice([1, 1, 3]),
        dice.choice([None, None, "a", "b"]),
        nulls=dice.random() < 0.2,
        negated=dice.random() < 0.2,
        typed=typed if dice.random() < 0.8 else "",
    )
