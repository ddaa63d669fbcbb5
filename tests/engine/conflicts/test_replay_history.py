"""Replays of a history at another isolation level, and its impossible snapshots."""

from engine.actions.table import Metadata
from engine.conflict_facts import Verdict
from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.predict.record_replay import ReplaySetting, judge_commit
from engine.conflicts.predict.replay_history import (
    RecordedTable,
    find_passed_over,
    replay_history,
)
from engine.conflicts.predict.sample_table import TableSetting
from engine.conflicts.reads import READS_PREDICATE_ONLY
from engine.conflicts.transaction_info import WinningCommit
from tests.engine.conflicts.overlaps import SCHEMA, add, remove, vector, winner

TABLE = RecordedTable("orders", SCHEMA, ("part",))


def _commit(
    *actions: object,
    version: int,
    read: int,
    operation: str,
    predicate: str | None = None,
    tags: dict[str, str] | None = None,
    **rest: object,
) -> WinningCommit:
    commit = winner(*actions, version=version, read=read, operation=operation, **rest)
    parameters = None if predicate is None else {"predicate": f'["{predicate}"]'}
    values = {"operation_parameters": parameters, "tags": tags}
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


def test_a_constraint_that_passed_an_append_would_have_been_aborted_at_both_levels():
    """The constraint reads every row, regardless of its log entry."""
    metadata = Metadata(id="t", schema_string=SCHEMA.to_json())
    constraint = _commit(metadata, version=2, read=0, operation="ADD CONSTRAINT")
    columns = _commit(metadata, version=2, read=0, operation="ADD COLUMNS")
    for level in (IsolationLevel.SERIALIZABLE, IsolationLevel.WRITE_SERIALIZABLE):
        verdict = _verdicts(level, APPEND, constraint)[2]
        assert verdict.conflict is not None
        assert (verdict.conflict.rule, verdict.certain) == ("data_added", True)
        assert _verdicts(level, APPEND, columns)[2].conflict is None


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


def test_a_write_is_certain_only_where_the_log_records_all_its_reads():
    """A write that may have read more counts as a read of everything: then "passes" is certain."""
    tagged = {READS_PREDICATE_ONLY: "true"}
    for operation, predicate, tags, certain in (
        ("DELETE", "part = 'b'", None, True),
        ("UPDATE", "part = 'b'", tagged, True),
        ("UPDATE", "part = 'b'", None, False),  # a value it set may be a subquery over the table
        ("UPDATE", "part = 'b'", {READS_PREDICATE_ONLY: "false"}, False),
        ("MERGE", "part = 'b'", tagged, False),
        ("DELETE", "part = 'b' AND part IN (SELECT part FROM t)", None, False),
        ("DELETE", r"\"part\" = 'b'", None, False),  # a text here, a column for others
        ("DELETE", "part = CAST(current_date() AS STRING)", None, False),
        ("DELETE", "(part#12 = b)", None, False),
        ("DELETE", None, None, False),
    ):
        write = _commit(
            remove("h"), add("i", "b"),
            version=2, read=0, operation=operation, predicate=predicate, tags=tags,
        )  # fmt: skip
        verdict = _verdicts(IsolationLevel.SERIALIZABLE, APPEND, write)[2]
        assert verdict.certain is certain, (operation, predicate)
        assert (verdict.conflict is None) is certain, (operation, predicate)


def _mask(path: str, after: str, before: str | None = None) -> tuple[object, object]:
    """Return the file with another deletion vector."""
    return (
        remove(path, deletion_vector=before and vector(before)),
        add(path, deletion_vector=vector(after)),
    )


def test_two_deletes_of_shared_rows_pass_where_rows_decide():
    """An intervening command of another kind stops the second DELETE, as it would have in the past."""
    first = _commit(
        *_mask("f", "v1"), version=1, read=0, operation="DELETE", predicate="part = 'a'"
    )
    second = _commit(
        *_mask("f", "v2", "v1"), version=2, read=0, operation="DELETE", predicate="part = 'a'"
    )
    update = _commit(
        *_mask("f", "v1"), add("n", "a"), version=1, read=0, operation="UPDATE", predicate="TRUE"
    )
    metadata = winner(
        *_mask("f", "v1"), Metadata(id="t", schema_string=SCHEMA.to_json()), version=1, read=0
    )
    level = IsolationLevel.SERIALIZABLE
    setting = TableSetting(level, vectors=True)
    for landed, row_level, verdict in (
        (first, True, Verdict.PASSES),
        (first, False, Verdict.CONFLICT),
        (update, True, Verdict.UNDECIDABLE),
        (metadata, True, Verdict.CONFLICT),
    ):
        replayed = _verdicts(level, landed, second)[2]
        asked = ReplaySetting(level, row_level, rows_decided=True, eligible=setting)
        judged = judge_commit(replayed, asked, recorded_level="WriteSerializable")
        assert judged.verdict is verdict, (landed.operation, row_level)


def test_an_append_that_a_delete_may_have_read_stops_the_second_delete():
    """The first DELETE settles the order of the append, regardless of the rows that the two share."""
    append = _commit(add("w", "a"), version=1, read=0, operation="WRITE", blind=True)
    first = _commit(
        *_mask("f", "v1"), version=2, read=1, operation="DELETE", predicate="part = 'a'"
    )
    second = _commit(
        *_mask("f", "v2", "v1"), version=3, read=0, operation="DELETE", predicate="part = 'a'"
    )
    replayed = _verdicts(IsolationLevel.WRITE_SERIALIZABLE, append, first, second)[3]
    assert replayed.row_conflict is not None
    assert replayed.row_conflict.rule == "data_added"
