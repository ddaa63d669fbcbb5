"""Scripts: several commands in order, each committed separately.

Delta has no transaction over several tables: if a later step fails, earlier commits remain, and the
error lists them. A step committed by an earlier run is not repeated.
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
from engine.operations.result import LISTED_FILES, OperationResult, Plan
from engine.operations.run_options import Resolve
from engine.storage.uri import open_store
from engine.table import DeltaTable

Perform = Callable[[int, Command], OperationResult]
"""Runs a step by its number, from 0."""


@dataclass(frozen=True, slots=True)
class StepEnd:
    """The outcome of a step: its committed version, None if it changed nothing."""

    number: int
    table: str
    version: int | None
    message: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-ready values."""
        return {"step": self.number, "table": self.table, "version": self.version}

    def __str__(self) -> str:
        done = "changed nothing" if self.version is None else f"committed version {self.version}"
        return f"step {self.number} {done} of {self.table}"


class ScriptError(EngineError, code="LAKE_SCRIPT_STEP_FAILED", sqlstate="25000"):
    """A step failed after others may have committed.

    Attributes:
        step: the number of the failed step, from 1.
        ended: the steps before it, with their committed versions.
        cause_code: the code of the step's error.
    """

    def __init__(
        self,
        number: int,
        ended: Sequence[StepEnd],
        cause: EngineError,
        remedy: str = "Send the remaining steps.",
    ) -> None:
        before = ", ".join(str(step) for step in ended)
        stays = (
            f" The steps before it stay committed: {before}."
            if before
            else " Nothing was committed."
        )
        super().__init__(f"Step {number} failed: {cause}{stays}", remedy)
        self.step = number
        self.ended = [step.as_dict() for step in ended]
        self.cause_code = cause.code
        self._cause = cause

    @property
    def cause(self) -> EngineError:
        """The step's error."""
        return self._cause


class ScriptTables:
    """The tables of a script's steps: the job's own if a step names none, others by `opens`."""

    def __init__(self, own: DeltaTable, opens: Callable[[str], DeltaTable] | None) -> None:
        self.own, self._opens = own, opens

    def open(self, step: Command) -> DeltaTable:
        """Open the table changed by a step; it need not exist if the step creates it."""
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
    """Return the function to open tables in a script's queries; "t" is the script's own table."""

    def open_step_table(name: str) -> DeltaTable:
        if name.lower() == ANY_TABLE:
            return own
        return open_location(name, own) if resolve is None else resolve(name)

    return open_step_table


def run_steps(script: Script, perform: Perform, names: Sequence[str]) -> OperationResult:
    """Do the steps of a script.

    `perform` does a step. `names` are the tables of the steps, as people know them.

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
    """Return the id of a step's commits: the same in every run of a job."""
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
        recognized=bool(results) and all(result.recognized for result in results),
        versions=tuple(version for result in results for version in result.versions),
    )


def _plan(plans: Sequence[tuple[StepEnd, Plan]]) -> Plan:
    """Combine the plans of all steps, each computed as if it were the first."""
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
