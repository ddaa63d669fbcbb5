"""Histories: many commands interleaved on one table, and what must be true of the rows afterwards."""

import random
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from engine.conflicts.row_counts import physical_rows
from engine.errors import EngineError
from engine.log.commits import list_versions
from engine.schema.types import INTEGER, STRING, StructField, StructType
from engine.table import DeltaTable
from engine.transaction.observer import ObservedTransaction, TransactionObserver
from tests.stateful import commands as c
from tests.stateful.arrow_engine import Running, rows_of, run
from tests.stateful.weather import FakeClock, ForgetfulStore

SCHEMA = StructType(
    (
        StructField("u", STRING),
        StructField("part", STRING),
        StructField("x", INTEGER),
        StructField("n", INTEGER),
    )
)
SPAN = 8


@dataclass(frozen=True)
class Setup:
    """The table of a history."""

    level: str = "WriteSerializable"
    vectors: bool = True
    partitioned: bool = False
    row_tracking: bool = False
    stats: bool = True


@dataclass(frozen=True)
class Step:
    """Start the command `opens`, or commit it.

    `inside` commits another between validation and put; `fault` loses the store's answer to the put,
    which was "written" or "not written".
    """

    opens: c.Command | None = None
    commits: int | None = None
    inside: int | None = None
    fault: str | None = None


@dataclass(frozen=True)
class History:
    setup: Setup
    steps: tuple[Step, ...]


@dataclass
class Played:
    """What became of it: the commands by the version they landed at, the losers by their error."""

    table: DeltaTable
    landed: dict[int, Running] = field(default_factory=dict)
    lost: dict[int, EngineError] = field(default_factory=dict)
    start: c.Rows = field(default_factory=dict)


def play(history: History) -> Played:
    table = create(history.setup, f"memory://histories/{uuid.uuid4()}")
    store = ForgetfulStore(table.store)
    played = Played(DeltaTable(store, clock=FakeClock()))
    opened: dict[int, Running] = {}
    for step in history.steps:
        if step.opens is not None:
            opened[step.opens.number] = run(step.opens, played.table, stats=history.setup.stats)
        elif step.commits in opened:
            inside = opened.pop(step.inside, None) if step.inside != step.commits else None
            store.fault = step.fault
            _commit(opened.pop(step.commits), played, inside)
    return played


def forget(played: Played) -> None:
    """Leave nothing of the table in memory."""
    store = played.table.store
    for each in list(store.list_all()):
        store.delete(each.path)


def check(played: Played) -> None:
    """Raise AssertionError unless the rows are those of a serial order that the level allows."""
    final = rows_of(played.table.snapshot())
    _check_row_ids(played.table)
    versions = [v for v in list_versions(played.table.store) if v > 0]
    assert versions == sorted(played.landed), "a loser left a trace in the log"
    landed = [played.landed[version] for version in sorted(played.landed)]
    level = played.table.snapshot().properties.isolation_level
    orders = [landed] if level == "Serializable" else _orders(landed)
    tried = 0
    for order in orders:
        tried += 1
        if _replayed(order) == final:
            return
    raise AssertionError(_difference(landed, final, tried))


def is_sound(history: History) -> str | None:
    """None, or what is wrong."""
    played = None
    try:
        played = play(history)
        check(played)
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
        for i in range(len(history.steps)):
            steps = history.steps[:i] + history.steps[i + 1 :]
            candidate = History(history.setup, steps)
            if is_sound(candidate) is not None:
                history, smaller = candidate, True
                break
    return history


def generate(seed: int, most: int = 8) -> History:
    """The history of a seed, of at most so many interleaved commands."""
    dice = random.Random(seed)  # noqa: S311 - a seed reproduces a history
    return History(_setup(dice), tuple(_steps(dice, most)))


def _setup(dice: random.Random) -> Setup:
    kind = dice.choice(["rows", "rows", "rows", "tracked", "files", "partitioned"])
    return Setup(
        level=dice.choice(["Serializable", "WriteSerializable"]),
        vectors=kind != "files",
        partitioned=kind == "partitioned",
        row_tracking=kind == "tracked",
        stats=dice.random() < 0.6,
    )


def _steps(dice: random.Random, most: int) -> Iterator[Step]:
    numbers = count(1)
    for _ in range(dice.randint(1, 3)):
        number = next(numbers)
        yield Step(opens=_append(dice, number))
        yield Step(commits=number)
    opened: list[int] = []
    for _ in range(dice.randint(max(3, most - 5), most)):
        number = next(numbers)
        yield Step(opens=_command(dice, number))
        opened.append(number)
        while opened and dice.random() < 0.35:
            yield _closing(dice, opened)
    while opened:
        yield _closing(dice, opened)


