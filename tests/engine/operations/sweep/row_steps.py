"""The operations that change rows."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

from engine.commands.merge import Merge, MergeClause
from engine.commands.model import Append, Delete, Overwrite, Update
from engine.commands.sources import FileSource, TableSource
from tests.engine.operations.sweep.bench import Bench, Plan
from tests.engine.operations.sweep.model import Model, Row, Values


def append(bench: Bench) -> Plan:
    model = bench.model
    new = model.fresh(8)
    command = Append(bench.file(model.table_of(new)))
    return Plan([command], [*model.rows, *new], {"numOutputRows": 8})


def append_values(bench: Bench) -> Plan:
    model = bench.model
    new = model.fresh(3, **_no_struct(model))
    return Plan([Append(bench.values_source(new))], [*model.rows, *new], {"numOutputRows": 3})


def append_itself(bench: Bench) -> Plan:
    model = bench.model
    chosen = [row for row in model.rows if row.values["x"] in (2, 3)]
    columns = [f"concat(u, '{model.copied}') AS `{model.names['u']}`"]
    columns += [bench.sql(name) for name in model.writable() if name != "u"]
    source = TableSource(bench.uri, tuple(columns), "x IN (2, 3)")
    return Plan([Append(source)], [*model.rows, *map(model.move_row, chosen)])


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
    left = model.exclude_rows(lambda row: row["x"] >= 3)
    command = Overwrite(bench.values_source(new), replace_where="x >= 3")
    gone = len(model.rows) - len(left)
    return Plan([command], [*left, *new], {"numDeletedRows": gone})


def replace_where_partition(bench: Bench) -> Plan:
    model = bench.model
    new = model.fresh(2, p="a")
    left = model.exclude_rows(lambda row: row["p"] == "a")
    where = f"{bench.sql('p')} = 'a'"
    command = Overwrite(bench.file(model.table_of(new)), replace_where=where)
    return Plan([command], [*left, *new])


def dynamic_overwrite(bench: Bench) -> Plan:
    model = bench.model
    new = model.fresh(2)
    command = Overwrite(bench.file(model.table_of(new)), dynamic_partitions=True)
    touched = {(row.values["p"], row.values["d"]) for row in new}
    whole = model.layout.placing != "partitioned"
    left = [] if whole else model.exclude_rows(lambda row: (row["p"], row["d"]) in touched)
    return Plan([command], [*left, *new], {"numOutputRows": 2})


def delete(bench: Bench) -> Plan:
    left = bench.model.exclude_rows(lambda row: row["x"] % 3 == 1)
    gone = len(bench.model.rows) - len(left)
    return Plan([Delete("x % 3 = 1")], left, {"numDeletedRows": gone} if gone else {})


def delete_partition(bench: Bench) -> Plan:
    left = bench.model.exclude_rows(lambda row: row["p"] == "b%/= c")
    return Plan([Delete(f"{bench.sql('p')} = 'b%/= c'")], left)


def update(bench: Bench) -> Plan:
    model = bench.model
    changed = sum(1 for row in model.rows if row.values["x"] < 3)
    rows = model.update_rows(
        lambda row: row["x"] < 3,
        x=lambda row: row["x"] + 1,
        v=lambda row: None if row["v"] is None else row["v"] * 2,
    )
    command = Update({"x": "x + 1", bench.sql("v"): f"{bench.sql('v')} * 2"}, "x < 3")
    return Plan([command], rows, {"numUpdatedRows": changed} if changed else {})


def update_partition(bench: Bench) -> Plan:
    rows = bench.model.update_rows(
        lambda row: row["p"] is None, p=lambda _: "a", d=lambda _: dt.date(2024, 2, 29)
    )
    values = {bench.sql("p"): "'a'", "d": "DATE '2024-02-29'"}
    return Plan([Update(values, f"{bench.sql('p')} IS NULL")], rows)


def update_field(bench: Bench) -> Plan:
    """Update a field of a struct, or another column if the struct is dropped."""
    if "s" not in bench.model.names:
        return update(bench)
    rows = bench.model.update_rows(
        lambda row: row["s"] is not None and row["s"]["a"] % 2 == 1,
        s=lambda row: {**row["s"], "b": "new"},
    )
    return Plan([Update({"s.b": "'new'"}, "s.a % 2 = 1")], rows)


def merge(bench: Bench) -> Plan:
    """Delete, update and insert some rows, and update some rows without a source row."""
    model = bench.model
    by_birth = sorted(model.rows, key=lambda row: row.birth)
    doomed, changing = by_birth[1::4], by_birth[2::4]
    new = model.fresh(2)
    after = [
        model.change_row(row, x=row.values["x"] + 1, v=0.5)
        for row in changing
        if row.values["x"] is not None
    ]
    spared = [row for row in by_birth if row not in doomed and row not in changing]
    unmatched = [row for row in spared if row.values["x"] == 0]
    stale = [model.change_row(row, v=-1.0) for row in unmatched]
    rows = [row for row in spared if row not in unmatched] + stale + after + new
    source = [_source_row(row, "delete") for row in doomed]
    source += [_source_row(row, "update", v=0.5) for row in changing]
    source += [_source_row(row, "insert") for row in new]
    v = bench.sql("v")
    clauses = (
        MergeClause("matched", "delete", "source.op = 'delete'"),
        MergeClause("matched", "update", assignments={"x": "target.x + 1", v: f"source.{v}"}),
        MergeClause("not_matched", "insert", assignments=_insert_assignments(bench)),
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
    old, new = model.rows[:1], model.fresh(2)
    source = [_source_row(row, "insert") for row in (*old, *new)]
    clause = MergeClause("not_matched", "insert", assignments=_insert_assignments(bench))
    command = Merge(_merge_source(bench, source), "target.u = source.u", (clause,))
    return Plan([command], [*model.rows, *new], {"numTargetRowsInserted": 2})


def _no_struct(model: Model) -> Values:
    return {"s": None} if "s" in model.names else {}


def _source_row(row: Row, op: str, **values: Any) -> Row:
    number = 100_000 + row.birth  # a value for an identity column, because MERGE does not number it
    return Row({**row.values, **values, "op": op, "i": number}, row.birth, row.changed)


def _merge_source(bench: Bench, rows: Sequence[Row]) -> FileSource:
    return bench.file(bench.model.table_of(rows, "op", "i"))


def _insert_assignments(bench: Bench) -> dict[str, str]:
    names = [bench.sql(name) for name in bench.model.writable()]
    names += ["i"] if bench.model.layout.identity else []
    return {name: f"source.{name}" for name in names}
