"""Conditions that a table must satisfy after every step."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.actions.files import AddFile
from engine.operations.execution import uses_deletion_vectors
from engine.operations.vacuum_plan import paths_of
from engine.schema.column_mapping import physical_name
from engine.snapshot.change_feed import CHANGE_TYPE, read_changes
from engine.snapshot.reader import ROW_INDEX, read_file
from engine.snapshot.snapshot import Snapshot
from engine.table import DeltaTable
from tests.engine.operations.sweep.model import Model, Row, sort_rows

Shown = tuple[Any, ...]


@dataclass(frozen=True)
class Found:
    """A row of the table and its position."""

    key: str
    identity: int | None
    row_id: int | None
    commit_version: int | None


def check_rows(model: Model, snapshot: Snapshot) -> None:
    """Compare rows and columns with the model's, apart from identity columns."""
    names = [model.names[name] for name in model.names]
    assert set(snapshot.schema.names) - {"i"} == set(names)
    check_same(show_rows(snapshot.to_arrow(), names), model.show_rows(), "the engine")
    assert snapshot.row_count == len(model.rows)


def check_same(rows: list[Shown], expected: list[Shown], reader: str) -> None:
    """Compare rows, and name those on one side only."""
    extra = [row for row in rows if row not in expected]
    missing = [row for row in expected if row not in rows]
    assert rows == expected, f"{reader} has {extra} and lacks {missing}"


def show_rows(rows: pa.Table, names: list[str]) -> list[Shown]:
    """Return rows as the model shows them."""
    return sort_rows(tuple(row.values()) for row in rows.select(names).to_pylist())


def check_files(model: Model, snapshot: Snapshot) -> None:
    """Check each file's statistics, and that no vector exists where the table may have none."""
    adds = snapshot.add_files()
    assert model.layout.vectors or not any(add.deletion_vector for add in adds)
    assert uses_deletion_vectors(snapshot) == model.layout.vectors
    for add in adds:
        stats = json.loads(add.stats or "{}")
        place = Path(snapshot.table_uri) / unquote(add.path)
        assert stats["numRecords"] == pq.read_metadata(place).num_rows
        assert place.stat().st_size == add.size
        rows = read_file(snapshot, add)
        for field in snapshot.schema:
            physical = physical_name(field, snapshot.mapping_mode)
            if field.name in ("u", "x", "w"):
                _check_bounds(stats, physical, rows[field.name].drop_null().to_pylist())


def _check_bounds(stats: Mapping[str, Any], name: str, values: list[Any]) -> None:
    low, high = stats["minValues"].get(name), stats["maxValues"].get(name)
    assert low is None or all(low <= value for value in values)
    assert high is None or all(value <= high for value in values)


def check_identities(model: Model, rows: Iterable[Found], seen: dict[int, Found]) -> None:
    """Check that row ids and identity values never change, and that row commit versions are right.

    `seen` maps each row's birth to its last state, and is updated.
    """
    by_key = {marked.key: marked for marked in rows}
    for row in model.rows:
        here = by_key[row.values["u"]]
        before = seen.get(row.birth)
        if before is not None:
            assert (before.row_id, before.identity) == (here.row_id, here.identity), row
        elif model.layout.row_tracking or here.row_id is not None:
            assert here.row_id not in {other.row_id for other in seen.values()}, row
        if here.commit_version is not None:
            assert here.commit_version == model.committed[row.changed], row
        seen[row.birth] = here
    for name in ("row_id", "identity"):
        values = [getattr(marked, name) for marked in by_key.values()]
        assert len(set(values) - {None}) == len(values) - values.count(None)


def find_rows(snapshot: Snapshot) -> Iterator[Found]:
    """Return every row with its identity value, row id and row commit version."""
    tracked = snapshot.properties.row_tracking
    columns = [name for name in ("u", "i") if snapshot.schema.get(name) is not None]
    for add in snapshot.add_files():
        rows = read_file(snapshot, add, columns, with_positions=True).to_pylist()
        ids, versions = _read_tracking(snapshot, add) if tracked else ({}, {})
        for row in rows:
            place = row[ROW_INDEX]
            yield Found(row["u"], row.get("i"), ids.get(place), versions.get(place))


def _read_tracking(snapshot: Snapshot, add: AddFile) -> tuple[dict[int, int], dict[int, int]]:
    """Return row ids and row commit versions by position: stored ones, or else the file's defaults."""
    place = Path(snapshot.table_uri) / unquote(add.path)
    file = pq.read_table(place, partitioning=None)
    count = file.num_rows
    assert add.base_row_id is not None
    assert add.default_row_commit_version is not None
    ids = [add.base_row_id + i for i in range(count)]
    versions = [add.default_row_commit_version] * count
    properties = snapshot.properties
    for name, derived in (
        (properties.row_id_column, ids),
        (properties.row_commit_version_column, versions),
    ):
        if name in file.column_names:
            stored = file[name].to_pylist()
            derived[:] = [d if s is None else s for s, d in zip(stored, derived, strict=True)]
    return dict(enumerate(ids)), dict(enumerate(versions))


def check_changes(model: Model, before: list[Row], table: DeltaTable, first: int) -> None:
    """Check that the change feed leads from the old rows to the new ones, without superfluous changes."""
    names = [model.names[name] for name in model.names]
    changes = read_changes(table, first)
    kinds = {
        kind: Counter(
            map(_hashable, show_rows(changes.filter(pc.equal(changes[CHANGE_TYPE], kind)), names))
        )
        for kind in ("insert", "delete", "update_preimage", "update_postimage")
    }
    old = Counter(_show_under_names(model, row) for row in before)
    new = Counter(_show_under_names(model, row) for row in model.rows)
    old.update(kinds["insert"] + kinds["update_postimage"])
    new.update(kinds["delete"] + kinds["update_preimage"])
    assert old == new
    last = table.history(1)[0].operation
    if last == "RESTORE":
        return
    after = {row.birth: row for row in model.rows}
    past = {row.birth: row for row in before}
    changed = [row for row in past.values() if after.get(row.birth, row).changed != row.changed]
    assert kinds["update_preimage"] == Counter(_show_under_names(model, row) for row in changed)
    assert kinds["delete"] == Counter(
        _show_under_names(model, r) for b, r in past.items() if b not in after
    )
    assert kinds["insert"] == Counter(
        _show_under_names(model, r) for b, r in after.items() if b not in past
    )


def _show_under_names(model: Model, row: Row) -> Shown:
    """Return a row under the current column names."""
    values = dict(row.values)
    if values.get("s") is not None and "s" in model.types:
        values["s"] = {type_.name: values["s"].get(type_.name) for type_ in model.types["s"]}
    return _hashable(tuple(values.get(name) for name in model.names))


def _hashable(row: Shown) -> Shown:
    """Return a hashable value; a struct becomes its text."""
    return tuple(repr(value) if isinstance(value, dict) else value for value in row)


def check_directory(snapshot: Snapshot) -> None:
    """Check that a VACUUM has left only files that the newest version needs."""
    root = Path(snapshot.table_uri)
    here = {p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file()}
    needed = {path for add in snapshot.add_files() for path in paths_of(str(root), add)}
    assert {name for name in here if not name.startswith("_delta_log/")} == needed


def check_times(table: DeltaTable) -> None:
    """Check that in-commit timestamps increase."""
    times = [info.in_commit_timestamp for info in table.history(3)]
    assert None not in times
    assert times == sorted(times, reverse=True)
    assert len(set(times)) == len(times)
