"""Player of the cases of `conflict_cases.jsonl` against a table in memory.

Each case retells an assertion of another engine's suite (`origin`) at the level of actions:

- The table has `columns`, `partition_columns`, `properties` and the table features in `features`, and
  no deletion vectors, so that file-level rules decide. `setup` is committed first, each list of it as
  a commit of its own.
- `current` starts and performs its `reads`. `winner`, then each of `later_winners`, commits through
  another handle; `written_by_another_engine` writes the commit by hand. `current` performs its
  `late_reads`, stages its `actions` and commits.
- A read is a `filter`, `readWholeTable` or `readAppId`. An action is `add`, `remove`, `readd` (the
  live `add` again), `txn`, `domain`, `metadata` or `protocol`. No data file exists.
- `expected` is the outcome at `isolation`, `expected_if_write_serializable` at the other level: ALLOWED,
  an exception, ERROR (any other refusal), or a list of permitted outcomes. `expected_here…` replaces
  it where docs/semantics.md requires another outcome. `effect` is the required content of the log.
"""

import json
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from engine.actions.codec import Action, decode, encode
from engine.actions.files import AddFile, RemoveFile
from engine.actions.table import DomainMetadata, Metadata, Protocol, SetTransaction
from engine.clock import SystemClock
from engine.errors import EngineError
from engine.log.commits import LogCommit, list_versions, read_commit
from engine.log.paths import commit_path
from engine.protocol.features import upgrade
from engine.schema.types import PrimitiveType, StructField, StructType
from engine.snapshot.snapshot import Snapshot
from engine.table import DeltaTable
from engine.transaction.optimistic_transaction import OptimisticTransaction
from tests.engine.made_tables import stage


@dataclass(frozen=True)
class Played:
    """The outcome of a case: the error or the version, and the table afterwards."""

    table: DeltaTable
    error: EngineError | None
    committed_version: int | None
    winning_version: int
    log_before: dict[int, bytes]
    commit: LogCommit | None

    @property
    def name(self) -> str:
        return "ALLOWED" if self.error is None else type(self.error).__name__


def read_cases(name: str) -> list[dict[str, Any]]:
    """Return the JSON lines of a file beside this module."""
    text = Path(__file__).with_name(name).read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def list_expected(case: dict[str, Any], level: str) -> list[str]:
    """Return the permitted outcomes at a level."""
    if level == "Serializable":
        expected = case.get("expected_here", case["expected"])
    else:
        expected = case.get(
            "expected_here_if_write_serializable", case["expected_if_write_serializable"]
        )
    return expected if isinstance(expected, list) else [expected]


def play(case: dict[str, Any], level: str) -> Played:
    table = _create(case, level)
    for actions in _setup_commits(case["setup"]):
        _commit(table, actions)
    current = table.start_transaction()
    _read(current, case["current"]["reads"])
    for winner in [case["winner"], *case.get("later_winners", [])]:
        _win(DeltaTable.open(table.uri), winner)
    _read(current, case["current"].get("late_reads", []))
    winning_version = DeltaTable.open(table.uri).version()
    log_before = _log(table)
    error: EngineError | None = None
    version = None
    try:
        stage(current, *_actions(case["current"]["actions"], current.snapshot))
        version = current.commit(_operation(case["current"]["actions"]))
    except EngineError as raised:
        error = raised
    landed = version is not None and current.outcome and current.outcome.committed
    commit = read_commit(table.store, version) if landed and version is not None else None
    return Played(table, error, version, winning_version, log_before, commit)


def log_of(table: DeltaTable) -> dict[int, bytes]:
    return _log(table)


def _create(case: dict[str, Any], level: str) -> DeltaTable:
    schema = StructType(
        tuple(StructField(name, PrimitiveType(kind)) for name, kind in case["columns"].items())
    )
    properties = {
        "delta.enableDeletionVectors": "false",
        **case.get("properties", {}),
        "delta.isolationLevel": level,
    }
    uri = f"memory://cases/{case['id']}-{uuid.uuid4()}"
    table = DeltaTable.create(uri, schema, case["partition_columns"], properties=properties)
    if case.get("features"):
        _commit(table, [{"protocol": {"add_features": case["features"]}}])
    return table


def _setup_commits(setup: list[Any]) -> list[list[dict[str, Any]]]:
    lists = [entry for entry in setup if isinstance(entry, list)]
    rest = [entry for entry in setup if not isinstance(entry, list)]
    return [*lists, rest] if rest else lists


def _commit(table: DeltaTable, actions: list[dict[str, Any]]) -> None:
    txn = table.start_transaction()
    stage(txn, *_actions(actions, txn.snapshot))
    txn.commit("Manual Update")


