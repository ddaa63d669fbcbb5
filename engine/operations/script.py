"""Several commands in order, each committed by itself.

Delta has no transaction over several tables: where a later step fails, what earlier ones committed
stays, and the error says which they are. A step that a run before had committed is not done again.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.commands.command import Command
from engine.commands.names import ANY_TABLE
from engine.commands.script import Script, makes_table, step_table
from engine.errors import EngineError
from engine.operations.named_tables import check_location, open_location
from engine.operations.options import Resolve
from engine.operations.result import LISTED_FILES, OperationResult, Plan
from engine.storage.uri import open_store
from engine.table import DeltaTable

Perform = Callable[[int, Command], OperationResult]
"""Does a step by its number, from 0."""


@dataclass(frozen=True, slots=True)
class StepEnd:
    """How a step ended: the version it committed, None where it had nothing to change."""

    number: int
    table: str
    version: int | None
    message: str = ""

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"step": self.number, "table": self.table, "version": self.version}

    def __str__(self) -> str:
        done = "changed nothing" if self.version is None else f"committed version {self.version}"
        return f"step {self.number} {done} of {self.table}"


class ScriptError(EngineError):
    """A step failed after others may have committed.

    Attributes:
        step: the number of the step that failed, from 1.
        ended: the steps before it, with the versions they committed.
        cause_code: the code of what went wrong.
    """

    code = "LAKE_SCRIPT_STEP_FAILED"
    sqlstate = "25000"

    def __init__(self, number: int, ended: Sequence[StepEnd], cause: EngineError) -> None:
        before = ", ".join(str(step) for step in ended)
        stays = f" What came before stays: {before}." if before else " Nothing was committed."
        super().__init__(f"Step {number} failed: {cause}{stays}", "Send the steps that are left.")
        self.step = number
        self.ended = [step.as_dict() for step in ended]
        self.cause_code = cause.code
        self._cause = cause

    @property
    def cause(self) -> EngineError:
        """What went wrong."""
        return self._cause


class ScriptTables:
    """The tables of a script's steps: the job's own where a step names none, others by `opens`."""

    def __init__(self, own: DeltaTable, opens: Callable[[str], DeltaTable] | None) -> None:
        self.own, self._opens = own, opens

    def open(self, step: Command) -> DeltaTable:
        """The table that a step changes; it need not be there where the step makes it."""
        name = step_table(step)
        if not name or name == self.own.uri:
            return self.own
        if self._opens is not None:
            return self._opens(name)
        if not makes_table(step):
            return open_location(name, self.own)
        check_location(name)
        options, roots = dict(self.own.storage_options), self.own.allowed_roots
        return DeltaTable(open_store(name, options), storage_options=options, allowed_roots=roots)


def resolve_in_script(own: DeltaTable, resolve: Resolve | None) -> Resolve:
    """Return how a step opens the tables that its queries name: "t" is the script's own in every step."""

    def open_step_table(name: str) -> DeltaTable:
        if name.lower() == ANY_TABLE:
            return own
        return open_location(name, own) if resolve is None else resolve(name)

    return open_step_table


def run_steps(script: Script, perform: Perform, names: Sequence[str]) -> OperationResult:
    """Do the steps of a script.

    Args:
        script: the steps.
        perform: does one.
        names: the tables of the steps, as people know them.

    Raises:
        ScriptError: a step failed; those before it have committed.
    """
    ended: list[StepEnd] = []
    results: list[OperationResult] = []
    for number, (step, name) in enumerate(zip(script.steps, names, strict=True), 1):
        try:
            result = perform(number - 1, step)
        except EngineError as error:
            raise ScriptError(number, ended, error) from error
        ended.append(StepEnd(number, name, result.version, result.message))
        results.append(result)
    return _together(ended, results)


def step_txn_id(txn_id: str | None, step: int | str) -> str | None:
    """The id of a step's commits: the same in every run of the same job."""
    if txn_id is None:
        return None
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{txn_id}:{step}"))


def _together(ended: Sequence[StepEnd], results: Sequence[OperationResult]) -> OperationResult:
    plans = [(end, result.plan) for end, result in zip(ended, results, strict=True) if result.plan]
    committed = [step for step in ended if step.version is not None]
    sentence = "; ".join(str(step) for step in ended)
    return OperationResult(
        version=results[-1].version,
        metrics={"numSteps": len(ended), "numCommittedSteps": len(committed)},
        resolved=tuple(resolution for result in results for resolution in result.resolved),
        attempts=sum(result.attempts for result in results),
        plan=_plan(plans) if plans else None,
        message=f"{sentence[:1].upper()}{sentence[1:]}" if not plans else "",
        recognised=bool(results) and all(result.recognised for result in results),
        versions=tuple(version for result in results for version in result.versions),
    )


def _plan(plans: Sequence[tuple[StepEnd, Plan]]) -> Plan:
    """The plans of all steps, each as if it were the first."""
    summary = " ".join(f"Step {end.number}, {end.table}: {plan.summary}" for end, plan in plans)
    return Plan(
        summary,
        tuple(file for _, plan in plans for file in plan.files)[:LISTED_FILES],
        sum(plan.file_count for _, plan in plans),
        sum(plan.size_bytes for _, plan in plans),
        running_writers=tuple(
            dict.fromkeys(
                running_writer for _, plan in plans for running_writer in plan.running_writers
            )
        ),
    )
