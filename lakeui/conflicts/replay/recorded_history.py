"""A table's recent history as the engine replays it, from the mirrored commit texts."""

from dataclasses import dataclass

from engine.actions.codec import decode_lines
from engine.actions.commit_info import CommitInfo
from engine.conflicts.candidates import counts_appends
from engine.conflicts.replay_history import (
    PassedOver,
    RecordedTable,
    find_passed_over,
)
from engine.conflicts.transaction_info import WinningCommit
from engine.errors import EngineError
from engine.schema.column_mapping import column_mapping_mode
from engine.schema.types import StructType, parse_schema
from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.assessment import level_of

MAX_VERSIONS = 500


@dataclass(frozen=True, slots=True)
class History:
    """The replayable commits of a range, and the versions that are not."""

    table: RecordedTable
    commits: tuple[WinningCommit, ...]
    missing: frozenset[int]


def find_out_of_order(
    table: Table, first: int, last: int, history: History | None = None
) -> tuple[PassedOver, ...]:
    """Return out-of-order versions with the appends that they passed over, in stored commits.

    `history` is that range if it has been read already.
    """
    history = history or load_recorded_history(table, first, last)
    serializable = {
        commit.version
        for commit in history.commits
        if counts_appends(level_of(commit.info.isolation_level, table))
    }
    pairs = find_passed_over(history.commits, history.table)
    return tuple(pair for pair in pairs if pair.version not in serializable)


def latest_versions(table: Table, count: int) -> tuple[int, int]:
    """Return the last `count` versions, as first and last."""
    last = table.version or 0
    return max(0, last - min(count, MAX_VERSIONS) + 1), last


def clamp_range(table: Table, first: int, last: int) -> tuple[int, int]:
    """Return a range cut to existing versions, and to its latest `MAX_VERSIONS`."""
    last = min(last, table.version or 0)
    return max(first, last - MAX_VERSIONS + 1, 0), last


def load_recorded_history(table: Table, first: int, last: int) -> History:
    """Load the commits of a range from the mirror's texts, decoded as the engine does it."""
    first, last = clamp_range(table, first, last)
    rows = list(table.commits.filter(version__range=(first, last)).order_by("version"))
    read = {row.version: decode_commit(row) for row in rows}
    here = {version: commit for version, commit in read.items() if commit is not None}
    recorded = build_recorded_table(table)
    missing = frozenset(range(first, last + 1)) - here.keys() if rows else frozenset()
    return History(recorded, tuple(here.values()), missing)


def build_recorded_table(table: Table) -> RecordedTable:
    """Return the table for the engine's replays; without columns if its schema cannot be read."""
    return RecordedTable(
        table.name,
        _schema(table),
        tuple(table.partition_columns),
        column_mapping_mode(table.properties),
    )


def _schema(table: Table) -> StructType:
    try:
        return parse_schema(table.schema)
    except EngineError:
        return StructType(())


def decode_commit(row: Commit) -> WinningCommit | None:
    """Decode a mirrored commit; None if its text is not stored completely."""
    return decode_commit_text(row.version, row.raw, row.raw_bytes)


def decode_commit_text(version: int, raw: str, raw_bytes: int) -> WinningCommit | None:
    """Decode a commit of `raw_bytes` from its text; None if that is cut, or cannot be read."""
    text = raw.encode("utf-8")
    if not text or len(text) < raw_bytes:
        return None
    try:
        actions = tuple(decode_lines(text))
    except EngineError:
        return None
    info = next((action for action in actions if isinstance(action, CommitInfo)), None)
    return WinningCommit(version=version, actions=actions, info=info or CommitInfo())
