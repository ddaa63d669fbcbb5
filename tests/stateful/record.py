"""The content of a log's commits, replayed from their JSON lines without the engine.

The record grows while a history is played, so that it covers versions whose commits are cleaned away
later. The engine's reading, from any checkpoints and compactions, is compared with it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from engine.actions.codec import encode
from engine.deletion_vectors.files import relative_path
from engine.errors import FileMissingError
from engine.log.file_table import adds_of, removes_of
from engine.log.paths import commit_path
from engine.log.replay import TableState
from engine.storage.base import Store

Fields = Mapping[str, Any]
Files = dict[tuple[str, str | None], Fields]
"""Actions by the logical file they speak of: its path and its deletion vector."""
_MAPS = ("partitionValues", "tags", "configuration", "options")
_NO_STATE = ("dataChange", "extendedFileMetadata", "stats")


@dataclass(frozen=True)
class Version:
    """A version of a table; each action as its JSON object."""

    number: int
    landed_ms: int
    text: bytes
    files: Files = field(default_factory=dict)
    tombstones: Files = field(default_factory=dict)
    metadata: Fields = field(default_factory=dict)
    protocol: Fields = field(default_factory=dict)
    domains: Mapping[str, Fields] = field(default_factory=dict)
    applications: Mapping[str, Fields] = field(default_factory=dict)
    changes: tuple[str, ...] = ()
    operation: str = ""

    def apply_commit(self, number: int, landed_ms: int, text: bytes) -> "Version":
        """The version that a commit makes of this one."""
        files, tombstones = dict(self.files), dict(self.tombstones)
        domains, applications = dict(self.domains), dict(self.applications)
        said: dict[str, Any] = {"changes": []}
        for line in text.splitlines():
            ((kind, action),) = _present(json.loads(line)).items()
            match kind:
                case "add" | "remove":
                    key = _key(action)
                    (tombstones if kind == "add" else files).pop(key, None)
                    (files if kind == "add" else tombstones)[key] = action
                case "metaData" | "protocol":
                    said[kind.lower()] = action
                case "domainMetadata":
                    domains[action["domain"]] = action
                case "txn":
                    applications[action["appId"]] = action
                case "cdc":
                    said["changes"].append(action["path"])
                case "commitInfo":
                    said["operation"] = action.get("operation", "")
        said["changes"] = tuple(said["changes"])
        return replace(
            self,
            number=number,
            landed_ms=landed_ms,
            text=text,
            files=files,
            tombstones=tombstones,
            domains=domains,
            applications=applications,
            **said,
        )

    def changes_are_there(self, store: Store) -> bool:
        """Return True if the version's change files exist."""
        return not find_missing(store, self.changes)

    @property
    def data_files(self) -> set[str]:
        """The files below the table that its rows are read from."""
        vectors = (action.get("deletionVector") for action in self.files.values())
        named = {_vector_file(vector) for vector in vectors if vector}
        return {action["path"] for action in self.files.values()} | (named - {None})


