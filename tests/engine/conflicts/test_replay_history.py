"""What if the level had been another one, and which snapshots never were."""

from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.replay_history import (
    RecordedTable,
    find_passed_over,
    replay_history,
)
from engine.conflicts.transaction_info import WinningCommit
from tests.engine.conflicts.overlaps import SCHEMA, add, remove, winner

TABLE = RecordedTable("orders", SCHEMA, ("part",))


def _commit(
    *actions: object, version: int, read: int, operation: str, predicate: str | None = None, **rest
) -> WinningCommit:
    commit = winner(*actions, version=version, read=read, operation=operation, **rest)
    parameters = None if predicate is None else {"predicate": f'["{predicate}"]'}
    values = {"operation_parameters": parameters}
    info = type(commit.info)(
        operation=operation,
        read_version=read,
        is_blind_append=commit.info.is_blind_append,
        **values,
    )
    return WinningCommit(version=version, actions=commit.actions, info=info)


APPEND = _commit(add("w", "a"), version=1, read=0, operation="WRITE", blind=True)
DELETE_A = _commit(
    remove("f"), add("g", "a"), version=2, read=0, operation="DELETE", predicate="part = 'a'"
)
DELETE_B = _commit(
    remove("h"), add("i", "b"), version=2, read=0, operation="DELETE", predicate="part = 'b'"
)
MERGE = _commit(
    remove("f"), add("g", "b"), version=2, read=0, operation="MERGE", predicate="s.x = t.x"
)


def _verdicts(level: IsolationLevel, *commits: WinningCommit):
    return {verdict.version: verdict for verdict in replay_history(commits, TABLE, level)}


def test_a_delete_that_passed_an_append_would_be_aborted_at_serializable():
    relaxed = _verdicts(IsolationLevel.WRITE_SERIALIZABLE, APPEND, DELETE_A)
    strict = _verdicts(IsolationLevel.SERIALIZABLE, APPEND, DELETE_A)
    assert relaxed[2].conflict is None
    assert strict[2].conflict is not None
    assert (strict[2].conflict.rule, strict[2].overlapping_versions) == ("data_added", (1,))
    assert strict[2].certain


def test_another_partition_would_have_passed_at_both_levels():
    for level in (IsolationLevel.SERIALIZABLE, IsolationLevel.WRITE_SERIALIZABLE):
        assert _verdicts(level, APPEND, DELETE_B)[2].conflict is None


def test_a_condition_that_is_not_understood_reads_everything_and_says_so():
    verdict = _verdicts(IsolationLevel.SERIALIZABLE, APPEND, MERGE)[2]
    assert verdict.conflict is not None
    assert not verdict.certain


def test_the_version_of_a_write_that_passed_an_append_over_is_out_of_order():
    pairs = list(find_passed_over([APPEND, DELETE_A], TABLE))
    assert [(pair.append_version, pair.version) for pair in pairs] == [
        (APPEND.version, DELETE_A.version)
    ]
    assert not list(find_passed_over([APPEND, DELETE_B], TABLE))
