"""The condition that would have kept a write off the files it shares with another.

It is derived from the record: the bounds of both sides' files in the column of the table's layout.
Files outside a condition are not read, and cannot conflict.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.commands.model import Command
from engine.commands.names import name_sql
from engine.conflict_facts import Decision, SideFile
from engine.errors import EngineError
from engine.expressions.render import quote_string
from engine.vocabulary import Reads, operation_named
from lakeui.conflicts.conflict_detail.similar import SimilarConflict
from lakeui.conflicts.models import Conflict

_LEAST_KEPT = 0.25
_NUMBERS = ("byte", "short", "integer", "long", "float", "double", "decimal")


@dataclass(frozen=True, slots=True)
class Narrowing:
    """A `condition` to add by AND. `share` of the write's changed rows remain in its reach.

    `rest` is the condition of the rows that it leaves out. `files_before` become `files_after`, and
    at least `rows_after` of `rows_before` rows are changed; rows are None if not every file has
    them. `is_sample` if not every file was recorded.
    """

    condition: str
    rest: str
    column: str
    is_above: bool
    bound: str
    low: str
    high: str
    share: float
    files_before: int
    files_after: int
    rows_before: int | None
    rows_after: int | None
    is_sample: bool

    def would_have_passed(self, other: SimilarConflict) -> bool | None:
        """Whether it would have avoided a similar conflict; None if its files are not recorded."""
        if other.order_column != self.column or not other.shared_low:
            return None
        if self.is_above:
            return _key(other.shared_high) <= _key(self.bound)
        return _key(other.shared_low) >= _key(self.bound)


def find_narrowing(conflict: Conflict, decision: Decision | None) -> Narrowing | None:
    """Return the better of the two sides of the shared files; None if little would be left.

    Also None if the write has no condition to add to, or bounds were not recorded.
    """
    if decision is None or not conflict.shared_high or not conflict.current_predicate:
        return None
    changed = [file for file in decision.current_files if file.did == "changed" and file.low]
    low, high = conflict.shared_low, conflict.shared_high
    above = [file for file in changed if _key(file.low or "") > _key(high)]
    below = [file for file in changed if _key(file.high or "") < _key(low)]
    is_above = _rows(above) >= _rows(below)
    kept, bound = (above, high) if is_above else (below, low)
    share = _rows(kept) / (_rows(changed) or 1)
    literal = _literal(conflict, bound)
    if share < _LEAST_KEPT or literal is None:
        return None
    column = name_sql(conflict.order_column)
    counted = all(file.row_count is not None for file in changed)
    in_all = decision.current_changes.rows_changed
    return Narrowing(
        condition=f"{column} {'>' if is_above else '<'} {literal}",
        rest=f"({column} {'<=' if is_above else '>='} {literal} OR {column} IS NULL)",
        column=conflict.order_column,
        is_above=is_above,
        bound=bound,
        low=low,
        high=high,
        share=share,
        files_before=len(changed),
        files_after=len(kept),
        rows_before=in_all if in_all is not None or not counted else _rows(changed),
        rows_after=_rows(kept) if counted else None,
        is_sample=len(changed) < decision.current_changes.files_changed,
    )


def narrow_statement(conflict: Conflict, condition: str) -> str:
    """Return the job's statement with one more condition; "" if it has none to add to."""
    job, table = conflict.job, conflict.table
    if job is None or table is None or operation_named(job.kind).reads is not Reads.CONDITION:
        return ""
    parameters = dict(job.parameters or {})
    where = parameters.get("where") or conflict.current_predicate
    parameters["where"] = f"({where}) AND {condition}" if where else condition
    try:
        command = Command.from_parameters(job.kind, parameters)
        return replace(command, table=table.name).statement()
    except (EngineError, TypeError):
        return ""


def _literal(conflict: Conflict, bound: str) -> str | None:
    kind = _type_of(conflict, conflict.order_column)
    if kind is None:
        return None
    if kind.startswith(_NUMBERS):
        return bound
    return quote_string(bound)


def _type_of(conflict: Conflict, column: str) -> str | None:
    schema: Any = conflict.table.schema if conflict.table else None
    fields = schema.get("fields") if isinstance(schema, dict) else None
    for field in fields or ():
        if isinstance(field, dict) and field.get("name") == column:
            return field["type"] if isinstance(field.get("type"), str) else None
    return None


def _rows(files: Sequence[SideFile]) -> int:
    """Count rows if every file has a count, otherwise files."""
    counts = [file.row_count for file in files]
    return sum(count or 1 for count in counts)


def _key(value: str) -> tuple[bool, float, str]:
    try:
        return False, float(value), ""
    except ValueError:
        return True, 0.0, value
