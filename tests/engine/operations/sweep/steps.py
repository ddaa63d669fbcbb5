"""The operations, each as commands and as what the model says they do."""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from engine.commands.alter import AddColumns
from engine.commands.command import Command
from engine.commands.merge import Merge, MergeClause
from engine.commands.model import Append, Delete, Optimize, Overwrite, Restore, Update, Vacuum
from engine.commands.sources import FileSource, RowsSource, TableSource
from engine.errors import EngineError, InvalidSchemaError
from engine.schema.types import DOUBLE, StructField, StructType
from tests.engine.operations.sweep.model import Model, Row, Values

NEW_NAME = "v, new;"


@dataclass(frozen=True)
class Plan:
    """Commands, the rows they leave, and what else they do to the model.

    `counts` are metrics that the model knows; `refused` is the error where the layout has no such
    operation.
    """

    commands: Sequence[Command | str]
    rows: Sequence[Row] | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    effect: Callable[[], None] | None = None
    refused: type[EngineError] | None = None


@dataclass
class Bench:
    """Where a step finds what it needs: the model, the table's place, and a place for sources."""

    model: Model
    uri: str
    scratch: Path

    def file(self, table: pa.Table) -> FileSource:
        """Rows as two files to be loaded, so that two tasks write them."""
        place = self.scratch / f"source {self.model.step}"
        place.mkdir()
        half = table.num_rows // 2
        for number, part in enumerate((table[:half], table[half:])):
            pq.write_table(part, place / f"{number}.parquet")
        return FileSource(str(place), "parquet")

    def written_out(self, rows: Sequence[Row]) -> RowsSource:
        """Rows as VALUES; structs cannot be written out."""
        names = [name for name in self.model.writable() if name != "s"]
        listed = tuple(tuple(literal(row.values[name]) for name in names) for row in rows)
        return RowsSource(tuple(self.model.names[name] for name in names), listed)

    def sql(self, name: str, side: str = "") -> str:
        """A column as conditions name it."""
        quoted = f"`{self.model.names[name]}`"
        return f"{side}.{quoted}" if side else quoted


Step = Callable[[Bench], Plan]


def append(bench: Bench) -> Plan:
    model = bench.model
    new = model.fresh(8)
    command = Append(bench.file(model.table_of(new)))
    return Plan([command], [*model.rows, *new], {"numOutputRows": 8})


def append_values(bench: Bench) -> Plan:
    model = bench.model
    new = model.fresh(3, **_no_struct(model))
    return Plan([Append(bench.written_out(new))], [*model.rows, *new], {"numOutputRows": 3})


def append_itself(bench: Bench) -> Plan:
    model = bench.model
    chosen = [row for row in model.rows if row.values["x"] in (2, 3)]
    columns = [f"concat(u, '+') AS `{model.names['u']}`"]
    columns += [bench.sql(name) for name in model.writable() if name != "u"]
    source = TableSource(bench.uri, tuple(columns), "x IN (2, 3)")
    return Plan([Append(source)], [*model.rows, *map(model.moved, chosen)])


def overwrite(bench: Bench) -> Plan:
    new = bench.model.fresh(6)
    return Plan(
        [Overwrite(bench.file(bench.model.table_of(new)))],
        new,
        {"numOutputRows": 6},
    )


def replace_where(bench: Bench) -> Plan:
    model = bench.model
    new = [*model.fresh(1, x=4, **_no_struct(model)), *model.fresh(1, x=3, **_no_struct(model))]
    left = model.without(lambda row: row["x"] >= 3)
    command = Overwrite(bench.written_out(new), replace_where="x >= 3")
    gone = len(model.rows) - len(left)
    return Plan([command], [*left, *new], {"numDeletedRows": gone})


