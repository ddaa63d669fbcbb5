"""The required content of the log after a case (`effect` in `conflict_cases.jsonl`)."""

import itertools
from collections.abc import Callable
from typing import Any

from engine.conflicts.decide.row_access import physical_rows
from engine.log.commits import read_commit
from engine.transaction.pending_commit import high_water_mark
from tests.engine.conflicts.case_player import Played, log_of

_VERSION = "delta.inCommitTimestampEnablementVersion"
_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"


def check_effect(played: Played, effect: dict[str, Any]) -> None:
    for name, expected in effect.items():
        _EFFECTS[name](played, expected)


def _base_row_ids(played: Played, expected: dict[str, int]) -> None:
    live = {add_file.path: add_file.base_row_id for add_file in played.table.snapshot().add_files()}
    assert {path: live[path] for path in expected} == expected


def _row_versions(played: Played, versions: dict[str, Any]) -> None:
    live = {add_file.path: add_file for add_file in played.table.snapshot().add_files()}
    for path, version in versions.items():
        expected = played.committed_version if version == "commit" else version
        assert live[path].default_row_commit_version == expected


def _mark(played: Played, expected: int) -> None:
    assert high_water_mark(played.table.snapshot().domains.values()) == expected


def _valid_row_ids(played: Played, _: bool) -> None:
    taken: list[tuple[int, int]] = []
    for add in played.table.snapshot().add_files():
        assert add.base_row_id is not None
        assert add.default_row_commit_version is not None
        taken.append((add.base_row_id, add.base_row_id + (physical_rows(add) or 0)))
    taken.sort()
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(taken))


def _row_ids_unchanged(played: Played, paths: list[str]) -> None:
    first: dict[str, int | None] = {}
    for version in log_of(played.table):
        for action in read_commit(played.table.store, version).actions:
            path = getattr(action, "path", None)
            if path in paths:
                first.setdefault(path, action.base_row_id)
    live = {add_file.path: add_file.base_row_id for add_file in played.table.snapshot().add_files()}
    assert {path: live[path] for path in paths} == first


def _timestamps_increase(played: Played, _: bool) -> None:
    commits = [read_commit(played.table.store, number) for number in log_of(played.table)]
    times = [
        commit.commit_info.in_commit_timestamp
        for commit in commits
        if commit.commit_info and commit.commit_info.in_commit_timestamp is not None
    ]
    assert len(times) >= 2
    assert times == sorted(set(times))


def _check_enablement(played: Played, _: bool) -> None:
    assert played.commit is not None
    assert played.commit.commit_info is not None
    configuration = played.table.snapshot().metadata.configuration
    assert configuration[_VERSION] == str(played.committed_version)
    assert configuration[_TIMESTAMP] == str(played.commit.commit_info.in_commit_timestamp)


def _enablement_kept(played: Played, _: bool) -> None:
    now = played.table.snapshot().metadata.configuration
    before = played.table.snapshot(played.winning_version).metadata.configuration
    assert (now[_VERSION], now[_TIMESTAMP]) == (before[_VERSION], before[_TIMESTAMP])


_EFFECTS: dict[str, Callable[[Played, Any], None]] = {
    "baseRowId": _base_row_ids,
    "defaultRowCommitVersion": _row_versions,
    "rowIdHighWaterMark": _mark,
    "valid_row_ids": _valid_row_ids,
    "row_ids_unchanged": _row_ids_unchanged,
    "in_commit_timestamps_increase": _timestamps_increase,
    "ict_enablement_is_commit": _check_enablement,
    "ict_enablement_kept": _enablement_kept,
}
