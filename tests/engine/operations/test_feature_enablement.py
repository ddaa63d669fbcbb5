"""Writes that run while another commit enables a feature that does not affect them."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.actions.commit_info import CommitInfo
from engine.actions.table import SetTransaction
from engine.commands.sql import parse_statement
from engine.conflict_facts import Rule, Verdict
from engine.errors import (
    ConcurrentAppendException,
    ConflictError,
    MetadataChangedException,
    ProtocolChangedException,
)
from engine.log.commits import read_commit
from engine.operations.result import OperationResult
from engine.operations.run import run
from engine.protocol.features import upgrade
from engine.protocol.properties import RESOLUTION_PROPERTY
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver
from engine.transaction.pending_commit import ResolvedConflict
from tests.engine.transaction.tables import append, data_file, new_table, paths_of

ASKED = f"'{RESOLUTION_PROPERTY}' = 'true'"
ENABLEMENTS = {
    "deletionVectors": "SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "inCommitTimestamp": "SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
    "v2Checkpoint": "SET TBLPROPERTIES ('delta.checkpointPolicy' = 'v2')",
}
OTHERS = (
    "SET TBLPROPERTIES ('delta.appendOnly' = 'false')",
    "SET TBLPROPERTIES ('note' = 'x')",
    "SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '7')",
    "SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' "
    "= 'true')",
    "SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
    f"UNSET TBLPROPERTIES ('{RESOLUTION_PROPERTY}')",
    "ADD COLUMN more STRING",
)
WRITES = {
    "WRITE": ("INSERT INTO t VALUES (4)", [1, 2, 3, 4]),
    "DELETE": ("DELETE FROM t WHERE id = 2", [1, 3]),
    "UPDATE": ("UPDATE t SET id = 9 WHERE id = 2", [1, 3, 9]),
    "MERGE": (
        "MERGE INTO t USING (VALUES (2)) AS s (id) ON t.id = s.id WHEN MATCHED THEN DELETE",
        [1, 3],
    ),
}


class _Meanwhile(TransactionObserver):
    """An action that runs once, when the write has staged its files; resolved conflicts are kept."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self.resolved: list[ResolvedConflict] = []

    def staged(self, txn: object) -> None:  # noqa: ARG002
        act, self._act = self._act, lambda: None
        act()

    def conflict_resolved(self, txn: object, conflict: ResolvedConflict) -> None:  # noqa: ARG002
        self.resolved.append(conflict)


def _alter(table: DeltaTable, change: str) -> OperationResult:
    return run(f"ALTER TABLE t {change}", DeltaTable(table.store))


def _race(table: DeltaTable, write: str, *changes: str) -> _Meanwhile:
    observer = _Meanwhile(lambda: [_alter(table, change) for change in changes])
    run(parse_statement(write), table, None, observer=observer)
    return observer


def _create(do_lightly, *properties: str) -> None:
    off = "'delta.enableDeletionVectors' = 'false'"
    do_lightly(
        f"CREATE TABLE t (id BIGINT) USING DELTA TBLPROPERTIES ({', '.join((off, *properties))})"
    )
    do_lightly("INSERT INTO t VALUES (1), (2), (3)")


