"""REORG: files with deleted rows are rewritten without them, or all so that Iceberg clients can read."""

from engine.commands.model import Reorg
from engine.expressions.render import to_sql
from engine.operations.execution import Execution
from engine.operations.file_bins import BinRule, pack
from engine.operations.iceberg_upgrade import upgrade_uniform
from engine.operations.optimize import chosen_files, rewrite_bins
from engine.operations.result import OperationResult


def reorg(command: Reorg, execution: Execution) -> OperationResult:
    """Run a REORG.

    Raises:
        RequestError: the condition names columns that are not partition columns, or an upgrade that
            cannot be.
        ConflictError: a concurrent commit rewrote the same files.
    """
    if command.upgrade_uniform is not None:
        return upgrade_uniform(command, execution)
    snapshot = execution.table.snapshot()
    condition = execution.condition(command, snapshot)
    rule = BinRule(execution.files_of(snapshot).target_size_bytes, purge=True)
    bins = pack(chosen_files(snapshot, condition), rule)
    predicate = [to_sql(condition)] if condition is not None else []
    return rewrite_bins(
        execution, snapshot, bins, "REORG", {"predicate": predicate, "applyPurge": True}
    )
