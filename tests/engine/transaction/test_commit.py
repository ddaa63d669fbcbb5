"""The commit loop: versions of the winners, recognition of own commits, and the resulting log."""

import json
import logging

import msgspec
import pytest

from engine.actions.commit_info import CommitInfo
from engine.actions.table import SetTransaction
from engine.deletion_vectors.files import write_deletion_vector
from engine.errors import (
    AppendOnlyError,
    CommitOutcomeUnknownError,
    ConcurrentDeleteReadException,
    InvalidIsolationLevelError,
    LogCleanedError,
    MaxCommitRetriesError,
    OperationCancelledError,
    ProtocolChangedException,
    RequestError,
    StorageError,
    UnsupportedFeatureError,
)
from engine.log.commits import read_commit
from engine.log.paths import checkpoint_path, commit_path
from engine.schema.types import LONG, StructField, StructType
from engine.snapshot.new_table import first_actions
from engine.table import DeltaTable
from engine.transaction.log_tail import find_own_commit
from engine.transaction.observer import ObservedTransaction, TransactionObserver
from engine.transaction.optimistic_transaction import OptimisticTransaction
from engine.transaction.pending_commit import CommitLimits
from tests.engine.made_tables import stage
from tests.engine.transaction.tables import (
    SCHEMA,
    FakeClock,
    append,
    data_file,
    new_table,
    open_failing,
    paths_of,
    removal_of,
)


class Meanwhile(TransactionObserver):
    """A store that acts right before each put, a given number of times."""

    def __init__(self, act, times: int = 1) -> None:
        self.act, self.times, self.phases = act, times, []

    def before_commit(self, _txn: ObservedTransaction, attempt_version: int) -> None:
        self.phases.append(("before_commit", attempt_version))
        if self.times:
            self.times -= 1
            self.act()

    def winner_found(self, _txn: ObservedTransaction, winning_version: int) -> None:
        self.phases.append(("winner_found", winning_version))

    def committed(self, _txn: ObservedTransaction, committed_version: int) -> None:
        self.phases.append(("committed", committed_version))

    def failed(self, _txn: ObservedTransaction, error: Exception) -> None:
        self.phases.append(("failed", type(error).__name__))


def test_the_first_commit_lands_right_after_the_version_that_was_read():
    table = new_table()
    txn = table.start_transaction()
    stage(txn, data_file("a"))
    assert txn.commit("WRITE") == txn.read_version + 1
    assert txn.outcome is not None
    assert (txn.outcome.attempts, txn.outcome.recognized) == (1, False)


def test_a_directory_in_the_place_of_the_next_commit_ends_it_at_the_first_attempt(tmp_path):
    table = DeltaTable.create(str(tmp_path), SCHEMA)
    (tmp_path / commit_path(1)).mkdir()
    observer = Meanwhile(lambda: None)
    txn = table.start_transaction(observer=observer)
    stage(txn, data_file("a"))
    with pytest.raises(StorageError, match=r"00000001\.json of .* is a directory"):
        txn.commit("WRITE")
    assert [phase for phase, _ in observer.phases] == ["before_commit", "failed"]


def test_the_loser_of_a_race_for_a_version_commits_the_next_one():
    table = new_table()
    observer = Meanwhile(lambda: append(table, "other"), times=3)
    txn = table.start_transaction(observer=observer)
    stage(txn, data_file("mine"))
    assert txn.commit("WRITE") == 4
    assert txn.outcome is not None
    assert txn.outcome.attempts == 4
    assert observer.phases == [
        ("before_commit", 1),
        ("winner_found", 1),
        ("before_commit", 2),
        ("winner_found", 2),
        ("before_commit", 3),
        ("winner_found", 3),
        ("before_commit", 4),
        ("committed", 4),
    ]


def test_a_winner_between_validation_and_put_is_checked_too():
    table = new_table()
    append(table, "a")

    def remove() -> None:
        other = table.start_transaction()
        stage(other, removal_of("a"))
        other.commit("DELETE")

    observer = Meanwhile(remove)
    txn = table.start_transaction(observer=observer)
    txn.read_where("x = 1")
    stage(txn, data_file("b"))
    with pytest.raises(ConcurrentDeleteReadException):
        txn.commit("WRITE")
    assert observer.phases[-1] == ("failed", "ConcurrentDeleteReadException")
    assert table.version() == 2