def _ids(table: DeltaTable) -> list[int]:
    return sorted(DeltaTable(table.store).snapshot().to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("write", WRITES)
def test_a_write_passes_a_commit_that_only_enables_a_feature_where_the_table_asks_for_it(
    do_lightly, empty_table, write
):
    """The write follows the new protocol: its in-commit timestamp is after the enabling commit's."""
    _create(do_lightly, ASKED)
    statement, ids = WRITES[write]
    observer = _race(empty_table, statement, *ENABLEMENTS.values())
    assert _ids(empty_table) == ids
    table = DeltaTable(empty_table.store)
    version = table.snapshot().version
    info = read_commit(table.store, version).commit_info
    before = read_commit(table.store, version - 1)
    assert info is not None
    assert info.operation == write
    assert info.in_commit_timestamp is not None
    assert info.in_commit_timestamp > before.timestamp_ms
    told = [(conflict.rule, conflict.how) for conflict in observer.resolved]
    why = "it only enabled {}, which does not affect running writes"
    assert told == [(Rule.PROTOCOL_CHANGED, why.format(feature)) for feature in ENABLEMENTS]
    [latest] = observer.resolved[-1].decision.winners[-1:]
    assert latest.verdicts[Rule.METADATA_CHANGED] is Verdict.RESOLVED
    assert latest.how == why.format("v2Checkpoint")


@pytest.mark.parametrize("properties", [(), (f"'{RESOLUTION_PROPERTY}' = 'false'",)])
@pytest.mark.parametrize("feature", ENABLEMENTS)
def test_a_write_is_aborted_where_the_table_does_not_ask(
    do_lightly, empty_table, feature, properties
):
    _create(do_lightly, *properties)
    with pytest.raises(ProtocolChangedException):
        _race(empty_table, WRITES["WRITE"][0], ENABLEMENTS[feature])
    assert _ids(empty_table) == [1, 2, 3]


@pytest.mark.parametrize("change", OTHERS)
def test_any_other_change_aborts_a_write_all_the_same(do_lightly, empty_table, change):
    _create(do_lightly, ASKED)
    with pytest.raises((ProtocolChangedException, MetadataChangedException)):
        _race(empty_table, WRITES["WRITE"][0], change)
    assert _ids(empty_table) == [1, 2, 3]


def test_disabling_a_feature_and_dropping_it_abort_a_write(do_lightly, empty_table):
    _create(do_lightly, ASKED)
    _alter(empty_table, ENABLEMENTS["v2Checkpoint"])
    classic = "SET TBLPROPERTIES ('delta.checkpointPolicy' = 'classic')"
    with pytest.raises(MetadataChangedException):
        _race(empty_table, WRITES["DELETE"][0], classic)
    with pytest.raises((ProtocolChangedException, MetadataChangedException)):
        _race(empty_table, WRITES["DELETE"][0], "DROP FEATURE v2Checkpoint TRUNCATE HISTORY")


def test_only_writes_of_rows_pass(do_lightly, empty_table):
    _create(do_lightly, ASKED)
    with pytest.raises((ProtocolChangedException, MetadataChangedException)):
        _race(empty_table, "ALTER TABLE t SET TBLPROPERTIES ('note' = 'x')", *ENABLEMENTS.values())
    for number, operation in enumerate(
        (
            "OPTIMIZE",
            "RESTORE",
            "CLONE",
            "ROW TRACKING BACKFILL",
            "CREATE OR REPLACE TABLE AS SELECT",
        )
    ):
        table = new_table(enableDeletionVectors="false")
        _alter(table, f"SET TBLPROPERTIES ({ASKED})")
        txn = table.start_transaction()
        _stage(table, txn, f"f{number}")
        _alter(table, ENABLEMENTS["deletionVectors"])
        with pytest.raises((ProtocolChangedException, MetadataChangedException)):
            txn.commit(operation)


def test_a_commit_that_does_more_than_enable_aborts_a_write():
    """Another engine's commit may hold files and progress beside the metadata."""
    for extra in (data_file("g"), SetTransaction(app_id="a", version=1)):
        table = new_table(enableDeletionVectors="false")
        _alter(table, f"SET TBLPROPERTIES ({ASKED})")
        txn = table.start_transaction()
        _stage(table, txn, "f")
        enabling = table.start_transaction()
        snapshot = table.snapshot()
        vectors = {"delta.enableDeletionVectors": "true"}
        _stage(table, enabling, "g")
        enabling._actions.clear()
        enabling.stage(
            upgrade(snapshot.protocol, {"deletionVectors"}),
            replace(
                snapshot.metadata, configuration={**snapshot.metadata.configuration, **vectors}
            ),
            extra,
        )
        enabling.commit("SET TBLPROPERTIES")
        with pytest.raises(ProtocolChangedException):
            txn.commit("WRITE")


def test_commits_after_the_enabling_one_are_checked_like_any_other(do_lightly, empty_table):
    _create(do_lightly, ASKED)

    def meanwhile() -> None:
        _alter(empty_table, ENABLEMENTS["deletionVectors"])
        run("UPDATE t SET id = 2 WHERE id = 3", DeltaTable(empty_table.store))

    with pytest.raises(ConflictError) as aborted:
        run("DELETE FROM t WHERE id = 2", empty_table, observer=_Meanwhile(meanwhile))
    assert isinstance(aborted.value, ConcurrentAppendException)
    assert [w.version for w in aborted.value.conflict.decision.winners] == [2, 3]


@given(st.lists(st.sampled_from([*ENABLEMENTS.values(), "begin", "commit", "begin", "commit"])))
def test_in_any_history_every_append_lands_and_times_rise(steps: list[str]):
    table = new_table(enableDeletionVectors="false")
    _alter(table, f"SET TBLPROPERTIES ({ASKED})")
    running, landed = [], set[str]()
    for number, step in enumerate([*steps, "begin", "commit"]):
        if step == "begin":
            running.append((f"f{number}", table.start_transaction()))
        elif step != "commit":
            _alter(table, step)
        elif running:
            path, txn = running.pop(number % len(running))
            _stage(table, txn, path)
            txn.commit("WRITE")
            landed.add(path)
    append(table, "last")
    assert paths_of(table) == landed | {"last"}
    times, has_enabled = [], False
    for version in range(DeltaTable.open(table.uri).snapshot().version + 1):
        info = read_commit(table.store, version).commit_info
        assert isinstance(info, CommitInfo)
        has_enabled = has_enabled or info.in_commit_timestamp is not None
        assert has_enabled == (info.in_commit_timestamp is not None)
        times += [info.in_commit_timestamp] if has_enabled else []
    assert times == sorted(set(times))


def _stage(table: DeltaTable, txn: object, path: str) -> None:
    table.store.put(path, b"")
    txn.stage(data_file(path))  # type: ignore[attr-defined]
