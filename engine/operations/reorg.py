"""REORG … APPLY (PURGE): files with deleted rows are rewritten without them."""

from engine.commands.model import Reorg
from engine.errors import RequestError
from engine.expressions.render import to_sql
from engine.operations.execution import Execution
from engine.operations.file_bins import BinRule, pack
from engine.operations.optimize import chosen_files, rewrite_bins
from engine.operations.result import OperationResult


def reorg(command: Reorg, execution: Execution) -> OperationResult:
    """Run a REORG that purges deletion vectors.

    Raises:
        RequestError: an upgrade to Iceberg compatibility, which this engine does not write.
        ConflictError: a concurrent commit rewrote the same files.
    """
    if command.upgrade_uniform is not None:
        msg = "REORG … UPGRADE UNIFORM cannot be run by this engine: it writes no Iceberg metadata."
        raise RequestError(msg, "Run it with Databricks or delta-spark.", field="upgrade_uniform")
    snapshot = execution.table.snapshot()
    condition = execution.condition(command, snapshot)
    rule = BinRule(execution.files_of(snapshot).target_size_bytes, purge=True)
    bins = pack(chosen_files(snapshot, condition), rule)
    predicate = [to_sql(condition)] if condition is not None else []
    return rewrite_bins(
        execution, snapshot, bins, "REORG", {"predicate": predicate, "applyPurge": True}
    )
