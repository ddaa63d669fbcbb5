"""The operations by name."""

from collections.abc import Mapping

from tests.engine.operations.sweep import row_steps, table_steps
from tests.engine.operations.sweep.bench import Step

STEPS: Mapping[str, Step] = {
    "append": row_steps.append,
    "append_values": row_steps.append_values,
    "update": row_steps.update,
    "delete": row_steps.delete,
    "merge": row_steps.merge,
    "optimize": table_steps.optimize,
    "add_column": table_steps.add_column,
    "widen": table_steps.widen,
    "append_itself": row_steps.append_itself,
    "add_field": table_steps.add_field,
    "update_field": row_steps.update_field,
    "rename_columns": table_steps.rename_columns,
    "merge_inserts": row_steps.merge_inserts,
    "delete_partition": row_steps.delete_partition,
    "reorg": table_steps.reorg,
    "replace_where": row_steps.replace_where,
    "zorder": table_steps.zorder,
    "update_partition": row_steps.update_partition,
    "drop_column": table_steps.drop_column,
    "dynamic_overwrite": row_steps.dynamic_overwrite,
    "restore": table_steps.restore,
    "vacuum": table_steps.vacuum,
    "replace_where_partition": row_steps.replace_where_partition,
    "optimize_full": table_steps.optimize_full,
    "overwrite": row_steps.overwrite,
    "truncate": table_steps.truncate,
}
"""By name, in an order in which each finds something to do."""
CORE = tuple(
    name
    for name in STEPS
    if name
    not in {
        *("append_values", "append_itself", "merge_inserts", "delete_partition", "add_field"),
        *("update_partition", "replace_where_partition", "optimize_full"),
    }
)
"""One of each kind, which is what there is time for in every run."""