class Record:
    """Every version that a log has had, as far as it was followed."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.versions: list[Version] = []
        self.follow()

    @property
    def newest(self) -> Version:
        return self.versions[-1]

    def follow(self) -> None:
        """Read the commits that have come since."""
        before = self.versions[-1] if self.versions else Version(-1, 0, b"")
        while True:
            number = before.number + 1
            try:
                text = self.store.read(commit_path(number))
            except FileMissingError:
                return
            status = self.store.stat(commit_path(number))
            before = before.apply_commit(number, status.modified_ms if status else 0, text)
            self.versions.append(before)


def check_state(
    state: TableState, said: Version, *, tombstones_since_ms: int, by_others: bool = False
) -> None:
    """Raise AssertionError if the engine's reading of a version differs from the commits.

    Tombstones older than a time may be missing. They may lack their tags if another engine may have
    written the checkpoint (`by_others`): delta-spark keeps none.
    """
    dropped = {"stats", "tags"} if by_others else {"stats"}
    where = f"version {said.number}, read from checkpoint {state.checkpoint_version}"
    assert state.version == said.number, where
    _compare(f"files of {where}", _engine_files(state), said.files)
    kept = _engine_tombstones(state)
    young = {
        key: _drop_fields(action, dropped)
        for key, action in said.tombstones.items()
        if (action.get("deletionTimestamp") or 0) > tombstones_since_ms or key in kept
    }
    ours = {key: _drop_fields(action, dropped) for key, action in kept.items()}
    _compare(f"tombstones of {where}", ours, young)
    assert _fields(state.metadata) == said.metadata, where
    assert _sort_features(_fields(state.protocol)) == _sort_features(said.protocol), where
    there = {name: domain for name, domain in said.domains.items() if not domain.get("removed")}
    assert {name: _fields(domain) for name, domain in state.domains.items()} == there, where
    named = {name: _fields(transaction) for name, transaction in state.set_transactions.items()}
    assert named == said.applications, where


def _compare(what: str, engine: Files, said: Files) -> None:
    ours, theirs = (
        {key: _state_of(content) for key, content in side.items()} for side in (engine, said)
    )
    missing = [key for key in theirs if key not in ours]
    surplus = [key for key in ours if key not in theirs]
    assert not missing, f"{what}: {missing} is missing"
    assert not surplus, f"{what}: {surplus} is there too"
    different = [(ours[key], theirs[key]) for key in ours if ours[key] != theirs[key]]
    assert not different, f"{what}: {different[0][0]} should be {different[0][1]}"


def _state_of(action: Fields) -> Fields:
    """Return an action's state of a file, with the meaning of its statistics."""
    said = {name: value for name, value in action.items() if name not in _NO_STATE}
    stats = json.loads(action.get("stats") or "null") or {}
    bounds = [stats.get(kind) or {} for kind in ("minValues", "maxValues", "nullCount")]
    return {
        **said,
        "numRecords": stats.get("numRecords"),
        "x": [bound.get("x") for bound in bounds],
    }


def _drop_fields(tombstone: Fields, dropped: set[str]) -> Fields:
    """Drop the statistics of removed files, which a checkpoint may omit."""
    return {name: value for name, value in tombstone.items() if name not in dropped}


def _engine_files(state: TableState) -> Files:
    return {add.key: _fields(add) for add in adds_of(state.files)}


def _engine_tombstones(state: TableState) -> Files:
    return {remove.key: _fields(remove) for remove in removes_of(state.tombstones)}


def _fields(action: Any) -> Fields:
    (fields,) = json.loads(encode(action)).values()
    return fields


def _sort_features(protocol: Fields) -> Fields:
    """Sort the features, which delta-spark's checkpoints have in another order than its commits."""
    return {
        name: sorted(value) if isinstance(value, list) else value
        for name, value in protocol.items()
    }


def _present(fields: Fields) -> dict[str, Any]:
    """Remove nulls, which stand for absent fields, but keep those of maps."""
    return {
        name: _present(value) if isinstance(value, dict) and name not in _MAPS else value
        for name, value in fields.items()
        if value is not None
    }


def _key(action: Fields) -> tuple[str, str | None]:
    vector = action.get("deletionVector")
    if vector is None:
        return action["path"], None
    tail = f"@{vector['offset']}" if "offset" in vector else ""
    return action["path"], f"{vector['storageType']}{vector['pathOrInlineDv']}{tail}"


def _vector_file(vector: Fields) -> str | None:
    """Return the path of a deletion vector, None if it is in the log."""
    if vector["storageType"] != "u":
        return None
    return relative_path(vector["pathOrInlineDv"])


def find_missing(store: Store, paths: Iterable[str]) -> list[str]:
    """Return the missing files."""
    return sorted(path for path in paths if store.stat(path) is None)
