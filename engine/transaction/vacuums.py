"""VACUUMs that began while a transaction ran: until each has ended, it may delete staged files.

A VACUUM lists the unneeded files, commits VACUUM START, reads the log once more, deletes, and
commits VACUUM END. A commit in between could name a file deleted right after its check.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from engine.actions.commit_info import VACUUM_END, VACUUM_START, CommitInfo
from engine.errors import EngineError
from engine.log.commits import LogCommit

SPARED_FROM = "sparedFromMillis"
"""Parameter of VACUUM START: the start of the oldest known writer; younger files stay."""
_RETENTIONS = ("specifiedRetentionMillis", "defaultRetentionMillis")
_LONGEST_WAIT_S = 30.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0


class VacuumUnderWayError(EngineError, code="LAKE_VACUUM_UNDER_WAY", sqlstate="40001"):
    """A VACUUM with a short retention may be deleting files a commit was to add."""

    def __init__(self, table: str, version: int) -> None:
        super().__init__(
            f"A VACUUM of {table} began at version {version}, whose retention is shorter than this"
            " write is old, and has not said that it ended: it may be deleting files that were"
            " staged. Nothing was committed.",
            "Run it again. Keep VACUUM with a short retention away from tables that are being written.",
        )
        self.table, self.version = table, version


@dataclass
class VacuumsUnderWay:
    """VACUUMs begun but not ended by winning commits: versions, and the age of their files."""

    _under_way: dict[str, tuple[int, int]] = field(default_factory=dict)

    def meet(self, commit: LogCommit) -> None:
        """Process a winning commit, which may start or end a VACUUM."""
        if commit.operation == VACUUM_START:
            self._under_way[_key(commit)] = commit.version, _takes_before_ms(commit)
        elif commit.operation == VACUUM_END and self._under_way:
            key = _key(commit)
            self._under_way.pop(key if key in self._under_way else next(iter(self._under_way)))

    def find_vacuum(self, modified_ms: int) -> int | None:
        """Return the starting version of a VACUUM that may delete a file this old, or None."""
        takers = (
            version for version, before_ms in self._under_way.values() if modified_ms < before_ms
        )
        return next(takers, None)

    def __bool__(self) -> bool:
        return bool(self._under_way)


def pauses_s() -> Iterator[float]:
    """Yield the pauses in seconds between looks for a VACUUM's end, up to a total wait."""
    waited = 0.0
    for tries in itertools.count():
        pause = min(_FIRST_PAUSE_S * 2**tries, _LONGEST_PAUSE_S)
        waited += pause
        if waited > _LONGEST_WAIT_S:
            return
        yield pause


def _key(commit: LogCommit) -> str:
    """Return the key common to the start and end of one VACUUM by this engine."""
    txn_id = commit.commit_info.txn_id if commit.commit_info else None
    return (txn_id or "").rpartition(":")[0] or f"version {commit.version}"


def _takes_before_ms(commit: LogCommit) -> int:
    """Return the time limit of its deletions, in ms: older files go; 0 if its retention is unknown."""
    info = commit.commit_info or CommitInfo()
    given = info.operation_parameters or {}
    retention_ms = next(
        (ms for name in _RETENTIONS if (ms := _number(given.get(name))) is not None), None
    )
    if retention_ms is None:
        return 0
    began_ms = commit.timestamp_ms if info.timestamp is None else info.timestamp
    spared_ms = _number(given.get(SPARED_FROM))
    before_ms = began_ms - retention_ms
    return before_ms if spared_ms is None else min(before_ms, spared_ms)


def _number(value: object) -> int | None:
    try:
        return int(str(value))
    except ValueError:
        return None