def replace_where_partition(bench: Bench) -> Plan:
    model = bench.model
    new = model.fresh(2, p="a")
    left = model.without(lambda row: row["p"] == "a")
    where = f"{bench.sql('p')} = 'a'"
    command = Overwrite(bench.file(model.table_of(new)), replace_where=where)
    return Plan([command], [*left, *new])


def dynamic_overwrite(bench: Bench) -> Plan:
    model = bench.model
    new = model.fresh(2)
    command = Overwrite(bench.file(model.table_of(new)), dynamic_partitions=True)
    touched = {(row.values["p"], row.values["d"]) for row in new}
    whole = model.layout.placing != "partitioned"
    left = [] if whole else model.without(lambda row: (row["p"], row["d"]) in touched)
    return Plan([command], [*left, *new], {"numOutputRows": 2})


def delete(bench: Bench) -> Plan:
    left = bench.model.without(lambda row: row["x"] % 3 == 1)
    gone = len(bench.model.rows) - len(left)
    return Plan([Delete("x % 3 = 1")], left, {"numDeletedRows": gone} if gone else {})


def delete_partition(bench: Bench) -> Plan:
    left = bench.model.without(lambda row: row["p"] == "b%/= c")
    return Plan([Delete(f"{bench.sql('p')} = 'b%/= c'")], left)


def update(bench: Bench) -> Plan:
    model = bench.model
    changed = sum(1 for row in model.rows if row.values["x"] < 3)
    rows = model.updated(
        lambda row: row["x"] < 3,
        x=lambda row: row["x"] + 1,
        v=lambda row: None if row["v"] is None else row["v"] * 2,
    )
    command = Update({"x": "x + 1", bench.sql("v"): f"{bench.sql('v')} * 2"}, "x < 3")
    return Plan([command], rows, {"numUpdatedRows": changed} if changed else {})


def update_partition(bench: Bench) -> Plan:
    rows = bench.model.updated(
        lambda row: row["p"] is None, p=lambda _: "a", d=lambda _: dt.date(2024, 2, 29)
    )
    values = {bench.sql("p"): "'a'", "d": "DATE '2024-02-29'"}
    return Plan([Update(values, f"{bench.sql('p')} IS NULL")], rows)


def update_field(bench: Bench) -> Plan:
    """A field of a struct; another column where the struct is gone."""
    if "s" not in bench.model.names:
        return update(bench)
    rows = bench.model.updated(
        lambda row: row["s"] is not None and row["s"]["a"] % 2 == 1,
        s=lambda row: {**row["s"], "b": "new"},
    )
    return Plan([Update({"s.b": "'new'"}, "s.a % 2 = 1")], rows)


def merge(bench: Bench) -> Plan:
    """Some rows deleted, some updated, some new, and some that no source row joins updated."""
    model = bench.model
    known = sorted(model.rows, key=lambda row: row.birth)
    doomed, changing = known[1::4], known[2::4]
    new = model.fresh(2)
    after = [
        model.changed(row, x=row.values["x"] + 1, v=0.5)
        for row in changing
        if row.values["x"] is not None
    ]
    spared = [row for row in known if row not in doomed and row not in changing]
    unmatched = [row for row in spared if row.values["x"] == 0]
    stale = [model.changed(row, v=-1.0) for row in unmatched]
    rows = [row for row in spared if row not in unmatched] + stale + after + new
    source = [_sourced(row, "delete") for row in doomed]
    source += [_sourced(row, "update", v=0.5) for row in changing]
    source += [_sourced(row, "insert") for row in new]
    v = bench.sql("v")
    clauses = (
        MergeClause("matched", "delete", "source.op = 'delete'"),
        MergeClause("matched", "update", assignments={"x": "target.x + 1", v: f"source.{v}"}),
        MergeClause("not_matched", "insert", assignments=_inserted(bench)),
        MergeClause("not_matched_by_source", "update", "target.x = 0", {v: "-1.0"}),
    )
    command = Merge(_merge_source(bench, source), "target.u = source.u", clauses)
    counts = {
        "numTargetRowsInserted": 2,
        "numTargetRowsUpdated": len(after) + len(stale),
        "numTargetRowsDeleted": len(doomed),
        "numSourceRows": len(source),
    }
    return Plan([command], rows, counts)


