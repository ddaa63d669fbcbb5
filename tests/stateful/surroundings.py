"""The surroundings of a generated history: maintenance, other columns, and other processes.

They are drawn separately, so that a seed's commands are the same with and without them.
"""

import random
from collections.abc import Iterator
from dataclasses import replace

from tests.stateful import commands as c
from tests.stateful.generator import generate
from tests.stateful.happenings import Checkpoint, Compact, Happening, Look, VacuumElsewhere, Wait
from tests.stateful.history import History, Setup, Step
from tests.stateful.typed_values import TYPES

_V2 = {"delta.checkpointPolicy": "v2", "delta.feature.v2Checkpoint": "supported"}
_TIDY, _VACUUMED = "tidy", "vacuumed"


def history_of(seed: int, most: int = 8) -> History:
    """Return the history of a seed with a maximum number of commands, and its surroundings."""
    return add_surroundings(generate(seed, most), seed)


def add_surroundings(history: History, seed: int) -> History:
    """The history of a seed, in surroundings of that seed."""
    dice = random.Random(f"around {seed}")  # noqa: S311 - a seed reproduces a history
    typed = dice.choice(list(TYPES)) if dice.random() < 0.4 else ""
    properties = properties_of(dice)
    setup = replace(history.setup, typed=typed, properties=properties)
    mood = dice.choice(["", "", "", _TIDY, _TIDY, _VACUUMED])
    steps = tuple(_steps(dice, history, setup, mood))
    return History(setup, steps)


def properties_of(dice: random.Random) -> tuple[tuple[str, str], ...]:
    """Return a table's log settings, and its change feed setting."""
    properties: dict[str, str] = {}
    if dice.random() < 0.4:
        properties["delta.checkpointInterval"] = str(dice.choice([1, 2, 3, 4]))
        properties |= _V2 if dice.random() < 0.5 else {}
        statistics = dice.choice(["json", "struct", "both"])
        properties["delta.checkpoint.writeStatsAsJson"] = str(statistics != "struct").lower()
        properties["delta.checkpoint.writeStatsAsStruct"] = str(statistics != "json").lower()
    if dice.random() < 0.25:
        properties["delta.logCompactionInterval"] = str(dice.choice([2, 3, 4]))
    if dice.random() < 0.3:
        properties["delta.enableChangeDataFeed"] = "true"
    return tuple(properties.items())


def _steps(dice: random.Random, history: History, setup: Setup, mood: str) -> Iterator[Step]:
    begun: list[int] = []
    for step in history.steps:
        if step.opens is not None:
            begun.append(step.opens.number)
        before = _happenings(dice, mood, begun, 0.3)
        within = _happenings(dice, mood, begun, 0.15) if step.commits is not None else ()
        opens = _type_condition(dice, step.opens, setup.typed)
        yield replace(step, opens=opens, before=before, within=within)


def _type_condition(dice: random.Random, command: c.Command | None, typed: str) -> c.Command | None:
    where = getattr(command, "where", None)
    if command is None or where is None or not typed or dice.random() < 0.2:
        return command
    return replace(command, where=replace(where, typed=typed))  # type: ignore[call-arg]


def _happenings(
    dice: random.Random, mood: str, begun: list[int], chance: float
) -> tuple[Happening, ...]:
    if not mood or dice.random() > chance:
        return ()
    if mood == _VACUUMED and dice.random() < 0.6:
        hours = dice.choice([0, 1, 24, 168, 720])
        return Wait(dice.choice([0, 0, 2, 30, 200])), VacuumElsewhere(hours, dice.random() < 0.3)
    return (_draw_tidying(dice, begun),)


def _draw_tidying(dice: random.Random, begun: list[int]) -> Happening:
    match dice.randrange(5):
        case 0:
            return Checkpoint(dice.choice([0, *begun]))
        case 1:
            return Compact(dice.randint(2, 5), dice.choice([0, 0, 1]))
        case 2:
            return Wait(dice.choice([1, 24 * 8, 24 * 40]))
    return Look(dice.randrange(2), dice.choice([0, 0, 1, 3]))
