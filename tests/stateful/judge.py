"""Judgment of a played history: the conditions that it must satisfy."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.actions.files import AddFile
from engine.conflicts.decide.row_access import physical_rows
from engine.errors import EngineError
from tests.stateful import commands as c
from tests.stateful.arrow_engine import Running, row_ids_of, state_of
from tests.stateful.elsewhere import check_elsewhere
from tests.stateful.history import History, Played, drop_step, forget, play
from tests.stateful.promises import check_promises
from tests.stateful.properties import EVERYTHING, check_properties

_SNAPSHOTS = 3
"""The newest of those that commands read are looked at for row ids: reading takes time."""


def check(
    played: Played, *, elsewhere: bool = True, versions: bool = True, promises: bool = True
) -> None:
    """Raise AssertionError unless the table results from a serial order that the level permits.

    Nor may a loser have left a trace, a pair have met that never does, a row id be shared, a version
    read differently in another way, or another engine read other rows. Without `promises` pairs may
    meet that never do.
    """
    played.scene.record.follow()
    newest = played.table.snapshot()
    final = state_of(newest)
    _check_traces(played)
    _check_times(played)
    _check_row_ids(played)
    if promises:
        check_promises(played)
    if versions:
        check_properties(played)
    assert not c.breaks_constraint(final.rows, final.terms), f"{final.terms} broken: {final.rows}"
    landed = _list_landed(played)
    level = newest.properties.isolation_level
    orders = [landed] if level == "Serializable" else _orders(landed)
    tried = 0
    for order in orders:
        tried += 1
        if _replay(played.start, order) == final:
            if elsewhere:
                check_elsewhere(newest, final, by_duckdb=EVERYTHING or newest.version % 3 == 0)
            return
    raise AssertionError(_difference(played.start, landed, final, tried))


def is_sound(
    history: History, *, elsewhere: bool = True, versions: bool = True, place: str | None = None
) -> str | None:
    """Return the fault of a history, or None. Without a place, play it in memory."""
    played = None
    try:
        played = play(history, place)
        check(played, elsewhere=elsewhere, versions=versions)
    except AssertionError as error:
        return str(error)
    except EngineError as error:
        return repr(error)
    finally:
        if played is not None:
            forget(played)
    return None


def shrink(history: History) -> History:
    """The same failure with as few steps as can be had by leaving steps out."""
    smaller = True
    while smaller:
        smaller = False
        for place in range(len(history.steps)):
            candidate = drop_step(history, place)
            if is_sound(candidate) is not None:
                history, smaller = candidate, True
                break
    return history


def _check_traces(played: Played) -> None:
    """A loser is not in the log: no version of it, not its id, none of its files."""
    versions = played.scene.record.versions[played.base_version + 1 :]
    landed = sorted({*played.landed, *played.scene.noted, *played.scene.foreign})
    assert [version.number for version in versions] == landed, "a loser left a version in the log"
    log = b"".join(version.text for version in versions)
    for loser in played.losers.values():
        names = {loser.txn.txn_id} | _new_files(loser)
        left = [name for name in names if name.encode() in log]
        assert not left, f"{loser.command} lost and left {left} in the log"


def _check_times(played: Played) -> None:
    """A commit says one time, its own and that of all that it removed; times rise."""
    before_ms = 0
    for version in sorted(played.landed):
        lines = map(json.loads, played.scene.record.versions[version].text.splitlines())
        actions = [(kind, action) for line in lines for kind, action in line.items()]
        told_ms = next(action["timestamp"] for kind, action in actions if kind == "commitInfo")
        gone_ms = {action.get("deletionTimestamp") for kind, action in actions if kind == "remove"}
        assert gone_ms <= {told_ms}, f"version {version} of {told_ms} removes files at {gone_ms}"
        assert told_ms > before_ms, f"version {version} is of {told_ms}, after {before_ms}"
        before_ms = told_ms


def _new_files(running: Running) -> set[str]:
    """The files that a command wrote."""
    snapshot = running.txn.snapshot
    if isinstance(running.command, c.Restore):
        return set()
    live = {add.path for add in snapshot.add_files()} if snapshot else set()
    return {action.path for action in running.staged if isinstance(action, AddFile)} - live


@dataclass(frozen=True)
class _Landed:
    """A command in the history of a table: its version, the one it read, if its order is not fixed."""

    command: c.Command
    version: int
    read_version: int
    is_blind_append: bool = False


def _list_landed(played: Played) -> list[_Landed]:
    """The commands that changed the table, in the order of its versions, other engines' too."""
    own = [
        _Landed(
            running.command,
            version,
            running.txn.read_version,
            isinstance(running.command, c.Append),
        )
        for version, running in played.landed.items()
    ]
    others = [
        _Landed(command, version, version - 1) for version, command in played.scene.foreign.items()
    ]
    return sorted([*own, *others], key=lambda write: write.version)