def merge_inserts(bench: Bench) -> Plan:
    model = bench.model
    known, new = model.rows[:1], model.fresh(2)
    source = [_sourced(row, "insert") for row in (*known, *new)]
    clause = MergeClause("not_matched", "insert", assignments=_inserted(bench))
    command = Merge(_merge_source(bench, source), "target.u = source.u", (clause,))
    return Plan([command], [*model.rows, *new], {"numTargetRowsInserted": 2})


def truncate(_bench: Bench) -> Plan:
    return Plan(["TRUNCATE TABLE t"], [])


def optimize(_bench: Bench) -> Plan:
    return Plan(["OPTIMIZE t"])


def optimize_full(bench: Bench) -> Plan:
    if bench.model.layout.placing != "clustered":
        return Plan([Optimize(target_size_bytes=1 << 20)])
    return Plan([Optimize(full=True)])


def zorder(_bench: Bench) -> Plan:
    return Plan(["OPTIMIZE t ZORDER BY (x, u)"])


def reorg(_bench: Bench) -> Plan:
    return Plan(["REORG TABLE t APPLY (PURGE)"])


def restore(bench: Bench) -> Plan:
    """Two or three steps back, never before what VACUUM left."""
    model = bench.model
    versions = [each for each in sorted(model.versions) if each >= model.oldest]
    wanted = versions[-min(len(versions), 3 + model.step % 2)]
    return Plan([Restore(version=wanted)], effect=lambda: model.restored(wanted))


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
    """A field inside a struct, which files written so far lack."""
    kind = bench.model.types.get("s")
    if kind is None or len(kind) > 2:
        return update(bench)
    command = AddColumns(StructType((StructField("c", DOUBLE),)), parent="s")
    return Plan([command], effect=lambda: bench.model.add_field("c", pa.float64()))


def rename_columns(bench: Bench) -> Plan:
    """A plain column, and one that may be a partition column."""
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


STEPS: Mapping[str, Step] = {
    "append": append,
    "append_values": append_values,
    "update": update,
    "delete": delete,
    "merge": merge,
    "optimize": optimize,
    "add_column": add_column,
    "widen": widen,
    "append_itself": append_itself,
    "add_field": add_field,
    "update_field": update_field,
    "rename_columns": rename_columns,
    "merge_inserts": merge_inserts,
    "delete_partition": delete_partition,
    "reorg": reorg,
    "replace_where": replace_where,
    "zorder": zorder,
    "update_partition": update_partition,
    "drop_column": drop_column,
    "dynamic_overwrite": dynamic_overwrite,
    "restore": restore,
    "vacuum": vacuum,
    "replace_where_partition": replace_where_partition,
    "optimize_full": optimize_full,
    "overwrite": overwrite,
    "truncate": truncate,
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


def literal(value: Any) -> str:
    """A value as SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, dt.date):
        return f"DATE '{value}'"
    return "'" + value.replace("'", "\\'") + "'" if isinstance(value, str) else repr(value)


def _no_struct(model: Model) -> Values:
    return {"s": None} if "s" in model.names else {}


def _sourced(row: Row, op: str, **values: Any) -> Row:
    number = 100_000 + row.birth  # a value for an identity column, which MERGE does not number
    return Row({**row.values, **values, "op": op, "i": number}, row.birth, row.changed)


def _merge_source(bench: Bench, rows: Sequence[Row]) -> FileSource:
    return bench.file(bench.model.table_of(rows, "op", "i"))


def _inserted(bench: Bench) -> dict[str, str]:
    names = [bench.sql(name) for name in bench.model.writable()]
    names += ["i"] if bench.model.layout.identity else []
    return {name: f"source.{name}" for name in names}
