"""What must be true of a history once it has been played."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence

from engine.actions.files import AddFile
from engine.conflicts.row_counts import physical_rows
from engine.log.commits import list_versions
from engine.log.paths import commit_path
from tests.stateful import commands as c
from tests.stateful.arrow_engine import Running, row_ids_of, state_of
from tests.stateful.elsewhere import check_elsewhere
from tests.stateful.history import History, Played, forget, play, without
from tests.stateful.promises import check_promises

_EVERYBODY = "HISTORIES" in os.environ
"""Whether duckdb reads every table, and not one in three."""
_SNAPSHOTS = 3
"""The newest of those that commands read are looked at for row ids: reading takes time."""


def check(played: Played, *, elsewhere: bool = True) -> None:
    """Raise AssertionError unless the table is that of a serial order that the level allows.

    Nor may a loser have left a trace, a pair have met that never does, a row id be shared, or
    another engine read other rows.
    """
    newest = played.table.snapshot()
    final = state_of(newest)
    _check_row_ids(played)
    _check_traces(played)
    check_promises(played)
    assert not c.breaks_constraint(final.rows, final.terms), f"{final.terms} broken: {final.rows}"
    landed = [played.landed[version] for version in sorted(played.landed)]
    level = newest.properties.isolation_level
    orders = [landed] if level == "Serializable" else _orders(landed)
    tried = 0
    for order in orders:
        tried += 1
        if _replayed(played.start, order) == final:
            if elsewhere:
                check_elsewhere(newest, final, by_duckdb=_EVERYBODY or newest.version % 3 == 0)
            return
    raise AssertionError(_difference(played.start, landed, final, tried))


def is_sound(history: History, *, elsewhere: bool = True) -> str | None:
    """None, or what is wrong."""
    played = None
    try:
        played = play(history)
        check(played, elsewhere=elsewhere)
    except AssertionError as error:
        return str(error)
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
            candidate = without(history, place)
            if is_sound(candidate) is not None:
                history, smaller = candidate, True
                break
    return history


def _check_traces(played: Played) -> None:
    """A loser is not in the log: no version of it, not its id, none of its files."""
    store = played.table.store
    versions = [v for v in list_versions(store) if v > 0]
    assert versions == sorted(played.landed), "a loser left a version in the log"
    log = b"".join(store.read(commit_path(version)) for version in versions)
    for loser in played.losers.values():
        names = {loser.txn.txn_id} | _new_files(loser)
        found = [name for name in names if name.encode() in log]
        assert not found, f"{loser.command} lost and left {found} in the log"


def _new_files(running: Running) -> set[str]:
    """The files that a command wrote."""
    snapshot = running.txn.snapshot
    if isinstance(running.command, c.Restore):
        return set()
    known = {add.path for add in snapshot.add_files()} if snapshot else set()
    return {each.path for each in running.staged if isinstance(each, AddFile)} - known


def _replayed(start: c.State, order: Sequence[Running]) -> c.State:
    state = start
    for each in order:
        state = each.command.apply(state)
    return state


def _orders(landed: list[Running]) -> Iterator[list[Running]]:
    """The history, the order that follows from who saw what, then every one that moves appends later."""
    yield landed
    yield _by_what_was_seen(landed)
    blind = [each for each in landed if isinstance(each.command, c.Append)]
    yield from _moved(landed, blind)


def _by_what_was_seen(landed: list[Running]) -> list[Running]:
    order = list(landed)
    for append in [each for each in landed if isinstance(each.command, c.Append)]:
        place = order.index(append)
        version = landed.index(append) + 1
        after = [
            i
            for i in range(place + 1, len(order))
            if not isinstance(order[i].command, c.Append | c.Optimize | c.Reorg)
            and order[i].txn.read_version < version
        ]
        if after:
            order.insert(max(after) + 1, append)
            order.pop(place)
    return order


def _moved(order: list[Running], appends: list[Running]) -> Iterator[list[Running]]:
    if not appends:
        yield order
        return
    first, *rest = appends
    place = order.index(first)
    others = order[:place] + order[place + 1 :]
    for later in range(place, len(others) + 1):
        yield from _moved([*others[:later], first, *others[later:]], rest)


def _check_row_ids(played: Played) -> None:
    """Where rows have ids no two share one, and a row that nobody changes keeps it."""
    if not played.setup.row_tracking:
        return
    newest = played.table.snapshot()
    read = [each.txn.snapshot for each in played.landed.values()]
    seen = {each.version: each for each in (*read, newest) if each is not None}
    known: dict[tuple[str, int], int] = {}
    for version in sorted(seen)[-_SNAPSHOTS:]:
        found = row_ids_of(seen[version])
        assert len(set(found.values())) == len(found), f"rows of version {version} share an id"
        moved = {row: (known[row], i) for row, i in found.items() if known.get(row, i) != i}
        assert not moved, f"version {version} gave rows other ids: {moved}"
        known |= found
    reached = -1
    for add in sorted(newest.add_files(), key=lambda each: each.base_row_id or 0):
        assert add.base_row_id is not None, f"{add.path} has no row ids"
        assert add.base_row_id > reached, f"{add.path} shares row ids with another file"
        reached = add.base_row_id + (physical_rows(add) or 0) - 1


def _difference(start: c.State, landed: list[Running], final: c.State, tried: int) -> str:
    expected = _replayed(start, landed)
    missing = {key: row for key, row in expected.rows.items() if final.rows.get(key) != row}
    surplus = {key: row for key, row in final.rows.items() if expected.rows.get(key) != row}
    story = "\n".join(
        f"  {each.txn.outcome.version if each.txn.outcome else '?'}"
        f" read {each.txn.read_version}: {each.command}"
        for each in landed
    )
    kinds = Counter(type(each.command).__name__ for each in landed)
    return (
        f"No allowed serial order (of {tried}) explains the table.\n{story}\n"
        f"a replay of the history has {missing}, the table has {surplus} ({dict(kinds)});"
        f" {expected.extra} {expected.terms} against {final.extra} {final.terms}"
    )
