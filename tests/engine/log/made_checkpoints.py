"""Checkpoints of every kind in the protocol, from one consistent or contradictory state."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.actions.codec import Action, decode_lines, encode
from engine.actions.commit_info import CheckpointMetadata, Sidecar
from engine.actions.table import Protocol
from engine.log.checkpoint_writer import write_checkpoint
from engine.log.file_table import adds_of, removes_of
from engine.log.paths import (
    LAST_CHECKPOINT,
    SIDECAR_DIRECTORY,
    checkpoint_path,
    sidecar_path,
    v2_checkpoint_path,
)
from engine.log.replay import TableState
from engine.protocol.properties import TableProperties
from engine.storage.base import Store

V2 = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=["deletionVectors", "v2Checkpoint"],
    writer_features=["deletionVectors", "v2Checkpoint"],
)


def classic(store: Store, state: TableState) -> None:
    """Write one Parquet file."""
    write_checkpoint(store, state, TableProperties(), now_ms=0)


def write_parts(store: Store, state: TableState) -> None:
    """Write three Parquet files that form one checkpoint."""
    classic(store, state)
    rows = _rows_of(store, checkpoint_path(state.version))
    store.delete(checkpoint_path(state.version))
    for part, piece in enumerate(_pieces(rows, 3), start=1):
        name = f"{state.version:020}.checkpoint.{part:010}.{3:010}.parquet"
        _put(store, f"_delta_log/{name}", piece)


def write_one_sidecar(store: Store, state: TableState) -> None:
    """Write a manifest of JSON lines and one sidecar."""
    write_checkpoint(store, state, replace(TableProperties(), checkpoint_policy="v2"), now_ms=0)


def write_two_sidecars(store: Store, state: TableState) -> None:
    """Write a manifest of JSON lines and two sidecars."""
    write_one_sidecar(store, state)
    path, actions = _manifest(store, state.version)
    (whole,) = [action for action in actions if isinstance(action, Sidecar)]
    rows = _rows_of(store, f"{SIDECAR_DIRECTORY}/{whole.path}")
    sidecars = [_sidecar(store, piece) for piece in _pieces(rows, 2)]
    others = [action for action in actions if not isinstance(action, Sidecar)]
    store.put(path, _lines([*others, *sidecars]))


def write_no_sidecars(store: Store, state: TableState) -> None:
    """Write a manifest of JSON lines with every action."""
    files = [*adds_of(state.files), *removes_of(state.tombstones)]
    others = [state.protocol, state.metadata]
    others += [*state.set_transactions.values(), *state.domains.values()]
    first = CheckpointMetadata(version=state.version)
    store.put(v2_checkpoint_path(state.version, "json"), _lines([first, *others, *files]))


def write_parquet_manifest(store: Store, state: TableState) -> None:
    """Write a manifest in Parquet, with the file actions in a sidecar."""
    classic(store, state)
    rows = _rows_of(store, checkpoint_path(state.version))
    store.delete(checkpoint_path(state.version))
    is_file = pc.or_(pc.is_valid(rows.column("add")), pc.is_valid(rows.column("remove")))
    sidecar = _sidecar(store, rows.filter(is_file).select(["add", "remove"]))
    fields = {"path": sidecar.path, "sizeInBytes": sidecar.size_in_bytes, "modificationTime": 1}
    manifest = rows.filter(pc.invert(is_file)).drop_columns(["add", "remove"])
    named = pa.table({"sidecar": [fields]})
    tables = [manifest, named]
    _put(
        store,
        v2_checkpoint_path(state.version),
        pa.concat_tables(tables, promote_options="default"),
    )


KINDS: Mapping[str, Callable[[Store, TableState], None]] = {
    "classic": classic,
    "in parts": write_parts,
    "with a sidecar": write_one_sidecar,
    "with two sidecars": write_two_sidecars,
    "without sidecars": write_no_sidecars,
    "in Parquet": write_parquet_manifest,
}


def write_kind(store: Store, state: TableState, kind: str) -> None:
    """Write a checkpoint of a kind; for version 2, use a protocol that allows it."""
    is_v1 = kind in ("classic", "in parts")
    KINDS[kind](store, state if is_v1 else replace(state, protocol=V2))
    if kind in ("without sidecars", "in Parquet"):
        store.put(LAST_CHECKPOINT, b'{"version":%d,"size":1}' % state.version)


def _manifest(store: Store, version: int) -> tuple[str, list[Action]]:
    (file,) = [
        file
        for file in store.list_from("_delta_log", f"{version:020}.checkpoint")
        if file.name.startswith(f"{version:020}.checkpoint") and file.name.endswith(".json")
    ]
    return file.path, list(decode_lines(store.read(file.path)))


def _sidecar(store: Store, rows: pa.Table) -> Sidecar:
    path = sidecar_path()
    size = _put(store, path, rows)
    name = path.removeprefix(f"{SIDECAR_DIRECTORY}/")
    return Sidecar(path=name, size_in_bytes=size, modification_time=1)


def _rows_of(store: Store, path: str) -> pa.Table:
    with store.open_input(path) as source:
        return pq.read_table(source)


def _pieces(rows: pa.Table, count: int) -> list[pa.Table]:
    cuts = [rows.num_rows * number // count for number in range(count + 1)]
    return [rows.slice(start, end - start) for start, end in pairwise(cuts)]


def _put(store: Store, path: str, rows: pa.Table) -> int:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    data = sink.getvalue().to_pybytes()
    store.put(path, data)
    return len(data)


def _lines(actions: Sequence[Action]) -> bytes:
    return "".join(f"{encode(action)}\n" for action in actions).encode()