def test_a_commit_that_loses_the_race_too_often_raises():
    table = new_table()
    observer = Meanwhile(lambda: append(table, "other"), times=10)
    txn = OptimisticTransaction(
        table, table.snapshot(), observer=observer, limits=CommitLimits(attempts=3)
    )
    stage(txn, data_file("mine"))
    with pytest.raises(MaxCommitRetriesError, match="3 times"):
        txn.commit("WRITE")
    assert "mine" not in paths_of(table)


def test_a_backlog_of_winners_is_checked_in_order_to_the_last():
    table = new_table()
    observer = Meanwhile(lambda: None, times=0)
    txn = table.start_transaction(observer=observer)
    stage(txn, data_file("mine"))
    for number in range(90):
        append(table, f"w{number}")
    assert txn.commit("WRITE") == 91
    met = [version for phase, version in observer.phases if phase == "winner_found"]
    assert met == list(range(1, 91))


def test_nothing_staged_makes_no_version_but_is_checked():
    table = new_table()
    append(table, "a")
    txn = table.start_transaction()
    txn.read_where("x = 1")
    append(table, "b")
    assert txn.commit("DELETE") == 2
    assert txn.outcome is not None
    assert not txn.outcome.committed
    assert table.version() == 2


def test_a_transaction_commits_once():
    table = new_table()
    txn = table.start_transaction()
    stage(txn, data_file("a"))
    txn.commit("WRITE")
    with pytest.raises(RequestError, match="already"):
        txn.commit("WRITE")


@pytest.mark.parametrize("landed", [True, False])
def test_an_unknown_outcome_tries_the_same_version_and_recognizes_itself(landed: bool):
    table = new_table()
    mode = "unknown, written" if landed else "unknown, not written"
    handle, store = open_failing(table, mode=mode)
    txn = handle.start_transaction()
    stage(txn, data_file("a"))
    store.fail_at = store.calls + _calls_before_put()
    assert txn.commit("WRITE") == 1
    assert store.fired
    assert txn.outcome is not None
    assert txn.outcome.recognized is landed
    assert table.version() == 1


def _calls_before_put() -> int:
    """Return how many store calls a plain append makes up to and including its put."""
    handle, store = open_failing(new_table())
    txn = handle.start_transaction()
    stage(txn, data_file("a"))
    before = store.calls
    txn.commit("WRITE")
    return store.puts[0] - before


def test_an_outcome_that_stays_unknown_is_reported_as_that():
    table = new_table()
    handle, store = open_failing(table, mode="unknown, not written", times=10_000)
    txn = handle.start_transaction()
    stage(txn, data_file("a"))
    store.fail_at = store.calls + _calls_before_put()
    with pytest.raises(CommitOutcomeUnknownError, match=txn.txn_id):
        txn.commit("WRITE")


def test_a_lost_response_does_not_hide_that_another_won():
    table = new_table()
    handle, store = open_failing(table, mode="unknown, not written")
    observer = Meanwhile(lambda: append(table, "other"))
    txn = handle.start_transaction()
    txn.observe(observer)
    stage(txn, data_file("mine"))
    store.fail_at = store.calls + _calls_before_put()
    assert txn.commit("WRITE") == 2
    assert paths_of(table) == {"other", "mine"}


def test_an_earlier_commit_is_found_by_its_txn_id():
    table = new_table()
    append(table, "a", txn_id="job-1")
    append(table, "b")
    own = find_own_commit(table.store, "job-1", 0, table.version())
    assert own is not None
    assert own.version == 1
    assert find_own_commit(table.store, "job-2", 0, table.version()) is None
    assert find_own_commit(table.store, "job-1", 1, table.version()) is None


def test_an_earlier_commit_that_was_cleaned_away_is_unknown_not_absent():
    table = new_table()
    append(table, "a", txn_id="job-1")
    append(table, "b")
    table.store.delete(commit_path(1))
    with pytest.raises(CommitOutcomeUnknownError, match="version 1"):
        find_own_commit(table.store, "job-1", 0, 2)
    assert find_own_commit(table.store, "job-1", 1, 2) is None


@pytest.mark.parametrize("read_version_kept", [True, False])
def test_a_log_cleaned_between_read_and_commit_is_noticed(read_version_kept: bool):
    """A put into the gap would succeed, but no reader would ever see it."""
    table = new_table(checkpointInterval="5")
    append(table, "a")
    txn = table.start_transaction()
    for i in range(6):
        append(table, f"f{i}")
    assert table.store.stat(checkpoint_path(5)) is not None
    for version in range(2 if read_version_kept else 0, 5):
        table.store.delete(commit_path(version))
    stage(txn, data_file("mine"))
    with pytest.raises(LogCleanedError, match="2 to 7"):
        txn.commit("WRITE")
    assert table.store.stat(commit_path(2)) is None


