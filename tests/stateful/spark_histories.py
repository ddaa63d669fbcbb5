"""Generated histories of commands that the model's executor and the operations run alike."""

from dataclasses import replace

from tests.stateful import commands as c
from tests.stateful.history import History, Played, Step

EVERY_FILE = tuple(range(60))


def align_executors(history: History) -> History:
    """The history in commands that both executors do to the same files.

    Spark always writes statistics, and clusters new files only. RESTORE is left out: it counts
    versions, of which an OPTIMIZE that had nothing to do makes none. A command that gives up at a
    constraint loses on Spark.
    """
    setup = replace(history.setup, stats=True, clustered=False)
    return History(setup, tuple(_step(step) for step in history.steps))


def _step(step: Step) -> Step:
    command = step.opens
    if isinstance(command, c.Delete | c.Update):
        command = replace(command, rewrite=False, promise=True)
    elif isinstance(command, c.Restore):
        command = c.Optimize(command.number, EVERY_FILE, least=2)
    elif isinstance(command, c.Optimize):
        command = replace(command, picks=EVERY_FILE, tagged=True, least=2)
    elif isinstance(command, c.Alter) and command.what in {"constrain", "cluster"}:
        command = replace(command, what="set")
    return replace(step, opens=command)


def outcome(played: Played) -> dict[int, str]:
    """The version's place among changes of data, or the exception, by the command's number."""
    changes = [played.landed[v] for v in sorted(played.landed)]
    landed = [change for change in changes if not isinstance(change.command, c.Optimize | c.Reorg)]
    outcomes = {running.command.number: f"landed {i}" for i, running in enumerate(landed)}
    lost = {number: error for number, error in played.aborted.items() if not _idle(played, number)}
    return outcomes | {number: type(error).__name__ for number, error in lost.items()}


def _idle(played: Played, number: int) -> bool:
    """Return True if a command had no file to rewrite: on Spark it ends before a commit."""
    loser = played.losers.get(number)
    upkeep = loser is not None and isinstance(loser.command, c.Optimize | c.Reorg)
    return upkeep and not loser.staged
