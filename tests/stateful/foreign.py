"""Commits of another engine, between this engine's reads and commits.

The other engine reads and commits at once, at its step of a history: its commands have no other
possible position in the order.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from tests.stateful import commands as c
from tests.stateful.arrow_files import extra_of
from tests.stateful.generator import generate
from tests.stateful.happenings import Happening, Scene
from tests.stateful.history import History, Setup, Step
from tests.stateful.surroundings import add_surroundings

_DONE_ELSEWHERE = (
    c.Append,
    c.Delete,
    c.Update,
    c.Merge,
    c.Overwrite,
    c.ReplaceWhere,
    c.Truncate,
    c.Optimize,
)


class ForeignEngine(Protocol):
    """Another engine's commands on tables on disk; a refused command changes nothing."""

    def do(self, command: c.Command, place: str, extra: str | None) -> None:
        """Run a command on a table; `extra` is the column that may be added and dropped."""
        ...

    def can(self, setup: Setup) -> bool:
        """Return True if the engine can write tables of this kind."""
        ...


@dataclass(frozen=True)
class ForeignCommit(Happening):
    """The other engine does a command."""

    command: c.Command
    engine: ForeignEngine

    def happen(self, scene: Scene) -> None:
        scene.record.follow()
        before = scene.record.newest.number
        names = scene.table.snapshot().schema.names
        self.engine.do(self.command, scene.table.uri, extra_of(names))
        scene.record.follow()
        for version in range(before + 1, scene.record.newest.number + 1):
            scene.foreign[version] = self.command


def foreign_history(seed: int, engine: ForeignEngine, most: int = 8) -> History:
    """The history of a seed in which another engine does some of the commands."""
    dice = random.Random(f"foreign {seed}")  # noqa: S311 - a seed reproduces a history
    seeds = (seed + 100_000 * turn for turn in range(1_000))
    history = next(h for h in map(_plain(most), seeds) if engine.can(h.setup))
    return History(history.setup, tuple(_steps(dice, history, engine)))


def _plain(most: int) -> Callable[[int], History]:
    def make(seed: int) -> History:
        history = add_surroundings(generate(seed, most), seed)
        setup = replace(history.setup, typed="")
        return History(setup, tuple(map(_simple, history.steps)))

    return make


def _simple(step: Step) -> Step:
    """Return the step without the typed column, and without features that other engines do not write."""
    command = step.opens
    where = getattr(command, "where", None)
    if where is not None:
        command = replace(command, where=replace(where, typed=""))
    elif isinstance(command, c.Alter) and command.what == "feature":
        command = replace(command, what="set", value="a")
    return replace(step, opens=command)


def _steps(dice: random.Random, history: History, engine: ForeignEngine) -> Iterator[Step]:
    """Yield the steps; the other engine runs some commands where they would commit, or inside the next commit."""
    elsewhere: dict[int, Happening] = {}
    waiting: list[Happening] = []
    for step in history.steps:
        number = step.commits if step.opens is None else step.opens.number
        chance = 0.15 if isinstance(step.opens, c.Append) else 0.5
        if isinstance(step.opens, _DONE_ELSEWHERE) and dice.random() < chance:
            elsewhere[step.opens.number] = ForeignCommit(step.opens, engine)
        elif number in elsewhere:
            happening = elsewhere.pop(number)
            if dice.random() < 0.4:
                waiting.append(happening)
            else:
                yield Step(before=(*step.before, happening))
        elif step.commits is not None and step.inside not in elsewhere:
            yield replace(step, within=(*step.within, *waiting))
            waiting.clear()
        else:
            yield replace(step, inside=None)
    yield Step(before=tuple(waiting))
