"""REORG: rewrites files without their deleted rows, or every file for Iceberg clients.

REORG … APPLY (UPGRADE UNIFORM …) takes three steps of one or more commits, as in delta-spark: set
the compatibility properties, rewrite the files to fit, and enable the format. From then on Iceberg
metadata follows every commit. An interrupted run can be resumed.
"""

from collections.abc import Mapping

from engine.actions.files import AddFile
from engine.commands.model import Reorg
from engine.errors import RequestError
from engine.expressions.render import to_sql
from engine.iceberg.post_commit import refresh_iceberg
from engine.operations.define.set_properties import commit_properties
from engine.operations.execution import Execution
from engine.operations.maintenance.optimize import (
    BinRule,
    choose_files,
    combine_results,
    pack,
    rewrite_bins,
)
from engine.operations.result import OperationResult, PlannedFile, plan_of
from engine.protocol.iceberg_compat import COMPAT_VERSION, faults_of, is_iceberg
from engine.schema.column_mapping import ICEBERG_COMPAT_KEY, MODE_KEY, column_mapping_mode
from engine.snapshot.snapshot import Snapshot

_FORMATS_KEY = "delta.universalFormat.enabledFormats"
_VECTORS_KEY = "delta.enableDeletionVectors"
_PASSES = 3
_RULE = BinRule(1, purge=True, fits_iceberg=True)


def reorg(command: Reorg, execution: Execution) -> OperationResult:
    """Run a REORG.

    Raises:
        RequestError: the condition names columns other than partition columns, or the upgrade is
            not possible.
    """
    if command.upgrade_uniform is not None:
        return upgrade_uniform(command, execution)
    snapshot = execution.table.snapshot()
    condition = execution.condition(command, snapshot)
    rule = BinRule(execution.files_of(snapshot).target_size_bytes, purge=True)
    bins = pack(choose_files(snapshot, condition), rule)
    predicate = [to_sql(condition)] if condition is not None else []
    return rewrite_bins(
        execution, snapshot, bins, "REORG", {"predicate": predicate, "applyPurge": True}
    )


def upgrade_uniform(command: Reorg, execution: Execution) -> OperationResult:
    """Run a REORG that upgrades to Iceberg compatibility.

    Raises:
        RequestError: the version is not 2, or Iceberg has no type for a column.
    """
    if command.upgrade_uniform != COMPAT_VERSION:
        msg = (
            f"An upgrade to Iceberg compatibility version {command.upgrade_uniform} is not "
            "supported."
        )
        remedy = f"Use ICEBERG_COMPAT_VERSION = {COMPAT_VERSION}."
        raise RequestError(msg, remedy, field="upgrade_uniform")
    snapshot = execution.table.snapshot()
    rules = _rules(snapshot)
    _check_possible(snapshot, {**snapshot.metadata.configuration, **rules})
    if execution.options.dry_run:
        return _plan(snapshot)
    results = [commit_properties(execution, "upgrade", rules, "REORG TABLE UPGRADE UNIFORM")]
    results += _rewrite_until_clean(execution)
    results.append(commit_properties(execution, "uniform", {_FORMATS_KEY: "iceberg"}))
    done = [result for result in results if result.versions]
    newest = execution.table.snapshot()
    refresh_iceberg(newest.store, newest.state, execution.now_ms, newest.allowed_roots)
    if not done:
        return OperationResult(message="Iceberg clients can already read the table.")
    rewritten = [result for result in results[1:-1] if result.versions]
    return combine_results(done, dict(rewritten[-1].metrics) if rewritten else {})


def _rules(snapshot: Snapshot) -> dict[str, str]:
    """Return the compatibility properties the table does not have yet."""
    rules = {ICEBERG_COMPAT_KEY: "true", _VECTORS_KEY: "false"}
    if column_mapping_mode(snapshot.metadata.configuration) == "none":
        rules[MODE_KEY] = "name"
    have = snapshot.metadata.configuration
    return {key: value for key, value in rules.items() if have.get(key) != value}


def _check_possible(snapshot: Snapshot, configuration: Mapping[str, str]) -> None:
    faults = list(faults_of(snapshot.schema, configuration))
    if faults:
        msg = f"Iceberg clients cannot read {snapshot.table_uri}: {'; '.join(faults)}."
        raise RequestError(
            msg, "Drop these columns, or change these settings first.", field="table"
        )


def _rewrite_until_clean(execution: Execution) -> list[OperationResult]:
    """Rewrite the files incompatible with Iceberg until none is left."""
    results: list[OperationResult] = []
    for _ in range(_PASSES):
        snapshot = execution.table.snapshot()
        files = [add for add in snapshot.add_files() if _RULE.wants(add)]
        if not files:
            return results
        size_bytes = execution.files_of(snapshot).target_size_bytes
        bins = pack(files, BinRule(size_bytes, purge=True, fits_iceberg=True))
        parameters: dict[str, object] = {"predicate": [], "applyPurge": False}
        results.append(rewrite_bins(execution, snapshot, bins, "REORG", parameters))
    msg = (
        f"Writers keep adding files to {execution.table.uri} that do not follow the rules for "
        "Iceberg."
    )
    raise RequestError(msg, "Run it again after they stop.", field="table")


def _plan(snapshot: Snapshot) -> OperationResult:
    files = [
        PlannedFile.from_add(add, _reason(add)) for add in snapshot.add_files() if _RULE.wants(add)
    ]
    state = "names its format already" if is_iceberg(snapshot.properties) else "is upgraded"
    summary = (
        f"{len(files)} of {snapshot.file_count} files would be rewritten to fit Iceberg; the table"
        f" {state}. Concurrent writes would fail where its properties change."
    )
    return OperationResult(plan=plan_of(summary, files))


def _reason(add: AddFile) -> str:
    return "has deleted rows" if add.deletion_vector else "was written under other rules"
