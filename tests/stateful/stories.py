"""Handmade histories, step by step."""

from tests.stateful import commands as c
from tests.stateful.history import History, Played, Setup, Step, play
from tests.stateful.judge import check

ROWS = (("a", 0), ("a", 1), ("a", 2), ("a", 3), ("a", 4), ("a", 5))


def story(setup: Setup, *steps: c.Command | int | tuple[int, int]) -> History:
    """Return a history: commands are opened, numbers commit them, pairs commit the second inside the first."""
    made = []
    for step in steps:
        if isinstance(step, c.Command):
            made.append(Step(opens=step))
        elif isinstance(step, tuple):
            made.append(Step(commits=step[0], inside=step[1]))
        else:
            made.append(Step(commits=step))
    return History(setup, tuple(made))


def tell_story(setup: Setup, *steps: c.Command | int | tuple[int, int]) -> Played:
    played = play(story(setup, *steps))
    check(played)
    return played


def list_aborts(played: Played) -> dict[int, str]:
    return {number: type(error).__name__ for number, error in played.aborted.items()}
