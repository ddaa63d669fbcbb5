"""Several statements, done one after the other, each in a commit of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeGuard

from engine.commands.command import PARSE, Command
from engine.commands.definition import Clone, Create
from engine.commands.fields import parameter
from engine.commands.names import ANY_TABLE
from engine.errors import RequestError
from engine.schema.types import StructType

MAX_STEPS = 50
_ATOMIC = frozenset({"append", "update", "delete", "merge"})
_ALONE = frozenset({"stream", "script", "transaction"})


@dataclass(frozen=True)
class Script(Command):
    """Statements in order. There is no transaction around them: earlier commits remain."""

    kind: ClassVar[str] = "script"
    label: ClassVar[str] = "Script"
    help: ClassVar[str] = (
        "Run several statements in order. Each has its own commit. Two scripts that DELETE a "
        "key and then INSERT it can both insert it: use MERGE, or BEGIN ATOMIC …; END."
    )
    steps: tuple[Command, ...] = parameter(
        "Steps", "steps", help="A list of commands, each with its kind and parameters."
    )

    @property
    def removes_rows(self) -> bool:
        """Whether any of its steps may remove rows."""
        return any(step.removes_rows for step in self.steps)

    def parameters(self) -> dict[str, Any]:
        """Return JSON-ready parameters; `from_parameters` of them equals the command."""
        steps = [{"kind": step.kind, "parameters": step.parameters()} for step in self.steps]
        return {"table": self.table, "steps": steps}

    def validate(self, schema: StructType | None) -> None:  # noqa: ARG002 - steps have their own schemas
        """Refuse steps invalid on any table; each is checked against its schema when it runs."""
        if not 1 <= len(self.steps) <= MAX_STEPS:
            what = f"The {self.label.lower()} has {len(self.steps)} steps."
            raise RequestError(what, f"Give 1 to {MAX_STEPS}.", field="steps")
        for step in self.steps:
            if not fits_a_script(type(step)):
                what = f"{step.label} cannot be part of a script."
                raise RequestError(what, "Send it as a job of its own.", field="steps")
            step.validate(None)

    def tables_read(self) -> tuple[str, ...]:
        """Return the tables its steps read, as written."""
        return tuple(dict.fromkeys(name for step in self.steps for name in step.tables_read()))

    def other_tables_read(self) -> tuple[str, ...]:
        """Return the tables its steps read besides their own and the job's, as written."""
        named = (name for step in self.steps for name in step.other_tables_read())
        return tuple(dict.fromkeys(name for name in named if name.lower() != ANY_TABLE))

    @property
    def names_itself(self) -> bool:
        """Whether a query of a step reads the job's table as "t"."""
        return any(name.lower() == ANY_TABLE for name in self.tables_read())

    def tables_changed(self) -> tuple[str, ...]:
        """Return the tables its steps name, "" for the job's, in order."""
        return tuple(step_table(step) for step in self.steps)

    def statement(self) -> str:
        """Render the command as SQL; `parse_statement` returns an equal command."""
        steps = (
            step if step_table(step) else replace(step, table=self.table) for step in self.steps
        )
        return ";\n".join(step.statement() for step in steps)


@dataclass(frozen=True)
class AtomicScript(Script):
    """Statements in one transaction: all are committed, to each table as one version, or none."""

    kind: ClassVar[str] = "transaction"
    label: ClassVar[str] = "Transaction"
    help: ClassVar[str] = (
        "Run INSERT, UPDATE, DELETE and MERGE statements as one commit, on one table or on several "
        "tables of a catalog. Each "
        "statement reads what the earlier ones wrote. An error in any of them undoes all."
    )

    def validate(self, schema: StructType | None) -> None:
        """Refuse statements that a transaction cannot hold."""
        super().validate(schema)
        for step in self.steps:
            if step.kind not in _ATOMIC:
                what = f"{step.label} cannot be part of a transaction."
                remedy = "Use INSERT, UPDATE, DELETE and MERGE in it, and run the rest outside."
                raise RequestError(what, remedy, field="steps")

    def statement(self) -> str:
        """Render the command as SQL; `parse_statement` returns an equal command."""
        return f"BEGIN ATOMIC\n{super().statement()};\nEND"


def commits_by_step(command: Command) -> TypeGuard[Script]:
    """Return whether a command is a script whose steps commit one by one."""
    return isinstance(command, Script) and not isinstance(command, AtomicScript)


def fits_a_script(command: type[Command]) -> bool:
    """Return whether commands of this type can be steps of a script."""
    return command.kind not in _ALONE


def makes_table(step: Command) -> bool:
    """Return whether a step may name a table to be created."""
    return isinstance(step, Create | Clone)


def step_table(step: Command) -> str:
    """Return the table a step names, "" for the job's."""
    return "" if step.table == ANY_TABLE else step.table


def _steps(given: Any) -> tuple[Command, ...]:  # noqa: ANN401 - JSON
    if not isinstance(given, list | tuple) or len(given) > MAX_STEPS:
        what = f"steps are a list of at most {MAX_STEPS}"
        raise TypeError(what)
    return tuple(step if isinstance(step, Command) else _step(step) for step in given)


def _step(given: Any) -> Command:  # noqa: ANN401 - JSON
    if not isinstance(given, Mapping) or not set(given) <= {"kind", "parameters"}:
        what = "a step is an object with kind and parameters"
        raise TypeError(what)
    return Command.from_parameters(given.get("kind"), given.get("parameters", {}))


PARSE["steps"] = _steps