def test_a_table_whose_commits_end_in_a_checkpoint_can_be_written():
    table = new_table(checkpointInterval="2")
    append(table, "a")
    append(table, "b")
    for version in range(3):
        table.store.delete(commit_path(version))
    assert append(DeltaTable.open(table.uri), "c") == 3


def test_two_creators_of_one_table_conflict_with_a_hint():
    first = new_table()
    second = OptimisticTransaction(first, None)
    actions = first_actions(SCHEMA, (), (), {}, now_ms=1)
    stage(second, *(action for action in actions if not isinstance(action, CommitInfo)))
    with pytest.raises(ProtocolChangedException, match="created the table") as raised:
        second.commit("CREATE TABLE")
    assert not raised.value.conflict.can_retry


def test_checkpoints_come_by_interval_and_never_fail_a_commit(caplog: pytest.LogCaptureFixture):
    table = new_table(checkpointInterval="2")
    append(table, "a")
    append(table, "b")
    assert table.store.stat(checkpoint_path(2)) is not None
    append(table, "c")
    handle, store = open_failing(table, times=10_000)
    txn = handle.start_transaction()
    stage(txn, data_file("d"))
    store.fail_at = store.calls + _calls_before_put() + 2
    with caplog.at_level(logging.WARNING):
        assert txn.commit("WRITE") == 4
    assert caplog.records, "nobody was told"
    assert table.store.stat(checkpoint_path(4)) is None


def test_cancellation_before_the_put_writes_nothing():
    table = new_table()

    def cancel() -> None:
        what = "The job was cancelled."
        raise OperationCancelledError(what)

    txn = table.start_transaction(observer=Meanwhile(cancel))
    stage(txn, data_file("a"))
    with pytest.raises(OperationCancelledError):
        txn.commit("WRITE")
    assert table.version() == 0


def test_in_commit_timestamps_rise_even_if_the_clock_goes_back():
    table = new_table(enableInCommitTimestamps="true")
    clock = FakeClock(ms=table.snapshot().timestamp_ms)
    for i in range(50):
        clock.ms += 3_600_000 if i % 2 else -7_200_000
        txn = OptimisticTransaction(table, table.snapshot(), clock=clock)
        stage(txn, data_file(f"f{i}"))
        txn.commit("WRITE")
        assert txn.outcome is not None
    infos = [read_commit(table.store, v).commit_info for v in range(51)]
    times = [info.in_commit_timestamp for info in infos if info and info.in_commit_timestamp]
    assert len(times) == 51
    assert times == sorted(set(times))


def test_commit_info_equals_delta_sparks():
    table = new_table()
    append(table, "a")
    txn = table.start_transaction(txn_id="job-7")
    txn.read_where("x = 1")
    stage(txn, removal_of("a"))
    txn.commit(
        "DELETE",
        {"predicate": ["(x = 1)"], "auto": False},
        {"numDeletedRows": 1},
        user_metadata="why",
    )
    line = table.store.read(commit_path(2)).splitlines()[0]
    info = json.loads(line)["commitInfo"]
    assert info.pop("timestamp") > 0
    assert info == {
        "operation": "DELETE",
        "operationParameters": {"predicate": '["(x = 1)"]', "auto": False},
        "operationMetrics": {"numDeletedRows": "1"},
        "readVersion": 1,
        "isolationLevel": "WriteSerializable",
        "isBlindAppend": False,
        "userMetadata": "why",
        "engineInfo": "lakeui/0.2",
        "txnId": "job-7",
    }


def test_an_application_reads_its_last_version():
    table = new_table()
    txn = table.start_transaction()
    stage(txn, SetTransaction(app_id="stream", version=4), data_file("a"))
    txn.commit("STREAMING UPDATE")
    assert table.start_transaction().read_application("stream") == 4
    assert table.start_transaction().read_application("other") is None


def test_a_file_added_again_must_still_be_there():
    """New statistics for a file that another commit removed would restore the file."""
    table = new_table()
    append(table, "a")
    txn = table.start_transaction()
    stage(txn, data_file("a", data_change=False, stats='{"numRecords":1,"nullCount":{}}'))
    other = table.start_transaction()
    stage(other, removal_of("a"))
    other.commit("DELETE")
    with pytest.raises(ConcurrentDeleteReadException):
        txn.commit("COMPUTE STATS")


