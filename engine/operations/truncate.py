"""TRUNCATE: removes every row without reading a file."""

from time import monotonic

from engine.commands.model import Truncate
from engine.operations.execution import Execution
from engine.operations.result import OperationResult, PlannedFile, plan_of
from engine.operations.staged_actions import removal


def truncate(command: Truncate, execution: Execution) -> OperationResult:  # noqa: ARG001
    """Run a TRUNCATE.

    Raises:
        AppendOnlyError: the table only grows.
        ConflictError: a concurrent commit won.
    """
    started = monotonic()
    txn = execution.begin()
    files = execution.snapshot_of(txn).add_files()
    if execution.options.dry_run:
        listed = [PlannedFile.from_add(add, "every row goes") for add in files]
        return OperationResult(plan=plan_of(f"All {len(files)} files would be removed.", listed))
    txn.read_where(None, every_match_changes=True)
    txn.stage(*map(removal, files))
    metrics: dict[str, int | str] = {
        "numRemovedFiles": len(files),
        "executionTimeMs": round((monotonic() - started) * 1000),
    }
    result = execution.commit(txn, "TRUNCATE", {}, metrics)
    return result if files else result.replace_message("The table is empty: nothing was changed.")
