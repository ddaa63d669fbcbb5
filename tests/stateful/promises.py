"""Forbidden conflicts in a played history: those between two commands that cannot overlap."""

from collections.abc import Mapping
from functools import cache
from itertools import product

from engine.actions.files import AddCDCFile
from engine.conflict_facts import Verdict
from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.predict.forecast import conflict_matrix
from engine.conflicts.predict.sample_table import TableSetting
from engine.errors import ConflictError
from tests.stateful import commands as c
from tests.stateful.arrow_engine import Running
from tests.stateful.history import Played, Setup
from tests.stateful.typed_values import TYPES

INSERT, CHANGE, OPTIMIZE, ZORDER = (
    "INSERT (blind)",
    "UPDATE, DELETE, MERGE",
    "OPTIMIZE",
    "OPTIMIZE ZORDER BY",
)
_PLACES = tuple(product("ab", (None, *range(-1, 20))))


def check_promises(played: Played) -> None:
    """Raise AssertionError if commands conflicted that the matrix or their conditions exclude."""
    for number, error in played.aborted.items():
        if not isinstance(error, ConflictError) or number not in played.losers:
            continue
        loser = played.losers[number]
        version = error.conflict.winner.version or 0
        if version in played.scene.noted:
            assert isinstance(loser.command, c.Restore), f"{loser.command} lost to VACUUM: {error}"
            continue
        if version in played.scene.foreign:
            assert not isinstance(loser.command, c.Append), f"{loser.command} lost: {error}"
            continue
        if any(noted > loser.txn.read_version for noted in played.scene.noted):
            continue  # where VACUUM took what rows are told apart by, they conflict
        winner = played.landed[version]
        pair = group_of(loser.command, played.setup), group_of(winner.command, played.setup)
        told = f"{loser.command} lost to {winner.command}: {error}"
        assert _matrix(_build_setting(played.setup)).get(pair) != Verdict.NEVER, told
        assert _may_meet(loser, winner, played), told


def group_of(command: c.Command, setup: Setup) -> str | None:
    """Return a command's group in the matrix, or None if the matrix omits it."""
    match command:
        case c.Append():
            return INSERT
        case c.Optimize():
            traced = command.tagged or setup.row_tracking
            ordered = command.sort or setup.clustered
            return ZORDER if ordered else OPTIMIZE if traced else None
        case c.Reorg():
            return OPTIMIZE
        case c.Restore() | c.Alter():
            return None
    return CHANGE


def _build_setting(setup: Setup) -> TableSetting:
    return TableSetting(
        IsolationLevel(setup.level),
        vectors=setup.vectors is not False,
        partitioned=setup.partitioned,
        row_tracking=setup.row_tracking,
        clustered=setup.clustered,
    )


@cache
def _matrix(setting: TableSetting) -> Mapping[tuple[str | None, str | None], str]:
    return {(cell.current, cell.winner): cell.verdict for cell in conflict_matrix(setting)}


def _may_meet(loser: Running, winner: Running, played: Played) -> bool:
    """Return True if both may touch the same row, where rows decide and conditions are known.

    A loser may also meet appends that its winning commit has read.
    """
    mine, theirs = loser.command, winner.command
    by_rows = not played.setup.partitioned and played.setup.vectors is not False
    simple = isinstance(mine, c.Delete | c.Update) and isinstance(theirs, c.Delete | c.Update)
    if not (by_rows and simple and played.setup.level == "Serializable"):
        return True
    if any(where.typed and TYPES[where.typed].path for where in (mine.where, theirs.where)):
        return True  # fields of structs leave it to files
    if mine.rewrite or theirs.rewrite:
        return True
    if both_only_delete(loser, winner):
        return False  # the second finds the rows gone
    rows = [(part, x, 0, None) for part, x in _PLACES]
    selected = [row for row in rows if theirs.where.holds(row)]
    images = [theirs.image(row) for row in selected] if isinstance(theirs, c.Update) else []
    return any(mine.where.holds(row) for row in (*selected, *images))


def both_only_delete(loser: Running, winner: Running) -> bool:
    """Return whether both delete by vectors, the loser every match and without change files."""
    deletes = isinstance(loser.command, c.Delete) and isinstance(winner.command, c.Delete)
    promise = getattr(loser.command, "promise", None)
    promises = bool(loser.command.number % 3) if promise is None else promise
    feeds = any(isinstance(action, AddCDCFile) for action in loser.staged)
    return deletes and promises and not feeds