@pytest.mark.parametrize("removes", [(), (removal_of("a"),)], ids=["none", "as it was before"])
def test_a_file_is_not_live_under_two_deletion_vectors(removes):
    table = new_table()
    append(table, "a")
    first, second = (write_deletion_vector(table.store, [row]) for row in (0, 1))
    stats = '{"numRecords":3}'
    txn = table.start_transaction()
    stage(txn, removal_of("a"), data_file("a", stats=stats, deletion_vector=first))
    txn.commit("DELETE")
    wrong = table.start_transaction()
    stage(wrong, *removes, data_file("a", stats=stats, deletion_vector=second))
    with pytest.raises(RequestError, match="a second deletion vector"):
        wrong.commit("DELETE")
    right = table.start_transaction()
    stage(
        right,
        removal_of("a", deletion_vector=first),
        data_file("a", stats=stats, deletion_vector=second),
    )
    right.commit("DELETE")
    assert len(DeltaTable.open(table.uri).snapshot().add_files()) == 1


def test_append_only_tables_give_nothing_up():
    table = new_table(appendOnly="true")
    append(table, "a")
    txn = table.start_transaction()
    stage(txn, removal_of("a"))
    with pytest.raises(AppendOnlyError):
        txn.commit("DELETE")
    again = table.start_transaction()
    stage(again, removal_of("a", data_change=False), data_file("b", data_change=False))
    assert again.commit("OPTIMIZE") == 2


def _change_metadata(table: DeltaTable, **configuration: str):
    metadata = table.snapshot().metadata
    named = {f"delta.{key}": value for key, value in configuration.items()}
    return msgspec.structs.replace(metadata, configuration={**metadata.configuration, **named})


def test_an_isolation_level_that_does_not_exist_is_refused():
    table = new_table()
    txn = table.start_transaction()
    stage(txn, _change_metadata(table, isolationLevel="SnapshotIsolation"))
    with pytest.raises(InvalidIsolationLevelError):
        txn.commit("SET TBLPROPERTIES")


def test_a_property_whose_feature_the_protocol_lacks_is_refused():
    table = new_table(enableDeletionVectors="false")
    txn = table.start_transaction()
    stage(txn, _change_metadata(table, enableInCommitTimestamps="true"))
    with pytest.raises(RequestError, match="inCommitTimestamp"):
        txn.commit("SET TBLPROPERTIES")


def test_a_protocol_that_this_engine_cannot_write_is_refused_by_name():
    table = new_table()
    protocol = table.snapshot().protocol
    features = [*(protocol.writer_features or []), "icebergCompatV1"]
    txn = table.start_transaction()
    stage(txn, msgspec.structs.replace(protocol, writer_features=features))
    with pytest.raises(UnsupportedFeatureError, match="icebergCompatV1"):
        txn.commit("UPGRADE PROTOCOL")


@pytest.mark.parametrize(
    "actions",
    [
        (SetTransaction(app_id="a", version=1), SetTransaction(app_id="a", version=2)),
        (data_file("a"), data_file("a")),
        (removal_of("a"), removal_of("a")),
        (removal_of("a"), data_file("a")),
    ],
)
def test_actions_that_contradict_each_other_are_refused(actions):
    table = new_table()
    txn = table.start_transaction()
    stage(txn, *actions)
    with pytest.raises(RequestError, match="two actions"):
        txn.commit("WRITE")
    assert table.version() == 0


@pytest.mark.parametrize("values", [{}, {"x": "1", "y": "2"}, {"y": "2"}])
def test_a_file_without_the_right_partition_values_is_refused(values: dict[str, str]):
    """They decide which writes conflict with the file: one with missing values would be overlooked."""
    schema = StructType((StructField("x", LONG), StructField("y", LONG)))
    table = DeltaTable.create(f"{new_table().uri}-parted", schema, ["x"])
    txn = table.start_transaction()
    stage(txn, msgspec.structs.replace(data_file("a"), partition_values=values))
    with pytest.raises(RequestError, match="the table has x"):
        txn.commit("WRITE")


def test_a_store_that_fails_before_the_put_fails_the_commit():
    table = new_table()
    handle, store = open_failing(table, mode="before")
    txn = handle.start_transaction()
    stage(txn, data_file("a"))
    store.fail_at = store.calls + _calls_before_put()
    with pytest.raises(StorageError):
        txn.commit("WRITE")
    assert table.version() == 0
