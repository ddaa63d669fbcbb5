"""The operations that maintain a table or change its columns."""

import pyarrow as pa

from engine.commands.alter import AddColumns
from engine.commands.model import Optimize, Restore, Vacuum
from engine.errors import InvalidSchemaError
from engine.schema.types import DOUBLE, StructField, StructType
from tests.engine.operations.sweep.bench import Bench, Plan
from tests.engine.operations.sweep.row_steps import append, delete, update

NEW_NAME = "v, new;"


def truncate(_bench: Bench) -> Plan:
    return Plan(["TRUNCATE TABLE t"], [])


def optimize(_bench: Bench) -> Plan:
    return Plan(["OPTIMIZE t"])


def optimize_full(bench: Bench) -> Plan:
    if bench.model.layout.placing != "clustered":
        return Plan([Optimize(target_size_bytes=1 << 20)])
    return Plan([Optimize(full=True)])


def zorder(bench: Bench) -> Plan:
    if bench.model.layout.placing == "clustered":
        return optimize(bench)
    return Plan(["OPTIMIZE t ZORDER BY (x, u)"])


def reorg(_bench: Bench) -> Plan:
    return Plan(["REORG TABLE t APPLY (PURGE)"])


def restore(bench: Bench) -> Plan:
    """Go back two or three steps, but never beyond the versions that VACUUM left."""
    model = bench.model
    versions = [version for version in sorted(model.versions) if version >= model.oldest]
    target = versions[-min(len(versions), 3 + model.step % 2)]
    return Plan([Restore(version=target)], effect=lambda: model.restore(target))


def vacuum(bench: Bench) -> Plan:
    model = bench.model

    def forget() -> None:
        model.oldest = max(model.versions)

    return Plan([Vacuum(retention_hours=0, override_retention=True)], effect=forget)


def add_column(bench: Bench) -> Plan:
    if "extra" in bench.model.names:
        return append(bench)
    return Plan(
        ["ALTER TABLE t ADD COLUMNS (extra STRING)"],
        effect=lambda: bench.model.add_column("extra", pa.string()),
    )


def add_field(bench: Bench) -> Plan:
    """Add a field inside a struct, which existing files lack."""
    kind = bench.model.types.get("s")
    if kind is None or len(kind) > 2:
        return update(bench)
    command = AddColumns(StructType((StructField("c", DOUBLE),)), parent="s")
    return Plan([command], effect=lambda: bench.model.add_field("c", pa.float64()))


def rename_columns(bench: Bench) -> Plan:
    """Rename a plain column, and one that may be a partition column."""
    model = bench.model
    if model.layout.mapping == "none":
        return Plan([f"ALTER TABLE t RENAME COLUMN v TO `{NEW_NAME}`"], refused=InvalidSchemaError)
    if model.names["v"] == NEW_NAME:
        return update(bench)
    commands = [
        f"ALTER TABLE t RENAME COLUMN v TO `{NEW_NAME}`",
        "ALTER TABLE t RENAME COLUMN p TO `p=art`",
    ]

    def rename() -> None:
        model.names["v"], model.names["p"] = NEW_NAME, "p=art"

    return Plan(commands, effect=rename)


def drop_column(bench: Bench) -> Plan:
    if bench.model.layout.mapping == "none":
        return Plan(["ALTER TABLE t DROP COLUMN s"], refused=InvalidSchemaError)
    if "s" not in bench.model.names:
        return delete(bench)
    return Plan(["ALTER TABLE t DROP COLUMN s"], effect=lambda: bench.model.drop_column("s"))


def widen(bench: Bench) -> Plan:
    def wider() -> None:
        bench.model.types["w"] = pa.int32()

    commands = [
        "ALTER TABLE t SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
        "ALTER TABLE t ALTER COLUMN w TYPE INT",
    ]
    return Plan(commands, effect=wider)
