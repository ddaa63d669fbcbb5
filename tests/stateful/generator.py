"""Generated histories, each determined by a seed."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count

from tests.stateful import commands as c
from tests.stateful.history import History, Setup, Step

SPAN = 8
Maker = Callable[[random.Random, int, Setup], c.Command]


def generate(seed: int, most: int = 8) -> History:
    """Return the history of a seed, with a maximum number of interleaved commands."""
    dice = random.Random(seed)  # noqa: S311 - a seed reproduces a history
    setup = setup_of(dice)
    return History(setup, tuple(iter_steps(dice, most, setup)))


def setup_of(dice: random.Random) -> Setup:
    """A table."""
    kind = dice.choice(
        ["rows", "rows", "rows", "tracked", "files", "partitioned", "clustered", "clustered"]
    )
    clustered = kind == "clustered"
    vectors: bool | None = kind != "files"
    if clustered or kind == "partitioned":
        vectors = dice.choice([True, True, None if clustered else True, False])
    return Setup(
        level=dice.choice(["Serializable", "WriteSerializable"]),
        vectors=vectors,
        partitioned=kind == "partitioned",
        row_tracking=kind == "tracked" or (clustered and dice.random() < 0.7),
        stats=dice.random() < 0.6,
        clustered=clustered,
        mapped=dice.random() < 0.3,
        extra=dice.random() < 0.7,
    )


def iter_steps(dice: random.Random, most: int, setup: Setup, first: int = 1) -> Iterator[Step]:
    """Yield some appends, then steps of a maximum number of commands, numbered from the given start."""
    numbers = count(first)
    for _ in range(dice.randint(1, 3)):
        number = next(numbers)
        yield Step(opens=_append(dice, number, setup))
        yield Step(commits=number)
    opened: list[int] = []
    for _ in range(dice.randint(max(3, most - 5), most)):
        number = next(numbers)
        yield Step(opens=_command(dice, number, setup))
        opened.append(number)
        while opened and dice.random() < 0.35:
            yield _close_step(dice, opened)
    while opened:
        yield _close_step(dice, opened)


def _close_step(dice: random.Random, opened: list[int]) -> Step:
    first = opened.pop(dice.randrange(len(opened)))
    inside = None
    if opened and dice.random() < 0.15:
        inside = opened.pop(dice.randrange(len(opened)))
    fault = dice.choice(["written", "not written"]) if dice.random() < 0.1 else None
    return Step(commits=first, inside=inside, fault=fault)


def _command(dice: random.Random, number: int, setup: Setup) -> c.Command:
    kinds = [maker for maker, weight in _MAKERS for _ in range(weight)]
    return dice.choice(kinds)(dice, number, setup)


def _append(dice: random.Random, number: int, _setup: Setup) -> c.Append:
    return c.Append(number, _values(dice))


def _delete(dice: random.Random, number: int, _setup: Setup) -> c.Command:
    return c.Delete(number, _range(dice), dice.random() < 0.2)


def _update(dice: random.Random, number: int, _setup: Setup) -> c.Command:
    part = dice.choice("ab") if dice.random() < 0.15 else None
    return c.Update(number, _range(dice), _value(dice), dice.random() < 0.2, part=part)


def _merge(dice: random.Random, number: int, _setup: Setup) -> c.Command:
    actions = ["update", "delete", "nothing", "shift"]
    matched = dice.choice(actions)
    return c.Merge(
        number,
        keys=tuple(dice.sample(range(SPAN), dice.randint(1, 2))),
        matched=matched,
        unmatched_below=dice.randrange(3) if dice.random() < 0.2 else None,
        otherwise=dice.choice(["delete", "update"]),
        first=(dice.randrange(SPAN), dice.choice(actions)) if dice.random() < 0.3 else None,
        inserts=matched == "nothing" or dice.random() < 0.8,
    )


def _select(dice: random.Random, number: int, _setup: Setup) -> c.Command:
    return c.InsertSelect(number, _range(dice))


def _replace(dice: random.Random, number: int, setup: Setup) -> c.Command:
    """Generate an overwrite by a condition, by whole partitions, or of everything."""
    values = _values(dice)[:2]
    if dice.random() < 0.3:
        partitions = setup.partitioned and dice.random() < 0.7
        return c.Overwrite(number, values, partitions)
    where = _range(dice)
    if setup.partitioned and dice.random() < 0.5:
        where = c.Range(0, SPAN + 9, where.part or "a")
    where = replace(where, negated=False)  # what comes must match
    return c.ReplaceWhere(number, where, ((where.part or "a", where.low),))


def _truncate(_dice: random.Random, number: int, _setup: Setup) -> c.Command:
    return c.Truncate(number)


def _optimize(dice: random.Random, number: int, _setup: Setup) -> c.Command:
    picks = tuple(dice.randrange(6) for _ in range(dice.randint(1, 4)))
    return c.Optimize(number, picks, dice.random() < 0.25, dice.random() < 0.9)


def _reorg(_dice: random.Random, number: int, _setup: Setup) -> c.Command:
    return c.Reorg(number)


def _restore(dice: random.Random, number: int, _setup: Setup) -> c.Command:
    return c.Restore(number, dice.randint(1, 3))


def _alter(dice: random.Random, number: int, setup: Setup) -> c.Command:
    what = ["set", "set", "feature", "constrain"]
    what += [] if setup.extra else ["add", "add"]
    what += ["add", "drop", "rename"] if setup.mapped else []
    what += ["cluster"] if setup.clustered else []
    kind = dice.choice(what)
    values = {
        "set": dice.choice("ab"),
        "feature": dice.choice(c.FEATURES),
        "constrain": str(dice.randrange(2, SPAN + 4)),
        "cluster": dice.choice("xn"),
    }
    return c.Alter(number, kind, values.get(kind, ""))


_MAKERS: tuple[tuple[Maker, int], ...] = (
    (_append, 10),
    (_delete, 14),
    (_update, 12),
    (_merge, 9),
    (_select, 4),
    (_replace, 3),
    (_truncate, 1),
    (_optimize, 10),
    (_reorg, 3),
    (_restore, 4),
    (_alter, 3),
)


def _value(dice: random.Random) -> int | None:
    return None if dice.random() < 0.1 else dice.randrange(SPAN)


def _values(dice: random.Random) -> tuple[tuple[str, int | None], ...]:
    return tuple((dice.choice("ab"), _value(dice)) for _ in range(dice.randint(1, 5)))


def _range(dice: random.Random) -> c.Range:
    low = dice.randrange(SPAN)
    part = dice.choice("ab") if dice.random() < 0.3 else None
    return c.Range(
        low,
        low + dice.choice([1, 1, 2, 4]),
        part,
        nulls=dice.random() < 0.15,
        negated=dice.random() < 0.08,
    )