def _replay(start: c.State, order: Sequence[_Landed]) -> c.State:
    state = start
    for write in order:
        state = write.command.apply(state)
    return state


def _orders(landed: list[_Landed]) -> Iterator[list[_Landed]]:
    """Yield the history's order, the order implied by its reads, then every order with later appends."""
    yield landed
    yield _order_by_reads(landed)
    blind = [write for write in landed if write.is_blind_append]
    yield from _iter_orders(landed, blind)


def _order_by_reads(landed: list[_Landed]) -> list[_Landed]:
    order = list(landed)
    for append in [write for write in landed if write.is_blind_append]:
        place = order.index(append)
        after = [
            i
            for i in range(place + 1, len(order))
            if not order[i].is_blind_append
            and not isinstance(order[i].command, c.Optimize | c.Reorg)
            and order[i].read_version < append.version
        ]
        if after:
            order.insert(max(after) + 1, append)
            order.pop(place)
    return order


def _iter_orders(order: list[_Landed], appends: list[_Landed]) -> Iterator[list[_Landed]]:
    if not appends:
        yield order
        return
    first, *rest = appends
    place = order.index(first)
    others = order[:place] + order[place + 1 :]
    for later in range(place, len(others) + 1):
        yield from _iter_orders([*others[:later], first, *others[later:]], rest)


def _check_row_ids(played: Played) -> None:
    """Check that no two rows share a row id, and that an unchanged row keeps its id."""
    if not played.setup.row_tracking:
        return
    newest = played.table.snapshot()
    read = [running.txn.snapshot for running in played.landed.values()]
    whole = {
        version.number for version in played.scene.record.versions if played.scene.is_whole(version)
    }
    seen = {
        snapshot.version: snapshot
        for snapshot in (*read, newest)
        if snapshot and snapshot.version in whole
    }
    seen_ids: dict[tuple[str, int], int] = {}
    for version in sorted(seen)[-_SNAPSHOTS:]:
        ids = row_ids_of(seen[version])
        assert len(set(ids.values())) == len(ids), f"rows of version {version} share an id"
        moved = {row: (seen_ids[row], i) for row, i in ids.items() if seen_ids.get(row, i) != i}
        assert not moved, f"version {version} gave rows other ids: {moved}"
        seen_ids |= ids
    reached = -1
    for add in sorted(newest.add_files(), key=lambda add_file: add_file.base_row_id or 0):
        assert add.base_row_id is not None, f"{add.path} has no row ids"
        assert add.base_row_id > reached, f"{add.path} shares row ids with another file"
        reached = add.base_row_id + (physical_rows(add) or 0) - 1


def _difference(start: c.State, landed: list[_Landed], final: c.State, tried: int) -> str:
    expected = _replay(start, landed)
    missing = {key: row for key, row in expected.rows.items() if final.rows.get(key) != row}
    surplus = {key: row for key, row in final.rows.items() if expected.rows.get(key) != row}
    story = "\n".join(
        f"  {write.version} read {write.read_version}: {write.command}" for write in landed
    )
    kinds = Counter(type(write.command).__name__ for write in landed)
    return (
        f"No allowed serial order (of {tried}) explains the table.\n{story}\n"
        f"a replay of the history has {missing}, the table has {surplus} ({dict(kinds)});"
        f" {expected.extra} {expected.terms} against {final.extra} {final.terms}"
    )