def _win(table: DeltaTable, winner: dict[str, Any]) -> None:
    if winner.get("written_by_another_engine"):
        _write_by_hand(table, winner)
        return
    if not winner["actions"]:
        return
    txn = table.start_transaction()
    _read(txn, winner["reads"])
    stage(txn, *_actions(winner["actions"], txn.snapshot))
    txn.commit(_operation(winner["actions"]))


def _write_by_hand(table: DeltaTable, winner: dict[str, Any]) -> None:
    snapshot = table.snapshot()
    version = snapshot.version + 1
    info = {"timestamp": SystemClock().now_ms(), "readVersion": snapshot.version}
    info |= winner["commitInfo"]
    if "inCommitTimestamp" in info:
        info["inCommitTimestamp"] = SystemClock().now_ms() + 100_000_000
    lines = [json.dumps({"commitInfo": info})]
    for action in _actions(winner["actions"], snapshot):
        if isinstance(action, AddFile) and action.base_row_id is not None:
            action = msgspec.structs.replace(action, default_row_commit_version=version)
        lines.append(encode(action))
    decode(lines[0])
    table.store.put_if_absent(commit_path(version), "".join(f"{line}\n" for line in lines).encode())


def _read(txn: OptimisticTransaction, reads: list[dict[str, Any]]) -> None:
    for read in reads:
        if "filter" in read:
            txn.read_where(read["filter"])
        elif "readAppId" in read:
            txn.read_application(read["readAppId"])
        else:
            txn.read_whole_table()


def _operation(actions: list[dict[str, Any]]) -> str:
    changes = any(action.get("dataChange") for action in actions)
    return "WRITE" if changes else "Manual Update"


def _actions(actions: list[dict[str, Any]], snapshot: Snapshot | None) -> list[Action]:
    assert snapshot is not None
    return [_action(action, snapshot) for action in actions]


def _action(action: dict[str, Any], snapshot: Snapshot) -> Action:  # noqa: PLR0911 - one a kind
    match action:
        case {"add": path}:
            return AddFile(
                path=path,
                partition_values=action.get("partition", {}),
                size=100,
                modification_time=1,
                data_change=action["dataChange"],
                stats=_stats(action),
                base_row_id=action.get("baseRowId"),
            )
        case {"remove": path}:
            return RemoveFile(
                path=path,
                data_change=action["dataChange"],
                partition_values=action.get("partition"),
            )
        case {"readd": path}:
            live = snapshot.add_files(paths=[path])[0]
            return msgspec.structs.replace(live, data_change=action["dataChange"])
        case {"txn": txn}:
            return SetTransaction(app_id=txn["appId"], version=txn["version"])
        case {"domain": domain}:
            return DomainMetadata(
                domain=domain["name"],
                configuration=domain["configuration"],
                removed=domain["removed"],
            )
        case {"metadata": change}:
            return _metadata(change, snapshot.metadata)
        case {"protocol": change}:
            return _protocol(change, snapshot.protocol)
        case _:
            raise AssertionError(action)


def _metadata(change: dict[str, Any], metadata: Metadata) -> Metadata:
    kept = {
        name: value
        for name, value in metadata.configuration.items()
        if name not in change.get("unset", [])
    }
    return msgspec.structs.replace(metadata, configuration={**kept, **change.get("set", {})})


def _protocol(change: dict[str, Any], protocol: Protocol) -> Protocol:
    if "add_features" in change:
        wider = upgrade(protocol, change["add_features"])
        return msgspec.structs.replace(wider)
    gone = set(change["remove_features"])
    return msgspec.structs.replace(
        protocol,
        reader_features=_exclude(protocol.reader_features, gone),
        writer_features=_exclude(protocol.writer_features, gone),
    )


def _exclude(names: list[str] | None, gone: set[str]) -> list[str] | None:
    return None if names is None else [name for name in names if name not in gone]


def _stats(action: dict[str, Any]) -> str | None:
    stats: dict[str, Any] = {}
    if "numRecords" in action:
        stats["numRecords"] = action["numRecords"]
    if "stats" in action:
        stats["minValues"] = {name: low for name, (low, _) in action["stats"].items()}
        stats["maxValues"] = {name: high for name, (_, high) in action["stats"].items()}
        stats["nullCount"] = dict.fromkeys(action["stats"], 0)
    return json.dumps(stats) if stats else None


def _log(table: DeltaTable) -> dict[int, bytes]:
    versions = list_versions(table.store)
    return {version: table.store.read(commit_path(version)) for version in versions}
