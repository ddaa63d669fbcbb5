"""Background events of a history: time passes, readers read, and the log and the directory are
maintained at any moment. No event changes a row.
"""

from dataclasses import dataclass, field

from engine.commands.model import Vacuum
from engine.errors import EngineError, LogGapError, VersionNotFoundError
from engine.log.compaction import write_compaction
from engine.operations.run import run
from engine.snapshot.post_commit import checkpoint
from engine.snapshot.snapshot import Snapshot
from engine.table import DeltaTable
from tests.stateful.commands import Command
from tests.stateful.record import Record, Version, check_state, find_missing
from tests.stateful.weather import FakeClock

HOUR_MS = 3_600_000
_SLACK_MS = 60_000  # a commit's own time and that of its file differ by some looks at the clock
_HANDLES = 2


@dataclass
class Scene:
    """A table in the middle of a history.

    `handles` live as long as it does, `read` are the snapshots that commands read, `noted` the
    versions that VACUUM committed, `foreign` those of another engine.
    """

    table: DeltaTable
    clock: FakeClock
    record: Record
    handles: list[DeltaTable] = field(default_factory=list)
    read: dict[int, Snapshot] = field(default_factory=dict)
    noted: set[int] = field(default_factory=set)
    foreign: dict[int, Command] = field(default_factory=dict)

    @classmethod
    def from_table(cls, table: DeltaTable, clock: FakeClock) -> "Scene":
        handles = [DeltaTable(table.store, clock=clock) for _ in range(_HANDLES)]
        return cls(table, clock, Record(table.store), handles)

    def is_whole(self, version: Version) -> bool:
        """Return True if every file of a version still exists."""
        return not find_missing(self.table.store, version.data_files)

    @property
    def tombstones_since_ms(self) -> int:
        """Return the time before which the table may have forgotten removed files."""
        retention_ms = self.table.snapshot().properties.deleted_file_retention_ms
        return self.clock.now_ms() - retention_ms


@dataclass(frozen=True)
class Happening:
    """A background event of a history."""

    def happen(self, scene: Scene) -> None:
        """Let the event happen now."""
        raise NotImplementedError


@dataclass(frozen=True)
class Wait(Happening):
    """An event in which hours pass."""

    hours: int

    def happen(self, scene: Scene) -> None:
        scene.clock.skip(self.hours * HOUR_MS)


@dataclass(frozen=True)
class Look(Happening):
    """A handle that has lived for some versions reads the newest, or one so far back."""

    handle: int
    back: int = 0

    def happen(self, scene: Scene) -> None:
        handle, record = scene.handles[self.handle], scene.record
        record.follow()
        number = max(0, record.newest.number - self.back)
        try:
            snapshot = handle.snapshot(version=number) if self.back else handle.snapshot()
        except (VersionNotFoundError, LogGapError):
            assert self.back, "the newest version was not found"
            return
        check_state(
            snapshot.state,
            record.versions[number],
            tombstones_since_ms=scene.tombstones_since_ms,
            by_others=bool(scene.foreign),
        )


@dataclass(frozen=True)
class Checkpoint(Happening):
    """A slow writer checkpoints the version that a command read, however old that is by now."""

    of: int

    def happen(self, scene: Scene) -> None:
        snapshot = scene.read.get(self.of) or scene.table.snapshot()
        checkpoint(snapshot, scene.clock.now_ms())


@dataclass(frozen=True)
class Compact(Happening):
    """A log compaction of the last commits up to the newest version, or to one before it."""

    commits: int
    back: int = 0

    def happen(self, scene: Scene) -> None:
        end = scene.table.version() - self.back
        if end > 0:
            write_compaction(scene.table.store, end, self.commits)


@dataclass(frozen=True)
class VacuumElsewhere(Happening):
    """A VACUUM by another process, which does not know the commands running here."""

    hours: float
    lite: bool = False

    def happen(self, scene: Scene) -> None:
        store, record = scene.table.store, scene.record
        record.follow()
        since_ms = scene.clock.now_ms() - self.hours * HOUR_MS
        kept_from = _oldest_in_force(record, since_ms + _SLACK_MS)
        in_force = record.versions[kept_from:]
        kept = {
            path for version in in_force if scene.is_whole(version) for path in version.data_files
        }
        recent = (
            version for version in record.versions if version.landed_ms >= since_ms + _SLACK_MS
        )
        told = {path for version in recent for path in version.changes}
        kept |= told - set(find_missing(store, told))
        command = Vacuum(retention_hours=self.hours, lite=self.lite, override_retention=True)
        try:
            result = run(command, DeltaTable(store, clock=scene.clock), None)
            scene.noted.update(result.versions)
        finally:
            record.follow()
        lost = find_missing(store, kept)
        assert not lost, (
            f"VACUUM RETAIN {self.hours} HOURS took {lost} of versions from {kept_from} on"
        )


def _oldest_in_force(record: Record, since_ms: float) -> int:
    """The oldest version that was the newest at a time or later."""
    for version in record.versions[1:]:
        if version.landed_ms >= since_ms:
            return version.number - 1
    return record.newest.number


def happen_all(happenings: tuple[Happening, ...], scene: Scene) -> None:
    """Run events in turn; skip those that the log no longer allows."""
    for happening in happenings:
        try:
            happening.happen(scene)
        except EngineError as error:
            if not isinstance(happening, Checkpoint | Compact):
                what = f"{happening}: {error!r}"
                raise AssertionError(what) from error