def _closing(dice: random.Random, opened: list[int]) -> Step:
    first = opened.pop(dice.randrange(len(opened)))
    inside = None
    if opened and dice.random() < 0.15:
        inside = opened.pop(dice.randrange(len(opened)))
    fault = dice.choice(["written", "not written"]) if dice.random() < 0.1 else None
    return Step(commits=first, inside=inside, fault=fault)


def _command(dice: random.Random, number: int) -> c.Command:  # noqa: PLR0911 - one a kind
    kind = dice.choices(
        ["append", "delete", "update", "merge", "select", "replace", "optimize", "restore"],
        [5, 7, 6, 4, 2, 1, 5, 2],
    )[0]
    match kind:
        case "append":
            return _append(dice, number)
        case "delete":
            return c.Delete(number, _range(dice), dice.random() < 0.2)
        case "update":
            return c.Update(number, _range(dice), dice.randrange(SPAN), dice.random() < 0.2)
        case "merge":
            keys = tuple(dice.sample(range(SPAN), dice.randint(1, 2)))
            below = dice.randrange(3) if dice.random() < 0.2 else None
            return c.Merge(number, keys, dice.choice(["update", "delete", "nothing"]), below)
        case "select":
            return c.InsertSelect(number, _range(dice))
        case "replace":
            where = _range(dice)
            return c.ReplaceWhere(number, where, ((where.part or "a", where.low),))
        case "restore":
            return c.Restore(number, dice.randint(1, 3))
        case _:
            picks = tuple(dice.randrange(6) for _ in range(dice.randint(1, 4)))
            return c.Optimize(number, picks, dice.random() < 0.25, dice.random() < 0.9)


def _append(dice: random.Random, number: int) -> c.Append:
    values = tuple((dice.choice("ab"), dice.randrange(SPAN)) for _ in range(dice.randint(1, 5)))
    return c.Append(number, values)


def _range(dice: random.Random) -> c.Range:
    low = dice.randrange(SPAN)
    part = dice.choice("ab") if dice.random() < 0.3 else None
    return c.Range(low, low + dice.choice([1, 1, 2, 4]), part)


def create(setup: Setup, uri: str) -> DeltaTable:
    """An empty table as a history wants it."""
    properties = {
        "delta.isolationLevel": setup.level,
        "delta.enableDeletionVectors": str(setup.vectors).lower(),
    }
    if setup.row_tracking:
        properties["delta.enableRowTracking"] = "true"
    partitions = ["part"] if setup.partitioned else []
    return DeltaTable.create(uri, SCHEMA, partitions, properties=properties)


class _Inside(TransactionObserver):
    """Commits another transaction between this one's validation and its put, once."""

    def __init__(self, played: Played, other: Running) -> None:
        self._played, self._other = played, other
        self._done = False

    def before_commit(self, _txn: ObservedTransaction, _attempt_version: int) -> None:
        if not self._done:
            self._done = True
            _commit(self._other, self._played, None)


def _commit(running: Running, played: Played, inside: Running | None) -> None:
    txn = running.txn
    if inside is not None:
        txn.observe(_Inside(played, inside))
    try:
        version = txn.commit(running.operation)
    except EngineError as error:
        played.lost[running.command.number] = error
        return
    assert txn.outcome is not None
    if txn.outcome.committed:
        played.landed[version] = running


def _replayed(order: Sequence[Running]) -> c.Rows:
    rows: c.Rows = {}
    for each in order:
        command = each.command
        rows = dict(command.restored) if isinstance(command, c.Restore) else command.apply(rows)
    return rows


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
            if not isinstance(order[i].command, c.Append | c.Optimize)
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
    without = order[:place] + order[place + 1 :]
    for later in range(place, len(without) + 1):
        yield from _moved([*without[:later], first, *without[later:]], rest)


def _check_row_ids(table: DeltaTable) -> None:
    """No two files of a table with row tracking share a row id."""
    if not table.snapshot().properties.row_tracking:
        return
    reached = -1
    for add in sorted(table.snapshot().add_files(), key=lambda each: each.base_row_id or 0):
        assert add.base_row_id is not None, f"{add.path} has no row ids"
        assert add.base_row_id > reached, f"{add.path} shares row ids with another file"
        reached = add.base_row_id + (physical_rows(add) or 0) - 1


def _difference(landed: list[Running], final: c.Rows, tried: int) -> str:
    expected = _replayed(landed)
    missing = {key: row for key, row in expected.items() if final.get(key) != row}
    surplus = {key: row for key, row in final.items() if expected.get(key) != row}
    story = "\n".join(
        f"  {each.txn.outcome.version if each.txn.outcome else '?'}"
        f" read {each.txn.read_version}: {each.command}"
        for each in landed
    )
    kinds = Counter(type(each.command).__name__ for each in landed)
    return (
        f"No allowed serial order (of {tried}) explains the rows.\n{story}\n"
        f"a replay of the history has {missing}, the table has {surplus} ({dict(kinds)})"
    )
